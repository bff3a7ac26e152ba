//! Generic-netlink sockets that are connections to the gateway.

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use ovpn_dco_protocol::SUBSCRIBE;
use support::child::Script;
use support::gateway::{Gateway, Packet};
use support::packets::{done, error, message};

fn with<T>(
    rule: impl Fn(&Packet) -> Option<Vec<Vec<u8>>> + Send + Sync + 'static,
    test: impl FnOnce(&Gateway, &Path) -> T,
) -> T {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&path, rule);
    test(&gateway, &path)
}

fn run(text: &str) {
    with(|_| None, |_, path| Script::start(Some(path), text).end());
}

#[test]
fn addresses() {
    run("
s = socket.socket(16, 3, GENERIC)
expect(ours(s), True)
expect(s.getsockname(), (0, 0))
s.bind((0x12345678, 0))
expect(s.getsockname(), (0x12345678, 0))
t = generic()
expect(t.getsockname(), (os.getpid(), 0))
libc = ctypes.CDLL(None, use_errno=True)
def failing(number, result):
    expect((result, ctypes.get_errno()), (-1, number))
failing(errno.EINVAL, libc.bind(t.fileno(), b'\\x10\\0' + bytes(10), 11))
failing(errno.EINVAL, libc.bind(t.fileno(), b'\\x02\\0' + bytes(10), 12))
failing(errno.EFAULT, libc.bind(t.fileno(), None, 12))
failing(errno.EFAULT, libc.getsockname(t.fileno(), None, ctypes.byref(ctypes.c_uint(12))))
room, length = ctypes.create_string_buffer(b'\\xee' * 20), ctypes.c_uint(4)
expect(libc.getsockname(t.fileno(), room, ctypes.byref(length)), 0)
expect((length.value, room.raw[:6]), (12, b'\\x10\\0\\0\\0\\xee\\xee'))
");
}

#[test]
fn flags_of_socket_are_kept() {
    run("
import fcntl
libc = ctypes.CDLL(None)
for kind in (2, 3):
    for close in (0, socket.SOCK_CLOEXEC):
        for block in (0, socket.SOCK_NONBLOCK):
            fd = libc.socket(16, kind | close | block, GENERIC)
            expect(fcntl.fcntl(fd, fcntl.F_GETFD), 1 if close else 0)
            expect(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK, os.O_NONBLOCK if block else 0)
            os.close(fd)
");
}

#[test]
fn options() {
    with(
        |_| None,
        |gateway, path| {
            Script::start(
                Some(path),
                "
s = generic()
s.setsockopt(SOL_NETLINK, 11, 1)
s.setsockopt(SOL_NETLINK, 2, 0x11)
s.setsockopt(SOL_NETLINK, 1, 0x11)
s.setsockopt(SOL_NETLINK, 1, 0x12)
fails(errno.EINVAL, s.setsockopt, SOL_NETLINK, 1, b'xx')
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50000)
expect(s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), 100000)
fails(errno.ENOPROTOOPT, s.setsockopt, socket.SOL_SOCKET, 9999, 1)
ask(s, command(3, 5))
",
            )
            .end();
            let groups: Vec<Vec<u8>> = gateway
                .packets()
                .iter()
                .filter(|packet| packet.kind() == SUBSCRIBE)
                .map(|packet| packet.bytes.clone())
                .collect();
            let wanted = [0x11_u32, 0x12].map(|group| message(SUBSCRIBE, 1, 0, 0, &group.to_ne_bytes()));
            assert_eq!(groups, wanted);
        },
    );
}

#[test]
fn requests_arrive_as_they_are() {
    with(
        |_| None,
        |gateway, path| {
            Script::start(
                Some(path),
                "
s = generic()
data = command(4, 0x1234) + bytes(3000)
data = struct.pack('=I', len(data)) + data[4:]
# Name and control data are netlink's and stay here.
expect(s.sendmsg([data[:1], b'', data[1:17], data[17:]], [(270, 3, bytes(12))], 0, (0, 0)), len(data))
expect(header(read(s))['seq'], 0x1234)
",
            )
            .end();
            let sent = gateway.packets().into_iter().next_back().unwrap();
            assert_eq!(sent.bytes.len(), 28 + 3000);
            assert_eq!(sent.bytes[..8], message(0x31, 5, 0, 0, &[0; 3012])[..8]);
        },
    );
}

#[test]
fn peek_and_truncate() {
    run("
s = generic()
send(s, command(3, 5))
whole, flags = receive(s, 4096, socket.MSG_PEEK)
expect((len(whole), flags), (36, 0))
part, flags = receive(s, 10, socket.MSG_PEEK)
expect((part, flags), (whole[:10], socket.MSG_TRUNC))
# The length of the whole, as libnl wants to know it.
libc = ctypes.CDLL(None)
class Vec(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
class Msg(ctypes.Structure):
    _fields_ = [('name', ctypes.c_void_p), ('namelen', ctypes.c_uint), ('iov', ctypes.POINTER(Vec)),
        ('iovlen', ctypes.c_size_t), ('control', ctypes.c_void_p), ('controllen', ctypes.c_size_t),
        ('flags', ctypes.c_int)]
room = ctypes.create_string_buffer(16)
name = ctypes.create_string_buffer(b'\\xee' * 20)
vecs = (Vec * 2)(Vec(ctypes.addressof(room), 3), Vec(ctypes.addressof(room) + 3, 7))
m = Msg(ctypes.addressof(name), 12, vecs, 2, ctypes.addressof(room), 16, 99)
expect(libc.recvmsg(s.fileno(), ctypes.byref(m), socket.MSG_PEEK | socket.MSG_TRUNC), 36)
expect((m.namelen, m.controllen, m.flags), (12, 0, socket.MSG_TRUNC))
expect(name.raw[:12], b'\\x10\\0' + bytes(10))
expect(name.raw[12:13], b'\\xee')
expect(room.raw[:10], whole[:10])
m.name = None
m.namelen = 0
expect(libc.recvmsg(s.fileno(), ctypes.byref(m), 0), 10)
expect((m.namelen, m.flags), (0, socket.MSG_TRUNC))
s.setblocking(False)
fails(errno.EAGAIN, receive, s)
s.setblocking(True)
fails(errno.EAGAIN, receive, s, 100, socket.MSG_DONTWAIT)
");
}

/// The daemon's socket does not block, and it asks in a loop: an answer that takes its time is waited for.
#[test]
fn an_answer_is_waited_for() {
    let slow = |packet: &Packet| {
        if packet.protocol != Some(16) || packet.kind() != 0x31 {
            return None;
        }
        std::thread::sleep(Duration::from_millis(300));
        let part = |peer: u8| message(0x31, 2, 5, 0, &[7, 1, 0, peer]);
        Some(vec![part(1), part(2), part(3), done(&packet.bytes)])
    };
    with(slow, |_, path| {
        Script::start(
            Some(path),
            "
s = generic(blocking=False)
answers = ask(s, command(7, 5, DUMP | ACK))
expect([a[19] for a in answers[:-1]], [1, 2, 3])
# The end of a dump is the end of waiting.
fails(errno.EAGAIN, receive, s)
# A peek at the end is not.
send(s, command(7, 5, DUMP))
for _ in range(3): receive(s)
receive(s, 4096, socket.MSG_PEEK)
expect(header(receive(s)[0])['kind'], 3)
fails(errno.EAGAIN, receive, s)
# What asks for no answer is not waited for.
send(s, command(2, 5, 0))
fails(errno.EAGAIN, receive, s)
",
        )
        .end();
    });
}

/// All of an answer is, not only its start.
#[test]
fn the_rest_of_an_answer_is_waited_for() {
    let part = |peer: u8| message(0x31, 2, 5, 0, &[7, 1, 0, peer]);
    let start = move |packet: &Packet| (packet.kind() == 0x31).then(|| vec![part(1)]);
    with(start, |gateway, path| {
        let text = "
s = generic(blocking=False)
expect([len(a) for a in ask(s, command(7, 5, DUMP | ACK))], [20, 20, 20])
";
        let script = Script::start(Some(path), text);
        let request = gateway.wait_for("request", |packet| packet.kind() == 0x31);
        for next in [part(2), done(&request.bytes)] {
            std::thread::sleep(Duration::from_millis(300));
            gateway.send(request.connection, &next);
        }
        script.end();
    });
}

#[test]
fn errors_are_passed_on() {
    let refuse = |packet: &Packet| (packet.kind() == 0x31).then(|| vec![error(&packet.bytes, -28)]);
    with(refuse, |_, path| {
        let text = "
s = generic()
[answer] = ask(s, command(1, 5))
expect(struct.unpack('=i', answer[16:20]), (-28,))
";
        Script::start(Some(path), text).end();
    });
}

#[test]
fn a_gateway_that_says_nothing_is_none() {
    with(
        |packet| (packet.kind() == 0x31).then(Vec::new),
        |_, path| {
            let start = Instant::now();
            let text = "
s = generic(blocking=False)
send(s, command(1, 5))
fails(errno.ENODEV, receive, s, 4096, socket.MSG_PEEK)
fails(errno.EAGAIN, receive, s)
";
            Script::start(Some(path), text).end();
            assert!(
                (15..25).contains(&start.elapsed().as_secs()),
                "{:?}",
                start.elapsed()
            );
        },
    );
}

#[test]
fn the_end_of_the_gateway_is_enodev() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&path, |packet| (packet.kind() == 0x31).then(Vec::new));
    let mut script = Script::start(
        Some(&path),
        "
import signal, threading
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
idle, waiting = generic(blocking=False), generic()
send(waiting, command(1, 5))
def wait():
    fails(errno.ENODEV, receive, waiting)
    say('told')
thread = threading.Thread(target=wait)
thread.start()
say()
thread.join()
poll = select.poll()
poll.register(idle, select.POLLIN)
expect(poll.poll(1000)[0][1] & select.POLLIN, select.POLLIN)
for _ in range(2):
    fails(errno.ENODEV, receive, idle)
    fails(errno.ENODEV, send, idle, command(1, 6))
    fails(errno.ENODEV, idle.setsockopt, SOL_NETLINK, 1, 0x11)
",
    );
    script.expect("ready");
    gateway.wait_for("request", |packet| packet.kind() == 0x31);
    std::thread::sleep(Duration::from_millis(100));
    drop(gateway);
    script.expect("told");
    script.end();
}

#[test]
fn errno_stays_as_it_was() {
    run("
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    ctypes.set_errno(77)
    result = getattr(libc, name)(*args)
    expect(ctypes.get_errno(), 77)
    assert result >= 0, (name, result)
    return result
# The first one makes the connection as well, whose number 512 is more than is allowed here.
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
fd = call('socket', 16, 3 | socket.SOCK_NONBLOCK, GENERIC)
call('bind', fd, b'\\x10\\0' + bytes(10), 12)
call('getsockname', fd, ctypes.create_string_buffer(12), ctypes.byref(ctypes.c_uint(12)))
call('setsockopt', fd, 270, 1, b'\\x11\\0\\0\\0', 4)
call('setsockopt', fd, 1, 8, b'\\0\\x10\\0\\0', 4)
data = command(1, 5)
def msg(buffer, size):
    vec = ctypes.create_string_buffer(struct.pack('=QQ', ctypes.addressof(buffer), size))
    return vec, struct.pack('=QIIQQQQi4x', 0, 0, 0, ctypes.addressof(vec), 1, 0, 0, 0)
out = ctypes.create_string_buffer(data)
vec, m = msg(out, len(data))
call('sendmsg', fd, m, 0)
room = ctypes.create_string_buffer(4096)
vec, m = msg(room, 4096)
call('recvmsg', fd, m, 0x22)
call('recvmsg', fd, m, 0)
call('close', fd)
r = call('socket', 16, 3, 0)
out = ctypes.create_string_buffer(link(18, ACK, 5))
vec, m = msg(out, 32)
call('sendmsg', r, m, 0)
call('close', r)
");
}

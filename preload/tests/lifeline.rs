//! The connection by path: one per process, for all that comes later.

mod support;

use ovpn_dco_protocol::{GENERIC, HELLO, OPEN, ROUTE};
use support::child::Script;
use support::gateway::{Gateway, Packet};

fn run(text: &str) -> Gateway {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::start(&path);
    Script::start(Some(&path), text).end();
    gateway
}

fn of_kind(gateway: &Gateway, kind: u16) -> usize {
    gateway
        .packets()
        .iter()
        .filter(|packet| packet.kind() == kind)
        .count()
}

#[test]
fn one_connection_for_all() {
    let gateway = run("
sockets = [generic() for _ in range(20)]
for number, s in enumerate(sockets):
    ask(s, command(3, number + 1))
ask(route(), link(18, ACK, 99))
ask(generic(), command(3, 100))
");
    assert_eq!(gateway.accepted(), 1);
    let packets = gateway.packets();
    assert_eq!(packets[0].kind(), HELLO);
    assert_eq!(
        packets[0].bytes[16..],
        [1_u32.to_ne_bytes(), ROUTE.to_ne_bytes()].concat()
    );
    let opens: Vec<&Packet> = packets
        .iter()
        .map(|p| &**p)
        .filter(|p| p.kind() == OPEN)
        .collect();
    assert_eq!(opens.len(), 21);
    for open in opens {
        assert_eq!(
            (open.connection, &open.bytes[16..]),
            (packets[0].connection, &GENERIC.to_ne_bytes()[..])
        );
    }
    gateway.wait_open(0);
}

/// Nothing of it is to be seen in the daemon's descriptors or in its children's.
#[test]
fn out_of_the_way() {
    run("
import subprocess
before = os.open('/dev/null', os.O_RDONLY)
s = generic()
expect(s.fileno(), before + 1)
mine = sorted(int(fd) for fd in os.listdir('/proc/self/fd'))
expect(mine[-1], 512)
s.set_inheritable(True)
links = subprocess.run(['ls', '-l', '/proc/self/fd'], close_fds=False, capture_output=True, text=True)
expect(links.stdout.count('socket:'), 1)
");
}

#[test]
fn after_the_path_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::start(&path);
    let mut script = Script::start(
        Some(&path),
        "
s = generic()
say()
hear()
s.close()
for seq in range(1, 4):
    s = generic()
    expect(ours(s), True)
    ask(s, command(3, seq))
    s.close()
",
    );
    script.expect("ready");
    std::fs::remove_file(&path).unwrap();
    script.say("go");
    script.end();
    assert_eq!(gateway.accepted(), 1);
}

#[test]
fn a_gateway_that_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let first = Gateway::start(&path);
    let mut script = Script::start(
        Some(&path),
        "
s = generic()
ask(s, command(3, 1))
say()
hear()
fails(errno.ENODEV, receive, s)
expect(ours(generic()), False)
say()
hear()
t = generic()
expect(ours(t), True)
ask(t, command(3, 2))
ask(route(), link(17, ACK, 3))
fails(errno.ENODEV, receive, s)
",
    );
    script.expect("ready");
    drop(first);
    script.say("gone");
    script.expect("ready");
    let second = Gateway::start(&path);
    script.say("back");
    script.end();
    assert_eq!(second.accepted(), 1);
    assert_eq!(
        (
            of_kind(&second, HELLO),
            of_kind(&second, OPEN),
            of_kind(&second, 17)
        ),
        (1, 1, 1)
    );
}

/// openvpn --daemon: the parent ends, the child goes on with what it has and gets more.
#[test]
fn fork() {
    let gateway = run("
s = generic()
ask(s, command(3, 1))
child = os.fork()
if child == 0:
    ask(s, command(3, 2))
    t = generic()
    expect(ours(t), True)
    ask(t, command(3, 3))
    s.close()
    os._exit(0)
expect(os.waitpid(child, 0)[1], 0)
ask(s, command(3, 4))
ask(generic(), command(3, 5))
");
    assert_eq!(gateway.accepted(), 1);
}

#[test]
fn a_closed_number_is_plain_again() {
    run("
def plain(fd):
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    expect(u.fileno(), fd)
    u.bind(('127.0.0.1', 0))
    expect(u.getsockname()[0], '127.0.0.1')
    u.sendmsg([b'here'], [], 0, u.getsockname())
    expect(u.recvmsg(10)[3], u.getsockname())
    fails(errno.ENOPROTOOPT, u.setsockopt, SOL_NETLINK, 1, 0x11)
    u.close()
s = generic()
fd = s.fileno()
s.close()
plain(fd)
# Closed behind the library's back.
s = generic()
os.closerange(fd, fd + 1)
plain(fd)
s.detach()
s = generic()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
os.dup2(u.fileno(), fd)
u.detach()
s.detach()
u = socket.socket(fileno=fd)
u.bind(('127.0.0.1', 0))
expect(u.getsockname()[0], '127.0.0.1')
# And the connection itself: another one is made.
os.closerange(512, 513)
expect(ours(generic()), True)
");
}

#[test]
fn numbers_beyond_the_table_are_real() {
    let gateway = run("
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (5000, 5000))
first = generic()
fds = [os.dup(0) for _ in range(4200)]
s = generic()
expect((s.fileno() > 4096, ours(s)), (True, False))
r = route()
send(r, link(17, ACK, 3))
for fd in fds:
    os.close(fd)
s = generic()
expect(ours(s), True)
ask(s, command(3, 2))
");
    assert_eq!(
        of_kind(&gateway, 17),
        0,
        "a message about an interface on such a socket is the kernel's"
    );
    // What could not be remembered was closed.
    gateway.wait_open(0);
}

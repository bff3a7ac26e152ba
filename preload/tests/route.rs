//! rtnetlink sockets: what is the gateway's goes there, the rest to the kernel.

mod support;

use std::time::{Duration, Instant};

use support::child::Script;
use support::gateway::{Gateway, Packet};
use support::packets::{done, error, message};

/// The gateway has `ovpn0` and, for RTM_GETLINK, interface 7.
fn owner(packet: &Packet) -> Option<Vec<Vec<u8>>> {
    let request = &packet.bytes;
    let named = request.windows(6).any(|window| window == b"ovpn0\0");
    let seq = u32::from_ne_bytes(request[8..12].try_into().ok()?);
    match (packet.protocol?, packet.kind(), seq) {
        (0, 16, _) if named => Some(vec![error(request, 0)]),
        (0, 17, _) => Some(vec![error(request, -16)]),
        (0, 18, 50) => Some(vec![message(16, 0, 50, 0, &[5; 100]), error(request, 0)]),
        (0, 18, 51) => Some(vec![
            message(16, 2, 51, 0, &[6; 50]),
            message(16, 2, 51, 0, &[7; 60]),
            done(request),
        ]),
        (0, 18, 52) => Some(vec![message(16, 0, 52, 0, &[8; 3000])]),
        (0, 18, 53) => Some((0..9).map(|_| message(16, 2, 53, 0, &[9; 1000])).collect()),
        (0, 18, 54) => Some(vec![message(16, 0, 999, 0, &[1]), error(request, -19)]),
        (0, 18, 60) => Some(vec![]),
        _ => None,
    }
}

fn run(text: &str) -> Gateway {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&path, owner);
    Script::start(Some(&path), text).end();
    gateway
}

fn asked(gateway: &Gateway) -> Vec<u16> {
    let packets = gateway.packets();
    packets
        .iter()
        .filter(|packet| packet.kind() >= 16)
        .map(|packet| packet.kind())
        .collect()
}

#[test]
fn answers_of_the_gateway() {
    let gateway = run("
r = route()
expect(ours(r), False)
[answer] = ask(r, link(16, ACK | CREATE, 40, 'ovpn0'))
expect((len(answer), struct.unpack('=i', answer[16:20])), (36, (0,)))
[answer] = ask(r, link(17, ACK, 41))
expect(struct.unpack('=i', answer[16:20]), (-16,))
[answer] = ask(r, link(18, ACK, 54))
expect(struct.unpack('=i', answer[16:20]), (-19,))
answers = ask(r, link(18, ACK, 50))
expect([len(a) for a in answers], [116, 36])
answers = ask(r, link(18, 0, 51))
expect([len(a) for a in answers], [66, 76, 20])
send(r, link(18, 0, 52))
part, flags = receive(r, 100, socket.MSG_PEEK)
expect((len(part), flags), (100, socket.MSG_TRUNC))
part, flags = receive(r, 5000)
expect((len(part), flags), (3016, 0))
# Then there is nothing any more, from nobody.
r.setblocking(False)
fails(errno.EAGAIN, receive, r)
");
    assert_eq!(asked(&gateway), [16, 17, 18, 18, 18, 18]);
    assert_eq!(gateway.accepted(), 1);
}

/// The kernel's answers come from the kernel.
#[test]
fn the_kernel_is_asked_for_the_rest() {
    let gateway = run("
r = route()
def kernel(data):
    answers = ask(r, data)
    expect(header(answers[-1])['pid'], r.getsockname()[0])
    return answers
lo = socket.if_nametoindex('lo')
def of_lo(kind, flags, seq):
    data = bytearray(link(kind, flags, seq))
    data[20:24] = struct.pack('=i', lo)
    return bytes(data)
# The gateway says that this is not its own.
kernel(of_lo(18, ACK, 70))
[answer] = kernel(link(16, ACK | CREATE, 71, 'other0'))
assert struct.unpack('=i', answer[16:20])[0] < 0
# These it is not even asked.
kernel(of_lo(18, DUMP, 72))
kernel(of_lo(16, ACK, 73))
kernel(message(22, DUMP, 74, bytes(8)))
both = of_lo(18, ACK, 75)
expect(r.sendmsg([both + both], [], 0, (0, 0)), 64)
expect([header(receive(r)[0])['seq'] for _ in range(4)], [75] * 4)
");
    assert_eq!(asked(&gateway), [18, 16]);
}

#[test]
fn unread_answers_are_bounded() {
    run("
r = route()
# One socket: two of three thousand bytes, not three.
send(r, link(18, 0, 52))
send(r, link(18, 0, 52))
fails(errno.ENOBUFS, send, r, link(18, 0, 52))
expect([len(receive(r)[0]) for _ in range(2)], [3016, 3016])
[answer] = ask(r, link(17, ACK, 41))
# More than there is room for in one answer.
fails(errno.ENODEV, send, r, link(18, 0, 53))
# Sockets.
many = [route() for _ in range(9)]
for each in many[:8]:
    send(each, link(17, ACK, 41))
fails(errno.ENOBUFS, send, many[8], link(17, ACK, 41))
many[3].close()
ask(many[8], link(17, ACK, 41))
");
}

#[test]
fn nothing_is_left_for_the_next_of_that_number() {
    run("
r = route()
number = r.fileno()
send(r, link(17, ACK, 41))
r.close()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
expect(u.fileno(), number)
u.setblocking(False)
fails(errno.EAGAIN, u.recvmsg, 100)
u.close()
r = route()
expect(r.fileno(), number)
send(r, link(17, ACK, 41))
os.closerange(number, number + 1)
again = route()
expect(again.fileno(), number)
again.setblocking(False)
fails(errno.EAGAIN, receive, again)
r.detach()
");
}

/// Interface 1 is `lo`: the kernel knows it.
const KERNEL: &str = "
def kernel(seq):
    data = bytearray(link(18, ACK, seq))
    data[20:24] = struct.pack('=i', socket.if_nametoindex('lo'))
    expect([header(a)['kind'] for a in ask(route(), bytes(data))], [16, 2])
";

#[test]
fn without_a_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    Script::start(Some(&path), &format!("{KERNEL}\nkernel(1)")).end();
    let gateway = Gateway::with_rule(&path, owner);
    let text = format!("{KERNEL}\nkernel(1)\nsay()\nhear()\nkernel(2)\nexpect(ours(generic()), False)");
    let mut script = Script::start(Some(&path), &text);
    script.expect("ready");
    assert_eq!(asked(&gateway), [18]);
    drop(gateway);
    script.say("gone");
    script.end();
}

#[test]
fn a_gateway_that_says_nothing() {
    let start = Instant::now();
    let gateway = run("
r = route()
fails(errno.ENODEV, send, r, link(18, ACK, 60))
[answer] = ask(r, link(17, ACK, 41))
");
    assert!(
        (15..25).contains(&start.elapsed().as_secs()),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(asked(&gateway), [18, 17]);
    assert_eq!(
        gateway.accepted(),
        1,
        "the connection and what hangs on it is kept"
    );
}

/// An answer that comes after all, to the next question, is nobody's.
#[test]
fn a_late_answer_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&path, owner);
    let mut script = Script::start(
        Some(&path),
        "r = route()\nask(r, link(17, ACK, 41))\nsay()\nhear()\nask(r, link(17, ACK, 42))",
    );
    script.expect("ready");
    let connection = gateway
        .wait_for("request", |packet| packet.kind() == 17)
        .connection;
    gateway.send(connection, &message(2, 0, 42, 0, &[0; 4]));
    gateway.send(connection, &message(2, 0, 40, 0, &[0; 20]));
    std::thread::sleep(Duration::from_millis(50));
    script.say("go");
    script.end();
}

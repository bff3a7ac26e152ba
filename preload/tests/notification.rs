//! Notifications are never read inside a request: one daemon loses them there, another one dies of it.

mod support;

use ovpn_dco_protocol::AGAIN;
use support::child::Script;
use support::gateway::{Gateway, Packet};
use support::packets::{Family, done, error, expired, message};

/// A gateway that has something to say before each answer: of peers 1 and 2 before an acknowledgement, of peer 3 and 4
/// in the middle of a dump.
fn talkative(packet: &Packet) -> Option<Vec<Vec<u8>>> {
    if packet.protocol != Some(16) || packet.kind() != Family::DcoV2.id() {
        return None;
    }
    let request = &packet.bytes;
    if packet.flags() & 0x300 == 0 {
        return Some(vec![expired(7, 1), expired(7, 2), error(request, 0)]);
    }
    let seq = u32::from_ne_bytes(request[8..12].try_into().unwrap());
    let reply = |peer: u8| message(Family::DcoV2.id(), 2, seq, 0, &[7, 1, 0, peer]);
    Some(vec![
        expired(7, 3),
        reply(1),
        expired(7, 4),
        reply(2),
        done(request),
    ])
}

/// What both tests of order need.
const HELPERS: &str = "
def peer(data):
    expect((header(data)['seq'], header(data)['kind'], data[16]), (0, 0x31, 3))
    return struct.unpack('=I', data[-4:])[0]
";

fn run(text: &str) -> Gateway {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&path, talkative);
    Script::start(Some(&path), &format!("{HELPERS}{text}")).end();
    gateway
}

#[test]
fn after_the_acknowledgement() {
    let gateway = run("
s = generic(blocking=False)
epoll = select.epoll()
epoll.register(s, select.EPOLLIN)
for seq in (5, 6):
    # Read as libnl reads: nothing but the acknowledgement.
    [answer] = ask(s, command(2, seq))
    expect(header(answer)['kind'], 2)
    # The descriptor of the event loop becomes readable then, and stays so until all is read.
    for number in (1, 2):
        expect(len(epoll.poll(5)), 1)
        expect(peer(read(s)), number)
    expect(epoll.poll(0.2), [])
    fails(errno.EAGAIN, receive, s)
");
    let again: Vec<_> = gateway
        .packets()
        .into_iter()
        .filter(|packet| packet.kind() == AGAIN)
        .collect();
    assert_eq!(again.len(), 4, "each came back once");
    for packet in again {
        assert_eq!(packet.bytes.len(), 16 + expired(7, 1).len());
        assert_eq!(packet.bytes[..4], (packet.bytes.len() as u32).to_ne_bytes());
    }
}

/// A reader that does not look first.
#[test]
fn without_a_look_first() {
    run("
s = generic()
send(s, command(2, 5))
expect(header(receive(s)[0])['kind'], 2)
expect([peer(receive(s)[0]), peer(receive(s)[0])], [1, 2])
");
}

#[test]
fn after_a_dump() {
    run("
s = generic(blocking=False)
answers = ask(s, command(7, 5, ACK | DUMP))
expect([a[19] for a in answers[:-1]], [1, 2])
poll = select.poll()
poll.register(s, select.POLLIN)
for number in (3, 4):
    expect(len(poll.poll(5000)), 1)
    expect(peer(read(s)), number)
fails(errno.EAGAIN, receive, s)
");
}

/// Two requests with notifications between them, which come after the second one as they were not read before.
#[test]
fn kept_over_two_requests() {
    run("
s = generic(blocking=False)
ask(s, command(2, 5))
ask(s, command(2, 6))
poll = select.poll()
poll.register(s, select.POLLIN)
seen = []
while poll.poll(300):
    seen.append(peer(read(s)))
expect(sorted(seen), [1, 1, 2, 2])
");
}

#[test]
fn at_once_when_nothing_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::start(&path);
    let text = format!(
        "{HELPERS}
s = generic()
ask(s, command(2, 5))
say()
poll = select.poll()
poll.register(s, select.POLLIN)
expect(len(poll.poll(5000)), 1)
expect([peer(read(s)), peer(read(s))], [8, 9])
"
    );
    let mut script = Script::start(Some(&path), &text);
    script.expect("ready");
    let connection = gateway
        .wait_for("request", |packet| packet.kind() == Family::DcoV2.id())
        .connection;
    gateway.send(connection, &expired(7, 8));
    gateway.send(connection, &expired(7, 9));
    script.end();
    assert!(gateway.packets().iter().all(|packet| packet.kind() != AGAIN));
}

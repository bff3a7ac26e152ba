//! A new peer's socket goes to the gateway, and data packets do not reach the daemon through it any more.

mod support;

use std::os::linux::fs::MetadataExt;

use support::child::Script;
use support::gateway::{Gateway, Packet};
use support::packets::Family;

fn is_new_peer(packet: &Packet) -> bool {
    packet.protocol == Some(16) && [0x31, 0x32].contains(&packet.kind()) && packet.command() == 1
}

fn run(text: &str) -> (Gateway, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::start(&path);
    let said = Script::start(Some(&path), text).end();
    (gateway, said)
}

fn inode(packet: &Packet) -> u64 {
    let [fd] = &packet.fds[..] else {
        panic!("{} descriptors", packet.fds.len())
    };
    std::fs::File::from(fd.try_clone().unwrap())
        .metadata()
        .unwrap()
        .st_ino()
}

/// Every first byte there is, before and after, over both families of addresses and of netlink.
#[test]
fn socket_and_filter() {
    let (gateway, said) = run("
def through(u, to):
    for first in range(256):
        to.sendto(bytes([first]) + b'rest', u.getsockname())
    seen = []
    while select.select([u], [], [], 0.1)[0]:
        seen.append(u.recvfrom(100)[0][0])
    return seen
s = generic(blocking=False)
u = {}
for seq, (name, version, address) in enumerate([
    ('ovpn-dco-v2', socket.AF_INET, '127.0.0.1'), ('ovpn', socket.AF_INET6, '::1')], 10):
    u = socket.socket(version, socket.SOCK_DGRAM)
    u.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    u.bind((address, 0))
    to = socket.socket(version, socket.SOCK_DGRAM)
    expect(through(u, to), list(range(256)))
    family(s, name, seq)
    for peer in (0, 1):
        ask(s, new_peer(name, peer, u.fileno(), seq))
        expect(through(u, to), [first for first in range(256) if first >> 3 != 9])
    print(os.fstat(u.fileno()).st_ino)
");
    let sent: Vec<u64> = gateway
        .packets()
        .iter()
        .filter(|packet| is_new_peer(packet))
        .map(|packet| inode(packet))
        .collect();
    let wanted: Vec<u64> = said
        .lines()
        .flat_map(|inode| [inode.parse().unwrap(); 2])
        .collect();
    assert_eq!(sent, wanted);
}

/// Where the message is read, the filter is on the socket already.
#[test]
fn no_packet_in_between() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    let gateway = Gateway::with_rule(&path, |packet| {
        if is_new_peer(packet) {
            let socket = std::net::UdpSocket::from(packet.fds[0].try_clone().unwrap());
            let to = socket.local_addr().unwrap();
            let from = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            from.send_to(&[9 << 3, 1], to).unwrap();
            from.send_to(&[4 << 3, 2], to).unwrap();
        }
        None
    });
    let text = "
s = generic()
family(s, 'ovpn-dco-v2')
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(('127.0.0.1', 0))
ask(s, new_peer('ovpn-dco-v2', 3, u.fileno(), 5))
expect(u.recv(100), b'\\x20\\x02')
";
    Script::start(Some(&path), text).end();
    assert_eq!(
        gateway
            .packets()
            .iter()
            .filter(|packet| is_new_peer(packet))
            .count(),
        1
    );
}

/// What is no UDP socket gets no filter, and is the gateway's to refuse.
#[test]
fn other_descriptors() {
    let (gateway, _) = run("
s = generic()
family(s, 'ovpn-dco-v2')
listener = socket.create_server(('127.0.0.1', 0))
t = socket.create_connection(listener.getsockname())
other, _ = listener.accept()
ask(s, new_peer('ovpn-dco-v2', 1, t.fileno(), 5))
other.send(b'\\x48' * 100)
expect(t.recv(100, socket.MSG_WAITALL), b'\\x48' * 100)
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
ask(s, new_peer('ovpn-dco-v2', 2, a.fileno(), 6))
b.send(b'\\x48' * 100)
expect(a.recv(100), b'\\x48' * 100)
ask(s, new_peer('ovpn-dco-v2', 3, os.open('/dev/null', os.O_RDONLY), 7))
ask(s, new_peer('ovpn-dco-v2', 4, 999, 8))
ask(s, new_peer('ovpn-dco-v2', 5, 0xffffffff, 9))
# The other family's attribute, and a command that is not NEW_PEER.
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ask(s, new_peer('ovpn', 6, u.fileno(), 10))
other = bytearray(new_peer('ovpn-dco-v2', 7, u.fileno(), 11))
other[16] = 2
ask(s, bytes(other))
");
    let fds: Vec<usize> = gateway
        .packets()
        .iter()
        .filter(|packet| packet.kind() >= Family::DcoV2.id())
        .map(|packet| packet.fds.len())
        .collect();
    assert_eq!(fds, [1, 1, 1, 0, 0, 0, 0]);
}

/// Without the filter there is no peer.
#[test]
fn no_filter_no_peer() {
    let (gateway, _) = run("
s = generic(blocking=False)
family(s, 'ovpn-dco-v2')
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
libc = ctypes.CDLL(None)
accept = struct.pack('=HBBI', 6, 0, 0, 0xffffffff)
room = ctypes.create_string_buffer(accept)
u.setsockopt(socket.SOL_SOCKET, 26, struct.pack('=H6xQ', 1, ctypes.addressof(room)))
u.setsockopt(socket.SOL_SOCKET, 44, 1)
fails(errno.EPERM, send, s, new_peer('ovpn-dco-v2', 1, u.fileno(), 5))
# Nothing is waited for then.
fails(errno.EAGAIN, receive, s)
");
    assert!(!gateway.packets().iter().any(|packet| is_new_peer(packet)));
}

//! Clients of the control socket as such: who may connect, what goes with one that goes, two that want the same, one that
//! does not read, and what is malformed. Keys are in no log.

#[path = "support/control.rs"]
mod control;
#[path = "support/gateway.rs"]
mod gateway;

use control::message::{REQUEST, kind, message, seq};
use control::{
    Bed, Client, Family, Got, Key, New, OWN, Peer, Socket, TUNNELS, get_key, link_delete, link_get, link_new,
    listen, remote, vpn,
};
use gateway::{in_namespace, run, wait_for};
use nf_path::twin::craft::inner_v4;
use ovpn_dco_protocol::{GENERIC, HELLO, ROUTE};
use std::fs;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

const EPERM: i32 = 1;
const EBUSY: i32 = 16;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;
/// NLMSG_NOOP.
const NOOP: u16 = 1;

/// Connects, says HELLO and prints how that went.
const HELLO_PY: &str = "
import socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(20)
try:
    s.connect(sys.argv[1])
except PermissionError:
    print('no permission')
    sys.exit()
try:
    s.send(struct.pack('=IHHIIII', 24, 8, 1, 1, 0, 1, 16))
    got = s.recv(65536)
except (BrokenPipeError, ConnectionResetError):
    got = b''
print(struct.unpack_from('=i', got, 16)[0] if got else 'closed')
";

/// How a HELLO by another user goes.
fn hello_as(bed: &Bed, who: &[&str]) -> String {
    let mut command = Command::new("setpriv");
    let python = ["/usr/bin/python3", "-I", "-c", HELLO_PY];
    command.args(who).args(python).arg(bed.socket());
    run(&mut command).trim().to_owned()
}

#[test]
fn who_may_connect() {
    in_namespace("who_may_connect", || {
        let bed = Bed::start_with("group = \"daemon\"");
        let group = run(Command::new("getent").args(["group", "daemon"]));
        let group = group.split(':').nth(2).expect("its number");
        let file = fs::metadata(bed.socket()).expect("it is there");
        assert_eq!((file.uid(), file.gid().to_string().as_str()), (0, group));
        assert_eq!(file.mode() & 0o7777, 0o660);
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let in_group = ["--reuid=65534", "--regid=65534", &format!("--groups={group}")];
        let of_group = ["--reuid=65534", &format!("--regid={group}"), "--clear-groups"];
        assert_eq!(hello_as(&bed, &nobody), "no permission");
        assert_eq!(hello_as(&bed, &in_group), "0");
        assert_eq!(hello_as(&bed, &of_group), "0");
        assert_eq!(hello_as(&bed, &["--reuid=0"]), "0");
        // Whoever the file's mode lets through is looked at all the same, and named once.
        fs::set_permissions(bed.socket(), fs::Permissions::from_mode(0o666)).expect("ours");
        for _ in 0..3 {
            assert_eq!(hello_as(&bed, &nobody), "closed");
        }
        assert_eq!(hello_as(&bed, &in_group), "0");
        assert_eq!(bed.said("65534").len(), 1, "{}", bed.gateway.stderr());
        bed.end();
    });
}

#[test]
fn hello_comes_first() {
    in_namespace("hello_comes_first", || {
        let bed = Bed::start();
        let path = bed.socket();
        // Anything else, another version, another protocol; twice.
        let other = Family::Ovpn.dump(bed.index[0]);
        let version = message(
            HELLO,
            REQUEST,
            &[99u32.to_ne_bytes(), ROUTE.to_ne_bytes()].concat(),
        );
        let protocol = message(
            HELLO,
            REQUEST,
            &[1u32.to_ne_bytes(), 12u32.to_ne_bytes()].concat(),
        );
        for (first, errno) in [(other, None), (version, Some(93)), (protocol, Some(93))] {
            let socket = Socket::connect(&path);
            assert!(socket.send(&first, &[]));
            match (socket.receive(gateway::PATIENCE), errno) {
                (Got::Packet(answer, _), Some(errno)) => {
                    let last = control::Answer {
                        replies: Vec::new(),
                        last: answer,
                    };
                    last.refused(errno);
                }
                (Got::Packet(..), None) => {}
                (Got::End, _) => continue,
                (Got::Nothing, _) => panic!("neither an answer nor the end"),
            }
            if errno.is_some() {
                assert!(socket.ends());
            }
        }
        // Whoever says nothing is no harm.
        let silent: Vec<_> = (0..20).map(|_| Socket::connect(&path)).collect();
        let mut client = bed.server(Family::Ovpn);
        client.new_peer(&New::of(1), &bed.udp).done();
        drop(silent);
        client.link(&link_delete(client.index)).done();
        bed.end();
    });
}

/// A peer where the bed expects it, with a key.
#[track_caller]
fn peer(client: &mut Client, id: u32, socket: &UdpSocket) -> Key {
    client.new_peer(&New::of(id), socket).done();
    let key = Key::random(0);
    let request = client.family.new_key(client.index, id, 0, &key);
    client.ask(&request, &[]).done();
    key
}

#[track_caller]
fn peers(client: &mut Client) -> Vec<u32> {
    let dump = client.family.dump(client.index);
    let replies = client.ask(&dump, &[]).done();
    replies.iter().map(|r| Peer::of(client.family, r).id).collect()
}

fn state_of(interface: &str) -> (bool, String) {
    let flags = fs::read_to_string(format!("/sys/class/net/{interface}/flags")).expect("it is there");
    let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).expect("a number");
    let addresses = run(Command::new("ip").args(["-br", "address", "show", interface]));
    (flags & 1 != 0, addresses.split_whitespace().skip(2).collect())
}

#[test]
fn what_goes_with_a_client() {
    in_namespace("what_goes_with_a_client", || {
        let mut bed = Bed::start();
        for family in Family::BOTH {
            let mut onlooker = bed.client(family);
            let mut client = bed.server(family);
            let inside = bed.inside();
            let mut keys: Vec<Key> = (1..=3).map(|id| peer(&mut client, id, &bed.udp)).collect();
            // With a connection go the peers that it made.
            let further = client.open(GENERIC);
            let first = std::mem::replace(&mut client.generic, further);
            keys.push(peer(&mut client, 4, &bed.udp));
            assert_eq!(peers(&mut client), [1, 2, 3, 4]);
            drop(first);
            wait_for("the peers to go", || peers(&mut client) == [4]);
            bed.carries_in(&inside, 4, &mut keys[3]);
            // Without its first connection a client is still one.
            let further = client.open(ROUTE);
            client.lifeline = further;
            peer(&mut client, 5, &bed.udp);
            assert_eq!(peers(&mut client), [4, 5]);
            assert!(state_of(TUNNELS[0]).0);
            let taken = onlooker.link(&link_new(TUNNELS[0], family.link_kind(), Some(1)));
            taken.refused(EBUSY);
            drop(client);
            // With the last one goes the interface, which is as it was before anybody asked for it.
            wait_for("the interface to be given up", || {
                state_of(TUNNELS[0]) == (false, String::new())
            });
            assert!(peers(&mut onlooker).is_empty());
            let before = bed.gateway.dropped("unknown_peer");
            let record = keys[3].seal(4, &inner_v4(vpn(4), OWN, 100, 1));
            bed.far.send(remote(4), listen(), &record);
            // Nobody listens there any more: the kernel has it.
            let mut bytes = [0; 2048];
            bed.udp
                .set_read_timeout(Some(gateway::PATIENCE))
                .expect("a socket");
            assert_eq!(bed.udp.recv(&mut bytes).expect("the record"), record.len());
            assert_eq!(bed.gateway.dropped("unknown_peer"), before);
            // And the next one may have it.
            onlooker
                .link(&link_new(TUNNELS[0], family.link_kind(), Some(1)))
                .done();
            bed.up(TUNNELS[0], &["10.8.0.1/16"]);
            let mut key = peer(&mut onlooker, 1, &bed.udp);
            bed.carries_in(&inside, 1, &mut key);
            onlooker.link(&link_delete(onlooker.index)).done();
        }
        bed.end();
    });
}

/// All that changes peer 1 is refused to a client that does not drive the interface.
fn changes_nothing(two: &mut Client) {
    let (family, key) = (two.family, Key::random(1));
    for request in [
        family.set_peer(
            two.index,
            &New {
                timers: Some((1, 2)),
                id: 1,
                ..New::default()
            },
        ),
        family.new_key(two.index, 1, 0, &key),
        family.swap_keys(two.index, 1),
        family.del_key(two.index, 1, 0),
        family.del_peer(two.index, 1),
    ] {
        two.ask(&request, &[]).refused(EBUSY);
    }
}

#[test]
fn two_clients() {
    in_namespace("two_clients", || {
        let bed = Bed::start();
        for family in Family::BOTH {
            let mut one = bed.server(family);
            let mut two = bed.client(family);
            peer(&mut one, 1, &bed.udp);
            let wanted = link_new(TUNNELS[0], family.link_kind(), Some(1));
            two.link(&wanted).refused(EBUSY);
            two.link(&link_delete(two.index)).refused(EPERM);
            two.new_peer(&New::of(2), &bed.udp).refused(EBUSY);
            changes_nothing(&mut two);
            // Whoever may connect may look.
            assert_eq!((peers(&mut two), peers(&mut one)), (vec![1], vec![1]));
            if family == Family::Ovpn {
                assert_eq!(two.ask(&get_key(two.index, 1, 0), &[]).done().len(), 1);
            }
            // An interface that is one of ours is not there until it is asked for; others are the kernel's.
            one.link(&link_get(one.index)).refused(ENODEV);
            two.link(&link_get(two.index)).refused(ENODEV);
            for pass in [
                link_new("tun9", family.link_kind(), Some(1)),
                link_get(1),
                link_delete(1),
                // Neither is anything else about ours.
                message(16, REQUEST, &link_get(one.index)[16..]),
            ] {
                assert_eq!(kind(&two.link(&pass).last), NOOP);
            }
            two.link(&link_new(TUNNELS[1], family.link_kind(), Some(2)))
                .refused(EINVAL);
            // Each has its own; the second one is for one peer, as that is what it says nothing about.
            two.link(&link_new(TUNNELS[1], family.link_kind(), None)).done();
            two.index = bed.index[1];
            let udp = UdpSocket::bind("0.0.0.0:1195").expect("a free port");
            let new = New {
                vpn: Vec::new(),
                ..New::of(1)
            };
            two.new_peer(&new, &udp).done();
            let again = two.family.new_peer(two.index, &new);
            one.ask(&again, &[udp.as_fd()]).refused(EBUSY);
            one.link(&link_delete(one.index)).done();
            assert_eq!(peers(&mut two), [1]);
            two.link(&wanted).done();
            two.link(&link_delete(two.index)).done();
            two.link(&link_delete(bed.index[0])).done();
        }
        bed.end();
    });
}

/// Reads so many dumps and notifications.
fn reads(client: &Client, dumps: u32, deleted: u32) {
    let (mut answers, mut notifications) = (0, 0);
    while answers < dumps || notifications < deleted {
        let (packet, _) = client.generic.packet();
        match (kind(&packet), seq(&packet)) {
            (3, _) => answers += 1,
            (0x26, 0) if packet[16] == 5 => notifications += 1,
            _ => {}
        }
    }
}

#[test]
fn one_that_does_not_read() {
    in_namespace("one_that_does_not_read", || {
        let bed = Bed::start();
        let family = Family::Ovpn;
        let mut client = bed.server(family);
        for id in 1..=300 {
            client.new_peer(&New::of(id), &bed.udp).done();
        }
        let mut two = bed.client(family);
        two.drive(TUNNELS[1], 0);
        two.index = bed.index[1];
        let udp = UdpSocket::bind("0.0.0.0:1195").expect("a free port");
        let (memory, open) = bed.resources();
        // 60,000 answers and notifications besides for one that reads none of them: less than what it may leave.
        let mut slow = bed.client(family);
        slow.subscribe();
        let dump = family.dump(slow.index);
        let get = |client: &mut Client, n: u32| {
            for i in 0..n {
                let request = family.get_peer(client.index, 1 + i % 300);
                client.ask(&request, &[]).done();
            }
        };
        for _ in 0..100 {
            assert!(slow.generic.send(&dump, &[]));
            get(&mut client, 20);
        }
        for id in 0..2000 {
            let new = New {
                vpn: Vec::new(),
                ..New::of(1 + id % 2)
            };
            two.new_peer(&new, &udp).done();
        }
        get(&mut client, 1000);
        assert!(bed.said("does not read").is_empty() && bed.said("disconnected").is_empty());
        assert_eq!(bed.resources().1, open + 2, "it is still connected");
        // It reads after all, and has everything.
        reads(&slow, 100, 1999);
        // And again, beyond the bound: it is disconnected, and nobody else feels it.
        let mut sent = 0;
        while slow.generic.send(&dump, &[]) {
            sent += 1;
            get(&mut client, 5);
            assert!(sent < 2000, "no end of it");
        }
        assert!(sent > 100, "{sent}");
        get(&mut client, 1000);
        let ended = slow.generic.ends();
        assert!(ended);
        drop(slow);
        wait_for("its connections to be closed", || bed.resources().1 == open);
        let (after, _) = bed.resources();
        assert_eq!(peers(&mut client).len(), 300);
        assert_eq!(two.notifications().len(), 1999);
        // What waited for it is at most 8 MiB, and 64 Ki packets.
        assert!(after < memory + (64 << 10), "{memory} KiB, then {after} KiB");
        println!("\n{sent} dumps until the end; {memory} KiB, then {after} KiB");
        bed.end();
    });
}

//! What each command of both families does to peers and keys, by a client that sends them byte for byte: answers, state, and
//! the records that pass or do not.

#[path = "support/control.rs"]
mod control;
#[path = "support/gateway.rs"]
mod gateway;

use control::message::{MULTI, attr, u16_at, u32_attr};
use control::{
    Bed, Client, Family, Key, New, OWN, PORTS, Peer, TUNNELS, Told, arrived, link_delete, listen, remote, vpn,
};
use gateway::{in_namespace, wait_for};
use nf_path::twin::craft::{inner_v4, number};
use nf_state::Cipher;
use nf_wire::keepalive::PING;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::AsFd;

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;
const ERANGE: i32 = 34;
const ENOTSOCK: i32 = 88;
const EOPNOTSUPP: i32 = 95;
const EADDRINUSE: i32 = 98;

/// Commands with the family and the interface filled in.
trait Commands {
    fn new(&mut self, bed: &Bed, new: &New) -> control::Answer;
    fn key(&mut self, peer: u32, slot: u8, key: &Key) -> control::Answer;
    fn swap(&mut self, peer: u32) -> control::Answer;
    fn del_key(&mut self, peer: u32, slot: u8) -> control::Answer;
    fn del(&mut self, peer: u32) -> control::Answer;
    fn set(&mut self, set: &New) -> control::Answer;
    fn timers(&mut self, peer: u32, interval: u32, timeout: u32) -> control::Answer;
    fn get(&mut self, peer: u32) -> control::Answer;
    fn peer(&mut self, peer: u32) -> Peer;
    /// Peers 1 to `n`, each with a primary key with key id 0.
    fn peers(&mut self, bed: &Bed, n: u32) -> Vec<Key>;
}

impl Commands for Client {
    #[track_caller]
    fn new(&mut self, bed: &Bed, new: &New) -> control::Answer {
        self.new_peer(new, &bed.udp)
    }
    #[track_caller]
    fn key(&mut self, peer: u32, slot: u8, key: &Key) -> control::Answer {
        let request = self.family.new_key(self.index, peer, slot, key);
        self.ask(&request, &[])
    }
    #[track_caller]
    fn swap(&mut self, peer: u32) -> control::Answer {
        let request = self.family.swap_keys(self.index, peer);
        self.ask(&request, &[])
    }
    #[track_caller]
    fn del_key(&mut self, peer: u32, slot: u8) -> control::Answer {
        let request = self.family.del_key(self.index, peer, slot);
        self.ask(&request, &[])
    }
    #[track_caller]
    fn del(&mut self, peer: u32) -> control::Answer {
        let request = self.family.del_peer(self.index, peer);
        self.ask(&request, &[])
    }
    #[track_caller]
    fn set(&mut self, set: &New) -> control::Answer {
        let request = self.family.set_peer(self.index, set);
        self.ask(&request, &[])
    }
    #[track_caller]
    fn timers(&mut self, peer: u32, interval: u32, timeout: u32) -> control::Answer {
        let request = self.family.timers(self.index, peer, interval, timeout);
        self.ask(&request, &[])
    }
    #[track_caller]
    fn get(&mut self, peer: u32) -> control::Answer {
        let request = self.family.get_peer(self.index, peer);
        self.ask(&request, &[])
    }
    #[track_caller]
    fn peer(&mut self, peer: u32) -> Peer {
        let replies = self.get(peer).done();
        assert_eq!(replies.len(), 1);
        Peer::of(self.family, &replies[0])
    }
    #[track_caller]
    fn peers(&mut self, bed: &Bed, n: u32) -> Vec<Key> {
        let one = |id| {
            self.new(bed, &New::of(id)).done();
            let key = Key::random(0);
            self.key(id, 0, &key).done();
            key
        };
        (1..=n).map(one).collect()
    }
}

/// The test in a namespace of its own, once per family, with a client that drives `tun0`.
fn each_family(name: &str, mut body: impl FnMut(&mut Bed, &mut Client)) {
    in_namespace(name, || {
        let mut bed = Bed::start();
        for family in Family::BOTH {
            let mut client = bed.server(family);
            body(&mut bed, &mut client);
            client.link(&link_delete(client.index)).done();
        }
        bed.end();
    });
}

#[test]
fn a_peer_that_is_not_there() {
    each_family("a_peer_that_is_not_there", |bed, client| {
        client.new(bed, &New::of(1)).done();
        let key = Key::random(0);
        client
            .set(&New {
                timers: Some((1, 2)),
                ..New::of(9)
            })
            .refused(ENOENT);
        client.get(9).refused(ENOENT);
        client.del(9).refused(ENOENT);
        client.key(9, 0, &key).refused(ENOENT);
        client.swap(9).refused(ENOENT);
        client.del_key(9, 1).refused(ENOENT);
        if client.family == Family::Ovpn {
            let request = control::get_key(client.index, 9, 0);
            client.ask(&request, &[]).refused(ENOENT);
        }
        // Nor an interface that is not there, or not ours.
        for index in [0, 1, 9999] {
            let request = client.family.get_peer(index, 1);
            client.ask(&request, &[]).refused(ENODEV);
            let request = client.family.dump(index);
            client.ask(&request, &[]).refused(ENODEV);
            let request = client.family.new_key(index, 1, 0, &key);
            client.ask(&request, &[]).refused(ENODEV);
        }
        client.del(1).done();
        client.get(1).refused(ENOENT);
        client.del(1).refused(ENOENT);
    });
}

#[test]
fn ids_and_vpn_addresses() {
    each_family("ids_and_vpn_addresses", |bed, client| {
        client.new(bed, &New::of(1)).done();
        let before = client.peer(1);
        assert_eq!(before.vpn, [IpAddr::from(vpn(1))]);
        assert_eq!((before.remote, before.local), (Some(remote(1)), Some(listen())));
        let other = New {
            remote: Some(remote(7)),
            vpn: vec![vpn(7).into()],
            ..New::of(1)
        };
        client.new(bed, &other).refused(EEXIST);
        assert_eq!(client.peer(1), before, "as it was");
        let bad = [
            "0.0.0.0",
            "127.0.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "ff02::1",
            "::ffff:10.8.0.9",
            "::10.8.0.9",
        ];
        client
            .new(
                bed,
                &New {
                    vpn: Vec::new(),
                    ..New::of(2)
                },
            )
            .refused(EINVAL);
        for address in bad {
            let vpn: IpAddr = address.parse().expect("an address");
            client
                .new(
                    bed,
                    &New {
                        vpn: vec![vpn],
                        ..New::of(2)
                    },
                )
                .refused(EINVAL);
            client.get(2).refused(ENOENT);
        }
        let with_id = |id| New { id, ..New::of(8) };
        client.new(bed, &with_id(0x100_0000)).refused(ERANGE);
        // On the wire that says that there is none.
        client.new(bed, &with_id(0xff_ffff)).refused(ERANGE);
        // The highest id there is.
        client.new(bed, &with_id(0xff_fffe)).done();
        client.del(0xff_fffe).done();
        let taker = New {
            vpn: vec![vpn(1).into()],
            ..New::of(2)
        };
        match client.family {
            Family::Ovpn => {
                client.new(bed, &taker).refused(EADDRINUSE);
                assert_eq!(client.peer(1), before);
                client.get(2).refused(ENOENT);
            }
            Family::DcoV2 => {
                client.new(bed, &taker).done();
                assert_eq!(client.peer(2).vpn, taker.vpn);
                assert!(client.peer(1).vpn.is_empty());
            }
        }
    });
}

#[test]
fn addresses_are_changed() {
    in_namespace("addresses_are_changed", || {
        let mut bed = Bed::start();
        let mut client = bed.server(Family::Ovpn);
        let socket = bed.inside();
        let mut keys = client.peers(&bed, 2);
        let v6: IpAddr = "fd08::2".parse().expect("an address");
        let set = |vpn: &[&str]| New {
            id: 1,
            vpn: vpn.iter().map(|a| a.parse().expect("an address")).collect(),
            ..New::default()
        };
        client
            .set(&New {
                id: 1,
                vpn: vec![vpn(2).into()],
                ..New::default()
            })
            .refused(EADDRINUSE);
        client.set(&set(&["127.0.0.1"])).refused(EINVAL);
        client.set(&set(&["0.0.0.0"])).refused(EINVAL);
        assert_eq!(client.peer(1).vpn, [IpAddr::from(vpn(1))]);
        client.set(&set(&["fd08::2"])).done();
        assert_eq!(client.peer(1).vpn, [IpAddr::from(vpn(1)), v6]);
        client.set(&set(&["0.0.0.0"])).done();
        assert_eq!(client.peer(1).vpn, [v6]);
        client.set(&set(&["::"])).refused(EINVAL);
        // The address is free again, and used where it is now.
        client
            .set(&New {
                id: 2,
                vpn: vec![vpn(1).into()],
                ..New::default()
            })
            .done();
        socket
            .send_to(&7u32.to_be_bytes(), (vpn(1), PORTS.0))
            .expect("a route");
        bed.far
            .expect(&keys[1], |r, inner| r.peer() == 2 && number(inner) == Some(7));
        let record = keys[1].seal(2, &inner_v4(vpn(1), OWN, 100, 8));
        bed.far.send(remote(2), listen(), &record);
        assert_eq!(arrived(&socket), 8);
        // Another remote address: what is sent goes there at once.
        client
            .set(&New {
                id: 2,
                remote: Some(remote(40)),
                ..New::default()
            })
            .done();
        assert_eq!(client.peer(2).remote, Some(remote(40)));
        socket
            .send_to(&9u32.to_be_bytes(), (vpn(1), PORTS.0))
            .expect("a route");
        let record = bed.far.expect(&keys[1], |_, inner| number(inner) == Some(9));
        assert_eq!((record.from, record.to), (listen(), remote(40)));
        // Members that go together: a port alone, an address alone, both versions, a socket.
        let members: [&[Vec<u8>]; 5] = [
            &[attr(5, &[1, 2])],
            &[attr(2, &[192, 0, 2, 9])],
            &[attr(2, &[192, 0, 2, 9]), attr(3, &[0xfd; 16]), attr(5, &[1, 2])],
            &[u32_attr(6, 7)],
            &[u32_attr(13, 7)],
        ];
        for more in members {
            let all = [&[u32_attr(1, 2)], more].concat();
            let request = Family::Ovpn.command(client.index, 2, 2, &all);
            client.ask(&request, &[]).refused(EINVAL);
        }
        assert_eq!(client.peer(2).remote, Some(remote(40)));
        bed.end();
    });
}

#[test]
fn the_daemons_socket() {
    each_family("the_daemons_socket", |bed, client| {
        let request = client.family.new_peer(client.index, &New::of(1));
        client.ask(&request, &[]).refused(ENOTSOCK);
        let file = std::fs::File::open("/dev/null").expect("it is there");
        client.ask(&request, &[file.as_fd()]).refused(ENOTSOCK);
        let (one, _other) = std::os::unix::net::UnixDatagram::pair().expect("sockets");
        client.ask(&request, &[one.as_fd()]).refused(ENOTSOCK);
        // A stream has no remote in NEW_PEER, and is not for us with one either.
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        client.ask(&request, &[tcp.as_fd()]).refused(EOPNOTSUPP);
        let streamed = New {
            remote: None,
            ..New::of(1)
        };
        let request = client.family.new_peer(client.index, &streamed);
        client.ask(&request, &[tcp.as_fd()]).refused(EOPNOTSUPP);
        client.ask(&request, &[bed.udp.as_fd()]).refused(EINVAL);
        client.get(1).refused(ENOENT);
        // Where it is bound, we listen: at one address, or at all.
        let bound = UdpSocket::bind("192.0.2.1:2194").expect("the host port has it");
        client.new_peer(&New::of(1), &bound).done();
        client.new(bed, &New::of(2)).done();
        let mut keys = [Key::random(0), Key::random(0)];
        let socket = bed.inside();
        for (peer, key) in (1u32..).zip(&mut keys) {
            client.key(peer, 0, key).done();
            let record = key.seal(peer, &inner_v4(vpn(peer), OWN, 100, peer));
            let at = if peer == 1 {
                "192.0.2.1:2194"
            } else {
                "192.0.2.1:1194"
            };
            let at = at.parse().expect("an address");
            bed.far.send(remote(peer), at, &record);
            assert_eq!(arrived(&socket), peer);
            assert_eq!(bed.carries_out(&socket, peer, key).from, at);
        }
        // With the last peer of a socket it is left: what comes there is the kernel's.
        client.del(1).done();
        drop(bound);
        let kernel = UdpSocket::bind("192.0.2.1:2194").expect("nobody holds it");
        let record = keys[0].seal(1, &inner_v4(vpn(1), OWN, 100, 1));
        bed.far
            .send(remote(1), "192.0.2.1:2194".parse().expect("an address"), &record);
        kernel
            .set_read_timeout(Some(gateway::PATIENCE))
            .expect("a socket");
        let mut bytes = [0; 2048];
        let (n, from) = kernel.recv_from(&mut bytes).expect("a datagram");
        assert_eq!((&bytes[..n], from), (&record[..], remote(1)));
    });
}

#[test]
fn one_peer_takes_the_place_of_another() {
    in_namespace("one_peer_takes_the_place_of_another", || {
        let mut bed = Bed::start();
        for family in Family::BOTH {
            let mut client = bed.client(family);
            client.drive(TUNNELS[0], 0);
            bed.up(TUNNELS[0], &["10.8.0.1/16"]);
            let flags = std::fs::read_to_string("/sys/class/net/tun0/flags").expect("it is there");
            let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).expect("a number");
            assert!(flags & 0x80 != 0, "IFF_NOARP: {flags:#x}");
            let socket = bed.inside();
            client.new(&bed, &New::of(5)).refused(EINVAL);
            let new = |id| New {
                vpn: Vec::new(),
                ..New::of(id)
            };
            client.new(&bed, &new(5)).done();
            let mut key = Key::random(0);
            client.key(5, 0, &key).done();
            // Whatever is sent is for it.
            bed.carries_in(&socket, 5, &mut key);
            for to in [vpn(5), Ipv4Addr::new(10, 8, 200, 200)] {
                socket
                    .send_to(&7u32.to_be_bytes(), (to, PORTS.0))
                    .expect("a route");
                bed.far.expect(&key, |_, inner| number(inner) == Some(7));
            }
            assert!(client.notifications().is_empty());
            client.new(&bed, &new(6)).done();
            let told = client.notifications();
            assert_eq!(told.len(), 1);
            assert_eq!(Told::of(family, client.index, &told[0]), Told::Deleted(5, 0));
            client.get(5).refused(ENOENT);
            // Under the same id: without a word, and without the keys and counts of before.
            let mut key = Key::random(0);
            client.key(6, 0, &key).done();
            bed.carries_in(&socket, 6, &mut key);
            client.new(&bed, &new(6)).done();
            assert!(client.notifications().is_empty());
            let peer = client.peer(6);
            assert_eq!((peer.link_rx, peer.vpn_rx), ([0; 2], [0; 2]));
            let before = bed.gateway.dropped("no_key");
            let record = key.seal(6, &inner_v4(vpn(6), OWN, 100, 1));
            bed.far.send(remote(6), listen(), &record);
            bed.wait_dropped("no_key", before + 1);
            let mut key = Key::random(0);
            client.key(6, 0, &key).done();
            bed.carries_in(&socket, 6, &mut key);
            bed.carries_out(&socket, 6, &key);
            client.link(&link_delete(client.index)).done();
        }
        bed.end();
    });
}

#[test]
fn key_slots() {
    each_family("key_slots", |bed, client| {
        let socket = bed.inside();
        let mut keys = client.peers(bed, 1);
        let mut first = keys.remove(0);
        bed.carries_in(&socket, 1, &mut first);
        bed.carries_out(&socket, 1, &first);
        // The secondary one opens and does not seal.
        let mut second = Key::random(1);
        client.key(1, 1, &second).done();
        bed.carries_in(&socket, 1, &mut second);
        bed.carries_out(&socket, 1, &first);
        client.swap(1).done();
        bed.carries_out(&socket, 1, &second);
        bed.carries_in(&socket, 1, &mut first);
        // Until it is deleted.
        client.del_key(1, 1).done();
        let before = bed.gateway.dropped("no_key");
        refused_record(bed, &mut first, "no_key", before + 1);
        client.del_key(1, 1).done();
        bed.carries_in(&socket, 1, &mut second);
        // An empty slot becomes the primary one: nothing is sent, what comes is still taken.
        client.swap(1).done();
        let before = bed.gateway.dropped("no_primary");
        socket
            .send_to(&1u32.to_be_bytes(), (vpn(1), PORTS.0))
            .expect("a route");
        bed.wait_dropped("no_primary", before + 1);
        bed.carries_in(&socket, 1, &mut second);
        client.swap(1).done();
        bed.carries_out(&socket, 1, &second);
        // The other key ids are no key's.
        let before = bed.gateway.dropped("no_key");
        for (n, id) in (1..).zip([0, 2, 3, 4, 5, 6, 7]) {
            let mut foreign = Key { id, ..second.clone() };
            refused_record(bed, &mut foreign, "no_key", before + n);
        }
        // In place of one, of the same id: packet ids begin anew, and the former key opens nothing.
        let mut third = Key::of(1, Cipher::ChaCha20Poly1305);
        client.key(1, 0, &third).done();
        assert_eq!(third.last, 0);
        bed.carries_in(&socket, 1, &mut third);
        let record = bed.carries_out(&socket, 1, &third);
        assert_eq!(record.id(), 1);
        let before = bed.gateway.dropped("bad_tag");
        refused_record(bed, &mut second, "bad_tag", before + 1);
        // The same id in both slots: the primary one is meant.
        let mut fourth = Key::of(1, Cipher::Aes128Gcm);
        client.key(1, 1, &fourth).done();
        // No packet id twice, so that what is looked at first in vain is the tag.
        fourth.last = 1000;
        bed.carries_in(&socket, 1, &mut third);
        refused_record(bed, &mut fourth, "bad_tag", before + 2);
        client.swap(1).done();
        bed.carries_in(&socket, 1, &mut fourth);
        bed.carries_out(&socket, 1, &fourth);
        third.last = 5000;
        refused_record(bed, &mut third, "bad_tag", before + 3);
        if client.family == Family::Ovpn {
            for (slot, key) in [(0, Some((1, 1))), (1, Some((1, 2)))] {
                key_is(client, slot, key);
            }
            client.del_key(1, 0).done();
            key_is(client, 0, None);
            key_is(client, 1, Some((1, 2)));
        }
    });
}

/// Sends a record that has to be dropped for a reason; how often that has been then.
#[track_caller]
fn refused_record(bed: &mut Bed, key: &mut Key, reason: &str, times: u64) {
    let record = key.seal(1, &inner_v4(vpn(1), OWN, 100, 1));
    bed.far.send(remote(1), listen(), &record);
    bed.wait_dropped(reason, times);
}

/// What KEY_GET says of a slot of peer 1: key id and algorithm.
#[track_caller]
fn key_is(client: &mut Client, slot: u8, key: Option<(u32, u32)>) {
    let request = control::get_key(client.index, 1, slot);
    let answer = client.ask(&request, &[]);
    let Some((id, algorithm)) = key else {
        answer.refused(ENOENT);
        return;
    };
    let replies = answer.done();
    let members = [(1, 1), (2, slot.into()), (3, id), (4, algorithm)].map(|(id, value)| u32_attr(id, value));
    let nest = control::message::nest(3, &members);
    assert_eq!(
        (replies.len(), replies[0][16], &replies[0][20..]),
        (1, 7, &nest[..])
    );
}

#[test]
fn a_peer_that_has_expired() {
    each_family("a_peer_that_has_expired", |bed, client| {
        client.peers(bed, 2);
        client.timers(1, 0, 1).done();
        let told = client.notification();
        assert_eq!(Told::of(client.family, client.index, &told), Told::Deleted(1, 2));
        // As if it had not read that yet: an error would end a daemon.
        let key = Key::random(3);
        client.key(1, 1, &key).done();
        client.swap(1).done();
        client.del_key(1, 0).done();
        client.timers(1, 3, 9).done();
        assert_eq!(client.peer(1).id, 1);
        assert_eq!(client.peer(2).id, 2);
        let dump = client.family.dump(client.index);
        assert_eq!(client.ask(&dump, &[]).done().len(), 1, "it is gone all the same");
        client.del(1).done();
        client.key(1, 1, &key).refused(ENOENT);
        client.get(1).refused(ENOENT);
        client.del(1).refused(ENOENT);
        // Once more, and a new peer comes under its id.
        client.timers(2, 0, 1).done();
        let told = client.notification();
        assert_eq!(Told::of(client.family, client.index, &told), Told::Deleted(2, 2));
        client.new(bed, &New::of(2)).done();
        let mut key = Key::random(0);
        client.key(2, 0, &key).done();
        let socket = bed.inside();
        bed.carries_in(&socket, 2, &mut key);
        bed.carries_out(&socket, 2, &key);
        assert_eq!(client.peer(2).vpn_rx, [1, 100]);
        client.del(2).done();
        client.del(2).refused(ENOENT);
        assert!(client.notifications().is_empty());
    });
}

#[test]
fn a_peer_is_removed_between_its_new_key_and_the_swap() {
    let name = "a_peer_is_removed_between_its_new_key_and_the_swap";
    each_family(name, |bed, client| {
        let mut keys = client.peers(bed, 2);
        let mut second = Key::random(1);
        client.key(1, 1, &second).done();
        client.del(1).done();
        client.swap(1).refused(ENOENT);
        client.del_key(1, 1).refused(ENOENT);
        let before = bed.gateway.dropped("unknown_peer");
        refused_record(bed, &mut second, "unknown_peer", before + 1);
        refused_record(bed, &mut keys[0], "unknown_peer", before + 2);
        // Under the same id anew: nothing of the former one is left.
        client.new(bed, &New::of(1)).done();
        let before = bed.gateway.dropped("no_key");
        refused_record(bed, &mut second, "no_key", before + 1);
        refused_record(bed, &mut keys[0], "no_key", before + 2);
        let socket = bed.inside();
        bed.carries_in(&socket, 2, &mut keys[1]);
        bed.carries_out(&socket, 2, &keys[1]);
        // Removed by a client of its own accord: nobody is told.
        assert!(client.notifications().is_empty());
    });
}

#[test]
fn counts_are_exact() {
    each_family("counts_are_exact", |bed, client| {
        let mut keys = client.peers(bed, 2);
        let (socket, mut key) = (bed.inside(), keys.remove(0));
        let empty = client.peer(1);
        let [zero, len, record] = [[0; 2], [100u64, 0], [124u64, 0]].map(|[a, _]| a);
        assert_eq!(
            [empty.link_rx, empty.link_tx, empty.vpn_rx, empty.vpn_tx],
            [[zero; 2]; 4]
        );
        let packet = |n| inner_v4(vpn(1), OWN, 100, n);
        // 50 good ones, then 4 of them again, 5 forged, 2 under no key, 6 with another's source, 3 keepalives; a short one.
        let good: Vec<_> = (0..50).map(|n| key.seal(1, &packet(n))).collect();
        let mut forged = key.seal(1, &packet(50));
        forged[30] ^= 1;
        let foreign = Key { id: 5, ..key.clone() }.seal(1, &packet(51));
        let mut all = good.clone();
        all.extend(good[3..7].to_vec());
        all.extend(vec![forged; 5]);
        all.extend(vec![foreign; 2]);
        all.extend((0..6).map(|n| key.seal(1, &inner_v4(vpn(2), OWN, 100, n))));
        all.extend((0..3).map(|_| key.seal(1, &PING)));
        let before = bed.gateway.counter("keepalives");
        for record in &all {
            bed.far.send(remote(1), listen(), record);
        }
        for n in 0..50 {
            assert_eq!(arrived(&socket), n);
        }
        wait_for("the keepalives", || {
            bed.gateway.counter("keepalives") == before + 3
        });
        let link = 50 + 4 + 5 + 2 + 6;
        wait_for("the last one to be counted", || {
            client.peer(1).link_rx[0] == link + 3
        });
        let peer = client.peer(1);
        assert_eq!(peer.link_rx, [link + 3, link * record + 3 * 40]);
        assert_eq!(peer.vpn_rx, [50, 50 * len]);
        assert_eq!([peer.link_tx, peer.vpn_tx], [[0; 2]; 2]);
        // 30 of 100 bytes the other way, and 7 for which there is no key: they are counted before it is looked for.
        for n in 0..37u32 {
            if n == 30 {
                wait_for("30 sent", || client.peer(1).link_tx[0] == 30);
                client.del_key(1, 0).done();
            }
            let mut payload = [0; 72];
            payload[..4].copy_from_slice(&n.to_be_bytes());
            socket.send_to(&payload, (vpn(1), PORTS.0)).expect("a route");
        }
        wait_for("37 counted", || client.peer(1).vpn_tx[0] == 37);
        let peer = client.peer(1);
        assert_eq!(peer.vpn_tx, [37, 37 * len]);
        assert_eq!(peer.link_tx, [30, 30 * record]);
        // Keepalives are in the link's count alone.
        client.key(1, 0, &key).done();
        client.timers(1, 1, 0).done();
        wait_for("a keepalive", || client.peer(1).link_tx[0] > 31);
        client.timers(1, 0, 0).done();
        let peer = client.peer(1);
        let pings = bed
            .far
            .all()
            .iter()
            .filter(|r| key.open(r).is_some_and(|inner| inner == PING))
            .count() as u64;
        assert_eq!(peer.link_tx, [30 + pings, 30 * record + pings * 40]);
        assert_eq!(peer.vpn_tx, [37, 37 * len]);
        let other = client.peer(2);
        assert_eq!(
            [other.link_rx, other.link_tx, other.vpn_rx, other.vpn_tx],
            [[0; 2]; 4]
        );
    });
}

#[test]
fn a_peer_knows_us_by_another_id() {
    in_namespace("a_peer_knows_us_by_another_id", || {
        let mut bed = Bed::start();
        let mut client = bed.server(Family::Ovpn);
        let socket = bed.inside();
        client
            .new(
                &bed,
                &New {
                    tx_id: Some(0xab_cdef),
                    ..New::of(1)
                },
            )
            .done();
        let mut key = Key::random(7);
        client.key(1, 0, &key).done();
        assert_eq!(client.peer(1).tx_id, Some(0xab_cdef));
        assert_eq!(bed.carries_out(&socket, 1, &key).peer(), 0xab_cdef);
        bed.carries_in(&socket, 1, &mut key);
        client
            .set(&New {
                id: 1,
                tx_id: Some(0),
                ..New::default()
            })
            .done();
        assert_eq!(bed.carries_out(&socket, 1, &key).peer(), 0);
        assert_eq!(client.peer(1).tx_id, Some(0));
        client
            .set(&New {
                id: 1,
                tx_id: Some(0x100_0000),
                ..New::default()
            })
            .refused(ERANGE);
        client.new(&bed, &New::of(2)).done();
        assert_eq!(client.peer(2).tx_id, Some(2));
        bed.end();
    });
}

#[test]
fn a_dump_of_300_peers() {
    each_family("a_dump_of_300_peers", |bed, client| {
        client.peers(bed, 300);
        let replies = client.ask(&client.family.dump(client.index), &[]).done();
        assert!(replies.iter().all(|r| u16_at(r, 6) & MULTI != 0));
        let peers: Vec<_> = replies.iter().map(|r| Peer::of(client.family, r)).collect();
        let ids: BTreeSet<u32> = peers.iter().map(|p| p.id).collect();
        assert_eq!((peers.len(), ids), (300, (1..=300).collect()));
        for peer in peers {
            assert_eq!(
                (peer.remote, peer.vpn),
                (Some(remote(peer.id)), vec![vpn(peer.id).into()])
            );
        }
    });
}

#[test]
fn timers() {
    each_family("timers", |bed, client| {
        let keys = client.peers(bed, 4);
        for (peer, interval, timeout) in [(1, 7, 0), (2, 0, 33), (3, 1, 0), (4, 0, 0)] {
            client.timers(peer, interval, timeout).done();
            assert_eq!(client.peer(peer).timers, (interval, timeout));
        }
        // The third one's alone run now: two keepalives of it come, and none of another.
        let mut pings = Vec::new();
        wait_for("two keepalives", || {
            pings.extend(bed.far.all().iter().map(|r| r.peer()));
            pings.len() > 1
        });
        assert!(pings.iter().all(|peer| *peer == 3), "{pings:?}");
        // Off again; then expiry alone.
        client.timers(3, 0, 0).done();
        bed.far.all();
        client.timers(4, 0, 1).done();
        let told = client.notification();
        assert_eq!(Told::of(client.family, client.index, &told), Told::Deleted(4, 2));
        let late = bed.far.all();
        assert!(late.is_empty(), "{late:?}");
        assert_eq!(client.peer(3).timers, (0, 0));
        // Beyond the end of the first one's time, had it not been set anew just before.
        client.timers(1, 0, 2).done();
        client.timers(2, 0, 1).done();
        client.timers(1, 0, 33).done();
        let told = client.notification();
        assert_eq!(Told::of(client.family, client.index, &told), Told::Deleted(2, 2));
        assert_eq!(client.peer(1).timers, (0, 33));
        match client.family {
            // Both or neither.
            Family::Ovpn => {
                let members = [u32_attr(1, 1), u32_attr(14, 5)];
                let request = Family::Ovpn.command(client.index, 2, 2, &members);
                client.ask(&request, &[]).refused(EINVAL);
            }
            // They act if both are there.
            Family::DcoV2 => {
                let members = [u32_attr(1, 1), u32_attr(3, 5)];
                let request = Family::DcoV2.command(client.index, 2, 3, &members);
                client.ask(&request, &[]).done();
            }
        }
        assert_eq!(client.peer(1).timers, (0, 33));
        drop(keys);
    });
}

/// Whatever was acknowledged holds for the very next record.
#[test]
fn a_change_holds_once_it_is_acknowledged() {
    each_family("a_change_holds_once_it_is_acknowledged", |bed, client| {
        let socket = bed.inside();
        let before = [
            "no_key",
            "unknown_peer",
            "no_primary",
            "unknown_mac",
            "no_neighbour",
            "no_remote",
        ]
        .map(|reason| (reason, bed.gateway.dropped(reason)));
        for n in 0..100u32 {
            let id = 1 + n % 4;
            client.new(bed, &New::of(id)).done();
            let mut key = Key::random(0);
            client.key(id, 0, &key).done();
            let record = key.seal(id, &inner_v4(vpn(id), OWN, 100, n));
            bed.far.send(remote(id), listen(), &record);
            assert_eq!(arrived(&socket), n);
            let mut second = Key::random(1 + (n % 7) as u8);
            client.key(id, 1, &second).done();
            let record = second.seal(id, &inner_v4(vpn(id), OWN, 100, n + 1000));
            bed.far.send(remote(id), listen(), &record);
            assert_eq!(arrived(&socket), n + 1000);
            client.swap(id).done();
            socket
                .send_to(&n.to_be_bytes(), (vpn(id), PORTS.0))
                .expect("a route");
            let record = bed.far.expect(&second, |_, inner| number(inner) == Some(n));
            assert_eq!((record.peer(), record.id()), (id, 1));
            client.del(id).done();
        }
        for (reason, n) in before {
            assert_eq!(bed.gateway.dropped(reason), n, "{reason}");
        }
    });
}

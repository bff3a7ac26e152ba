//! Peers as a client of the control socket makes, changes and removes them, byte for byte in both families: answers, state, and
//! the records that pass or do not.

#[path = "support/control.rs"]
mod control;
#[path = "support/gateway.rs"]
mod gateway;

use control::message::{MULTI, attr, u16_at, u32_attr};
use control::{
    Bed, Client, Family, Key, New, OWN, PORTS, Peer, TUNNELS, Told, arrived, each_family, get_key,
    link_delete, listen, remote, vpn,
};
use gateway::in_namespace;
use nf_path::twin::craft::{inner_v4, number};
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

#[test]
fn a_peer_that_is_not_there() {
    each_family("a_peer_that_is_not_there", |bed, client| {
        client.make(bed, &New::of(1)).done();
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
            let request = get_key(client.index, 9, 0);
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
        client.make(bed, &New::of(1)).done();
        let before = client.peer(1);
        assert_eq!(before.vpn, [IpAddr::from(vpn(1))]);
        assert_eq!((before.remote, before.local), (Some(remote(1)), Some(listen())));
        let other = New::of(1).at(remote(7)).vpn(&[vpn(7).into()]);
        client.make(bed, &other).refused(EEXIST);
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
        client.make(bed, &New::of(2).vpn(&[])).refused(EINVAL);
        for address in bad {
            let vpn: IpAddr = address.parse().expect("an address");
            client.make(bed, &New::of(2).vpn(&[vpn])).refused(EINVAL);
            client.get(2).refused(ENOENT);
        }
        let with_id = |id| New { id, ..New::of(8) };
        client.make(bed, &with_id(0x100_0000)).refused(ERANGE);
        // On the wire that says that there is none.
        client.make(bed, &with_id(0xff_ffff)).refused(ERANGE);
        // The highest id there is.
        client.make(bed, &with_id(0xff_fffe)).done();
        client.del(0xff_fffe).done();
        let taker = New::of(2).vpn(&[vpn(1).into()]);
        match client.family {
            Family::Ovpn => {
                client.make(bed, &taker).refused(EADDRINUSE);
                assert_eq!(client.peer(1), before);
                client.get(2).refused(ENOENT);
            }
            Family::DcoV2 => {
                client.make(bed, &taker).done();
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
        client.set(&New::id(1).vpn(&[vpn(2).into()])).refused(EADDRINUSE);
        client.set(&set(&["127.0.0.1"])).refused(EINVAL);
        client.set(&set(&["0.0.0.0"])).refused(EINVAL);
        assert_eq!(client.peer(1).vpn, [IpAddr::from(vpn(1))]);
        client.set(&set(&["fd08::2"])).done();
        assert_eq!(client.peer(1).vpn, [IpAddr::from(vpn(1)), v6]);
        client.set(&set(&["0.0.0.0"])).done();
        assert_eq!(client.peer(1).vpn, [v6]);
        client.set(&set(&["::"])).refused(EINVAL);
        // The address is free again, and used where it is now.
        client.set(&New::id(2).vpn(&[vpn(1).into()])).done();
        socket
            .send_to(&7u32.to_be_bytes(), (vpn(1), PORTS.0))
            .expect("a route");
        bed.far
            .expect(&keys[1], |r, inner| r.peer() == 2 && number(inner) == Some(7));
        let record = keys[1].seal(2, &inner_v4(vpn(1), OWN, 100, 8));
        bed.far.send(remote(2), listen(), &record);
        assert_eq!(arrived(&socket), 8);
        // Another remote address: what is sent goes there at once.
        client.set(&New::id(2).at(remote(40))).done();
        assert_eq!(client.peer(2).remote, Some(remote(40)));
        socket
            .send_to(&9u32.to_be_bytes(), (vpn(1), PORTS.0))
            .expect("a route");
        let record = bed.far.expect(&keys[1], |_, inner| number(inner) == Some(9));
        assert_eq!((record.from, record.to), (listen(), remote(40)));
        members_that_go_together(&mut client);
        assert_eq!(client.peer(2).remote, Some(remote(40)));
        bed.end();
    });
}

/// A port alone, an address alone, both versions, a socket, one timer: SET_PEER of peer 2 is refused.
fn members_that_go_together(client: &mut Client) {
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
        client.make(bed, &New::of(2)).done();
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
            client.make(&bed, &New::of(5)).refused(EINVAL);
            let new = |id| New {
                vpn: Vec::new(),
                ..New::of(id)
            };
            client.make(&bed, &new(5)).done();
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
            client.make(&bed, &new(6)).done();
            let told = client.notifications();
            assert_eq!(told.len(), 1);
            assert_eq!(Told::of(family, client.index, &told[0]), Told::Deleted(5, 0));
            client.get(5).refused(ENOENT);
            // Under the same id: without a word, and without the keys and counts of before.
            let mut key = Key::random(0);
            client.key(6, 0, &key).done();
            bed.carries_in(&socket, 6, &mut key);
            client.make(&bed, &new(6)).done();
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
fn a_peer_knows_us_by_another_id() {
    in_namespace("a_peer_knows_us_by_another_id", || {
        let mut bed = Bed::start();
        let mut client = bed.server(Family::Ovpn);
        let socket = bed.inside();
        client
            .make(
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
        client.make(&bed, &New::of(2)).done();
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

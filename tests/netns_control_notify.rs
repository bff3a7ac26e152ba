//! What clients of the control socket are told unasked, who is told, and who is not.

#[path = "support/control.rs"]
mod control;
#[path = "support/gateway.rs"]
mod gateway;

use control::{
    Bed, Client, Family, HOST, Key, New, OWN, PORTS, Peer, TUNNELS, Told, arrived, index_of, link_delete,
    link_new, listen, remote, vpn,
};
use gateway::{in_namespace, ip, wait_for};
use nf_path::twin::craft::{inner_v4, number};
use std::fs;
use std::net::{SocketAddr, SocketAddrV6, UdpSocket};

/// A peer where the bed expects it, with a key.
#[track_caller]
fn peer(client: &mut Client, new: &New, socket: &UdpSocket) -> Key {
    client.new_peer(new, socket).done();
    let key = Key::random(0);
    let request = client.family.new_key(client.index, new.id, 0, &key);
    client.ask(&request, &[]).done();
    key
}

#[track_caller]
fn state(client: &mut Client, peer: u32) -> Peer {
    let request = client.family.get_peer(client.index, peer);
    Peer::of(client.family, &client.ask(&request, &[]).done()[0])
}

#[track_caller]
fn told(client: &mut Client) -> Told {
    let message = client.notification();
    Told::of(client.family, client.index, &message)
}

#[track_caller]
fn all_told(client: &mut Client) -> Vec<Told> {
    let (family, index) = (client.family, client.index);
    let all = client.notifications();
    all.iter().map(|m| Told::of(family, index, m)).collect()
}

/// Has a peer go without a word, which is told.
#[track_caller]
fn expire(client: &mut Client, peer: u32) {
    let request = client.family.timers(client.index, peer, 0, 1);
    client.ask(&request, &[]).done();
}

/// Neither a record that is forged nor one that was there before moves peer 1.
fn does_not_float(bed: &mut Bed, client: &mut Client, socket: &UdpSocket, key: &mut Key) {
    let there = remote(70);
    let old = key.seal(1, &inner_v4(vpn(1), OWN, 100, 6));
    bed.far.send(remote(1), listen(), &old);
    assert_eq!(arrived(socket), 6);
    let before = ["replay_duplicate", "bad_tag"].map(|reason| bed.gateway.dropped(reason));
    bed.far.send(there, listen(), &old);
    let mut forged = key.seal(1, &inner_v4(vpn(1), OWN, 100, 7));
    forged[30] ^= 1;
    bed.far.send(there, listen(), &forged);
    bed.wait_dropped("replay_duplicate", before[0] + 1);
    bed.wait_dropped("bad_tag", before[1] + 1);
    assert_eq!(state(client, 1).remote, Some(remote(1)));
}

#[test]
fn a_float() {
    in_namespace("a_float", || {
        let mut bed = Bed::start();
        for family in Family::BOTH {
            let mut client = bed.server(family);
            let socket = bed.inside();
            let mut keys = [1, 2].map(|id| peer(&mut client, &New::of(id), &bed.udp));
            bed.carries_in(&socket, 1, &mut keys[0]);
            bed.carries_in(&socket, 2, &mut keys[1]);
            let floats = bed.said("its address is").len();
            let (there, n) = (remote(70), inner_v4(vpn(1), OWN, 100, 7));
            does_not_float(&mut bed, &mut client, &socket, &mut keys[0]);
            // By an authentic one: what is sent goes there.
            let record = keys[0].seal(1, &n);
            bed.far.send(there, listen(), &record);
            assert_eq!(arrived(&socket), 7);
            wait_for("the float to be known everywhere", || {
                bed.said("its address is").len() > floats
            });
            let timers = family.timers(client.index, 1, 0, 0);
            client.ask(&timers, &[]).done();
            assert_eq!(state(&mut client, 1).remote, Some(there));
            socket
                .send_to(&8u32.to_be_bytes(), (vpn(1), PORTS.0))
                .expect("a route");
            let sent = bed.far.expect(&keys[0], |_, inner| number(inner) == Some(8));
            assert_eq!(sent.to, there);
            // Where another peer is: the daemon may make room, and until it does the peer stays where it was.
            let record = keys[1].seal(2, &inner_v4(vpn(2), OWN, 100, 9));
            bed.far.send(there, listen(), &record);
            assert_eq!(arrived(&socket), 9);
            match family {
                Family::Ovpn => {
                    assert_eq!(told(&mut client), Told::Floated(1, there));
                    assert_eq!(told(&mut client), Told::Floated(2, there));
                }
                Family::DcoV2 => {
                    wait_for("the held one to be heard of", || {
                        !bed.said("not taken over while that peer has it").is_empty()
                    });
                }
            }
            assert_eq!(state(&mut client, 2).remote, Some(remote(2)));
            assert_eq!(all_told(&mut client), []);
            let request = family.del_peer(client.index, 1);
            client.ask(&request, &[]).done();
            let record = keys[1].seal(2, &inner_v4(vpn(2), OWN, 100, 10));
            bed.far.send(there, listen(), &record);
            assert_eq!(arrived(&socket), 10);
            if family == Family::Ovpn {
                assert_eq!(told(&mut client), Told::Floated(2, there));
            }
            wait_for("the float", || state(&mut client, 2).remote == Some(there));
            wait_for("word of it", || bed.said("its address is").len() == floats + 2);
            client.link(&link_delete(client.index)).done();
        }
        bed.end();
    });
}

/// That a peer has moved is not said of the one that comes under its id.
#[test]
fn a_float_of_the_one_before() {
    in_namespace("a_float_of_the_one_before", || {
        let mut bed = Bed::start();
        let mut client = bed.server(Family::Ovpn);
        let socket = bed.inside();
        let mut key = peer(&mut client, &New::of(1), &bed.udp);
        for n in 0..100 {
            let record = key.seal(1, &inner_v4(vpn(1), OWN, 100, n));
            bed.far.send(remote(70), listen(), &record);
            assert_eq!(arrived(&socket), n);
            let request = client.family.del_peer(client.index, 1);
            client.ask(&request, &[]).done();
            client.new_peer(&New::of(1), &bed.udp).done();
            // Those that came before the new one was there.
            let before = client.told_by_now();
            assert!(before.len() < 2, "{before:?}");
            key = Key::random(0);
            let request = client.family.new_key(client.index, 1, 0, &key);
            client.ask(&request, &[]).done();
            bed.carries_in(&socket, 1, &mut key);
            assert_eq!(all_told(&mut client), []);
            assert_eq!(state(&mut client, 1).remote, Some(remote(1)));
        }
        bed.end();
    });
}

#[test]
fn a_float_over_ipv6() {
    in_namespace("a_float_over_ipv6", || {
        let mut bed = Bed::start();
        fs::write("/proc/sys/net/ipv6/conf/wan0/disable_ipv6", "0").expect("the namespace's own setting");
        for address in ["2001:db8::1/64", "fe80::1/64"] {
            ip(&["address", "add", address, "dev", HOST, "nodad"]);
        }
        for there in ["2001:db8::2", "fe80::2"] {
            bed.neighbour(there);
        }
        let mut client = bed.server(Family::Ovpn);
        let socket = bed.inside();
        // One port for all of IPv6 and IPv4.
        let udp = UdpSocket::bind("[::]:2194").expect("a free port");
        let scope = index_of(HOST);
        let at = |text: &str, scope| {
            let mut address: SocketAddrV6 = text.parse().expect("an address");
            address.set_scope_id(scope);
            SocketAddr::from(address)
        };
        let places = [
            (
                at("[2001:db8::2]:4001", 0),
                at("[2001:db8::2]:4101", 0),
                at("[2001:db8::1]:2194", 0),
            ),
            (
                at("[fe80::2]:4002", scope),
                at("[fe80::2]:4102", scope),
                at("[fe80::1]:2194", 0),
            ),
        ];
        for (id, (from, to, own)) in (1..).zip(places) {
            let new = New {
                remote: Some(from),
                ..New::of(id)
            };
            let mut key = peer(&mut client, &new, &udp);
            assert_eq!(state(&mut client, id).remote, Some(from));
            for (n, place) in [(1, from), (2, to)] {
                let record = key.seal(id, &inner_v4(vpn(id), OWN, 100, n));
                bed.far.send(place, own, &record);
                assert_eq!(arrived(&socket), n);
            }
            assert_eq!(told(&mut client), Told::Floated(id, to));
            assert_eq!(state(&mut client, id).remote, Some(to));
            socket
                .send_to(&8u32.to_be_bytes(), (vpn(id), PORTS.0))
                .expect("a route");
            let sent = bed.far.expect(&key, |_, inner| number(inner) == Some(8));
            assert_eq!(
                (sent.from, sent.to.ip(), sent.to.port()),
                (own, to.ip(), to.port())
            );
        }
        bed.end();
    });
}

#[test]
fn who_is_told() {
    in_namespace("who_is_told", || {
        let bed = Bed::start();
        for family in Family::BOTH {
            let mut one = bed.server(family);
            let mut two = bed.client(family);
            two.drive(TUNNELS[1], 1);
            two.index = bed.index[1];
            // Who looks on: of either family, and without having asked for anything. A 2.6 daemon takes whatever it is told
            // for its own interface's.
            let mut onlookers = Family::BOTH.map(|family| bed.client(family));
            onlookers.iter_mut().for_each(Client::subscribe);
            let mut deaf = bed.client(family);
            let udp = UdpSocket::bind("0.0.0.0:1195").expect("a free port");
            for id in 1..=4 {
                peer(&mut one, &New::of(id), &bed.udp);
            }
            let other = New {
                remote: Some(remote(11)),
                ..New::of(1)
            };
            peer(&mut two, &other, &udp);
            // Removed by its own daemon: nobody is told.
            let request = family.del_peer(one.index, 4);
            one.ask(&request, &[]).done();
            expire(&mut one, 1);
            assert_eq!(told(&mut one), Told::Deleted(1, 2));
            let [of_2_6, of_2_7] = &mut onlookers;
            assert_eq!(told(of_2_7), Told::Deleted(1, 2));
            assert_eq!(all_told(of_2_6), []);
            assert_eq!(all_told(&mut two), [], "its own peer 1 is there still");
            assert_eq!(state(&mut two, 1).remote, other.remote);
            // With the interface its peers go.
            one.link(&link_delete(one.index)).done();
            let mut gone = all_told(of_2_7);
            gone.sort_by_key(|t| format!("{t:?}"));
            assert_eq!(gone, [Told::Deleted(2, 0), Told::Deleted(3, 0)]);
            assert_eq!(all_told(of_2_6), []);
            assert_eq!(all_told(&mut two), []);
            assert!(deaf.notifications().is_empty());
            two.link(&link_delete(two.index)).done();
        }
        bed.end();
    });
}

#[test]
fn again() {
    in_namespace("again", || {
        let bed = Bed::start();
        for family in Family::BOTH {
            let mut client = bed.server(family);
            peer(&mut client, &New::of(1), &bed.udp);
            expire(&mut client, 1);
            let message = client.notification();
            // Whatever is said meanwhile is answered first.
            let request = family.dump(client.index);
            assert!(client.generic.send(&request, &[]));
            client.again(&message);
            client.again(&message);
            client.answer(&request).done();
            for _ in 0..2 {
                assert_eq!(client.generic.packet().0, message);
            }
            assert!(client.notifications().is_empty());
            client.link(&link_delete(client.index)).done();
        }
        bed.end();
    });
}

/// A daemon that starts anew without having given its interface up: its peers are gone, and it is told as at any end.
#[test]
fn the_interface_is_asked_for_again() {
    in_namespace("the_interface_is_asked_for_again", || {
        let bed = Bed::start();
        for family in Family::BOTH {
            let mut client = bed.server(family);
            let mut onlooker = bed.client(Family::Ovpn);
            onlooker.subscribe();
            peer(&mut client, &New::of(3), &bed.udp);
            client
                .link(&link_new(TUNNELS[0], family.link_kind(), Some(1)))
                .done();
            assert_eq!(told(&mut onlooker), Told::Deleted(3, 0));
            let dump = family.dump(client.index);
            assert!(client.ask(&dump, &[]).done().is_empty());
            client.link(&link_delete(client.index)).done();
        }
        bed.end();
    });
}

//! What changes about the interfaces while the gateway runs: their MTU and their addresses.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/life.rs"]
mod life;

use gateway::{in_namespace, ip, wait_for};
use life::{Bed, Peer, Settings, vpn};
use nf_path::twin::craft::inner_v4;
use std::net::UdpSocket;

/// Sends an inner packet of `len` bytes from the peer, and gives what the socket received.
fn arrives(bed: &mut Bed, peer: &Peer, socket: &UdpSocket, len: usize) -> usize {
    bed.far.send(peer, &inner_v4(vpn(0), life::OWN, len, 1));
    let mut received = 0;
    wait_for("a packet", || {
        received = socket.recv(&mut [0; 4000]).unwrap_or(0);
        received > 0
    });
    received + 28
}

#[test]
fn the_tunnels_mtu_is_followed() {
    in_namespace("the_tunnels_mtu_is_followed", || {
        // A full record does not fit the NIC from 1449 on: it comes and goes in fragments.
        let mut bed = Bed::start(Settings {
            tunnel: "mtu = 1400".into(),
            ..Settings::with_peers(1)
        });
        bed.connected(0);
        let peers = bed.settings.peers.clone();
        let socket = bed.socket();
        for mtu in [1400, 1280, 1420, 1500, 68] {
            ip(&["link", "set", "ovpn0", "mtu", &mtu.to_string()]);
            if mtu != 1400 {
                let line = format!("ovpn0: its MTU is {mtu} now");
                wait_for(&line, || !bed.said(&line).is_empty());
            }
            // In: full size passes; a byte more is counted, and stops nothing.
            let lost = bed.gateway.dropped("tunnel_mtu");
            assert_eq!(arrives(&mut bed, &peers[0], &socket, mtu), mtu);
            bed.far.send(&peers[0], &inner_v4(vpn(0), life::OWN, mtu + 1, 2));
            wait_for("it to be counted", || {
                bed.gateway.dropped("tunnel_mtu") == lost + 1
            });
            assert_eq!(arrives(&mut bed, &peers[0], &socket, mtu), mtu);
            // Out: as the kernel gives it.
            socket.send_to(&vec![0; mtu - 28], (vpn(0), 9)).expect("a route");
            assert_eq!(bed.far.take(&peers, 1)[0].inner.len(), mtu);
        }
        // More than the port takes: said, and what was goes on.
        ip(&["link", "set", "ovpn0", "mtu", "9000"]);
        wait_for("a word about it", || {
            !bed.said("ovpn0: its MTU cannot be followed").is_empty()
        });
        ip(&["link", "set", "ovpn0", "mtu", "1500"]);
        wait_for("1500 again", || bed.said("ovpn0: its MTU is 1500 now").len() > 1);
        assert_eq!(arrives(&mut bed, &peers[0], &socket, 1500), 1500);
        bed.end();
    });
}

#[test]
fn a_wildcard_follows_the_addresses_of_the_host_interface() {
    in_namespace("a_wildcard_follows_the_addresses_of_the_host_interface", || {
        let mut bed = Bed::start(Settings {
            listen: vec!["0.0.0.0:1194".into()],
            ..Settings::with_peers(1)
        });
        let peer = bed.settings.peers[0].clone();
        let socket = bed.socket();
        // wan0 got its address after the start.
        bed.connected(0);
        let send = |bed: &mut Bed, last: u8| {
            let record = bed.far.seal(&peer, 0, &inner_v4(vpn(0), life::OWN, 100, 1));
            bed.far
                .send_from(peer.remote, ([192, 0, 2, last], 1194).into(), &record);
        };
        let arrives = |bed: &mut Bed, last: u8| {
            wait_for("a packet", || {
                send(bed, last);
                std::thread::sleep(std::time::Duration::from_millis(20));
                socket.recv(&mut [0; 4000]).is_ok()
            });
            while socket.recv(&mut [0; 4000]).is_ok() {}
            // The answer leaves from the address that was contacted.
            bed.far
                .all(std::slice::from_ref(&peer), std::time::Duration::from_millis(50));
            socket.send_to(b"answer", (vpn(0), 9)).expect("a route");
            let from = bed.far.take(std::slice::from_ref(&peer), 1)[0].from;
            assert_eq!(from, ([192, 0, 2, last], 1194).into());
        };
        arrives(&mut bed, 1);
        let records = bed.gateway.counter("records");
        bed.far
            .send_from(peer.remote, ([192, 0, 2, 9], 1194).into(), &[0x48, 0, 0, 0, 0]);
        wait_for("it to go to the kernel", || {
            bed.gateway.counter("to_daemon") + bed.gateway.counter("to_host") > 0
        });
        assert_eq!(bed.gateway.counter("records"), records, "nobody's address");
        ip(&["address", "add", "192.0.2.9/24", "dev", "wan0"]);
        arrives(&mut bed, 9);
        arrives(&mut bed, 1);
        ip(&["address", "delete", "192.0.2.9/24", "dev", "wan0"]);
        let to_host = bed.gateway.counter("to_host");
        wait_for("nobody's address again", || {
            bed.far
                .send_from(peer.remote, ([192, 0, 2, 9], 1194).into(), &[0x48, 0, 0, 0, 0]);
            bed.gateway.counter("to_host") > to_host
        });
        arrives(&mut bed, 1);
        bed.end();
    });
}

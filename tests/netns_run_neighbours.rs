//! The next hops of the tunnel interface: a MAC address per peer, permanent neighbours, answers, one peer without any.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/life.rs"]
mod life;

use gateway::{Wire, in_namespace, ip, mac, run, wait_for};
use life::{Bed, OWN, Settings, vpn};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

/// Address and MAC address of each permanent neighbour of the tunnel interface.
fn permanent() -> HashMap<String, String> {
    let words = ["-j", "neighbour", "show", "dev", "ovpn0", "nud", "permanent"];
    let all: Vec<Value> =
        serde_json::from_str(&run(Command::new("ip").args(words))).expect("ip -j prints JSON");
    let text = |n: &Value, key: &str| n[key].as_str().unwrap_or_default().to_owned();
    all.iter().map(|n| (text(n, "dst"), text(n, "lladdr"))).collect()
}

/// The MAC address that stands for a peer, as `ip` prints it.
fn peer_mac(id: u32) -> String {
    let [_, a, b, c] = id.to_be_bytes();
    format!("02:6f:76:{a:02x}:{b:02x}:{c:02x}")
}

fn sysctl(path: &str) -> String {
    let value = fs::read_to_string(format!("/proc/sys/net/{path}")).expect("it is there");
    value.trim().into()
}

#[test]
fn thousands_of_peers_are_neighbours_and_put_back() {
    in_namespace("thousands_of_peers_are_neighbours_and_put_back", || {
        const PEERS: u32 = 3000;
        let start = Instant::now();
        let mut bed = Bed::start(Settings::with_peers(PEERS));
        let complete = || {
            let all = permanent();
            let of = |id| all.get(&vpn(id).to_string()) == Some(&peer_mac(id));
            all.len() == PEERS as usize && (0..PEERS).all(of)
        };
        wait_for("all of them", complete);
        println!("{PEERS} neighbours {:?} after the start", start.elapsed());
        assert!(start.elapsed() < Duration::from_secs(10));
        ip(&["link", "set", "ovpn0", "down"]);
        assert!(permanent().is_empty(), "the kernel flushes them");
        let start = Instant::now();
        ip(&["link", "set", "ovpn0", "up"]);
        wait_for("all of them again", complete);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        bed.connected(PEERS - 1);
        bed.end();
    });
}

#[test]
fn settings_of_the_tunnel_interface() {
    in_namespace("settings_of_the_tunnel_interface", || {
        for path in ["ipv4/conf/all/send_redirects", "ipv4/conf/default/send_redirects"] {
            fs::write(format!("/proc/sys/net/{path}"), "1").expect("root may");
        }
        fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "1").expect("root may");
        let bed = Bed::start(Settings::with_peers(1));
        for path in [
            "ipv4/conf/ovpn0/send_redirects",
            "ipv4/conf/all/send_redirects",
            "ipv6/conf/ovpn0/accept_dad",
        ] {
            assert_eq!(sysctl(path), "0", "{path}");
        }
        let link = run(Command::new("ip").args(["link", "show", "ovpn0"]));
        assert!(!link.contains("NOARP"), "{link}");
        bed.end();
    });
}

/// IPv6 on the tunnel interface: fd08::1, and fd08::1:0 + p for peer p.
fn with_ipv6(settings: &mut Settings) {
    for peer in &mut settings.peers {
        peer.addresses.push(format!("fd08::1:{:x}", peer.id));
    }
}

fn enable_ipv6() {
    fs::write("/proc/sys/net/ipv6/conf/ovpn0/disable_ipv6", "0").expect("root may");
    ip(&["address", "add", "fd08::1/64", "dev", "ovpn0"]);
}

#[test]
fn an_entry_that_was_deleted_is_answered_for() {
    in_namespace("an_entry_that_was_deleted_is_answered_for", || {
        let mut settings = Settings::with_peers(2);
        with_ipv6(&mut settings);
        let mut bed = Bed::start(settings);
        enable_ipv6();
        // IPv6 forgets its neighbours with the interface; they are back once it is on.
        wait_for("four neighbours", || permanent().len() == 4);
        bed.connected(0);
        let v6 = "fd08::1:1".parse::<Ipv6Addr>().expect("an address");
        for address in [vpn(1).to_string(), v6.to_string()] {
            ip(&["neighbour", "delete", &address, "dev", "ovpn0"]);
        }
        let replies = bed.gateway.counter("neighbour_replies");
        let four = UdpSocket::bind((OWN, 0)).expect("ovpn0 has the address");
        four.send_to(b"four", (vpn(1), 9)).expect("a route");
        let six = UdpSocket::bind(("fd08::1", 0)).expect("no duplicate address detection");
        six.send_to(b"six", (v6, 9)).expect("a route");
        let peers = bed.settings.peers.clone();
        let mut inner: Vec<_> = bed
            .far
            .take(&peers, 2)
            .into_iter()
            .map(|r| (r.peer, r.inner))
            .collect();
        inner.sort_unstable();
        assert!(inner[0].0 == 1 && inner[0].1.ends_with(b"four"));
        assert!(inner[1].0 == 1 && inner[1].1.ends_with(b"six"));
        assert!(bed.gateway.counter("neighbour_replies") >= replies + 2);
        let learned = run(Command::new("ip").args(["neighbour", "show", "dev", "ovpn0"]));
        assert_eq!(learned.matches(&peer_mac(1)).count(), 2, "{learned}");
        bed.end();
    });
}

/// An ARP request.
fn arp(from: [u8; 6], sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let head = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
    [
        &[0xff; 6][..],
        &from,
        &head,
        &from,
        &sender.octets(),
        &[0; 6],
        &target.octets(),
    ]
    .concat()
}

/// A neighbour solicitation (RFC 4861, 4.3) with the source's link-layer address, unless it is a probe.
fn solicitation(from: [u8; 6], source: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let last = &target.octets()[13..];
    let group: [u8; 16] = [&[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff][..], last]
        .concat()
        .try_into()
        .expect("16 bytes");
    let mut icmp = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target.octets()].concat();
    if !source.is_unspecified() {
        icmp.extend([1, 1]);
        icmp.extend(from);
    }
    let len = (icmp.len() as u32).to_be_bytes();
    let pseudo = [&source.octets()[..], &group, &len, &[0, 0, 0, 58], &icmp].concat();
    let sum: u32 = pseudo
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let sum = !((folded & 0xffff) + (folded >> 16)) as u16;
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = [&[0x33, 0x33, 0xff][..], last, &from, &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
    frame.extend(&len[2..]);
    frame.extend([58, 255]);
    frame.extend([&source.octets()[..], &group, &icmp].concat());
    frame
}

#[test]
fn probes_and_our_own_address_are_never_answered() {
    in_namespace("probes_and_our_own_address_are_never_answered", || {
        let mut settings = Settings::with_peers(1);
        with_ipv6(&mut settings);
        let mut bed = Bed::start(settings);
        enable_ipv6();
        bed.connected(0);
        let mut wire = Wire::of("ovpn0");
        let me = mac("ovpn0");
        let v6 = |text: &str| text.parse::<Ipv6Addr>().expect("an address");
        let (own, peer) = (v6("fd08::1"), v6("fd08::1:0"));
        // The kernel's own frames are noise too, and may come in between.
        let counters = || {
            let counter = |name| bed.gateway.counter(name);
            (counter("neighbour_replies"), counter("kernel_noise"))
        };
        let mut answers = |frame: &[u8]| {
            let before = counters();
            wire.send(frame);
            wait_for("the frame to be taken", || counters() != before);
            counters().0 - before.0
        };
        let answered = counters().0;
        for frame in [arp(me, OWN, vpn(0)), solicitation(me, own, peer)] {
            let before = counters().0;
            answers(&frame);
            wait_for("an answer", || counters().0 == before + 1);
        }
        for (what, frame) in [
            ("an ARP probe", arp(me, Ipv4Addr::UNSPECIFIED, vpn(0))),
            ("an announcement", arp(me, OWN, OWN)),
            ("a probe for our own", arp(me, Ipv4Addr::UNSPECIFIED, OWN)),
            ("nobody's address", arp(me, OWN, vpn(77))),
            ("a DAD probe", solicitation(me, Ipv6Addr::UNSPECIFIED, peer)),
            (
                "a DAD probe for our own",
                solicitation(me, Ipv6Addr::UNSPECIFIED, own),
            ),
            ("our own address", solicitation(me, peer, own)),
            ("nobody's address", solicitation(me, own, v6("fd08::77"))),
        ] {
            assert_eq!(answers(&frame), 0, "{what}");
        }
        assert_eq!(counters().0, answered + 2, "also none that came late");
        bed.end();
    });
}

#[test]
fn with_one_peer_everything_goes_to_it() {
    in_namespace("with_one_peer_everything_goes_to_it", || {
        let mut bed = Bed::start(Settings {
            tunnel: "mode = \"p2p\"".into(),
            ..Settings::with_peers(1)
        });
        let link = run(Command::new("ip").args(["link", "show", "ovpn0"]));
        assert!(link.contains("NOARP"), "{link}");
        bed.connected(0);
        ip(&["route", "add", "203.0.113.0/24", "dev", "ovpn0"]);
        let socket = UdpSocket::bind((OWN, 0)).expect("ovpn0 has the address");
        let peers = bed.settings.peers.clone();
        for to in [vpn(0), vpn(500), Ipv4Addr::new(203, 0, 113, 9)] {
            socket.send_to(b"hello", (to, 9)).expect("a route");
            let record = bed.far.take(&peers, 1).remove(0);
            assert_eq!((record.peer, &record.inner[16..20]), (0, &to.octets()[..]));
        }
        assert!(permanent().is_empty());
        // Whatever the destination MAC address is; but none of the kernel's own discovery.
        let mut wire = Wire::of("ovpn0");
        let packet = nf_path::twin::craft::inner_v4(OWN, vpn(3), 60, 9);
        let frame = [&[2, 9, 9, 9, 9, 9][..], &mac("ovpn0"), &[8, 0], &packet].concat();
        wire.send(&frame);
        assert_eq!(bed.far.take(&peers, 1)[0].inner, packet);
        let noise = bed.gateway.counter("kernel_noise");
        wire.send(&arp(mac("ovpn0"), OWN, vpn(0)));
        wait_for("it to be counted", || bed.gateway.counter("kernel_noise") > noise);
        assert_eq!(bed.far.next(&peers), None);
        bed.end();
    });
}

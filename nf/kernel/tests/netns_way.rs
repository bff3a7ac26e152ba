//! The way to a remote: the kernel's route, and the neighbour that it is had to resolve.

mod support;

use nf_kernel::{Change, Monitor, NeighbourState, Netlink, RouteTo};
use std::net::IpAddr;
use support::{in_namespace, ip, mac, peer, until, wait_for};

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// `v0` here, `v1` in the other namespace, each with addresses of both versions; a second pair `w0`, `w1` here.
fn wires() {
    let beside = peer();
    ip("link add v0 type veth peer name v1 address 02:00:00:00:00:11");
    ip(&format!("link set v1 netns {beside}"));
    ip("link add w0 type veth peer name w1");
    for words in [
        "addr add 192.0.2.1/24 dev v0",
        "addr add 2001:db8::1/64 dev v0 nodad",
        "link set v0 up",
    ] {
        ip(words);
    }
    for words in [
        "addr add 192.0.2.2/24 dev v1",
        "addr add 2001:db8::2/64 dev v1 nodad",
        "link set v1 up",
    ] {
        ip(&format!("-n {beside} {words}"));
    }
    for words in [
        "addr add 198.51.100.1/24 dev w0",
        "link set w0 up",
        "link set w1 up",
    ] {
        ip(words);
    }
    ip("route add 203.0.113.0/24 via 192.0.2.2");
    ip("route add 2001:db8:9::/48 via 2001:db8::2");
    ip("route add unreachable 203.0.113.128/25");
    ip("route add 203.0.113.64/26 via 198.51.100.2 metric 5");
    ip("route add 203.0.113.64/26 via 192.0.2.2 metric 9");
}

fn routes(netlink: &mut Netlink, v0: u32, w0: u32) {
    let to = |oif, gateway: Option<&str>, prefsrc: &str| {
        Some(RouteTo {
            oif,
            gateway: gateway.map(address),
            prefsrc: Some(address(prefsrc)),
            local: false,
        })
    };
    let mut way = |remote: &str, out| netlink.route_to(address(remote), out).expect("a look-up");
    for out in [None, Some(v0)] {
        assert_eq!(way("192.0.2.2", out), to(v0, None, "192.0.2.1"));
        assert_eq!(way("203.0.113.5", out), to(v0, Some("192.0.2.2"), "192.0.2.1"));
        assert_eq!(way("2001:db8::2", out), to(v0, None, "2001:db8::1"));
        assert_eq!(
            way("2001:db8:9::5", out),
            to(v0, Some("2001:db8::2"), "2001:db8::1")
        );
    }
    assert_eq!(
        way("203.0.113.70", None),
        to(w0, Some("198.51.100.2"), "198.51.100.1")
    );
    assert_eq!(
        way("203.0.113.70", Some(v0)),
        to(v0, Some("192.0.2.2"), "192.0.2.1")
    );
    // No route, one that forbids, none by that interface.
    for (remote, out) in [
        ("8.8.8.8", None),
        ("8.8.8.8", Some(v0)),
        ("203.0.113.200", None),
        ("203.0.113.5", Some(w0)),
    ] {
        assert_eq!(way(remote, out), None, "{remote} by {out:?}");
    }
    assert_eq!(way("2001:db8:7::1", None), None);
    assert_eq!(way("2001:db8:9::5", Some(w0)), None);
    let own = way("192.0.2.1", None).expect("the own address");
    assert!(own.local);
}

fn resolve(netlink: &mut Netlink, monitor: &mut Monitor, v0: u32, remote: IpAddr) {
    assert_eq!(
        netlink.neighbour(v0, remote).expect("a look-up"),
        None,
        "{remote}"
    );
    netlink.ask(v0, remote).expect("asked");
    let there = Some([2, 0, 0, 0, 0, 0x11]);
    until(
        monitor,
        "resolved",
        |c| matches!(c, Change::Neighbour(n) if n.index == v0 && n.address == remote && n.usable() == there),
    );
    let known = netlink
        .neighbour(v0, remote)
        .expect("a look-up")
        .expect("an entry");
    assert_eq!(known.usable(), there, "{known:?}");
    assert!(ip(&format!("neigh show {remote} dev v0")).contains("managed"));
    // Asked again, and let go again.
    netlink.ask(v0, remote).expect("asked again");
    netlink.release(v0, remote).expect("released");
    assert!(!ip(&format!("neigh show {remote} dev v0")).contains("managed"));
}

#[test]
fn way_to_a_remote() {
    in_namespace("way_to_a_remote", || {
        wires();
        let mut netlink = Netlink::open().expect("rtnetlink");
        let mut monitor = Monitor::open().expect("a monitor");
        let index = |netlink: &mut Netlink, name| netlink.link(name).expect("a look-up").expect(name).index;
        let (v0, w0) = (index(&mut netlink, "v0"), index(&mut netlink, "w0"));
        wait_for("a carrier", || {
            netlink.link("v0").expect("a look-up").is_some_and(|l| l.carrier)
        });
        routes(&mut netlink, v0, w0);
        resolve(&mut netlink, &mut monitor, v0, address("192.0.2.2"));
        resolve(&mut netlink, &mut monitor, v0, address("2001:db8::2"));

        // Nobody answers: not usable, and no error.
        let nobody = address("192.0.2.9");
        netlink.ask(v0, nobody).expect("asked");
        let known = netlink
            .neighbour(v0, nobody)
            .expect("a look-up")
            .expect("an entry");
        assert_eq!((known.usable(), known.state.usable()), (None, false), "{known:?}");
        netlink
            .release(v0, address("192.0.2.10"))
            .expect("nothing to release");

        // A permanent entry stays what it is.
        let fixed = address("192.0.2.3");
        netlink.put_neighbours(v0, &[(fixed, mac(3))]).expect("set");
        netlink.ask(v0, fixed).expect("asked");
        netlink.release(v0, fixed).expect("released");
        let known = netlink
            .neighbour(v0, fixed)
            .expect("a look-up")
            .expect("an entry");
        assert_eq!(
            (known.state, known.usable()),
            (NeighbourState::Permanent, Some(mac(3)))
        );
        assert_eq!(
            netlink.ask(9999, fixed).expect_err("no such interface").errno(),
            Some(19)
        );
    });
}

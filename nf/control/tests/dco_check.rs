//! VPN addresses by mode.

use nf_control::Mode;
use nf_control::dco::{Errno, NewPeer, Refusal, SetPeer};
use std::net::{Ipv4Addr, Ipv6Addr};

type Addresses = (Option<Ipv4Addr>, Option<Ipv6Addr>);

fn new(vpn: Addresses) -> NewPeer {
    NewPeer {
        id: 8,
        tx_id: None,
        remote: Some("192.0.2.9:1194".parse().unwrap()),
        local: None,
        vpn_v4: vpn.0,
        vpn_v6: vpn.1,
        interval: None,
        timeout: None,
        socket: 7,
    }
}

fn set(vpn: Addresses) -> SetPeer {
    SetPeer {
        id: 8,
        tx_id: None,
        remote: None,
        local: None,
        vpn_v4: vpn.0,
        vpn_v6: vpn.1,
        interval: None,
        timeout: None,
    }
}

fn v4(text: &str) -> Addresses {
    (Some(text.parse().unwrap()), None)
}

fn v6(text: &str) -> Addresses {
    (None, Some(text.parse().unwrap()))
}

fn both(v4: &str, v6: &str) -> Addresses {
    (Some(v4.parse().unwrap()), Some(v6.parse().unwrap()))
}

#[track_caller]
fn refused(checked: Result<(), Refusal>) {
    let refusal = checked.expect_err("must be refused");
    assert_eq!(refusal.errno, Errno::EINVAL, "{refusal:?}");
    assert!(refusal.text.starts_with("peer 8: "), "{refusal:?}");
}

#[test]
fn one_peer_has_none() {
    assert!(new((None, None)).check(Mode::P2p).is_ok());
    assert!(set((None, None)).check(Mode::P2p, (None, None)).is_ok());
    for vpn in [
        v4("10.8.0.2"),
        v6("fd77::2"),
        v4("0.0.0.0"),
        both("10.8.0.2", "fd77::2"),
    ] {
        refused(new(vpn).check(Mode::P2p));
        refused(set(vpn).check(Mode::P2p, (None, None)));
    }
}

#[test]
fn of_many_peers_each_has_one() {
    refused(new((None, None)).check(Mode::Mp));
    for vpn in [
        v4("10.8.0.2"),
        v6("fd77::2"),
        v6("fe80::2"),
        both("10.8.0.2", "fd77::2"),
    ] {
        assert!(new(vpn).check(Mode::Mp).is_ok(), "{vpn:?}");
        assert!(set(vpn).check(Mode::Mp, (None, None)).is_ok(), "{vpn:?}");
    }
}

#[test]
fn addresses_that_no_host_has() {
    let v4s = [
        "127.0.0.1",
        "127.255.0.9",
        "224.0.0.5",
        "239.1.1.1",
        "255.255.255.255",
    ]
    .map(v4);
    let v6s = ["::1", "ff02::1", "ff0e::5", "::10.8.0.2", "::ffff:10.8.0.2"].map(v6);
    for vpn in v4s.into_iter().chain(v6s) {
        refused(new(vpn).check(Mode::Mp));
        refused(set(vpn).check(Mode::Mp, both("10.8.0.2", "fd77::2")));
        // Beside a good one, too.
        let beside = (vpn.0.or(v4("10.8.0.2").0), vpn.1.or(v6("fd77::2").1));
        refused(new(beside).check(Mode::Mp));
    }
    for vpn in [
        v4("0.0.0.0"),
        v6("::"),
        both("0.0.0.0", "fd77::2"),
        both("10.8.0.2", "::"),
    ] {
        refused(new(vpn).check(Mode::Mp));
    }
}

#[test]
fn one_of_two_can_be_cleared() {
    let now = both("10.8.0.2", "fd77::2");
    for vpn in [
        v4("0.0.0.0"),
        v6("::"),
        both("0.0.0.0", "fd77::3"),
        both("10.8.0.3", "::"),
    ] {
        assert!(set(vpn).check(Mode::Mp, now).is_ok(), "{vpn:?}");
    }
    refused(set(both("0.0.0.0", "::")).check(Mode::Mp, now));
    refused(set(v4("0.0.0.0")).check(Mode::Mp, v4("10.8.0.2")));
    refused(set(v6("::")).check(Mode::Mp, v6("fd77::2")));
    refused(set(v6("::")).check(Mode::Mp, (None, None)));
    // What says nothing of them leaves them alone.
    assert!(set((None, None)).check(Mode::Mp, now).is_ok());
}

//! Thousands of permanent neighbours are set, listed, flushed by the kernel, put back and removed.

mod support;

use nf_kernel::{Change, Error, Mac, Monitor, Neighbour, NeighbourState, Netlink, sysctl};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};
use support::{in_namespace, ip, mac, until, veth};

/// As many peers, each with an address of either version.
const PEERS: u32 = 3000;

fn peers() -> Vec<(IpAddr, Mac)> {
    let v4 = |n: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a4d_0001 + n));
    let v6 = |n: u32| IpAddr::from(Ipv6Addr::from_bits((0xfd00_u128 << 112) + 1 + u128::from(n)));
    (0..PEERS)
        .flat_map(|n| [(v4(n), mac(n)), (v6(n), mac(n))])
        .collect()
}

fn as_pairs(neighbours: &[Neighbour]) -> HashSet<(IpAddr, Mac)> {
    neighbours
        .iter()
        .map(|n| (n.address, n.usable().expect("permanent is usable")))
        .collect()
}

fn remove_half(netlink: &mut Netlink, index: u32, peers: &[(IpAddr, Mac)]) {
    // Removed; what is not there is no error.
    let half: Vec<IpAddr> = peers[..peers.len() / 2]
        .iter()
        .map(|(address, _)| *address)
        .collect();
    netlink.remove_neighbours(index, &half).expect("removed");
    netlink.remove_neighbours(index, &half).expect("removed before");
    let there = netlink.permanent_neighbours(index).expect("a dump");
    assert_eq!(
        as_pairs(&there),
        peers[peers.len() / 2..].iter().copied().collect()
    );
    let gone = netlink.neighbour(index, half[0]).expect("a look-up");
    assert!(gone.is_none_or(|n| n.state == NeighbourState::Failed && n.usable().is_none()));
}

fn refusals(netlink: &mut Netlink, index: u32) {
    let [first, last] = ["10.1.1.1", "10.1.1.2"].map(|text| text.parse().expect("an address"));
    let mixed = [
        (first, mac(1)),
        (Ipv6Addr::LOCALHOST.into(), mac(2)),
        (last, mac(3)),
    ];
    let path = sysctl::path(sysctl::Version::V6, "v0", "disable_ipv6");
    sysctl::set(&path, "1").expect("set");
    // One that the kernel refuses does not keep the others out, and is named.
    let refused = netlink.put_neighbours(index, &mixed).expect_err("without IPv6");
    let reason = "Invalid argument (os error 22) (IPv6 is disabled on this device)";
    assert_eq!(
        refused.to_string(),
        format!("1 of 3 requests refused, the first: interface {index}: set neighbour ::1: {reason}")
    );
    for address in [first, last] {
        let there = netlink.neighbour(index, address).expect("a look-up");
        assert!(there.is_some_and(|n| n.usable().is_some()), "{address}");
    }
    let refused = netlink
        .put_neighbours(9999, &mixed)
        .expect_err("no such interface");
    assert!(
        matches!(refused, Error::Partly { failed: 3, of: 3, .. }),
        "{refused:?}"
    );
    assert_eq!(refused.errno(), Some(19));
    assert_eq!(netlink.neighbours(9999).expect("a dump"), []);
}

#[test]
fn thousands_of_permanent_neighbours() {
    in_namespace("thousands_of_permanent_neighbours", || {
        let mut netlink = Netlink::open().expect("rtnetlink");
        let index = veth(&mut netlink);
        let mut monitor = Monitor::open().expect("a monitor");
        let peers = peers();
        let wanted: HashSet<_> = peers.iter().copied().collect();

        let start = Instant::now();
        netlink.put_neighbours(index, &peers).expect("set");
        let took = start.elapsed();
        println!("\n{} permanent neighbours set in {took:?}", peers.len());
        assert!(took < Duration::from_secs(2), "{took:?}");
        let there = netlink.permanent_neighbours(index).expect("a dump");
        assert_eq!(as_pairs(&there), wanted);
        assert_eq!(ip("neigh show dev v0 nud permanent").lines().count(), peers.len());
        // Each is told, and none is lost.
        let mut told = HashSet::new();
        let last = peers[peers.len() - 1].0;
        for change in until(
            &mut monitor,
            "the last",
            |c| matches!(c, Change::Neighbour(n) if n.address == last),
        ) {
            match change {
                Change::Neighbour(n) => _ = told.insert((n.address, n.mac.expect("a MAC"))),
                Change::Overrun => panic!("changes were lost"),
                _ => {}
            }
        }
        assert_eq!(told, wanted);

        // Again, with another MAC for one: in place of what was there.
        let mut changed = peers.clone();
        changed[7].1 = mac(70_000);
        netlink.put_neighbours(index, &changed).expect("set again");
        let there = netlink.permanent_neighbours(index).expect("a dump");
        assert_eq!(as_pairs(&there), changed.iter().copied().collect());

        // The kernel flushes them with the interface; whoever is told puts them back.
        ip("link set v0 down");
        until(
            &mut monitor,
            "down",
            |c| matches!(c, Change::LinkChanged(l) if l.index == index && !l.up),
        );
        assert_eq!(netlink.permanent_neighbours(index).expect("a dump"), []);
        ip("link set v0 up");
        until(
            &mut monitor,
            "up",
            |c| matches!(c, Change::LinkChanged(l) if l.index == index && l.up),
        );
        netlink.put_neighbours(index, &peers).expect("put back");
        assert_eq!(
            as_pairs(&netlink.permanent_neighbours(index).expect("a dump")),
            wanted
        );

        remove_half(&mut netlink, index, &peers);
        refusals(&mut netlink, index);
        netlink.put_neighbours(index, &[]).expect("nothing to do");
    });
}

//! What others change in the kernel's tables is told, in types.

mod support;

use nf_kernel::{Address, Change, Monitor, Neighbour, NeighbourState, Netlink, Route};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::IpAddr;
use support::{in_namespace, ip, until, veth};

fn route(index: u32, destination: &str, gateway: Option<&str>, table: u32, metric: u32) -> Route {
    Route {
        index,
        destination: destination.parse().expect("a network"),
        gateway: gateway.map(|g| g.parse().expect("an address")),
        table,
        metric,
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Runs `ip` and waits until just that change is told.
fn told(monitor: &mut Monitor, words: &str, wanted: &Change) {
    ip(words);
    until(monitor, words, |change| change == wanted);
}

/// Changes of a link, told to poll(2) too; returns its index.
fn links(monitor: &mut Monitor) -> u32 {
    assert_eq!(monitor.changes().expect("changes"), []);
    let index = veth(&mut Netlink::open().expect("rtnetlink"));
    let patience = Timespec {
        tv_sec: 10,
        tv_nsec: 0,
    };
    let readable = poll(&mut [PollFd::new(&*monitor, PollFlags::IN)], Some(&patience));
    assert_eq!(readable, Ok(1), "poll by the descriptor");
    until(
        monitor,
        "v0 is up",
        |c| matches!(c, Change::LinkChanged(l) if l.name == "v0" && l.up),
    );
    ip("link set v0 mtu 1400");
    until(
        monitor,
        "mtu",
        |c| matches!(c, Change::LinkChanged(l) if l.index == index && l.mtu == 1400),
    );
    index
}

fn addresses(monitor: &mut Monitor, index: u32) {
    for (text, prefix, more) in [
        ("10.8.0.1", 24, ""),
        ("10.8.1.1", 25, ""),
        ("fd08::1", 64, "nodad"),
    ] {
        let change = Change::Address {
            address: Address {
                index,
                address: address(text),
                prefix,
            },
            added: true,
        };
        told(
            monitor,
            &format!("addr add {text}/{prefix} dev v0 {more}"),
            &change,
        );
    }
    let lost = Change::Address {
        address: Address {
            index,
            address: address("10.8.1.1"),
            prefix: 25,
        },
        added: false,
    };
    told(monitor, "addr del 10.8.1.1/25 dev v0", &lost);
}

fn routes(monitor: &mut Monitor, index: u32) {
    let via = route(index, "10.77.0.0/24", Some("10.8.0.2"), 254, 0);
    told(
        monitor,
        "route add 10.77.0.0/24 via 10.8.0.2",
        &Change::RouteAdded(via.clone()),
    );
    told(
        monitor,
        "route del 10.77.0.0/24",
        &Change::RouteRemoved(via.clone()),
    );
    let six = route(index, "fd77::/64", Some("fd08::2"), 1000, 7);
    let words = "route add fd77::/64 via fd08::2 table 1000 metric 7";
    told(monitor, words, &Change::RouteAdded(six.clone()));
    told(
        monitor,
        "route del fd77::/64 table 1000 metric 7",
        &Change::RouteRemoved(six),
    );

    // Replaced by one of another interface, and by one that is no unicast route.
    told(
        monitor,
        "route add 10.77.0.0/24 via 10.8.0.2",
        &Change::RouteAdded(via.clone()),
    );
    let replaced = Change::RouteReplaced {
        destination: via.destination,
        table: 254,
        metric: 0,
    };
    told(monitor, "route replace 10.77.0.0/24 dev lo", &replaced);
    told(
        monitor,
        "route replace 10.77.0.0/24 via 10.8.0.2",
        &Change::RouteAdded(via),
    );
    ip("route replace blackhole 10.77.0.0/24");
    let seen = until(monitor, "blackhole", |c| *c == replaced);
    assert!(
        !seen.iter().any(|c| matches!(c, Change::RouteAdded(_))),
        "{seen:?}"
    );
}

fn neighbours(monitor: &mut Monitor, index: u32) {
    ip("neigh add 10.8.0.9 lladdr 02:00:00:00:00:99 dev v0 nud reachable");
    let there = Neighbour {
        index,
        address: address("10.8.0.9"),
        mac: Some([2, 0, 0, 0, 0, 0x99]),
        state: NeighbourState::Reachable,
    };
    until(monitor, "neighbour", |c| *c == Change::Neighbour(there.clone()));
    let gone = Change::NeighbourRemoved {
        index,
        address: there.address,
    };
    told(monitor, "neigh del 10.8.0.9 dev v0", &gone);
}

#[test]
fn changes_are_told() {
    in_namespace("changes_are_told", || {
        let mut monitor = Monitor::open().expect("a monitor");
        let index = links(&mut monitor);
        addresses(&mut monitor, index);
        routes(&mut monitor, index);
        neighbours(&mut monitor, index);
        told(&mut monitor, "link del v0", &Change::LinkRemoved { index });
    });
}

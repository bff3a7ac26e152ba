//! The source check: the peer's own address or its longest network.

use crate::support::*;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::{inner_v4, inner_v6};
use nf_path::verdict::DropReason;
use nf_state::Routes;
use std::net::IpAddr;

/// Peer 1 has 10.1.0.0/16, 10.2.3.0/24 and fd01::/64; peer 2 has 10.2.0.0/16, 10.1.9.0/24 and fd01:0:0:0:8000::/65.
fn checked() -> Bed {
    let mut sources = Routes::new();
    for (prefix, peer) in [
        ("10.1.0.0/16", 1),
        ("10.2.3.0/24", 1),
        ("fd01::/64", 1),
        ("10.2.0.0/16", 2),
        ("10.1.9.0/24", 2),
        ("fd01:0:0:0:8000::/65", 2),
        ("10.8.0.3/32", 2),
    ] {
        sources.insert(prefix.parse().unwrap(), peer).unwrap();
    }
    let mut bed = Bed::new(Setup {
        sources: Some(sources),
        ..Setup::default()
    });
    bed.peer(1).addresses.v6 = Some("fd00::2".parse().unwrap());
    bed
}

/// A record of peer 1 with this inner source.
fn from(source: &str, packet_id: u32) -> HeapBuf {
    let packet = match source.parse().unwrap() {
        IpAddr::V4(source) => inner_v4(source, [10, 8, 0, 1].into(), 60, packet_id),
        IpAddr::V6(source) => inner_v6(source, "fd00::1".parse().unwrap(), 60, packet_id),
    };
    HeapBuf::new(&outer(1).payload(&record_of(1, 0, packet_id, &packet)).build())
}

#[track_caller]
fn expect(bed: &mut Bed, sources: &[&str], passes: bool) {
    for source in sources {
        let before = bed.counters.dropped(DropReason::BadSource);
        let id = bed.peer_counters(1)[0] as u32 + 1;
        let out = bed.at(u64::from(id)).push([from(source, id)]);
        let dropped = bed.counters.dropped(DropReason::BadSource) - before;
        assert_eq!((out.delivered() == 1, dropped == 0), (passes, passes), "{source}");
        assert_eq!(bed.peer_counters(1)[5], u64::from(id), "authentic in any case");
    }
}

#[test]
fn own_addresses_pass() {
    expect(&mut checked(), &["10.8.0.2", "fd00::2"], true);
}

#[test]
fn configured_networks_pass() {
    expect(
        &mut checked(),
        &["10.1.0.1", "10.1.255.255", "10.2.3.4", "fd01::77"],
        true,
    );
}

#[test]
fn addresses_and_networks_of_another_peer_drop_and_the_longest_prefix_decides() {
    let mut bed = checked();
    expect(
        &mut bed,
        &["10.8.0.3", "10.2.0.1", "10.1.9.1", "fd01:0:0:0:8000::1"],
        false,
    );
    assert_eq!(bed.peer_counters(1)[2..4], [0, 0]);
}

#[test]
fn foreign_and_special_sources_drop() {
    let foreign = [
        "203.0.113.9",
        "0.0.0.0",
        "127.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "ff02::1",
        "fd00::3",
    ];
    expect(&mut checked(), &foreign, false);
}

#[test]
fn a_peer_without_an_ipv6_address_has_none() {
    let mut bed = checked();
    bed.peer(1).addresses.v6 = None;
    expect(&mut bed, &["fd00::2", "::"], false);
    bed.peer(1).addresses.v4 = None;
    expect(&mut bed, &["10.8.0.2", "0.0.0.0"], false);
}

#[test]
fn the_check_has_an_off_switch() {
    let mut bed = Bed::default();
    expect(
        &mut bed,
        &["10.8.0.3", "203.0.113.9", "0.0.0.0", "::", "fd00::9"],
        true,
    );
}

#[test]
fn one_spoofed_packet_does_not_take_its_batch_with_it() {
    let mut bed = checked();
    let out = bed.push([from("10.8.0.2", 1), from("10.8.0.3", 2), from("10.1.0.1", 3)]);
    assert_eq!((out.numbers(), bed.batches(3)), (vec![1, 3], 1));
    assert_eq!(bed.drops(), [(DropReason::BadSource, 1)]);
}

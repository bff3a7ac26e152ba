//! A8: the source check with routes that come and go, switched off, and with one peer.

use crate::support::*;
use nf_path::tunnel::Mode;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::{inner_v4, inner_v6};
use nf_path::verdict::DropReason;
use nf_state::Update;
use std::net::IpAddr;

/// Sources of peer 1's records: whether the check lets them pass.
const A8: [(&str, bool); 12] = [
    // Its own; a network behind it; one behind peer 2, and peer 2's own.
    ("10.8.0.2", true),
    ("192.168.1.9", true),
    ("192.168.2.9", false),
    ("10.8.0.3", false),
    ("0.0.0.0", false),
    ("127.0.0.1", false),
    ("224.0.0.5", false),
    ("::", false),
    ("::1", false),
    ("fe80::1", false),
    // Peer 1 has no IPv6 address; peer 2 has this network.
    ("fd00::2", false),
    ("fd02::9", false),
];

fn from(peer: u32, source: &str, packet_id: u32) -> HeapBuf {
    let packet = match source.parse().unwrap() {
        IpAddr::V4(source) => inner_v4(source, [10, 8, 0, 1].into(), 60, packet_id),
        IpAddr::V6(source) => inner_v6(source, "fd00::1".parse().unwrap(), 60, packet_id),
    };
    HeapBuf::new(
        &outer(peer)
            .payload(&record_of(peer, 0, packet_id, &packet))
            .build(),
    )
}

fn route(bed: &mut Bed, peer: u32, prefix: &str) {
    let prefix = prefix.parse().unwrap();
    assert!(bed.tunnel().apply(Update::AddRoute { peer, prefix }).is_ok());
}

fn unroute(bed: &mut Bed, peer: u32, prefix: &str) {
    let prefix = prefix.parse().unwrap();
    assert!(bed.tunnel().apply(Update::RemoveRoute { peer, prefix }).is_ok());
}

fn checked() -> Bed {
    let mut bed = Bed::default();
    bed.tunnel().source_check = true;
    for (peer, prefix) in [
        (1, "10.8.0.2/32"),
        (2, "10.8.0.3/32"),
        (1, "192.168.1.0/24"),
        (2, "192.168.2.0/24"),
        (2, "fd02::/64"),
    ] {
        route(&mut bed, peer, prefix);
    }
    bed
}

/// Whether a packet of `peer` from `source` is delivered; the only other end is the drop.
#[track_caller]
fn passes(bed: &mut Bed, peer: u32, source: &str) -> bool {
    let before = bed.counters.dropped(DropReason::BadSource);
    let id = bed.peer_counters(peer)[0] as u32 + 1;
    let delivered = bed.push([from(peer, source, id)]).delivered();
    let dropped = bed.counters.dropped(DropReason::BadSource) - before;
    assert_eq!(delivered as u64 + dropped, 1);
    delivered == 1
}

#[test]
fn a8_on() {
    let mut bed = checked();
    for (source, expected) in A8 {
        assert_eq!(passes(&mut bed, 1, source), expected, "{source}");
    }
    assert!(passes(&mut bed, 2, "192.168.2.9") && passes(&mut bed, 2, "fd02::9"));
}

#[test]
fn a8_off_and_on_again() {
    let mut bed = checked();
    bed.tunnel().source_check = false;
    for (source, _) in A8 {
        assert!(passes(&mut bed, 1, source), "{source}");
    }
    bed.tunnel().source_check = true;
    for (source, expected) in A8 {
        assert_eq!(passes(&mut bed, 1, source), expected, "{source}");
    }
}

#[test]
fn a8_the_only_peer_may_use_any_source() {
    let mut bed = checked();
    bed.tunnel().mode = Mode::P2p;
    for (source, _) in A8 {
        assert!(passes(&mut bed, 1, source), "{source}");
    }
}

#[test]
fn a8_each_tunnel_has_its_own_switch() {
    let mut bed = checked();
    let record = record_of(1, 0, 1, &inner(7, 60, 1));
    let other = nf_path::twin::craft::Frame::udp(
        "198.51.100.1:40001".parse().unwrap(),
        LISTEN_OTHER.parse().unwrap(),
    );
    let out = bed.push([other.payload(&record), outer(1).payload(&record)].map(|f| HeapBuf::new(&f.build())));
    assert_eq!((out.tunnels[0].len(), out.tunnels[1].len()), (0, 1));
}

#[test]
fn a_route_added_while_running_lets_pass_and_removed_it_stops() {
    let mut bed = checked();
    let source = "10.77.0.5";
    assert!(!passes(&mut bed, 1, source));
    route(&mut bed, 1, "10.77.0.0/24");
    assert!(passes(&mut bed, 1, source));
    assert!(!passes(&mut bed, 2, source), "it is peer 1's");
    unroute(&mut bed, 1, "10.77.0.0/24");
    assert!(!passes(&mut bed, 1, source));
    route(&mut bed, 1, "fd77::/48");
    assert!(passes(&mut bed, 1, "fd77::5") && !passes(&mut bed, 1, "fd78::5"));
    assert!(passes(&mut bed, 1, "10.8.0.2"), "the others are as before");
}

#[test]
fn a_route_that_moves_takes_its_sources_along() {
    let mut bed = checked();
    let source = "192.168.1.9";
    route(&mut bed, 2, "192.168.1.0/24");
    assert!(!passes(&mut bed, 1, source) && passes(&mut bed, 2, source));
    // Too late: it is no longer peer 1's to give up.
    unroute(&mut bed, 1, "192.168.1.0/24");
    assert!(passes(&mut bed, 2, source));
    // Nested: the longest decides, and below it the next.
    route(&mut bed, 1, "192.168.0.0/16");
    assert!(passes(&mut bed, 1, "192.168.9.1") && !passes(&mut bed, 1, source));
    unroute(&mut bed, 2, "192.168.1.0/24");
    assert!(passes(&mut bed, 1, source));
}

#[test]
fn a_peers_routes_go_with_it() {
    let mut bed = checked();
    route(&mut bed, 1, "192.168.0.0/16");
    let gone = bed.tunnel().apply(Update::RemovePeer(2)).unwrap();
    assert!(gone.is_some());
    assert!(
        passes(&mut bed, 1, "192.168.2.9"),
        "now the shorter prefix decides"
    );
    bed.push([from(2, "192.168.2.9", 9)]);
    assert_eq!(bed.counters.dropped(DropReason::UnknownPeer), 1);
}

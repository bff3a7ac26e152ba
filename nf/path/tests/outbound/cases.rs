//! Field cases that belong to the outbound path and to no other file here.

use crate::bed::*;
use crate::far::Far;
use crate::peers::*;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::{inner_v4, inner_v6};
use nf_path::verdict::DropReason;
use nf_wire::ether::{self, Mac, peer_mac};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Case A21: what the kernel makes of packets to groups, and to an address that no peer has, goes to nobody.
#[test]
fn groups_and_unassigned_addresses_find_nobody() {
    let v4 = |a: [u8; 4]| inner_v4([10, 8, 0, 1].into(), Ipv4Addr::from(a), 100, 1);
    let v6 = |a: &str| inner_v6("fd00::1".parse().unwrap(), a.parse::<Ipv6Addr>().unwrap(), 100, 1);
    let cases: [(Mac, Vec<u8>, DropReason); 5] = [
        ([1, 0, 0x5e, 0, 0, 5], v4([224, 0, 0, 5]), DropReason::Multicast),
        ([0xff; 6], v4([255, 255, 255, 255]), DropReason::Broadcast),
        ([0xff; 6], v4([10, 8, 0, 255]), DropReason::Broadcast),
        ([0x33, 0x33, 0, 0, 0, 1], v6("ff02::1"), DropReason::Multicast),
        (peer_mac(200), v4([10, 8, 0, 201]), DropReason::UnknownMac),
    ];
    for (mac, packet, reason) in cases {
        let mut bed = Bed::default();
        let sent = bed.push([HeapBuf::new(&framed(mac, &packet))]);
        assert_eq!((sent, bed.drops()), (Sent::default(), vec![(reason, 1)]));
    }
}

/// In P2P mode they go to the one peer.
#[test]
fn groups_go_to_the_one_peer_in_p2p_mode() {
    let group = inner_v4([10, 8, 0, 1].into(), [224, 0, 0, 5].into(), 100, 1);
    let mut bed = Bed::p2p(Setup::default(), 6);
    let sent = bed.push([HeapBuf::new(&framed([1, 0, 0x5e, 0, 0, 5], &group))]);
    assert_eq!(Far::default().open(&sent), [(6, group)]);
}

/// A P2P tunnel without its peer.
#[test]
fn without_a_peer_nothing_is_sent_in_p2p_mode() {
    let mut bed = Bed::p2p(Setup::default(), 0);
    let sent = bed.push([buf(1, 60, 1), HeapBuf::new(&framed([0xff; 6], &packet(1, 60, 1)))]);
    assert_eq!(
        (sent, bed.drops()),
        (Sent::default(), vec![(DropReason::UnknownMac, 2)])
    );
}

/// Case A20: our own records, led back into the tunnel, do not grow without end.
#[test]
fn our_own_records_are_not_carried_again() {
    let mut bed = Bed::default();
    let mut frames: Vec<_> = (0..4).map(|n| framed(peer_mac(1), &packet(1, 100, n))).collect();
    for round in 0..3 {
        let sent = bed.push(frames.iter().map(|frame| HeapBuf::new(frame)));
        assert_eq!(sent.nic.len(), if round == 0 { 4 } else { 0 });
        frames = sent
            .nic
            .iter()
            .map(|got| framed(peer_mac(1), &got.frame[ether::HEADER_LEN..]))
            .collect();
    }
    assert_eq!(bed.drops(), [(DropReason::OwnOuter, 4)]);
    // Through another peer they are a packet like any other.
    let IpAddr::V4(outer) = remote(1).ip() else {
        unreachable!()
    };
    let inner = inner_v4([10, 8, 0, 1].into(), outer, 100, 1);
    assert_eq!(
        bed.push([HeapBuf::new(&framed(peer_mac(2), &inner))]).nic.len(),
        1
    );
}

/// A MAC address that only looks like a peer's.
#[test]
fn near_a_peers_mac_is_nobodys() {
    let right = peer_mac(3);
    for byte in 0..6 {
        let mut bed = Bed::default();
        let mut near = right;
        near[byte] ^= 0x40;
        bed.push([
            buf(3, 60, 1),
            HeapBuf::new(&framed(near, &packet(3, 60, 2))),
            buf(3, 60, 3),
        ]);
        assert_eq!(
            (bed.totals().sealed, bed.drops()),
            (2, vec![(DropReason::UnknownMac, 1)]),
            "byte {byte}"
        );
    }
}

/// A full burst to one peer after another, and one run of all.
#[test]
fn full_bursts() {
    let mut bed = Bed::default();
    assert_eq!(
        bed.push((0..256).map(|n| buf(1 + n % PEERS, 60, n))).nic.len(),
        256
    );
    assert_eq!(bed.push((0..256).map(|n| buf(1, 60, n))).nic.len(), 256);
    assert_eq!(bed.push([]).nic.len(), 0);
}

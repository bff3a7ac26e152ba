//! Every reason to drop a packet has a producer, which moves that counter and no other.

use crate::bed::*;
use crate::peers::*;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::inner_v4;
use nf_path::verdict::DropReason;
use nf_wire::ether::{self, peer_mac};
use proptest::prelude::*;
use std::net::IpAddr;

enum Producer {
    /// Makes the outbound path drop one packet for this reason.
    Here(fn(&mut Bed)),
    /// The inbound path's.
    Inbound,
    /// Only the worker, a port or a ring can.
    Worker,
}

use Producer::{Here, Inbound, Worker};

/// No wildcard: a new reason does not compile without a producer.
fn producer(reason: DropReason) -> Producer {
    match reason {
        DropReason::TunnelLength => Here(|bed| frame(bed, &[2; 13])),
        DropReason::NotIpFrame => Here(|bed| frame(bed, &ether::header(peer_mac(1), INTERFACE, 0x88cc))),
        DropReason::Broadcast => Here(|bed| to(bed, [0xff; 6])),
        DropReason::Multicast => Here(|bed| to(bed, [1, 0, 0x5e, 0, 0, 5])),
        DropReason::UnknownMac => Here(|bed| to(bed, peer_mac(99))),
        DropReason::OwnOuter => Here(own_outer),
        DropReason::Oversize => Here(|bed| {
            drop(bed.push([HeapBuf::new(&framed(peer_mac(1), &packet(1, 900, 1))).unfinished_by(true, 500)]))
        }),
        DropReason::NoBuffer => Here(|bed| {
            bed.pool.small.set(0);
            bed.ping(1);
        }),
        DropReason::Scattered => Here(|bed| {
            bed.pool.large.set(0);
            bed.push([buf(1, 100, 1).shared()]);
        }),
        DropReason::NoPrimary => Here(|bed| to(bed, peer_mac(NO_PRIMARY))),
        DropReason::NoPacketId => Here(|bed| to(bed, peer_mac(NO_IDS))),
        DropReason::NoRemote => Here(|bed| to(bed, peer_mac(NO_REMOTE))),
        DropReason::NoNeighbour => Here(|bed| to(bed, peer_mac(NO_WAY))),
        DropReason::Unfragmentable => Here(|bed| to(bed, peer_mac(1))),
        DropReason::IpLength
        | DropReason::UdpLength
        | DropReason::IpChecksum
        | DropReason::UdpChecksum
        | DropReason::TooShort
        | DropReason::DataV1
        | DropReason::FragmentTimeout
        | DropReason::FragmentRefused
        | DropReason::UnknownPeer
        | DropReason::UnknownAddress
        | DropReason::NoKey
        | DropReason::ShortRecord
        | DropReason::ReplayZero
        | DropReason::ReplayOld
        | DropReason::ReplayDuplicate
        | DropReason::BadTag
        | DropReason::Empty
        | DropReason::NotIp
        | DropReason::BadSource => Inbound,
        DropReason::TunnelMtu
        | DropReason::TunnelFull
        | DropReason::HostMtu
        | DropReason::HostFull
        | DropReason::NicMtu
        | DropReason::NicFull
        | DropReason::SteerFull => Worker,
    }
}

fn frame(bed: &mut Bed, bytes: &[u8]) {
    bed.push([HeapBuf::new(bytes)]);
}

fn to(bed: &mut Bed, mac: ether::Mac) {
    frame(bed, &framed(mac, &packet(1, 100, 1)));
}

fn own_outer(bed: &mut Bed) {
    let IpAddr::V4(outer) = remote(1).ip() else {
        unreachable!()
    };
    let mut inner = inner_v4([10, 8, 0, 1].into(), outer, 100, 1);
    inner[22..24].copy_from_slice(&remote(1).port().to_be_bytes());
    frame(bed, &framed(peer_mac(1), &inner));
}

#[test]
fn every_reason_has_a_producer_that_moves_its_counter_alone() {
    let inbound =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/inbound/drops.rs")).unwrap();
    let mut here = 0;
    for &reason in DropReason::ALL {
        match producer(reason) {
            Here(produce) => {
                // An MTU below the least of IPv4 is good for nothing else.
                let mtu = if reason == DropReason::Unfragmentable {
                    60
                } else {
                    1500
                };
                let mut bed = Bed::new(Setup {
                    mtu,
                    ..Setup::default()
                });
                produce(&mut bed);
                assert_eq!(bed.drops(), [(reason, 1)], "the producer of {reason:?}");
                here += 1;
            }
            Inbound => assert!(
                inbound.contains(&format!("DropReason::{reason:?} => ")),
                "{reason:?}"
            ),
            Worker => {}
        }
    }
    assert_eq!(here, 14);
}

#[test]
fn every_length_that_lies_is_dropped() {
    let right = |v6| {
        if v6 {
            packet_v6(1, 100, 1)
        } else {
            packet(1, 100, 1)
        }
    };
    let cases: [(bool, usize, &[u8], DropReason); 9] = [
        (false, 0, &[0x44], DropReason::TunnelLength),
        (false, 2, &[0, 19], DropReason::TunnelLength),
        (false, 2, &[0, 101], DropReason::TunnelLength),
        (false, 2, &[0xff, 0xff], DropReason::TunnelLength),
        (true, 4, &[0, 61], DropReason::TunnelLength),
        (true, 4, &[0xff, 0xff], DropReason::TunnelLength),
        (false, 0, &[0x65], DropReason::NotIpFrame),
        (true, 0, &[0x45], DropReason::NotIpFrame),
        (true, 0, &[0x50], DropReason::NotIpFrame),
    ];
    for (v6, at, bytes, reason) in cases {
        let mut bed = Bed::default();
        let mut lying = framed(peer_mac(1), &right(v6));
        lying[14 + at..][..bytes.len()].copy_from_slice(bytes);
        if reason == DropReason::NotIpFrame && v6 && bytes == [0x45] {
            // What IPv4 would read as its total length.
            lying[16..18].copy_from_slice(&[0, 50]);
        }
        bed.push([HeapBuf::new(&lying)]);
        let drops: Vec<_> = bed.drops().into_iter().map(|(reason, _)| reason).collect();
        assert_eq!(drops, [reason], "v6 {v6}: {bytes:02x?} at {at}");
    }
}

#[test]
fn every_cut_off_frame_is_dropped() {
    for whole in [
        framed(peer_mac(1), &packet(1, 80, 1)),
        framed(peer_mac(1), &packet_v6(1, 80, 1)),
    ] {
        for len in 0..whole.len() {
            let mut bed = Bed::default();
            frame(&mut bed, &whole[..len]);
            assert_eq!(bed.drops(), [(DropReason::TunnelLength, 1)], "{len} bytes");
        }
    }
}

#[test]
fn own_outer_is_udp_to_that_very_address_and_port() {
    // The last is a later fragment, which has no ports.
    for (protocol, port, offset, own) in [
        (17, 0, 0, true),
        (17, 1, 0, false),
        (6, 0, 0, false),
        (17, 0, 5, false),
    ] {
        let mut bed = Bed::default();
        let IpAddr::V4(outer) = remote(2).ip() else {
            unreachable!()
        };
        let mut inner = inner_v4([10, 8, 0, 1].into(), outer, 60, 1);
        inner[9] = protocol;
        inner[7] = offset;
        inner[22..24].copy_from_slice(&(remote(2).port() + port).to_be_bytes());
        let sent = bed.push([HeapBuf::new(&framed(peer_mac(2), &inner))]);
        assert_eq!(sent.nic.is_empty(), own, "protocol {protocol}, port + {port}");
        // To somebody else it may be carried.
        let sent = bed.push([HeapBuf::new(&framed(peer_mac(3), &inner))]);
        assert_eq!(sent.nic.len(), 1);
    }
    let mut bed = Bed::default();
    let IpAddr::V6(outer) = remote(7).ip() else {
        unreachable!()
    };
    let mut inner = nf_path::twin::craft::inner_v6("fd00::1".parse().unwrap(), outer, 80, 1);
    inner[42..44].copy_from_slice(&remote(7).port().to_be_bytes());
    assert!(
        bed.push([HeapBuf::new(&framed(peer_mac(7), &inner))])
            .nic
            .is_empty()
    );
    assert_eq!(bed.drops(), [(DropReason::OwnOuter, 1)]);
}

/// Any bytes behind a destination and an EtherType that let them in.
fn garbage() -> impl Strategy<Value = (Vec<u8>, u8)> {
    let to = prop_oneof![
        Just(peer_mac(1)),
        Just(peer_mac(7)),
        Just([0xff; 6]),
        Just([0x33, 0x33, 0, 0, 0, 1]),
        any::<[u8; 6]>()
    ];
    let ether_type = prop_oneof![Just(0x0800u16), Just(0x86dd), Just(0x0806), any::<u16>()];
    let first = prop_oneof![Just(0x45u8), Just(0x46), Just(0x60), any::<u8>()];
    let next = prop_oneof![Just(0u8), Just(58), Just(17), any::<u8>()];
    let rest = proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..120);
    (to, ether_type, first, next, rest, 0..4u8).prop_map(|(to, ether_type, first, next, mut rest, kind)| {
        if let Some(byte) = rest.get_mut(0) {
            *byte = first;
        }
        if let Some(byte) = rest.get_mut(6) {
            *byte = next;
        }
        (
            [&ether::header(to, INTERFACE, ether_type)[..], &rest].concat(),
            kind,
        )
    })
}

proptest! {
    #[test]
    fn garbage_has_one_end_and_no_effect(
        frames in proptest::collection::vec(garbage(), 1..64), cut in 1..200usize, p2p in any::<bool>(),
    ) {
        let mut bed = if p2p { Bed::p2p(Setup::default(), 1) } else { Bed::default() };
        let sent = bed.push(frames.iter().map(|(bytes, kind)| match kind {
            0 => HeapBuf::new(&bytes[..cut.min(bytes.len())]),
            1 => HeapBuf::new(bytes).unfinished_by(true, 0),
            2 if cut < bytes.len() => HeapBuf::from_segments(&[&bytes[..cut], &bytes[cut..]]),
            _ => HeapBuf::new(bytes),
        }));
        // The bed looks for the ends; what was sealed is IP of a true length.
        for (_, inner) in crate::far::Far::default().open(&sent) {
            let len = if inner[0] >> 4 == 4 { inner[2..4].try_into() } else { inner[4..6].try_into() };
            let header = if inner[0] >> 4 == 4 { 0 } else { 40 };
            prop_assert_eq!(usize::from(u16::from_be_bytes(len.unwrap())) + header, inner.len());
        }
    }
}

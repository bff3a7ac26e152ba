//! Frames for the host port: as they came, but for checksums that a sender on this machine left partial.

use crate::support::layer4::{self, L4Sum, TCP, UDP, tcp, udp};
use crate::support::*;
use nf_path::buf::Verdict;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::Frame;
use std::net::IpAddr;

fn addresses(v6: bool) -> (IpAddr, IpAddr) {
    if v6 {
        ("2001:db8::7".parse().unwrap(), "2001:db8::9".parse().unwrap())
    } else {
        ("203.0.113.7".parse().unwrap(), "192.0.2.9".parse().unwrap())
    }
}

fn packet(v6: bool, protocol: u8, len: usize, kind: L4Sum) -> Vec<u8> {
    let payload: Vec<u8> = (0..len).map(|i| (i * 7 + 3) as u8).collect();
    let l4 = if protocol == TCP {
        tcp(0x18, &[], &payload)
    } else {
        udp(&payload)
    };
    layer4::packet(addresses(v6), protocol, false, l4, kind)
}

/// The packet in an Ethernet frame with these tags.
fn ethernet(tags: &[(u16, u16)], packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for (tpid, tci) in tags {
        frame.extend(tpid.to_be_bytes());
        frame.extend(tci.to_be_bytes());
    }
    let ether_type: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    frame.extend(ether_type);
    frame.extend(packet);
    frame
}

/// What the host port is given for it, and how many checksums that completed.
#[track_caller]
fn host(bed: &mut Bed, buf: HeapBuf) -> (Vec<u8>, u64) {
    let before = bed.totals().checksums_completed;
    let out = bed.push([buf]);
    assert_eq!((out.delivered(), out.host.len()), (0, 1));
    let completed = bed.totals().checksums_completed - before;
    (out.host.into_iter().next().unwrap().frame, completed)
}

const TAGS: [&[(u16, u16)]; 3] = [&[], &[(0x8100, 5)], &[(0x88a8, 9), (0x8100, 5)]];

#[test]
fn partial_checksums_are_completed() {
    let mut bed = Bed::default();
    for (v6, protocol) in [(false, TCP), (false, UDP), (true, TCP), (true, UDP)] {
        for len in (0..70).chain([512, 1399, 1400]) {
            let frame = |kind| ethernet(TAGS[len % 3], &packet(v6, protocol, len, kind));
            let (got, completed) = host(&mut bed, HeapBuf::new(&frame(L4Sum::Partial)));
            assert_eq!(
                (got, completed),
                (frame(L4Sum::Right), 1),
                "{v6} {protocol} {len}"
            );
        }
    }
    assert!(layer4::is_right(&packet(true, TCP, 99, L4Sum::Right)));
    assert!(!layer4::is_right(&packet(true, TCP, 99, L4Sum::Partial)));
}

#[test]
fn everything_else_is_unchanged() {
    let mut bed = Bed::default();
    let mut frames = Vec::new();
    for (v6, protocol) in [(false, TCP), (false, UDP), (true, TCP), (true, UDP)] {
        for kind in [L4Sum::Right, L4Sum::Wrong] {
            frames.extend(TAGS.map(|tags| ethernet(tags, &packet(v6, protocol, 100, kind))));
        }
        let partial = packet(v6, protocol, 100, L4Sum::Partial);
        let whole = ethernet(&[], &partial);
        // Cut anywhere, in a third tag, behind an EtherType that is not IP's.
        frames.extend((0..whole.len()).map(|len| whole[..len].to_vec()));
        frames.push(ethernet(&[(0x8100, 1), (0x8100, 2), (0x8100, 3)], &partial));
        let mut other = whole.clone();
        other[12..14].copy_from_slice(&[0x88, 0xb5]);
        frames.push(other);
    }
    let mut fragment = packet(false, UDP, 100, L4Sum::Partial);
    fragment[6] = 0x20;
    frames.push(ethernet(&[], &fragment));
    frames.push([&[0xff; 6][..], &[2; 6], &[8, 6], &[1; 28]].concat());
    // To ports that nobody listens on, so none is ours.
    for frame in &frames {
        assert_eq!(host(&mut bed, HeapBuf::new(frame)), (frame.clone(), 0));
    }
}

/// UDP over IPv4 without a checksum has none to complete.
#[test]
fn no_checksum_stays_none() {
    let mut bed = Bed::default();
    let mut bytes = packet(false, UDP, 40, L4Sum::Right);
    bytes[26..28].fill(0);
    let frame = ethernet(&[], &bytes);
    assert_eq!(host(&mut bed, HeapBuf::new(&frame)), (frame, 0));
}

/// One finished checksum in 65536 equals the sum of the pseudo-header.
#[test]
fn a_right_checksum_that_looks_partial_is_right() {
    let mut bed = Bed::default();
    // The word that brings a sum to any value wanted is the last of the payload.
    let build = |word: u16, kind| {
        let payload = [&[1, 2, 3, 4][..], &word.to_be_bytes()].concat();
        ethernet(
            &[],
            &layer4::packet(addresses(false), UDP, false, udp(&payload), kind),
        )
    };
    let found: Vec<_> = (0..=0xffff)
        .filter(|word| build(*word, L4Sum::Right) == build(*word, L4Sum::Partial))
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    let frame = build(found[0], L4Sum::Right);
    assert_eq!(host(&mut bed, HeapBuf::new(&frame)), (frame, 0));
}

#[test]
fn the_daemons_datagrams_are_completed_too() {
    let mut bed = Bed::default();
    for (frame, l4) in [(outer(1), 34), (outer_v6(1).vlan(4), 58)] {
        let right = frame.payload(&[0x20; 60]).build();
        let (source, destination) = if l4 == 34 { (26, 30) } else { (26, 42) };
        let width = destination - source;
        let words = |at: usize, len: usize| {
            right[at..at + len]
                .chunks(2)
                .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
        };
        let mut sum: u32 = words(source, 2 * width).sum::<u32>() + 17 + 68;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        let mut partial = right.clone();
        partial[l4 + 6..l4 + 8].copy_from_slice(&(sum as u16).to_be_bytes());
        assert_ne!(partial, right);
        assert_eq!(host(&mut bed, HeapBuf::new(&partial)), (right, 1));
    }
    assert_eq!(bed.totals().to_daemon, 2);
}

/// What the port says does not matter, unless it says that it saw a wrong one.
#[test]
fn the_ports_verdict() {
    let frame = |kind| ethernet(&[], &packet(false, TCP, 50, kind));
    for verdict in [Verdict::Unknown, Verdict::None, Verdict::Good, Verdict::Bad] {
        let mut bed = Bed::default();
        let buf = HeapBuf::new(&frame(L4Sum::Partial)).checksums(Verdict::Good, verdict);
        let expected = if verdict == Verdict::Bad {
            (frame(L4Sum::Partial), 0)
        } else {
            (frame(L4Sum::Right), 1)
        };
        assert_eq!(host(&mut bed, buf), expected, "{verdict:?}");
    }
}

#[test]
fn shared_and_scattered_frames_are_copied_or_left_alone() {
    let frame = |kind| ethernet(&[], &packet(true, TCP, 300, kind));
    let partial = frame(L4Sum::Partial);
    let made: [fn(&[u8]) -> HeapBuf; 2] = [
        |bytes| HeapBuf::new(bytes).shared(),
        |bytes| HeapBuf::from_segments(&[&bytes[..80], &bytes[80..]]),
    ];
    for make in made {
        let mut bed = Bed::default();
        assert_eq!(host(&mut bed, make(&partial)), (frame(L4Sum::Right), 1));
        bed.ledger.limit_large(0);
        assert_eq!(host(&mut bed, make(&partial)), (partial.clone(), 0));
        let right = frame(L4Sum::Right);
        assert_eq!(host(&mut bed, make(&right)), (right, 0), "no copy is needed");
    }
}

/// Records do not care: the tag covers them.
#[test]
fn records_are_taken_whatever_their_checksum() {
    let mut bed = Bed::default();
    for (id, frame) in (1..).zip([outer(1), outer_v6(1)]) {
        let payload = record_of(1, 0, id, &inner(1, 60, id));
        let mut bytes = frame.payload(&payload).build();
        let at = if bytes[12] == 8 { 40 } else { 60 };
        bytes[at..at + 2].copy_from_slice(&[0x12, 0x34]);
        assert_eq!(bed.push([HeapBuf::new(&bytes)]).numbers(), [id]);
    }
    assert_eq!(bed.totals().checksums_completed, 0);
}

/// Padding behind the packet is no part of it.
#[test]
fn ethernet_padding_is_left_out() {
    let mut bed = Bed::default();
    let padded = |kind| [ethernet(&[], &packet(false, UDP, 3, kind)), vec![0xee; 15]].concat();
    assert_eq!(
        host(&mut bed, HeapBuf::new(&padded(L4Sum::Partial))),
        (padded(L4Sum::Right), 1)
    );
    let foreign = Frame::udp(
        "203.0.113.5:53".parse().unwrap(),
        "203.0.113.6:53".parse().unwrap(),
    );
    let bytes = foreign.payload(&[1; 9]).build();
    assert_eq!(host(&mut bed, HeapBuf::new(&bytes)), (bytes, 0));
}

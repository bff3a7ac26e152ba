//! What the kernel leaves undone is done before a packet is sealed.

use crate::bed::*;
use crate::far::Far;
use crate::packets::{Facts, Shape, filler};
use crate::peers::*;
use nf_path::twin::{HEADROOM, HeapBuf};
use nf_path::verdict::DropReason;
use nf_wire::ether::{self, peer_mac};

const PLAIN: Shape = Shape {
    v6: false,
    tags: 0,
    options: false,
};
const PLAIN_V6: Shape = Shape {
    v6: true,
    tags: 0,
    options: false,
};

fn to(peer: u32, mut frame: Vec<u8>) -> Vec<u8> {
    frame[..6].copy_from_slice(&peer_mac(peer));
    frame
}

/// Panics unless all inner packets have right lengths and checksums.
fn right(opened: &[(u32, Vec<u8>)]) {
    for (peer, inner) in opened {
        let ether_type = if inner[0] >> 4 == 4 {
            ether::IPV4
        } else {
            ether::IPV6
        };
        Facts::right(&[&ether::header(peer_mac(*peer), INTERFACE, ether_type)[..], inner].concat());
    }
}

#[test]
fn partial_checksums_are_completed() {
    for shape in [PLAIN, PLAIN_V6] {
        for len in [1, 2, 99, 1400] {
            let mut bed = Bed::default();
            let frames = [
                to(1, shape.tcp(0x18, &filler(len))),
                to(1, shape.udp(&filler(len))),
            ];
            let cut = |f: &[u8]| HeapBuf::from_segments(&[&f[..40], &f[40..]]).unfinished_by(true, 0);
            let sent = bed.push([
                HeapBuf::new(&frames[0]).unfinished_by(true, 0),
                HeapBuf::new(&frames[1]).unfinished_by(true, 0),
                HeapBuf::new(&frames[1]).unfinished_by(true, 0).shared(),
                cut(&frames[0]),
                buf(1, 100, 9),
            ]);
            let opened = Far::default().open(&sent);
            assert_eq!(opened.len(), 5);
            right(&opened);
            assert_eq!(opened[4].1, packet(1, 100, 9), "in order");
            assert_eq!(bed.totals().checksums_completed, 4);
        }
    }
}

#[test]
fn a_super_frame_is_cut_into_segments_that_count_as_one_packet() {
    for shape in [PLAIN, PLAIN_V6] {
        let header = if shape.v6 { 40 } else { 20 } + 32;
        for (payload, mss) in [(60_000, 1400), (20_000, 64), (3000, 1000), (2801, 1400)] {
            let mut bed = Bed::default();
            let frame = to(2, shape.tcp(0x19, &filler(payload)));
            let segments = payload.div_ceil(mss);
            let super_frame = HeapBuf::sized(&frame, HEADROOM, 70_000).unfinished_by(true, mss as u16);
            let sent = bed
                .at(4)
                .push([buf(2, 100, 1), super_frame, buf(2, 100, 2), buf(3, 60, 3)]);
            bed.made(segments as u64 - 1);
            let ids: Vec<_> = sent.nic[..segments + 2]
                .iter()
                .map(|got| id_of(&got.frame))
                .collect();
            assert!(
                ids.iter().copied().eq(1..=segments as u32 + 2),
                "in order: {ids:?}"
            );
            let opened = Far::default().open(&sent);
            assert_eq!(opened.len(), segments + 3);
            right(&opened[1..=segments]);
            let stream: Vec<_> = opened[1..=segments]
                .iter()
                .flat_map(|(_, p)| p[header..].to_vec())
                .collect();
            assert_eq!(stream, filler(payload));
            let inner = (payload + segments * header) as u64;
            let records = segments as u64 + 2;
            assert_eq!(
                bed.peer_counters(2),
                [records, inner + 200 + 24 * records, 3, inner + 200, 0, 4]
            );
            assert_eq!(bed.totals().segmented, 1);
        }
    }
}

#[test]
fn a_super_frame_in_many_segments_of_memory_needs_no_large_buffer() {
    let frame = to(2, PLAIN.tcp(0x18, &filler(30_000)));
    let parts: Vec<_> = frame.chunks(1777).collect();
    let mut bed = Bed::default();
    bed.pool.large.set(0);
    let sent = bed.push([HeapBuf::from_segments(&parts).unfinished_by(true, 1000)]);
    bed.made(29);
    let opened = Far::default().open(&sent);
    right(&opened);
    assert_eq!(opened.len(), 30);
}

#[test]
fn a_super_frame_is_never_sealed_whole() {
    let frame = to(2, PLAIN.tcp(0x18, &filler(5000)));
    let buffer = |bytes: &[u8]| HeapBuf::sized(bytes, HEADROOM, 9000).unfinished_by(true, 1000);
    let mut bed = Bed::default();
    bed.pool.small.set(2);
    let sent = bed.push([buffer(&frame)]);
    assert_eq!(
        (sent.nic.len(), bed.drops()),
        (2, vec![(DropReason::NoBuffer, 1)])
    );
    bed.made(2);
    // A SYN is no super-frame, whatever its header says.
    let mut bed = Bed::default();
    let sent = bed.push([buffer(&to(2, PLAIN.tcp(0x02, &filler(5000))))]);
    assert_eq!(
        (sent.nic.len(), bed.drops()),
        (0, vec![(DropReason::Oversize, 1)])
    );
    assert_eq!(bed.peer_counters(2), [0; 6]);
    // To nobody.
    let mut bed = Bed::default();
    bed.push([
        buffer(&to(99, PLAIN.tcp(0x18, &filler(5000)))),
        buffer(&frame[..9]),
    ]);
    assert_eq!(
        bed.drops(),
        [(DropReason::TunnelLength, 1), (DropReason::UnknownMac, 1)]
    );
}

#[test]
fn more_segments_than_there_is_room_for_are_dropped_and_counted() {
    let mut bed = Bed::default();
    let frame = to(2, PLAIN.tcp(0x18, &filler(1030)));
    let sent = bed.push([HeapBuf::new(&frame).unfinished_by(true, 1)]);
    assert_eq!(
        (sent.nic.len(), bed.drops()),
        (1024, vec![(DropReason::Oversize, 6)])
    );
    bed.made(1029);
}

#[test]
fn what_says_too_little_to_be_finished_is_not_sealed() {
    let frame = to(2, PLAIN.udp(&filler(100)));
    let cut = |at: usize| HeapBuf::from_segments(&[&frame[..at], &frame[at..]]).unfinished_by(true, 0);
    for mut bed in [Bed::default(), Bed::p2p(Setup::default(), 2)] {
        let sent = bed.push([cut(9), cut(13)]);
        assert_eq!(
            (sent, bed.drops()),
            (Sent::default(), vec![(DropReason::TunnelLength, 2)])
        );
    }
}

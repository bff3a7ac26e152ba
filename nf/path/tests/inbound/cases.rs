//! Faults that such systems have had in the field, each with input that would show it.

use crate::support::*;
use nf_path::buf::{Layout, Verdict};
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::{Frame, inner_v6};
use nf_path::verdict::DropReason;

/// Cuts a frame at these offsets.
fn cut(bytes: &[u8], at: &[usize]) -> HeapBuf {
    let ends = at.iter().copied().chain([bytes.len()]);
    let starts = [0].into_iter().chain(at.iter().copied());
    let parts: Vec<_> = starts.zip(ends).map(|(from, to)| &bytes[from..to]).collect();
    HeapBuf::from_segments(&parts)
}

/// Cut points inside Ethernet, IP, UDP, header word, packet id, tag and the last byte.
fn cuts(l3: usize, ip: usize, len: usize) -> Vec<usize> {
    let udp = l3 + ip;
    vec![6, l3 + 9, udp + 4, udp + 10, udp + 14, udp + 20, len - 1]
}

#[test]
fn b7_a_record_in_several_segments_gives_the_same_plaintext() {
    let packet = inner(1, 333, 1);
    let payload = record_of(1, 0, 1, &packet);
    let frames = [
        (outer(1), 14, 20),
        (outer(1).vlan(5), 18, 20),
        (outer(1).options(&[1; 4]), 14, 24),
        (outer_v6(1), 14, 40),
    ];
    for (frame, l3, ip) in frames {
        let bytes = frame.payload(&payload).build();
        let points = cuts(l3, ip, bytes.len());
        let mut splits: Vec<Vec<usize>> = points.iter().map(|at| vec![*at]).collect();
        splits.extend(points.windows(2).map(<[usize]>::to_vec));
        splits.extend(points.windows(4).map(<[usize]>::to_vec));
        splits.push(vec![1, 2, 3, 4]);
        for split in splits {
            let mut bed = Bed::default();
            assert_eq!(
                bed.push([cut(&bytes, &split)]).inner(),
                [&packet[..]],
                "cut at {split:?}"
            );
            assert_eq!(bed.totals().nic_rx_bytes, bytes.len() as u64);
        }
    }
}

#[test]
fn b7_scattered_among_contiguous_ones_of_its_flow_keeps_its_place() {
    let mut bed = Bed::default();
    let frames = (1..=30).map(|id| {
        let bytes = frame(1, id, 100);
        if id % 3 == 0 {
            cut(&bytes, &[20 + id as usize])
        } else {
            HeapBuf::new(&bytes)
        }
    });
    assert_eq!(
        bed.push(frames.collect::<Vec<_>>()).numbers(),
        (1..=30).collect::<Vec<_>>()
    );
}

#[test]
fn b7_scattered_frames_that_are_not_records_go_where_others_do() {
    let mut bed = Bed::default();
    let control = outer(1).payload(&[0x20; 500]).build();
    let foreign = Frame::udp(
        "203.0.113.5:53".parse().unwrap(),
        "203.0.113.6:53".parse().unwrap(),
    )
    .payload(&[9; 500])
    .build();
    let v1 = outer(1).payload(&[0x30; 500]).build();
    let out = bed.push([cut(&control, &[3, 300]), cut(&foreign, &[40]), cut(&v1, &[50])]);
    let host: Vec<_> = out.host.iter().map(|got| got.frame.clone()).collect();
    assert_eq!((host, bed.totals().to_daemon), (vec![control, foreign], 1));
    assert_eq!(bed.drops(), [(DropReason::DataV1, 1)]);
}

#[test]
fn b7_without_a_large_buffer_a_scattered_record_is_counted_and_the_rest_goes_to_the_host() {
    let mut bed = Bed::default();
    bed.ledger.limit_large(0);
    let bytes = frame(1, 1, 333);
    let control = outer(1).payload(&[0x20; 500]).build();
    let out = bed.push([cut(&bytes, &[100]), cut(&bytes, &[43]), cut(&control, &[100])]);
    assert_eq!((out.delivered(), out.host.len()), (0, 1));
    assert_eq!(out.host[0].frame, control);
    assert_eq!(bed.drops(), [(DropReason::Scattered, 2)]);
}

#[test]
fn b7_the_ports_verdict_holds_for_the_copy() {
    let mut bed = Bed::default();
    let bytes = frame(1, 1, 333);
    let out = bed.push([cut(&bytes, &[100]).checksums(Verdict::Good, Verdict::Bad)]);
    assert_eq!(
        (out.delivered(), bed.drops()),
        (0, vec![(DropReason::UdpChecksum, 1)])
    );
}

#[test]
fn e5_sizes_that_differ_keep_every_record_whole_and_in_order() {
    let tiny = |i: usize| if i == 20 { 0 } else { 1400 };
    let sequences: [Vec<usize>; 5] = [
        vec![100, 100, 100, 60, 100],
        vec![60, 100],
        [vec![1400; 63], vec![33]].concat(),
        (0..40).map(tiny).collect(),
        vec![700; 50],
    ];
    for lengths in sequences {
        let mut bed = Bed::default();
        let plaintext = |id: u32, len: usize| if len == 0 { Vec::new() } else { inner(1, len, id) };
        let ids = || (1..).zip(&lengths);
        let frames: Vec<_> = ids()
            .map(|(id, len)| {
                HeapBuf::new(
                    &outer(1)
                        .payload(&record_of(1, 0, id, &plaintext(id, *len)))
                        .build(),
                )
            })
            .collect();
        let expected: Vec<_> = ids()
            .filter(|(_, len)| **len > 0)
            .map(|(id, len)| plaintext(id, *len))
            .collect();
        assert_eq!(bed.push(frames).inner(), expected);
        let empty = lengths.iter().filter(|len| **len == 0).count() as u64;
        assert_eq!(bed.counters.dropped(DropReason::Empty), empty);
    }
}

#[test]
fn e7_metadata_of_a_member_is_its_own() {
    for size in [1u32, 2, 64] {
        let mut bed = Bed::default();
        let packet = |id: u32| {
            // IPv4 and IPv6 inner packets in turn: each has its own EtherType and header length.
            if id.is_multiple_of(2) {
                inner_v6("fd00::2".parse().unwrap(), "fd00::1".parse().unwrap(), 100, id)
            } else {
                inner(1, 100, id)
            }
        };
        let out = bed.push(
            (1..=size).map(|id| HeapBuf::new(&outer(1).payload(&record_of(1, 0, id, &packet(id))).build())),
        );
        assert_eq!(bed.batches(size as usize), 1);
        for (id, got) in (1..).zip(&out.tunnels[0]) {
            assert_eq!(got.inner(), (1, &packet(id)[..]));
            let (l3_len, l3) = if id.is_multiple_of(2) {
                (40, 0xe0)
            } else {
                (20, 0x90)
            };
            assert_eq!(
                got.layout,
                Some(Layout {
                    l2_len: 14,
                    l3_len,
                    packet_type: 1 | l3
                })
            );
        }
    }
}

#[test]
fn e8_nothing_that_was_said_of_the_outer_frame_stays() {
    let mut bed = Bed::default();
    let stale = |id| {
        buf(1, id, 100)
            .offload(0xffff_ffff_ffff_ffff)
            .stripped_vlan(0x0fff)
            .checksums(Verdict::Good, Verdict::Good)
    };
    let out = bed.push([stale(1), stale(2), stale(3)]);
    assert_eq!((out.numbers(), bed.batches(3)), (vec![1, 2, 3], 1));
    for got in &out.tunnels[0] {
        assert_eq!((got.flags, got.vlan_tci, got.sums), (0, 0, Default::default()));
    }
}

#[test]
fn e8_the_neighbours_of_a_bad_tag_are_clean() {
    for bad in 1..=5u32 {
        let mut bed = Bed::default();
        let frames = (1..=5).map(|id| {
            let mut bytes = frame(1, id, 100);
            if id == bad {
                bytes[60] ^= 4;
            }
            HeapBuf::new(&bytes).offload(9)
        });
        let out = bed.push(frames.collect::<Vec<_>>());
        let expected: Vec<_> = (1..=5)
            .filter(|id| *id != bad)
            .map(|id| inner(1, 100, id))
            .collect();
        assert_eq!(
            (out.inner(), bed.drops()),
            (
                expected.iter().map(Vec::as_slice).collect(),
                vec![(DropReason::BadTag, 1)]
            )
        );
        assert!(out.tunnels[0].iter().all(|got| got.flags == 0));
        assert_eq!(bed.batches(5), 1);
    }
}

#[test]
fn e10_runs_of_any_length_lose_nothing() {
    for run in [1u32, 2, 31, 32, 33, 63, 64, 65] {
        let mut bed = Bed::default();
        let frames: Vec<_> = (1..=run)
            .map(|id| buf(1, id, 100))
            .chain((1..=run).map(|id| buf(2, id, 100)))
            .collect();
        assert_eq!(
            bed.push(frames).numbers(),
            (1..=run).chain(1..=run).collect::<Vec<_>>()
        );
        let batches: u64 = bed.counters.batches.get().iter().sum();
        assert_eq!(batches, 2 * u64::from(run.div_ceil(64)));
    }
}

#[test]
fn e10_ten_thousand_records_back_to_back() {
    let mut bed = Bed::default();
    assert_eq!(
        bed.stream((1..=10_000).map(|id| buf(1, id, 1400))),
        (1..=10_000).collect::<Vec<_>>()
    );
    assert_eq!(bed.batches(64), 10_000 / 256 * 4, "four to a full burst");
}

#[test]
fn e10_a_lone_record_leaves_within_its_burst() {
    let mut bed = Bed::default();
    assert_eq!(bed.push([buf(1, 1, 100)]).numbers(), [1]);
    assert_eq!(bed.push([]).delivered(), 0);
}

//! Super-frames cut into segments.

use nf_path::buf::{Buf, Unfinished};
use nf_path::twin::{HEADROOM, HeapBuf};
use nf_path::verdict::DropReason;
use proptest::prelude::*;

use crate::finish::{Done, run};
use crate::packets::{Facts, Shape, be16, filler};
use crate::pool::{Pool, leaks_nothing};

/// The most payload that the smallest shape takes.
const MAX_TCP_PAYLOAD: usize = 65535 - 20 - 32;

const FIN: u8 = 1;
const PSH: u8 = 8;
const CWR: u8 = 0x80;

/// A buffer with the frame in segments that end at `cuts`.
fn scattered(frame: &[u8], mut cuts: Vec<usize>, size: u16) -> HeapBuf {
    if cuts.is_empty() {
        return HeapBuf::sized(frame, HEADROOM, HEADROOM + frame.len()).unfinished_by(true, size);
    }
    // As many more as keep every segment inside a buffer.
    cuts.extend((0..frame.len()).step_by(2048));
    cuts.push(frame.len());
    cuts.sort_unstable();
    let mut parts = vec![];
    let mut at = 0;
    for to in cuts {
        parts.push(&frame[at..to]);
        at = to;
    }
    HeapBuf::from_segments(&parts).unfinished_by(true, size)
}

/// Checks everything about what came of a super-frame that was cut, or was not longer than one segment.
fn check(frame: &[u8], size: u16, done: &Done) {
    let Facts { l3, l4, .. } = Facts::of(frame);
    let begin = l4 + usize::from(frame[l4 + 12] >> 4) * 4;
    let payload = &frame[begin..];
    let one = payload.len() <= usize::from(size);
    assert_eq!(done.result, Ok(()));
    assert_eq!(done.counted, if one { (1, 0) } else { (0, 1) });
    let step = if one {
        payload.len()
    } else {
        usize::from(size).min(2048 - begin)
    };
    assert_eq!(done.given.len(), payload.len().div_ceil(step.max(1)).max(1));
    let mut at = 0;
    for (n, segment) in done.given.iter().enumerate() {
        assert_eq!(segment.unfinished(), Unfinished::default());
        let bytes = segment.to_vec();
        assert_eq!(Facts::right(&bytes).l4, l4);
        let here = &bytes[begin..];
        let last = at + here.len() == payload.len();
        assert!(last || here.len() == step, "{} of {step}", here.len());
        assert!(here == &payload[at..at + here.len()]);
        // What differs between segments, worked out by hand, and the rest as it was.
        let mut expected = frame[..begin].to_vec();
        if frame[l3] >> 4 == 4 {
            let id = be16(frame, l3 + 4).wrapping_add(n) as u16;
            expected[l3 + 4..l3 + 6].copy_from_slice(&id.to_be_bytes());
            expected[l3 + 2..l3 + 4].copy_from_slice(&bytes[l3 + 2..l3 + 4]);
            expected[l3 + 10..l3 + 12].copy_from_slice(&bytes[l3 + 10..l3 + 12]);
        } else {
            expected[l3 + 4..l3 + 6].copy_from_slice(&bytes[l3 + 4..l3 + 6]);
        }
        let sequence = u32::from_be_bytes(*frame[l4 + 4..].first_chunk().unwrap());
        expected[l4 + 4..l4 + 8].copy_from_slice(&sequence.wrapping_add(at as u32).to_be_bytes());
        expected[l4 + 16..l4 + 18].copy_from_slice(&bytes[l4 + 16..l4 + 18]);
        if !last {
            expected[l4 + 13] &= !(FIN | PSH);
        }
        if at > 0 {
            expected[l4 + 13] &= !CWR;
        }
        assert_eq!(bytes[..begin], expected, "segment {n}");
        if !one {
            assert_eq!((segment.headroom(), segment.segments()), (HEADROOM, 1));
        }
        at += here.len();
    }
    assert_eq!(at, payload.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn super_frames_are_cut(
        shape in 0..Shape::ALL.len(),
        len in prop_oneof![1..3000usize, 1..MAX_TCP_PAYLOAD - 48],
        size in prop_oneof![200..1500u16, 1200..9000u16, Just(u16::MAX)],
        flags in any::<u8>().prop_map(|f| f & !(2 | 4 | 0x20)),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..8),
    ) {
        leaks_nothing(|| {
            let frame = Shape::ALL[shape].tcp(flags, &filler(len));
            // Some in the headers, some anywhere.
            let near = frame.len().min(100);
            let cuts = cuts.iter().map(|(i, front)| i.index(if *front { near } else { frame.len() }));
            let buf = scattered(&frame, cuts.collect(), size);
            let linear = buf.segments() == 1 || frame.len() <= crate::pool::LARGE_LEN;
            let done = run(buf, &mut Pool::endless());
            if linear || len > usize::from(size) {
                check(&frame, size, &done);
            } else {
                assert_eq!(done.result, Err(DropReason::Scattered));
            }
        });
    }

    #[test]
    fn nothing_panics_and_nothing_is_lost(
        mut bytes in prop::collection::vec(any::<u8>(), 0..2000),
        size: u16,
        checksum: bool,
        like in prop::option::of(0..Shape::ALL.len()),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        leaks_nothing(|| {
            if let Some(shape) = like {
                let real = Shape::ALL[shape].tcp(0x18, b"");
                let n = real.len().min(bytes.len());
                bytes[..n].copy_from_slice(&real[..n]);
            }
            let cuts = cuts.iter().map(|i| i.index(bytes.len() + 1)).collect();
            let done = run(scattered(&bytes, cuts, size).unfinished_by(checksum, size), &mut Pool::endless());
            assert_eq!(done.result.is_ok(), !done.given.is_empty());
        });
    }
}

#[test]
fn sizes_about_the_boundaries() {
    leaks_nothing(|| {
        for shape in Shape::ALL {
            for size in [1u16, 2, 536, 1359, 1360] {
                for len in [1, 2, 3, 8].map(|n| n * usize::from(size)) {
                    for len in [len - 1, len, len + 1] {
                        let frame = shape.tcp(0x99, &filler(len));
                        let done = run(scattered(&frame, vec![], size), &mut Pool::endless());
                        check(&frame, size, &done);
                    }
                }
            }
        }
    });
}

#[test]
fn the_longest_packet_in_1_to_40_segments() {
    leaks_nothing(|| {
        let frame = Shape::ALL[0].tcp(0x19, &filler(MAX_TCP_PAYLOAD));
        assert_eq!(frame.len(), 14 + 65535);
        for parts in std::iter::once(1).chain(33..=40) {
            let step = frame.len().div_ceil(parts);
            let parts: Vec<&[u8]> = frame.chunks(step).collect();
            let buf = if parts.len() == 1 {
                scattered(&frame, vec![], 1348)
            } else {
                HeapBuf::from_segments(&parts).unfinished_by(true, 1348)
            };
            check(&frame, 1348, &run(buf, &mut Pool::endless()));
        }
        // A segment for each byte: ids and sequence numbers run over.
        check(
            &frame,
            1,
            &run(scattered(&frame, vec![40], 1), &mut Pool::endless()),
        );
    });
}

/// A segment of a tunnel interface with an MTU of 9000 is cut smaller than the sender asked.
#[test]
fn segments_fit_a_small_buffer() {
    leaks_nothing(|| {
        for shape in Shape::ALL {
            let frame = shape.tcp(0x18, &filler(40_000));
            let done = run(scattered(&frame, vec![40], 8948), &mut Pool::endless());
            check(&frame, 8948, &done);
            assert!(done.given.iter().all(|s| s.packet_len() <= 2048));
        }
    });
}

#[test]
fn a_pool_that_runs_dry_gives_what_was_made() {
    leaks_nothing(|| {
        for shape in Shape::ALL {
            let frame = shape.tcp(0x18, &filler(12_000));
            for cuts in [vec![], vec![20, 60, 3000]] {
                let whole = run(scattered(&frame, cuts.clone(), 1000), &mut Pool::endless());
                assert_eq!(whole.given.len(), 12);
                for buffers in 0..12 {
                    let done = run(scattered(&frame, cuts.clone(), 1000), &mut Pool::of(buffers, 9));
                    assert_eq!(done.result, Err(DropReason::NoBuffer));
                    assert_eq!(done.counted, (0, u64::from(buffers > 0)));
                    let same = done
                        .given
                        .iter()
                        .zip(&whole.given)
                        .all(|(a, b)| a.data() == b.data());
                    assert!(same && done.given.len() == buffers);
                }
            }
        }
    });
}

#[test]
fn what_cannot_be_cut_is_dropped_and_counted() {
    leaks_nothing(|| {
        for shape in Shape::ALL {
            let frame = shape.tcp(0x18, &filler(4000));
            let Facts { l3, l4, .. } = Facts::of(&frame);
            let mut bad = vec![
                shape.udp(&filler(4000)),
                shape.tcp(0x02, &filler(4000)),
                shape.tcp(0x14, &filler(4000)),
            ];
            bad.extend((0..200).map(|len| frame[..len].to_vec()));
            bad.extend([frame.len() - 1, 2048].map(|len| frame[..len].to_vec()));
            let mut change = |at: usize, to: u8| {
                let mut frame = frame.clone();
                frame[at] = to;
                bad.push(frame);
            };
            change(l4 + 12, 0x40);
            change(l3, 0x55);
            change(l3 - 1, 0x06);
            if !shape.v6 {
                change(l3, 0x44);
                change(l3 + 2, 0xff);
                change(l3 + 6, 0x20);
                change(l3 + 7, 1);
            }
            for bytes in bad {
                for cuts in [vec![], vec![bytes.len() / 2]] {
                    let done = run(scattered(&bytes, cuts, 1000), &mut Pool::endless());
                    assert_eq!(
                        (done.result, done.counted),
                        (Err(DropReason::Oversize), (0, 0)),
                        "{shape:?}: {:02x?}",
                        &bytes[..bytes.len().min(90)]
                    );
                    assert!(done.given.is_empty());
                }
            }
        }
    });
}

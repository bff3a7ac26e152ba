//! Partial checksums, and frames that need nothing.

use nf_path::buf::{Buf, Unfinished};
use nf_path::counters::Counters;
use nf_path::outbound::finish::finish;
use nf_path::twin::HeapBuf;
use nf_path::verdict::DropReason;

use crate::packets::{Facts, Shape, TCP, UDP, be16, filler, words};
use crate::pool::{LARGE_LEN, Pool, leaks_nothing};

/// What came of a frame.
pub struct Done {
    pub given: Vec<HeapBuf>,
    pub result: Result<(), DropReason>,
    /// Checksums completed, super-frames cut.
    pub counted: (u64, u64),
}

pub fn run(frame: HeapBuf, pool: &mut Pool) -> Done {
    let counters = Counters::default();
    let mut given = vec![];
    let result = finish(frame, pool, &counters, &mut |b| given.push(b));
    let counted = (counters.checksums_completed.get(), counters.segmented.get());
    Done {
        given,
        result,
        counted,
    }
}

#[test]
fn what_is_finished_is_given_untouched() {
    leaks_nothing(|| {
        let mut frames: Vec<Vec<u8>> = vec![vec![], vec![0xff; 13], filler(2048)];
        for shape in Shape::ALL {
            frames.extend([shape.tcp(0x02, b"x"), shape.udp(b"")]);
        }
        for bytes in frames {
            let frame = HeapBuf::new(&bytes).offload(3).shared();
            let id = frame.id();
            let done = run(frame, &mut Pool::of(0, 0));
            assert_eq!((done.result, done.counted), (Ok(()), (0, 0)));
            let [frame] = &done.given[..] else {
                panic!("one frame")
            };
            assert_eq!((frame.id(), frame.flags(), frame.to_vec()), (id, 3, bytes));
        }
        let done = run(HeapBuf::from_segments(&[b"a", b"b"]), &mut Pool::of(0, 0));
        assert_eq!(done.given[0].to_vec(), b"ab");
    });
}

/// One frame completed in its own buffer: its bytes.
fn completed(bytes: &[u8]) -> Vec<u8> {
    let frame = HeapBuf::new(bytes).unfinished_by(true, 0).offload(5);
    let id = frame.id();
    let done = run(frame, &mut Pool::of(0, 0));
    assert_eq!((done.result, done.counted), (Ok(()), (1, 0)));
    let [frame] = &done.given[..] else {
        panic!("one frame")
    };
    assert_eq!((frame.id(), frame.flags()), (id, 0), "in place, flags forgotten");
    assert_eq!(frame.unfinished(), Unfinished::default());
    frame.to_vec()
}

#[test]
fn partial_checksums_are_completed() {
    leaks_nothing(|| {
        let payload = filler(1400);
        for shape in Shape::ALL {
            for len in 0..=payload.len() {
                for (protocol, field, bytes) in [
                    (TCP, 16, shape.tcp(0x18, &payload[..len])),
                    (UDP, 6, shape.udp(&payload[..len])),
                ] {
                    let before = Facts::of(&bytes);
                    assert_eq!((before.protocol, before.length_ok), (protocol, true));
                    let mut after = completed(&bytes);
                    Facts::right(&after);
                    let field = before.l4 + field;
                    after[field..field + 2].copy_from_slice(&bytes[field..field + 2]);
                    assert!(after == bytes, "nothing but the field changes: {shape:?}, {len}");
                }
            }
        }
    });
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_all_ones() {
    for shape in Shape::ALL {
        let mut bytes = shape.udp(&[0; 10]);
        let l4 = Facts::of(&bytes).l4;
        // The word that makes the sum over everything 0xffff, of which the checksum would be 0.
        let sum = words(&[&bytes[l4..]]);
        bytes[l4 + 8..l4 + 10].copy_from_slice(&(!sum).to_be_bytes());
        let after = completed(&bytes);
        assert_eq!(be16(&after, l4 + 6), 0xffff, "{shape:?}");
        Facts::right(&after);
    }
}

#[test]
fn padding_behind_the_packet_is_not_summed() {
    for shape in Shape::ALL {
        for bytes in [shape.udp(b"abc"), shape.tcp(0x18, b"abcde")] {
            let after = completed(&[&bytes[..], &[0xee; 9]].concat());
            Facts::right(&after[..bytes.len()]);
            assert_eq!(after[bytes.len()..], [0xee; 9]);
        }
    }
}

#[test]
fn scattered_and_shared_frames_are_completed_in_a_copy() {
    leaks_nothing(|| {
        for shape in Shape::ALL {
            let bytes = shape.tcp(0x10, &filler(1400));
            let scattered = || HeapBuf::from_segments(&[&bytes[..5], &bytes[5..99], &bytes[99..]]);
            let shared = || HeapBuf::new(&bytes).shared();
            for frame in [&scattered as &dyn Fn() -> HeapBuf, &shared] {
                let done = run(frame().unfinished_by(true, 0), &mut Pool::of(0, 1));
                assert_eq!((done.result, done.counted), (Ok(()), (1, 0)));
                Facts::right(&done.given[0].to_vec());
                let done = run(frame().unfinished_by(true, 0), &mut Pool::of(9, 0));
                assert_eq!((done.result, done.counted), (Err(DropReason::Scattered), (0, 0)));
                assert!(done.given.is_empty());
            }
        }
        let parts = vec![&[0u8; 2000][..]; LARGE_LEN / 2000 + 1];
        let done = run(
            HeapBuf::from_segments(&parts).unfinished_by(true, 0),
            &mut Pool::endless(),
        );
        assert_eq!(done.result, Err(DropReason::Scattered), "larger than large");
    });
}

#[test]
fn what_cannot_be_completed_is_dropped_and_counted() {
    leaks_nothing(|| {
        for shape in Shape::ALL {
            let udp = shape.udp(&filler(40));
            let Facts { l3, l4, .. } = Facts::of(&udp);
            let mut bad = vec![shape.frame().protocol(1).payload(&[8, 0, 0, 0, 0, 0]).build()];
            // Cut off anywhere.
            bad.extend((0..udp.len()).map(|len| udp[..len].to_vec()));
            bad.extend((0..shape.tcp(2, b"").len()).map(|len| shape.tcp(2, b"")[..len].to_vec()));
            let mut change = |at: usize, to: u8| {
                let mut frame = udp.clone();
                frame[at] = to;
                bad.push(frame);
            };
            change(l3 - 1, 0x06);
            change(l3, 0x55);
            change(l4 + 4, 0xff);
            if !shape.v6 {
                change(l3, 0x44);
                change(l3 + 6, 0x20);
            }
            for bytes in bad {
                let done = run(HeapBuf::new(&bytes).unfinished_by(true, 0), &mut Pool::endless());
                assert_eq!(
                    (done.result, done.counted),
                    (Err(DropReason::TunnelLength), (0, 0)),
                    "{shape:?}: {bytes:02x?}"
                );
                assert!(done.given.is_empty());
            }
        }
    });
}

/// The buffer's view over all its segments.
#[test]
fn parts_are_all_segments_in_order() {
    let buf = HeapBuf::from_segments(&[b"ab", b"", b"cde"]);
    let parts: Vec<_> = buf.parts().collect();
    assert_eq!(parts, [&b"ab"[..], b"", b"cde"]);
}

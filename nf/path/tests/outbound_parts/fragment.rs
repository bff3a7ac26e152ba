//! Frames over the MTU cut into fragments.

use nf_path::buf::Buf;
use nf_path::outbound::fragment::{MAX_FRAGMENTS, copies, fragment};
use nf_path::twin::craft::{Extension, Frame};
use nf_path::twin::{HEADROOM, HeapBuf};
use nf_path::verdict::DropReason;
use proptest::prelude::*;

use crate::packets::{Facts, Shape, be16, filler, l3_of, words};
use crate::pool::{Pool, leaks_nothing};

const ID: u32 = 0xcafe_0042;

fn buffer(frame: &[u8]) -> HeapBuf {
    HeapBuf::sized(frame, HEADROOM, HEADROOM + frame.len())
}

fn run(frame: HeapBuf, l2: usize, mtu: usize, pool: &mut Pool) -> (Result<u32, DropReason>, Vec<HeapBuf>) {
    let mut given = vec![];
    let result = fragment(frame, l2, mtu, ID, pool, &mut |b| given.push(b));
    assert_eq!(given.len(), result.unwrap_or(0) as usize);
    (result, given)
}

/// Joins fragments to the frame that they were: panics at a gap, an overlap, a wrong length, checksum or
/// identification, and over the MTU.
fn joined(fragments: &[Vec<u8>], mtu: usize) -> Vec<u8> {
    let mut whole = vec![];
    for (n, f) in fragments.iter().enumerate() {
        let l3 = l3_of(f);
        let ip = &f[l3..];
        let v6 = ip[0] >> 4 == 6;
        let last = n + 1 == fragments.len();
        assert!(ip.len() <= mtu && f.len() <= 2048);
        let (header, offset, more) = if v6 {
            assert_eq!((ip[6], 40 + be16(ip, 4)), (44, ip.len()));
            assert_eq!(ip[44..48], ID.to_be_bytes());
            (48, be16(ip, 42) & 0xfff8, ip[43] & 1 != 0)
        } else {
            let header = usize::from(ip[0] & 15) * 4;
            assert_eq!((be16(ip, 2), words(&[&ip[..header]])), (ip.len(), 0xffff));
            assert_eq!(ip[6] & 0xc0, 0);
            (header, (be16(ip, 6) & 0x1fff) * 8, ip[6] & 0x20 != 0)
        };
        if n == 0 {
            whole = f[..l3 + header].to_vec();
            if v6 {
                whole[l3 + 6] = ip[40];
                whole.truncate(l3 + 40);
            }
        }
        let begin = if v6 { l3 + 40 } else { l3 + header };
        assert_eq!((whole.len() - begin, more), (offset, !last));
        whole.extend(&ip[header..]);
    }
    let l3 = l3_of(&fragments[0]);
    let total = whole.len() - l3;
    if whole[l3] >> 4 == 6 {
        whole[l3 + 4..l3 + 6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
    } else {
        whole[l3 + 2..l3 + 4].copy_from_slice(&(total as u16).to_be_bytes());
        whole[l3 + 6..l3 + 8].fill(0);
        whole[l3 + 10..l3 + 12].fill(0);
        let header = usize::from(whole[l3] & 15) * 4;
        let sum = !words(&[&whole[l3..l3 + header]]);
        whole[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
    }
    whole
}

fn bytes(given: &[HeapBuf]) -> Vec<Vec<u8>> {
    given.iter().map(HeapBuf::to_vec).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn fragments_make_the_frame_again(
        shape in 0..Shape::ALL.len(),
        len in prop_oneof![0..3000usize, 1000..20_000usize],
        mtu in prop_oneof![576..2100usize, 1280..9100usize],
    ) {
        leaks_nothing(|| {
            let shape = Shape::ALL[shape];
            let mtu = if shape.v6 { mtu.max(1280) } else { mtu };
            let frame = shape.frame().payload(&filler(len)).build();
            Facts::right(&frame);
            let l2 = shape.frame().l3_offset();
            let buf = buffer(&frame);
            let id = buf.id();
            let (result, given) = run(buf, l2, mtu, &mut Pool::endless());
            if frame.len() <= l2 + mtu {
                assert_eq!((result, given[0].id()), (Ok(1), id), "as it is");
                assert!(given[0].data() == frame);
            } else {
                assert!(given.len() > 1 && given.iter().all(|f| f.headroom() == HEADROOM));
                assert!(joined(&bytes(&given), mtu) == frame);
            }
        });
    }

    #[test]
    fn nothing_panics_and_nothing_is_lost(
        mut frame in prop::collection::vec(any::<u8>(), 0..2000),
        like in prop::option::of(0..Shape::ALL.len()),
        l2 in 0..30usize,
        mtu in 0..3000usize,
    ) {
        leaks_nothing(|| {
            if let Some(shape) = like {
                let real = Shape::ALL[shape].udp(b"");
                let n = real.len().min(frame.len());
                frame[..n].copy_from_slice(&real[..n]);
            }
            let _ = run(buffer(&frame), l2, mtu, &mut Pool::endless());
        });
    }
}

#[test]
fn sizes_about_the_boundaries() {
    leaks_nothing(|| {
        for shape in Shape::ALL {
            let l2 = shape.frame().l3_offset();
            let l4 = shape.frame().l4_offset() - l2;
            for mtu in [1280, 1281, 1500, 9000] {
                // Payloads that make 1, 2 and 3 full fragments of the packet, and a byte more and less.
                let room = mtu.min(2048 - l2);
                for full in [mtu - l4 - 8, 2 * (room - 60) / 8 * 8, 3 * (room - 48) / 8 * 8] {
                    for len in full - 9..full + 10 {
                        let frame = shape.frame().payload(&filler(len)).build();
                        let (result, given) = run(buffer(&frame), l2, mtu, &mut Pool::endless());
                        let whole = frame.len() - l2 <= mtu;
                        assert_eq!(result == Ok(1), whole, "{shape:?}: {len}, {mtu}");
                        assert!(whole || joined(&bytes(&given), mtu) == frame);
                    }
                }
            }
        }
    });
}

#[test]
fn a_pool_that_runs_dry_gives_nothing() {
    leaks_nothing(|| {
        for shape in Shape::ALL {
            let frame = shape.frame().payload(&filler(9000)).build();
            let l2 = shape.frame().l3_offset();
            let (result, _) = run(buffer(&frame), l2, 1280, &mut Pool::endless());
            let all = result.expect("can be cut") as usize;
            for small in 0..all {
                let (result, given) = run(buffer(&frame), l2, 1280, &mut Pool::of(small, 9));
                assert_eq!((result, given.len()), (Err(DropReason::NoBuffer), 0));
            }
            assert!(run(buffer(&frame), l2, 1280, &mut Pool::of(all, 0)).0.is_ok());
        }
    });
}

#[test]
fn what_must_not_be_cut_is_dropped_and_counted() {
    let v4 = || Shape::ALL[0].frame().payload(&filler(3000));
    let v6 = || Shape::ALL[1].frame().payload(&filler(3000));
    let options = Extension::HopByHop(vec![1, 4, 0, 0, 0, 0]);
    let frames: Vec<(Frame, usize, usize)> = vec![
        (v4().fragment(800, true), 14, 1500),
        (v4().fragment(800, false), 14, 1500),
        (v4().ip_len(9000), 14, 1500),
        (v4(), 14, 67),
        (v6().ip_len(9000), 14, 1500),
        (v6(), 14, 1279),
        (v6().extension(options), 14, 1500),
        (
            v6().extension(Extension::Fragment {
                offset: 0,
                more: true,
                id: 1,
            }),
            14,
            1500,
        ),
    ];
    leaks_nothing(|| {
        for (n, (frame, l2, mtu)) in frames.into_iter().enumerate() {
            let (result, _) = run(buffer(&frame.build()), l2, mtu, &mut Pool::endless());
            assert_eq!(result, Err(DropReason::Unfragmentable), "case {n}");
        }
        let mut other = v4().build();
        other[12..14].copy_from_slice(&[0x88, 0xcc]);
        let (result, _) = run(buffer(&other), 14, 1500, &mut Pool::endless());
        assert_eq!(result, Err(DropReason::Unfragmentable));
        let frame = v4().build();
        let two = HeapBuf::from_segments(&[&frame[..1600], &frame[1600..]]);
        let (result, _) = run(two, 14, 1500, &mut Pool::endless());
        assert_eq!(result, Err(DropReason::Unfragmentable));
        // 48 bytes in each fragment: the most fragments, and a byte more.
        for (len, expected) in [
            (48 * MAX_FRAGMENTS, Ok(MAX_FRAGMENTS as u32)),
            (48 * MAX_FRAGMENTS + 1, Err(DropReason::Unfragmentable)),
        ] {
            let frame = Shape::ALL[0].frame().payload(&filler(len - 8)).build();
            let (result, _) = run(buffer(&frame), 14, 68, &mut Pool::endless());
            assert_eq!(result, expected);
        }
    });
}

#[test]
fn copies_of_what_fits_are_the_frame() {
    leaks_nothing(|| {
        for shape in Shape::ALL {
            let frame = shape.frame().payload(&filler(900)).build();
            let padded = [&frame[..], &[0xee; 5]].concat();
            let buf = buffer(&padded);
            let id = buf.id();
            let mut given = vec![];
            let l2 = shape.frame().l3_offset();
            let mtu = frame.len() - l2;
            let mtu = if shape.v6 { mtu.max(1280) } else { mtu };
            let result = copies(buf, l2, mtu, ID, &mut Pool::of(1, 0), &mut |b| given.push(b));
            assert_eq!((result, given.len()), (Ok(1), 1));
            assert!(given[0].data() == frame && given[0].id() != id);
        }
    });
}

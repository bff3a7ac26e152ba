//! Records in packets of several segments: cut anywhere, the same plaintext as in one piece.

mod common;
mod rig;

use lcore::{Eal, Mbuf};
use nf_path::verdict::DropReason;
use rig::{LARGE_ROOM, Options, Rig, buffer, chain, delivered, frame, inner, outer, record_of};

#[test]
fn records_in_segments() {
    let eal = common::eal("scatter");
    cut_anywhere(&eal);
    in_many_segments(&eal);
    jumbo(&eal);
    no_large_buffer(&eal);
}

/// Splits at ascending places; two of the same make an empty segment.
fn split<'f>(frame: &'f [u8], cuts: &[usize]) -> Vec<&'f [u8]> {
    let ends = cuts.iter().copied().chain([frame.len()]);
    let starts = [0].into_iter().chain(cuts.iter().copied());
    starts.zip(ends).map(|(from, to)| &frame[from..to]).collect()
}

/// Puts each frame in, cut at the given places, and compares what is delivered with the frame in one piece.
fn same_as_whole(rig: &mut Rig, frames: Vec<(u32, Vec<u8>, Vec<usize>)>, len: usize) {
    for burst in frames.chunks(64) {
        let small = rig.small.clone();
        rig.put(
            burst
                .iter()
                .map(|(_, frame, cuts)| chain(&small, &split(frame, cuts))),
        );
        rig.poll();
        let mut sent = rig::taken(&mut rig.tunnel_out);
        assert!(sent.iter().all(rig::is_plain));
        let mut got: Vec<_> = sent.drain(..).map(|m: Mbuf| rig::bytes(&m)).collect();
        let mut expected: Vec<_> = burst
            .iter()
            .map(|(id, ..)| delivered(1, &inner(len, *id)))
            .collect();
        got.sort();
        expected.sort();
        let cuts: Vec<_> = burst.iter().map(|(_, _, cuts)| cuts).collect();
        assert!(
            got == expected,
            "{} of {}, cuts {cuts:?}: {:?}",
            got.len(),
            expected.len(),
            rig.drops()
        );
    }
}

fn cut_anywhere(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("cut"));
    let mut id = 0;
    let mut next = |cuts: Vec<usize>| {
        id += 1;
        (id, frame(1, id, 41), cuts)
    };
    let whole = frame(1, 1, 41).len();
    assert_eq!(whole, 14 + 20 + 8 + 24 + 41);
    let mut frames: Vec<_> = (0..=whole).map(|at| next(vec![at])).collect();
    for first in 0..whole {
        frames.extend((first..=whole).step_by(5).map(|second| next(vec![first, second])));
    }
    // A byte each in the segments in the middle.
    frames.extend((0..whole - 3).map(|at| next(vec![at, at + 1, at + 2, at + 3])));
    let count = frames.len() as u64;
    same_as_whole(&mut rig, frames, 41);
    let t = rig.counters.totals();
    assert_eq!((t.records, t.authentic, rig.drops()), (count, count, vec![]));
    rig.finish();
}

fn in_many_segments(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("many"));
    let frames = (1..=60)
        .map(|id| {
            let frame = frame(1, id, 1400);
            let step = 1 + frame.len() / (id as usize + 1);
            let cuts = (1..)
                .map(|n| n * step)
                .take_while(|at| *at < frame.len())
                .collect();
            (id, frame, cuts)
        })
        .collect();
    same_as_whole(&mut rig, frames, 1400);
    assert_eq!(rig.drops(), []);
    // Frames that are not ours leave as they are.
    let small = rig.small.clone();
    let foreign: Vec<u8> = (0..600u32).map(|b| b as u8).collect();
    rig.put([chain(&small, &split(&foreign, &[1, 40, 300]))]);
    rig.poll();
    assert_eq!(rig.host(), [foreign]);
    rig.finish();
}

fn jumbo(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("jumbo"));
    let headers = 14 + 20 + 8 + 24;
    let room = usize::from(LARGE_ROOM) - 128;
    let in_2k = |id: u32, len: usize| {
        (
            id,
            frame(1, id, len),
            (1..)
                .map(|n| n * 2048)
                .take_while(|at| *at < len + headers)
                .collect(),
        )
    };
    same_as_whole(&mut rig, vec![in_2k(1, 9000)], 9000);
    same_as_whole(&mut rig, vec![in_2k(2, room - headers)], room - headers);
    assert_eq!(rig.drops(), []);
    let (_, frame, cuts) = in_2k(3, room - headers + 1);
    let small = rig.small.clone();
    rig.put([chain(&small, &split(&frame, &cuts))]);
    rig.poll();
    assert_eq!(
        (rig.drops(), rig.tunnel().len()),
        (vec![(DropReason::Scattered, 1)], 0)
    );
    rig.finish();
}

fn no_large_buffer(eal: &Eal) {
    let mut rig = Rig::new(
        eal,
        Options {
            large: 3,
            ..Options::new("empty")
        },
    );
    let (small, large) = (rig.small.clone(), rig.large.clone());
    let held: Vec<_> = std::iter::from_fn(|| large.alloc()).collect();
    assert_eq!(held.len(), 3);
    let record = frame(1, 1, 400);
    let control = outer(1, 0).payload(&[0x20; 300]).build();
    let cut = |frame: &[u8], at| chain(&small, &split(frame, &[at]));
    // A record is no use in pieces; the daemon's datagram is, for the host port takes segments. Cut inside the headers
    // nobody can tell whose it is, and the host gets it.
    rig.put([
        cut(&record, 100),
        cut(&control, 100),
        cut(&record, 20),
        buffer(&small, &frame(1, 2, 60)),
    ]);
    rig.poll();
    assert_eq!(rig.drops(), [(DropReason::Scattered, 1)]);
    assert_eq!(rig.host(), [control, record.clone()]);
    assert_eq!(
        rig.tunnel(),
        [delivered(1, &inner(60, 2))],
        "what is in one piece passes"
    );
    drop(held);
    rig.put([cut(&record, 100)]);
    rig.poll();
    assert_eq!(
        rig.tunnel(),
        [delivered(1, &inner(400, 1))],
        "the window never moved for the one that was lost"
    );
    assert_eq!(record_of(1, 1, &inner(400, 1)).len() + 42, record.len());
    drop((small, large));
    rig.finish();
}

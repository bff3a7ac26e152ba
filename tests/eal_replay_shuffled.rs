//! Records that arrive out of order, no further than the replay window reaches: the same packets, in another order.

#[path = "support/replay.rs"]
mod support;

use support::{CAPTURES, Known, in_pairs, inner, pcap, replay};

/// How far apart frames may change places. No frame carries more than one packet id, and a key's ids rise by one, so an
/// id comes at most this much less one behind the highest before it: within the 2047 that the window reaches back.
const REACH: usize = 2048;

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n as u64) as usize
    }
}

/// Shuffles within stretches of `REACH` frames (Fisher and Yates); seed 0 turns each stretch around.
fn shuffle(frames: &mut [Vec<u8>], seed: u64) {
    let mut random = Random(seed);
    for stretch in frames.chunks_mut(REACH) {
        if seed == 0 {
            stretch.reverse();
        }
        for i in (1..stretch.len()).filter(|_| seed != 0).rev() {
            stretch.swap(i, random.below(i + 1));
        }
    }
}

#[test]
fn records_in_any_order_within_the_window_give_the_same_packets() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let in_order: Vec<Vec<Vec<u8>>> = CAPTURES
        .iter()
        .map(|known| {
            let output = folder.path().join(known.name);
            let out = replay(0, &known.keys(), &known.outer(), &output, &[]).json();
            known.check(&out, true, "in order");
            let mut packets = inner(&output);
            packets.sort();
            packets
        })
        .collect();
    let cases: Vec<(usize, u64)> = (0..CAPTURES.len())
        .flat_map(|k| (0..8).map(move |seed| (k, seed)))
        .collect();
    in_pairs(&cases, |cpu, &(k, seed)| {
        let known: &Known = &CAPTURES[k];
        let of = format!("{}-{seed}", known.name);
        let (input, output) = (
            folder.path().join(format!("{of}-in")),
            folder.path().join(format!("{of}-out")),
        );
        let mut frames = pcap::read(&known.outer());
        let before = frames.clone();
        shuffle(&mut frames, seed);
        assert_ne!(frames, before, "{of}");
        pcap::write(&input, &frames);
        let (batch, burst) = (
            ["on", "off"][seed as usize % 2],
            ["256", "64", "7"][seed as usize % 3],
        );
        let out = replay(
            cpu,
            &known.keys(),
            &input,
            &output,
            &["--batch", batch, "--burst", burst],
        )
        .json();
        known.check(&out, false, &of);
        let mut packets = inner(&output);
        assert!(
            packets.len() < 100 || packets != in_order[k],
            "{of}: not in the order of the bytes"
        );
        packets.sort();
        assert!(packets == in_order[k], "{of}: other packets than in order");
    });
}

/// The check above can fail: one stretch longer than the window reaches, turned around, loses records as too old.
#[test]
fn further_than_the_window_reaches_records_are_too_old() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let known = &CAPTURES[2];
    let mut frames = pcap::read(&known.outer());
    frames.reverse();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    pcap::write(&input, &frames);
    let out = replay(0, &known.keys(), &input, &output, &[]).json();
    let old = out["drops"]["replay_old"].as_u64().expect("some are too old");
    let delivered = out["peers"][0]["delivered"].as_u64().expect("a number");
    let keepalives = out["keepalives"].as_u64().expect("a number");
    assert_eq!(delivered + keepalives, 2048, "{out}");
    assert_eq!(old, known.delivered() + known.keepalives - 2048, "{out}");
}

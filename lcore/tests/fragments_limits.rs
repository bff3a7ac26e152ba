//! `rte_ip_frag` under the inbound path: pieces that are late, twice, overlapping or too many. Each ends once, counted,
//! and every buffer comes back.

mod common;
mod rig;

use lcore::Eal;
use lcore::reassembly::{MAX_DATAGRAMS, MAX_FRAGMENTS, TIMEOUT_MS};
use nf_path::verdict::DropReason;
use rig::pieces::{Bed, pieces};
use rig::{LARGE_ROOM, delivered, inner};

#[test]
fn pieces_that_never_make_a_whole() {
    let eal = common::eal("limits");
    first_only(&eal);
    given_up_when_the_worker_goes(&eal);
    too_many_pieces(&eal);
    twice_and_overlapping(&eal);
    more_than_the_table_holds(&eal);
    larger_than_a_large_buffer(&eal);
    no_large_buffer(&eal);
}

fn first_only(eal: &Eal) {
    let mut bed = Bed::new(eal, "first", 31);
    let start = bed.millis;
    for v6 in [false, true] {
        let id = 1 + u32::from(v6);
        assert!(bed.push([&pieces(v6, id, 1400, 800)[0]]).tunnel.is_empty());
    }
    bed.millis = start + TIMEOUT_MS - 1;
    bed.expire();
    assert_eq!((bed.drops(), bed.waiting()), (vec![], 2), "not yet");
    bed.millis = start + TIMEOUT_MS + 1;
    bed.expire();
    assert_eq!(
        (bed.drops(), bed.waiting()),
        (vec![(DropReason::FragmentTimeout, 2)], 0)
    );
    // The second piece is too late: it waits for a first piece, and is given up in its turn.
    assert!(bed.push([&pieces(false, 1, 1400, 800)[1]]).tunnel.is_empty());
    bed.millis += TIMEOUT_MS + 1;
    bed.expire();
    assert_eq!(
        (bed.drops(), bed.waiting()),
        (vec![(DropReason::FragmentTimeout, 3)], 0)
    );
    // Nobody asked for what is too old: the same datagram again finds the stale piece, which is counted all the same.
    assert!(bed.push([&pieces(false, 7, 1400, 800)[0]]).tunnel.is_empty());
    bed.millis += TIMEOUT_MS + 1;
    let out = bed.push(pieces(false, 7, 1400, 800));
    assert_eq!(out.tunnel, [delivered(1, &inner(1400, 7))]);
    let t = bed.totals();
    let lost = t.dropped(DropReason::FragmentTimeout) + t.dropped(DropReason::FragmentRefused);
    assert_eq!((lost, bed.waiting()), (4, 0));
    // Many of them, over many expiries: memory is bounded by the table.
    for round in 0..40u32 {
        for burst in 0..8u32 {
            bed.push(
                (0..250u32).map(|n| pieces(false, round * 2000 + burst * 250 + n + 10, 1400, 800).remove(0)),
            );
        }
        assert!(bed.waiting() <= MAX_DATAGRAMS);
        bed.millis += TIMEOUT_MS + 1;
        bed.expire();
        assert_eq!(bed.waiting(), 0);
    }
    let t = bed.totals();
    let lost = t.dropped(DropReason::FragmentTimeout) + t.dropped(DropReason::FragmentRefused);
    assert_eq!(lost, 4 + 80_000);
    bed.finish();
}

/// What waits in the table when it is dropped goes back to its pool.
fn given_up_when_the_worker_goes(eal: &Eal) {
    let mut bed = Bed::new(eal, "goes", 31);
    bed.push((1..=100).map(|id| pieces(id % 2 == 0, id, 1400, 800).remove(0)));
    assert_eq!(bed.waiting(), 100);
    bed.finish();
}

fn too_many_pieces(eal: &Eal) {
    let mut bed = Bed::new(eal, "many", 31);
    for v6 in [false, true] {
        let before = bed.totals().dropped(DropReason::FragmentRefused);
        // As many as are taken.
        let parts = pieces(v6, 1 + u32::from(v6), 1400, if v6 { 48 + 184 } else { 20 + 184 });
        assert_eq!(parts.len() as u32, MAX_FRAGMENTS);
        assert_eq!(bed.push(&parts).tunnel.len(), 1, "{v6}");
        // One more.
        let parts = pieces(v6, 5 + u32::from(v6), 1550, if v6 { 48 + 184 } else { 20 + 184 });
        assert_eq!(parts.len() as u32, MAX_FRAGMENTS + 1);
        assert!(bed.push(&parts).tunnel.is_empty());
        bed.millis += TIMEOUT_MS + 1;
        bed.expire();
        let t = bed.totals();
        assert!(
            t.dropped(DropReason::FragmentRefused) - before >= u64::from(MAX_FRAGMENTS),
            "{:?}",
            bed.drops()
        );
        assert_eq!(bed.waiting(), 0);
    }
    let t = bed.totals();
    let lost = t.dropped(DropReason::FragmentTimeout) + t.dropped(DropReason::FragmentRefused);
    assert_eq!(
        lost,
        2 * u64::from(MAX_FRAGMENTS + 1),
        "each piece once: {:?}",
        bed.drops()
    );
    bed.finish();
}

/// Each piece ends once, whichever is sent twice, and what is delivered is right.
fn twice_and_overlapping(eal: &Eal) {
    let mut bed = Bed::new(eal, "twice", 31);
    let mut sent = 0;
    let mut whole = 0;
    let mut id = 0;
    for v6 in [false, true] {
        for twice in 0..3 {
            for at in 0..=3 {
                id += 1;
                let mut parts = pieces(v6, id, 1500, 640);
                parts.insert(at, parts[twice].clone());
                sent += parts.len() as u64;
                let out = bed.push(&parts);
                whole += out.tunnel.len() as u64;
                assert!(
                    out.tunnel.iter().all(|f| *f == delivered(1, &inner(1500, id))),
                    "{v6} {twice} {at}"
                );
            }
        }
        // The second piece begins 8 bytes early, with other bytes there: never delivered.
        id += 1;
        let mut parts = pieces(v6, id, 1500, 640);
        overlap(&mut parts[1], v6);
        sent += parts.len() as u64;
        assert!(bed.push(&parts).tunnel.is_empty());
    }
    bed.millis += TIMEOUT_MS + 1;
    bed.expire();
    let t = bed.totals();
    let lost = t.dropped(DropReason::FragmentTimeout) + t.dropped(DropReason::FragmentRefused);
    assert_eq!(t.fragments, sent);
    assert_eq!(t.reassembled, whole, "{:?}", bed.drops());
    assert_eq!(lost + 3 * whole, sent, "{:?}", bed.drops());
    assert_eq!(bed.waiting(), 0);
    bed.finish();
}

/// Moves a fragment 8 bytes to the front of its datagram.
fn overlap(frame: &mut [u8], v6: bool) {
    let at = if v6 { 14 + 42 } else { 14 + 6 };
    let field = u16::from_be_bytes([frame[at], frame[at + 1]]) - if v6 { 8 } else { 1 };
    frame[at..at + 2].copy_from_slice(&field.to_be_bytes());
}

fn more_than_the_table_holds(eal: &Eal) {
    let mut bed = Bed::new(eal, "table", 31);
    let sent = 3 * MAX_DATAGRAMS;
    for burst in 0..sent / 256 {
        bed.push((0..256).map(|n| pieces(false, 1 + burst * 256 + n, 1400, 800).remove(0)));
    }
    assert!(
        bed.waiting() <= MAX_DATAGRAMS && bed.waiting() > MAX_DATAGRAMS / 2,
        "{}",
        bed.waiting()
    );
    let refused = bed.totals().dropped(DropReason::FragmentRefused);
    assert_eq!(
        refused + u64::from(bed.waiting()),
        u64::from(sent),
        "{:?}",
        bed.drops()
    );
    // Whole records pass all the same, and the table is of use again when the old pieces are too old.
    assert_eq!(bed.push([rig::frame(1, 900_000, 100)]).tunnel.len(), 1);
    bed.millis += TIMEOUT_MS + 1;
    bed.expire();
    assert_eq!(bed.waiting(), 0);
    assert_eq!(bed.push(pieces(false, 900_001, 1400, 800)).tunnel.len(), 1);
    bed.finish();
}

fn larger_than_a_large_buffer(eal: &Eal) {
    let mut bed = Bed::new(eal, "larger", 31);
    let room = usize::from(LARGE_ROOM) - 128;
    for v6 in [false, true] {
        // The frame that just fits, and one byte more.
        let headers = 14 + if v6 { 40 } else { 20 } + 8 + 24;
        let id = 1 + 2 * u32::from(v6);
        assert_eq!(
            bed.push(pieces(v6, id, room - headers, 1500)).tunnel.len(),
            1,
            "{v6}"
        );
        let parts = pieces(v6, id + 1, room - headers + 1, 1500);
        let before = bed.totals().dropped(DropReason::Scattered);
        assert!(bed.push(&parts).tunnel.is_empty());
        assert_eq!(
            bed.totals().dropped(DropReason::Scattered) - before,
            parts.len() as u64
        );
    }
    assert_eq!(bed.waiting(), 0);
    bed.finish();
}

fn no_large_buffer(eal: &Eal) {
    let mut bed = Bed::new(eal, "none", 1);
    let large = bed.large.clone();
    let held = large.alloc().expect("the only one");
    assert!(bed.push(pieces(false, 1, 1400, 800)).tunnel.is_empty());
    assert_eq!(
        (bed.drops(), bed.waiting()),
        (vec![(DropReason::Scattered, 2)], 0)
    );
    drop(held);
    assert_eq!(
        bed.push(pieces(false, 2, 1400, 800)).tunnel,
        [delivered(1, &inner(1400, 2))]
    );
    drop(large);
    bed.finish();
}

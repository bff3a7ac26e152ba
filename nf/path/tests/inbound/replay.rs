//! The replay window through the whole path, with real records.

use crate::support::*;
use nf_path::twin::HeapBuf;
use nf_path::verdict::DropReason::{self, BadTag, ReplayDuplicate, ReplayOld, ReplayZero};
use nf_state::Slot;

/// One record in a burst of its own: None when it was delivered.
fn verdict(bed: &mut Bed, at: u64, frame: HeapBuf) -> Option<DropReason> {
    let before = bed.totals();
    let out = bed.at(at).push([frame]);
    let drops: Vec<_> = bed.totals().since(&before).nonzero_drops().collect();
    match (out.delivered(), &drops[..]) {
        (1, []) => None,
        (0, [(reason, 1)]) => Some(*reason),
        other => panic!("{other:?}"),
    }
}

/// Ids that arrive at these milliseconds, and what becomes of each.
#[track_caller]
fn trace(steps: &[(u64, u32, Option<DropReason>)]) {
    let mut bed = Bed::default();
    for (at, id, expected) in steps {
        assert_eq!(
            verdict(&mut bed, *at, buf(1, *id, 60)),
            *expected,
            "id {id} at {at} ms"
        );
    }
}

#[test]
fn trace_first_5_then_4_and_1_and_5_again() {
    trace(&[
        (0, 5, None),
        (1, 4, None),
        (1, 1, None),
        (1, 5, Some(ReplayDuplicate)),
    ]);
}

#[test]
fn trace_the_backtrack_is_2047() {
    trace(&[(0, 5000, None), (1, 2953, None), (1, 2952, Some(ReplayOld))]);
    trace(&[
        (0, 1, None),
        (1, 2049, None),
        (1, 1, Some(ReplayOld)),
        (1, 2, None),
    ]);
}

#[test]
fn trace_the_floor_rises_30_s_after_the_last_accepted() {
    trace(&[
        (0, 100, None),
        (29_000, 99, None),
        (58_000, 98, None),
        (88_000, 97, Some(ReplayOld)),
        (88_000, 101, None),
    ]);
}

#[test]
fn id_zero_is_never_valid() {
    trace(&[
        (0, 0, Some(ReplayZero)),
        (0, 1, None),
        (0, 0, Some(ReplayZero)),
        (31_000, 0, Some(ReplayZero)),
    ]);
}

#[test]
fn a6_reordered_ids_and_a_jump() {
    trace(&[
        (0, 1, None),
        (0, 3, None),
        (0, 2, None),
        (0, 2, Some(ReplayDuplicate)),
        (0, 5000, None),
        (0, 5000 - 2047, None),
        (0, 5000 - 2048, Some(ReplayOld)),
        (0, 0, Some(ReplayZero)),
    ]);
}

#[test]
fn a6_a_forged_id_does_not_move_the_window() {
    let mut bed = Bed::default();
    assert_eq!(verdict(&mut bed, 0, buf(1, 5000, 60)), None);
    let mut forged = frame(1, 0xffff_fff0, 60);
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(verdict(&mut bed, 0, HeapBuf::new(&forged)), Some(BadTag));
    assert_eq!(verdict(&mut bed, 0, buf(1, 5001, 60)), None);
    assert_eq!(verdict(&mut bed, 0, buf(1, 4999, 60)), None);
}

#[test]
fn a6_31_s_of_silence_then_an_older_unseen_id() {
    trace(&[
        (0, 10, None),
        (31_000, 9, Some(ReplayOld)),
        (31_000, 10, Some(ReplayOld)),
        (31_000, 11, None),
    ]);
}

#[test]
fn a6_each_key_has_its_own_window() {
    let mut bed = Bed::default();
    let with = |key_id, id| {
        HeapBuf::new(
            &outer(1)
                .payload(&record_of(1, key_id, id, &inner(1, 60, id)))
                .build(),
        )
    };
    for key_id in [0, 1] {
        for id in [1, 2, 3] {
            assert_eq!(verdict(&mut bed, 0, with(key_id, id)), None);
        }
    }
    assert_eq!(verdict(&mut bed, 0, with(0, 2)), Some(ReplayDuplicate));
    // A new key in the slot begins anew; a swap keeps both windows.
    bed.peer(1).keys.swap();
    assert_eq!(verdict(&mut bed, 0, with(1, 3)), Some(ReplayDuplicate));
    let (k, tail) = key(1, 0);
    drop(
        bed.peer(1)
            .keys
            .install(Slot::Secondary, key_slot(CIPHER, 0, &k, tail)),
    );
    assert_eq!(verdict(&mut bed, 0, with(0, 2)), None);
    assert_eq!(verdict(&mut bed, 0, with(1, 2)), Some(ReplayDuplicate));
}

#[test]
fn the_traces_hold_within_one_batch_too() {
    let mut bed = Bed::default();
    let ids = [5000, 2953, 2952, 5000, 4999, 5001, 2954, 2953];
    let out = bed.push(ids.map(|id| buf(1, id, 60)));
    assert_eq!(
        (out.numbers(), bed.batches(8)),
        (vec![5000, 2953, 4999, 5001, 2954], 1)
    );
    assert_eq!(bed.drops(), [(ReplayOld, 2), (ReplayDuplicate, 1)]);
}

#[test]
fn the_last_ids_of_all_are_valid() {
    let top = u32::MAX;
    trace(&[
        (0, top - 1, None),
        (0, top, None),
        (0, top, Some(ReplayDuplicate)),
        (0, 1, Some(ReplayOld)),
    ]);
}

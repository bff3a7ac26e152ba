use super::*;
use crate::{Cipher, Direction, KeySlot};

pub(super) fn proof(id: u32) -> Authentic {
    Authentic::verify(&[7; 16], &[7; 16], id).expect("equal tags")
}

/// One authentic record at `ms`: check, then commit, which must agree.
fn feed_at(w: &mut ReplayWindow, id: u32, ms: u64) -> Result<(), Replay> {
    let checked = w.check(id, Millis(ms));
    assert_eq!(w.commit(proof(id), Millis(ms)), checked, "id {id} at {ms} ms");
    checked
}

fn feed(w: &mut ReplayWindow, id: u32) -> Result<(), Replay> {
    feed_at(w, id, 0)
}

const TOO_OLD: Result<(), Replay> = Err(Replay::TooOld);
const DUPLICATE: Result<(), Replay> = Err(Replay::Duplicate);

#[test]
fn trace_5_4_1_5() {
    let mut w = ReplayWindow::new();
    assert_eq!(
        [5, 4, 1, 5].map(|id| feed(&mut w, id)),
        [Ok(()), Ok(()), Ok(()), DUPLICATE]
    );
    assert_eq!(w.highest(), 5);
}

#[test]
fn trace_5000_2953_ok_2952_reject() {
    let mut w = ReplayWindow::new();
    assert_eq!(
        [5000, 2953, 2952].map(|id| feed(&mut w, id)),
        [Ok(()), Ok(()), TOO_OLD]
    );
}

#[test]
fn trace_1_2049_1_2() {
    let mut w = ReplayWindow::new();
    assert_eq!(
        [1, 2049, 1, 2].map(|id| feed(&mut w, id)),
        [Ok(()), Ok(()), TOO_OLD, Ok(())]
    );
}

#[test]
fn trace_thirty_second_floor() {
    let mut w = ReplayWindow::new();
    let records = [(100, 0), (99, 29), (98, 58), (97, 88), (101, 88)];
    let verdicts = records.map(|(id, seconds)| feed_at(&mut w, id, seconds * 1000));
    assert_eq!(verdicts, [Ok(()), Ok(()), Ok(()), TOO_OLD, Ok(())]);
}

#[test]
fn id_zero_is_refused_first_and_later() {
    let mut w = ReplayWindow::new();
    assert_eq!(feed(&mut w, 0), Err(Replay::Zero));
    assert_eq!(feed(&mut w, 1), Ok(()));
    assert_eq!(feed(&mut w, 0), Err(Replay::Zero));
    assert_eq!(feed(&mut w, 5000), Ok(()));
    assert_eq!(feed(&mut w, 0), Err(Replay::Zero));
}

#[test]
fn reordered_1_3_2_then_2_again() {
    let mut w = ReplayWindow::new();
    assert_eq!(
        [1, 3, 2, 2].map(|id| feed(&mut w, id)),
        [Ok(()), Ok(()), Ok(()), DUPLICATE]
    );
}

#[test]
fn jump_to_5000_keeps_2047_of_backtrack() {
    let mut w = ReplayWindow::new();
    for id in [1, 3, 2] {
        assert_eq!(feed(&mut w, id), Ok(()));
    }
    assert_eq!(feed(&mut w, 5000), Ok(()));
    assert_eq!(feed(&mut w, 5000 - 2047), Ok(()));
    assert_eq!(feed(&mut w, 5000 - 2048), TOO_OLD);
}

#[test]
fn forged_id_does_not_move_the_window() {
    let mut w = ReplayWindow::new();
    assert_eq!(feed(&mut w, 5000), Ok(()));
    let before = w.clone();
    // The id passes the check, the tag does not: there is no proof and so no commit.
    assert_eq!(w.check(0xffff_fff0, Millis(60_000)), Ok(()));
    assert!(Authentic::verify(&[7; 16], &[8; 16], 0xffff_fff0).is_none());
    assert_eq!(
        (w.highest, w.floor, w.expiry, w.seen),
        (before.highest, before.floor, before.expiry, before.seen)
    );
    assert_eq!(feed(&mut w, 5001), Ok(()));
    assert_eq!(w.highest(), 5001);
}

#[test]
fn refused_commit_changes_nothing() {
    let mut w = ReplayWindow::new();
    assert_eq!(feed_at(&mut w, 100, 0), Ok(()));
    let before = w.clone();
    assert_eq!(feed_at(&mut w, 100, 29_999), DUPLICATE);
    assert_eq!(feed_at(&mut w, 100, 30_000), TOO_OLD);
    assert_eq!(
        (w.highest, w.floor, w.expiry, w.seen),
        (before.highest, before.floor, before.expiry, before.seen)
    );
}

#[test]
fn two_equal_ids_of_one_batch_pass_the_check_and_the_second_fails_at_commit() {
    let mut w = ReplayWindow::new();
    assert_eq!([w.check(9, Millis(1)), w.check(9, Millis(1))], [Ok(()), Ok(())]);
    assert_eq!(w.commit(proof(9), Millis(1)), Ok(()));
    assert_eq!(w.commit(proof(9), Millis(1)), DUPLICATE);
}

#[test]
fn each_key_has_a_window_of_its_own() {
    let key = |id| {
        let direction = || Direction {
            key: (),
            nonce_tail: [0; 8],
        };
        KeySlot::new(Cipher::Aes128Gcm, id, direction(), direction())
    };
    for slot in [key(0), key(1)] {
        for id in [1, 3, 2, 5000, 2953] {
            assert_eq!(
                feed(&mut slot.lock_replay(), id),
                Ok(()),
                "key {} id {id}",
                slot.key_id()
            );
        }
    }
}

#[test]
fn silence_of_31_seconds_ends_the_unseen_older_ids() {
    let mut w = ReplayWindow::new();
    assert_eq!(feed_at(&mut w, 10, 1_000), Ok(()));
    assert_eq!(feed_at(&mut w, 9, 32_000), TOO_OLD);
    // What was skipped after the silence is still open, what was skipped before it stays closed.
    assert_eq!(feed_at(&mut w, 20, 32_000), Ok(()));
    assert_eq!(feed_at(&mut w, 11, 32_001), Ok(()));
    assert_eq!(feed_at(&mut w, 9, 32_002), TOO_OLD);
}

#[test]
fn expiry_is_exact_to_the_millisecond() {
    for (ms, verdict) in [(29_999, Ok(())), (30_000, TOO_OLD)] {
        let mut w = ReplayWindow::new();
        assert_eq!(feed_at(&mut w, 10, 0), Ok(()));
        assert_eq!(feed_at(&mut w, 9, ms), verdict, "{ms} ms");
    }
}

#[test]
fn the_last_id_is_accepted_once_and_nothing_wraps() {
    let mut w = ReplayWindow::new();
    let ids = [
        u32::MAX - 1,
        u32::MAX,
        u32::MAX,
        u32::MAX - 2047,
        u32::MAX - 2048,
        1,
    ];
    let verdicts = ids.map(|id| feed(&mut w, id));
    assert_eq!(verdicts, [Ok(()), Ok(()), DUPLICATE, Ok(()), TOO_OLD, TOO_OLD]);
}

#[test]
fn a_jump_clears_exactly_the_ids_it_skips() {
    for start in [2048, 2100, 2111, 2112] {
        for jump in [
            2, 63, 64, 65, 1000, 1984, 1985, 2046, 2047, 2048, 2049, 4096, 100_000,
        ] {
            let mut w = ReplayWindow::new();
            for id in 1..=start {
                assert_eq!(feed(&mut w, id), Ok(()));
            }
            let to = start + jump;
            assert_eq!(feed(&mut w, to), Ok(()));
            for id in to - 2047..=to {
                let verdict = if id <= start || id == to {
                    DUPLICATE
                } else {
                    Ok(())
                };
                assert_eq!(w.check(id, Millis(0)), verdict, "from {start} by {jump}, id {id}");
            }
        }
    }
}

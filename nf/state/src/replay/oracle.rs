//! The window against a set and the rules applied one by one, over random sequences of records.

use std::collections::HashSet;

use proptest::prelude::*;

use super::{tests::proof, *};

/// The rules as they are written down: extent and history kept apart, the floor raised at **every** packet.
#[derive(Default)]
struct Eager {
    highest: u32,
    extent: u32,
    floor: u32,
    expiry: u64,
    seen: HashSet<u32>,
}

impl Eager {
    fn expire(&mut self, now: u64) {
        if now >= self.expiry {
            self.floor = self.highest;
        }
    }

    fn feed(&mut self, id: u32, now: u64) -> Result<(), Replay> {
        if id == 0 {
            return Err(Replay::Zero);
        }
        self.expire(now);
        if id > self.highest {
            let jump = id - self.highest;
            self.extent = if jump < 2048 {
                (self.extent + jump).min(2048)
            } else {
                2048
            };
            self.highest = id;
        } else if self.highest - id >= self.extent || id <= self.floor {
            return Err(Replay::TooOld);
        } else if self.seen.contains(&id) {
            return Err(Replay::Duplicate);
        }
        self.seen.insert(id);
        self.expiry = now + 30_000;
        Ok(())
    }
}

/// How the next id relates to the highest, or to one seen before.
#[derive(Clone, Debug)]
enum Next {
    Ahead(u32),
    Behind(u32),
    Again(prop::sample::Index),
    Exactly(u32),
}

fn distance() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0..4u32,
        2 => 60..70u32,
        2 => 124..132u32,
        2 => 0..2100u32,
        3 => 1980..1990u32,
        4 => 2044..2052u32,
        1 => 4090..4100u32,
        1 => 0..1_000_000u32,
    ]
}

fn next() -> impl Strategy<Value = Next> {
    prop_oneof![
        6 => distance().prop_map(Next::Ahead),
        6 => distance().prop_map(Next::Behind),
        2 => any::<prop::sample::Index>().prop_map(Next::Again),
        1 => prop_oneof![Just(0), Just(1), Just(u32::MAX), Just(u32::MAX - 2048)].prop_map(Next::Exactly),
    ]
}

fn pause() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0..3u64,
        1 => 0..20_000u64,
        2 => 29_998..30_003u64,
        1 => 14_999..15_002u64,
    ]
}

/// Next id, milliseconds since the one before, and whether the record is authentic.
fn record() -> impl Strategy<Value = (Next, u64, bool)> {
    (next(), pause(), prop::bool::weighted(0.8))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn same_verdicts_as_the_eager_reference(records in prop::collection::vec(record(), 1..400)) {
        let (mut window, mut eager) = (ReplayWindow::new(), Eager::default());
        let (mut now, mut sent) = (0, vec![1]);
        for (next, pause, authentic) in records {
            now += pause;
            let id = match next {
                Next::Ahead(n) => eager.highest.saturating_add(n),
                Next::Behind(n) => eager.highest.saturating_sub(n),
                Next::Again(index) => *index.get(&sent),
                // The top of the range ends a run of ids: rarely, and late.
                Next::Exactly(id) if id > 1 && sent.len() < 200 => eager.highest,
                Next::Exactly(id) => id,
            };
            sent.push(id);
            if authentic {
                let checked = window.check(id, Millis(now));
                let committed = window.commit(proof(id), Millis(now));
                prop_assert_eq!(checked, eager.feed(id, now), "id {} at {}", id, now);
                prop_assert_eq!(committed, checked);
            } else {
                // A forged record raises the eager floor, and leaves no trace in the window.
                let _ = window.check(id, Millis(now));
                eager.expire(now);
            }
            prop_assert_eq!(window.highest(), eager.highest);
        }
    }

    #[test]
    fn a_shuffled_run_is_accepted_whole_and_once(
        first in 1..100_000u32,
        ids in Just((0..2048u32).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut window = ReplayWindow::new();
        for id in &ids {
            prop_assert_eq!(window.commit(proof(first + id), Millis(0)), Ok(()));
        }
        for id in &ids {
            prop_assert_eq!(window.commit(proof(first + id), Millis(0)), Err(Replay::Duplicate));
        }
    }
}

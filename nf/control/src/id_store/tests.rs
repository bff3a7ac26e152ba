//! Kills and losses of power at every step of a write, on a made-up disk; and that no id is ever given out twice.

mod fake;

use proptest::prelude::*;
use zeroize::Zeroizing;

use fake::Fake;

use super::*;
use crate::keys::KeyMaterial;

fn key(n: u8) -> Fingerprint {
    let material = KeyMaterial {
        key: Zeroizing::new(vec![n; 16]),
        nonce_tail: Zeroizing::new([0; 8]),
    };
    Fingerprint::of(nf_state::Cipher::Aes128Gcm, &material)
}

/// What a write asks of the disk; the tests below stop at each.
const STEPS: u32 = 4;

#[test]
fn one_write_for_many_keys() {
    let fake = Fake::new();
    let mut store = fake.store().unwrap();
    let ranges = store
        .claim_all((0..100).map(|n| (key(n), format!("peer {n}"))))
        .unwrap();
    assert!(ranges.iter().all(|r| *r
        == IdRange {
            next: 1,
            end: 1 + CHUNK
        }));
    assert_eq!(fake.state(|s| s.steps), STEPS);

    // Half a chunk left is enough, one less is not.
    let half = 1 + CHUNK / 2;
    let grown = store.top_up_all((0..100).map(|n| (key(n), half))).unwrap();
    assert_eq!((grown.len(), fake.state(|s| s.steps)), (0, STEPS));
    let grown = store
        .top_up_all((0..100).map(|n| (key(n), half + u64::from(n % 2))))
        .unwrap();
    assert_eq!((grown.len(), fake.state(|s| s.steps)), (50, 2 * STEPS));
    assert!(grown.contains(&(key(1), 1 + 2 * CHUNK)), "{grown:?}");

    store
        .settle((0..100).map(|n| (key(n), half + u64::from(n % 2))))
        .unwrap();
    assert_eq!(fake.state(|s| s.steps), 3 * STEPS);
    let mut store = fake.store().unwrap();
    assert_eq!(store.claim(key(1), "peer 1").unwrap().next, half + 1);
}

#[test]
fn killed_at_every_step_of_a_write() {
    for (step, works) in (0..STEPS).flat_map(|step| [(step, false), (step, true)]) {
        for power_loss in [None, Some(0), Some(1), Some(2)] {
            let fake = Fake::new();
            let mut store = fake.store().unwrap();
            let first = store.claim(key(1), "peer 1").unwrap();
            fake.fail_in(step, works);
            let refused = store.top_up(key(1), first.end).unwrap_err().to_string();
            assert_eq!(refused, "gw0.ids: cannot be written: No space left on device");
            drop(store);
            fake.restart(power_loss);
            let again = fake.store().unwrap().claim(key(1), "peer 1").unwrap();
            // The old file or the new one, and nothing else.
            let allowed = [first.end, first.end + CHUNK];
            assert!(
                allowed.contains(&again.next),
                "step {step} {works} {power_loss:?}: {again:?}"
            );
        }
    }
}

#[test]
fn a_failed_write_gives_no_ids_and_the_next_one_works() {
    let fake = Fake::new();
    let mut store = fake.store().unwrap();
    for step in 0..STEPS {
        fake.fail_in(step, false);
        assert!(store.claim(key(1), "peer 1").is_err());
        // Not claimed, so neither a duplicate nor in need of more.
        assert!(matches!(store.top_up(key(1), 1), Err(IdStoreError::NotClaimed)));
    }
    fake.restart(None);
    let range = store.claim(key(1), "peer 1").unwrap();
    assert_eq!(
        range,
        IdRange {
            next: 1,
            end: 1 + CHUNK
        }
    );
    fake.fail_in(0, false);
    assert!(store.top_up(key(1), range.end).is_err());
    fake.restart(None);
    assert_eq!(store.top_up(key(1), range.end).unwrap(), Some(range.end + CHUNK));
}

#[test]
fn settling_that_fails_wastes_ids_and_repeats_none() {
    let fake = Fake::new();
    let mut store = fake.store().unwrap();
    let range = store.claim(key(1), "peer 1").unwrap();
    fake.fail_in(STEPS - 1, false);
    assert!(store.settle([(key(1), 10)]).is_err());
    fake.restart(None);
    assert_eq!(store.claim(key(1), "peer 1").unwrap().next, range.end);
    assert_eq!(
        fake.store().unwrap().claim(key(1), "peer 1").unwrap().next,
        range.end + CHUNK
    );
}

#[test]
fn settling_never_goes_below_what_was_heard() {
    let fake = Fake::new();
    let mut store = fake.store().unwrap();
    store
        .claim_all([(key(1), "peer 1".into()), (key(2), "peer 2".into())])
        .unwrap();
    store.top_up(key(1), 1000).unwrap();
    store.settle([(key(1), 0), (key(2), u64::MAX)]).unwrap();
    assert_eq!(store.claim(key(1), "peer 1").unwrap().next, 1000);
    assert_eq!(
        store.claim(key(2), "peer 2").unwrap(),
        IdRange { next: END, end: END }
    );
}

#[test]
fn the_last_ids() {
    let fake = Fake::new();
    let mut store = fake.store().unwrap();
    store.claim(key(1), "peer 1").unwrap();
    store.settle([(key(1), END - 10)]).unwrap();
    assert_eq!(
        store.claim(key(1), "peer 1").unwrap(),
        IdRange {
            next: END - 10,
            end: END
        }
    );
    assert_eq!(store.top_up(key(1), END - 1).unwrap(), None);
    assert_eq!(store.top_up(key(1), END).unwrap(), None);
    store.settle([(key(1), END)]).unwrap();
    let mut store = fake.store().unwrap();
    for _ in 0..2 {
        assert_eq!(
            store.claim(key(1), "peer 1").unwrap(),
            IdRange { next: END, end: END }
        );
        assert_eq!(store.top_up(key(1), END).unwrap(), None);
        store.settle([(key(1), END)]).unwrap();
    }
}

/// What may happen, per mille where it is a number of ids.
#[derive(Clone, Debug)]
enum Event {
    Claim(usize),
    /// Some of what is reserved is used, and the tick comes.
    Use(usize, u64),
    Tick,
    Settle(usize),
    /// The disk fails at this step of the next write.
    Fail(u32, bool),
    Heal,
    Kill,
    PowerLoss(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..3usize).prop_map(Event::Claim),
        6 => (0..3usize, 0..=1000u64).prop_map(|(k, part)| Event::Use(k, part)),
        6 => Just(Event::Tick),
        2 => (0..3usize).prop_map(Event::Settle),
        3 => (0..STEPS, any::<bool>()).prop_map(|(step, works)| Event::Fail(step, works)),
        2 => Just(Event::Heal),
        1 => Just(Event::Kill),
        1 => (0..4usize).prop_map(Event::PowerLoss),
    ]
}

/// Three keys in use: what each may still use, and what it has used ever.
#[derive(Default)]
struct Model {
    ranges: [Option<IdRange>; 3],
    /// Every id below was used, or was reserved and may have been.
    used_below: [u64; 3],
}

fn apply(event: &Event, fake: &Fake, store: &mut IdStore, model: &mut Model) -> Result<(), TestCaseError> {
    match *event {
        Event::Claim(k) => match (store.claim(key(k as u8), format!("peer {k}")), model.ranges[k]) {
            (Ok(range), None) => {
                prop_assert!(range.next >= model.used_below[k], "repeats: {range:?} of {k}");
                prop_assert!(range.next <= range.end && range.end <= END);
                model.ranges[k] = Some(range);
            }
            (Err(IdStoreError::Duplicate { .. }), Some(_)) | (Err(IdStoreError::Io { .. }), None) => {}
            (other, held) => prop_assert!(false, "{other:?} with {held:?}"),
        },
        Event::Use(k, part) => {
            if let Some(range) = &mut model.ranges[k] {
                range.next += (range.end - range.next) * part / 1000;
                model.used_below[k] = model.used_below[k].max(range.next);
            }
        }
        Event::Tick => {
            let held = model
                .ranges
                .iter()
                .enumerate()
                .filter_map(|(k, r)| Some((key(k as u8), (*r)?.next)));
            if let Ok(grown) = store.top_up_all(held) {
                for (k, range) in model.ranges.iter_mut().enumerate() {
                    let Some(range) = range else { continue };
                    if let Some(&(_, end)) = grown.iter().find(|(g, _)| *g == key(k as u8)) {
                        prop_assert!(end > range.end && end <= END);
                        range.end = end;
                    }
                    prop_assert!(range.end - range.next >= CHUNK / 2 || range.end == END);
                }
            }
        }
        Event::Settle(k) => {
            let next = model.ranges[k].take().map_or(1, |r| r.next);
            // Failure or not, nothing is used any more.
            let _ = store.settle([(key(k as u8), next)]);
        }
        Event::Fail(step, works) => fake.fail_in(step, works),
        Event::Heal => fake.restart(None),
        Event::Kill | Event::PowerLoss(_) => {
            fake.restart(match *event {
                Event::PowerLoss(choice) => Some(choice),
                _ => None,
            });
            *store = fake.store().map_err(|e| TestCaseError::fail(e.to_string()))?;
            model.ranges = [None; 3];
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn no_id_twice(events in proptest::collection::vec(event(), 1..120), near_the_end in any::<bool>()) {
        let fake = Fake::new();
        let mut store = fake.store().unwrap();
        let mut model = Model::default();
        if near_the_end {
            store.claim(key(0), "peer 0").unwrap();
            store.settle([(key(0), END - 3 * CHUNK)]).unwrap();
            model.used_below[0] = END - 3 * CHUNK;
        }
        for event in &events {
            apply(event, &fake, &mut store, &mut model)?;
        }
    }

    #[test]
    fn text_comes_back(marks in proptest::collection::btree_map(any::<u8>(), 1..=END, 0..20)) {
        let marks: Marks = marks.into_iter().map(|(n, mark)| (key(n), mark)).collect();
        prop_assert_eq!(image::parse(&image::format(&marks)), Ok(marks));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        // Random bytes are no state file.
        prop_assert!(image::parse(&bytes).is_err());
    }

    #[test]
    fn a_part_of_a_file_is_refused(n in 1..5u8, cut in any::<proptest::sample::Index>()) {
        let bytes = image::format(&(0..n).map(|n| (key(n), 7)).collect());
        // Without the line feed at the end it is whole.
        let cut = cut.index(bytes.len() - 1);
        prop_assert!(image::parse(&bytes[..cut]).is_err());
    }
}

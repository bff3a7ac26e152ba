//! The rules of the lookahead, 12 to 14: in which order lines are asked for and records opened.

use crate::support::*;
use nf_path::inbound::Tuning;
use nf_path::twin::HeapBuf;
use nf_path::twin::trace::{self, Event};
use nf_state::{Lookahead, Scope};

/// What was done, with buffers by their place in the burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Ask(usize),
    AskKey(u32),
    Open(u32),
}

use Did::{Ask, AskKey, Open};

/// The events of one burst of records of (peer, packet id), all of 100 bytes of inner packet.
fn events(distance: u8, scope: Scope, records: &[(u32, u32)]) -> Vec<Did> {
    let mut bed = Bed::new(Setup {
        lookahead: Lookahead { distance, scope },
        ..Setup::default()
    });
    let frames: Vec<_> = records.iter().map(|(peer, id)| buf(*peer, *id, 100)).collect();
    let ids: Vec<_> = frames.iter().map(HeapBuf::id).collect();
    let keys: Vec<(u64, u32)> = (1..=PEERS)
        .map(|peer| (bed.peer(peer).keys.by_key_id(0).unwrap().open_key().id(), peer))
        .collect();
    let (out, events) = trace::record(|| bed.push(frames));
    assert_eq!(out.delivered(), records.len());
    let did = |event: &Event| match *event {
        Event::PrefetchWrite { buffer, from, len } => {
            assert_eq!(
                (from, len),
                (14 + 20 + 8 + 24, 100),
                "the ciphertext and nothing else"
            );
            Ask(ids.iter().position(|id| *id == buffer).unwrap())
        }
        Event::PrefetchKey { key } => AskKey(keys.iter().find(|(k, _)| *k == key).unwrap().1),
        Event::Open { packet_id, len, .. } => {
            assert_eq!(len, 100);
            Open(packet_id)
        }
        Event::Seal { .. } => panic!("the inbound path seals nothing"),
    };
    events.iter().map(did).collect()
}

/// Five records of peer 1: one batch.
const ONE_FLOW: [(u32, u32); 5] = [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5)];
/// Three flows; in the order of opening: 1 1 2 2 3.
const THREE_FLOWS: [(u32, u32); 5] = [(1, 1), (2, 3), (1, 2), (2, 4), (3, 5)];

#[test]
fn rule_12_distance_two_primes_the_first_two_and_keeps_the_distance() {
    let expected = [
        Ask(0),
        AskKey(1),
        Ask(1),
        Ask(2),
        Open(1),
        Ask(3),
        Open(2),
        Ask(4),
        Open(3),
        Open(4),
        Open(5),
    ];
    assert_eq!(events(2, Scope::Burst, &ONE_FLOW), expected);
    assert_eq!(events(2, Scope::Batch, &ONE_FLOW), expected);
}

#[test]
fn rule_12_distance_one_asks_for_the_next() {
    let expected = [
        Ask(0),
        AskKey(1),
        Ask(1),
        Open(1),
        Ask(2),
        Open(2),
        Ask(3),
        Open(3),
        Ask(4),
        Open(4),
        Open(5),
    ];
    assert_eq!(events(1, Scope::Burst, &ONE_FLOW), expected);
}

#[test]
fn rule_12_a_distance_beyond_the_burst_asks_for_all_at_once() {
    let expected = [
        Ask(0),
        AskKey(1),
        Ask(1),
        Ask(2),
        Ask(3),
        Ask(4),
        Open(1),
        Open(2),
        Open(3),
        Open(4),
        Open(5),
    ];
    assert_eq!(events(8, Scope::Burst, &ONE_FLOW), expected);
    assert_eq!(events(16, Scope::Batch, &ONE_FLOW), expected);
}

#[test]
fn rule_12_distance_zero_asks_for_nothing() {
    let expected = [Open(1), Open(2), Open(3), Open(4), Open(5)];
    assert_eq!(events(0, Scope::Burst, &ONE_FLOW), expected);
    assert_eq!(events(0, Scope::Batch, &THREE_FLOWS), expected);
}

#[test]
fn rule_12_every_record_is_asked_for_once_and_before_it_is_opened() {
    let records: Vec<_> = (0..40u32).map(|i| (i % 3 + 1, i + 1)).collect();
    for distance in [1, 2, 8] {
        let events = events(distance, Scope::Burst, &records);
        for (slot, (_, id)) in records.iter().enumerate() {
            let asked: Vec<_> = (0..events.len()).filter(|i| events[*i] == Ask(slot)).collect();
            let opened = events.iter().position(|event| *event == Open(*id)).unwrap();
            assert!(
                asked.len() == 1 && asked[0] < opened,
                "record {slot} at distance {distance}"
            );
            let between = events[asked[0]..opened]
                .iter()
                .filter(|event| matches!(event, Open(_)))
                .count();
            assert!(between <= usize::from(distance));
        }
    }
}

#[test]
fn rule_13_lookahead_goes_on_across_batches() {
    let expected = [
        Ask(0),
        AskKey(1),
        Ask(2),
        Ask(1),
        AskKey(2),
        Open(1),
        Ask(3),
        Open(2),
        Ask(4),
        AskKey(3),
        Open(3),
        Open(4),
        Open(5),
    ];
    assert_eq!(events(2, Scope::Burst, &THREE_FLOWS), expected);
}

#[test]
fn rule_13_scope_batch_stays_in_the_batch() {
    let expected = [
        Ask(0),
        AskKey(1),
        Ask(2),
        Open(1),
        Open(2),
        Ask(1),
        AskKey(2),
        Ask(3),
        Open(3),
        Open(4),
        Open(5),
    ];
    assert_eq!(
        events(2, Scope::Batch, &THREE_FLOWS),
        expected,
        "and the lone record asks for nothing"
    );
}

#[test]
fn rule_13_a_lone_record_asks_for_nothing() {
    for scope in [Scope::Burst, Scope::Batch] {
        assert_eq!(events(2, scope, &[(1, 9)]), [Open(9)]);
    }
}

#[test]
fn rule_13_what_is_dropped_before_is_not_asked_for() {
    let mut bed = Bed::default();
    let short = HeapBuf::new(&outer(2).payload(&record_of(2, 0, 1, b"")[..23]).build());
    let unknown = HeapBuf::new(&outer(3).payload(&record_of(99, 0, 1, b"x")).build());
    let (_, events) = trace::record(|| bed.push([short, buf(1, 1, 100), unknown, control(4)]));
    assert!(
        matches!(events[..], [Event::Open { packet_id: 1, .. }]),
        "{events:?}"
    );
}

#[test]
fn rule_13_the_lookahead_is_changed_between_bursts() {
    let mut bed = Bed::default();
    let lookahead = Lookahead {
        distance: 0,
        scope: Scope::Batch,
    };
    bed.inbound().tune(Tuning {
        batch: true,
        lookahead,
    });
    let (_, events) = trace::record(|| bed.push([buf(1, 1, 100), buf(1, 2, 100)]));
    assert!(matches!(events[..], [Event::Open { .. }, Event::Open { .. }]));
}

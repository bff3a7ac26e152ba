//! The rules of the lookahead, 12 to 14: in which order lines are asked for and records opened.

use crate::support::*;
use nf_path::twin::HeapBuf;
use nf_path::twin::trace::{self, Event};
use nf_state::{Lookahead, Scope};
use proptest::prelude::*;

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
    let mut bed = Bed::new(Setup { lookahead: Lookahead { distance, scope }, ..Setup::default() });
    let frames: Vec<_> = records.iter().map(|(peer, id)| buf(*peer, *id, 100)).collect();
    let ids: Vec<_> = frames.iter().map(HeapBuf::id).collect();
    let keys: Vec<(u64, u32)> = (1..=PEERS)
        .map(|peer| (bed.peer(peer).keys.by_key_id(0).unwrap().open_key().id(), peer))
        .collect();
    let (out, events) = trace::record(|| bed.push(frames));
    assert_eq!(out.delivered(), records.len());
    let did = |event: &Event| match *event {
        Event::PrefetchWrite { buffer, from, len } => {
            assert_eq!((from, len), (14 + 20 + 8 + 24, 100), "the ciphertext and nothing else");
            Ask(ids.iter().position(|id| *id == buffer).unwrap())
        }
        Event::PrefetchKey { key } => AskKey(keys.iter().find(|(k, _)| *k == key).unwrap().1),
        Event::Open { packet_id, len, .. } => {
            assert_eq!(len, 100);
            Open(packet_id)
        }
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
    let expected = [Ask(0), AskKey(1), Ask(1), Open(1), Ask(2), Open(2), Ask(3), Open(3), Ask(4), Open(4), Open(5)];
    assert_eq!(events(1, Scope::Burst, &ONE_FLOW), expected);
}

#[test]
fn rule_12_a_distance_beyond_the_burst_asks_for_all_at_once() {
    let expected =
        [Ask(0), AskKey(1), Ask(1), Ask(2), Ask(3), Ask(4), Open(1), Open(2), Open(3), Open(4), Open(5)];
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
            assert!(asked.len() == 1 && asked[0] < opened, "record {slot} at distance {distance}");
            let between = events[asked[0]..opened].iter().filter(|event| matches!(event, Open(_))).count();
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
    assert_eq!(events(2, Scope::Batch, &THREE_FLOWS), expected, "and the lone record asks for nothing");
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
    assert!(matches!(events[..], [Event::Open { packet_id: 1, .. }]), "{events:?}");
}

#[test]
fn rule_13_the_lookahead_is_changed_between_bursts() {
    let mut bed = Bed::default();
    let lookahead = Lookahead { distance: 0, scope: Scope::Batch };
    bed.inbound().set_lookahead(lookahead);
    assert_eq!(bed.inbound().lookahead(), lookahead);
    let (_, events) = trace::record(|| bed.push([buf(1, 1, 100), buf(1, 2, 100)]));
    assert!(matches!(events[..], [Event::Open { .. }, Event::Open { .. }]));
}

/// One frame of a random burst.
#[derive(Clone, Debug)]
enum Any {
    Record { peer: u32, key_id: u8, id: u32, len: usize, flip: Option<usize> },
    Short { peer: u32, len: usize },
    Control { peer: u32 },
    Shared { peer: u32, id: u32 },
    Scattered { peer: u32, id: u32, cut: usize },
}

impl Any {
    fn build(&self) -> HeapBuf {
        match *self {
            Any::Record { peer, key_id, id, len, flip } => {
                let mut payload = record_of(peer, key_id, id, &inner(peer, len, id));
                if let Some(at) = flip {
                    let at = at % (payload.len() - 4) + 4;
                    payload[at] ^= 0x40;
                }
                HeapBuf::new(&outer(peer).payload(&payload).build())
            }
            Any::Short { peer, len } => {
                HeapBuf::new(&outer(peer).payload(&record_of(peer, 0, 1, b"")[..len]).build())
            }
            Any::Control { peer } => control(peer),
            Any::Shared { peer, id } => buf(peer, id, 100).shared(),
            Any::Scattered { peer, id, cut } => {
                let bytes = frame(peer, id, 100);
                HeapBuf::from_segments(&[&bytes[..cut], &bytes[cut..]])
            }
        }
    }
}

fn any() -> impl Strategy<Value = Any> {
    let record = (1..4u32, 0..3u8, 0..60u32, 0..4usize, proptest::option::weighted(0.1, any::<usize>()));
    prop_oneof![
        12 => record.prop_map(|(peer, key_id, id, len, flip)| {
            Any::Record { peer, key_id, id, len: [60, 100, 100, 200][len], flip }
        }),
        1 => (1..4u32, 0..24usize).prop_map(|(peer, len)| Any::Short { peer, len }),
        1 => (1..4u32).prop_map(|peer| Any::Control { peer }),
        1 => (1..4u32, 1..60u32).prop_map(|(peer, id)| Any::Shared { peer, id }),
        1 => (1..4u32, 1..60u32, 1..166usize).prop_map(|(peer, id, cut)| Any::Scattered { peer, id, cut }),
    ]
}

/// What must not depend on the tuning: per peer, what was delivered in which order; the host's frames; counters.
fn outcome(setup: Setup, bursts: &[Vec<Any>]) -> (Vec<Out>, Vec<u64>, Vec<[u64; 6]>) {
    let mut bed = Bed::new(setup);
    let outs = bursts.iter().map(|burst| {
        let mut out = bed.at(1).push(burst.iter().map(Any::build));
        out.tunnels[0].sort_by_key(|got| got.inner().0);
        out
    });
    let outs = outs.collect();
    let totals = bed.totals();
    let counts = totals.named().map(|(_, n)| n).chain(totals.drops).collect();
    (outs, counts, (1..4).map(|peer| bed.peer_counters(peer)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn rule_14_no_distance_scope_or_batching_changes_a_result(
        bursts in proptest::collection::vec(proptest::collection::vec(any(), 0..64), 1..4)
    ) {
        let plain = outcome(
            Setup { batch: false, lookahead: Lookahead { distance: 0, scope: Scope::Burst }, sources: None },
            &bursts,
        );
        for batch in [false, true] {
            for (distance, scope) in
                [(0, Scope::Burst), (1, Scope::Burst), (2, Scope::Batch), (2, Scope::Burst), (8, Scope::Batch), (16, Scope::Burst)]
            {
                let setup = Setup { batch, lookahead: Lookahead { distance, scope }, sources: None };
                prop_assert_eq!(&outcome(setup, &bursts), &plain, "{} {} {:?}", batch, distance, scope);
            }
        }
    }
}

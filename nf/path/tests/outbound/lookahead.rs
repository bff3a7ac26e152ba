//! The lookahead: in which order lines are asked for and packets sealed; and that it changes no result.

use crate::bed::*;
use crate::peers::*;
use nf_path::inbound::Tuning;
use nf_path::outbound::Lcores;
use nf_path::twin::HeapBuf;
use nf_path::twin::trace::{self, Event};
use nf_state::{Lookahead, Scope, Slot};
use proptest::prelude::*;

/// What was done, with buffers by their place in the burst and keys by their peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Ask(usize),
    AskKey(u32),
    Seal(u32, u32),
}

use Did::{Ask, AskKey, Seal};

/// The events of a burst of packets of 100 bytes to these peers.
fn events(distance: u8, scope: Scope, peers: &[u32]) -> Vec<Did> {
    let lookahead = Lookahead { distance, scope };
    let mut bed = Bed::new(Setup {
        lookahead,
        ..Setup::default()
    });
    let frames: Vec<_> = peers.iter().map(|peer| buf(*peer, 100, 0)).collect();
    let buffers: Vec<_> = frames.iter().map(HeapBuf::id).collect();
    let keys: Vec<_> = (1..=PEERS)
        .map(|peer| {
            (
                bed.peer(peer).keys.get(Slot::Primary).unwrap().seal_key().id(),
                peer,
            )
        })
        .collect();
    let peer_of = |key| keys.iter().find(|(id, _)| *id == key).unwrap().1;
    let (sent, events) = trace::record(|| bed.push(frames));
    assert_eq!(sent.nic.len(), peers.len());
    let did = |event: &Event| match *event {
        Event::PrefetchWrite { buffer, from, len } => {
            let slot = buffers.iter().position(|id| *id == buffer).unwrap();
            assert_eq!(
                (from, len),
                (0, sent.nic[slot].frame.len()),
                "all of the frame, headers too"
            );
            Ask(slot)
        }
        Event::PrefetchKey { key } => AskKey(peer_of(key)),
        Event::Seal { key, packet_id, len } => {
            assert_eq!(len, 100);
            Seal(peer_of(key), packet_id)
        }
        Event::Open { .. } => panic!("nothing is opened"),
    };
    events.iter().map(did).collect()
}

#[test]
fn distance_two_primes_the_first_two_and_goes_on_across_runs() {
    let expected = [
        AskKey(1),
        Ask(0),
        Ask(1),
        AskKey(2),
        Ask(2),
        Seal(1, 1),
        Ask(3),
        Seal(1, 2),
        AskKey(3),
        Ask(4),
        Seal(2, 1),
        Seal(2, 2),
        Seal(3, 1),
    ];
    assert_eq!(events(2, Scope::Burst, &[1, 1, 2, 2, 3]), expected);
}

#[test]
fn scope_batch_stays_in_the_run() {
    let expected = [
        AskKey(1),
        Ask(0),
        Ask(1),
        Ask(2),
        Seal(1, 1),
        Seal(1, 2),
        Seal(1, 3),
        Seal(2, 1),
        AskKey(3),
        Ask(4),
        Ask(5),
        Seal(3, 1),
        Seal(3, 2),
    ];
    assert_eq!(
        events(2, Scope::Batch, &[1, 1, 1, 2, 3, 3]),
        expected,
        "a lone packet asks for nothing"
    );
}

#[test]
fn distance_zero_and_a_lone_packet_ask_for_nothing() {
    assert_eq!(events(0, Scope::Burst, &[1, 2]), [Seal(1, 1), Seal(2, 1)]);
    assert_eq!(events(2, Scope::Burst, &[1]), [Seal(1, 1)]);
}

#[test]
fn every_packet_is_asked_for_once_at_the_distance() {
    let peers: Vec<_> = (0..60u32).map(|i| i / 3 % 3 + 1).collect();
    for distance in [1, 2, 8, 16] {
        let events = events(distance, Scope::Burst, &peers);
        let seals: Vec<_> = (0..events.len())
            .filter(|i| matches!(events[*i], Seal(..)))
            .collect();
        for slot in 0..peers.len() {
            let asked: Vec<_> = (0..events.len()).filter(|i| events[*i] == Ask(slot)).collect();
            assert_eq!(asked.len(), 1);
            let sealed = seals[slot];
            assert!(asked[0] < sealed);
            let between = seals.iter().filter(|i| (asked[0]..sealed).contains(*i)).count();
            assert_eq!(
                between,
                slot.min(usize::from(distance)),
                "packet {slot} at distance {distance}"
            );
        }
    }
}

#[test]
fn it_is_changed_between_bursts() {
    let mut bed = Bed::default();
    let lookahead = Lookahead {
        distance: 0,
        scope: Scope::Burst,
    };
    bed.outbound().tune(Tuning {
        batch: true,
        lookahead,
    });
    let (_, events) = trace::record(|| bed.push([buf(1, 100, 0), buf(1, 100, 1)]));
    assert!(
        matches!(events[..], [Event::Seal { .. }, Event::Seal { .. }]),
        "{events:?}"
    );
}

/// A frame of a random burst.
#[derive(Clone, Debug)]
struct Any {
    peer: u32,
    len: usize,
    kind: u8,
}

impl Any {
    fn build(&self) -> HeapBuf {
        let bytes = framed(
            nf_wire::ether::peer_mac(self.peer),
            &packet(self.peer, self.len, 7),
        );
        match self.kind {
            0 => HeapBuf::new(&bytes[..bytes.len() - 1]),
            1 => HeapBuf::new(&bytes).shared(),
            2 => HeapBuf::from_segments(&[&bytes[..30], &bytes[30..]]),
            3 => HeapBuf::new(&[&bytes[..], &[0; 9]].concat()),
            4 => HeapBuf::sized(&bytes, 20, 4096),
            _ => HeapBuf::new(&bytes),
        }
    }
}

fn any() -> impl Strategy<Value = Any> {
    let peer = prop_oneof![8 => 1..=PEERS, 1 => NO_REMOTE..=NO_IDS, 1 => Just(77u32)];
    (peer, 40..1700usize, 0..12u8).prop_map(|(peer, len, kind)| Any { peer, len, kind })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_distance_or_scope_changes_a_result(
        bursts in proptest::collection::vec(proptest::collection::vec(any(), 0..100), 1..3),
        count in 1..3u8, spread in proptest::bool::ANY, mtu in prop_oneof![Just(1500), Just(9000)],
    ) {
        let run = |distance, scope| {
            let mut bed = Bed::new(Setup {
                lookahead: Lookahead { distance, scope }, lcores: Lcores { me: 0, count }, spread, mtu, ..Setup::default()
            });
            let sent: Vec<_> = bursts.iter().map(|burst| bed.push(burst.iter().map(Any::build))).collect();
            (sent, bed.totals(), (1..=PEERS).map(|p| bed.peer_counters(p)).collect::<Vec<_>>())
        };
        let plain = run(0, Scope::Burst);
        for (distance, scope) in [(1, Scope::Burst), (2, Scope::Batch), (2, Scope::Burst), (16, Scope::Burst)] {
            prop_assert_eq!(&run(distance, scope), &plain, "{} {:?}", distance, scope);
        }
    }
}

//! No lookahead and no batching changes a result.

use crate::support::*;
use nf_path::twin::HeapBuf;
use nf_state::{Lookahead, Scope};
use proptest::prelude::*;

/// One frame of a random burst.
#[derive(Clone, Debug)]
enum Any {
    Record {
        peer: u32,
        key_id: u8,
        id: u32,
        len: usize,
        flip: Option<usize>,
    },
    Short {
        peer: u32,
        len: usize,
    },
    Control {
        peer: u32,
    },
    Shared {
        peer: u32,
        id: u32,
    },
    Scattered {
        peer: u32,
        id: u32,
        cut: usize,
    },
}

impl Any {
    fn build(&self) -> HeapBuf {
        match *self {
            Any::Record {
                peer,
                key_id,
                id,
                len,
                flip,
            } => {
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

fn frames() -> impl Strategy<Value = Any> {
    let record = (
        1..4u32,
        0..3u8,
        0..60u32,
        0..4usize,
        proptest::option::weighted(0.1, any::<usize>()),
    );
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
    let counts = totals
        .named()
        .map(|(_, n)| n)
        .chain(totals.drops.iter().copied())
        .collect();
    (outs, counts, (1..4).map(|peer| bed.peer_counters(peer)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn rule_14_no_distance_scope_or_batching_changes_a_result(
        bursts in proptest::collection::vec(proptest::collection::vec(frames(), 0..64), 1..4)
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

//! The inbound path by itself with `rte_ip_frag` under it and a clock that the test sets.

use std::sync::Arc;

use lcore::reassembly::IpFrag;
use lcore::{Eal, Imb, Mbuf, Mempool};
use nf_path::burst::{Frames, Now, Outputs};
use nf_path::context::Context;
use nf_path::counters::{Counters, Totals};
use nf_path::inbound::Inbound;
use nf_path::twin::craft::{fragment_v4, fragment_v6};
use nf_path::verdict::DropReason;
use nf_state::Millis;

use super::{HOST_MTU, LARGE_ROOM, buffer, bytes, inner, outer, outer_v6, record_of};

/// The path with its books: every frame has one end, and every buffer comes back.
pub struct Bed {
    /// The path under test.
    pub path: Inbound<Mbuf, IpFrag>,
    context: Context<Imb>,
    /// What it counts.
    pub counters: Arc<Counters>,
    /// Ordinary buffers.
    pub small: Arc<Mempool>,
    /// Large buffers.
    pub large: Arc<Mempool>,
    /// TSC cycles in a millisecond.
    pub cycles_per_ms: u64,
    /// The time.
    pub millis: u64,
}

/// What one burst gave.
#[derive(Debug, Default)]
pub struct Out {
    /// From the tunnel port.
    pub tunnel: Vec<Vec<u8>>,
    /// For the host port.
    pub host: Vec<Vec<u8>>,
}

impl Bed {
    /// A path with `large` large buffers.
    pub fn new(eal: &Eal, name: &str, large: u32) -> Bed {
        let pool = |what: &str, count, room| Mempool::new(eal, &format!("{name}_{what}"), count, 0, room, -1);
        let small = pool("small", 16_383, 2176).expect("a pool");
        let large = pool("large", large, LARGE_ROOM).expect("a pool");
        let fragments = IpFrag::new(eal, large.clone(), small.clone(), HOST_MTU).expect("a table");
        let counters = Arc::new(Counters::default());
        let (path, context) = super::path(fragments, counters.clone());
        // The table takes an entry whose time is 0 for a free one, so the clock does not begin there.
        Bed {
            path,
            context,
            counters,
            small,
            large,
            cycles_per_ms: eal.tsc_hz() / 1000,
            millis: 10_000,
        }
    }

    /// The time, as the path is told it.
    pub fn now(&self) -> Now {
        Now {
            millis: Millis(self.millis),
            cycles: self.millis * self.cycles_per_ms,
        }
    }

    /// One burst through the path.
    pub fn push<F: AsRef<[u8]>>(&mut self, frames: impl IntoIterator<Item = F>) -> Out {
        let mut rx: Frames<Mbuf> = frames
            .into_iter()
            .map(|f| buffer(&self.small, f.as_ref()))
            .collect();
        let (now, mut out) = (self.now(), Outputs::new(1));
        self.path.process(&mut self.context, &mut rx, now, &mut out);
        assert!(rx.is_empty());
        let tunnel = out.tunnels[0].iter().map(bytes).collect();
        Out {
            tunnel,
            host: out.host.iter().map(bytes).collect(),
        }
    }

    /// Gives up what is too old.
    pub fn expire(&mut self) {
        self.path.expire_fragments(self.now());
    }

    /// What was counted.
    pub fn totals(&self) -> Totals {
        self.counters.totals()
    }

    /// The drops that were counted.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        self.totals().nonzero_drops().collect()
    }

    /// Buffers that wait in reassembly.
    pub fn waiting(&self) -> u32 {
        self.small.capacity() - self.small.available()
    }

    /// Ends the path; both pools must be as full as at the start.
    pub fn finish(self) {
        let Bed {
            path, small, large, ..
        } = self;
        drop(path);
        for pool in [small, large] {
            assert_eq!(
                pool.available(),
                pool.capacity(),
                "{}: as full as at the start",
                pool.name()
            );
        }
    }
}

/// A datagram of peer 1 with the record `id`, in pieces of at most `mtu` bytes.
pub fn pieces(v6: bool, id: u32, len: usize, mtu: usize) -> Vec<Vec<u8>> {
    let record = record_of(1, id, &inner(len, id));
    if v6 {
        fragment_v6(&outer_v6(1).payload(&record).build(), mtu, id)
    } else {
        fragment_v4(&outer(1, id).payload(&record).build(), mtu)
    }
}

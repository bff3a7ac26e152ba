//! A bed for the inbound path: real records, heap buffers, reassembly on the heap.
//!
//! A [`Bed`] checks its books when it goes: every frame that went in was delivered, sent to the host, dropped and
//! counted, consumed as a keepalive, or waits in reassembly; and no buffer is left.

mod fragments;
pub mod layer4;
mod out;
mod peers;

pub use fragments::{LARGE_LEN, Ledger, TwinFragments};
pub use out::{Got, Out};
pub use peers::*;

use nf_path::burst::{Frames, MAX_BURST, Now, Outputs};
use nf_path::context::Context;
use nf_path::counters::{Counters, Histogram, Totals};
use nf_path::inbound::classify::Listeners;
use nf_path::inbound::{Inbound, Tuning};
use nf_path::tunnel::Tunnel;
use nf_path::twin::{HeapBuf, SoftAead, SoftKey};
use nf_path::verdict::DropReason;
use nf_state::{Event, Lookahead, Millis, Peer, Routes, Scope};
use std::rc::Rc;
use std::sync::Arc;

/// How a bed is made.
pub struct Setup {
    /// Whether records are batched.
    pub batch: bool,
    /// How far ahead records are asked for.
    pub lookahead: Lookahead,
    /// The source check of both tunnels.
    pub sources: Option<Routes>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            batch: true,
            lookahead: Lookahead {
                distance: 2,
                scope: Scope::Burst,
            },
            sources: None,
        }
    }
}

/// The path under test with its books.
pub struct Bed {
    inbound: Option<Inbound<HeapBuf, TwinFragments>>,
    context: Context<SoftAead>,
    /// Counters of the lcore.
    pub counters: Arc<Counters>,
    /// What reassembly did, and how many large buffers it has.
    pub ledger: Rc<Ledger>,
    now: Now,
    live: usize,
    frames: u64,
    outcome: u64,
}

impl Default for Bed {
    fn default() -> Self {
        Bed::new(Setup::default())
    }
}

impl Bed {
    /// A bed with two tunnels of [`PEERS`] peers each.
    pub fn new(setup: Setup) -> Self {
        let live = HeapBuf::live();
        let mut listeners = Listeners::default();
        for (address, tunnel) in [
            (LISTEN_V4, 0),
            (LISTEN_PORT, 0),
            (LISTEN_V6, 0),
            (LISTEN_OTHER, 1),
            (LISTEN_OTHER_V6, 1),
        ] {
            assert!(listeners.add(address.parse().unwrap(), tunnel));
        }
        let tunnel = || {
            let mut tunnel = Tunnel::new(INTERFACE);
            tunnel.peers = peers();
            tunnel.source_check = setup.sources.is_some();
            tunnel.routes = setup.sources.clone().unwrap_or_default();
            tunnel
        };
        let counters = Arc::new(Counters::default());
        let ledger = Rc::new(Ledger::default());
        let inbound = Inbound::new(
            listeners,
            Tuning {
                batch: setup.batch,
                lookahead: setup.lookahead,
            },
            TwinFragments::new(ledger.clone()),
            counters.clone(),
        );
        let context = Context::new(vec![tunnel(), tunnel()], SoftAead::new(), counters.clone());
        let (inbound, now) = (Some(inbound), Now::default());
        Bed {
            inbound,
            context,
            counters,
            ledger,
            now,
            live,
            frames: 0,
            outcome: 0,
        }
    }

    /// The same bed, where `count` frames to be pushed had been made before it.
    pub fn after(mut self, count: usize) -> Self {
        self.live -= count;
        self
    }

    /// The path.
    pub fn inbound(&mut self) -> &mut Inbound<HeapBuf, TwinFragments> {
        self.inbound.as_mut().expect("there until the bed goes")
    }

    /// What both directions share: tunnels, AEAD, events.
    pub fn context(&mut self) -> &mut Context<SoftAead> {
        &mut self.context
    }

    /// Tunnel 0.
    pub fn tunnel(&mut self) -> &mut Tunnel<SoftKey> {
        &mut self.context.tunnels[0]
    }

    /// The events that wait, which are taken.
    pub fn events(&mut self) -> Vec<(u8, Event)> {
        self.context.events.take().into_iter().collect()
    }

    /// Sets the clock, in milliseconds.
    pub fn at(&mut self, millis: u64) -> &mut Self {
        self.now = Now {
            millis: Millis(millis),
            cycles: millis * fragments::CYCLES_PER_MILLI,
        };
        self
    }

    /// One burst through the path.
    pub fn push(&mut self, frames: impl IntoIterator<Item = HeapBuf>) -> Out {
        let mut out = Outputs::new(2);
        self.push_into(frames, &mut out);
        let got = |frames: Frames<HeapBuf>| frames.into_iter().map(Got::from).collect();
        Out {
            tunnels: out.tunnels.into_iter().map(got).collect(),
            host: got(out.host),
        }
    }

    /// As [`Bed::push`], with outputs that may hold frames already.
    pub fn push_into(&mut self, frames: impl IntoIterator<Item = HeapBuf>, out: &mut Outputs<HeapBuf>) {
        let held =
            |out: &Outputs<HeapBuf>| out.tunnels.iter().map(Frames::len).sum::<usize>() + out.host.len();
        let mut rx: Frames<HeapBuf> = frames.into_iter().collect();
        self.frames += rx.len() as u64;
        let (before, now) = (held(out), self.now);
        let inbound = self.inbound.as_mut().expect("there until the bed goes");
        inbound.process(&mut self.context, &mut rx, now, out);
        assert!(rx.is_empty(), "the path takes all frames");
        self.outcome += (held(out) - before) as u64;
    }

    /// Any number of frames in full bursts; gives the numbers delivered to tunnel 0.
    pub fn stream(&mut self, frames: impl IntoIterator<Item = HeapBuf>) -> Vec<u32> {
        let mut frames = frames.into_iter().peekable();
        let mut numbers = Vec::new();
        while frames.peek().is_some() {
            let burst: Vec<_> = frames.by_ref().take(MAX_BURST).collect();
            numbers.extend(self.push(burst).numbers());
        }
        numbers
    }

    /// Gives up fragments that are too old.
    pub fn expire(&mut self) {
        let now = self.now;
        self.inbound().expire_fragments(now);
    }

    /// The counters' values.
    pub fn totals(&self) -> Totals {
        self.counters.totals()
    }

    /// The drops that were counted.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        self.totals().nonzero_drops().collect()
    }

    /// How many batches there were in the size bucket of `size`.
    pub fn batches(&self, size: usize) -> u64 {
        self.counters.batches.get()[Histogram::bucket(size)]
    }

    /// A peer of tunnel 0.
    pub fn peer(&mut self, id: u32) -> &mut Peer<SoftKey> {
        self.context.tunnels[0]
            .peers
            .get_mut(id)
            .expect("a peer of the bed")
    }

    /// Link packets and bytes, VPN packets and bytes, keepalives, last heard, of a peer of tunnel 0.
    pub fn peer_counters(&mut self, id: u32) -> [u64; 6] {
        let c = &self.peer(id).counters;
        [
            &c.link_rx_packets,
            &c.link_rx_bytes,
            &c.vpn_rx_packets,
            &c.vpn_rx_bytes,
            &c.keepalives_rx,
            &c.last_recv_ms,
        ]
        .map(|counter| counter.get())
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let totals = self.totals();
        assert_eq!(totals.nic_rx, self.frames, "frames counted as received");
        let dropped: u64 = totals.drops.iter().sum();
        let ends =
            self.outcome + dropped + totals.keepalives + self.ledger.pending() + self.ledger.absorbed();
        assert_eq!(
            self.frames + self.ledger.made(),
            ends,
            "every frame has one end: {totals:?}"
        );
        self.inbound = None;
        assert_eq!(HeapBuf::live(), self.live, "buffers that live on");
    }
}

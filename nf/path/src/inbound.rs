//! From the NIC to the tunnel port. The stages, in order:
//!
//! 1. [`parse`]: headers, once
//! 2. [`classify`]: ours, the host's, a fragment, or no good
//! 3. [`batch`]: records of one flow that agree
//!    (a record that goes on with a run takes stages 1 to 3 in one step: `follow`)
//! 4. [`lookup`]: peer and key, once for each batch
//! 5. [`replay::check`]: is the packet id new?
//! 6. [`open`]: the AEAD, with [`crate::lookahead`] over the burst
//! 7. [`replay::commit`]: now it is known
//! 8. [`inner`]: keepalive, IP, source check, MSS clamp
//! 9. [`deliver`]: an Ethernet header in front
//! 10. `float`, once for each batch: the endpoint follows its peer
//!
//! Stages 5 to 10 go record by record (`consume`). What is not ours leaves for the host port as it came (`host`), but for the
//! daemon's datagrams of peers that have floated without its knowing (`daemon`).

pub mod batch;
pub mod classify;
mod consume;
mod daemon;
pub mod deliver;
mod facts;
mod float;
mod follow;
mod host;
pub mod inner;
pub mod lookup;
pub mod open;
pub mod parse;
pub mod replay;
mod sort;

use crate::aead::Aead;
use crate::buf::Buf;
use crate::burst::{Frames, MAX_BURST, Now, Outputs};
use crate::context::Context;
use crate::counters::Counters;
use crate::fragments::Fragments;
use crate::lookahead::Ahead;
use crate::translate::Translations;
use crate::verdict::DropReason;
use arrayvec::ArrayVec;
use batch::{Builder, Facts};
use classify::Listeners;
use consume::Opener;
use core::marker::PhantomData;
use lookup::Opening;
use nf_state::Lookahead;
use std::sync::Arc;

/// How one lcore runs the path; changed between bursts only.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Whether records are batched.
    pub batch: bool,
    /// How far ahead records are asked for.
    pub lookahead: Lookahead,
}

/// The inbound path of one lcore.
pub struct Inbound<B: Buf, F> {
    slots: Box<[Option<B>; MAX_BURST]>,
    facts: Box<[Facts]>,
    builder: Box<Builder>,
    listeners: Listeners,
    lookahead: Lookahead,
    fragments: F,
    /// The longest frame that the host port takes, in bytes.
    host_longest: usize,
    translations: Translations,
    /// Events that wait for room in [`Context::events`].
    told: float::Events,
    counters: Arc<Counters>,
}

impl<B: Buf, F: Fragments<B>> Inbound<B, F> {
    /// The path with its own reassembly. `listeners` name tunnels by their index in [`Context::tunnels`]; `counters`
    /// are the context's.
    pub fn new(listeners: Listeners, tuning: Tuning, fragments: F, counters: Arc<Counters>) -> Self {
        Inbound {
            slots: Box::new([const { None }; MAX_BURST]),
            facts: vec![Facts::VOID; MAX_BURST].into_boxed_slice(),
            builder: Box::new(Builder::new(tuning.batch)),
            listeners,
            lookahead: tuning.lookahead,
            fragments,
            host_longest: usize::MAX,
            translations: Translations::default(),
            told: float::Events::new(),
            counters,
        }
    }

    /// The longest frame that the host port takes, in bytes from the Ethernet header on: longer IPv4 packets for it are
    /// fragmented. Without this call none are.
    pub fn cut_for_host(&mut self, longest: usize) {
        self.host_longest = longest;
    }

    /// Takes all frames of `rx` through the path. When it returns, `rx` is empty and every frame is in `out`, waits
    /// in reassembly, or was freed and counted.
    pub fn process<A: Aead>(
        &mut self,
        context: &mut Context<A>,
        rx: &mut Frames<B>,
        now: Now,
        out: &mut Outputs<B>,
    ) {
        self.sort(rx, now, out);
        if !self.told.is_empty() {
            self.tell(&mut context.events);
        }
        if self.builder.batches().is_empty() {
            return;
        }
        let Context {
            tunnels,
            aead,
            events,
            last_heard,
            ..
        } = context;
        let mut opening = Opening {
            order: ArrayVec::new_const(),
            batches: ArrayVec::new_const(),
        };
        lookup::lookup(
            &mut opening,
            &self.builder,
            &self.facts,
            &mut self.slots[..],
            tunnels,
            &self.counters,
        );
        let mut opener = Opener {
            ahead: Ahead {
                opening: &opening,
                lookahead: self.lookahead,
                buffers: PhantomData,
            },
            slots: &mut self.slots[..],
            facts: &self.facts,
            tunnels,
            aead,
            counters: &self.counters,
            events,
            last_heard: *last_heard,
            now,
        };
        opener.open_all(&opening, out);
        self.builder.clear();
    }

    /// Gives up datagrams whose fragments did not come in time. To be called now and then, also without traffic.
    pub fn expire_fragments(&mut self, now: Now) {
        let lost = self.fragments.expire(now);
        if lost > 0 {
            self.counters.count(DropReason::FragmentTimeout, u64::from(lost));
        }
    }

    /// Listens elsewhere from the next burst on, and gives what was in force before. Batches end with their burst, so
    /// none is open when the consumer changes.
    pub fn listen(&mut self, mut listeners: Box<Listeners>) -> Box<Listeners> {
        core::mem::swap(&mut self.listeners, &mut listeners);
        listeners
    }

    /// Changes batching and lookahead. Between bursts only, so that no packet is in mid-batch.
    pub fn tune(&mut self, tuning: Tuning) {
        self.builder.enable(tuning.batch);
        self.lookahead = tuning.lookahead;
    }
}

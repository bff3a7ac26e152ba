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
//! 8. [`inner`]: keepalive, IP, source check
//! 9. [`deliver`]: an Ethernet header in front

pub mod batch;
pub mod classify;
pub mod deliver;
mod facts;
mod follow;
pub mod inner;
pub mod lookup;
pub mod open;
pub mod parse;
pub mod replay;
mod sort;

use crate::aead::Aead;
use crate::buf::Buf;
use crate::burst::{Frames, MAX_BURST, Now, Outputs};
use crate::counters::Counters;
use crate::fragments::Fragments;
use crate::lookahead::Ahead;
use crate::verdict::DropReason;
use arrayvec::ArrayVec;
use batch::{Builder, Facts};
use classify::Listeners;
use core::marker::PhantomData;
use deliver::Macs;
use inner::Inner;
use lookup::{Found, Opening, Ordered};
use nf_state::{Lookahead, PeerTable, ReplayWindow, Routes};
use nf_wire::ether::Mac;
use nf_wire::record::OVERHEAD;
use open::Sealed;
use std::sync::Arc;

/// One tunnel as one lcore sees it.
pub struct Tunnel<K> {
    /// Its peers.
    pub peers: PeerTable<K>,
    /// Whose inner sources are whose; None: no source check.
    pub sources: Option<Routes>,
    /// The MAC address of the tunnel interface.
    pub interface: Mac,
}

/// How one lcore runs the path; changed between bursts only.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Whether records are batched.
    pub batch: bool,
    /// How far ahead records are asked for.
    pub lookahead: Lookahead,
}

/// The inbound path of one lcore.
pub struct Inbound<B: Buf, A: Aead, F> {
    slots: Box<[Option<B>; MAX_BURST]>,
    facts: Box<[Facts]>,
    builder: Box<Builder>,
    listeners: Listeners,
    tunnels: Vec<Tunnel<A::Key>>,
    lookahead: Lookahead,
    aead: A,
    fragments: F,
    counters: Arc<Counters>,
}

impl<B: Buf, A: Aead, F: Fragments<B>> Inbound<B, A, F> {
    /// The path with its own tables, AEAD and reassembly. `listeners` name tunnels by their index in `tunnels`.
    pub fn new(
        listeners: Listeners,
        tunnels: Vec<Tunnel<A::Key>>,
        tuning: Tuning,
        aead: A,
        fragments: F,
        counters: Arc<Counters>,
    ) -> Self {
        Inbound {
            slots: Box::new([const { None }; MAX_BURST]),
            facts: vec![Facts::VOID; MAX_BURST].into_boxed_slice(),
            builder: Box::new(Builder::new(tuning.batch)),
            listeners,
            tunnels,
            lookahead: tuning.lookahead,
            aead,
            fragments,
            counters,
        }
    }

    /// Takes all frames of `rx` through the path. When it returns, `rx` is empty and every frame is in `out`, waits
    /// in reassembly, or was freed and counted.
    pub fn process(&mut self, rx: &mut Frames<B>, now: Now, out: &mut Outputs<B>) {
        self.sort(rx, now, out);
        if self.builder.batches().is_empty() {
            return;
        }
        let mut opening = Opening {
            order: ArrayVec::new_const(),
            batches: ArrayVec::new_const(),
        };
        lookup::lookup(
            &mut opening,
            &self.builder,
            &self.facts,
            &mut self.slots[..],
            &self.tunnels,
            &self.counters,
        );
        let mut opener = Opener {
            ahead: Ahead {
                opening: &opening,
                lookahead: self.lookahead,
                buffers: PhantomData,
            },
            slots: &mut self.slots[..],
            tunnels: &self.tunnels,
            aead: &mut self.aead,
            counters: &self.counters,
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

    /// The tunnels, to apply updates to. Between bursts only, which `&mut` ensures.
    pub fn tunnels_mut(&mut self) -> &mut [Tunnel<A::Key>] {
        &mut self.tunnels
    }

    /// Changes batching and lookahead. Between bursts only, so that no packet is in mid-batch.
    pub fn tune(&mut self, tuning: Tuning) {
        self.builder.enable(tuning.batch);
        self.lookahead = tuning.lookahead;
    }
}

/// Stages 5 to 9 over one burst.
struct Opener<'a, 't, B, A: Aead> {
    ahead: Ahead<'a, B, A::Key>,
    slots: &'a mut [Option<B>],
    tunnels: &'t [Tunnel<A::Key>],
    aead: &'a mut A,
    counters: &'a Counters,
    now: Now,
}

/// What one batch adds to its peer's counters, written once.
#[derive(Default)]
struct Tally {
    authentic: u64,
    keepalives: u64,
    packets: u64,
    bytes: u64,
}

impl<B: Buf, A: Aead> Opener<'_, '_, B, A> {
    fn open_all(&mut self, opening: &Opening<'_, A::Key>, out: &mut Outputs<B>) {
        let end = opening.order.len();
        let within_batch = self.ahead.within_batch();
        if !within_batch {
            self.ahead.prime(self.slots, self.aead, 0, end);
        }
        for found in &opening.batches {
            let end = if within_batch { found.end } else { end };
            if within_batch {
                self.ahead.prime(self.slots, self.aead, found.first, end);
            }
            self.open_batch(opening, found, end, out);
        }
    }

    /// One batch: one lock of the replay window, one write of the peer's counters.
    #[inline]
    fn open_batch(
        &mut self,
        opening: &Opening<'_, A::Key>,
        found: &Found<'_, A::Key>,
        end: usize,
        out: &mut Outputs<B>,
    ) {
        let mut tally = Tally::default();
        let tunnel = usize::from(found.tunnel);
        let macs = Macs::new(self.tunnels[tunnel].interface, found.peer.id);
        let sink = &mut out.tunnels[tunnel];
        let mut window = found.key.lock_replay();
        let records = opening.order.get(found.first..found.end).unwrap_or_default();
        for (i, &Ordered { slot, len, .. }) in (found.first..).zip(records) {
            self.ahead.advance(self.slots, self.aead, i, end);
            let Some(mut buf) = self.slots[usize::from(slot)].take() else {
                continue;
            };
            match self.record(&mut buf, usize::from(len), found, &macs, &mut window, &mut tally) {
                Ok(Inner::Packet(_)) => {
                    if sink.try_push(buf).is_err() {
                        // Not delivered, so in no VPN counter.
                        tally.packets -= 1;
                        tally.bytes -= u64::from(len) - OVERHEAD as u64;
                        self.counters.count(DropReason::TunnelFull, 1);
                    }
                }
                Ok(Inner::Keepalive) => tally.keepalives += 1,
                Err(reason) => self.counters.count(reason, 1),
            }
        }
        drop(window);
        tally.write(found, self.counters, self.now);
    }

    /// One record of `len` bytes of UDP payload: checked, opened, committed, inspected, made a frame.
    #[inline]
    fn record(
        &mut self,
        buf: &mut B,
        len: usize,
        found: &Found<'_, A::Key>,
        macs: &Macs,
        window: &mut ReplayWindow,
        tally: &mut Tally,
    ) -> Result<Inner, DropReason> {
        let at = usize::from(found.payload);
        let payload = &mut buf.data_mut()[at..at + len];
        let sealed = Sealed::new(payload).ok_or(DropReason::ShortRecord)?;
        let fresh = replay::check(window, sealed.packet_id(), self.now.millis)?;
        let (authentic, plaintext) = open::open(self.aead, found.key, &fresh, sealed)?;
        let accepted = replay::commit(window, authentic, self.now.millis)?;
        tally.authentic += 1;
        let inner = inner::inspect(plaintext, &accepted)?;
        if let Inner::Packet(version) = inner {
            let tunnel = &self.tunnels[usize::from(found.tunnel)];
            inner::source(plaintext, version, found.peer, tunnel.sources.as_ref())?;
            let len = len - OVERHEAD;
            deliver::deliver(buf, at + OVERHEAD, len, version, macs);
            tally.packets += 1;
            tally.bytes += len as u64;
        }
        Ok(inner)
    }
}

impl Tally {
    #[inline]
    fn write<K>(&self, found: &Found<'_, K>, counters: &Counters, now: Now) {
        if self.authentic == 0 {
            return;
        }
        counters.authentic.add(self.authentic);
        let peer = &found.peer.counters;
        peer.received(now.millis);
        peer.vpn_rx_packets.add(self.packets);
        peer.vpn_rx_bytes.add(self.bytes);
        if self.keepalives > 0 {
            counters.keepalives.add(self.keepalives);
            peer.keepalives_rx.add(self.keepalives);
        }
    }
}

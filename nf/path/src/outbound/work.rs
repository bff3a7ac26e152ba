//! Stage 3: consecutive packets to one peer are a run, for which everything that a run has in common is done once.
//! Drops: none.

use super::Outbound;
use super::prepare::{Prepared, prepare};
use super::route::Router;
use crate::aead::Aead;
use crate::buf::Buf;
use crate::buffers::Buffers;
use crate::burst::{MAX_BURST, Now};
use crate::tunnel::Tunnel;
use arrayvec::ArrayVec;
use nf_state::{Peer, Slot};

/// Consecutive packets to one peer.
pub struct Run<'t, K> {
    /// Whose they are.
    pub peer: &'t Peer<K>,
    /// The first slot, ...
    pub first: u16,
    /// ... and the one after the last.
    pub end: u16,
    /// How many frames they were: a super-frame is one.
    pub frames: u16,
    /// Whether they are keepalives.
    pub ping: bool,
    /// Bytes of inner packets.
    pub bytes: u64,
}

/// The runs of a burst, in order.
pub(super) type Runs<'t, K> = ArrayVec<Run<'t, K>, MAX_BURST>;

/// One burst on its way through the stages.
pub(super) struct Work<'w, 't, B: Buf, P, A: Aead, S> {
    pub(super) path: &'w mut Outbound<B, P>,
    pub(super) tunnel: &'t Tunnel<A::Key>,
    pub(super) router: Router<'t, A::Key>,
    pub(super) aead: &'w mut A,
    pub(super) sink: &'w mut S,
    pub(super) now: Now,
    pub(super) tally: Tally,
    /// Large, and so made by the caller where it stays.
    runs: &'w mut Runs<'t, A::Key>,
    /// Slots in use.
    filled: usize,
}

/// What one burst adds to the lcore's counters, written once.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) sealed: u64,
    pub(super) clamped: u64,
    /// Of the frames that came.
    pub(super) bytes: u64,
}

impl<'w, 't, B: Buf, P: Buffers<B>, A: Aead, S: super::Sink<B>> Work<'w, 't, B, P, A, S> {
    pub(super) fn new(
        path: &'w mut Outbound<B, P>,
        tunnel: &'t Tunnel<A::Key>,
        aead: &'w mut A,
        now: Now,
        sink: &'w mut S,
        runs: &'w mut Runs<'t, A::Key>,
    ) -> Self {
        Work {
            router: Router::new(tunnel, path.lcores),
            path,
            tunnel,
            aead,
            sink,
            now,
            tally: Tally::default(),
            runs,
            filled: 0,
        }
    }

    /// Adds an inner packet of `len` bytes, which is all that `packet` holds. It counts as so many `frames`.
    #[inline(always)]
    pub(super) fn push(&mut self, peer: &'t Peer<A::Key>, packet: B, len: usize, frames: u16) {
        if self.filled == MAX_BURST {
            self.flush();
        }
        match self.runs.last_mut() {
            Some(run) if core::ptr::eq(run.peer, peer) => {
                run.end += 1;
                run.frames += frames;
                run.bytes += len as u64;
            }
            _ => {
                self.ask(peer);
                self.runs.push(Run {
                    peer,
                    first: self.filled as u16,
                    end: self.filled as u16 + 1,
                    frames,
                    ping: false,
                    bytes: len as u64,
                });
            }
        }
        self.path.slots[self.filled] = Some(packet);
        self.filled += 1;
    }

    /// Asks for what preparing a run will read of the peer.
    #[inline]
    fn ask(&self, peer: &Peer<A::Key>) {
        self.aead.prefetch(&peer.counters.link_tx_packets);
        self.aead.prefetch(&*peer.endpoint);
        if let Some(key) = peer.keys.get(Slot::Primary) {
            self.aead.prefetch(key.seal_tail());
        }
    }

    /// Adds a keepalive, as the only packet there is.
    pub(super) fn ping(&mut self, peer: &'t Peer<A::Key>, ping: B) {
        let len = ping.packet_len();
        self.push(peer, ping, len, 0);
        if let Some(run) = self.runs.last_mut() {
            run.ping = true;
        }
    }

    /// Takes all packets added so far through the later stages.
    #[inline(never)]
    pub(super) fn flush(&mut self) {
        let mut ready: ArrayVec<Prepared<'t, A::Key>, MAX_BURST> = ArrayVec::new_const();
        for run in &*self.runs {
            if let Some(prepared) = prepare(run, self.tunnel, self.path, self.now) {
                ready.push(prepared);
            }
        }
        self.seal_all(&ready);
        self.runs.clear();
        self.filled = 0;
    }

    /// Writes the counters of the burst.
    pub(super) fn count(&mut self) {
        let counters = &self.path.counters;
        if self.tally.sealed > 0 {
            counters.sealed.add(self.tally.sealed);
        }
        if self.tally.clamped > 0 {
            counters.mss_clamped.add(self.tally.clamped);
        }
    }
}

//! Stages 5 to 10 over one burst, record by record in the order of opening. Drops: `tunnel_full`, and those of the
//! stages.

use crate::aead::Aead;
use crate::buf::Buf;
use crate::burst::{Now, Outputs};
use crate::counters::Counters;
use crate::lookahead::Ahead;
use crate::tunnel::{Mode, Tunnel};
use crate::verdict::DropReason;
use nf_state::{ReplayWindow, Routes};
use nf_wire::mss;
use nf_wire::record::OVERHEAD;

use super::batch::Facts;
use super::deliver::{self, Macs};
use super::float::{self, Events, Watch};
use super::inner::{self, Inner};
use super::lookup::{Found, Opening, Ordered};
use super::open::{self, Sealed};
use super::replay;

/// What opening `len` bytes uses of a key: itself and its 16-byte blocks. A shift, for a division that rounds up costs
/// more, and this is paid for each record.
#[inline(always)]
fn usage(len: usize) -> u64 {
    1 + ((len + 15) >> 4) as u64
}

/// Stages 5 to 10 over one burst.
pub(super) struct Opener<'a, 't, B, A: Aead> {
    pub(super) ahead: Ahead<'a, B, A::Key>,
    pub(super) slots: &'a mut [Option<B>],
    pub(super) facts: &'a [Facts],
    pub(super) tunnels: &'t [Tunnel<A::Key>],
    pub(super) aead: &'a mut A,
    pub(super) counters: &'a Counters,
    pub(super) events: &'a mut Events,
    /// Whether a way that is another one moves the endpoint too.
    pub(super) last_heard: bool,
    pub(super) now: Now,
}

/// What is the same for all records of a batch.
struct Common<'a, 't, K> {
    found: &'a Found<'t, K>,
    macs: Macs,
    /// Whose inner sources are whose; None: any may pass.
    sources: Option<&'t Routes>,
    /// The largest MSS by inner IP version; None: no clamp.
    mss: Option<[u16; 2]>,
}

impl<'a, 't, K> Common<'a, 't, K> {
    #[inline]
    fn new(found: &'a Found<'t, K>, tunnel: &'t Tunnel<K>, head: &Facts) -> Self {
        // With one peer there is nobody else whose source it could be.
        let checked = tunnel.source_check && tunnel.mode == Mode::Mp;
        Common {
            found,
            macs: Macs::new(tunnel.interface, found.peer.id),
            sources: checked.then_some(&tunnel.routes),
            mss: tunnel.mss.map(|clamp| clamp.max[usize::from(head.outer.is_v6())]),
        }
    }
}

/// What one batch adds to its peer's counters, written once.
#[derive(Default)]
struct Tally {
    /// Packets and 16-byte blocks opened.
    used: u64,
    authentic: u64,
    keepalives: u64,
    packets: u64,
    bytes: u64,
}

impl<B: Buf, A: Aead> Opener<'_, '_, B, A> {
    /// All batches of a burst. A function of its own, so that the registers of this loop and of sorting are not one
    /// lot: inlined, both spill.
    #[inline(never)]
    pub(super) fn open_all(&mut self, opening: &Opening<'_, A::Key>, out: &mut Outputs<B>) {
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

    /// One batch: one lock of the replay window, one look at the endpoint, one write of the peer's counters.
    #[inline]
    fn open_batch(
        &mut self,
        opening: &Opening<'_, A::Key>,
        found: &Found<'_, A::Key>,
        end: usize,
        out: &mut Outputs<B>,
    ) {
        let head = &self.facts[usize::from(found.head)];
        let tunnel = usize::from(found.tunnel);
        let common = Common::new(found, &self.tunnels[tunnel], head);
        let sink = &mut out.tunnels[tunnel];
        let records = opening.order.get(found.first..found.end).unwrap_or_default();
        let mut tally = Tally::default();
        let mut window = found.key.lock_replay();
        let first = records
            .first()
            .and_then(|r| self.slots[usize::from(r.slot)].as_ref());
        let mut watch = Watch::begin(found, first, self.last_heard, &window);
        for (i, &Ordered { slot, len, .. }) in (found.first..).zip(records) {
            self.ahead.advance(self.slots, self.aead, i, end);
            let Some(mut buf) = self.slots[usize::from(slot)].take() else {
                continue;
            };
            if let Some(watch) = &mut watch {
                watch.next(buf.data(), &window);
            }
            match self.record(&mut buf, usize::from(len), &common, &mut window, &mut tally) {
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
        if let Some(way) = watch.and_then(|watch| watch.end(&window)) {
            // Still under the lock: of two lcores the one with the higher id moves the endpoint last.
            let peers = &self.tunnels[tunnel].peers;
            float::follow(found, &head.outer, way, peers, self.counters, self.events);
        }
        found.key.opened().add(tally.used);
        drop(window);
        tally.write(found, self.counters, self.now);
    }

    /// One record of `len` bytes of UDP payload: checked, opened, committed, inspected, made a frame.
    #[inline]
    fn record(
        &mut self,
        buf: &mut B,
        len: usize,
        common: &Common<'_, '_, A::Key>,
        window: &mut ReplayWindow,
        tally: &mut Tally,
    ) -> Result<Inner, DropReason> {
        let at = usize::from(common.found.payload);
        let payload = &mut buf.data_mut()[at..at + len];
        let sealed = Sealed::new(payload).ok_or(DropReason::ShortRecord)?;
        let fresh = replay::check(window, sealed.packet_id(), self.now.millis)?;
        let (authentic, plaintext) = open::open(self.aead, common.found.key, &fresh, sealed)?;
        let len = len - OVERHEAD;
        tally.used += usage(len);
        let accepted = replay::commit(window, authentic, self.now.millis)?;
        tally.authentic += 1;
        let inner = inner::inspect(plaintext, &accepted)?;
        if let Inner::Packet(version) = inner {
            inner::source(plaintext, version, common.found.peer, common.sources)?;
            if let Some(max) = common.mss
                && mss::clamp(plaintext, max[version as usize])
            {
                self.counters.mss_clamped.add(1);
            }
            deliver::deliver(buf, at + OVERHEAD, len, version, &common.macs);
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

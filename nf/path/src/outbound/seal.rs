//! Stage 6: MSS clamp and AEAD, in place, and the loop over the burst that stages 5 to 8 are in. Drops: none of its own.

use super::Sink;
use super::prepare::{self, Prepared};
use super::work::Work;
use super::{emit, reserve};
use crate::aead::Aead;
use crate::buf::Buf;
use crate::buffers::Buffers;
use crate::verdict::DropReason;
use nf_state::{KeySlot, Lookahead, Scope};
use nf_wire::record::{AAD_LEN, HeaderWord, OVERHEAD, nonce};

/// Bytes of a block of the AEADs' limits.
const BLOCK: u64 = 16;

/// Seals the packet behind the first [`OVERHEAD`] bytes of `record`, and writes header word, packet id and tag there.
#[inline(always)]
pub fn seal<A: Aead>(aead: &mut A, key: &KeySlot<A::Key>, word: HeaderWord, id: u32, record: &mut [u8]) {
    let Some((header, text)) = record.split_first_chunk_mut::<OVERHEAD>() else {
        return;
    };
    let id = id.to_be_bytes();
    let [a, b, c, d] = word.0.to_be_bytes();
    let aad: [u8; AAD_LEN] = [a, b, c, d, id[0], id[1], id[2], id[3]];
    let tag = aead.seal(key.seal_key(), &nonce(id, key.seal_tail()), &aad, text);
    header[..AAD_LEN].copy_from_slice(&aad);
    header[AAD_LEN..].copy_from_slice(&tag);
}

/// The lookahead of one burst, or of one run where its scope is the batch.
///
/// Asks for the lines of packets ahead of the one that is sealed, in the order of sealing.
struct Ahead<'r, 't, K> {
    runs: &'r [Prepared<'t, K>],
    distance: usize,
    /// The run and the slot to be asked for next.
    run: usize,
    slot: usize,
    /// How many more packets may be asked for before one is sealed.
    credit: usize,
}

impl<'r, 't, K> Ahead<'r, 't, K> {
    /// Over some runs. One packet alone has nothing to look ahead to.
    fn new(runs: &'r [Prepared<'t, K>], lookahead: Lookahead) -> Self {
        let packets: usize = runs.iter().map(|run| usize::from(run.packets)).sum();
        let distance = if packets > 1 {
            usize::from(lookahead.distance)
        } else {
            0
        };
        Ahead {
            runs,
            distance,
            run: 0,
            slot: runs.first().map_or(0, |run| usize::from(run.first)),
            credit: distance,
        }
    }

    /// Before a packet is sealed: keeps the distance.
    #[inline(always)]
    fn advance<B: Buf, A: Aead<Key = K>>(&mut self, slots: &[Option<B>], aead: &A) {
        if self.distance == 0 {
            return;
        }
        self.credit += 1;
        self.ask(slots, aead);
    }

    #[inline]
    fn ask<B: Buf, A: Aead<Key = K>>(&mut self, slots: &[Option<B>], aead: &A) {
        while self.credit > 0
            && let Some(run) = self.runs.get(self.run)
        {
            if self.slot == usize::from(run.first) {
                // The rest of the slot was read when the run was prepared, or is for what is received.
                aead.prefetch(run.key.ids());
                aead.prefetch_key(run.key.seal_key());
            }
            if let Some(buf) = slots.get(self.slot).and_then(Option::as_ref) {
                buf.prefetch_write(0, buf.packet_len());
                self.credit -= 1;
            }
            self.slot += 1;
            if self.slot == usize::from(run.end) {
                self.run += 1;
                self.slot = self.runs.get(self.run).map_or(0, |run| usize::from(run.first));
            }
        }
    }
}

impl<'t, B: Buf, P: Buffers<B>, A: Aead, S: Sink<B>> Work<'_, 't, B, P, A, S> {
    /// Stages 5 to 8 for all runs, in order.
    pub(super) fn seal_all(&mut self, runs: &[Prepared<'t, A::Key>]) {
        let lookahead = self.path.lookahead;
        if lookahead.scope == Scope::Batch {
            for run in runs.chunks(1) {
                self.seal_runs(run, lookahead);
            }
        } else {
            self.seal_runs(runs, lookahead);
        }
    }

    #[inline]
    fn seal_runs(&mut self, runs: &[Prepared<'t, A::Key>], lookahead: Lookahead) {
        let mut ahead = Ahead::new(runs, lookahead);
        ahead.ask(&self.path.slots[..], self.aead);
        for run in runs {
            self.seal_run(run, &mut ahead);
        }
    }

    /// One run: ids reserved in one step, one write of the peer's counters.
    fn seal_run(&mut self, run: &Prepared<'t, A::Key>, ahead: &mut Ahead<'_, 't, A::Key>) {
        let limit = reserve::limit(self.tunnel, self.path.lcores);
        let (mut slots, mut left) = (usize::from(run.first)..usize::from(run.end), run.packets);
        let (mut bytes, mut blocks) = (0, 0);
        while left > 0 {
            let Some(ids) = reserve::reserve(run.key.ids(), left, limit) else {
                break;
            };
            left -= ids.len() as u16;
            for id in ids {
                let Some(buf) = self.next_packet(&mut slots) else {
                    break;
                };
                ahead.advance(&self.path.slots[..], self.aead);
                let len = self.record(run, id, buf);
                bytes += len;
                blocks += len.div_ceil(BLOCK);
            }
        }
        let sealed = u64::from(run.packets - left);
        if left > 0 {
            self.path.counters.count(DropReason::NoPacketId, u64::from(left));
            self.path.slots[slots].fill_with(|| None);
        }
        if sealed > 0 {
            self.tally.sealed += sealed;
            run.key.ids().add_used(sealed + blocks);
            prepare::sent(run.peer, sealed, bytes, run.ping, self.now);
        }
    }

    /// Takes the packet out of the next slot that is not empty.
    #[inline(always)]
    fn next_packet(&mut self, slots: &mut core::ops::Range<usize>) -> Option<B> {
        slots.find_map(|slot| self.path.slots[slot].take())
    }

    /// Stages 6 to 8 for one packet: how many bytes of inner packet it had.
    #[inline(always)]
    fn record(&mut self, run: &Prepared<'t, A::Key>, id: u32, mut buf: B) -> u64 {
        let front = run.outside.encap.len();
        let record = &mut buf.data_mut()[front..];
        let len = (record.len() - OVERHEAD) as u64;
        if let Some(limits) = &run.mss {
            self.tally.clamped += u64::from(limits.clamp(&mut record[OVERHEAD..]));
        }
        seal(self.aead, run.key, run.word, id, record);
        emit::emit(buf, &run.outside, self.path, self.sink);
        len
    }
}

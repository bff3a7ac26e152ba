//! Lookahead: while one record is opened, the cache lines of a later one are asked for.

use crate::aead::Aead;
use crate::buf::Buf;
use crate::inbound::lookup::Opening;
use nf_state::{Lookahead, Scope};
use nf_wire::record::OVERHEAD;

/// The order in which a burst's records will be opened, and how far ahead of it to ask.
pub(crate) struct Ahead<'a, B, K> {
    pub(crate) opening: &'a Opening<'a, K>,
    pub(crate) lookahead: Lookahead,
    pub(crate) buffers: core::marker::PhantomData<B>,
}

impl<B: Buf, K> Ahead<'_, B, K> {
    /// Asks for the records at the front of `[from, to)`, as far as the distance goes. A range of one has nothing
    /// to look ahead to.
    pub(crate) fn prime<A: Aead<Key = K>>(&self, slots: &[Option<B>], aead: &A, from: usize, to: usize) {
        if to - from > 1 {
            let distance = usize::from(self.lookahead.distance);
            (from..to.min(from + distance)).for_each(|i| self.ask(slots, aead, i));
        }
    }

    /// Before the record at `i` is opened: asks for the one at the distance, if it is before `end`.
    #[inline]
    pub(crate) fn advance<A: Aead<Key = K>>(&self, slots: &[Option<B>], aead: &A, i: usize, end: usize) {
        let distance = usize::from(self.lookahead.distance);
        if distance > 0 && i + distance < end {
            self.ask(slots, aead, i + distance);
        }
    }

    /// Whether lookahead stops at the end of each batch.
    pub(crate) fn within_batch(&self) -> bool {
        self.lookahead.scope == Scope::Batch
    }

    #[inline]
    fn ask<A: Aead<Key = K>>(&self, slots: &[Option<B>], aead: &A, i: usize) {
        let record = &self.opening.order[i];
        let batch = &self.opening.batches[usize::from(record.batch)];
        if let Some(buf) = &slots[usize::from(record.slot)] {
            let from = usize::from(batch.payload) + OVERHEAD;
            buf.prefetch_write(from, usize::from(record.len) - OVERHEAD);
        }
        if batch.first == i {
            aead.prefetch(batch.key);
            aead.prefetch_key(batch.key.open_key());
        }
    }
}

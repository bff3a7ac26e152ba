//! The packet ids of a send key.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The packet ids that a key may still send under, and how much it has sealed.
///
/// An id is handed out once, whatever lcores ask: reserving is one atomic step for any number of packets. The first
/// id is 1 and the last 0xffffffff; after that there are none, for good. An end below [`PacketIds::END`] is
/// a durable reservation, beyond which nothing is sent until it was extended.
#[derive(Debug)]
pub struct PacketIds {
    next: AtomicU64,
    end: AtomicU64,
    used: AtomicU64,
}

impl Default for PacketIds {
    fn default() -> Self {
        Self::new()
    }
}

impl PacketIds {
    /// One past the last id.
    pub const END: u64 = 1 << 32;

    /// All ids, from 1 on.
    pub const fn new() -> Self {
        Self::resume(1, Self::END)
    }

    /// The ids from `next` (no less than 1) up to but without `end` (no more than [`PacketIds::END`]): for a key that
    /// was in use before and whose ids are reserved durably.
    pub const fn resume(next: u64, end: u64) -> Self {
        let next = if next < 1 { 1 } else { next };
        let end = if end > Self::END { Self::END } else { end };
        PacketIds {
            next: AtomicU64::new(next),
            end: AtomicU64::new(end),
            used: AtomicU64::new(0),
        }
    }

    /// Reserves `n` ids for good, fewer when fewer are left. None when none is left.
    #[inline]
    pub fn reserve(&self, n: u32) -> Option<Reserved> {
        let mut next = self.next.load(Relaxed);
        loop {
            let left = self.end.load(Relaxed).saturating_sub(next);
            let count = u64::from(n).min(left);
            if count == 0 {
                return None;
            }
            match self
                .next
                .compare_exchange_weak(next, next + count, Relaxed, Relaxed)
            {
                Ok(_) => {
                    return Some(Reserved {
                        // Below END, so it fits; and so does the count.
                        next: next as u32,
                        left: count as u32,
                    });
                }
                Err(seen) => next = seen,
            }
        }
    }

    /// The id that will be reserved next; [`PacketIds::END`] when all were.
    pub fn next(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// One past the last id that may be reserved as of now.
    pub fn end(&self) -> u64 {
        self.end.load(Relaxed)
    }

    /// Takes all ids that are left, so that nothing more is sent under this key, and returns the first of them: none from
    /// it on was used.
    pub fn retire(&self) -> u64 {
        self.next.swap(Self::END, Relaxed)
    }

    /// Moves the end on, after the ids up to it were reserved durably. It never moves back, and not beyond
    /// [`PacketIds::END`].
    pub fn extend_to(&self, end: u64) {
        self.end.fetch_max(end.min(Self::END), Relaxed);
    }

    /// Notes packets and 16-byte blocks sealed under this key, added together.
    #[inline]
    pub fn add_used(&self, packets_and_blocks: u64) {
        self.used.fetch_add(packets_and_blocks, Relaxed);
    }

    /// Packets and 16-byte blocks sealed under this key so far.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }
}

/// Packet ids that belong to whoever holds this: an iterator over them. Those not taken are lost, not reused.
///
/// ```compile_fail,E0599
/// let twice = nf_state::PacketIds::new().reserve(8).unwrap().clone();
/// ```
#[derive(Debug)]
#[must_use = "reserved ids are not given back"]
pub struct Reserved {
    next: u32,
    left: u32,
}

impl Iterator for Reserved {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let id = self.next;
        // Wraps after the very last id only, when nothing is left.
        self.next = id.wrapping_add(1);
        Some(id)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Reserved {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_begin_at_one_and_follow_each_other() {
        let ids = PacketIds::new();
        assert_eq!(ids.reserve(3).unwrap().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(ids.reserve(1).unwrap().collect::<Vec<_>>(), [4]);
        assert_eq!(ids.next(), 5);
        assert!(ids.reserve(0).is_none());
    }

    #[test]
    fn the_last_id_is_ffffffff_and_then_there_are_none_for_good() {
        let ids = PacketIds::resume(0xffff_fffe, PacketIds::END);
        assert_eq!(
            ids.reserve(16).unwrap().collect::<Vec<_>>(),
            [0xffff_fffe, 0xffff_ffff]
        );
        for _ in 0..3 {
            assert!(ids.reserve(1).is_none());
        }
        assert_eq!(ids.next(), PacketIds::END);
        ids.extend_to(u64::MAX);
        assert!(ids.reserve(1).is_none() && ids.end() == PacketIds::END);
    }

    #[test]
    fn nothing_is_given_beyond_a_reservation_until_it_grows() {
        let ids = PacketIds::resume(10, 12);
        assert_eq!(ids.reserve(8).unwrap().len(), 2);
        assert!(ids.reserve(1).is_none());
        ids.extend_to(11);
        assert!(ids.reserve(1).is_none(), "the end never moves back");
        ids.extend_to(13);
        assert_eq!(ids.reserve(8).unwrap().collect::<Vec<_>>(), [12]);
        assert_eq!(PacketIds::resume(0, 5).next(), 1, "id 0 is never sent");
    }

    #[test]
    fn a_retired_key_sends_nothing_more_and_says_where_it_was() {
        let ids = PacketIds::new();
        assert_eq!(ids.reserve(3).map(Iterator::count), Some(3));
        assert_eq!(ids.retire(), 4);
        assert!(ids.reserve(1).is_none());
        assert_eq!(ids.retire(), PacketIds::END);
    }

    #[test]
    fn threads_never_get_the_same_id() {
        let ids = PacketIds::new();
        let take = |n: u32| {
            let mut seen = Vec::new();
            for _ in 0..10_000 {
                seen.extend(ids.reserve(n).unwrap());
            }
            seen
        };
        let mut all: Vec<u32> = std::thread::scope(|s| {
            let threads = [1, 3, 16].map(|n| s.spawn(move || take(n)));
            threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert!(all.iter().copied().eq(1..=200_000));
    }

    #[test]
    fn what_was_sealed_adds_up() {
        let ids = PacketIds::new();
        ids.add_used(3);
        ids.add_used(4);
        assert_eq!(ids.used(), 7);
    }
}

//! A counter with one writer.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A 64-bit counter that one thread writes and any thread reads.
///
/// Adding is a load and a store, not an atomic read-modify-write: the writer pays no locked instruction. With two
/// writers counts would be lost; there is no undefined behaviour. It wraps at 2^64.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    pub const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    /// Adds `n`. For the one writer.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Sets the value, for gauges. For the one writer.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// The value that the writer stored last, or one shortly before it.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_sets_and_wraps() {
        let c = Counter::new();
        c.add(3);
        c.add(4);
        assert_eq!(c.get(), 7);
        c.set(u64::MAX);
        c.add(2);
        assert_eq!(c.get(), 1);
    }
}

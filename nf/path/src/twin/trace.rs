//! The order of prefetches and opens on this thread, for tests of the lookahead.

use std::cell::RefCell;

/// One thing that a stage did with a twin, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `Buf::prefetch_write` on a buffer.
    PrefetchWrite {
        /// [`HeapBuf::id`](super::HeapBuf::id) of the buffer.
        buffer: u64,
        /// First byte asked for, from the first byte of the data, as the caller gave it.
        from: usize,
        /// Bytes asked for, as the caller gave it.
        len: usize,
    },
    /// `Aead::prefetch_key`.
    PrefetchKey {
        /// [`SoftKey::id`](super::SoftKey::id) of the key.
        key: u64,
    },
    /// `Aead::open`.
    Open {
        /// [`SoftKey::id`](super::SoftKey::id) of the key.
        key: u64,
        /// Packet id: the first four bytes of the nonce.
        packet_id: u32,
        /// Bytes of ciphertext.
        len: usize,
    },
    /// `Aead::seal`.
    Seal {
        /// [`SoftKey::id`](super::SoftKey::id) of the key.
        key: u64,
        /// Packet id: the first four bytes of the nonce.
        packet_id: u32,
        /// Bytes of plaintext.
        len: usize,
    },
}

thread_local! {
    static LOG: RefCell<Option<Vec<Event>>> = const { RefCell::new(None) };
}

/// Runs `body` and returns its result with every event of this thread meanwhile. Outside of `record` nothing is
/// kept and nothing allocated. Does not nest: the inner call takes its events for itself.
pub fn record<R>(body: impl FnOnce() -> R) -> (R, Vec<Event>) {
    let outer = LOG.replace(Some(Vec::new()));
    let result = body();
    let events = LOG.replace(outer).unwrap_or_default();
    (result, events)
}

/// Adds an event when a [`record`] is running.
pub(super) fn note(event: Event) {
    LOG.with_borrow_mut(|log| {
        if let Some(log) = log {
            log.push(event);
        }
    });
}

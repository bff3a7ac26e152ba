//! The two key slots of a peer.

use std::{
    fmt,
    mem::offset_of,
    ops::DerefMut,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use nf_wire::record::NONCE_TAIL_LEN;
use spin::mutex::SpinMutex;
use zeroize::{Zeroize, Zeroizing};

use crate::{Cipher, Counter, PacketIds, ReplayWindow};

/// Two cache lines of 64 bytes: the adjacent-line prefetcher of x86 fetches lines in pairs.
const PART_ALIGN: usize = 128;

/// What a key slot needs for one direction.
pub struct Direction<K> {
    /// The expanded key; zeroises itself when dropped.
    pub key: K,
    /// The last 8 bytes of every nonce of this direction.
    pub nonce_tail: [u8; NONCE_TAIL_LEN],
}

/// Never written after it was made, so every lcore keeps its own clean copy of these lines.
#[repr(C, align(128))]
struct ReadOnly<K> {
    cipher: Cipher,
    key_id: u8,
    serial: u64,
    open_tail: Zeroizing<[u8; NONCE_TAIL_LEN]>,
    seal_tail: Zeroizing<[u8; NONCE_TAIL_LEN]>,
    open: K,
    seal: K,
}

/// Written for every batch received.
#[repr(C, align(128))]
struct Inbound {
    replay: SpinMutex<ReplayWindow>,
    /// Written by whoever holds the window's lock.
    opened: Counter,
}

/// Written for every run of packets sent.
#[repr(C, align(128))]
struct Outbound {
    ids: PacketIds,
}

/// Keys made so far.
static SERIAL: AtomicU64 = AtomicU64::new(0);

/// One key of a peer: both directions' keys, and the replay window and packet ids that live and die with them. `K` is the
/// expanded key of one direction; what of it lies in the value itself is moved into the `Arc`, so a `K` that must leave
/// no copy behind keeps its secrets on the heap.
///
/// What is only read, what is written for records received and what is written for packets sent share no cache line.
#[repr(C)]
pub struct KeySlot<K> {
    read_only: ReadOnly<K>,
    inbound: Inbound,
    outbound: Outbound,
}

impl<K> KeySlot<K> {
    /// Evaluated for every `K` that a slot is made of.
    const LAYOUT: () = {
        assert!(align_of::<Self>().is_multiple_of(PART_ALIGN));
        assert!(offset_of!(Self, read_only) == 0);
        assert!(offset_of!(Self, inbound).is_multiple_of(PART_ALIGN));
        assert!(offset_of!(Self, inbound) >= size_of::<ReadOnly<K>>());
        assert!(offset_of!(Self, outbound).is_multiple_of(PART_ALIGN));
        assert!(offset_of!(Self, outbound) >= offset_of!(Self, inbound) + size_of::<Inbound>());
    };

    /// A key that has received and sent nothing. `open` decrypts what is received, `seal` encrypts what is sent. `key_id`
    /// is cut to its 3 bits.
    pub fn new(cipher: Cipher, key_id: u8, open: Direction<K>, seal: Direction<K>) -> Arc<Self> {
        Self::with_ids(cipher, key_id, open, seal, PacketIds::new())
    }

    /// As [`KeySlot::new`], for a key that sends under these packet ids only: one that was in use before.
    pub fn with_ids(
        cipher: Cipher,
        key_id: u8,
        open: Direction<K>,
        seal: Direction<K>,
        ids: PacketIds,
    ) -> Arc<Self> {
        let () = Self::LAYOUT;
        let Direction {
            key: open,
            nonce_tail: mut open_tail,
        } = open;
        let Direction {
            key: seal,
            nonce_tail: mut seal_tail,
        } = seal;
        let slot = Arc::new(KeySlot {
            read_only: ReadOnly {
                cipher,
                key_id: key_id & 7,
                serial: SERIAL.fetch_add(1, Relaxed) + 1,
                open_tail: Zeroizing::new(open_tail),
                seal_tail: Zeroizing::new(seal_tail),
                open,
                seal,
            },
            inbound: Inbound {
                replay: SpinMutex::new(ReplayWindow::new()),
                opened: Counter::new(),
            },
            outbound: Outbound { ids },
        });
        open_tail.zeroize();
        seal_tail.zeroize();
        slot
    }

    /// The cipher of both directions.
    #[inline]
    pub fn cipher(&self) -> Cipher {
        self.read_only.cipher
    }

    /// Key id, 0 to 7.
    #[inline]
    pub fn key_id(&self) -> u8 {
        self.read_only.key_id
    }

    /// A number that is higher than that of every key made before.
    #[inline]
    pub fn serial(&self) -> u64 {
        self.read_only.serial
    }

    /// The packet ids of what is sent.
    #[inline]
    pub fn ids(&self) -> &PacketIds {
        &self.outbound.ids
    }

    /// Packets and 16-byte blocks opened under this key, added together. Whoever holds the lock of the replay window
    /// may add.
    #[inline]
    pub fn opened(&self) -> &Counter {
        &self.inbound.opened
    }

    /// The key that decrypts what is received.
    #[inline]
    pub fn open_key(&self) -> &K {
        &self.read_only.open
    }

    /// The nonce tail of what is received.
    #[inline]
    pub fn open_tail(&self) -> &[u8; NONCE_TAIL_LEN] {
        &self.read_only.open_tail
    }

    /// The key that encrypts what is sent.
    #[inline]
    pub fn seal_key(&self) -> &K {
        &self.read_only.seal
    }

    /// The nonce tail of what is sent.
    #[inline]
    pub fn seal_tail(&self) -> &[u8; NONCE_TAIL_LEN] {
        &self.read_only.seal_tail
    }

    /// The replay window, locked until the guard is dropped. Taken once per batch; a flow stays on its lcore, so
    /// nobody else is expected to hold it.
    #[inline]
    pub fn lock_replay(&self) -> impl DerefMut<Target = ReplayWindow> + '_ {
        self.inbound.replay.lock()
    }
}

impl<K> fmt::Debug for KeySlot<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReadOnly { cipher, key_id, .. } = &self.read_only;
        f.debug_struct("KeySlot")
            .field("cipher", cipher)
            .field("key_id", key_id)
            .finish_non_exhaustive()
    }
}

/// Which of a peer's two keys (`OVPN_KEY_SLOT_*` of the Linux `ovpn` netlink interface).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// Encrypts and decrypts.
    Primary,
    /// Decrypts only.
    Secondary,
}

/// The two keys of a peer: both decrypt, the primary encrypts.
pub struct KeySlots<K> {
    primary: Option<Arc<KeySlot<K>>>,
    secondary: Option<Arc<KeySlot<K>>>,
}

impl<K> fmt::Debug for KeySlots<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeySlots { primary, secondary } = self;
        f.debug_struct("KeySlots")
            .field("primary", primary)
            .field("secondary", secondary)
            .finish()
    }
}

impl<K> Default for KeySlots<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> KeySlots<K> {
    /// Two empty slots.
    pub const fn new() -> Self {
        KeySlots {
            primary: None,
            secondary: None,
        }
    }

    /// The key that a received record names; the primary when both have that id.
    #[inline]
    pub fn by_key_id(&self, key_id: u8) -> Option<&Arc<KeySlot<K>>> {
        let named = |slot: &&Arc<KeySlot<K>>| slot.key_id() == key_id;
        self.primary
            .as_ref()
            .filter(named)
            .or_else(|| self.secondary.as_ref().filter(named))
    }

    /// The key in `slot`.
    #[inline]
    pub fn get(&self, slot: Slot) -> Option<&Arc<KeySlot<K>>> {
        match slot {
            Slot::Primary => self.primary.as_ref(),
            Slot::Secondary => self.secondary.as_ref(),
        }
    }

    /// Puts `key` into `slot` and returns the one that was there (`OVPN_CMD_KEY_NEW`).
    #[must_use = "the old key is to be freed off the fast path"]
    pub fn install(&mut self, slot: Slot, key: Arc<KeySlot<K>>) -> Option<Arc<KeySlot<K>>> {
        self.slot_mut(slot).replace(key)
    }

    /// [`KeySlots::install`] into the primary slot.
    #[must_use = "the old key is to be freed off the fast path"]
    pub fn install_primary(&mut self, key: Arc<KeySlot<K>>) -> Option<Arc<KeySlot<K>>> {
        self.install(Slot::Primary, key)
    }

    /// [`KeySlots::install`] into the secondary slot.
    #[must_use = "the old key is to be freed off the fast path"]
    pub fn install_secondary(&mut self, key: Arc<KeySlot<K>>) -> Option<Arc<KeySlot<K>>> {
        self.install(Slot::Secondary, key)
    }

    /// Exchanges the two keys with all their state; either or both may be missing (`OVPN_CMD_KEY_SWAP`).
    pub fn swap(&mut self) {
        std::mem::swap(&mut self.primary, &mut self.secondary);
    }

    /// Empties `slot` and returns what was there; an empty slot is no error (`OVPN_CMD_KEY_DEL`).
    #[must_use = "the old key is to be freed off the fast path"]
    pub fn remove(&mut self, slot: Slot) -> Option<Arc<KeySlot<K>>> {
        self.slot_mut(slot).take()
    }

    fn slot_mut(&mut self, slot: Slot) -> &mut Option<Arc<KeySlot<K>>> {
        match slot {
            Slot::Primary => &mut self.primary,
            Slot::Secondary => &mut self.secondary,
        }
    }
}

#[cfg(test)]
mod tests;

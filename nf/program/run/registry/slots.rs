//! The keys of a peer, as the control side holds them.

use crate::program::run::keys::HeldKey;
use nf_state::Slot;

/// Primary and secondary key of a peer; either may be missing.
#[derive(Default)]
pub struct HeldKeys([Option<HeldKey>; 2]);

impl HeldKeys {
    /// The key in a slot.
    pub fn get(&self, slot: Slot) -> Option<&HeldKey> {
        self.0[slot as usize].as_ref()
    }

    /// Puts a key into a slot; the one that was there.
    pub fn install(&mut self, slot: Slot, key: HeldKey) -> Option<HeldKey> {
        self.0[slot as usize].replace(key)
    }

    /// Empties a slot; what was there.
    pub fn remove(&mut self, slot: Slot) -> Option<HeldKey> {
        self.0[slot as usize].take()
    }

    /// Exchanges the two.
    pub fn swap(&mut self) {
        self.0.swap(0, 1);
    }

    /// All there are, the primary one first.
    pub fn iter(&self) -> impl Iterator<Item = &HeldKey> + Clone {
        self.0.iter().flatten()
    }

    /// As [`HeldKeys::iter`], to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut HeldKey> {
        self.0.iter_mut().flatten()
    }
}

impl FromIterator<HeldKey> for HeldKeys {
    /// The first is the primary key, the second the secondary one; there are no more.
    fn from_iter<T: IntoIterator<Item = HeldKey>>(keys: T) -> Self {
        let mut keys = keys.into_iter();
        HeldKeys([keys.next(), keys.next()])
    }
}

impl IntoIterator for HeldKeys {
    type Item = HeldKey;
    type IntoIter = std::iter::Flatten<std::array::IntoIter<Option<HeldKey>, 2>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().flatten()
    }
}

//! The replay window of a receive key: 2048 packet ids, and a floor that rises after 30 s of silence.

use crate::{Authentic, Millis};

/// Ids that the history covers, the highest included: the usable backtrack is one less.
const WINDOW: u32 = 2048;
const WORDS: usize = WINDOW as usize / 64;
/// Silence after which ids up to the highest are no longer accepted.
const EXPIRY_MS: u64 = 30_000;

/// Why an id is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Replay {
    /// Id 0 is never sent.
    #[error("packet id 0")]
    Zero,
    /// 2048 or more behind the highest id, or not above the floor.
    #[error("packet id too old")]
    TooOld,
    /// Accepted before.
    #[error("packet id seen before")]
    Duplicate,
}

/// The replay state of one receive key; a new key has a new one. The rules are those of the Linux `ovpn` driver:
///
/// - An id above the highest is accepted and becomes the highest.
/// - Another is accepted when it is less than 2048 behind the highest, above the floor, and not seen before.
/// - When 30 s have passed since the last accepted id, the floor is the highest id.
///
/// Time must not run backwards. The floor is computed whenever an id is looked at and stored only when one is
/// accepted; this gives the same verdicts as raising it at every packet, as until the next accepted id neither the highest
/// id nor the expiry changes, and what has expired stays expired.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct ReplayWindow {
    highest: u32,
    floor: u32,
    /// Time of the last accepted id plus 30 s.
    expiry: Millis,
    /// One bit per id, at the id modulo 2048: the ids in the window never share a bit, and nothing is ever shifted.
    seen: [u64; WORDS],
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self::new()
    }
}

impl ReplayWindow {
    /// The window of a key that has received nothing.
    pub const fn new() -> Self {
        ReplayWindow {
            highest: 0,
            floor: 0,
            expiry: Millis(0),
            seen: [0; WORDS],
        }
    }

    /// Whether `id` would be accepted at `now`. Changes nothing, so it may be asked about ids that are not
    /// authentic.
    ///
    /// # Errors
    /// Why the id would be refused.
    #[inline]
    pub fn check(&self, id: u32, now: Millis) -> Result<(), Replay> {
        if id > self.highest {
            return Ok(());
        }
        self.check_late(id, now)
    }

    fn check_late(&self, id: u32, now: Millis) -> Result<(), Replay> {
        if id == 0 {
            return Err(Replay::Zero);
        }
        if self.highest - id >= WINDOW || id <= self.floor_at(now) {
            return Err(Replay::TooOld);
        }
        if self.seen[word(id)] & bit(id) != 0 {
            return Err(Replay::Duplicate);
        }
        Ok(())
    }

    /// Accepts the id of an authentic record that arrived at `now`, or refuses it and changes nothing. This
    /// looks at everything that [`ReplayWindow::check`] does: of two equal ids the second is refused.
    ///
    /// # Errors
    /// Why the id is refused.
    #[inline]
    pub fn commit(&mut self, proof: Authentic, now: Millis) -> Result<(), Replay> {
        let id = proof.packet_id();
        self.check(id, now)?;
        self.floor = self.floor_at(now);
        self.expiry = Millis(now.0.saturating_add(EXPIRY_MS));
        if id > self.highest {
            if id - self.highest > 1 {
                self.forget(self.highest + 1, id - self.highest - 1);
            }
            self.highest = id;
        }
        self.seen[word(id)] |= bit(id);
        Ok(())
    }

    /// The highest id accepted so far; 0 when there was none.
    #[inline]
    pub fn highest(&self) -> u32 {
        self.highest
    }

    #[inline]
    fn floor_at(&self, now: Millis) -> u32 {
        if now >= self.expiry {
            self.highest
        } else {
            self.floor
        }
    }

    /// Clears the bits of `count` ids from `first` on: those skipped by a jump, whose bits are still those of
    /// ids 2048 before them.
    #[cold]
    fn forget(&mut self, first: u32, count: u32) {
        if count >= WINDOW - 1 {
            self.seen = [0; WORDS];
            return;
        }
        let (mut id, mut left) = (first, count);
        while left > 0 {
            let run = left.min(64 - id % 64);
            self.seen[word(id)] &= !((u64::MAX >> (64 - run)) << (id % 64));
            id += run;
            left -= run;
        }
    }
}

#[inline]
fn word(id: u32) -> usize {
    (id / 64) as usize % WORDS
}

#[inline]
fn bit(id: u32) -> u64 {
    1 << (id % 64)
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

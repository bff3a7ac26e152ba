//! Stage 5 and 7: the replay window, read before the record is opened and moved after. Drops: `replay_zero`,
//! `replay_old`, `replay_duplicate`.

use crate::verdict::DropReason;
use nf_state::{Authentic, Millis, Replay, ReplayWindow};

/// A packet id that the window had not seen when it was asked: worth opening the record for.
#[derive(Debug)]
pub struct Fresh {
    wire: [u8; 4],
}

impl Fresh {
    /// The packet id as on the wire.
    #[inline]
    pub fn wire(&self) -> [u8; 4] {
        self.wire
    }
}

/// Proof that a record is authentic and its packet id is used for the first time.
#[derive(Debug)]
pub struct Accepted(());

/// Asks the window about a packet id; moves nothing, so a forged id leaves no trace.
#[inline]
pub fn check(window: &ReplayWindow, wire: [u8; 4], now: Millis) -> Result<Fresh, DropReason> {
    window.check(u32::from_be_bytes(wire), now).map_err(reason)?;
    Ok(Fresh { wire })
}

/// Enters an authentic packet id. Of two equal ids in one batch the second fails here.
#[inline]
pub fn commit(window: &mut ReplayWindow, authentic: Authentic, now: Millis) -> Result<Accepted, DropReason> {
    window.commit(authentic, now).map_err(reason)?;
    Ok(Accepted(()))
}

#[cold]
fn reason(replay: Replay) -> DropReason {
    match replay {
        Replay::Zero => DropReason::ReplayZero,
        Replay::TooOld => DropReason::ReplayOld,
        Replay::Duplicate => DropReason::ReplayDuplicate,
    }
}

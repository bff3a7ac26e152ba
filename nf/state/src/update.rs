//! What the control side asks of a worker, and what the worker hands back.

use std::{fmt, net::IpAddr, sync::Arc};

use ipnet::IpNet;

use crate::{KeySlot, Peer, Slot, TableError};

/// How far the opening stage looks ahead of the record that it is opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lookahead {
    /// Records ahead, 0 (off) to [`Lookahead::MAX_DISTANCE`].
    pub distance: u8,
    /// Where it ends.
    pub scope: Scope,
}

/// Where the lookahead ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// At the end of the burst: it goes on from one batch into the next.
    #[default]
    Burst,
    /// At the end of the batch.
    Batch,
}

/// A lookahead distance above [`Lookahead::MAX_DISTANCE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lookahead distance {0} is too far: 0 to {max}", max = Lookahead::MAX_DISTANCE)]
pub struct LookaheadTooFar(pub u8);

impl Lookahead {
    /// More than this overruns the line fill buffers and evicts what it fetched.
    pub const MAX_DISTANCE: u8 = 16;

    /// A lookahead over `distance` records.
    ///
    /// # Errors
    /// [`LookaheadTooFar`].
    pub const fn new(distance: u8, scope: Scope) -> Result<Self, LookaheadTooFar> {
        if distance > Self::MAX_DISTANCE {
            return Err(LookaheadTooFar(distance));
        }
        Ok(Lookahead { distance, scope })
    }
}

impl Default for Lookahead {
    /// Two records, over the whole burst.
    fn default() -> Self {
        Lookahead {
            distance: 2,
            scope: Scope::Burst,
        }
    }
}

/// A change that the control side sends to one lcore, whose worker applies it between two bursts.
/// [`crate::PeerTable::apply`] takes all but the last four.
pub enum Update<K> {
    /// Adds a peer, or replaces the one with the same id.
    AddPeer(Box<Peer<K>>),
    /// Removes a peer and its keys.
    RemovePeer(u32),
    /// Puts a key into a slot.
    InstallKey {
        /// Peer id.
        peer: u32,
        /// Where to.
        slot: Slot,
        /// The key.
        key: Arc<KeySlot<K>>,
    },
    /// Exchanges primary and secondary key.
    SwapKeys(u32),
    /// Empties a slot.
    RemoveKey {
        /// Peer id.
        peer: u32,
        /// Which one.
        slot: Slot,
    },
    /// Binds a peer to an outer source address and port, for records whose peer id is undefined.
    BindAddress {
        /// Peer id.
        peer: u32,
        /// IP address and UDP port.
        address: (IpAddr, u16),
    },
    /// Gives an inner prefix to a peer in the source-check table, whoever had it.
    AddRoute {
        /// Peer id.
        peer: u32,
        /// The prefix; host bits are ignored.
        prefix: IpNet,
    },
    /// Takes an inner prefix away from a peer; no error when another one has it by now.
    RemoveRoute {
        /// Peer id.
        peer: u32,
        /// The prefix; host bits are ignored.
        prefix: IpNet,
    },
    /// Turns batching on or off.
    SetBatch(bool),
    /// Changes the lookahead.
    SetLookahead(Lookahead),
}

impl<K> fmt::Debug for Update<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Update::AddPeer(peer) => f.debug_tuple("AddPeer").field(peer).finish(),
            Update::RemovePeer(id) => f.debug_tuple("RemovePeer").field(id).finish(),
            Update::InstallKey { peer, slot, key } => f
                .debug_tuple("InstallKey")
                .field(peer)
                .field(slot)
                .field(key)
                .finish(),
            Update::SwapKeys(id) => f.debug_tuple("SwapKeys").field(id).finish(),
            Update::RemoveKey { peer, slot } => f.debug_tuple("RemoveKey").field(peer).field(slot).finish(),
            Update::BindAddress { peer, address } => {
                f.debug_tuple("BindAddress").field(peer).field(address).finish()
            }
            Update::AddRoute { peer, prefix } => f.debug_tuple("AddRoute").field(peer).field(prefix).finish(),
            Update::RemoveRoute { peer, prefix } => {
                f.debug_tuple("RemoveRoute").field(peer).field(prefix).finish()
            }
            Update::SetBatch(on) => f.debug_tuple("SetBatch").field(on).finish(),
            Update::SetLookahead(ahead) => f.debug_tuple("SetLookahead").field(ahead).finish(),
        }
    }
}

/// What a worker no longer uses. It goes back to the control side, which drops it: zeroising and freeing keys is no work
/// for a worker.
#[must_use = "dropping it here would zeroise and free keys on the fast path"]
pub enum Retired<K> {
    /// A peer that was removed or replaced.
    Peer(Peer<K>),
    /// A key that was removed or replaced.
    Key(Arc<KeySlot<K>>),
}

impl<K> fmt::Debug for Retired<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Retired::Peer(peer) => peer.fmt(f),
            Retired::Key(key) => key.fmt(f),
        }
    }
}

/// An update that was not made. It carries the update back, so that the control side drops what is in it.
pub struct Rejected<K> {
    /// Why.
    pub reason: TableError,
    /// The update, as it was sent.
    pub update: Update<K>,
}

impl<K> fmt::Debug for Rejected<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected")
            .field("reason", &self.reason)
            .field("update", &self.update)
            .finish()
    }
}

impl<K> fmt::Display for Rejected<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<K> std::error::Error for Rejected<K> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookahead_is_two_over_the_burst_and_at_most_sixteen() {
        assert_eq!(Lookahead::new(2, Scope::Burst), Ok(Lookahead::default()));
        assert!((0..=16).all(|d| Lookahead::new(d, Scope::Batch).is_ok()));
        let error = Lookahead::new(17, Scope::Batch).expect_err("17").to_string();
        assert_eq!(error, "lookahead distance 17 is too far: 0 to 16");
    }

    #[test]
    fn what_crosses_threads_is_send() {
        fn is_send<T: Send>() {}
        is_send::<Update<u8>>();
        is_send::<Retired<u8>>();
        is_send::<Rejected<u8>>();
        is_send::<crate::PeerTable<u8>>();
        is_send::<crate::Routes>();
    }
}

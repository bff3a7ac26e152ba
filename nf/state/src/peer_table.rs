//! From a peer id, or an outer source address, to the peer.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use nf_wire::record::PEER_ID_UNDEFINED;
use slab::Slab;

use crate::{KeySlot, Peer, Rejected, Retired, Update};

const PAGE_BITS: u32 = 12;
const PAGE_LEN: usize = 1 << PAGE_BITS;
const DIRECTORY_LEN: usize = 1 << (24 - PAGE_BITS);
/// Beyond the end of every slab, so that looking it up finds nothing.
const ABSENT: u32 = u32::MAX;

type Page = [u32; PAGE_LEN];

/// Why a table cannot be changed as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// 0xffffff means "undefined", and an id has 24 bits.
    #[error("peer id {0:#x} is out of range: 0 to 0xfffffe")]
    IdOutOfRange(u32),
    /// There is no such peer.
    #[error("no peer with id {0}")]
    NoSuchPeer(u32),
    /// An address finds one peer only.
    #[error("address {}:{} of peer {peer} is held by peer {holder}", address.0, address.1)]
    AddressHeld {
        /// Who wants the address.
        peer: u32,
        /// Who has it.
        holder: u32,
        /// IP address and port.
        address: (IpAddr, u16),
    },
    /// The update is about the worker, not about its table.
    #[error("not an update of the peer table")]
    NotForTable,
}

/// The peers of one lcore. A peer id of 24 bits finds its peer in two dependent loads: a directory of 4096 pages and a
/// page of 4096 places; ids need not be dense. Pages are allocated when first used and stay.
pub struct PeerTable<K> {
    directory: Box<[Option<Box<Page>>]>,
    peers: Slab<Peer<K>>,
    /// Source addresses come from the network: a keyed hash, as the standard map has, keeps its buckets short.
    by_address: HashMap<(IpAddr, u16), u32>,
    addresses: HashMap<u32, (IpAddr, u16)>,
}

impl<K> Default for PeerTable<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> PeerTable<K> {
    /// An empty table.
    pub fn new() -> Self {
        PeerTable {
            directory: std::iter::repeat_with(|| None).take(DIRECTORY_LEN).collect(),
            peers: Slab::new(),
            by_address: HashMap::new(),
            addresses: HashMap::new(),
        }
    }

    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        let page = self.directory.get((id >> PAGE_BITS) as usize)?.as_ref()?;
        Some(page[id as usize % PAGE_LEN] as usize)
    }

    /// The peer with this id.
    #[inline]
    pub fn get(&self, id: u32) -> Option<&Peer<K>> {
        self.peers.get(self.place(id)?)
    }

    /// The peer with this id, for changing it.
    #[inline]
    pub fn get_mut(&mut self, id: u32) -> Option<&mut Peer<K>> {
        let place = self.place(id)?;
        self.peers.get_mut(place)
    }

    /// Adds a peer. One with the same id is taken out first, with the address bound to it, and returned.
    ///
    /// # Errors
    /// [`TableError::IdOutOfRange`]; the peer is dropped then.
    pub fn insert(&mut self, peer: Peer<K>) -> Result<Option<Peer<K>>, TableError> {
        let id = peer.id;
        check_id(id)?;
        let old = self.remove(id);
        let place = self.peers.insert(peer) as u32;
        let page = &mut self.directory[(id >> PAGE_BITS) as usize];
        page.get_or_insert_with(|| Box::new([ABSENT; PAGE_LEN]))[id as usize % PAGE_LEN] = place;
        Ok(old)
    }

    /// Takes a peer out, with the address bound to it.
    pub fn remove(&mut self, id: u32) -> Option<Peer<K>> {
        let page = self.directory.get_mut((id >> PAGE_BITS) as usize)?.as_mut()?;
        let place = std::mem::replace(&mut page[id as usize % PAGE_LEN], ABSENT);
        let peer = self.peers.try_remove(place as usize)?;
        self.unbind_address(id);
        Some(peer)
    }

    /// The id of the peer bound to exactly this outer source address and port: for records whose peer id is undefined.
    #[inline]
    pub fn by_address(&self, address: &(IpAddr, u16)) -> Option<u32> {
        self.by_address.get(address).copied()
    }

    /// Binds a peer to an outer address and port, instead of the one that it was bound to.
    ///
    /// # Errors
    /// [`TableError::NoSuchPeer`], or [`TableError::AddressHeld`] by another peer; nothing has changed then.
    pub fn bind_address(&mut self, id: u32, address: (IpAddr, u16)) -> Result<(), TableError> {
        self.check_peer(id)?;
        match self.by_address(&address) {
            Some(holder) if holder == id => return Ok(()),
            Some(holder) => {
                return Err(TableError::AddressHeld {
                    peer: id,
                    holder,
                    address,
                });
            }
            None => self.unbind_address(id),
        }
        self.by_address.insert(address, id);
        self.addresses.insert(id, address);
        Ok(())
    }

    fn check_peer(&self, id: u32) -> Result<(), TableError> {
        self.get(id).map(|_| ()).ok_or(TableError::NoSuchPeer(id))
    }

    fn unbind_address(&mut self, id: u32) {
        if let Some(address) = self.addresses.remove(&id) {
            self.by_address.remove(&address);
        }
    }

    /// All peers, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Peer<K>> {
        self.peers.iter().map(|(_, peer)| peer)
    }

    /// Number of peers.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Whether there is no peer.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Makes one change that the control side asked for. For the worker between two bursts: it may allocate. What is no
    /// longer in use comes back, for the control side to drop.
    ///
    /// # Errors
    /// [`Rejected`] with the update in it, whose key or peer is not dropped here either. Routes, [`Update::SetBatch`]
    /// and [`Update::SetLookahead`] are not the table's and rejected as [`TableError::NotForTable`].
    pub fn apply(&mut self, update: Update<K>) -> Result<Option<Retired<K>>, Rejected<K>> {
        let fits = match &update {
            Update::AddPeer(peer) => check_id(peer.id),
            Update::RemovePeer(peer) | Update::SwapKeys(peer) => self.check_peer(*peer),
            Update::InstallKey { peer, .. } | Update::RemoveKey { peer, .. } => self.check_peer(*peer),
            Update::BindAddress { peer, address } => self.bind_address(*peer, *address),
            Update::AddRoute { .. }
            | Update::RemoveRoute { .. }
            | Update::SetBatch(_)
            | Update::SetLookahead(_) => Err(TableError::NotForTable),
        };
        if let Err(reason) = fits {
            return Err(Rejected { reason, update });
        }
        Ok(match update {
            // Its id is in range, so there is no error to lose.
            Update::AddPeer(peer) => self.insert(*peer).ok().flatten().map(Retired::Peer),
            Update::RemovePeer(id) => self.remove(id).map(Retired::Peer),
            keys => self.apply_to_keys(keys).map(Retired::Key),
        })
    }

    fn apply_to_keys(&mut self, update: Update<K>) -> Option<Arc<KeySlot<K>>> {
        match update {
            Update::InstallKey { peer, slot, key } => self.get_mut(peer)?.keys.install(slot, key),
            Update::RemoveKey { peer, slot } => self.get_mut(peer)?.keys.remove(slot),
            Update::SwapKeys(peer) => {
                self.get_mut(peer)?.keys.swap();
                None
            }
            _ => None,
        }
    }
}

fn check_id(id: u32) -> Result<(), TableError> {
    if id < PEER_ID_UNDEFINED {
        Ok(())
    } else {
        Err(TableError::IdOutOfRange(id))
    }
}

#[cfg(test)]
mod tests;

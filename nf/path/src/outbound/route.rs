//! Stage 2: whose packet is it, and who seals it? Drops: `unknown_mac`, `broadcast`, `multicast`.
//!
//! The kernel's routes have chosen the next hop, and its neighbour table has put the peer's MAC address
//! ([`ether::peer_mac`]) into the frame. In [`Mode::P2p`] the address says nothing: there is one peer.

use super::Lcores;
use crate::tunnel::{Mode, Tunnel};
use crate::verdict::DropReason;
use nf_state::Peer;
use nf_wire::ether::{self, Mac};

/// The lcore, of `lcores`, that seals for a peer. Peers with ids in a row are spread evenly, and so are most others.
#[inline]
pub fn owner(peer: u32, lcores: u8) -> u8 {
    // Fibonacci hashing: multiples of the golden ratio lie evenly over the circle (Knuth, TAOCP vol. 3, 6.4).
    let spread = peer.wrapping_mul(0x9e37_79b9);
    ((u64::from(spread) * u64::from(lcores)) >> 32) as u8
}

/// Where a packet goes.
#[derive(Debug)]
pub enum To<'t, K> {
    /// It is sealed here for this peer.
    Peer(&'t Peer<K>),
    /// Another lcore seals for its peer.
    Lcore(u8),
}

impl<K> Clone for To<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for To<'_, K> {}

/// Finds peers by destination MAC addresses, and remembers the last one.
pub struct Router<'t, K> {
    tunnel: &'t Tunnel<K>,
    lcores: Lcores,
    /// What of a destination matters.
    mask: u64,
    last: u64,
    to: Option<To<'t, K>>,
}

impl<'t, K> Router<'t, K> {
    /// A router for the frames of one tunnel.
    pub fn new(tunnel: &'t Tunnel<K>, lcores: Lcores) -> Self {
        let mask = match tunnel.mode {
            Mode::Mp => 0xffff_ffff_ffff,
            Mode::P2p => 0,
        };
        Router {
            tunnel,
            lcores,
            mask,
            last: 0,
            to: None,
        }
    }

    /// Where a frame goes.
    ///
    /// # Errors
    /// [`DropReason::UnknownMac`], also while there is no peer in [`Mode::P2p`]; [`DropReason::Broadcast`];
    /// [`DropReason::Multicast`]; [`DropReason::TunnelLength`] for less than an Ethernet header.
    #[inline(always)]
    pub fn route(&mut self, frame: &[u8]) -> Result<To<'t, K>, DropReason> {
        let Some(header) = frame.first_chunk::<{ ether::HEADER_LEN }>() else {
            return Err(DropReason::TunnelLength);
        };
        let [a, b, c, d, e, f, ..] = *header;
        let dst = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) & self.mask;
        match self.to {
            Some(to) if dst == self.last => Ok(to),
            _ => self.find(dst, [a, b, c, d, e, f]),
        }
    }

    #[inline]
    fn find(&mut self, dst: u64, mac: Mac) -> Result<To<'t, K>, DropReason> {
        let peer = match self.tunnel.mode {
            Mode::P2p => self.tunnel.only_peer(),
            Mode::Mp => {
                let id = u32::from_be_bytes([0, mac[3], mac[4], mac[5]]);
                self.tunnel.peers.get(id).filter(|_| ether::peer_mac(id) == mac)
            }
        };
        let peer = peer.ok_or_else(|| self.nobody(mac))?;
        let lcore = owner(peer.id, self.lcores.count);
        let to = if self.tunnel.spread || self.lcores.count < 2 || lcore == self.lcores.me {
            To::Peer(peer)
        } else {
            To::Lcore(lcore)
        };
        (self.last, self.to) = (dst, Some(to));
        Ok(to)
    }

    #[cold]
    fn nobody(&self, mac: Mac) -> DropReason {
        match (self.tunnel.mode, mac) {
            (Mode::Mp, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => DropReason::Broadcast,
            (Mode::Mp, [first, ..]) if first & 1 != 0 => DropReason::Multicast,
            _ => DropReason::UnknownMac,
        }
    }
}

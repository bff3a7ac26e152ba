//! Which peer an inner address belongs to.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

/// A prefix is held by another peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{prefix} of peer {peer} is held by peer {holder}")]
pub struct Conflict {
    /// The prefix, without host bits.
    pub prefix: IpNet,
    /// Who wants it.
    pub peer: u32,
    /// Who has it.
    pub holder: u32,
}

/// Longest-prefix table from an inner address to a peer id. For an inner source this is the reverse-path check: the
/// answer must be the peer that the record came from.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    v4: PrefixMap<Ipv4Net, u32>,
    v6: PrefixMap<Ipv6Net, u32>,
    /// How many prefixes each peer has, so that the maps are searched only for peers that have some.
    held: HashMap<u32, u32>,
}

impl Routes {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives `prefix` to `peer`; host bits are ignored. A longer or shorter prefix of another peer is no conflict.
    ///
    /// # Errors
    /// [`Conflict`] when another peer has the same prefix; nothing has changed then.
    pub fn insert(&mut self, prefix: IpNet, peer: u32) -> Result<(), Conflict> {
        let prefix = prefix.trunc();
        match self.holder(prefix) {
            None => {
                self.set(prefix, peer);
                Ok(())
            }
            Some(holder) if holder == peer => Ok(()),
            Some(holder) => Err(Conflict { prefix, peer, holder }),
        }
    }

    /// Gives `prefix` to `peer`, whoever had it; host bits are ignored. Returns who had it.
    pub fn set(&mut self, prefix: IpNet, peer: u32) -> Option<u32> {
        let before = match prefix.trunc() {
            IpNet::V4(net) => self.v4.insert(net, peer),
            IpNet::V6(net) => self.v6.insert(net, peer),
        };
        before.into_iter().for_each(|holder| self.one_less(holder));
        *self.held.entry(peer).or_default() += 1;
        before
    }

    /// Who has exactly this prefix, which has no host bits.
    fn holder(&self, prefix: IpNet) -> Option<u32> {
        match prefix {
            IpNet::V4(net) => self.v4.get(&net).copied(),
            IpNet::V6(net) => self.v6.get(&net).copied(),
        }
    }

    fn one_less(&mut self, peer: u32) {
        if let Some(left) = self.held.get_mut(&peer) {
            *left -= 1;
            if *left == 0 {
                self.held.remove(&peer);
            }
        }
    }

    /// Takes `prefix` away from `peer`; host bits are ignored. False, and nothing changed, when the peer does not have
    /// it: another one may have got it in the meantime.
    pub fn remove(&mut self, prefix: IpNet, peer: u32) -> bool {
        let prefix = prefix.trunc();
        if self.holder(prefix) != Some(peer) {
            return false;
        }
        match prefix {
            IpNet::V4(net) => self.v4.remove(&net),
            IpNet::V6(net) => self.v6.remove(&net),
        };
        self.one_less(peer);
        true
    }

    /// Takes away all prefixes of a peer.
    pub fn remove_peer(&mut self, peer: u32) {
        if self.held.remove(&peer).is_none() {
            return;
        }
        self.v4.retain(|_, holder| *holder != peer);
        self.v6.retain(|_, holder| *holder != peer);
    }

    /// The peer with the longest prefix of an IPv4 address in network order.
    #[inline]
    pub fn lookup_v4(&self, address: [u8; 4]) -> Option<u32> {
        let host = Ipv4Net::from(Ipv4Addr::from(address));
        self.v4.get_lpm(&host).map(|(_, peer)| *peer)
    }

    /// The peer with the longest prefix of an IPv6 address in network order.
    #[inline]
    pub fn lookup_v6(&self, address: [u8; 16]) -> Option<u32> {
        let host = Ipv6Net::from(Ipv6Addr::from(address));
        self.v6.get_lpm(&host).map(|(_, peer)| *peer)
    }
}

#[cfg(test)]
mod tests;

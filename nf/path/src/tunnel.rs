//! One tunnel as one lcore sees it.

use nf_state::{Peer, PeerTable, Rejected, Retired, Routes, TableError, Update};
use nf_wire::ether::Mac;

/// How many peers a tunnel has (`OVPN_MODE_*` of the Linux `ovpn` driver).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Many: the destination MAC address of a frame names one.
    #[default]
    Mp,
    /// One, which gets everything.
    P2p,
}

/// The largest TCP MSS (RFC 9293, 3.7.1) that an inner packet may announce, in bytes, by the outer and the inner IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MssClamp {
    /// `max[outer is IPv6][inner is IPv6]`.
    pub max: [[u16; 2]; 2],
}

/// One tunnel as one lcore sees it.
pub struct Tunnel<K> {
    /// Its peers.
    pub peers: PeerTable<K>,
    /// Whose inner addresses are whose: the peers' own, the networks behind them.
    pub routes: Routes,
    /// Whether an inner source must belong to the peer that it came from.
    pub source_check: bool,
    /// The MAC address of the tunnel interface.
    pub interface: Mac,
    /// One peer or many.
    pub mode: Mode,
    /// Clamps the MSS of TCP connections in both directions; None: no clamp.
    pub mss: Option<MssClamp>,
    /// Whether any lcore may seal for any peer. If not, a peer's packets are sealed on one.
    pub spread: bool,
}

impl<K> Tunnel<K> {
    /// A tunnel without peers: many of them possible, no source check, no clamp, not spread.
    pub fn new(interface: Mac) -> Self {
        Tunnel {
            peers: PeerTable::new(),
            routes: Routes::new(),
            source_check: false,
            interface,
            mode: Mode::Mp,
            mss: None,
            spread: false,
        }
    }

    /// The one peer of a tunnel in [`Mode::P2p`]; None while there is none.
    pub fn only_peer(&self) -> Option<&Peer<K>> {
        self.peers.iter().next()
    }

    /// Makes one change that the control side asked for, between two bursts. What is no longer in use comes back, for
    /// the control side to drop.
    ///
    /// # Errors
    /// [`Rejected`] with the update in it.
    pub fn apply(&mut self, update: Update<K>) -> Result<Option<Retired<K>>, Rejected<K>> {
        match update {
            Update::AddRoute { peer, prefix } => {
                if self.peers.get(peer).is_none() {
                    let reason = TableError::NoSuchPeer(peer);
                    return Err(Rejected { reason, update });
                }
                self.routes.set(prefix, peer);
                Ok(None)
            }
            Update::RemoveRoute { peer, prefix } => {
                self.routes.remove(prefix, peer);
                Ok(None)
            }
            Update::RemovePeer(id) => {
                let retired = self.peers.apply(update)?;
                self.routes.remove_peer(id);
                Ok(retired)
            }
            update => self.peers.apply(update),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nf_state::Addresses;

    fn tunnel() -> Tunnel<()> {
        let mut tunnel = Tunnel::new([0; 6]);
        for id in [1, 2] {
            let peer = Box::new(Peer::new(id, Addresses::default()));
            assert!(tunnel.apply(Update::AddPeer(peer)).unwrap().is_none());
        }
        tunnel
    }

    fn holder(tunnel: &Tunnel<()>) -> Option<u32> {
        tunnel.routes.lookup_v4([10, 77, 0, 1])
    }

    #[test]
    fn routes_come_move_and_go() {
        let mut tunnel = tunnel();
        let prefix = "10.77.0.0/24".parse().unwrap();
        assert!(tunnel.apply(Update::AddRoute { peer: 1, prefix }).is_ok());
        assert_eq!(holder(&tunnel), Some(1));
        assert!(tunnel.apply(Update::AddRoute { peer: 2, prefix }).is_ok());
        assert!(tunnel.apply(Update::RemoveRoute { peer: 1, prefix }).is_ok());
        assert_eq!(holder(&tunnel), Some(2));
        let unknown = tunnel.apply(Update::AddRoute { peer: 3, prefix }).unwrap_err();
        assert_eq!(unknown.reason, TableError::NoSuchPeer(3));
    }

    #[test]
    fn a_peers_routes_go_with_it() {
        let mut tunnel = tunnel();
        let prefix = "10.0.0.0/8".parse().unwrap();
        assert!(tunnel.apply(Update::AddRoute { peer: 2, prefix }).is_ok());
        assert!(matches!(
            tunnel.apply(Update::RemovePeer(2)),
            Ok(Some(Retired::Peer(_)))
        ));
        assert_eq!(holder(&tunnel), None);
        assert_eq!(tunnel.only_peer().map(|p| p.id), Some(1));
    }
}

//! What the control side knows of every peer. The workers' tables are made of it.

mod entry;
mod slots;

pub use entry::{Driven, Entry, PeerTotals};
pub use slots::HeldKeys;

use crate::program::run::keys::HeldKey;
use nf_control::dco::PeerState;
use nf_state::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Names a peer: index of the tunnel, peer id.
pub type PeerRef = (u8, u32);

/// The peers of one tunnel.
pub struct TunnelPeers {
    /// The tunnel interface's name.
    pub interface: String,
    /// By peer id.
    pub peers: BTreeMap<u32, Entry>,
    /// What the workers' tables hold now: inner prefix to peer.
    pub routes: BTreeMap<IpNet, u32>,
    /// Peers of a daemon that are gone by themselves, as they were last, until the daemon removes them: it may not have
    /// read yet that they are.
    pub gone: BTreeMap<u32, PeerState>,
}

impl TunnelPeers {
    /// Without peers.
    pub fn new(interface: &str) -> TunnelPeers {
        TunnelPeers {
            interface: interface.into(),
            peers: BTreeMap::new(),
            routes: BTreeMap::new(),
            gone: BTreeMap::new(),
        }
    }

    /// The peer with this VPN address.
    pub fn by_vpn_address(&self, address: IpAddr) -> Option<u32> {
        let has = |e: &&Entry| e.addresses.contains(&address);
        self.peers.values().find(has).map(|e| e.id)
    }
}

/// All peers of the gateway.
pub struct Registry {
    /// In the order of the configuration.
    pub tunnels: Vec<TunnelPeers>,
}

impl Registry {
    /// One peer.
    pub fn get(&self, (tunnel, id): PeerRef) -> Option<&Entry> {
        self.tunnels.get(usize::from(tunnel))?.peers.get(&id)
    }

    /// One peer, to be changed.
    pub fn get_mut(&mut self, (tunnel, id): PeerRef) -> Option<&mut Entry> {
        self.tunnels.get_mut(usize::from(tunnel))?.peers.get_mut(&id)
    }

    /// All peers.
    pub fn iter(&self) -> impl Iterator<Item = (PeerRef, &Entry)> + Clone {
        (0u8..)
            .zip(&self.tunnels)
            .flat_map(|(t, tunnel)| tunnel.peers.values().map(move |e| ((t, e.id), e)))
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &HeldKey> + Clone {
        self.iter().flat_map(|(_, e)| e.keys.iter())
    }

    /// For log lines: "peer 3 of ovpn0".
    pub fn name(&self, (tunnel, id): PeerRef) -> String {
        let interface = self
            .tunnels
            .get(usize::from(tunnel))
            .map_or("?", |t| &t.interface);
        format!("peer {id} of {interface}")
    }
}

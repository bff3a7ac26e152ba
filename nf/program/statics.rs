//! Static peers: what keys file and configuration say, as tables for each worker.

use crate::program::exit::Failure;
use lcore::Imb;
use lcore::imb::Key;
use nf_control::{KeyMaterial, KeysFile, StaticKey, Tunnel as TunnelConfig};
use nf_path::inbound::Tunnel;
use nf_state::{Addresses, Direction, IpNet, KeySlot, Peer, PeerCounters, PeerTable, Routes};
use nf_wire::ether::Mac;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// One peer that the daemon did not tell of.
pub struct StaticPeer {
    /// Peer id.
    pub id: u32,
    /// Primary and secondary key, shared by all workers.
    keys: Vec<Arc<KeySlot<Key>>>,
    remote: Option<SocketAddr>,
    addresses: Vec<IpAddr>,
    networks: Vec<IpNet>,
}

/// A tunnel's static peers.
pub struct StaticPeers {
    /// In order of first appearance.
    pub peers: Vec<StaticPeer>,
    source_check: bool,
}

/// One worker's table, and the counters that this worker writes for each peer.
pub struct Table {
    /// For the worker.
    pub tunnel: Tunnel<Key>,
    /// Peer id and counters, for readers.
    pub counters: Vec<(u32, Arc<PeerCounters>)>,
}

impl StaticPeers {
    /// Expands the keys of a keys file. `config` gives the peers' addresses and networks; without it there is no
    /// source check.
    pub fn new(imb: &Imb, keys: Option<&KeysFile>, config: Option<&TunnelConfig>) -> Result<Self, Failure> {
        let mut peers: Vec<StaticPeer> = config
            .iter()
            .flat_map(|c| &c.peers)
            .map(|p| StaticPeer {
                id: p.id,
                keys: Vec::new(),
                remote: p.remote,
                addresses: p.addresses.clone(),
                networks: p.networks.clone(),
            })
            .collect();
        for key in keys.iter().flat_map(|k| &k.keys) {
            let slot = slot(imb, key)?;
            match peers.iter_mut().find(|p| p.id == key.peer_id) {
                Some(peer) => {
                    peer.keys.push(slot);
                    peer.remote = peer.remote.or(key.remote);
                }
                None => peers.push(StaticPeer {
                    id: key.peer_id,
                    keys: vec![slot],
                    remote: key.remote,
                    addresses: Vec::new(),
                    networks: Vec::new(),
                }),
            }
        }
        Ok(StaticPeers {
            peers,
            source_check: config.is_some_and(|c| c.source_check),
        })
    }

    /// A table for one worker. `interface`: the tunnel interface's MAC address.
    pub fn table(&self, interface: Mac) -> Result<Table, Failure> {
        let mut table = PeerTable::new();
        let mut sources = Routes::default();
        let mut counters = Vec::new();
        for config in &self.peers {
            let peer = config.peer();
            counters.push((config.id, peer.counters.clone()));
            table.insert(peer).map_err(Failure::usage)?;
            if let Some(remote) = config.remote {
                table
                    .bind_address(config.id, (remote.ip(), remote.port()))
                    .map_err(Failure::usage)?;
            }
            for network in config
                .addresses
                .iter()
                .map(|a| IpNet::from(*a))
                .chain(config.networks.clone())
            {
                sources.insert(network, config.id).map_err(Failure::usage)?;
            }
        }
        let sources = self.source_check.then_some(sources);
        Ok(Table {
            tunnel: Tunnel {
                peers: table,
                sources,
                interface,
            },
            counters,
        })
    }
}

impl StaticPeer {
    fn peer(&self) -> Peer<Key> {
        let v4 = self.addresses.iter().find_map(|a| match a {
            IpAddr::V4(a) => Some(*a),
            IpAddr::V6(_) => None,
        });
        let v6 = self.addresses.iter().find_map(|a| match a {
            IpAddr::V6(a) => Some(*a),
            IpAddr::V4(_) => None,
        });
        let mut peer = Peer::new(self.id, Addresses { v4, v6 });
        let mut keys = self.keys.iter().cloned();
        if let Some(key) = keys.next() {
            let _ = peer.keys.install_primary(key);
        }
        if let Some(key) = keys.next() {
            let _ = peer.keys.install_secondary(key);
        }
        peer
    }
}

fn slot(imb: &Imb, key: &StaticKey) -> Result<Arc<KeySlot<Key>>, Failure> {
    let direction = |material: &KeyMaterial| {
        let expanded = Key::expand(imb, key.cipher, &material.key).map_err(Failure::machine)?;
        Ok(Direction {
            key: expanded,
            nonce_tail: *material.nonce_tail,
        })
    };
    Ok(KeySlot::new(
        key.cipher,
        key.key_id,
        direction(&key.decrypt)?,
        direction(&key.encrypt)?,
    ))
}

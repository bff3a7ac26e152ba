//! Static peers: what keys file and configuration say of each peer, laid together; and tables without a gateway.

use crate::program::exit::Failure;
use lcore::Imb;
use lcore::imb::Key;
use nf_control::{KeyMaterial, KeysFile, StaticKey, Tunnel as TunnelConfig};
use nf_path::tunnel::Tunnel;
use nf_state::{Addresses, Cipher, Direction, IpNet, KeySlot, PacketIds, Peer, PeerCounters};
use nf_wire::ether::Mac;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What is said of one static peer.
#[derive(Clone, Debug)]
pub struct StaticPeer<'k> {
    /// Peer id.
    pub id: u32,
    /// Primary and secondary key.
    pub keys: Vec<&'k StaticKey>,
    /// Its outer address and port.
    pub remote: Option<SocketAddr>,
    /// Our outer address and port towards it.
    pub local: Option<SocketAddr>,
    /// Its VPN addresses.
    pub addresses: Vec<IpAddr>,
    /// Networks behind it.
    pub networks: Vec<IpNet>,
    /// Seconds between keepalives and until it counts as gone.
    pub keepalive: Option<(u32, u32)>,
}

/// The static peers of a tunnel: the configuration's in their order, then those that only the keys file has. What the
/// configuration says wins.
pub fn static_peers<'k>(keys: Option<&'k KeysFile>, config: Option<&TunnelConfig>) -> Vec<StaticPeer<'k>> {
    let mut peers: Vec<StaticPeer> = config
        .iter()
        .flat_map(|c| &c.peers)
        .map(|p| StaticPeer {
            id: p.id,
            keys: Vec::new(),
            remote: p.remote,
            local: p.local,
            addresses: p.addresses.clone(),
            networks: p.networks.clone(),
            keepalive: p.keepalive,
        })
        .collect();
    for key in keys.iter().flat_map(|k| &k.keys) {
        match peers.iter_mut().find(|p| p.id == key.peer_id) {
            Some(peer) => {
                peer.keys.push(key);
                peer.remote = peer.remote.or(key.remote);
            }
            None => peers.push(StaticPeer {
                id: key.peer_id,
                keys: vec![key],
                remote: key.remote,
                local: None,
                addresses: Vec::new(),
                networks: Vec::new(),
                keepalive: None,
            }),
        }
    }
    peers
}

/// The first address of each family.
pub fn first_of_each_family(addresses: &[IpAddr]) -> Addresses {
    let v4 = addresses.iter().find_map(|a| match a {
        IpAddr::V4(a) => Some(*a),
        IpAddr::V6(_) => None,
    });
    let v6 = addresses.iter().find_map(|a| match a {
        IpAddr::V6(a) => Some(*a),
        IpAddr::V4(_) => None,
    });
    Addresses { v4, v6 }
}

/// Expands a static key, which sends under these packet ids.
pub fn slot(imb: &Imb, key: &StaticKey, ids: PacketIds) -> Result<Arc<KeySlot<Key>>, Failure> {
    expand(imb, (key.cipher, key.key_id), [&key.decrypt, &key.encrypt], ids)
}

/// Expands a key: what opens what is received, and what seals what is sent, under these packet ids.
pub fn expand(
    imb: &Imb,
    (cipher, key_id): (Cipher, u8),
    [open, seal]: [&KeyMaterial; 2],
    ids: PacketIds,
) -> Result<Arc<KeySlot<Key>>, Failure> {
    let direction = |material: &KeyMaterial| {
        let expanded = Key::expand(imb, cipher, &material.key).map_err(Failure::machine)?;
        Ok(Direction {
            key: expanded,
            nonce_tail: *material.nonce_tail,
        })
    };
    let (open, seal) = (direction(open)?, direction(seal)?);
    Ok(KeySlot::with_ids(cipher, key_id, open, seal, ids))
}

/// A tunnel's table by itself, and the counters of each peer: for reading captures, where nothing is sent.
pub struct Table {
    /// For the worker.
    pub tunnel: Tunnel<Key>,
    /// Peer id and counters, for readers.
    pub counters: Vec<(u32, Arc<PeerCounters>)>,
}

/// The table of all peers of a keys file, without source check. `interface`: the tunnel interface's MAC address.
pub fn table(imb: &Imb, keys: &KeysFile, interface: Mac) -> Result<Table, Failure> {
    let mut tunnel = Tunnel::new(interface);
    let mut counters = Vec::new();
    for spec in static_peers(Some(keys), None) {
        let mut peer = Peer::new(spec.id, Addresses::default());
        let mut slots = spec.keys.iter().map(|key| slot(imb, key, PacketIds::new()));
        if let Some(key) = slots.next() {
            let _ = peer.keys.install_primary(key?);
        }
        if let Some(key) = slots.next() {
            let _ = peer.keys.install_secondary(key?);
        }
        counters.push((spec.id, peer.counters.clone()));
        tunnel.peers.insert(peer).map_err(Failure::usage)?;
        if let Some(remote) = spec.remote {
            let bound = tunnel.peers.bind_address(spec.id, (remote.ip(), remote.port()));
            bound.map_err(Failure::usage)?;
        }
    }
    Ok(Table { tunnel, counters })
}

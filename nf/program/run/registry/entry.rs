//! A peer in use.

use super::HeldKeys;
use crate::program::run::listen::Socket;
use crate::program::statics::{StaticPeer, first_of_each_family};
use lcore::imb::Key;
use lcore::socket::ClientId;
use nf_control::dco::Family;
use nf_control::timers::Keepalive;
use nf_state::{Binding, Endpoint, IpNet, Millis, Peer, PeerCounters, Slot};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A peer in use.
pub struct Entry {
    /// Peer id.
    pub id: u32,
    /// VPN addresses.
    pub addresses: Vec<IpAddr>,
    /// Networks behind it, as configured.
    pub networks: Vec<IpNet>,
    /// Its timers, in seconds.
    pub keepalive: Option<(u32, u32)>,
    /// The remote that was configured; where it is now, the endpoint says.
    pub remote: Option<SocketAddr>,
    /// Our address towards it that was configured.
    pub local: Option<SocketAddr>,
    /// The id in the records that it gets.
    pub tx_id: u32,
    /// Primary and secondary key.
    pub keys: HeldKeys,
    /// Where it is, shared with the workers.
    pub endpoint: Arc<Endpoint>,
    /// By worker, which is the only writer.
    pub counters: Vec<Arc<PeerCounters>>,
    /// The remote that the workers' tables find it by, for records whose peer id is undefined.
    pub bound: Option<SocketAddr>,
    /// What only a daemon's peer has; None: it is static.
    pub driven: Option<Driven>,
}

/// What only a daemon's peer has.
#[derive(Clone, Debug)]
pub struct Driven {
    /// The connection that it came by, and goes with.
    pub connection: ClientId,
    /// The family that the daemon speaks.
    pub family: Family,
    /// The daemon's socket.
    pub socket: Socket,
    /// Where the daemon believes it to be.
    pub known: SocketAddr,
    /// When it moved last; None: it is where it was first.
    pub moved: Option<Instant>,
    /// Whether its control packets keep the daemon's idea of its address, once it has floated.
    pub translate: bool,
}

/// What one peer has sent and received, all workers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerTotals {
    /// Link: datagrams and their UDP payload, received and sent.
    pub link_rx: [u64; 2],
    /// The same of what was sent.
    pub link_tx: [u64; 2],
    /// Inner packets and their bytes, received.
    pub vpn_rx: [u64; 2],
    /// The same of what was sent.
    pub vpn_tx: [u64; 2],
    /// Keepalives received.
    pub keepalives_rx: u64,
    /// Keepalives sent.
    pub keepalives_tx: u64,
    /// When it was last heard; 0: never.
    pub last_recv: Millis,
    /// When it was last sent something; 0: never.
    pub last_sent: Millis,
}

impl Entry {
    /// A peer as specified, for so many workers. Bound to its remote, if that is known; `local` is the address that we
    /// have towards it.
    pub fn new(spec: &StaticPeer, keys: HeldKeys, local: Option<SocketAddr>, workers: usize) -> Entry {
        let endpoint = Arc::new(Endpoint::new());
        if let (Some(remote), Some(local)) = (spec.remote, local) {
            endpoint.set(&Binding {
                remote,
                local,
                way: None,
            });
        }
        Entry {
            id: spec.id,
            addresses: spec.addresses.clone(),
            networks: spec.networks.clone(),
            keepalive: spec.keepalive,
            remote: spec.remote,
            local: spec.local,
            tx_id: spec.id,
            keys,
            endpoint,
            counters: (0..workers).map(|_| Arc::default()).collect(),
            bound: None,
            driven: None,
        }
    }

    /// The peer for the table of one worker.
    pub fn peer(&self, worker: usize) -> Peer<Key> {
        let mut peer = Peer::new(self.id, first_of_each_family(&self.addresses));
        peer.counters = self.counters[worker].clone();
        peer.endpoint = self.endpoint.clone();
        peer.tx_id = self.tx_id;
        for slot in [Slot::Primary, Slot::Secondary] {
            if let Some(key) = self.keys.get(slot) {
                let _ = peer.keys.install(slot, key.slot.clone());
            }
        }
        peer
    }

    /// Its timers; None when both are off.
    pub fn timers(&self) -> Option<Keepalive> {
        let seconds = |s: u32| Duration::from_secs(s.into());
        self.keepalive
            .filter(|k| *k != (0, 0))
            .map(|(interval, timeout)| Keepalive {
                interval: seconds(interval),
                timeout: seconds(timeout),
            })
    }

    /// What it has sent and received.
    pub fn totals(&self) -> PeerTotals {
        let mut sum = PeerTotals::default();
        for c in &self.counters {
            let add = |to: &mut [u64; 2], packets: &nf_state::Counter, bytes: &nf_state::Counter| {
                to[0] += packets.get();
                to[1] += bytes.get();
            };
            add(&mut sum.link_rx, &c.link_rx_packets, &c.link_rx_bytes);
            add(&mut sum.link_tx, &c.link_tx_packets, &c.link_tx_bytes);
            add(&mut sum.vpn_rx, &c.vpn_rx_packets, &c.vpn_rx_bytes);
            add(&mut sum.vpn_tx, &c.vpn_tx_packets, &c.vpn_tx_bytes);
            sum.keepalives_rx += c.keepalives_rx.get();
            sum.keepalives_tx += c.keepalives_tx.get();
            sum.last_recv = sum.last_recv.max(Millis(c.last_recv_ms.get()));
            sum.last_sent = sum.last_sent.max(Millis(c.last_sent_ms.get()));
        }
        sum
    }

    /// The prefixes that are its own by configuration: addresses and networks.
    pub fn prefixes(&self) -> impl Iterator<Item = IpNet> + '_ {
        let addresses = self.addresses.iter().map(|a| IpNet::from(*a));
        addresses.chain(self.networks.iter().copied())
    }
}

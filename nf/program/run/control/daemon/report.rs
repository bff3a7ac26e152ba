//! What `ovpn-dpdk status` is told.

use crate::program::run::control::{Control, TunnelSide, lock};
use crate::program::run::gateway::Handle;
use crate::program::run::keys::HeldKey;
use crate::program::run::registry::{Driven, Entry, Registry, TunnelPeers};
use crate::program::status::report::{
    ClientReport, DaemonReport, KeyReport, LcoreReport, PeerReport, Report, TunnelKind, TunnelReport,
};
use lcore::socket::ClientId;
use nf_control::dco::{Errno, Family, Header, reply};
use nf_path::counters::Totals;
use nf_path::tunnel::Mode;
use nf_state::{IpNet, Millis, Slot};
use std::collections::BTreeMap;
use std::time::Instant;

use super::refusal;

/// Bytes of JSON in one packet.
const CHUNK: usize = 32 * 1024;

impl Control<'_> {
    /// Sends the report, in pieces.
    pub(super) fn send_report(&self, to: ClientId, header: &Header) {
        let report = self.report();
        let json = match serde_json::to_vec(&report) {
            Ok(json) => json,
            Err(e) => return self.refuse(to, header, &refusal(Errno::EIO, e.to_string())),
        };
        for chunk in json.chunks(CHUNK) {
            self.clients.send(to, reply::status(header, chunk));
        }
        self.clients.send(to, reply::done(header));
    }

    /// How the gateway is.
    fn report(&self) -> Report {
        let registry = lock(&self.registry);
        let totals: Vec<Totals> = self.workers.iter().map(|w| w.counters.totals()).collect();
        let sum = totals.iter().fold(Totals::default(), |sum, t| sum.plus(t));
        let tunnels = (0u8..).zip(registry.tunnels.iter().zip(&self.tunnels));
        let config = &self.reloading.config;
        Report {
            name: config.name.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs(),
            tunnels: tunnels
                .map(|(t, (peers, side))| self.tunnel_report(t, peers, side))
                .collect(),
            clients: self.client_reports(&registry),
            lcores: self
                .workers
                .iter()
                .zip(&totals)
                .map(|(w, t)| self.lcore_report(w, t))
                .collect(),
            drops: sum
                .nonzero_drops()
                .map(|(reason, n)| (reason.name().into(), n))
                .collect(),
        }
    }

    fn tunnel_report(&self, tunnel: u8, peers: &TunnelPeers, side: &TunnelSide) -> TunnelReport {
        let claim = side.claim.as_ref();
        let client = claim.and_then(|claim| {
            self.clients
                .daemons()
                .into_iter()
                .find(|c| c.client == claim.client)
        });
        let daemon = claim.zip(client).map(|(claim, client)| DaemonReport {
            pid: client.credentials.pid as i32,
            uid: client.credentials.uid,
            command: client.command,
            since_s: claim.since.elapsed().as_secs(),
        });
        let mut networks: BTreeMap<u32, Vec<IpNet>> = BTreeMap::new();
        for (prefix, peer) in &peers.routes {
            networks.entry(*peer).or_default().push(*prefix);
        }
        let now = self.now();
        TunnelReport {
            interface: peers.interface.clone(),
            mode: if side.mode == Mode::Mp { "mp" } else { "p2p" }.into(),
            mtu: side.mtu.into(),
            kind: if self.is_static(tunnel) {
                TunnelKind::Static
            } else {
                TunnelKind::Daemon
            },
            family: claim.and_then(|c| c.family).map(|f| f.name().into()),
            daemon,
            listen: self.listen.of(tunnel).collect(),
            peers: peers
                .peers
                .values()
                .map(|e| peer_report(e, networks.remove(&e.id).unwrap_or_default(), now))
                .collect(),
        }
    }

    fn client_reports(&self, registry: &Registry) -> Vec<ClientReport> {
        let clients = self.clients.daemons().into_iter();
        let driven = |client: ClientId| {
            let tunnels = registry.tunnels.iter().zip(&self.tunnels);
            tunnels
                .filter(|(_, side)| side.claim.as_ref().is_some_and(|c| c.client == client))
                .map(|(peers, _)| peers.interface.clone())
                .collect()
        };
        clients
            .map(|c| ClientReport {
                pid: c.credentials.pid as i32,
                uid: c.credentials.uid,
                command: c.command,
                since_s: c.since.elapsed().as_secs(),
                tunnels: driven(c.client),
            })
            .collect()
    }

    fn lcore_report(&self, worker: &Handle, totals: &Totals) -> LcoreReport {
        let elapsed = self.started.elapsed().as_millis() as u64 * self.cycles_per_ms;
        LcoreReport {
            cpu: worker.cpu as u32,
            busy: totals.busy_cycles as f64 / elapsed.max(1) as f64,
            stuck: worker.is_stuck(),
            counters: totals.named().map(|(name, n)| (name.into(), n)).collect(),
        }
    }
}

fn peer_report(entry: &Entry, networks: Vec<IpNet>, now: Millis) -> PeerReport {
    let totals = entry.totals();
    let binding = entry.endpoint.read();
    let remote = binding.map(|b| b.remote).or(entry.remote);
    let translated = |d: &&Driven| d.translate && d.family == Family::DcoV2;
    let known = entry.driven.as_ref().filter(translated).map(|d| d.known);
    let own = |prefix: &IpNet| entry.addresses.iter().any(|a| IpNet::from(*a) == *prefix);
    let age = |then: Millis| (then.0 != 0).then(|| now.0.saturating_sub(then.0));
    let (keepalive_s, timeout_s) = entry.keepalive.unwrap_or_default();
    PeerReport {
        id: entry.id,
        remote,
        local: binding.map(|b| b.local),
        known_remote: known.filter(|known| Some(*known) != remote),
        addresses: entry.addresses.clone(),
        networks: networks
            .iter()
            .filter(|n| !own(n))
            .map(IpNet::to_string)
            .collect(),
        keepalive_s,
        timeout_s,
        keys: [Slot::Primary, Slot::Secondary]
            .into_iter()
            .filter_map(|slot| Some(key_report(slot, entry.keys.get(slot)?)))
            .collect(),
        link_rx_packets: totals.link_rx[0],
        link_rx_bytes: totals.link_rx[1],
        link_tx_packets: totals.link_tx[0],
        link_tx_bytes: totals.link_tx[1],
        vpn_rx_packets: totals.vpn_rx[0],
        vpn_rx_bytes: totals.vpn_rx[1],
        vpn_tx_packets: totals.vpn_tx[0],
        vpn_tx_bytes: totals.vpn_tx[1],
        keepalives_rx: totals.keepalives_rx,
        keepalives_tx: totals.keepalives_tx,
        heard_ms_ago: age(totals.last_recv),
        sent_ms_ago: age(totals.last_sent),
    }
}

fn key_report(slot: Slot, key: &HeldKey) -> KeyReport {
    KeyReport {
        slot: slot.into(),
        key_id: key.slot.key_id(),
        cipher: key.slot.cipher().to_string(),
        age_s: Instant::now().duration_since(key.since).as_secs(),
        next_packet_id: key.slot.ids().next(),
        sealed: key.slot.ids().used(),
        opened: key.slot.opened().get(),
    }
}

//! What the gateway says of itself, as JSON: filled in by `run`, printed by `status`.
//!
//! A reader takes what it knows and passes over the rest, and what may be missing has a default, so that the two need not be
//! of the same version. Times are ages, so that a reader needs no clock of ours.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// A gateway at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Its configured name.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Seconds since it was ready.
    pub uptime_s: u64,
    /// In the order of the configuration.
    #[serde(default)]
    pub tunnels: Vec<TunnelReport>,
    /// The processes that may drive tunnels: those whose connection by path said netlink protocol ROUTE in its HELLO. (A reader
    /// of reports says GENERIC, and is none.)
    #[serde(default)]
    pub clients: Vec<ClientReport>,
    /// The workers.
    #[serde(default)]
    pub lcores: Vec<LcoreReport>,
    /// Packets dropped by reason, of all workers; only what is not zero. Names as in the manual.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
}

/// A tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TunnelReport {
    /// The tunnel interface's name.
    pub interface: String,
    /// "mp" or "p2p", as it is now.
    pub mode: String,
    /// Largest inner packet in bytes, as the interface has it now.
    pub mtu: u32,
    /// Who has a say over its peers.
    pub kind: TunnelKind,
    /// The generic-netlink family that the daemon speaks, "ovpn-dco-v2" or "ovpn", once that is known.
    #[serde(default)]
    pub family: Option<String>,
    /// Who drives it now; None: nobody, or it is static.
    #[serde(default)]
    pub daemon: Option<DaemonReport>,
    /// Addresses and UDP ports whose records are taken.
    #[serde(default)]
    pub listen: Vec<SocketAddr>,
    /// In the order of their ids.
    #[serde(default)]
    pub peers: Vec<PeerReport>,
}

/// Who has a say over a tunnel's peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TunnelKind {
    /// An OpenVPN daemon, by the control socket.
    #[default]
    Daemon,
    /// The configuration: static peers or keys.
    Static,
}

/// The process that drives a tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonReport {
    /// Process id, as the gateway sees it (SO_PEERCRED).
    pub pid: i32,
    /// User id at the time when it connected.
    pub uid: u32,
    /// The process's name.
    pub command: String,
    /// Seconds since it claimed the tunnel.
    pub since_s: u64,
}

/// A process that is connected to the control socket, one for each connection by path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientReport {
    /// Process id, as the gateway sees it (SO_PEERCRED).
    pub pid: i32,
    /// User id at the time when it connected.
    pub uid: u32,
    /// The process's name.
    pub command: String,
    /// Seconds since it connected.
    pub since_s: u64,
    /// Interfaces of the tunnels that it drives. A daemon that drives none has a data channel of its own.
    #[serde(default)]
    pub tunnels: Vec<String>,
}

/// A peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerReport {
    /// Peer id.
    pub id: u32,
    /// Its address and UDP port now.
    #[serde(default)]
    pub remote: Option<SocketAddr>,
    /// Our address and port towards it now.
    #[serde(default)]
    pub local: Option<SocketAddr>,
    /// Where its daemon believes it to be, where that differs from `remote`: it has floated, and its control packets are
    /// translated both ways.
    #[serde(default)]
    pub known_remote: Option<SocketAddr>,
    /// VPN addresses.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// Networks that the source check accepts from it besides `addresses`, as prefixes ("10.77.0.0/24").
    #[serde(default)]
    pub networks: Vec<String>,
    /// Seconds between keepalives; 0 is off.
    #[serde(default)]
    pub keepalive_s: u32,
    /// Seconds without an authentic record until it is gone; 0 is off.
    #[serde(default)]
    pub timeout_s: u32,
    /// Its keys, the primary one first.
    #[serde(default)]
    pub keys: Vec<KeyReport>,
    /// Datagrams received for it.
    #[serde(default)]
    pub link_rx_packets: u64,
    /// The bytes of their UDP payload.
    #[serde(default)]
    pub link_rx_bytes: u64,
    /// Records sealed for it, keepalives included.
    #[serde(default)]
    pub link_tx_packets: u64,
    /// The bytes of their UDP payload.
    #[serde(default)]
    pub link_tx_bytes: u64,
    /// Inner packets from it.
    #[serde(default)]
    pub vpn_rx_packets: u64,
    /// Their bytes.
    #[serde(default)]
    pub vpn_rx_bytes: u64,
    /// Inner packets to it.
    #[serde(default)]
    pub vpn_tx_packets: u64,
    /// Their bytes.
    #[serde(default)]
    pub vpn_tx_bytes: u64,
    /// Keepalives received.
    #[serde(default)]
    pub keepalives_rx: u64,
    /// Keepalives sent.
    #[serde(default)]
    pub keepalives_tx: u64,
    /// Milliseconds since its last authentic record; None: never.
    #[serde(default)]
    pub heard_ms_ago: Option<u64>,
    /// Milliseconds since a record was sent to it; None: never.
    #[serde(default)]
    pub sent_ms_ago: Option<u64>,
}

/// A key, but for the key itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyReport {
    /// Where it is.
    pub slot: KeySlotName,
    /// Key id, 0 to 7.
    pub key_id: u8,
    /// Its cipher, as OpenVPN writes it: "AES-256-GCM".
    pub cipher: String,
    /// Seconds since it was installed.
    pub age_s: u64,
    /// The packet id of the next record that is sealed with it, 1 to 2^32; 2^32: all are used.
    #[serde(default)]
    pub next_packet_id: u64,
    /// Packets and 16-byte blocks sealed with it, together: what RFC 5116 and the TLS limits of AES-GCM count.
    #[serde(default)]
    pub sealed: u64,
    /// The same of what it opened.
    #[serde(default)]
    pub opened: u64,
}

/// A slot of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeySlotName {
    /// The key that seals.
    #[default]
    Primary,
    /// A key that only opens.
    Secondary,
}

impl From<nf_state::Slot> for KeySlotName {
    fn from(slot: nf_state::Slot) -> KeySlotName {
        match slot {
            nf_state::Slot::Primary => KeySlotName::Primary,
            nf_state::Slot::Secondary => KeySlotName::Secondary,
        }
    }
}

/// A worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LcoreReport {
    /// The CPU that it runs on.
    pub cpu: u32,
    /// Which part of its time since the start went into bursts that were not empty, 0.0 to 1.0.
    #[serde(default)]
    pub busy: f64,
    /// Whether it has stopped to read what the control side tells it.
    #[serde(default)]
    pub stuck: bool,
    /// Its counters, by the names of the manual's table of counters.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
}

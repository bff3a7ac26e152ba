//! `[[tunnel]]` and `[[tunnel.peer]]`.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;

use crate::check::{At, range};
use crate::config::PortKind;
use crate::error::ConfigError;
use crate::layers::Origins;
use crate::raw::{RawPeer, RawTunnel, Scalar};
use crate::{PEER_ID_MAX, names};

/// One tunnel: an interface of the kernel, or an EAL port, that inner packets come and go through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnel {
    /// The kernel interface's name; with an EAL port the name that logs and tables use.
    pub interface: String,
    /// What stands behind the port. Never [`PortKind::Kernel`].
    pub kind: PortKind,
    /// Many peers or one.
    pub mode: Mode,
    /// Outer addresses and UDP ports of the tunnel. May be empty where a daemon or the keys file says them.
    pub listen: Vec<SocketAddr>,
    /// Largest inner packet in bytes, 68 to 9500.
    pub mtu: u16,
    /// TCP MSS clamp.
    pub mss: Mss,
    /// Whether inner source addresses are checked against the peer's addresses and networks.
    pub source_check: bool,
    /// Whether several lcores may seal for one peer.
    pub spread_peers: bool,
    /// Whether inner TCP segments are merged towards the kernel.
    pub merge_tcp: bool,
    /// Destination MAC of delivered frames, where `kind` is an EAL port.
    pub next_hop: Option<[u8; 6]>,
    /// Static peers and keys, for tests, replay and benches.
    pub keys_file: Option<PathBuf>,
    /// Peers, each id once.
    pub peers: Vec<PeerConfig>,
}

/// How many peers a tunnel has, as in the kernel driver's `OVPN_MODE_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Many peers.
    Mp,
    /// One peer.
    P2p,
}

/// TCP maximum segment size clamp (RFC 9293, 3.7.1) of inner packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mss {
    /// From the NIC's MTU and the overhead.
    Auto,
    /// No clamp.
    Off,
    /// At most so many bytes, 88 to 9460.
    Value(u16),
}

/// A peer that the configuration knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerConfig {
    /// Peer id, 0 to [`PEER_ID_MAX`].
    pub id: u32,
    /// Outer address and port, where it is known beforehand.
    pub remote: Option<SocketAddr>,
    /// Our outer address and port towards it, until it contacts another one; `None`: the first listening address of
    /// the remote's IP version.
    pub local: Option<SocketAddr>,
    /// VPN addresses of the peer itself.
    pub addresses: Vec<IpAddr>,
    /// Networks behind the peer, for the source check; no host bits are set.
    pub networks: Vec<IpNet>,
    /// Seconds between keepalives and seconds until the peer counts as gone; 0 is off.
    pub keepalive: Option<(u32, u32)>,
}

/// Validates one `[[tunnel]]`.
pub(crate) fn check(
    raw: RawTunnel,
    at: &Origins,
    index: usize,
    folder: &Path,
) -> Result<Tunnel, ConfigError> {
    let key = |name: &str| format!("tunnel[{index}].{name}");
    names::interface(&raw.interface).at(at, key("interface"))?;
    let kind = names::port_kind(&raw.kind, false).at(at, key("kind"))?;
    let mode = names::word(&raw.mode, &[("mp", Mode::Mp), ("p2p", Mode::P2p)]).at(at, key("mode"))?;
    let mut listen = Vec::new();
    for (i, text) in raw.listen.iter().enumerate() {
        listen.push(listen_addr(text).at(at, key(&format!("listen[{i}]")))?);
    }
    let next_hop = match raw.next_hop.as_str() {
        "" => None,
        text => Some(names::mac(text).at(at, key("next_hop"))?),
    };
    if next_hop.is_some() && !matches!(kind, PortKind::Ethdev(_)) {
        return Err(at.error(&key("next_hop"), "allowed only where kind is an EAL port's name"));
    }
    let tunnel = Tunnel {
        kind,
        mode,
        listen,
        mtu: range(raw.mtu, 68..=9500).at(at, key("mtu"))?,
        mss: mss(&raw.mss).at(at, key("mss"))?,
        source_check: raw.source_check,
        spread_peers: raw.spread_peers,
        merge_tcp: raw.merge_tcp,
        next_hop,
        keys_file: Some(raw.keys_file)
            .filter(|path| !path.is_empty())
            .map(|path| folder.join(path)),
        peers: peers(raw.peer, at, index)?,
        interface: raw.interface,
    };
    if mode == Mode::P2p && tunnel.peers.len() > 1 {
        return Err(at.error(&key("peer[1]"), "a tunnel with mode = \"p2p\" has one peer"));
    }
    Ok(tunnel)
}

fn listen_addr(text: &str) -> Result<SocketAddr, String> {
    let addr = names::socket_addr(text)?;
    if addr.ip().is_multicast() {
        Err(format!("{text:?} is a multicast address"))
    } else {
        Ok(addr)
    }
}

fn mss(value: &Scalar) -> Result<Mss, String> {
    const MIN: u16 = 88;
    const MAX: u16 = 9460;
    match value {
        Scalar::Number(n) => range(*n, MIN..=MAX)
            .map(Mss::Value)
            .map_err(|e| format!("{e}, \"auto\" or \"off\"")),
        Scalar::Word(word) => match word.as_str() {
            "auto" => Ok(Mss::Auto),
            "off" => Ok(Mss::Off),
            _ => Err(format!(
                "{word:?} is not allowed: {MIN} to {MAX}, \"auto\" or \"off\""
            )),
        },
    }
}

fn peers(raw: Vec<RawPeer>, at: &Origins, tunnel: usize) -> Result<Vec<PeerConfig>, ConfigError> {
    let mut peers = Vec::with_capacity(raw.len());
    let mut ids: HashMap<u32, usize> = HashMap::new();
    let mut routes: HashMap<IpNet, String> = HashMap::new();
    for (i, raw) in raw.into_iter().enumerate() {
        let prefix = format!("tunnel[{tunnel}].peer[{i}]");
        let peer = peer(raw, at, &prefix)?;
        if let Some(other) = ids.insert(peer.id, i) {
            let message = format!(
                "peer id {} is that of tunnel[{tunnel}].peer[{other}] too",
                peer.id
            );
            return Err(at.error(&format!("{prefix}.id"), message));
        }
        let addresses = peer
            .addresses
            .iter()
            .enumerate()
            .map(|(j, a)| (format!("addresses[{j}]"), IpNet::from(*a)));
        let networks = peer
            .networks
            .iter()
            .enumerate()
            .map(|(j, n)| (format!("networks[{j}]"), *n));
        for (name, route) in addresses.chain(networks) {
            let here = format!("{prefix}.{name} (peer {})", peer.id);
            if let Some(other) = routes.insert(route, here) {
                return Err(at.error(
                    &format!("{prefix}.{name}"),
                    format!("{route} of peer {} is also {other}", peer.id),
                ));
            }
        }
        peers.push(peer);
    }
    Ok(peers)
}

fn peer(raw: RawPeer, at: &Origins, prefix: &str) -> Result<PeerConfig, ConfigError> {
    let key = |name: &str| format!("{prefix}.{name}");
    let id = raw
        .id
        .ok_or_else(|| at.error(&key("id"), format!("a peer id is needed: 0 to {PEER_ID_MAX}")))?;
    let remote = match raw.remote.as_str() {
        "" => None,
        text => Some(names::endpoint(text).at(at, key("remote"))?),
    };
    let local = match raw.local.as_str() {
        "" => None,
        text => Some(names::endpoint(text).at(at, key("local"))?),
    };
    if local.is_some_and(|l| remote.is_none_or(|r: SocketAddr| r.is_ipv4() != l.is_ipv4())) {
        return Err(at.error(&key("local"), "needs a remote of the same IP version"));
    }
    let mut addresses = Vec::with_capacity(raw.addresses.len());
    for (i, text) in raw.addresses.iter().enumerate() {
        addresses.push(address(text).at(at, key(&format!("addresses[{i}]")))?);
    }
    let mut networks = Vec::with_capacity(raw.networks.len());
    for (i, text) in raw.networks.iter().enumerate() {
        networks.push(network(text).at(at, key(&format!("networks[{i}]")))?);
    }
    Ok(PeerConfig {
        id: range(id, 0..=PEER_ID_MAX).at(at, key("id"))?,
        remote,
        local,
        addresses,
        networks,
        keepalive: raw
            .keepalive
            .map(|k| keepalive(&k))
            .transpose()
            .at(at, key("keepalive"))?,
    })
}

fn address(text: &str) -> Result<IpAddr, String> {
    let address: Option<IpAddr> = text.parse().ok();
    address
        .filter(|a| !a.is_unspecified() && !a.is_multicast())
        .ok_or_else(|| format!("{text:?} is no unicast address such as 10.8.0.2 or fd00::2"))
}

fn network(text: &str) -> Result<IpNet, String> {
    let network: IpNet = text
        .parse()
        .map_err(|_| format!("{text:?} is no network such as 10.77.0.0/24 or fd77::/64"))?;
    if network != network.trunc() {
        return Err(format!(
            "{text:?} has host bits set; the network is {}",
            network.trunc()
        ));
    }
    Ok(network)
}

fn keepalive(seconds: &[i64]) -> Result<(u32, u32), String> {
    const HOW: &str = "two numbers of seconds are allowed, interval and time-out, such as [10, 60]; 0 is off";
    let [interval, timeout] = seconds else {
        return Err(HOW.into());
    };
    match (u32::try_from(*interval), u32::try_from(*timeout)) {
        (Ok(interval), Ok(timeout)) => Ok((interval, timeout)),
        _ => Err(HOW.into()),
    }
}

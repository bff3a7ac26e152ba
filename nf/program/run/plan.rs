//! What a gateway is to be, worked out of the configuration before the machine is asked for anything.

use crate::program::exit::Failure;
use crate::program::run::listen::Listen;
use crate::program::run::nic::AfPacket;
use crate::program::sizing::Needs;
use crate::program::statics::{StaticPeer, static_peers};
use lcore::tunnel::Kind;
use nf_control::{
    AutoOr, Config, KeysFile, Lcores, LookaheadScope, Mode as ConfigMode, Mss, OutboundL2, PortKind,
    Tunnel as TunnelConfig,
};
use nf_path::burst::MAX_TUNNELS;
use nf_path::inbound::Tuning;
use nf_path::tunnel::{Mode, MssClamp};
use nf_state::{Lookahead, Scope};
use nf_wire::mss::auto_mss_within;
use std::collections::HashMap;

/// Workers that this version runs: with one, every flow stays on it.
pub const WORKERS: u32 = 1;

/// What a gateway is to be.
pub struct Plan {
    /// Each tunnel's keys file.
    pub keys: Vec<Option<KeysFile>>,
    /// What the operator should hear, a line each.
    pub warnings: Vec<String>,
    /// Where the tunnels listen.
    pub listen: Listen,
    /// Batching and lookahead.
    pub tuning: Tuning,
    /// The interface behind the NIC port, where the kernel reads it too.
    pub af_packet: Option<AfPacket>,
    /// Whether a peer is answered the way it was last heard, on layer 2.
    pub last_heard: bool,
    /// Packet buffers.
    pub mbufs: u32,
    /// Buffers for reassembled and scattered packets.
    pub large: u32,
    /// CPUs for workers; None: all allowed ones but the first.
    pub workers: Option<Vec<usize>>,
    /// What the host port is made of.
    pub host: Kind,
}

impl Plan {
    /// Works it out.
    ///
    /// # Errors
    /// What the configuration asks for and this version does not do, or not so much of: one line, as wrong
    /// configuration.
    pub fn new(config: &Config, eal: &[String]) -> Result<Plan, Failure> {
        let keys = config.load_keys().map_err(Failure::usage)?;
        config.check_static_keys().map_err(Failure::usage)?;
        let mut warnings: Vec<String> = keys.iter().flatten().flat_map(|k| k.warnings.clone()).collect();
        for (i, (tunnel, keys)) in config.tunnels.iter().zip(&keys).enumerate() {
            check_remotes(i, &static_peers(keys.as_ref(), Some(tunnel)))?;
        }
        if config.tunnels.len() > MAX_TUNNELS {
            let n = config.tunnels.len();
            return Err(Failure::usage(format!(
                "tunnel: {n} tunnels are too many: at most {MAX_TUNNELS}"
            )));
        }
        if config.host.kind == PortKind::Kernel {
            return Err(Failure::usage(
                "host.kind: \"kernel\" needs flow isolation, which is not there yet: use \"auto\", \"virtio-user\" or \"tap\"",
            ));
        }
        let af_packet = AfPacket::of(eal, &config.nic.port);
        if let Some(nic) = &af_packet {
            nic.check_mtu(config.nic.mtu).map_err(Failure::usage)?;
        }
        let listen = Listen::new(config, &keys, &mut warnings)?;
        if listen.has_wildcard() && matches!(config.host.kind, PortKind::Ethdev(_)) {
            return Err(Failure::usage(
                "tunnel.listen: a wildcard means the host interface's addresses, and a host port that EAL arguments make has none",
            ));
        }
        let needs = Needs {
            ports: 2 + config.tunnels.len() as u32,
            workers: WORKERS,
        };
        Ok(Plan {
            listen,
            tuning: Tuning {
                batch: config.batch,
                lookahead: lookahead(&config.lookahead),
            },
            last_heard: config.nic.outbound_l2 == OutboundL2::LastHeard
                || matches!(config.host.kind, PortKind::Ethdev(_)),
            af_packet,
            mbufs: needs.mbufs(config.mbufs)?,
            large: needs.large(),
            workers: match &config.lcores {
                Lcores::Auto => None,
                Lcores::List(cpus) => Some(cpus.clone()),
            },
            host: kind(&config.host.kind),
            keys,
            warnings,
        })
    }
}

/// Refuses two peers of a tunnel with one remote: a record with an undefined peer id could be either's.
pub fn check_remotes(tunnel: usize, peers: &[StaticPeer]) -> Result<(), Failure> {
    let mut holders = HashMap::new();
    for peer in peers {
        let Some(remote) = peer.remote else { continue };
        if let Some(other) = holders.insert(remote, peer.id) {
            let id = peer.id;
            return Err(Failure::usage(format!(
                "tunnel[{tunnel}]: peers {other} and {id} have the same remote, {remote}"
            )));
        }
    }
    Ok(())
}

/// Port kinds as lcore knows them. The host port's "kernel" was refused before.
pub fn kind(kind: &PortKind) -> Kind {
    match kind {
        PortKind::Auto | PortKind::Kernel => Kind::Auto,
        PortKind::VirtioUser => Kind::VirtioUser,
        PortKind::Tap => Kind::Tap,
        PortKind::Ethdev(name) => Kind::Existing(name.clone()),
    }
}

/// Whether a tunnel has one peer or many.
pub fn mode(mode: ConfigMode) -> Mode {
    match mode {
        ConfigMode::Mp => Mode::Mp,
        ConfigMode::P2p => Mode::P2p,
    }
}

/// The MSS clamp of a tunnel: as configured, or such that a full segment fits the NIC's MTU and the tunnel's, which may be
/// another one by now than configured.
pub fn mss(tunnel: &TunnelConfig, mtu: u16, nic_mtu: u16) -> Option<MssClamp> {
    let max = match tunnel.mss {
        Mss::Off => return None,
        Mss::Value(max) => [[max; 2]; 2],
        Mss::Auto => [false, true].map(|outer_v6| {
            let limits = auto_mss_within(nic_mtu, outer_v6, mtu);
            [limits.v4, limits.v6]
        }),
    };
    Some(MssClamp { max })
}

fn lookahead(config: &nf_control::Lookahead) -> Lookahead {
    let distance = match config.distance {
        AutoOr::Auto => Lookahead::default().distance,
        AutoOr::Value(n) => n,
    };
    let scope = match config.scope {
        LookaheadScope::Burst => Scope::Burst,
        LookaheadScope::Batch => Scope::Batch,
    };
    Lookahead { distance, scope }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nf_path::inbound::classify::MAX_LISTENERS;
    use std::fmt::Write;
    use std::path::Path;

    fn plan(text: &str) -> Result<Plan, Failure> {
        let config = Config::parse(text, "gw.toml", Path::new(""), []).expect("the text is valid");
        Plan::new(&config, &[])
    }

    fn refused(text: &str) -> String {
        match plan(text) {
            Err(Failure::Usage(line)) if !line.contains('\n') => line,
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("accepted"),
        }
    }

    const NIC: &str = "[nic]\nport = \"net_null0\"\n";

    #[test]
    fn defaults() {
        let plan = plan(&format!(
            "{NIC}[[tunnel]]\ninterface = \"t0\"\nlisten = [\"192.0.2.1:1194\"]"
        ))
        .unwrap();
        assert_eq!(plan.mbufs, Needs { ports: 3, workers: 1 }.auto());
        assert!(plan.warnings.is_empty() && plan.workers.is_none() && plan.tuning.batch);
        assert_eq!(plan.tuning.lookahead, Lookahead::default());
        assert_eq!(plan.host, Kind::Auto);
    }

    #[test]
    fn the_clamp_is_what_the_nic_carries() {
        let clamp = |mss: &str| {
            let text = format!("{NIC}[[tunnel]]\ninterface = \"t0\"\nmss = {mss}\n");
            let config = Config::parse(&text, "gw.toml", Path::new(""), []).unwrap();
            super::mss(&config.tunnels[0], config.tunnels[0].mtu, 1500).map(|c| c.max)
        };
        // 1500 - outer IP - UDP 8 - record 24 - inner IP - TCP 20
        assert_eq!(clamp("\"auto\""), Some([[1408, 1388], [1388, 1368]]));
        assert_eq!(clamp("1400"), Some([[1400; 2]; 2]));
        assert_eq!(clamp("\"off\""), None);
    }

    #[test]
    fn a_wildcard_needs_an_interface_with_addresses() {
        let line = refused(&format!(
            "{NIC}[host]\nkind = \"net_ring0\"\n[[tunnel]]\ninterface = \"t0\"\nlisten = [\"0.0.0.0:1\"]\n"
        ));
        assert!(line.starts_with("tunnel.listen: a wildcard"), "{line}");
    }

    #[test]
    fn two_peers_with_one_remote_are_refused() {
        let peer = |id| format!("[[tunnel.peer]]\nid = {id}\nremote = \"198.51.100.7:1194\"\n");
        let line = refused(&format!(
            "{NIC}[[tunnel]]\ninterface = \"t0\"\nlisten = [\"192.0.2.1:1\"]\n{}{}",
            peer(1),
            peer(2)
        ));
        assert_eq!(
            line,
            "tunnel[0]: peers 1 and 2 have the same remote, 198.51.100.7:1194"
        );
    }

    #[test]
    fn what_is_not_there_yet_is_refused() {
        let kernel = refused(&format!(
            "{NIC}[host]\nkind = \"kernel\"\n[[tunnel]]\ninterface = \"t0\"\nlisten = [\"192.0.2.1:1\"]"
        ));
        assert!(kernel.starts_with("host.kind"), "{kernel}");
    }

    #[test]
    fn more_than_a_worker_serves_is_refused() {
        let mut text = NIC.to_owned();
        for i in 0..=MAX_TUNNELS {
            write!(
                text,
                "[[tunnel]]\ninterface = \"t{i}\"\nlisten = [\"192.0.2.1:{}\"]\n",
                i + 1
            )
            .unwrap();
        }
        assert!(refused(&text).contains("17 tunnels are too many: at most 16"));
        let ports: Vec<_> = (1..=MAX_LISTENERS + 1)
            .map(|p| format!("\"192.0.2.1:{p}\""))
            .collect();
        let line = refused(&format!(
            "{NIC}[[tunnel]]\ninterface = \"t0\"\nlisten = [{}]",
            ports.join(",")
        ));
        assert!(line.contains("192.0.2.1:65 is one too many"), "{line}");
    }

    #[test]
    fn a_static_tunnel_that_listens_nowhere_is_named() {
        let tunnel = format!("{NIC}[[tunnel]]\ninterface = \"t0\"\n");
        assert!(plan(&tunnel).unwrap().warnings.is_empty(), "its daemon says it");
        let plan = plan(&format!("{tunnel}[[tunnel.peer]]\nid = 1\n")).unwrap();
        assert_eq!(plan.warnings, ["tunnel[0].listen: t0 listens nowhere"]);
    }
}

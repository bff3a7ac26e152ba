//! What a gateway is to be, worked out of the configuration before the machine is asked for anything.

use crate::program::exit::Failure;
use crate::program::sizing::Needs;
use lcore::tunnel::Kind;
use nf_control::{AutoOr, Config, KeysFile, Lcores, LookaheadScope, PortKind, Tunnel as TunnelConfig};
use nf_path::burst::MAX_TUNNELS;
use nf_path::inbound::Tuning;
use nf_path::inbound::classify::{Listeners, MAX_LISTENERS};
use nf_state::{Lookahead, Scope};
use std::net::SocketAddr;

/// Workers that this version runs: with one, every flow stays on it.
pub const WORKERS: u32 = 1;

/// What a gateway is to be.
pub struct Plan {
    /// Each tunnel's keys file.
    pub keys: Vec<Option<KeysFile>>,
    /// What the operator should hear, a line each.
    pub warnings: Vec<String>,
    /// Which datagrams are whose.
    pub listeners: Listeners,
    /// Batching and lookahead.
    pub tuning: Tuning,
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
    pub fn new(config: &Config) -> Result<Plan, Failure> {
        let keys = config.load_keys().map_err(Failure::usage)?;
        config.check_static_keys().map_err(Failure::usage)?;
        let mut warnings: Vec<String> = keys.iter().flatten().flat_map(|k| k.warnings.clone()).collect();
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
        let needs = Needs {
            ports: 2 + config.tunnels.len() as u32,
            workers: WORKERS,
        };
        Ok(Plan {
            listeners: listeners(config, &keys, &mut warnings)?,
            tuning: Tuning {
                batch: config.batch,
                lookahead: lookahead(&config.lookahead),
            },
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

/// Port kinds as lcore knows them. The host port's "kernel" was refused before.
pub fn kind(kind: &PortKind) -> Kind {
    match kind {
        PortKind::Auto | PortKind::Kernel => Kind::Auto,
        PortKind::VirtioUser => Kind::VirtioUser,
        PortKind::Tap => Kind::Tap,
        PortKind::Ethdev(name) => Kind::Existing(name.clone()),
    }
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

fn listeners(
    config: &Config,
    keys: &[Option<KeysFile>],
    warnings: &mut Vec<String>,
) -> Result<Listeners, Failure> {
    let mut listeners = Listeners::default();
    for (i, (tunnel, keys)) in config.tunnels.iter().zip(keys).enumerate() {
        let listen = listen(tunnel, keys.as_ref());
        if listen.is_empty() {
            warnings.push(format!(
                "tunnel[{i}].listen: {} listens nowhere",
                tunnel.interface
            ));
        }
        for address in listen {
            if address.ip().is_unspecified() {
                return Err(Failure::usage(format!(
                    "tunnel[{i}].listen: {address} is a wildcard, which is not there yet: name the addresses"
                )));
            }
            if !listeners.add(*address, i as u8) {
                return Err(Failure::usage(format!(
                    "tunnel[{i}].listen: {address} is one too many: at most {MAX_LISTENERS} listening addresses in all"
                )));
            }
        }
    }
    Ok(listeners)
}

/// Where a tunnel listens: the keys file's word has the configuration's laid over it already.
fn listen<'a>(tunnel: &'a TunnelConfig, keys: Option<&'a KeysFile>) -> &'a [SocketAddr] {
    keys.map_or(&tunnel.listen, |k| &k.listen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;
    use std::path::Path;

    fn plan(text: &str) -> Result<Plan, Failure> {
        let config = Config::parse(text, "gw.toml", Path::new(""), []).expect("the text is valid");
        Plan::new(&config)
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
    fn what_is_not_there_yet_is_refused() {
        let wildcard = refused(&format!(
            "{NIC}[[tunnel]]\ninterface = \"t0\"\nlisten = [\"[::]:1194\"]"
        ));
        assert!(
            wildcard.starts_with("tunnel[0].listen: [::]:1194 is a wildcard"),
            "{wildcard}"
        );
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
    fn a_tunnel_that_listens_nowhere_is_named() {
        let plan = plan(&format!("{NIC}[[tunnel]]\ninterface = \"t0\"")).unwrap();
        assert_eq!(plan.warnings, ["tunnel[0].listen: t0 listens nowhere"]);
    }
}

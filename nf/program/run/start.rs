//! What stands between ports and workers: peers with their keys, and the tables made of them.

use crate::program::exit::Failure;
use crate::program::run::control::{Clients, Parts, Source, TunnelSide};
use crate::program::run::gateway::{Handle, Tables};
use crate::program::run::kernel::Kernel;
use crate::program::run::keys::Keys;
use crate::program::run::plan::{self, Plan};
use crate::program::run::ports::{Ports, destination};
use crate::program::run::registry::{Entry, HeldKeys, Registry, TunnelPeers};
use crate::program::statics::static_peers;
use lcore::Imb;
use nf_control::Config;
use nf_path::tunnel::Tunnel;
use std::net::IpAddr;

/// Workers that this version runs.
const WORKERS: usize = plan::WORKERS as usize;

/// Peers and what else the control side starts with.
pub struct Prepared {
    registry: Registry,
    keys: Keys,
    host: Option<u32>,
    tunnels: Vec<TunnelSide>,
    own: Vec<IpAddr>,
}

/// Reserves packet ids, expands all keys and makes the peers. The keys files are dropped, and so zeroised.
pub fn prepare(
    config: &Config,
    plan: &mut Plan,
    ports: &Ports,
    kernel: &mut Kernel,
) -> Result<Prepared, Failure> {
    let host = ports
        .host
        .interface()
        .map(|name| kernel.index(name))
        .transpose()?;
    let own = match host.filter(|_| plan.listen.has_wildcard()) {
        Some(host) => {
            let addresses = kernel.netlink.addresses(host).map_err(Failure::machine)?;
            addresses.into_iter().map(|a| a.address).collect()
        }
        None => Vec::new(),
    };
    let mut tunnels = Vec::new();
    for (port, settings) in ports.tunnels.iter().zip(&config.tunnels) {
        tunnels.push(TunnelSide {
            index: port.interface().map(|name| kernel.index(name)).transpose()?,
            mode: plan::mode(settings.mode),
            mtu: settings.mtu,
            claim: None,
            routes: Vec::new(),
        });
    }
    let files = std::mem::take(&mut plan.keys);
    let state_file = config.insecure_static_keys.then_some(config.state_file.as_path());
    let mut keys = Keys::new(Imb::new().map_err(Failure::machine)?, state_file)?;
    let registry = registry(config, plan, &files, &mut keys, (kernel, host, &own))?;
    Ok(Prepared {
        registry,
        keys,
        host,
        tunnels,
        own,
    })
}

fn registry(
    config: &Config,
    plan: &Plan,
    files: &[Option<nf_control::KeysFile>],
    keys: &mut Keys,
    (kernel, host, own): (&mut Kernel, Option<u32>, &[IpAddr]),
) -> Result<Registry, Failure> {
    let all: Vec<_> = config
        .tunnels
        .iter()
        .zip(files)
        .map(|(tunnel, file)| (tunnel, static_peers(file.as_ref(), Some(tunnel))))
        .collect();
    let names: Vec<_> = all
        .iter()
        .flat_map(|(tunnel, specs)| specs.iter().map(move |spec| (tunnel, spec)))
        .flat_map(|(tunnel, spec)| {
            let name = move |key: &nf_control::StaticKey| {
                format!("peer {} of {}, key {}", spec.id, tunnel.interface, key.key_id)
            };
            spec.keys.iter().map(move |key| (name(key), *key))
        })
        .collect();
    let mut made = keys.make(&names)?.into_iter();
    let mut registry = Registry { tunnels: Vec::new() };
    for (t, (tunnel, specs)) in (0u8..).zip(&all) {
        let mut peers = TunnelPeers::new(&tunnel.interface);
        for spec in specs {
            let held = made.by_ref().take(spec.keys.len()).collect::<HeldKeys>();
            let first = || {
                let remote = spec.remote?;
                let preferred = host.and_then(|host| kernel.source_to(host, remote.ip()));
                plan.listen.local_for(t, remote, own, preferred)
            };
            let local = spec.local.or_else(first);
            if let (Some(remote), None) = (spec.remote, local) {
                tracing::warn!(
                    "peer {} of {}: nothing listens that could send to {remote}: it is answered once it is heard",
                    spec.id,
                    tunnel.interface
                );
            }
            peers
                .peers
                .insert(spec.id, Entry::new(spec, held, local, WORKERS));
        }
        registry.tunnels.push(peers);
    }
    Ok(registry)
}

impl Prepared {
    /// The tables of one worker.
    pub fn tables(
        &mut self,
        config: &Config,
        plan: &Plan,
        ports: &Ports,
        worker: usize,
    ) -> Result<Tables, Failure> {
        let mut tunnels = Vec::new();
        for ((peers, settings), port) in self
            .registry
            .tunnels
            .iter_mut()
            .zip(&config.tunnels)
            .zip(&ports.tunnels)
        {
            let mut tunnel = Tunnel::new(destination(port, settings)?);
            tunnel.mode = plan::mode(settings.mode);
            tunnel.source_check = settings.source_check;
            tunnel.spread = settings.spread_peers;
            tunnel.mss = plan::mss(settings, settings.mtu, config.nic.mtu);
            for entry in peers.peers.values_mut() {
                tunnel.peers.insert(entry.peer(worker)).map_err(Failure::usage)?;
                if let Some(binding) = entry.endpoint.read() {
                    entry.bound = Some(binding.remote);
                    let remote = (binding.remote.ip(), binding.remote.port());
                    tunnel
                        .peers
                        .bind_address(entry.id, remote)
                        .map_err(Failure::usage)?;
                }
                for prefix in entry.prefixes() {
                    tunnel.routes.insert(prefix, entry.id).map_err(Failure::usage)?;
                    peers.routes.insert(prefix, entry.id);
                }
            }
            tunnels.push(tunnel);
        }
        Ok(Tables {
            tunnels,
            listeners: plan.listen.listeners(&self.own).map_err(Failure::usage)?,
        })
    }

    /// What the control side is made of.
    pub fn control<'g>(
        self,
        workers: Vec<Handle>,
        kernel: Kernel,
        ports: &'g Ports,
        plan: &Plan,
        (source, clients): (Source, Clients),
        cycles_per_ms: u64,
    ) -> Parts<'g> {
        Parts {
            registry: self.registry,
            workers,
            keys: self.keys,
            kernel,
            ports,
            tunnels: self.tunnels,
            host: self.host,
            kernel_l2: !plan.last_heard,
            listen: plan.listen.clone(),
            cycles_per_ms,
            af_packet: plan.af_packet.clone(),
            source,
            clients,
        }
    }
}

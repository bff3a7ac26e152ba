//! Ports and the worker of a running gateway.

use crate::program::exit::Failure;
use crate::program::run::plan::{self, Plan};
use crate::program::setup::{Machine, Pools, queues};
use crate::program::sizing::RING;
use crate::program::statics::StaticPeers;
use lcore::mailbox::{Sender, mailbox};
use lcore::port::Want;
use lcore::reassembly::IpFrag;
use lcore::tunnel::{Kind, Tunnel, TunnelConfig};
use lcore::worker::{Parts, Worker};
use lcore::{Imb, Port, PortConfig, launch};
use nf_control::{Config, Tunnel as TunnelSettings};
use nf_path::counters::Counters;
use nf_wire::ether::HEADER_LEN;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Bytes over the MTU that a frame for the host may have: an Ethernet header with two VLAN tags.
const HOST_HEADER: usize = HEADER_LEN + 8;

/// The gateway's ports, started and up.
pub struct Ports {
    /// The NIC's.
    pub nic: Port,
    /// The kernel's side of the NIC.
    pub host: Tunnel,
    /// The tunnels', in the order of the configuration.
    pub tunnels: Vec<Tunnel>,
}

/// What others may know of a worker.
#[derive(Clone)]
pub struct Handle {
    /// The CPU that it runs on.
    pub cpu: usize,
    /// What it counts.
    pub counters: Arc<Counters>,
    /// Where it takes changes from.
    pub mailbox: Sender,
}

/// A worker that runs.
pub struct Running {
    /// For the tables and telemetry.
    pub handle: Handle,
    stop: Arc<AtomicBool>,
    worker: launch::Worker<Result<(), lcore::Error>>,
}

impl Ports {
    /// Finds or makes all ports and starts them; interfaces are up then.
    pub fn open(machine: &Machine, config: &Config, plan: &Plan, pools: &Pools) -> Result<Ports, Failure> {
        let nic = Port::by_name(&machine.eal, &config.nic.port).map_err(|e| match e {
            lcore::Error::NoPort(name) => Failure::machine(format!(
                "nic.port: there is no port {name}: EAL found no such device, and no EAL argument (--vdev={name},...) makes it"
            )),
            other => Failure::machine(other),
        })?;
        start(&nic, &nic_port(config.nic.mtu), pools)?;
        let mac = nic.mac().map_err(Failure::machine)?;
        let host = open(
            machine,
            &plan.host,
            &config.host.interface,
            Some(mac),
            config.nic.mtu,
            pools,
        )?;
        let mut tunnels = Vec::new();
        for tunnel in &config.tunnels {
            let kind = plan::kind(&tunnel.kind);
            tunnels.push(open(machine, &kind, &tunnel.interface, None, tunnel.mtu, pools)?);
        }
        Ok(Ports { nic, host, tunnels })
    }

    /// The ports with their part in the gateway, for tables.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &Port)> {
        let tunnels = self.tunnels.iter().map(|t| ("tunnel", t.port()));
        [("nic", &self.nic), ("host", self.host.port())]
            .into_iter()
            .chain(tunnels)
    }
}

/// The NIC port: one queue each way.
fn nic_port(mtu: u16) -> PortConfig {
    PortConfig {
        rx_desc: RING,
        tx_desc: RING,
        mtu: Some(mtu),
        ..PortConfig::default()
    }
}

/// A host or tunnel port. No checksum offload: a virtio port that is asked for it lets the kernel hand over
/// partial checksums (VIRTIO_NET_F_GUEST_CSUM), and its frames leave the NIC as they are.
fn kernel_port(mtu: u16) -> PortConfig {
    let config = nic_port(mtu);
    PortConfig {
        want: Want {
            checksum: false,
            ..config.want
        },
        ..config
    }
}

/// Starts a port. What is off is said.
fn start(port: &Port, config: &PortConfig, pools: &Pools) -> Result<(), Failure> {
    let off = port.start(config, &pools.small).map_err(Failure::machine)?;
    off.iter().for_each(|line| tracing::info!("{line}"));
    Ok(())
}

fn open(
    machine: &Machine,
    kind: &Kind,
    interface: &str,
    mac: Option<[u8; 6]>,
    mtu: u16,
    pools: &Pools,
) -> Result<Tunnel, Failure> {
    let config = TunnelConfig {
        kind: kind.clone(),
        interface: interface.into(),
        mac,
        queue_size: RING,
    };
    let tunnel = Tunnel::open(&machine.eal, &config).map_err(Failure::machine)?;
    start(tunnel.port(), &kernel_port(mtu), pools)?;
    if tunnel.interface().is_some() {
        tunnel.set_mtu(mtu).map_err(Failure::machine)?;
        tunnel.set_up().map_err(Failure::machine)?;
        let made_of = match tunnel.kind() {
            Kind::VirtioUser => "virtio-user on /dev/vhost-net",
            _ => "a TAP interface (net_tap)",
        };
        tracing::info!("{interface} is {made_of}, MTU {mtu}");
    }
    Ok(tunnel)
}

/// Starts the worker on `cpu`; when this returns, it polls.
pub fn launch(
    machine: &Machine,
    config: &Config,
    plan: &mut Plan,
    ports: &Ports,
    pools: &Pools,
    cpu: usize,
) -> Result<Running, Failure> {
    let (sender, inbox) = mailbox();
    let counters = Arc::new(Counters::default());
    let sleep = Duration::from_micros(config.idle_sleep_us.into());
    let mut parts = Parts {
        nic: queues(&ports.nic, usize::from(config.nic.mtu) + HOST_HEADER)?,
        host: Some(queues(
            ports.host.port(),
            usize::from(config.nic.mtu) + HOST_HEADER,
        )?),
        tunnels: Vec::new(),
        tables: Vec::new(),
        listeners: plan.listeners.clone(),
        tuning: plan.tuning,
        burst: usize::from(config.burst),
        idle_sleep: (!sleep.is_zero()).then_some(sleep),
        mailbox: inbox,
        counters: counters.clone(),
        cycles_per_ms: machine.eal.tsc_hz() / 1000,
    };
    // Keys files are dropped, and so zeroised, as soon as their keys are expanded.
    for ((tunnel, settings), keys) in ports.tunnels.iter().zip(&config.tunnels).zip(plan.keys.drain(..)) {
        parts
            .tunnels
            .push(queues(tunnel.port(), usize::from(settings.mtu) + HEADER_LEN)?);
        let peers = StaticPeers::new(&machine.imb, keys.as_ref(), Some(settings))?;
        parts
            .tables
            .push(peers.table(destination(tunnel, settings)?)?.tunnel);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let handle = Handle {
        cpu,
        counters,
        mailbox: sender,
    };
    let worker = poll(machine, parts, pools, config.nic.mtu, cpu, stop.clone())?;
    Ok(Running { handle, stop, worker })
}

/// Where delivered frames go: the configured next hop, else the interface itself.
fn destination(tunnel: &Tunnel, settings: &TunnelSettings) -> Result<[u8; 6], Failure> {
    settings
        .next_hop
        .map_or_else(|| tunnel.kernel_mac().map_err(Failure::machine), Ok)
}

/// The worker's thread.
fn poll(
    machine: &Machine,
    parts: Parts,
    pools: &Pools,
    mtu: u16,
    cpu: usize,
    stop: Arc<AtomicBool>,
) -> Result<launch::Worker<Result<(), lcore::Error>>, Failure> {
    let (eal, large, small) = (machine.eal.clone(), pools.large.clone(), pools.small.clone());
    let (up, is_up) = sync_channel(1);
    let worker = launch::launch(&machine.eal, &format!("worker-{cpu}"), cpu, move |_lcore| {
        let reassembly = IpFrag::new(&eal, large, small, mtu)?;
        let mut worker = Worker::new(parts, Imb::new()?, reassembly);
        let _ = up.send(());
        worker.run(&stop);
        worker.give_up_fragments();
        Ok(())
    })
    .map_err(Failure::machine)?;
    match is_up.recv() {
        Ok(()) => Ok(worker),
        // It ended before it polled: with the reason.
        Err(_) => match worker.join() {
            Ok(Err(e)) | Err(e) => Err(Failure::machine(e)),
            Ok(Ok(())) => Err(Failure::machine("the worker ended by itself")),
        },
    }
}

impl Running {
    /// Whether the worker has ended, which it does by itself only when it failed.
    pub fn has_ended(&self) -> bool {
        self.worker.is_finished()
    }

    /// Lets the worker finish its burst and end; gives what it failed with.
    pub fn stop(self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.worker.join().and_then(|done| done).map_err(Failure::machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_not_invited_to_leave_checksums_partial() {
        assert!(nic_port(1500).want.checksum);
        let kernel = kernel_port(1400);
        assert!(!kernel.want.checksum && kernel.want.scatter);
        assert_eq!(
            (kernel.mtu, kernel.rx_desc, kernel.tx_desc),
            (Some(1400), RING, RING)
        );
    }
}

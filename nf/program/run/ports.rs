//! The gateway's ports: the NIC's, the host's, the tunnels'.

use crate::program::exit::Failure;
use crate::program::run::kernel::Kernel;
use crate::program::run::plan::{self, Plan};
use crate::program::setup::{Machine, Pools};
use crate::program::sizing::RING;
use lcore::port::Want;
use lcore::tunnel::{Kind, Tunnel, TunnelConfig};
use lcore::{Port, PortConfig};
use nf_control::{Config, Tunnel as TunnelSettings};

/// The gateway's ports, started and up.
pub struct Ports {
    /// The NIC's.
    pub nic: Port,
    /// The kernel's side of the NIC.
    pub host: Tunnel,
    /// The tunnels', in the order of the configuration.
    pub tunnels: Vec<Tunnel>,
}

impl Ports {
    /// Finds or makes all ports and starts them; interfaces are up then.
    pub fn open(
        machine: &Machine,
        config: &Config,
        plan: &Plan,
        pools: &Pools,
        kernel: &mut Kernel,
    ) -> Result<Ports, Failure> {
        let nic = Port::by_name(&machine.eal, &config.nic.port).map_err(|e| match e {
            lcore::Error::NoPort(name) => Failure::machine(format!(
                "nic.port: there is no port {name}: EAL found no such device, and no EAL argument (--vdev={name},...) makes it"
            )),
            other => Failure::machine(other),
        })?;
        if let Some(shared) = &plan.af_packet {
            kernel.shut_out(shared)?;
        }
        start(&nic, &nic_port(config.nic.mtu), pools)?;
        let mac = nic.mac().map_err(Failure::machine)?;
        let side = |kind: &Kind, interface: &str, mac| TunnelConfig {
            kind: kind.clone(),
            interface: interface.into(),
            mac,
            queue_size: RING,
        };
        let host = side(&plan.host, &config.host.interface, Some(mac));
        let host = open(machine, host, config.nic.mtu, pools, false, |_| Ok(()))?;
        let mut tunnels = Vec::new();
        for tunnel in &config.tunnels {
            let port = side(&plan::kind(&tunnel.kind), &tunnel.interface, None);
            let prepare = |name: &str| kernel.prepare_tunnel(name, plan::mode(tunnel.mode));
            tunnels.push(open(machine, port, tunnel.mtu, pools, true, prepare)?);
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

/// A host or tunnel port. No checksum offload for the host port: a virtio port that is asked for it lets the kernel hand
/// over partial checksums (VIRTIO_NET_F_GUEST_CSUM), and its frames leave the NIC as they are. `unfinished`: what comes
/// from it is finished before it is sealed.
fn kernel_port(mtu: u16, unfinished: bool) -> PortConfig {
    let config = nic_port(mtu);
    PortConfig {
        want: Want {
            checksum: false,
            unfinished,
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

/// Makes a host or tunnel port. `unfinished`: whether a virtio-user port may leave checksums and segments to us.
/// `prepare` is called before the interface is up.
fn open(
    machine: &Machine,
    config: TunnelConfig,
    mtu: u16,
    pools: &Pools,
    unfinished: bool,
    prepare: impl FnOnce(&str) -> Result<(), Failure>,
) -> Result<Tunnel, Failure> {
    let interface = &config.interface;
    let tunnel = Tunnel::open(&machine.eal, &config).map_err(Failure::machine)?;
    let unfinished = unfinished && *tunnel.kind() == Kind::VirtioUser;
    start(tunnel.port(), &kernel_port(mtu, unfinished), pools)?;
    if tunnel.interface().is_some() {
        tunnel.set_mtu(mtu).map_err(Failure::machine)?;
        prepare(interface)?;
        tunnel.set_up().map_err(Failure::machine)?;
        let made_of = match tunnel.kind() {
            Kind::VirtioUser => "virtio-user on /dev/vhost-net",
            _ => "a TAP interface (net_tap)",
        };
        tracing::info!("{interface} is {made_of}, MTU {mtu}");
    }
    Ok(tunnel)
}

/// Where delivered frames go: the configured next hop, else the interface itself.
pub fn destination(tunnel: &Tunnel, settings: &TunnelSettings) -> Result<[u8; 6], Failure> {
    settings
        .next_hop
        .map_or_else(|| tunnel.kernel_mac().map_err(Failure::machine), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_not_invited_to_leave_checksums_partial_on_the_host_port() {
        assert!(nic_port(1500).want.checksum);
        let kernel = kernel_port(1400, false);
        assert!(!kernel.want.checksum && !kernel.want.unfinished && kernel.want.scatter);
        assert_eq!(
            (kernel.mtu, kernel.rx_desc, kernel.tx_desc),
            (Some(1400), RING, RING)
        );
    }
}

//! The kernel's side of a gateway: what is set there before packets flow, and put back at the end.

use crate::program::exit::Failure;
use crate::program::run::nic::AfPacket;
use nf_kernel::{Change, Monitor, Netlink, Undo, sysctl};
use nf_path::tunnel::Mode;
use std::net::IpAddr;
use std::path::Path;

/// The kernel as the gateway reaches it. What has to be undone is undone when it is dropped; after a kill, by the next
/// start.
pub struct Kernel {
    /// For requests.
    pub netlink: Netlink,
    monitor: Monitor,
    undo: Option<Undo>,
}

impl Kernel {
    /// Opens it, after undoing what a killed gateway of this name left.
    pub fn open(name: &str) -> Result<Kernel, Failure> {
        let file = Path::new(nf_kernel::FOLDER).join(format!("{name}.undo"));
        if file.metadata().is_ok_and(|left| left.len() > 0) {
            tracing::info!(
                "undoing first what a gateway of this name left when it was killed ({})",
                file.display()
            );
        }
        let (undo, warnings) = Undo::open(name).map_err(Failure::machine)?;
        for warning in warnings {
            tracing::warn!("left by a gateway that was killed: {warning}");
        }
        Ok(Kernel {
            netlink: Netlink::open().map_err(Failure::machine)?,
            monitor: Monitor::open().map_err(Failure::machine)?,
            undo: Some(undo),
        })
    }

    /// The index of an interface.
    pub fn index(&mut self, interface: &str) -> Result<u32, Failure> {
        let link = self.netlink.link(interface).map_err(Failure::machine)?;
        link.map(|l| l.index)
            .ok_or_else(|| Failure::machine(format!("there is no interface {interface}")))
    }

    /// The source address that the kernel would take to an address, by this interface.
    pub fn source_to(&mut self, interface: u32, remote: IpAddr) -> Option<IpAddr> {
        self.netlink
            .route_to(remote, Some(interface))
            .ok()
            .flatten()?
            .prefsrc
    }

    /// What has changed since the last call. A failure is logged, and everything is to be read anew then.
    pub fn changes(&mut self) -> Vec<Change> {
        self.monitor.changes().unwrap_or_else(|e| {
            tracing::warn!("{e}");
            vec![Change::Overrun]
        })
    }

    /// Keeps the kernel from handling the frames of a NIC that it reads as well: with the host port, it would see
    /// each twice.
    pub fn shut_out(&mut self, nic: &AfPacket) -> Result<(), Failure> {
        let Some(link) = self.netlink.link(&nic.interface).map_err(Failure::machine)? else {
            return Err(Failure::machine(format!(
                "nic.port: net_af_packet reads interface {}, which is not there",
                nic.interface
            )));
        };
        nic.check_interface(link.mtu)
            .iter()
            .for_each(|line| tracing::warn!("{line}"));
        let addresses = self.netlink.addresses(link.index).map_err(Failure::machine)?;
        for address in addresses {
            let (interface, address) = (&nic.interface, address.address);
            match address {
                IpAddr::V6(a) if a.is_unicast_link_local() => {}
                // Turning IPv6 off deletes it, and turning it on again does not bring it back.
                IpAddr::V6(_) => {
                    return Err(Failure::machine(format!(
                        "{interface} has the address {address}, which would be lost: addresses belong to the host interface"
                    )));
                }
                IpAddr::V4(_) => tracing::warn!(
                    "{interface} has the address {address}, where the kernel hears nothing from now on: addresses belong to the host interface"
                ),
            }
        }
        let Some(undo) = &mut self.undo else { return Ok(()) };
        let no_ipv6 = sysctl::path(sysctl::Version::V6, &nic.interface, "disable_ipv6");
        if let Err(e) = undo.set_sysctl(&no_ipv6, "1") {
            tracing::debug!("{e}");
        }
        undo.shut_ingress(&mut self.netlink, &nic.interface)
            .map_err(Failure::machine)?;
        tracing::info!(
            "{}: the kernel is shut out at ingress while the gateway reads it",
            nic.interface
        );
        Ok(())
    }

    /// Settings of a tunnel interface, before it is up. They go with the interface, but for `all/send_redirects`, which
    /// stays 0 (the kernel sends redirects where either is 1).
    pub fn prepare_tunnel(&mut self, interface: &str, mode: Mode) -> Result<(), Failure> {
        use sysctl::Version::{V4, V6};
        for (version, of, key) in [
            (V4, interface, "send_redirects"),
            (V4, "all", "send_redirects"),
            (V6, interface, "accept_dad"),
        ] {
            if let Err(e) = sysctl::set(&sysctl::path(version, of, key), "0") {
                tracing::warn!("{e}");
            }
        }
        if mode == Mode::P2p {
            let index = self.index(interface)?;
            self.netlink.set_noarp(index, true).map_err(Failure::machine)?;
        }
        Ok(())
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        for warning in self.undo.take().map(Undo::perform).unwrap_or_default() {
            tracing::warn!("{warning}");
        }
    }
}

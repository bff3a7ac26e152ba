//! Ports with a kernel interface at their other end: the tunnel port that the daemon calls `tun0`, and the host port.

use std::fs::OpenOptions;
use std::io;

use crate::{Eal, Error, Port, interface};

/// What a tunnel or host port is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// virtio-user over `/dev/vhost-net`: checksums and super-frames are handed over partial and whole.
    VirtioUser,
    /// A TAP interface (net_tap): slower, works wherever `/dev/net/tun` does.
    Tap,
    /// virtio-user where `/dev/vhost-net` opens, else TAP.
    Auto,
    /// A port that the EAL arguments made, by name; there is no kernel interface then.
    Existing(String),
}

/// How to make a tunnel or host port.
#[derive(Clone, Debug)]
pub struct TunnelConfig {
    /// What it is made of.
    pub kind: Kind,
    /// Name of the kernel interface, not used with [`Kind::Existing`].
    pub interface: String,
    /// Ethernet address, random if `None`.
    pub mac: Option<[u8; 6]>,
    /// Descriptors per virtio queue, a power of two.
    pub queue_size: u16,
}

/// A port and the kernel interface at its other end.
#[derive(Debug)]
pub struct Tunnel {
    port: Port,
    interface: Option<String>,
    kind: Kind,
}

impl Tunnel {
    /// Makes the port, and with it the interface, which goes away with the port.
    pub fn open(eal: &Eal, config: &TunnelConfig) -> Result<Tunnel, Error> {
        if let Kind::Existing(name) = &config.kind {
            return Ok(Tunnel {
                port: Port::by_name(eal, name)?,
                interface: None,
                kind: config.kind.clone(),
            });
        }
        let name = &config.interface;
        interface::check_name(name)?;
        if interface::exists(name) {
            return Err(Error::InterfaceTaken(name.clone()));
        }
        device("/dev/net/tun").map_err(Error::NoTun)?;
        let virtio = match config.kind {
            Kind::VirtioUser => device("/dev/vhost-net").map(|()| true).map_err(Error::NoVhost)?,
            Kind::Auto => device("/dev/vhost-net").is_ok(),
            _ => false,
        };
        let mac = config
            .mac
            .map(|m| format!(",mac={}", text(m)))
            .unwrap_or_default();
        let (kind, device, args) = if virtio {
            let size = config.queue_size;
            let args = format!("path=/dev/vhost-net,iface={name},queues=1,queue_size={size}{mac}");
            (Kind::VirtioUser, format!("net_virtio_user_{name}"), args)
        } else {
            (Kind::Tap, format!("net_tap_{name}"), format!("iface={name}{mac}"))
        };
        let port = Port::create_vdev(eal, &device, &args).map_err(|e| match e {
            // The driver's own word for TUNSETIFF's EPERM is in the line that it logged.
            Error::Vdev { reason, .. } if reason.contains("not permitted") => {
                Error::InterfaceRight(name.clone())
            }
            other => other,
        })?;
        Ok(Tunnel {
            port,
            interface: Some(name.clone()),
            kind,
        })
    }

    /// The port.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// The kernel interface's name, if there is one.
    pub fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// What it is made of; never [`Kind::Auto`].
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The kernel interface's own Ethernet address, which frames to the kernel have as destination; the port's where
    /// there is no interface.
    pub fn kernel_mac(&self) -> Result<[u8; 6], Error> {
        match &self.interface {
            Some(name) => interface::mac(name),
            None => self.port.mac(),
        }
    }

    /// Sets the MTU of the port and of the kernel interface: net_tap drops by its own, so both must agree.
    pub fn set_mtu(&self, mtu: u16) -> Result<(), Error> {
        self.port.set_mtu(mtu)?;
        match &self.interface {
            Some(name) => interface::set_mtu(name, mtu.into()),
            None => Ok(()),
        }
    }

    /// Gives the port the MTU that the kernel interface has now, for when somebody changed it there. Returns it in bytes.
    pub fn mirror_mtu(&self) -> Result<u16, Error> {
        let Some(name) = &self.interface else {
            return self.port.mtu();
        };
        let kernel = u16::try_from(interface::mtu(name)?).unwrap_or(u16::MAX);
        if kernel != self.port.mtu()? {
            self.port.set_mtu(kernel)?;
        }
        Ok(kernel)
    }

    /// Sets the kernel interface up. The port must be started: virtio-user makes its interface then.
    pub fn set_up(&self) -> Result<(), Error> {
        self.interface.as_deref().map_or(Ok(()), interface::set_up)
    }
}

/// Whether a device file opens for reading and writing.
fn device(path: &str) -> io::Result<()> {
    OpenOptions::new().read(true).write(true).open(path).map(drop)
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

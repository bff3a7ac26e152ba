//! Neighbours: which link-layer address an IP address on an interface has (arp(7), RFC 826, RFC 4861).

use crate::netlink::unless;
use crate::{Error, Mac, Netlink};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourExtFlags, NeighbourFlags, NeighbourMessage,
    NeighbourState as Wire,
};
use netlink_packet_route::route::RouteType;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::IpAddr;

/// What the kernel knows of a neighbour's reachability: `NUD_*` of rtnetlink(7), RFC 4861 section 7.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NeighbourState {
    /// Just made, nothing known or asked yet.
    None,
    /// Being resolved.
    Incomplete,
    /// Known to be reachable.
    Reachable,
    /// Known, not confirmed for a while.
    Stale,
    /// Known, used while not confirmed: about to be probed.
    Delay,
    /// Known, being probed.
    Probe,
    /// Resolution or probing got no answer.
    Failed,
    /// Needs no resolution.
    NoArp,
    /// Set by hand; never probed, never expires.
    Permanent,
}

impl NeighbourState {
    /// Whether packets can be sent to the neighbour's link-layer address now: `NUD_VALID` of the kernel.
    #[must_use]
    pub fn usable(self) -> bool {
        !matches!(self, Self::None | Self::Incomplete | Self::Failed)
    }

    fn decode(wire: Wire) -> NeighbourState {
        match wire {
            Wire::Incomplete => Self::Incomplete,
            Wire::Reachable => Self::Reachable,
            Wire::Stale => Self::Stale,
            Wire::Delay => Self::Delay,
            Wire::Probe => Self::Probe,
            Wire::Failed => Self::Failed,
            Wire::Noarp => Self::NoArp,
            Wire::Permanent => Self::Permanent,
            // A state of a kernel to come is not relied on.
            _ => Self::None,
        }
    }
}

/// A neighbour of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the interface.
    pub index: u32,
    /// Its IP address.
    pub address: IpAddr,
    /// Its Ethernet address, if known.
    pub mac: Option<Mac>,
    /// How far it can be relied on.
    pub state: NeighbourState,
}

impl Neighbour {
    /// Its Ethernet address, if frames can be sent there now.
    #[must_use]
    pub fn usable(&self) -> Option<Mac> {
        self.mac.filter(|_| self.state.usable())
    }

    /// `None` for what is no neighbour in this sense: a bridge's forwarding entry, an address answered for as proxy.
    pub(crate) fn decode(message: &NeighbourMessage) -> Option<Neighbour> {
        let header = &message.header;
        if header.flags.contains(NeighbourFlags::Proxy) {
            return None;
        }
        let (mut address, mut mac) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => {
                    address = Some(IpAddr::V4(*v4))
                }
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => {
                    address = Some(IpAddr::V6(*v6))
                }
                NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes[..].try_into().ok(),
                _ => {}
            }
        }
        let state = NeighbourState::decode(header.state);
        Some(Neighbour {
            index: header.ifindex,
            address: address?,
            mac,
            state,
        })
    }
}

/// A message about the neighbour `address` of the interface `index`.
fn about(index: u32, address: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.ifindex = index;
    message.header.kind = RouteType::Unicast;
    message.header.family = family(address);
    let wire = match address {
        IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
        IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
    };
    message.attributes.push(NeighbourAttribute::Destination(wire));
    message
}

pub(crate) fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    }
}

impl Netlink {
    /// Sets permanent neighbours of the interface `index`, in place of what the kernel had for these addresses. Several
    /// thousand take some ten milliseconds.
    ///
    /// # Errors
    /// [`Error::Partly`] if some of several are refused: the others are set. The kernel refuses all with `ENODEV` if the
    /// interface is gone, and those of IPv6 with `EINVAL` if IPv6 is disabled there.
    pub fn put_neighbours(&mut self, index: u32, neighbours: &[(IpAddr, Mac)]) -> Result<(), Error> {
        let requests = neighbours.iter().map(|(address, mac)| {
            let mut message = about(index, *address);
            message.header.state = Wire::Permanent;
            message
                .attributes
                .push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
            RouteNetlinkMessage::NewNeighbour(message)
        });
        let what = |n: usize| format!("interface {index}: set neighbour {}", neighbours[n].0);
        self.request_all(&what, requests.collect(), NLM_F_CREATE | NLM_F_REPLACE, &[])
    }

    /// Has the kernel send what is for `address` on the interface `index` to a MAC address, as if it had just heard that from
    /// the neighbour: the entry is forgotten, or follows who else says that it has the address, as any other.
    ///
    /// # Errors
    /// `ENODEV` if the interface is gone, `EINVAL` for IPv6 if that is disabled there.
    pub fn put_reachable(&mut self, index: u32, address: IpAddr, mac: Mac) -> Result<(), Error> {
        let mut message = about(index, address);
        message.header.state = Wire::Reachable;
        message
            .attributes
            .push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
        let what = format!("interface {index}: set neighbour {address}");
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.request(&what, RouteNetlinkMessage::NewNeighbour(message), flags)
            .map(|_| ())
    }

    /// Removes neighbours of the interface `index`, of whatever kind. One that is not there is no error.
    ///
    /// # Errors
    /// [`Error::Partly`] if some of several are refused: the others are gone.
    pub fn remove_neighbours(&mut self, index: u32, addresses: &[IpAddr]) -> Result<(), Error> {
        let requests = addresses
            .iter()
            .map(|address| RouteNetlinkMessage::DelNeighbour(about(index, *address)));
        let what = |n: usize| format!("interface {index}: remove neighbour {}", addresses[n]);
        self.request_all(&what, requests.collect(), 0, &[libc::ENOENT])
    }

    /// All neighbours of the interface `index`, IPv4 and IPv6. None if there is no such interface.
    ///
    /// # Errors
    /// What the kernel refuses the dump with.
    pub fn neighbours(&mut self, index: u32) -> Result<Vec<Neighbour>, Error> {
        let mut message = NeighbourMessage::default();
        message.attributes.push(NeighbourAttribute::IfIndex(index));
        let what = format!("interface {index}: neighbours");
        let dump = self.dump(&what, &RouteNetlinkMessage::GetNeighbour(message));
        let found = unless(dump, &[libc::ENODEV], vec![])?;
        let all = found.iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewNeighbour(message) => Neighbour::decode(message),
            _ => None,
        });
        Ok(all.filter(|n| n.index == index).collect())
    }

    /// The permanent neighbours of the interface `index`.
    ///
    /// # Errors
    /// What the kernel refuses the dump with.
    pub fn permanent_neighbours(&mut self, index: u32) -> Result<Vec<Neighbour>, Error> {
        let mut all = self.neighbours(index)?;
        all.retain(|n| n.state == NeighbourState::Permanent);
        Ok(all)
    }

    /// What the kernel knows of the neighbour `address` of the interface `index`. `None` if it has no entry.
    ///
    /// # Errors
    /// `ENODEV` if the interface is gone.
    pub fn neighbour(&mut self, index: u32, address: IpAddr) -> Result<Option<Neighbour>, Error> {
        let mut message = about(index, address);
        // Has to be unset in a look-up.
        message.header.kind = RouteType::Unspec;
        let what = format!("interface {index}: neighbour {address}");
        let got = self.request(&what, RouteNetlinkMessage::GetNeighbour(message), 0);
        Ok(unless(got, &[libc::ENOENT], vec![])?
            .iter()
            .find_map(|message| match message {
                RouteNetlinkMessage::NewNeighbour(message) => Neighbour::decode(message),
                _ => None,
            }))
    }

    /// Has the kernel resolve the neighbour `address` of the interface `index`, and keep it so where it can.
    ///
    /// Packets that do not pass the kernel make no neighbour entries there. This one does (`NTF_USE`), and the kernel
    /// resolves it at once; kernels from 5.16 also keep it fresh (`NTF_EXT_MANAGED`) until
    /// [`release`](Netlink::release), older ones let it go stale and forget it. A permanent entry is left alone. The
    /// result is told by [`Monitor`](crate::Monitor), or asked for by [`neighbour`](Netlink::neighbour).
    ///
    /// # Errors
    /// `ENODEV` if the interface is gone, `EINVAL` for IPv6 if that is disabled there, `ENOBUFS` if the kernel's table is
    /// full.
    pub fn ask(&mut self, index: u32, address: IpAddr) -> Result<(), Error> {
        // To be used, an entry stops being permanent in the kernel.
        if let Some(known) = self.neighbour(index, address)?
            && matches!(known.state, NeighbourState::Permanent | NeighbourState::NoArp)
        {
            return Ok(());
        }
        let what = format!("interface {index}: resolve neighbour {address}");
        let mut message = about(index, address);
        message.header.flags = NeighbourFlags::Use;
        let plain = message.clone();
        message
            .attributes
            .push(NeighbourAttribute::ExtFlags(NeighbourExtFlags::Managed));
        match self.request(&what, RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE) {
            Err(Error::Refused {
                errno: libc::EINVAL | libc::EOPNOTSUPP,
                ..
            }) => self
                .request(&what, RouteNetlinkMessage::NewNeighbour(plain), NLM_F_CREATE)
                .map(|_| ()),
            other => other.map(|_| ()),
        }
    }

    /// Lets the kernel forget the neighbour `address` of the interface `index` again when it is unused: what
    /// [`ask`](Netlink::ask) began. Not there any more is no error.
    ///
    /// # Errors
    /// `ENODEV` if the interface is gone.
    pub fn release(&mut self, index: u32, address: IpAddr) -> Result<(), Error> {
        // Without NLM_F_CREATE, and without the extended flag: only clears that one. A permanent entry was not asked for.
        let known = self.neighbour(index, address)?;
        if known.is_none_or(|n| matches!(n.state, NeighbourState::Permanent | NeighbourState::NoArp)) {
            return Ok(());
        }
        let what = format!("interface {index}: release neighbour {address}");
        let mut message = about(index, address);
        message.header.flags = NeighbourFlags::Use;
        unless(
            self.request(&what, RouteNetlinkMessage::NewNeighbour(message), 0),
            &[libc::ENOENT],
            vec![],
        )
        .map(|_| ())
    }
}

//! Interfaces: what the kernel has them set to, and setting it.

use crate::netlink::unless;
use crate::{Error, Mac, Netlink};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

/// Longest name of an interface, in bytes (`IFNAMSIZ` with its NUL is 16).
const NAME: usize = 15;

/// An interface as the kernel has it (`RTM_NEWLINK` of rtnetlink(7)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index, from 1.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its link-layer address, if that is one of Ethernet.
    pub mac: Option<Mac>,
    /// Its MTU in bytes: of the IP packet, without the Ethernet header.
    pub mtu: u32,
    /// Administratively up (`IFF_UP`).
    pub up: bool,
    /// Has a carrier (`IFF_LOWER_UP`).
    pub carrier: bool,
    /// Neighbours are not resolved: packets go out with whatever address (`IFF_NOARP`).
    pub noarp: bool,
}

impl Link {
    /// `None` for messages about something else than an interface: a bridge's port, for example.
    pub(crate) fn decode(message: &LinkMessage) -> Option<Link> {
        let header = &message.header;
        if header.interface_family != AddressFamily::Unspec {
            return None;
        }
        let mut link = Link {
            index: header.index,
            name: String::new(),
            mac: None,
            mtu: 0,
            up: header.flags.contains(LinkFlags::Up),
            carrier: header.flags.contains(LinkFlags::LowerUp),
            noarp: header.flags.contains(LinkFlags::Noarp),
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name.clone_from(name),
                LinkAttribute::Address(bytes) => link.mac = bytes[..].try_into().ok(),
                LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
                _ => {}
            }
        }
        Some(link)
    }
}

impl Netlink {
    /// The interface of that name. `None` if there is none.
    ///
    /// # Errors
    /// Whatever the kernel refuses it with, other than `ENODEV`.
    pub fn link(&mut self, name: &str) -> Result<Option<Link>, Error> {
        // The kernel has words of its own for names that no interface can have.
        if name.is_empty() || name.len() > NAME || name.contains('\0') {
            return Ok(None);
        }
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.get_link(&format!("interface {name}"), message)
    }

    /// The interface of that index. `None` if there is none.
    ///
    /// # Errors
    /// Whatever the kernel refuses it with, other than `ENODEV`.
    pub fn link_by_index(&mut self, index: u32) -> Result<Option<Link>, Error> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        self.get_link(&format!("interface {index}"), message)
    }

    fn get_link(&mut self, what: &str, message: LinkMessage) -> Result<Option<Link>, Error> {
        let got = unless(
            self.request(what, RouteNetlinkMessage::GetLink(message), 0),
            &[libc::ENODEV],
            vec![],
        )?;
        Ok(got.iter().find_map(|message| match message {
            RouteNetlinkMessage::NewLink(message) => Link::decode(message),
            _ => None,
        }))
    }

    /// Sets the interface up or down.
    ///
    /// Down, the kernel forgets all its neighbours, permanent ones too, and its IPv4 routes without telling.
    ///
    /// # Errors
    /// `ENODEV` if it is gone, and whatever its driver refuses it with.
    pub fn set_up(&mut self, index: u32, up: bool) -> Result<(), Error> {
        self.set_flag(index, LinkFlags::Up, up, if up { "set up" } else { "set down" })
    }

    /// Sets whether neighbours go unresolved on the interface (`IFF_NOARP`), as on one that leads to one peer alone.
    /// The kernel forgets the interface's neighbours if that is a change.
    ///
    /// # Errors
    /// `ENODEV` if it is gone, and whatever its driver refuses it with.
    pub fn set_noarp(&mut self, index: u32, noarp: bool) -> Result<(), Error> {
        self.set_flag(
            index,
            LinkFlags::Noarp,
            noarp,
            if noarp { "set ARP off" } else { "set ARP on" },
        )
    }

    /// Sets the interface's link-layer address. Some drivers allow that only while it is down.
    ///
    /// # Errors
    /// `ENODEV` if it is gone, `EADDRNOTAVAIL` for a multicast address, `EBUSY` if it would have to be down.
    pub fn set_mac(&mut self, index: u32, mac: Mac) -> Result<(), Error> {
        self.set_link(index, "set MAC", |message| {
            message.attributes.push(LinkAttribute::Address(mac.to_vec()))
        })
    }

    /// Sets the interface's MTU, in bytes of IP packet.
    ///
    /// # Errors
    /// `ENODEV` if it is gone, `EINVAL` if its driver cannot carry that.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<(), Error> {
        let what = format!("set MTU {mtu}");
        self.set_link(index, &what, |message| {
            message.attributes.push(LinkAttribute::Mtu(mtu))
        })
    }

    fn set_flag(&mut self, index: u32, flag: LinkFlags, on: bool, what: &str) -> Result<(), Error> {
        self.set_link(index, what, |message| {
            message.header.change_mask = flag;
            message.header.flags = if on { flag } else { LinkFlags::empty() };
        })
    }

    fn set_link(&mut self, index: u32, what: &str, fill: impl FnOnce(&mut LinkMessage)) -> Result<(), Error> {
        let what = format!("interface {index}: {what}");
        if index == 0 {
            return Err(Error::Refused {
                what,
                errno: libc::ENODEV,
                detail: String::new(),
            });
        }
        let mut message = LinkMessage::default();
        message.header.index = index;
        fill(&mut message);
        self.request(&what, RouteNetlinkMessage::SetLink(message), 0)
            .map(|_| ())
    }
}

//! Addresses of interfaces.

use crate::netlink::unless;
use crate::{Error, Netlink};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::IpAddr;

/// An address of an interface (`RTM_NEWADDR` of rtnetlink(7)).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Index of the interface.
    pub index: u32,
    /// The host's own address there.
    pub address: IpAddr,
    /// Length of its network's prefix, in bits.
    pub prefix: u8,
}

impl Address {
    pub(crate) fn decode(message: &AddressMessage) -> Option<Address> {
        let header = &message.header;
        if !matches!(header.family, AddressFamily::Inet | AddressFamily::Inet6) {
            return None;
        }
        // On a point-to-point interface IFA_ADDRESS is the other end, and IFA_LOCAL the own address.
        let (mut local, mut address) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Local(ip) => local = Some(*ip),
                AddressAttribute::Address(ip) => address = Some(*ip),
                _ => {}
            }
        }
        Some(Address {
            index: header.index,
            address: local.or(address)?,
            prefix: header.prefix_len,
        })
    }
}

impl Netlink {
    /// The addresses of the interface `index`, IPv4 and IPv6. None if there is no such interface.
    ///
    /// # Errors
    /// What the kernel refuses the dump with.
    pub fn addresses(&mut self, index: u32) -> Result<Vec<Address>, Error> {
        let messages = self.address_messages(index)?;
        Ok(messages.iter().filter_map(Address::decode).collect())
    }

    /// Removes all addresses of the interface `index`, IPv4 and IPv6, link-local ones too. Returns how many it had: 0 if there
    /// is no such interface.
    ///
    /// # Errors
    /// What the kernel refuses the dump or a removal with; all removals are tried.
    pub fn flush_addresses(&mut self, index: u32) -> Result<usize, Error> {
        let of = self.address_messages(index)?;
        let names: Vec<_> = of.iter().filter_map(Address::decode).collect();
        let what = |n: usize| match names.get(n) {
            Some(Address { address, prefix, .. }) => format!("interface {index}: remove {address}/{prefix}"),
            None => format!("interface {index}: remove addresses"),
        };
        let requests = of.into_iter().map(|mut message| {
            message
                .attributes
                .retain(|a| matches!(a, AddressAttribute::Local(_) | AddressAttribute::Address(_)));
            RouteNetlinkMessage::DelAddress(message)
        });
        // With an IPv4 network's first address the kernel removes its others (net.ipv4.conf.*.promote_secondaries).
        let gone = [libc::EADDRNOTAVAIL, libc::ENODEV];
        self.request_all(&what, requests.collect(), 0, &gone)?;
        Ok(names.len())
    }

    /// What the kernel says of each address of an interface.
    fn address_messages(&mut self, index: u32) -> Result<Vec<AddressMessage>, Error> {
        let mut addresses = Vec::new();
        let what = format!("interface {index}: addresses");
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = AddressMessage::default();
            message.header.family = family;
            message.header.index = index;
            let dump = self.dump(&what, &RouteNetlinkMessage::GetAddress(message));
            for message in unless(
                dump,
                &[libc::ENODEV, libc::EAFNOSUPPORT, libc::EOPNOTSUPP],
                vec![],
            )? {
                let RouteNetlinkMessage::NewAddress(message) = message else {
                    continue;
                };
                // A kernel without this IP version answers with all that it has of the other.
                if message.header.family == family
                    && Address::decode(&message).is_some_and(|address| address.index == index)
                {
                    addresses.push(message);
                }
            }
        }
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_own_end_of_a_point_to_point_link() {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.index = 3;
        message.header.prefix_len = 32;
        let (own, other) = (Ipv4Addr::new(10, 8, 0, 1), Ipv4Addr::new(10, 8, 0, 2));
        message.attributes = vec![
            AddressAttribute::Address(other.into()),
            AddressAttribute::Local(own.into()),
        ];
        let expected = Address {
            index: 3,
            address: own.into(),
            prefix: 32,
        };
        assert_eq!(Address::decode(&message), Some(expected));
        message.attributes.clear();
        assert_eq!(Address::decode(&message), None);
    }
}

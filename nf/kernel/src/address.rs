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
                if message.header.family == family {
                    addresses.extend(Address::decode(&message).filter(|address| address.index == index));
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

//! Routes: what leads where, and the way to an address.

use crate::neighbour::family;
use crate::netlink::unless;
use crate::{Error, Netlink};
use ipnet::IpNet;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteNextHopFlags, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The table of a host's own addresses (`RT_TABLE_LOCAL`).
const LOCAL: u32 = 255;

/// A unicast route that leaves by one interface. A route with several next hops is one of these for each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Index of the interface that it leaves by.
    pub index: u32,
    /// Where it leads.
    pub destination: IpNet,
    /// The next hop, if the destination is not on the link itself. Of the other IP version for an IPv4 route `via inet6`.
    pub gateway: Option<IpAddr>,
    /// The table that it is in; the main table is 254.
    pub table: u32,
    /// Its metric (`RTA_PRIORITY`): of routes to the same destination, the one with the least is taken.
    pub metric: u32,
}

/// The way from here to an address, as the kernel would send now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTo {
    /// Index of the interface.
    pub oif: u32,
    /// The next hop, if the address is not on the link itself.
    pub gateway: Option<IpAddr>,
    /// The source address that the kernel would choose.
    pub prefsrc: Option<IpAddr>,
    /// The address is this host's own.
    pub local: bool,
}

/// What a message of `RTM_NEWROUTE` or `RTM_DELROUTE` says, for all its next hops.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) destination: IpNet,
    pub(crate) table: u32,
    pub(crate) metric: u32,
    kind: RouteType,
    prefsrc: Option<IpAddr>,
    /// Interface and gateway.
    hops: Vec<(u32, Option<IpAddr>)>,
}

impl Decoded {
    /// `None` for what is no route of IPv4 or IPv6.
    pub(crate) fn new(message: &RouteMessage) -> Option<Decoded> {
        let header = &message.header;
        let mut destination = match header.address_family {
            AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            _ => return None,
        };
        let (mut table, mut metric, mut prefsrc) = (u32::from(header.table), 0, None);
        let mut hops = Vec::new();
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Destination(to) => destination = ip(to)?,
                RouteAttribute::Table(number) => table = *number,
                RouteAttribute::Priority(number) => metric = *number,
                RouteAttribute::PrefSource(from) => prefsrc = ip(from),
                RouteAttribute::MultiPath(several) => {
                    // Dead ones are out of use until their interface is up again.
                    let alive = several
                        .iter()
                        .filter(|hop| !hop.flags.contains(RouteNextHopFlags::Dead));
                    hops.extend(alive.map(|hop| (hop.interface_index, gateway(&hop.attributes))));
                }
                RouteAttribute::Oif(index) => hops.push((*index, gateway(&message.attributes))),
                _ => {}
            }
        }
        let destination = IpNet::new(destination, header.destination_prefix_length).ok()?;
        Some(Decoded {
            destination,
            table,
            metric,
            kind: header.kind,
            prefsrc,
            hops,
        })
    }

    /// The unicast routes that it stands for: none for a host's own addresses, broadcast and the like.
    pub(crate) fn routes(&self) -> impl Iterator<Item = Route> {
        let wanted = self.kind == RouteType::Unicast && self.table != LOCAL;
        let Decoded {
            destination,
            table,
            metric,
            ..
        } = *self;
        let hops = if wanted { &self.hops[..] } else { &[] };
        hops.iter().map(move |(index, gateway)| Route {
            index: *index,
            destination,
            gateway: *gateway,
            table,
            metric,
        })
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some((*v4).into()),
        RouteAddress::Inet6(v6) => Some((*v6).into()),
        _ => None,
    }
}

fn gateway(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(to) => ip(to),
        RouteAttribute::Via(RouteVia::Inet(v4)) => Some((*v4).into()),
        RouteAttribute::Via(RouteVia::Inet6(v6)) => Some((*v6).into()),
        _ => None,
    })
}

impl Netlink {
    /// The unicast routes of all tables that leave by the interface `index`, without those of its own addresses
    /// (broadcast, multicast, the local table). None if there is no such interface.
    ///
    /// # Errors
    /// What the kernel refuses the dump with.
    pub fn routes(&mut self, index: u32) -> Result<Vec<Route>, Error> {
        let mut routes = Vec::new();
        let what = format!("interface {index}: routes");
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            message.attributes.push(RouteAttribute::Oif(index));
            let dump = self.dump(&what, &RouteNetlinkMessage::GetRoute(message));
            for message in unless(
                dump,
                &[libc::ENODEV, libc::EAFNOSUPPORT, libc::EOPNOTSUPP],
                vec![],
            )? {
                let RouteNetlinkMessage::NewRoute(message) = message else {
                    continue;
                };
                // A kernel without this IP version answers with all that it has of the other.
                if message.header.address_family != family
                    || message.header.flags.contains(RouteFlags::Cloned)
                {
                    continue;
                }
                let decoded = Decoded::new(&message);
                routes.extend(
                    decoded
                        .iter()
                        .flat_map(Decoded::routes)
                        .filter(|route| route.index == index),
                );
            }
        }
        Ok(routes)
    }

    /// The way that the kernel would send to `remote` now, policy rules included; only by the interface `out` if given.
    /// `None` if there is no way: no route, or one that forbids it.
    ///
    /// An address with no route by `out` counts as unreachable, although the kernel would take it for one on that link.
    ///
    /// # Errors
    /// What the kernel refuses the look-up with, for example `ENODEV` if `out` is gone.
    pub fn route_to(&mut self, remote: IpAddr, out: Option<u32>) -> Result<Option<RouteTo>, Error> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(remote);
        message.header.destination_prefix_length = if remote.is_ipv4() { 32 } else { 128 };
        if remote.is_ipv4() {
            // Of IPv6 the answer has the table anyway.
            message.header.flags = RouteFlags::LookupTable;
        }
        message
            .attributes
            .push(RouteAttribute::Destination(remote.into()));
        message.attributes.extend(out.map(RouteAttribute::Oif));
        let got = self.request(
            &format!("route to {remote}"),
            RouteNetlinkMessage::GetRoute(message),
            0,
        );
        let none = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EACCES];
        let found = unless(got, &none, vec![])?;
        Ok(found.iter().find_map(|message| match message {
            RouteNetlinkMessage::NewRoute(message) => to(&Decoded::new(message)?),
            _ => None,
        }))
    }
}

/// What the kernel's answer to a look-up says.
fn to(found: &Decoded) -> Option<RouteTo> {
    let local = found.kind == RouteType::Local;
    // Without a table there was no route: the kernel took the address for one on the link.
    if found.table == 0 || !(local || found.kind == RouteType::Unicast) {
        return None;
    }
    let (oif, gateway) = *found.hops.first()?;
    Some(RouteTo {
        oif,
        gateway,
        prefsrc: found.prefsrc,
        local,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_route::route::RouteNextHop;

    fn message(kind: RouteType, table: u32) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message.header.destination_prefix_length = 24;
        message.header.kind = kind;
        message.attributes = vec![
            RouteAttribute::Destination(Ipv4Addr::new(10, 77, 0, 0).into()),
            RouteAttribute::Table(table),
            RouteAttribute::Priority(5),
        ];
        message
    }

    #[test]
    fn each_next_hop_is_a_route() {
        let mut several = message(RouteType::Unicast, 254);
        let hop = |index: u32, via: RouteAttribute| {
            let mut hop = RouteNextHop::default();
            hop.interface_index = index;
            hop.attributes.push(via);
            hop
        };
        let v6: Ipv6Addr = "fe80::1".parse().expect("an address");
        several.attributes.push(RouteAttribute::MultiPath(vec![
            hop(3, RouteAttribute::Gateway(Ipv4Addr::new(192, 0, 2, 1).into())),
            hop(4, RouteAttribute::Via(v6.into())),
        ]));
        let routes: Vec<Route> = Decoded::new(&several).expect("a route").routes().collect();
        let route = |index, gateway: IpAddr| Route {
            index,
            destination: "10.77.0.0/24".parse().expect("a network"),
            gateway: Some(gateway),
            table: 254,
            metric: 5,
        };
        assert_eq!(
            routes,
            [route(3, Ipv4Addr::new(192, 0, 2, 1).into()), route(4, v6.into())]
        );
    }

    #[test]
    fn only_unicast_of_other_tables_than_local() {
        for (kind, table, count) in [
            (RouteType::Unicast, 254, 1),
            (RouteType::Unicast, 1000, 1),
            (RouteType::Unicast, LOCAL, 0),
            (RouteType::Broadcast, 254, 0),
            (RouteType::BlackHole, 254, 0),
        ] {
            let mut message = message(kind, table);
            message.attributes.push(RouteAttribute::Oif(2));
            let decoded = Decoded::new(&message).expect("a route");
            assert_eq!(decoded.routes().count(), count, "{kind:?} {table}");
        }
    }

    #[test]
    fn odd_messages_are_no_routes() {
        let mut long = message(RouteType::Unicast, 254);
        long.header.destination_prefix_length = 33;
        assert_eq!(Decoded::new(&long), None);
        let mut other = message(RouteType::Unicast, 254);
        other.header.address_family = AddressFamily::Bridge;
        assert_eq!(Decoded::new(&other), None);
        // A look-up that found no table, and one without an interface.
        let mut none = message(RouteType::Unicast, 0);
        assert_eq!(to(&Decoded::new(&none).expect("a route")), None);
        none.attributes.push(RouteAttribute::Oif(2));
        assert_eq!(to(&Decoded::new(&none).expect("a route")), None);
    }
}

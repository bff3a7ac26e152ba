//! The routes and addresses of an interface, as dumps.

mod support;

use nf_kernel::{Address, Netlink, Route};
use std::collections::HashSet;
use support::{in_namespace, ip, veth};

fn check_routes(netlink: &mut Netlink, index: u32) {
    ip("route add 10.77.0.0/24 via 10.8.0.2");
    ip("route add 10.78.0.0/16 via 10.8.0.3 table 1000 metric 9");
    ip("route add default via 10.8.0.4");
    ip("route add 10.79.0.0/24 nexthop via 10.8.0.5 nexthop via 10.99.0.5");
    ip("route add 10.80.0.0/24 via inet6 fd08::5 dev v0");
    ip("route add fd77::/48 via fd08::2");
    ip("route add blackhole 10.81.0.0/24");
    let routes = netlink.routes(index).expect("a dump");
    let wanted = |destination: &str, gateway: Option<&str>, table, metric| Route {
        index,
        destination: destination.parse().expect("a network"),
        gateway: gateway.map(|g| g.parse().expect("an address")),
        table,
        metric,
    };
    let v4: HashSet<Route> = routes
        .iter()
        .filter(|r| r.destination.addr().is_ipv4())
        .cloned()
        .collect();
    let expected = [
        wanted("10.8.0.0/24", None, 254, 0),
        wanted("10.9.0.2/32", None, 254, 0),
        wanted("10.77.0.0/24", Some("10.8.0.2"), 254, 0),
        wanted("10.78.0.0/16", Some("10.8.0.3"), 1000, 9),
        wanted("0.0.0.0/0", Some("10.8.0.4"), 254, 0),
        wanted("10.79.0.0/24", Some("10.8.0.5"), 254, 0),
        wanted("10.80.0.0/24", Some("fd08::5"), 254, 0),
    ];
    assert_eq!(v4, expected.into());
    let v6: HashSet<Route> = routes
        .iter()
        .filter(|r| r.destination.addr().is_ipv6())
        .cloned()
        .collect();
    let link = "fe80::/64".parse().expect("a network");
    let v6: HashSet<Route> = v6.into_iter().filter(|r| r.destination != link).collect();
    let expected = [
        wanted("fd08::/64", None, 254, 256),
        wanted("fd77::/48", Some("fd08::2"), 254, 1024),
    ];
    assert_eq!(v6, expected.into());
}

#[test]
fn routes_and_addresses_of_an_interface() {
    in_namespace("routes_and_addresses_of_an_interface", || {
        let mut netlink = Netlink::open().expect("rtnetlink");
        let index = veth(&mut netlink);
        let other = netlink.link("v1").expect("a look-up").expect("v1").index;
        assert_eq!(netlink.addresses(index).expect("a dump"), []);
        ip("addr add 10.8.0.1/24 dev v0");
        ip("addr add 10.9.0.1 peer 10.9.0.2/32 dev v0");
        ip("addr add fd08::1/64 dev v0 nodad");
        ip("addr add 10.99.0.1/24 dev v1");
        let addresses: HashSet<_> = netlink.addresses(index).expect("a dump").into_iter().collect();
        let wanted = [("10.8.0.1", 24), ("10.9.0.1", 32), ("fd08::1", 64)].map(|(text, prefix)| Address {
            index,
            address: text.parse().expect("an address"),
            prefix,
        });
        assert_eq!(addresses, wanted.into());

        check_routes(&mut netlink, index);
        assert!(
            netlink
                .routes(other)
                .expect("a dump")
                .iter()
                .all(|r| r.index == other)
        );
        assert_eq!(netlink.routes(9999).expect("a dump"), []);
        assert_eq!(netlink.addresses(9999).expect("a dump"), []);

        // IPv4 routes vanish with the interface.
        netlink.set_up(index, false).expect("set");
        assert!(netlink.routes(index).expect("a dump").is_empty());
    });
}

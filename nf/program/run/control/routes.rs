//! Whose inner addresses are whose: the configured ones, and what the kernel routes to a peer.

use crate::program::run::registry::TunnelPeers;
use nf_kernel::Route;
use nf_state::IpNet;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// One change of the workers' tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This prefix is that peer's from now on.
    Add(IpNet, u32),
    /// This prefix is no longer that peer's.
    Remove(IpNet, u32),
}

/// What the tables should hold: each peer's own addresses and networks, and on top of that every route of the tunnel
/// interface whose next hop is a peer's VPN address. Of several to one destination the kernel takes that with the least
/// metric.
pub fn wanted(tunnel: &TunnelPeers, kernel: &[Route]) -> BTreeMap<IpNet, u32> {
    let own = tunnel
        .peers
        .values()
        .flat_map(|e| e.prefixes().map(|prefix| (prefix, e.id)));
    let mut wanted: BTreeMap<IpNet, u32> = own.collect();
    let mut best: BTreeMap<IpNet, u32> = BTreeMap::new();
    let vpn: HashMap<IpAddr, u32> = tunnel
        .peers
        .values()
        .flat_map(|e| e.addresses.iter().map(|a| (*a, e.id)))
        .collect();
    for route in kernel {
        let Some(peer) = route.gateway.and_then(|g| vpn.get(&g).copied()) else {
            continue;
        };
        let least = best.entry(route.destination).or_insert(u32::MAX);
        if route.metric <= *least {
            *least = route.metric;
            wanted.insert(route.destination, peer);
        }
    }
    wanted
}

/// The steps from what the tables hold to what they should. Prefixes that only change hands are added without being
/// removed first: no packet falls in between.
pub fn steps(now: &BTreeMap<IpNet, u32>, wanted: &BTreeMap<IpNet, u32>) -> Vec<Step> {
    let added = wanted
        .iter()
        .filter(|(prefix, peer)| now.get(prefix) != Some(peer));
    let removed = now.iter().filter(|(prefix, _)| !wanted.contains_key(prefix));
    let added = added.map(|(prefix, peer)| Step::Add(*prefix, *peer));
    added
        .chain(removed.map(|(prefix, peer)| Step::Remove(*prefix, *peer)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::run::registry::{Entry, HeldKeys};
    use crate::program::statics::StaticPeer;

    fn tunnel() -> TunnelPeers {
        let mut tunnel = TunnelPeers::new("t0");
        for (id, address, network) in [(1, "10.8.0.2", "10.77.0.0/24"), (2, "10.8.0.3", "10.78.0.0/16")] {
            let spec = StaticPeer {
                id,
                keys: Vec::new(),
                remote: None,
                local: None,
                addresses: vec![address.parse().unwrap()],
                networks: vec![network.parse().unwrap()],
                keepalive: None,
            };
            tunnel
                .peers
                .insert(id, Entry::new(&spec, HeldKeys::default(), None, 1));
        }
        tunnel
    }

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn route(destination: &str, gateway: Option<&str>, metric: u32) -> Route {
        Route {
            index: 9,
            destination: net(destination),
            gateway: gateway.map(|g| g.parse().unwrap()),
            table: 254,
            metric,
        }
    }

    #[test]
    fn what_the_kernel_routes_to_a_peer_is_the_peers() {
        let kernel = [
            route("10.8.0.0/24", None, 0),
            route("10.90.0.0/16", Some("10.8.0.3"), 0),
            route("10.77.0.0/24", Some("10.8.0.3"), 0),
            route("10.91.0.0/16", Some("10.8.0.99"), 0),
        ];
        let wanted = wanted(&tunnel(), &kernel);
        let expected = [
            ("10.8.0.2/32", 1),
            ("10.8.0.3/32", 2),
            ("10.77.0.0/24", 2),
            ("10.78.0.0/16", 2),
            ("10.90.0.0/16", 2),
        ];
        assert_eq!(wanted, expected.map(|(n, p)| (net(n), p)).into());
    }

    #[test]
    fn of_two_routes_the_one_with_the_least_metric_counts() {
        for order in [[0, 1], [1, 0]] {
            let routes = [
                route("10.90.0.0/16", Some("10.8.0.3"), 5),
                route("10.90.0.0/16", Some("10.8.0.2"), 100),
            ];
            let kernel = order.map(|i| routes[i].clone());
            assert_eq!(wanted(&tunnel(), &kernel)[&net("10.90.0.0/16")], 2);
        }
    }

    #[test]
    fn steps_lead_from_one_to_the_other() {
        let now = [("10.1.0.0/16", 1), ("10.2.0.0/16", 1), ("10.3.0.0/16", 2)];
        let wanted = [("10.1.0.0/16", 1), ("10.2.0.0/16", 2), ("10.4.0.0/16", 2)];
        let steps = steps(
            &now.map(|(n, p)| (net(n), p)).into(),
            &wanted.map(|(n, p)| (net(n), p)).into(),
        );
        assert_eq!(
            steps,
            [
                Step::Add(net("10.2.0.0/16"), 2),
                Step::Add(net("10.4.0.0/16"), 2),
                Step::Remove(net("10.3.0.0/16"), 2)
            ]
        );
    }
}

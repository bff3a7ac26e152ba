use std::net::IpAddr;

use proptest::prelude::*;

use super::*;

fn net(text: &str) -> IpNet {
    text.parse().expect(text)
}

fn lookup(routes: &Routes, address: &str) -> Option<u32> {
    match address.parse().expect(address) {
        IpAddr::V4(a) => routes.lookup_v4(a.octets()),
        IpAddr::V6(a) => routes.lookup_v6(a.octets()),
    }
}

#[test]
fn the_longest_prefix_wins_whatever_came_first() {
    for order in [["10.16.0.0/12", "10.16.5.0/24"], ["10.16.5.0/24", "10.16.0.0/12"]] {
        let mut routes = Routes::new();
        for prefix in order {
            let peer = if prefix.ends_with("/12") { 1 } else { 2 };
            assert_eq!(routes.insert(net(prefix), peer), Ok(()));
        }
        assert_eq!(lookup(&routes, "10.16.5.9"), Some(2));
        assert_eq!(lookup(&routes, "10.16.6.9"), Some(1));
        assert_eq!(lookup(&routes, "10.32.0.0"), None);
        routes.remove_peer(2);
        assert_eq!(lookup(&routes, "10.16.5.9"), Some(1), "the net around it is back");
        routes.remove_peer(1);
        assert_eq!(lookup(&routes, "10.16.5.9"), None);
    }
}

#[test]
fn the_same_prefix_of_another_peer_is_a_conflict_that_names_both() {
    let mut routes = Routes::new();
    assert_eq!(routes.insert(net("192.168.89.0/24"), 4), Ok(()));
    assert_eq!(
        routes.insert(net("192.168.89.7/24"), 4),
        Ok(()),
        "again, host bits ignored"
    );
    let conflict = routes.insert(net("192.168.89.1/24"), 5).expect_err("held");
    assert_eq!(
        conflict,
        Conflict {
            prefix: net("192.168.89.0/24"),
            peer: 5,
            holder: 4
        }
    );
    assert_eq!(
        conflict.to_string(),
        "192.168.89.0/24 of peer 5 is held by peer 4"
    );
    assert_eq!(lookup(&routes, "192.168.89.1"), Some(4));
    // An old instance of a client goes after the new one has come: the net goes over, and stays.
    routes.remove_peer(4);
    assert_eq!(routes.insert(net("192.168.89.0/24"), 5), Ok(()));
    routes.remove_peer(4);
    assert_eq!(lookup(&routes, "192.168.89.1"), Some(5));
}

#[test]
fn families_are_apart_and_defaults_and_hosts_are_prefixes() {
    let mut routes = Routes::new();
    assert_eq!(routes.insert(net("0.0.0.0/0"), 1), Ok(()));
    assert_eq!(lookup(&routes, "::"), None);
    assert_eq!(routes.insert(net("::/0"), 2), Ok(()));
    assert_eq!(routes.insert(net("255.255.255.255/32"), 3), Ok(()));
    assert_eq!(routes.insert(net("fd00::1/128"), 0), Ok(()));
    let found = [
        "0.0.0.0",
        "255.255.255.255",
        "255.255.255.254",
        "fd00::1",
        "fd00::2",
        "::ffff:1.2.3.4",
    ];
    let peers = [Some(1), Some(3), Some(1), Some(0), Some(2), Some(2)];
    assert_eq!(found.map(|a| lookup(&routes, a)), peers);
}

/// Few distinct bits, so that prefixes nest and meet.
fn v4() -> impl Strategy<Value = Ipv4Net> {
    let bits = prop_oneof![any::<u32>(), 0..64u32, any::<u32>().prop_map(|n| n & 0x0f00_00ff)];
    (bits, 0..=32u8).prop_map(|(bits, len)| Ipv4Net::new(bits.into(), len).expect("length"))
}

fn v6() -> impl Strategy<Value = Ipv6Net> {
    let bits = prop_oneof![
        any::<u128>(),
        0..64u128,
        any::<u128>().prop_map(|n| n & (0xf << 120 | 0xff))
    ];
    (bits, 0..=128u8).prop_map(|(bits, len)| Ipv6Net::new(bits.into(), len).expect("length"))
}

fn any_net() -> impl Strategy<Value = IpNet> {
    prop_oneof![v4().prop_map(IpNet::V4), v6().prop_map(IpNet::V6)]
}

/// All prefixes in a row: the longest that contains the address.
#[derive(Default)]
struct Linear(Vec<(IpNet, u32)>);

impl Linear {
    fn insert(&mut self, prefix: IpNet, peer: u32) -> Result<(), Conflict> {
        let prefix = prefix.trunc();
        match self.0.iter().find(|(held, _)| *held == prefix) {
            Some((_, holder)) if *holder == peer => {}
            Some((_, holder)) => {
                return Err(Conflict {
                    prefix,
                    peer,
                    holder: *holder,
                });
            }
            None => self.0.push((prefix, peer)),
        }
        Ok(())
    }

    fn lookup(&self, address: IpAddr) -> Option<u32> {
        let holding = self.0.iter().filter(|(prefix, _)| prefix.contains(&address));
        holding
            .max_by_key(|(prefix, _)| prefix.prefix_len())
            .map(|(_, peer)| *peer)
    }
}

proptest! {
    #[test]
    fn same_answers_as_a_linear_search(
        inserts in prop::collection::vec((any_net(), 0..6u32), 0..80),
        removed in 0..6u32,
        probes in prop::collection::vec(any_net(), 40),
    ) {
        let (mut routes, mut linear) = (Routes::new(), Linear::default());
        let agree = |routes: &Routes, linear: &Linear| {
            let ends = inserts.iter().flat_map(|(n, _)| [n.network(), n.broadcast(), n.addr()]);
            for address in ends.chain(probes.iter().map(IpNet::addr)) {
                let found = match address {
                    IpAddr::V4(a) => routes.lookup_v4(a.octets()),
                    IpAddr::V6(a) => routes.lookup_v6(a.octets()),
                };
                prop_assert_eq!(found, linear.lookup(address), "{}", address);
            }
            Ok(())
        };
        for (prefix, peer) in &inserts {
            prop_assert_eq!(routes.insert(*prefix, *peer), linear.insert(*prefix, *peer));
        }
        agree(&routes, &linear)?;
        routes.remove_peer(removed);
        linear.0.retain(|(_, peer)| *peer != removed);
        agree(&routes, &linear)?;
    }
}

#[test]
fn a_prefix_moves_to_another_peer_and_is_taken_away_from_its_holder_only() {
    let mut routes = Routes::new();
    for net in ["10.77.0.0/24", "2001:db8::/64"] {
        let net: IpNet = net.parse().unwrap();
        assert_eq!(routes.set(net, 1), None);
        assert_eq!(routes.set(net, 2), Some(1));
        assert!(!routes.remove(net, 1), "peer 2 has it by now");
        let found = |routes: &Routes| match net {
            IpNet::V4(n) => routes.lookup_v4(n.network().octets()),
            IpNet::V6(n) => routes.lookup_v6(n.network().octets()),
        };
        assert_eq!(found(&routes), Some(2));
        assert!(routes.remove(net, 2));
        assert!(!routes.remove(net, 2));
        assert_eq!(found(&routes), None);
    }
}

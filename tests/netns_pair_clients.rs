//! Traffic between two peers goes through the kernel of the gateway that both are connected to, which may refuse it.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/judge.rs"]
mod judge;
#[path = "support/pair.rs"]
mod pair;

use gateway::{PATIENCE, mac};
use judge::packet::{Frame, ICMP, ICMPV6, Ip};
use judge::recorder::Recorder;
use pair::{End, Pair, Plan, Side, TUNNEL};
use std::time::Instant;

/// The left side is the hub. The right one is its clients, each with what a client has: no source check, and nothing but
/// a way to the hub.
fn plan() -> Plan<'static> {
    Plan {
        right_tunnel: "source_check = false",
        ..Plan::default()
    }
}

/// Makes a hub of the left side's kernel, and of each address of the right side's a machine of its own: what it sends to
/// another one leaves through the hub, and what comes from another one is taken.
fn prepare(pair: &Pair) {
    let set = |side: &Side, key: &str, value: &str| {
        let path = format!("/proc/sys/net/{key}");
        side.namespace
            .enter(|| std::fs::write(path, value).expect("root may"));
    };
    set(&pair.left, "ipv4/ip_forward", "1");
    set(&pair.left, "ipv6/conf/all/forwarding", "1");
    set(&pair.right, &format!("ipv4/conf/{TUNNEL}/accept_local"), "1");
    for (v6, family, all) in [(false, "-4", "10.8.0.20/30"), (true, "-6", "fd08::b0/124")] {
        let ip = |words: &str| {
            let words = words.split(' ');
            pair.right
                .run(&[&["ip", family], &words.collect::<Vec<_>>()[..]].concat());
        };
        // Before the local table, for what is sent here only.
        ip("rule add pref 100 lookup local");
        ip("rule del pref 0");
        for peer in 0..pair.peers {
            let (own, hub) = (End::Right.vpn(peer, v6), End::Left.vpn(peer, v6));
            let table = 1000 + peer;
            ip(&format!(
                "rule add pref {} iif lo from {own} to {all} lookup {table}",
                10 + peer
            ));
            ip(&format!("route add default via {hub} dev {TUNNEL} table {table}"));
        }
    }
}

/// Pings one client from another.
fn ping(pair: &Pair, [from, to]: [u32; 2], v6: bool) -> (bool, String) {
    let [from, to] = [from, to].map(|peer| End::Right.vpn(peer, v6).to_string());
    let mut command = pair
        .right
        .command(&["ping", "-n", "-c3", "-i0.02", "-W2", "-I", &from, &to]);
    let out = command.output().expect("ip was there before");
    (
        out.status.success(),
        String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned(),
    )
}

/// Packets delivered from a peer, and sent to it, at the hub.
fn row(pair: &Pair, peer: u32) -> [u64; 2] {
    let peers = pair.left.gateway.telemetry(&format!("/ovpn/peers,0,{peer}"));
    assert_eq!(peers["id"][0], peer, "{peers}");
    ["vpn_rx_packets", "vpn_tx_packets"]
        .map(|column| peers[column][0].as_u64().unwrap_or_else(|| panic!("{peers}")))
}

/// How many echo packets there are, and how many redirects.
fn count(frames: &[Vec<u8>], from: Option<[u8; 6]>) -> [usize; 2] {
    let (mut echoes, mut redirects) = (0, 0);
    for bytes in frames {
        let frame = Frame::parse(bytes).expect("a header");
        if from.is_some_and(|mac| frame.src != mac) || !frame.is_ip() {
            continue;
        }
        let Ok(ip) = Ip::parse(frame.payload) else {
            continue;
        };
        match (ip.protocol, ip.payload.first()) {
            (ICMP, Some(0 | 8)) | (ICMPV6, Some(128 | 129)) => echoes += 1,
            (ICMP, Some(5)) | (ICMPV6, Some(137)) => redirects += 1,
            _ => {}
        }
    }
    [echoes, redirects]
}

#[test]
fn clients_reach_each_other_through_the_hub() {
    Pair::test("clients_reach_each_other_through_the_hub", &plan(), |pair| {
        pair.connected();
        prepare(pair);
        // Its kernel sends IPv6 redirects from a link-local address.
        pair.left
            .run(&["ip", "address", "add", "fe80::1/64", "dev", TUNNEL, "nodad"]);
        let hub = Recorder::start(&pair.left.namespace, TUNNEL);
        let clients = Recorder::start(&pair.right.namespace, TUNNEL);
        let before = [0, 1, 2].map(|peer| row(pair, peer));
        for v6 in [false, true] {
            for pairing in [[0, 1], [1, 2], [2, 0]] {
                let (answered, said) = ping(pair, pairing, v6);
                assert!(
                    answered,
                    "{pairing:?}: {said}left {:?}, right {:?}",
                    pair.left.losses(),
                    pair.right.losses()
                );
            }
        }
        // Each is in two pairings of each family: it sends three requests and three replies, and gets as many.
        let until = Instant::now() + PATIENCE;
        let grown = || {
            let now = [0, 1, 2].map(|peer| row(pair, peer)).into_iter().zip(before);
            now.map(|(now, before)| [now[0] - before[0], now[1] - before[1]])
                .collect::<Vec<_>>()
        };
        while grown() != [[12, 12]; 3] {
            assert!(
                Instant::now() < until,
                "{:?}: left {:?}, right {:?}, {:?} seen at the hub, {:?} at the clients",
                grown(),
                pair.left.losses(),
                pair.right.losses(),
                count(&hub.stop(), None),
                count(&clients.stop(), None)
            );
        }
        let own = pair.left.namespace.enter(|| mac(TUNNEL));
        let (hub, clients) = (hub.stop(), clients.stop());
        let [sent, redirects] = count(&hub, Some(own));
        assert_eq!(sent, 36, "what the hub forwarded");
        let v4_redirects = hub.iter().filter(|f| {
            let frame = Frame::parse(f).expect("a header");
            Ip::parse(frame.payload).is_ok_and(|ip| ip.protocol == ICMP && ip.payload.first() == Some(&5))
        });
        assert_eq!(v4_redirects.count(), 0, "the kernel sends redirects");
        // IPv6 has no setting for it; what the kernel says there is for nobody.
        assert!(redirects > 0, "the hub's kernel says nothing");
        assert_eq!(count(&clients, None), [72, 0], "what the clients sent and got");
    });
}

#[test]
fn a_firewall_rule_keeps_clients_apart() {
    Pair::test("a_firewall_rule_keeps_clients_apart", &plan(), |pair| {
        pair.connected();
        prepare(pair);
        for v6 in [false, true] {
            let (answered, said) = ping(pair, [0, 1], v6);
            assert!(answered, "{said}");
        }
        pair.left.run(&["nft", "add", "table", "inet", "hub"]);
        pair.left.run(&[
            "nft",
            "add chain inet hub forward { type filter hook forward priority 0; policy accept; }",
        ]);
        let interface = format!("add rule inet hub forward iifname {TUNNEL} oifname {TUNNEL} counter drop");
        pair.left.run(&["nft", &interface]);
        let before = [0, 1].map(|peer| row(pair, peer));
        for v6 in [false, true] {
            let (answered, said) = ping(pair, [0, 1], v6);
            assert!(!answered, "{said}");
        }
        let now = [0, 1].map(|peer| row(pair, peer));
        assert_eq!(now[0][0] - before[0][0], 6, "the requests came to the hub");
        assert_eq!(now[1], before[1], "nothing is for the other client");
        let rules = pair.left.run(&["nft", "list", "table", "inet", "hub"]);
        assert!(rules.contains("counter packets 6"), "{rules}");
        pair.left.run(&["nft", "delete", "table", "inet", "hub"]);
        for v6 in [false, true] {
            let (answered, said) = ping(pair, [0, 1], v6);
            assert!(answered, "{said}");
        }
    });
}

//! Routes of the tunnel interface choose the peer, and say which inner sources are a peer's.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/host_frames.rs"]
mod host_frames;
#[path = "support/judge.rs"]
mod judge;
#[path = "support/pair.rs"]
mod pair;

use gateway::{mac, wait_for};
use judge::recorder::Recorder;
use pair::{End, Pair, Plan, TUNNEL};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A network behind a peer of the left side, and the address of it that the right side has.
fn network(v6: bool) -> (&'static str, &'static str) {
    if v6 {
        ("fd77::/64", "fd77::1")
    } else {
        ("10.77.0.0/24", "10.77.0.1")
    }
}

/// Runs `ip` with these words on a side.
fn ip(pair: &Pair, end: End, words: &str) {
    let words = words.split(' ').collect::<Vec<_>>();
    pair.side(end).run(&[&["ip"], &words[..]].concat());
}

/// Whether an address answers an echo request from another.
fn answers(pair: &Pair, end: End, from: &str, to: &str) -> bool {
    let mut ping = pair
        .side(end)
        .command(&["ping", "-n", "-c1", "-W1", "-I", from, to]);
    ping.output().expect("ip was there before").status.success()
}

/// Inner packets that the left side had from a peer, and those for it.
fn row(pair: &Pair, peer: u32) -> [u64; 2] {
    let peers = pair.left.gateway.telemetry(&format!("/ovpn/peers,0,{peer}"));
    assert_eq!(peers["id"][0], peer, "{peers}");
    ["vpn_rx_packets", "vpn_tx_packets"]
        .map(|column| peers[column][0].as_u64().unwrap_or_else(|| panic!("{peers}")))
}

fn rows(pair: &Pair) -> Vec<[u64; 2]> {
    (0..pair.peers).map(|peer| row(pair, peer)).collect()
}

/// What was added to each peer's counters.
fn grown(pair: &Pair, before: &[[u64; 2]]) -> Vec<[u64; 2]> {
    let now = rows(pair).into_iter().zip(before);
    now.map(|(now, before)| [now[0] - before[0], now[1] - before[1]])
        .collect()
}

/// Waits until the left side refuses what the right one sends from its network to the peer's address: the source check
/// follows the kernel's routes, but not at once.
fn refused(pair: &Pair, peer: u32, v6: bool) {
    let to = End::Left.vpn(peer, v6).to_string();
    wait_for("a refusal", || {
        let before = (pair.left.gateway.dropped("bad_source"), row(pair, peer)[0]);
        let answered = answers(pair, End::Right, network(v6).1, &to);
        let now = (pair.left.gateway.dropped("bad_source"), row(pair, peer)[0]);
        !answered && now == (before.0 + 1, before.1)
    });
}

fn route_carries_traffic(name: &str, v6: bool) {
    Pair::test(name, &Plan::default(), |pair| {
        pair.connected();
        let (network, address) = network(v6);
        let left = |peer| End::Left.vpn(peer, v6).to_string();
        let via = |peer| format!("{network} via {} dev {TUNNEL}", End::Right.vpn(peer, v6));
        ip(pair, End::Right, &format!("address add {address} dev lo"));
        // Without a route there is no way, and the other way round the source is nobody's.
        let before = rows(pair);
        assert!(!answers(pair, End::Left, &left(0), address));
        refused(pair, 0, v6);
        assert_eq!(grown(pair, &before), [[0, 0]; 3]);

        ip(pair, End::Left, &format!("route add {}", via(0)));
        wait_for("an answer of peer 0", || {
            answers(pair, End::Left, &left(0), address)
        });
        let before = rows(pair);
        let said = pair
            .left
            .run(&["ping", "-n", "-c10", "-i0.01", "-I", &left(0), address]);
        wait_for(&format!("ten replies: {said}"), || {
            grown(pair, &before) == [[10, 10], [0, 0], [0, 0]]
        });
        assert!(answers(pair, End::Right, address, &left(0)));

        // It moves to another peer: that one gets all, and may send; the former one may not any more.
        ip(pair, End::Left, &format!("route replace {}", via(1)));
        wait_for("an answer of peer 1", || {
            answers(pair, End::Left, &left(1), address)
        });
        refused(pair, 0, v6);
        let before = rows(pair);
        let said = pair
            .left
            .run(&["ping", "-n", "-c10", "-i0.01", "-I", &left(1), address]);
        wait_for(&format!("ten replies: {said}"), || {
            grown(pair, &before) == [[0, 0], [10, 10], [0, 0]]
        });

        ip(pair, End::Left, &format!("route del {}", via(1)));
        refused(pair, 1, v6);
        let before = rows(pair);
        assert!(!answers(pair, End::Left, &left(1), address));
        assert_eq!(grown(pair, &before), [[0, 0]; 3]);
        pair.connected();
    });
}

#[test]
fn a_route_added_while_running_carries_traffic() {
    route_carries_traffic("a_route_added_while_running_carries_traffic", false);
}

#[test]
fn an_ipv6_route_added_while_running_carries_traffic() {
    route_carries_traffic("an_ipv6_route_added_while_running_carries_traffic", true);
}

/// An inner source, and whether the left side takes it from peer 0.
type Source = (&'static str, bool);

/// Sends a packet from each source to the left side through peer 0, and sees which ones come out. What is not taken is
/// counted as `bad_source`.
fn check_sources(pair: &Pair, sources: &[Source]) {
    let (mut right, mut left) = (pair.right.wire(TUNNEL), pair.left.wire(TUNNEL));
    let own = pair.right.namespace.enter(|| mac(TUNNEL));
    let before = pair.left.gateway.dropped("bad_source");
    let frame = |number: usize, source: &str| {
        let source: IpAddr = source.parse().expect("an address");
        let to = End::Left.vpn(0, source.is_ipv6());
        let marker = format!("source number {number}, from {source}");
        let (from, to) = (SocketAddr::new(source, 4000), SocketAddr::new(to, 4001));
        host_frames::udp([[2, 0x6f, 0x76, 0, 0, 0], own], from, to, marker.as_bytes())
    };
    for (i, (source, _)) in sources.iter().enumerate() {
        right.send(&frame(i, source));
    }
    let wanted: Vec<_> = sources
        .iter()
        .enumerate()
        .filter(|(_, (_, taken))| *taken)
        .collect();
    for (i, (source, _)) in &wanted {
        let inner = frame(*i, source)[12..].to_vec();
        let what = format!("the packet from {source}");
        let got = left.expect(&what, |f| f[12..14] == inner[..2] && is_marked(f));
        assert!(got[12..] == inner, "{what}, not {got:02x?}");
        assert_eq!(got[6..12], [2, 0x6f, 0x76, 0, 0, 0], "{what}");
    }
    let refused = sources.len() - wanted.len();
    wait_for("the others", || {
        pair.left.gateway.dropped("bad_source") - before == refused as u64
    });
    std::thread::sleep(Duration::from_millis(200));
    let more = std::iter::from_fn(|| left.next()).find(|f| is_marked(f));
    assert_eq!(more, None, "it should not come out");
}

/// At the place of the payload: the kernel quotes it in errors.
fn is_marked(frame: &[u8]) -> bool {
    let payload = if frame[12..14] == [8, 0] { 42 } else { 62 };
    frame
        .get(payload..)
        .is_some_and(|p| p.starts_with(b"source number "))
}

/// Sources that are no unicast address of anybody's network.
const NOBODYS: [&str; 9] = [
    "0.0.0.0",
    "127.0.0.1",
    "224.0.0.5",
    "255.255.255.255",
    "192.0.2.1",
    "::",
    "::1",
    "fe80::1",
    "ff02::1",
];

#[test]
fn only_sources_of_the_peer_pass() {
    // The right side has no source check, and may send what it likes.
    let plan = Plan {
        right_tunnel: "source_check = false",
        ..Plan::default()
    };
    Pair::test("only_sources_of_the_peer_pass", &plan, |pair| {
        pair.connected();
        let via = |peer, v6| format!("via {} dev {TUNNEL}", End::Right.vpn(peer, v6));
        for (network, peer) in [
            ("10.77.0.0/24", 0),
            ("10.78.0.0/24", 1),
            // The longest prefix decides.
            ("10.64.0.0/12", 1),
            ("10.77.0.128/25", 1),
            ("fd77::/64", 0),
            ("fd77:0:0:0:8000::/65", 1),
            ("fd78::/64", 1),
        ] {
            let v6 = network.contains(':');
            ip(pair, End::Left, &format!("route add {network} {}", via(peer, v6)));
        }
        // A route over the interface that is no peer's.
        ip(pair, End::Left, &format!("route add 10.79.0.0/24 dev {TUNNEL}"));
        let last = format!("fd79::/64 {}", via(0, true));
        ip(pair, End::Left, &format!("route add {last}"));
        ip(pair, End::Right, "address add fd79::1 dev lo");
        let to = End::Left.vpn(0, true).to_string();
        wait_for("the last of the routes", || {
            answers(pair, End::Right, "fd79::1", &to)
        });
        let mut sources: Vec<Source> = vec![
            ("10.8.0.20", true),
            ("10.8.0.21", false),
            ("10.8.0.10", false),
            ("10.8.0.99", false),
            ("10.77.0.0", true),
            ("10.77.0.127", true),
            ("10.77.0.128", false),
            ("10.77.1.1", false),
            ("10.78.0.1", false),
            ("10.79.0.1", false),
            ("fd08::b0", true),
            ("fd08::b1", false),
            ("fd08::b9", false),
            ("fd77::7fff:ffff:ffff:ffff", true),
            ("fd77::8000:0:0:0", false),
            ("fd78::1", false),
            ("fd79::ffff", true),
        ];
        sources.extend(NOBODYS.map(|source| (source, false)));
        check_sources(pair, &sources);
        pair.connected();
    });
}

#[test]
fn without_source_check_all_sources_pass() {
    let plan = Plan {
        tunnel: "source_check = false",
        ..Plan::default()
    };
    Pair::test("without_source_check_all_sources_pass", &plan, |pair| {
        pair.connected();
        let others = [
            "10.8.0.20",
            "10.8.0.21",
            "10.99.0.1",
            "fd08::b0",
            "fd08::b1",
            "fd99::1",
        ];
        let all = others.iter().chain(&NOBODYS);
        check_sources(pair, &all.map(|source| (*source, true)).collect::<Vec<_>>());
        pair.connected();
    });
}

/// Frames to addresses that are no peer's, as no kernel sends them: all are counted.
fn frames_for_nobody(pair: &Pair) {
    let before = pair.left.gateway.dropped("unknown_mac");
    let mut tunnel = pair.left.wire(TUNNEL);
    let own = pair.left.namespace.enter(|| mac(TUNNEL));
    let macs = [
        [2, 0x6f, 0x76, 0, 0, 3],
        [2, 0x6f, 0x76, 0xff, 0xff, 0xff],
        [2, 0x6f, 0x77, 0, 0, 0],
        [0; 6],
        own,
    ];
    for to in macs {
        let from = SocketAddr::new(End::Left.vpn(0, false), 1);
        let there = SocketAddr::new(End::Right.vpn(0, false), 2);
        tunnel.send(&host_frames::udp([to, own], from, there, b"for nobody"));
    }
    wait_for("all of them", || {
        pair.left.gateway.dropped("unknown_mac") - before == macs.len() as u64
    });
}

#[test]
fn group_and_unassigned_addresses_are_for_no_peer() {
    Pair::test(
        "group_and_unassigned_addresses_are_for_no_peer",
        &Plan::default(),
        |pair| {
            pair.connected();
            ip(
                pair,
                End::Left,
                &format!("address add 10.8.0.1/24 brd + dev {TUNNEL}"),
            );
            let gateway = &pair.left.gateway;
            let before = rows(pair);
            let sealed = gateway.counter("sealed");
            let (namespace, interface) = pair.far_end(End::Left);
            let wire = Recorder::start(namespace, interface);
            let ping = |words: &[&str]| {
                let mut ping = pair.left.command(&["ping", "-n", "-c2", "-i0.1", "-W1"]);
                let out = ping.args(words).output().expect("ip was there before");
                assert!(!out.status.success(), "somebody answered {words:?}");
            };
            for (reason, words) in [
                ("multicast", &["-I", TUNNEL, "224.0.0.5"][..]),
                ("broadcast", &["-b", "-I", TUNNEL, "255.255.255.255"]),
                ("broadcast", &["-b", "-I", TUNNEL, "10.8.0.255"]),
                ("multicast", &["-6", "-I", TUNNEL, "ff02::5"]),
                ("multicast", &["-6", "-I", TUNNEL, "ff05::101"]),
            ] {
                let before = gateway.dropped(reason);
                ping(words);
                wait_for(&format!("{words:?} as {reason}"), || {
                    gateway.dropped(reason) - before >= 2
                });
            }
            // All nodes: the kernel itself answers.
            let before_all = gateway.dropped("multicast");
            let mut all = pair
                .left
                .command(&["ping", "-n", "-c2", "-i0.1", "-W1", "-6", "-I", TUNNEL]);
            all.arg("ff02::1").output().expect("ip was there before");
            wait_for("ff02::1 as multicast", || {
                gateway.dropped("multicast") - before_all >= 2
            });
            // An address of the pool that nobody has: nobody says where it is.
            let noise = gateway.counter("kernel_noise");
            ping(&["10.8.0.99"]);
            wait_for("a question without answer", || {
                gateway.counter("kernel_noise") > noise
            });
            frames_for_nobody(pair);
            assert_eq!(grown(pair, &before), [[0, 0]; 3]);
            assert_eq!(gateway.counter("sealed"), sealed, "a record left");
            // What the hosts say to each other about addresses passes.
            let own = pair.left.namespace.enter(|| mac(pair::NIC));
            let udp = |f: &&Vec<u8>| f[6..12] == own && pair::relay::is_udp(f);
            assert_eq!(wire.stop().iter().filter(udp).count(), 0);
            pair.connected();
        },
    );
}

//! Floats while both sides send, and onto an address that another peer has.

#[path = "support/float.rs"]
mod float;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/judge.rs"]
mod judge;
#[path = "support/nat.rs"]
mod nat;
#[path = "support/pair.rs"]
mod pair;

use float::{ONE, add_addresses, assert_ping, inside, remote, said};
use gateway::wait_for;
use judge::Judge;
use nat::{Flow, Nat, flow};
use pair::{End, Pair, Plan, Side};
use serde_json::Value;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Datagrams of both sides to all peers, for so long; how many packets the kernels took.
fn send_rated(pair: &Pair, duration: Duration) -> usize {
    const EVERY: Duration = Duration::from_millis(2);
    let from = |side: &Side| {
        let other = side.end.other();
        side.namespace.enter(|| {
            let bind = |peer| {
                let socket =
                    UdpSocket::bind((side.end.vpn(peer, false), 7000)).expect("ovpn0 has the address");
                socket.connect((other.vpn(peer, false), 7000)).expect("a route");
                socket.set_nonblocking(true).expect("a socket");
                socket
            };
            (0..pair.peers).map(bind).collect::<Vec<_>>()
        })
    };
    let sockets = [from(&pair.left), from(&pair.right)];
    let (start, mut sent, mut payload) = (Instant::now(), 0u64, [0u8; 500]);
    while start.elapsed() < duration {
        for socket in sockets.iter().flatten() {
            payload[..8].copy_from_slice(&sent.to_be_bytes());
            socket.send(&payload).expect("the interface takes so few");
            sent += 1;
            while socket.recv(&mut [0; 500]).is_ok() {}
        }
        std::thread::sleep(EVERY);
    }
    sent as usize
}

#[test]
fn floats_under_load_lose_nothing() {
    let nat = Nat::new();
    let router = nat.clone();
    let plan = Plan {
        peers: 2,
        relay: Some(Arc::new(move |from, frame| router.pass(from, frame))),
        ..Plan::default()
    };
    Pair::test("floats_under_load_lose_nothing", &plan, |pair| {
        add_addresses(&pair.left, &["192.0.2.51/24", "192.0.2.52/24"]);
        pair.connected();
        let judge = Judge::start_as_seen_by(pair, End::Left);
        let sent = std::thread::scope(|scope| {
            let sender = scope.spawn(|| send_rated(pair, Duration::from_secs(5)));
            // Peer 0 alone; peer 1 stays where it is.
            for n in 0u16..20 {
                std::thread::sleep(Duration::from_millis(200));
                let src = SocketAddr::from(([192, 0, 2, 51 + (n % 2) as u8], 40_000 + n));
                nat.translate(inside(0), Flow { src, ..inside(0) });
            }
            sender.join().expect("the sender")
        });
        let verdict = judge.finish(pair);
        println!("{verdict}");
        verdict.assert_nothing_missing();
        verdict.assert_opened_by_others(pair);
        assert!(
            sent > 2000 && verdict.crossings.iter().map(|c| c.sent).sum::<usize>() >= sent,
            "{sent}: {verdict}"
        );
        let floats = pair.right.gateway.counter("floats");
        assert_eq!(floats, 20, "{}", pair.right.gateway.stderr());
        wait_for("an event for each", || {
            said(&pair.right, "its address is").len() == 20
        });
        assert_eq!(pair.right.gateway.counter("events_lost"), 0);
        assert_eq!(remote(&pair.right, 0), "192.0.2.52:40019");
        assert_eq!(remote(&pair.right, 1), "192.0.2.1:1195");
    });
}

/// Takes peer 1 out of a gateway's files, and has it read them.
fn remove_peer_1(side: &Side) {
    let folder = side.gateway.folder.path();
    let file = |name: &str| fs::read_to_string(folder.join(name)).expect("its file");
    let config = file("gw.toml");
    let start = config.find("[[tunnel.peer]]\nid = 1\n").expect("peer 1");
    let end = config[start + 1..]
        .find("[[tunnel.peer]]")
        .map_or(config.len(), |n| start + 1 + n);
    let mut keys: Value = serde_json::from_str(&file("keys.json")).expect("JSON");
    keys["keys"]
        .as_array_mut()
        .expect("keys")
        .retain(|key| key["peer_id"] != 1);
    fs::write(
        folder.join("gw.toml"),
        [&config[..start], &config[end..]].concat(),
    )
    .expect("our file");
    fs::write(folder.join("keys.json"), keys.to_string()).expect("our file");
    side.gateway.signal("HUP");
    wait_for("it reads its files", || {
        !said(side, "0 peers added, 0 changed, 1 removed").is_empty()
    });
}

#[test]
fn an_address_that_another_peer_holds_is_not_taken() {
    let nat = Nat::new();
    let router = nat.clone();
    let plan = Plan {
        peers: 3,
        relay: Some(Arc::new(move |from, frame| router.pass(from, frame))),
        ..Plan::default()
    };
    Pair::test("an_address_that_another_peer_holds_is_not_taken", &plan, |pair| {
        pair.connected();
        let right = &pair.right.gateway;
        // Peer 1's.
        nat.translate(inside(0), flow("192.0.2.1:1195", "192.0.2.2:1194"));
        nat.replies();
        for _ in 0..5 {
            assert_ping(&pair.left);
        }
        assert_eq!((right.counter("floats"), right.counter("floats_held")), (0, 5));
        assert_eq!(remote(&pair.right, 0), "192.0.2.1:1194");
        let replies = nat.replies();
        assert!(replies.iter().all(|(f, _)| f.dst == inside(0).src), "{replies:?}");
        let line = "heard from 192.0.2.1:1195, which is the address of peer 1";
        wait_for("the event", || !said(&pair.right, line).is_empty());
        assert_eq!(said(&pair.right, line).len(), 1, "once, not for each record");
        pair.left.ping(1, false, &ONE).expect("peer 1 goes on");
        assert_eq!(remote(&pair.right, 1), "192.0.2.1:1195");

        remove_peer_1(&pair.right);
        assert_ping(&pair.left);
        assert_eq!(right.counter("floats"), 1);
        assert_eq!(remote(&pair.right, 0), "192.0.2.1:1195");
        assert_ping(&pair.right);
        let replies = nat.replies();
        assert_eq!(
            replies.last().map(|(f, _)| f.dst.to_string()).as_deref(),
            Some("192.0.2.1:1195")
        );
        pair.left.ping(2, false, &ONE).expect("peer 2 goes on");
    });
}

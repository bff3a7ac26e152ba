//! Records leave on the way that the kernel knows, or on that by which the peer was last heard.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/judge.rs"]
mod judge;
#[path = "support/nat.rs"]
mod nat;
#[path = "support/pair.rs"]
mod pair;

use gateway::{PATIENCE, Wire, mac, wait_for};
use judge::Judge;
use nat::{Mac, Nat, arp_reply, flow};
use pair::{End, HOST, NIC, Pair, Plan, Side};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const ONE: [&str; 4] = ["-c1", "-W2", "-s", "100"];
const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 60);

/// Addresses that no interface has.
fn made_up(n: u8) -> Mac {
    [2, 0, 0, 0, 0xaa, n]
}

fn plan<'a>(nat: &Arc<Nat>) -> Plan<'a> {
    let router = nat.clone();
    Plan {
        peers: 1,
        relay: Some(Arc::new(move |from, frame| router.pass(from, frame))),
        ..Plan::default()
    }
}

fn assert_ping(side: &Side) {
    side.ping(0, false, &ONE)
        .unwrap_or_else(|said| panic!("{said}{:?}", side.losses()));
}

/// The host interface's neighbour entry for an address.
fn neighbour(side: &Side, address: &str) -> Option<Value> {
    let all = side.run(&["ip", "-j", "neighbour", "show", address, "dev", HOST]);
    let all: Value = serde_json::from_str(&all).expect("ip -j prints JSON");
    all.get(0).cloned()
}

/// Pings from the right side, one after another, until its frames go to this address; each is answered.
fn until_frames_go_to(pair: &Pair, nat: &Nat, mac: Mac) {
    let until = Instant::now() + PATIENCE;
    loop {
        nat.replies();
        assert_ping(&pair.right);
        let to: Vec<Mac> = nat.replies().into_iter().map(|(_, mac)| mac).collect();
        if !to.is_empty() && to.iter().all(|m| *m == mac) {
            return;
        }
        assert!(
            Instant::now() < until,
            "to {to:02x?}, not to {mac:02x?}: {:?}",
            neighbour(&pair.right, "192.0.2.60")
        );
    }
}

#[test]
fn the_kernels_neighbour_is_used_and_followed() {
    let nat = Nat::new();
    Pair::test(
        "the_kernels_neighbour_is_used_and_followed",
        &plan(&nat),
        |pair| {
            pair.connected();
            let left = pair.left.namespace.enter(|| mac(NIC));
            // No packet of ours passes the kernel, which has an entry all the same.
            let entry = neighbour(&pair.right, "192.0.2.1").expect("an entry");
            let text = left.map(|b| format!("{b:02x}")).join(":");
            assert_eq!(entry["lladdr"], *text, "{entry}");

            // The peer is behind a router now: an address off the link, and a route to it.
            pair.right.run(&[
                "ip",
                "route",
                "add",
                "198.51.100.0/24",
                "via",
                "192.0.2.60",
                "dev",
                HOST,
            ]);
            nat.station(ROUTER, made_up(1));
            let judge = Judge::start_as_seen_by(pair, End::Left);
            let inside = flow("192.0.2.1:1194", "192.0.2.2:1194");
            nat.translate(inside, flow("198.51.100.7:5000", "192.0.2.2:1194"));
            assert_ping(&pair.left);
            until_frames_go_to(pair, &nat, made_up(1));
            assert_eq!(pair.right.gateway.counter("floats"), 1);

            // Another router, after the entry was flushed, and after the new one said so.
            nat.station(ROUTER, made_up(2));
            pair.right.run(&["ip", "neighbour", "flush", "dev", HOST]);
            until_frames_go_to(pair, &nat, made_up(2));
            nat.station(ROUTER, made_up(3));
            // Linux takes no other address for an entry within a second (neigh/*/locktime).
            std::thread::sleep(std::time::Duration::from_millis(1100));
            let (middle, to_right) = pair.far_end(End::Right);
            let mut wire = middle.enter(|| Wire::of(to_right));
            wire.send(&arp_reply((made_up(3), ROUTER), ([0xff; 6], ROUTER)));
            until_frames_go_to(pair, &nat, made_up(3));

            // And one that the route names.
            nat.station(Ipv4Addr::new(192, 0, 2, 61), made_up(4));
            pair.right.run(&[
                "ip",
                "route",
                "replace",
                "198.51.100.0/24",
                "via",
                "192.0.2.61",
                "dev",
                HOST,
            ]);
            until_frames_go_to(pair, &nat, made_up(4));
            let verdict = judge.finish(pair);
            verdict.assert_nothing_missing();
            assert_eq!(pair.right.gateway.counter("floats"), 1, "none of it is a float");
        },
    );
}

#[test]
fn traffic_flows_once_a_neighbour_is_there() {
    let there = Arc::new(AtomicBool::new(false));
    let answering = there.clone();
    let plan = Plan {
        peers: 1,
        relay: Some(Arc::new(move |from, frame: Vec<u8>| {
            let arp = frame[12..14] == [8, 6];
            if arp && !answering.load(Ordering::Relaxed) {
                return Vec::new();
            }
            vec![(from.other(), frame)]
        })),
        ..Plan::default()
    };
    Pair::test("traffic_flows_once_a_neighbour_is_there", &plan, |pair| {
        let failed =
            || neighbour(&pair.right, "192.0.2.1").is_some_and(|entry| entry["state"][0] == "FAILED");
        wait_for("the kernel gives up", failed);
        let judge = Judge::start(pair);
        let unanswered = pair.right.ping(0, false, &["-c5", "-i0.01", "-W1"]);
        assert!(unanswered.is_err(), "{unanswered:?}");
        assert_eq!(pair.right.gateway.dropped("no_neighbour"), 5);
        let verdict = judge.finish(pair);
        assert_eq!(verdict.crossings[1].missing.len(), 5, "{verdict}");
        assert_eq!(verdict.outer.records, [0, 0], "{verdict}");
        verdict.assert_explained();

        there.store(true, Ordering::Relaxed);
        let ping = || pair.right.ping(0, false, &["-c1", "-W1"]).is_ok();
        wait_for("the neighbour is found", ping);
        let lost = pair.right.gateway.dropped("no_neighbour");
        assert_ping(&pair.right);
        assert_ping(&pair.left);
        assert_eq!(pair.right.gateway.dropped("no_neighbour"), lost);

        // When it is gone nothing is sent there, until a record teaches the way that it came.
        there.store(false, Ordering::Relaxed);
        pair.right.run(&["ip", "neighbour", "flush", "dev", HOST]);
        wait_for("the kernel gives up again", failed);
        wait_for("nothing is sent there", || {
            let answered = pair.right.ping(0, false, &["-c1", "-W1"]).is_ok();
            !answered && pair.right.gateway.dropped("no_neighbour") > lost
        });
        assert_ping(&pair.left);
        assert_ping(&pair.right);
    });
}

#[test]
fn replies_go_the_way_that_was_last_heard() {
    let nat = Nat::new();
    let plan = Plan {
        nic_of: ["", "outbound_l2 = \"last-heard\""],
        ..plan(&nat)
    };
    Pair::test("replies_go_the_way_that_was_last_heard", &plan, |pair| {
        // Nothing was heard yet.
        let right = &pair.right.gateway;
        let unanswered = pair.right.ping(0, false, &["-c2", "-i0.01", "-W1"]);
        assert!(unanswered.is_err(), "{unanswered:?}");
        assert_eq!(right.dropped("no_neighbour"), 2);
        pair.connected();
        let judge = Judge::start(pair);
        assert_ping(&pair.right);
        let verdict = judge.finish(pair);
        verdict.assert_nothing_missing();

        for n in 1..4 {
            nat.source(made_up(n));
            nat.replies();
            // The first frame is heard, the reply to it goes there.
            assert_ping(&pair.left);
            assert_ping(&pair.right);
            let replies = nat.replies();
            assert!(
                replies.len() >= 2 && replies.iter().all(|(_, mac)| *mac == made_up(n)),
                "{replies:02x?}"
            );
        }
        assert_eq!(right.counter("floats"), 0, "its address has not changed");
        assert_eq!(right.dropped("no_neighbour"), 2);
    });
}

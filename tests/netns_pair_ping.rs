//! Two gateways carry echo requests of every size, both ways at once, and lose, change and reorder none.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/judge.rs"]
mod judge;
#[path = "support/pair.rs"]
mod pair;

use judge::Judge;
use pair::{Pair, Plan, Side};

/// Bytes of the whole IPv4 packet; the largest is cut by the kernel, or by the gateway, into several.
const SIZES: [usize; 13] = [
    28, 29, 64, 127, 576, 1280, 1400, 1401, 1448, 1500, 1501, 4096, 9000,
];

/// Pings each peer in both families with packets of every size.
fn ping_all(side: &Side, peers: u32) {
    for size in SIZES {
        for peer in 0..peers {
            for v6 in [false, true] {
                let payload = size.saturating_sub(if v6 { 48 } else { 28 }).to_string();
                let answered = side.ping(peer, v6, &["-c3", "-i0.002", "-W5", "-s", &payload]);
                answered.unwrap_or_else(|said| {
                    panic!(
                        "{:?}, peer {peer}, {size} bytes: {said}{:?}",
                        side.end,
                        side.losses()
                    )
                });
            }
        }
    }
}

fn pings_pass(name: &str, plan: &Plan) {
    Pair::test(name, plan, |pair| {
        pair.connected();
        let judge = Judge::start(pair);
        std::thread::scope(|scope| {
            scope.spawn(|| ping_all(&pair.left, pair.peers));
            scope.spawn(|| ping_all(&pair.right, pair.peers));
        });
        let verdict = judge.finish(pair);
        println!("{verdict}");
        // Three requests and three replies of each size, family, peer and side, or the fragments of them.
        let least = SIZES.len() * 3 * 2 * 2 * pair.peers as usize;
        for crossing in &verdict.crossings {
            assert!(
                crossing.sent >= least,
                "only {} packets: {verdict}",
                crossing.sent
            );
        }
        verdict.assert_nothing_missing();
        verdict.assert_opened_by_others(pair);
        let full = plan.tunnel_mtu + if plan.outer_v6 { 72 } else { 52 } > plan.nic_mtu;
        assert!(
            verdict.outer.fragmented.iter().all(|n| (*n > 0) == full),
            "{verdict}"
        );
    });
}

#[test]
fn pings_pass_that_the_kernel_cuts() {
    pings_pass("pings_pass_that_the_kernel_cuts", &Plan::default());
}

#[test]
fn pings_pass_that_the_gateway_cuts() {
    // A full inner packet takes two fragments outside.
    let plan = Plan {
        tunnel_mtu: 1500,
        ..Plan::default()
    };
    pings_pass("pings_pass_that_the_gateway_cuts", &plan);
}

#[test]
fn pings_pass_over_ipv6() {
    let plan = Plan {
        outer_v6: true,
        tunnel_mtu: 1500,
        cipher: "CHACHA20-POLY1305",
        ..Plan::default()
    };
    pings_pass("pings_pass_over_ipv6", &plan);
}

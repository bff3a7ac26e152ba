//! Two gateways carry TCP and UDP of three peers both ways at once. Below what the pair carries nothing is lost; above,
//! all that is lost stands under a named counter. iperf3 makes the traffic, captures judge it.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/iperf.rs"]
mod iperf;
#[path = "support/judge.rs"]
mod judge;
#[path = "support/pair.rs"]
mod pair;

use gateway::wait_for;
use iperf::{Load, carry};
use judge::packet::{Ip, TCP, UDP};
use judge::{Judge, Verdict};
use pair::{End, NIC, Pair, Plan};
use std::sync::{Mutex, PoisonError};

/// Both gateways have a CPU each, and the captures need the rest of it: one pair at a time.
static ALONE: Mutex<()> = Mutex::new(());
/// What a NIC port's ring holds: `framecnt` of the pair's configuration.
const RING_FRAMES: u64 = 4096;

/// A flow of each peer, IP version and protocol, with clients on either side.
fn loads<'a>(peers: u32, kinds: &[&'a [&'a str]]) -> Vec<Load<'a>> {
    let mut loads = Vec::new();
    for peer in 0..peers {
        for v6 in [false, true] {
            for arguments in kinds {
                let from = if loads.len() % 3 == 0 {
                    End::Right
                } else {
                    End::Left
                };
                loads.push(Load {
                    from,
                    peer,
                    v6,
                    arguments,
                });
            }
        }
    }
    loads
}

/// How many packets of the peer, version and protocol came out, per direction.
fn carried(verdict: &Verdict, peer: u32, v6: bool, protocol: u8) -> [usize; 2] {
    [0, 1].map(|i| {
        let all = verdict.crossings[i]
            .received
            .iter()
            .filter(|inner| inner.peer == peer);
        let kind = |bytes| Ip::parse(bytes).expect("judged before");
        all.filter(|inner| {
            let ip = kind(&inner.bytes);
            ip.src.is_ipv6() == v6 && ip.protocol == protocol
        })
        .count()
    })
}

/// Runs the kinds of traffic of all peers and both versions; what was seen, with at least so many packets each way of
/// each of `protocols`.
fn run(pair: &Pair, kinds: &[&[&str]], protocols: &[(u8, usize)]) -> Verdict {
    pair.connected();
    let judge = Judge::start(pair);
    carry(pair, &loads(pair.peers, kinds));
    let verdict = judge.finish(pair);
    println!("{verdict}");
    for peer in 0..pair.peers {
        for v6 in [false, true] {
            for (protocol, least) in protocols {
                let counts = carried(&verdict, peer, v6, *protocol);
                assert!(
                    counts.iter().all(|n| n >= least),
                    "peer {peer}, IPv6 {v6}, protocol {protocol}: {counts:?}: {verdict}"
                );
            }
        }
    }
    verdict
}

/// UDP and TCP, 3 Mbit/s of each peer and version and protocol, each way: 36 Mbit/s each way together.
fn nothing_is_lost(name: &str, plan: &Plan) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Pair::test(name, plan, |pair| {
        let udp = ["-u", "-b", "3M", "-t", "2", "--bidir"];
        // Small writes, as iperf3 paces by the write.
        let tcp = ["-b", "3M", "-l", "4K", "-t", "2", "--bidir"];
        // 3 Mbit/s are 540 packets of 1400 bytes in two seconds.
        let verdict = run(pair, &[&udp, &tcp], &[(UDP, 400), (TCP, 400)]);
        verdict.assert_nothing_missing();
        verdict.assert_opened_by_others(pair);
    });
}

/// TCP as fast as it gets.
fn losses_are_named(name: &str, plan: &Plan) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Pair::test(name, plan, |pair| {
        let verdict = run(pair, &[&["-n", "3M", "--bidir"]], &[(TCP, 1000)]);
        verdict.assert_explained();
        verdict.assert_opened(pair);
    });
}

/// More than all queues hold comes while the right gateway stands still.
fn a_stall_is_named(name: &str, plan: &Plan) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Pair::test(name, plan, |pair| {
        let gateway = &pair.right.gateway;
        let verdict = std::thread::scope(|scope| {
            scope.spawn(|| {
                let sent = || pair.left.statistic(NIC, "tx", "packets");
                let start = sent();
                wait_for("traffic", || sent() > start + 3000);
                gateway.signal("STOP");
                let stalled = sent();
                wait_for("more than the ring holds", || {
                    sent() > stalled + RING_FRAMES + 1000
                });
                gateway.signal("CONT");
            });
            run(pair, &[&["-u", "-b", "12M", "-t", "3", "--bidir"]], &[(UDP, 500)])
        });
        for crossing in &verdict.crossings {
            assert!(!crossing.missing.is_empty(), "the stall was too short: {verdict}");
        }
        verdict.assert_explained();
        verdict.assert_opened(pair);
    });
}

#[test]
fn rated_traffic_over_ipv4_loses_nothing() {
    nothing_is_lost("rated_traffic_over_ipv4_loses_nothing", &Plan::default());
}

#[test]
fn rated_traffic_over_ipv6_loses_nothing() {
    let plan = Plan {
        outer_v6: true,
        cipher: "CHACHA20-POLY1305",
        ..Plan::default()
    };
    nothing_is_lost("rated_traffic_over_ipv6_loses_nothing", &plan);
}

#[test]
fn what_fast_tcp_loses_over_ipv4_is_named() {
    losses_are_named("what_fast_tcp_loses_over_ipv4_is_named", &Plan::default());
}

#[test]
fn what_a_stall_loses_is_named() {
    let plan = Plan {
        outer_v6: true,
        ..Plan::default()
    };
    a_stall_is_named("what_a_stall_loses_is_named", &plan);
}

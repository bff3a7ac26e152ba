//! Outer fragments between two gateways: those of full packets in a tunnel whose MTU is the link's, and what becomes of
//! them when the network doubles, reorders, cuts or loses some.
//!
//! A NIC by net_af_packet gives IPv4 datagrams that the kernel has put together (PACKET_FANOUT_FLAG_DEFRAG), so what is lost
//! there stands under the kernel's counters; the gateway puts IPv6 together itself.

#[path = "support/fragment_faults.rs"]
mod fragment_faults;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/judge.rs"]
mod judge;
#[path = "support/pair.rs"]
mod pair;

use fragment_faults::{FLOOD, Fault, Faults};
use gateway::wait_for;
use judge::{Judge, Verdict};
use pair::{Pair, Plan, Side};
use std::sync::{Arc, Mutex, PoisonError};

/// Both gateways have a CPU each, and the captures need the rest of it: one pair at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Echo requests of each fault and inner IP version. Fewer datagrams than the gateway's table of fragments holds.
const REQUESTS: usize = 20;

/// A pair whose tunnel has the link's MTU.
fn pair(name: &str, outer_v6: bool, faults: Option<&Arc<Faults>>, body: impl FnOnce(&Pair)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = Plan {
        outer_v6,
        peers: 1,
        tunnel_mtu: 1500,
        relay: faults.map(Faults::change),
        ..Plan::default()
    };
    Pair::test(name, &plan, |pair| {
        for side in [&pair.left, &pair.right] {
            // Seconds until the kernel gives up a datagram of which it lacks a fragment.
            side.run(&["sysctl", "-qw", "net.ipv4.ipfrag_time=1"]);
        }
        pair.connected();
        let before = [&pair.left, &pair.right].map(free);
        body(pair);
        wait_for("all buffers are free again", || {
            [&pair.left, &pair.right].map(free) == before
        });
    });
}

/// How many buffers of each of a gateway's pools are free.
fn free(side: &Side) -> Vec<u64> {
    let pools = side.gateway.telemetry("/ovpn/pools");
    let free = pools["free"].as_array().unwrap_or_else(|| panic!("{pools}"));
    let free: Vec<_> = free.iter().map(|n| n.as_u64().expect("a number")).collect();
    assert!(free.len() == 2 && free.iter().all(|n| *n > 0), "{pools}");
    free
}

/// What the kernel of a side counts under `Ip` (/proc/net/snmp).
fn kernel(side: &Side, name: &str) -> u64 {
    let text = side.run(&["cat", "/proc/net/snmp"]);
    let mut lines = text.lines().filter(|line| line.starts_with("Ip:"));
    let [names, values] = [lines.next(), lines.next()].map(|line| line.expect("two lines").split(' '));
    let (_, value) = names
        .zip(values)
        .find(|(n, _)| *n == name)
        .expect("the kernel counts it");
    value.parse().expect("a number")
}

fn full_packets_pass(name: &str, outer_v6: bool) {
    pair(name, outer_v6, None, |pair| {
        let judge = Judge::start(pair);
        for side in [&pair.left, &pair.right] {
            for v6 in [false, true] {
                let answered = side.ping(0, v6, &["-c5", "-i0.01", "-W5", "-s", "3000"]);
                answered
                    .unwrap_or_else(|said| panic!("{:?}, IPv6 {v6}: {said}{:?}", side.end, side.losses()));
            }
        }
        let verdict = judge.finish(pair);
        println!("{verdict}");
        verdict.assert_nothing_missing();
        verdict.assert_opened_by_others(pair);
        // Of each request and each reply two fragments are full, and so are cut once more.
        assert!(
            verdict.outer.fragmented.iter().all(|n| *n >= 2 * 5 * 2 * 2),
            "{verdict}"
        );
        for (side, cut) in [&pair.left, &pair.right].iter().zip(verdict.outer.fragmented) {
            assert_eq!(side.gateway.counter("fragments_tx"), 2 * cut as u64, "{verdict}");
        }
    });
}

#[test]
fn a12_full_packets_pass_over_ipv4() {
    full_packets_pass("a12_full_packets_pass_over_ipv4", false);
}

#[test]
fn a12_full_packets_pass_over_ipv6() {
    full_packets_pass("a12_full_packets_pass_over_ipv6", true);
}

/// Fragments that the right gateway got, and what became of them: of whole datagrams, refused, too late.
fn accounts(pair: &Pair) -> [u64; 4] {
    let gateway = &pair.right.gateway;
    let [fragments, whole] = ["fragments", "reassembled"].map(|name| gateway.counter(name));
    let [refused, late] = ["fragment_refused", "fragment_timeout"].map(|reason| gateway.dropped(reason));
    [fragments, whole, refused, late]
}

/// Requests from the left side that do not fit one outer packet meet the faults, one after the other: `REQUESTS` of each
/// inner version each.
fn meet(pair: &Pair, faults: &Faults, all: &[Fault]) -> Verdict {
    let judge = Judge::start(pair);
    let (passed, before) = (faults.passed(), accounts(pair));
    let given_up = kernel(&pair.right, "ReasmFails");
    for fault in all {
        faults.set(*fault);
        std::thread::scope(|scope| {
            for v6 in [false, true] {
                let count = format!("-c{REQUESTS}");
                // Whether they are answered is for the captures to tell.
                scope.spawn(move || pair.left.ping(0, v6, &[&count, "-i0.002", "-W0.5", "-s", "1440"]));
            }
        });
    }
    let wanted = (2 * REQUESTS * all.len()) as u64;
    let pieces = if all.contains(&Fault::Recut) { 3 } else { 2 };
    let lost = [Fault::FirstOnly, Fault::LastOnly, Fault::Overlapping];
    let lost = all.iter().all(|fault| lost.contains(fault));
    wait_for("every fragment is accounted for", || {
        let now = accounts(pair);
        let [fragments, whole, refused, late] = [0, 1, 2, 3].map(|i| now[i] - before[i]);
        if pair.outer_v6 {
            fragments == (faults.passed() - passed) as u64 && fragments == pieces * whole + refused + late
        } else {
            fragments == 0 && (!lost || kernel(&pair.right, "ReasmFails") - given_up >= wanted)
        }
    });
    let verdict = judge.finish(pair);
    faults.set(Fault::None);
    println!("{all:?}: {verdict}");
    verdict.assert_opened(pair);
    assert!(
        verdict.crossings[1].missing.is_empty(),
        "none of its fragments was touched: {verdict}"
    );
    assert_eq!(verdict.outer.fragmented[0] as u64, wanted, "{verdict}");
    let missing = verdict.crossings[0].missing.len() as u64;
    let named = verdict.explaining() + kernel(&pair.right, "ReasmFails") - given_up;
    assert!(missing <= named, "{missing} missing, {named} named: {verdict}");
    if lost {
        assert_eq!(missing, wanted, "none can be whole: {verdict}");
    }
    verdict
}

/// All faults, one after the other.
fn faults_are_carried_or_named(name: &str, outer_v6: bool) {
    let faults = Arc::new(Faults::default());
    pair(name, outer_v6, Some(&faults), |pair| {
        for carried in [&[Fault::None, Fault::Reversed][..], &[Fault::Recut]] {
            meet(pair, &faults, carried).assert_nothing_missing();
        }
        let doubled = meet(pair, &faults, &[Fault::DoubledAfterwards]);
        assert!(doubled.crossings[0].missing.is_empty(), "{doubled}");
        assert_eq!(
            doubled.losses[1]["replay_duplicate"],
            2 * REQUESTS as u64,
            "{doubled}"
        );
        for carried_or_named in [
            &[Fault::DoubledInPlace][..],
            &[Fault::Overlapping],
            &[Fault::FirstOnly, Fault::LastOnly],
        ] {
            meet(pair, &faults, carried_or_named);
        }
        pair.connected();
    });
}

#[test]
fn a13_faults_of_ipv4_fragments_are_carried_or_named() {
    faults_are_carried_or_named("a13_faults_of_ipv4_fragments_are_carried_or_named", false);
}

#[test]
fn a13_faults_of_ipv6_fragments_are_carried_or_named() {
    faults_are_carried_or_named("a13_faults_of_ipv6_fragments_are_carried_or_named", true);
}

#[test]
fn a13_a_flood_of_first_fragments_leaves_no_trace() {
    let faults = Arc::new(Faults::default());
    let name = "a13_a_flood_of_first_fragments_leaves_no_trace";
    pair(name, true, Some(&faults), |pair| {
        let before = accounts(pair);
        faults.set(Fault::Flood);
        wait_for("100,000 fragments", || {
            let _ = pair
                .left
                .ping(0, false, &["-c20", "-i0.002", "-W0.5", "-s", "1440"]);
            accounts(pair)[0] - before[0] >= 100_000
        });
        faults.set(Fault::None);
        wait_for("every fragment is accounted for", || {
            let now = accounts(pair);
            let [fragments, whole, refused, late] = [0, 1, 2, 3].map(|i| now[i] - before[i]);
            println!("{fragments} fragments, {whole} whole, {refused} refused, {late} late");
            assert!(fragments <= faults.passed() as u64);
            fragments == 2 * whole + refused + late
                && refused + late >= 100_000 - 100_000 / u64::from(FLOOD) * 2
        });
        meet(pair, &faults, &[Fault::None]).assert_nothing_missing();
    });
}

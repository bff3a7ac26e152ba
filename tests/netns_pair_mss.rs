//! Two gateways clamp the MSS of inner TCP connections, so that full segments fit one outer packet; without the clamp,
//! outer fragments carry them.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/iperf.rs"]
mod iperf;
#[path = "support/judge.rs"]
mod judge;
#[path = "support/pair.rs"]
mod pair;

use iperf::{Load, carry};
use judge::packet::{Ip, TCP};
use judge::{Judge, Verdict};
use pair::{End, Pair, Plan};
use std::sync::{Mutex, PoisonError};

/// Both gateways have a CPU each, and the captures need the rest of it: one pair at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Full packets on the NIC and in the tunnel alike, so that a full inner packet does not fit one outer packet.
const MTU: u16 = 1500;
/// IPv4 and TCP, IPv6 and TCP, without options.
const HEADERS: [u16; 2] = [40, 60];
/// UDP, header word, packet id and tag.
const OVERHEAD: u16 = 8 + 24;

/// The largest inner packet that fits an outer packet.
fn fits(outer_v6: bool) -> u16 {
    MTU - OVERHEAD - if outer_v6 { 40 } else { 20 }
}

/// What TCP connections with clients on both sides showed, in both versions.
struct Seen {
    verdict: Verdict,
    /// By how much `fragments_tx` and `mss_clamped` grew: left, right.
    fragments_tx: [u64; 2],
    clamped: [u64; 2],
}

/// Transfers of both versions, with the clients on both sides, each both ways, slow enough for all to arrive.
fn transfers(pair: &Pair) -> Seen {
    pair.connected();
    let count = |name| [&pair.left, &pair.right].map(|side| side.gateway.counter(name));
    let before = [count("fragments_tx"), count("mss_clamped")];
    let judge = Judge::start(pair);
    let arguments = ["-b", "4M", "-l", "4K", "-t", "1", "--bidir"];
    let loads: Vec<_> = [
        (End::Left, false),
        (End::Left, true),
        (End::Right, false),
        (End::Right, true),
    ]
    .into_iter()
    .map(|(from, v6)| Load {
        from,
        peer: 0,
        v6,
        arguments: &arguments,
    })
    .collect();
    carry(pair, &loads);
    let verdict = judge.finish(pair);
    println!("{verdict}");
    verdict.assert_nothing_missing();
    verdict.assert_opened(pair);
    let grown = |before: [u64; 2], after: [u64; 2]| [0, 1].map(|i| after[i] - before[i]);
    Seen {
        verdict,
        fragments_tx: grown(before[0], count("fragments_tx")),
        clamped: grown(before[1], count("mss_clamped")),
    }
}

impl Seen {
    /// The MSS of each SYN (`ack` false) or SYN-ACK of a version that came out, from the left and from the right.
    fn announced(&self, v6: bool, ack: bool) -> [Vec<u16>; 2] {
        [0, 1].map(|i| {
            let all = self.verdict.crossings[i].received.iter();
            let all = all.map(|inner| Ip::parse(&inner.bytes).expect("judged before"));
            all.filter(|ip| {
                ip.src.is_ipv6() == v6 && ip.protocol == TCP && ((ip.payload[13] & 0x10) != 0) == ack
            })
            .filter_map(|ip| ip.mss())
            .collect()
        })
    }

    /// Each connection's SYN and SYN-ACK came out with this MSS; the verdict has found their checksums right. A client of
    /// iperf3 makes three connections.
    fn assert_announced(&self, mss: [u16; 2]) {
        for (v6, ack) in [(false, false), (false, true), (true, false), (true, true)] {
            let wanted = mss[usize::from(v6)];
            for announced in self.announced(v6, ack) {
                assert!(
                    announced.len() >= 3 && announced.iter().all(|n| *n == wanted),
                    "IPv6 {v6}, ACK {ack}, not {wanted}: {announced:?}"
                );
            }
        }
    }

    /// The largest inner TCP packet of a version that came out, from the left and from the right.
    fn largest(&self, v6: bool) -> [usize; 2] {
        [0, 1].map(|i| {
            let all = self.verdict.crossings[i].received.iter();
            all.filter(|inner| (inner.bytes[0] >> 4 == 6) == v6)
                .map(|inner| inner.bytes.len())
                .max()
                .expect("checked before")
        })
    }

    /// Segments as large as the MSS allows crossed, and no outer packet was cut.
    fn assert_full_and_whole(&self, mss: [u16; 2]) {
        for v6 in [false, true] {
            let full = usize::from(mss[usize::from(v6)] + HEADERS[usize::from(v6)]);
            assert_eq!(self.largest(v6), [full; 2], "IPv6 {v6}");
        }
        assert_eq!(self.verdict.outer.fragmented, [0, 0], "{}", self.verdict);
        assert_eq!(self.fragments_tx, [0, 0], "fragments_tx");
    }
}

/// A pair with these lines in both `[[tunnel]]`, and in the right one's.
fn with(name: &str, outer_v6: bool, [both, right]: [&str; 2], body: impl FnOnce(&Seen)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = Plan {
        outer_v6,
        peers: 1,
        nic_mtu: MTU,
        tunnel_mtu: MTU,
        tunnel: both,
        right_tunnel: right,
        ..Plan::default()
    };
    Pair::test(name, &plan, |pair| body(&transfers(pair)));
}

/// `mss = "auto"` on both sides.
fn auto(name: &str, outer_v6: bool) {
    with(name, outer_v6, ["mss = \"auto\"", ""], |seen| {
        let mss = HEADERS.map(|headers| fits(outer_v6) - headers);
        seen.assert_announced(mss);
        seen.assert_full_and_whole(mss);
        // The sender's gateway clamps; the receiver's finds nothing to do. Every connection is of both directions.
        assert!(seen.clamped.iter().all(|n| *n >= 12), "{:?}", seen.clamped);
    });
}

#[test]
fn auto_over_ipv4_makes_segments_fit() {
    auto("auto_over_ipv4_makes_segments_fit", false);
}

#[test]
fn auto_over_ipv6_makes_segments_fit() {
    auto("auto_over_ipv6_makes_segments_fit", true);
}

#[test]
fn a_number_holds_for_both_versions() {
    with(
        "a_number_holds_for_both_versions",
        false,
        ["mss = 1200", ""],
        |seen| {
            seen.assert_announced([1200, 1200]);
            seen.assert_full_and_whole([1200, 1200]);
        },
    );
}

#[test]
fn one_side_alone_clamps_both_directions() {
    // The left side clamps by default, as what fits. What the right one announces is clamped when it comes in.
    let lines = ["", "mss = \"off\""];
    with("one_side_alone_clamps_both_directions", false, lines, |seen| {
        let mss = HEADERS.map(|headers| fits(false) - headers);
        seen.assert_announced(mss);
        seen.assert_full_and_whole(mss);
        assert!(
            seen.clamped[0] >= 24 && seen.clamped[1] == 0,
            "{:?}",
            seen.clamped
        );
    });
}

/// No clamp: the kernels announce what fits the tunnel's MTU, and full packets are cut.
fn off(name: &str, outer_v6: bool) {
    with(name, outer_v6, ["mss = \"off\"", ""], |seen| {
        seen.assert_announced(HEADERS.map(|headers| MTU - headers));
        assert_eq!(seen.clamped, [0, 0], "mss_clamped");
        for v6 in [false, true] {
            assert_eq!(seen.largest(v6), [usize::from(MTU); 2], "IPv6 {v6}");
        }
        // Each full packet takes two.
        let cut = seen.verdict.outer.fragmented;
        assert!(cut.iter().all(|n| *n > 100), "{}", seen.verdict);
        assert_eq!(seen.fragments_tx, cut.map(|n| 2 * n as u64), "{}", seen.verdict);
    });
}

#[test]
fn off_over_ipv4_makes_outer_fragments() {
    off("off_over_ipv4_makes_outer_fragments", false);
}

#[test]
fn off_over_ipv6_makes_outer_fragments() {
    off("off_over_ipv6_makes_outer_fragments", true);
}

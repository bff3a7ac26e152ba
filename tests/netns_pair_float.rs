//! A peer's endpoint follows authentic records, and nothing else.

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

use float::{add_addresses, assert_ping, inside, remote, said};
use gateway::{Wire, wait_for};
use judge::Judge;
use nat::{Flow, Nat, flow, flow_of, payload_at, readdress};
use nf_path::twin::craft;
use nf_state::Cipher;
use nf_wire::record::HeaderWord;
use pair::{End, Pair, Plan};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Where forged records say that they come from.
const ELSEWHERE: &str = "192.0.2.66:6666";

/// Three records that somebody made who has no key, of one that passes; then its replay. All are from elsewhere.
fn forge(frame: &[u8]) -> [Vec<u8>; 4] {
    let was = flow_of(frame).expect("a record");
    let mut replay = frame.to_vec();
    let src = ELSEWHERE.parse().expect("an address");
    readdress(&mut replay, was, Flow { src, ..was });
    let at = payload_at(frame);
    // A zero checksum is none.
    let mut blank = replay.clone();
    blank[at - 2..at].fill(0);
    let [mut flipped, mut later, mut sealed] = [(); 3].map(|()| blank.clone());
    // Ids above the highest one, or nothing would be tried.
    let id = u32::from_be_bytes(frame[at + 4..at + 8].try_into().expect("four bytes"));
    *flipped.last_mut().expect("bytes") ^= 1;
    later[at + 4..at + 8].copy_from_slice(&(id + 1000).to_be_bytes());
    let (source, destination) = (Ipv4Addr::new(10, 8, 0, 10), Ipv4Addr::new(10, 8, 0, 20));
    let inner = craft::inner_v4(source, destination, frame.len() - at - 24, id);
    let word = HeaderWord::data_v2(0, 0);
    sealed.truncate(at);
    sealed.extend(craft::record(
        Cipher::Aes256Gcm,
        &[7; 32],
        &[7; 8],
        word,
        id + 2000,
        &inner,
    ));
    assert_eq!(sealed.len(), frame.len(), "its lengths stay true");
    [flipped, later, sealed, replay]
}

#[test]
fn forged_records_do_not_move_an_endpoint() {
    let count = Arc::new(AtomicUsize::new(0));
    let (counted, nat) = (count.clone(), Nat::new());
    let router = nat.clone();
    let plan = Plan {
        peers: 1,
        relay: Some(Arc::new(move |from, frame| {
            if from == End::Right || flow_of(&frame) != Some(inside(0)) {
                return router.pass(from, frame);
            }
            counted.fetch_add(1, Ordering::Relaxed);
            let [flipped, later, sealed, replay] = forge(&frame);
            // Before the record itself, but for its replay.
            [flipped, later, sealed, frame, replay]
                .map(|frame| (End::Right, frame))
                .into()
        })),
        ..Plan::default()
    };
    Pair::test("forged_records_do_not_move_an_endpoint", &plan, |pair| {
        // The kernel would find it, if it were asked for.
        add_addresses(&pair.left, &["192.0.2.66/24"]);
        pair.connected();
        let judge = Judge::start_as_seen_by(pair, End::Left);
        let before = remote(&pair.right, 0);
        for _ in 0..20 {
            assert_ping(&pair.left);
            assert_ping(&pair.right);
        }
        let verdict = judge.finish(pair);
        for crossing in &verdict.crossings {
            assert!(crossing.missing.is_empty() && crossing.sent >= 40, "{verdict}");
        }
        let records = count.load(Ordering::Relaxed) as u64;
        let right = &pair.right.gateway;
        // The one with the id of the record is one or the other, by which of them came first.
        let (bad, duplicate) = (right.dropped("bad_tag"), right.dropped("replay_duplicate"));
        assert_eq!(bad + duplicate, 4 * records);
        assert!(
            bad >= 2 * records && duplicate >= records,
            "{bad}, {duplicate} of {records}"
        );
        assert_eq!((right.counter("floats"), right.counter("floats_held")), (0, 0));
        assert_eq!(
            (remote(&pair.right, 0), before.as_str()),
            (before.clone(), "192.0.2.1:1194")
        );
        let replies = nat.replies();
        let astray = replies
            .iter()
            .filter(|(flow, _)| flow.dst != inside(0).src)
            .count();
        assert!(
            replies.len() >= 40 && astray == 0,
            "{astray} of {}",
            replies.len()
        );
    });
}

/// The left side's address changes, its port, both, and back; the right side is contacted at its second address.
fn follows(name: &str, outer_v6: bool, inside: Flow, outsides: [Flow; 4], more: [&str; 2]) {
    let nat = Nat::new();
    let router = nat.clone();
    let second = outsides[0].dst.to_string();
    let plan = Plan {
        outer_v6,
        peers: 1,
        listen: [&[], &[&second]],
        relay: Some(Arc::new(move |from, frame| router.pass(from, frame))),
        ..Plan::default()
    };
    Pair::test(name, &plan, |pair| {
        add_addresses(&pair.left, &[more[0]]);
        add_addresses(&pair.right, &[more[1]]);
        pair.connected();
        let judge = Judge::start_as_seen_by(pair, End::Left);
        let mut floats = 0;
        for outside in outsides {
            nat.translate(inside, outside);
            nat.replies();
            assert_ping(&pair.left);
            assert_ping(&pair.right);
            // Also the reply to the record that moved it.
            let replies = nat.replies();
            let expected = Flow {
                src: outside.dst,
                dst: outside.src,
            };
            assert!(replies.len() >= 2, "{replies:?}");
            assert!(
                replies.iter().all(|(flow, _)| *flow == expected),
                "{replies:?}, not {expected:?}"
            );
            floats += 1;
            assert_eq!(remote(&pair.right, 0), outside.src.to_string());
            assert_eq!(pair.right.gateway.counter("floats"), floats);
            let line = format!(
                "peer 0 of ovpn0: its address is {} now, ours {}",
                outside.src, outside.dst
            );
            wait_for("the event", || said(&pair.right, &line).len() == 1);
        }
        assert_eq!(
            said(&pair.right, "its address is").len() as u64,
            floats,
            "{}",
            pair.right.gateway.stderr()
        );
        assert_eq!(pair.left.gateway.counter("floats"), 0);
        let verdict = judge.finish(pair);
        verdict.assert_nothing_missing();
        verdict.assert_opened_by_others(pair);
    });
}

#[test]
fn an_authentic_record_moves_it_and_replies_follow() {
    let outsides = [
        flow("192.0.2.51:40001", "192.0.2.102:1194"),
        flow("192.0.2.51:40002", "192.0.2.102:1194"),
        flow("192.0.2.52:40002", "192.0.2.102:1194"),
        // Where it was in the beginning.
        flow("192.0.2.1:1194", "192.0.2.2:1194"),
    ];
    let name = "an_authentic_record_moves_it_and_replies_follow";
    follows(
        name,
        false,
        inside(0),
        outsides,
        ["192.0.2.51/24", "192.0.2.102/24"],
    );
}

#[test]
fn an_authentic_record_moves_it_over_ipv6() {
    let outsides = [
        flow("[2001:db8::51]:40001", "[2001:db8::102]:1194"),
        flow("[2001:db8::51]:40002", "[2001:db8::102]:1194"),
        flow("[2001:db8::1]:40002", "[2001:db8::102]:1194"),
        flow("[2001:db8::1]:1194", "[2001:db8::2]:1194"),
    ];
    let name = "an_authentic_record_moves_it_over_ipv6";
    follows(
        name,
        true,
        outsides[3],
        outsides,
        ["2001:db8::51/64", "2001:db8::102/64"],
    );
}

#[test]
fn a_late_record_does_not_move_it_back() {
    let nat = Nat::new();
    let (hold, held) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let (router, holding, kept) = (nat.clone(), hold.clone(), held.clone());
    let plan = Plan {
        peers: 1,
        relay: Some(Arc::new(move |from, frame| {
            if from == End::Left && flow_of(&frame).is_some() && holding.load(Ordering::SeqCst) {
                kept.lock().expect("no panic").push(frame);
                return Vec::new();
            }
            router.pass(from, frame)
        })),
        ..Plan::default()
    };
    Pair::test("a_late_record_does_not_move_it_back", &plan, |pair| {
        add_addresses(&pair.left, &["192.0.2.51/24"]);
        pair.connected();
        hold.store(true, Ordering::SeqCst);
        let unanswered = pair.left.ping(0, false, &["-c3", "-i0.01", "-W1"]);
        assert!(unanswered.is_err(), "{unanswered:?}");
        hold.store(false, Ordering::SeqCst);
        let outside = flow("192.0.2.51:40001", "192.0.2.2:1194");
        nat.translate(inside(0), outside);
        assert_ping(&pair.left);
        let right = &pair.right.gateway;
        let received = || {
            right.telemetry("/ovpn/peers")["vpn_rx_packets"][0]
                .as_u64()
                .expect("a number")
        };
        let (before, is_there) = (received(), "192.0.2.51:40001");
        assert_eq!(
            (remote(&pair.right, 0).as_str(), right.counter("floats")),
            (is_there, 1)
        );

        let late = std::mem::take(&mut *held.lock().expect("no panic"));
        assert_eq!(late.len(), 3);
        nat.replies();
        let (middle, to_right) = pair.far_end(End::Right);
        let mut wire = middle.enter(|| Wire::of(to_right));
        late.iter().for_each(|frame| wire.send(frame));
        wait_for("the late packets are delivered", || received() == before + 3);
        assert_ping(&pair.right);
        assert_eq!(
            (remote(&pair.right, 0).as_str(), right.counter("floats")),
            (is_there, 1)
        );
        assert_eq!(said(&pair.right, "its address is").len(), 1);
        let replies = nat.replies();
        assert!(
            replies.len() >= 4 && replies.iter().all(|(f, _)| f.dst == outside.src),
            "{replies:?}"
        );
    });
}

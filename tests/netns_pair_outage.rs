//! Silence: both sides give their peers up, and only then; data alone is no silence.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/judge.rs"]
mod judge;
#[path = "support/pair.rs"]
mod pair;

use gateway::wait_for;
use judge::Judge;
use pair::{End, Pair, Plan, Side};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Peers of each side.
const PEERS: u32 = 2;

/// The record of a frame: whose, and its packet id.
fn record(frame: &[u8]) -> Option<(u32, u32)> {
    let word = |at: usize| {
        let bytes = frame.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let is_udp = frame.get(12..15) == Some(&[8, 0, 0x45]) && frame.get(23) == Some(&17);
    let header = word(42).filter(|w| is_udp && w >> 27 == 9)?;
    Some((header & 0xff_ffff, word(46)?))
}

/// A line that can be cut; it sees everything that is sent into it.
#[derive(Default)]
struct Line {
    is_cut: AtomicBool,
    seen: Mutex<Vec<(End, u32, u32)>>,
}

impl Line {
    fn pass(&self, from: End, frame: Vec<u8>) -> Vec<(End, Vec<u8>)> {
        if let Some((peer, id)) = record(&frame) {
            self.seen
                .lock()
                .expect("nobody panics with it")
                .push((from, peer, id));
        }
        if self.is_cut.load(Ordering::Relaxed) {
            return Vec::new();
        }
        vec![(from.other(), frame)]
    }

    /// Packet ids of the records that one side sent for a peer, in order.
    fn ids(&self, end: End, peer: u32) -> Vec<u32> {
        let seen = self.seen.lock().expect("nobody panics with it");
        let of = seen.iter().filter(|(e, p, _)| (*e, *p) == (end, peer));
        of.map(|(.., id)| *id).collect()
    }

    /// Records that one side sent.
    fn sent(&self, end: End) -> usize {
        (0..PEERS).map(|peer| self.ids(end, peer).len()).sum()
    }
}

/// Peers that a side gave up, as its log says it.
fn removed(side: &Side, seconds: u32) -> usize {
    let log = side.gateway.stderr();
    let said = format!("nothing heard for {seconds} s: removed");
    log.lines().filter(|l| l.contains(&said)).count()
}

fn peers(side: &Side) -> String {
    side.gateway.telemetry("/ovpn/peers")["id"].to_string()
}

#[test]
fn an_outage_ends_with_a_reload_of_both_sides() {
    let line = Arc::new(Line::default());
    let relay = line.clone();
    let plan = Plan {
        peers: PEERS,
        peer: "keepalive = [1, 4]",
        relay: Some(Arc::new(move |from, frame| relay.pass(from, frame))),
        ..Plan::default()
    };
    Pair::test("an_outage_ends_with_a_reload_of_both_sides", &plan, |pair| {
        pair.connected();
        // Longer than the time-out: keepalives alone hold both.
        std::thread::sleep(Duration::from_secs(5));
        let sides = [&pair.left, &pair.right];
        let gone = || sides.map(|side| removed(side, 4));
        assert_eq!(gone(), [0, 0], "nothing is lost yet");
        outage(&line, &gone);
        for side in sides {
            assert_eq!(peers(side), "[]", "{:?}", side.end);
        }
        // The line is there again, but nobody is at its ends.
        let before = [End::Left, End::Right].map(|end| line.sent(end));
        assert!(pair.left.ping(0, false, &["-c1", "-W1"]).is_err());
        assert_eq!([End::Left, End::Right].map(|end| line.sent(end)), before);
        let last = |end, peer| line.ids(end, peer).last().copied();
        let last = [End::Left, End::Right].map(|end| [last(end, 0), last(end, 1)]);
        for side in sides {
            side.gateway.signal("HUP");
            wait_for("the peers to be there again", || {
                side.gateway.stderr().contains("SIGHUP: 2 peers added")
            });
        }
        pair.connected();
        judged(pair);
        for end in [End::Left, End::Right] {
            for peer in 0..PEERS {
                let ids = line.ids(end, peer);
                assert!(
                    ids.is_sorted_by(|a, b| a < b),
                    "{end:?}, peer {peer}: ids go on: {ids:?}"
                );
                assert!(ids.last().copied() > last[end.index()][peer as usize]);
            }
        }
        assert_eq!(gone(), [PEERS as usize; 2], "and not again");
    });
}

/// Six seconds in which nothing passes. Both sides give all peers up before it ends, and not at once.
fn outage(line: &Line, gone: &dyn Fn() -> [usize; 2]) {
    let (start, mut removals) = (Instant::now(), Vec::new());
    line.is_cut.store(true, Ordering::Relaxed);
    while start.elapsed() < Duration::from_secs(6) {
        let (now, gone) = (start.elapsed(), gone());
        if removals.last().is_none_or(|(_, last)| *last != gone) {
            removals.push((now, gone));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("peers given up, left and right, by time: {removals:?}");
    // They may have been heard last one interval before, and a little more on a busy machine.
    let early = removals
        .iter()
        .filter(|(at, gone)| *at < Duration::from_millis(2000) && *gone != [0, 0]);
    assert_eq!(early.count(), 0, "too early: {removals:?}");
    assert_eq!(gone(), [PEERS as usize; 2], "all before the line is back");
    line.is_cut.store(false, Ordering::Relaxed);
}

/// Pings pass both ways, and everything that is between is right.
fn judged(pair: &Pair) {
    let judge = Judge::start(pair);
    for side in [&pair.left, &pair.right] {
        for (peer, v6) in (0..PEERS).flat_map(|peer| [(peer, false), (peer, true)]) {
            side.ping(peer, v6, &["-c20", "-i0.01", "-W5"])
                .expect("an answer");
        }
    }
    let verdict = judge.finish(pair);
    println!("{verdict}");
    verdict.assert_nothing_missing();
    verdict.assert_opened(pair);
}

#[test]
fn data_alone_is_no_silence() {
    let line = Arc::new(Line::default());
    let relay = line.clone();
    let plan = Plan {
        peers: 1,
        peer_of: ["", "keepalive = [0, 3]"],
        relay: Some(Arc::new(move |from, frame| relay.pass(from, frame))),
        ..Plan::default()
    };
    Pair::test("data_alone_is_no_silence", &plan, |pair| {
        pair.connected();
        let bind = |side: &Side| {
            side.namespace.enter(|| {
                let socket = UdpSocket::bind((side.end.vpn(0, false), 7000)).expect("ovpn0 has the address");
                socket.set_nonblocking(true).expect("a socket");
                socket
            })
        };
        let (sender, receiver) = (bind(&pair.left), bind(&pair.right));
        let (there, back) = (line.sent(End::Left), line.sent(End::Right));
        let (start, mut sent, mut received) = (Instant::now(), 0, 0);
        while start.elapsed() < Duration::from_secs(8) {
            sender
                .send_to(b"data", (End::Right.vpn(0, false), 7000))
                .expect("a route");
            sent += 1;
            std::thread::sleep(Duration::from_millis(500));
            while receiver.recv(&mut [0; 16]).is_ok() {
                received += 1;
            }
            assert_eq!(removed(&pair.right, 3), 0, "after {:?}", start.elapsed());
        }
        assert_eq!(received, sent);
        assert_eq!(peers(&pair.right), "[0]");
        assert_eq!(line.sent(End::Left) - there, sent, "data alone");
        assert_eq!(line.sent(End::Right), back, "one way alone");
        wait_for("the silence to be noticed", || removed(&pair.right, 3) == 1);
        assert_eq!(peers(&pair.right), "[]");
        assert_eq!(peers(&pair.left), "[0]", "whose timers are off");
    });
}

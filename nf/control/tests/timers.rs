//! Keepalive and expiry by a simulated clock.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use nf_control::timers::{Action, Keepalive, PeerTimers};
use nf_state::Millis;
use proptest::prelude::*;

use Action::{Expire, Ping};

fn keepalive(interval: u64, timeout: u64) -> Keepalive {
    Keepalive {
        interval: Duration::from_millis(interval),
        timeout: Duration::from_millis(timeout),
    }
}

/// One peer, polled every 10 ms from 0 to `until`; what it yields and when. Keepalives go out when `sends`.
fn alone(
    keepalive: Keepalive,
    until: u64,
    sends: bool,
    heard: impl Fn(u64) -> u64,
) -> Vec<(u64, Action<u32>)> {
    let mut timers = PeerTimers::new();
    timers.insert(1, keepalive, Millis(0));
    let sent = Cell::new(Millis(0));
    let mut seen = Vec::new();
    for now in (0..=until).step_by(10) {
        for action in timers.poll(Millis(now), |_| sent.get(), |_| Millis(heard(now))) {
            if sends && action == Ping(1) {
                sent.set(Millis(now));
            }
            seen.push((now, action));
        }
    }
    seen
}

#[test]
fn ping_alone() {
    for sends in [true, false] {
        let seen = alone(keepalive(5000, 0), 20_990, sends, |_| 0);
        assert_eq!(seen, [5000, 10_000, 15_000, 20_000].map(|at| (at, Ping(1))));
    }
}

#[test]
fn ping_restart_alone() {
    assert_eq!(
        alone(keepalive(0, 15_000), 60_000, true, |_| 0),
        [(15_000, Expire(1))]
    );
    // What is heard, data or keepalive, keeps it.
    assert_eq!(
        alone(keepalive(0, 15_000), 60_000, true, |now| now - now % 14_000),
        []
    );
}

#[test]
fn off() {
    assert_eq!(alone(keepalive(0, 0), 1_000_000, true, |_| 0), []);
    let mut timers = PeerTimers::new();
    timers.insert(1, keepalive(0, 0), Millis(0));
    assert_eq!(timers.next_deadline(), None);
    // Setting it off takes the old ones away.
    timers.insert(1, keepalive(1000, 2000), Millis(0));
    timers.insert(1, keepalive(0, 0), Millis(0));
    assert_eq!(timers.next_deadline(), None);
    assert_eq!(timers.poll(Millis(u64::MAX), |_| Millis(0), |_| Millis(0)), []);
}

#[test]
fn an_outage_of_20_seconds() {
    // Heard every second until 100 s, and from 120 s on again: gone at 115 s, and silent ever after.
    let heard = |now: u64| {
        if now < 120_000 {
            now.min(100_000) / 1000 * 1000
        } else {
            now
        }
    };
    let seen = alone(keepalive(1000, 15_000), 200_000, true, heard);
    let (last, pings) = seen.split_last().unwrap();
    assert_eq!(*last, (115_000, Expire(1)));
    assert!(pings.iter().map(|p| p.1).all(|a| a == Ping(1)));
    assert_eq!(
        pings.len(),
        114,
        "one a second, and none in the poll that ends it"
    );
}

#[test]
fn a_part_of_a_millisecond_is_not_off() {
    let mut timers = PeerTimers::new();
    let tiny = Keepalive {
        interval: Duration::from_nanos(1),
        timeout: Duration::from_micros(1001),
    };
    timers.insert(1, tiny, Millis(7));
    assert_eq!(timers.poll(Millis(7), |_| Millis(0), |_| Millis(0)), []);
    assert_eq!(timers.poll(Millis(8), |_| Millis(0), |_| Millis(0)), [Ping(1)]);
    assert_eq!(timers.poll(Millis(9), |_| Millis(0), |_| Millis(0)), [Expire(1)]);
}

#[test]
fn setting_stamps_both_times() {
    let mut timers = PeerTimers::new();
    timers.insert(1, keepalive(100, 300), Millis(1000));
    timers.insert(1, keepalive(100, 300), Millis(1250));
    // Noted times of long ago do not count.
    assert_eq!(timers.poll(Millis(1349), |_| Millis(3), |_| Millis(3)), []);
    assert_eq!(timers.poll(Millis(1350), |_| Millis(3), |_| Millis(3)), [Ping(1)]);
    assert_eq!(timers.poll(Millis(1549), |_| Millis(1540), |_| Millis(3)), []);
    assert_eq!(
        timers.poll(Millis(1550), |_| Millis(1540), |_| Millis(3)),
        [Expire(1)]
    );
    timers.insert(1, keepalive(100, 300), Millis(2000));
    timers.remove(1);
    timers.remove(2);
    assert_eq!(timers.poll(Millis(u64::MAX), |_| Millis(0), |_| Millis(0)), []);
}

#[test]
fn times_at_the_edges() {
    let mut timers = PeerTimers::new();
    let endless = Keepalive {
        interval: Duration::MAX,
        timeout: Duration::MAX,
    };
    timers.insert(1, endless, Millis(5));
    assert_eq!(
        timers.poll(Millis(u64::MAX - 1), |_| Millis(0), |_| Millis(0)),
        []
    );
    // A worker may note a time that is younger than the `now` of the control side.
    timers.insert(2, keepalive(10, 20), Millis(5));
    let ahead = |_| Millis(1000);
    assert_eq!(timers.poll(Millis(990), ahead, ahead), []);
    assert_eq!(timers.poll(Millis(1010), ahead, ahead), [Ping(2)]);
    // The last moment there is: nothing overflows, and the poll returns.
    let last = |_| Millis(u64::MAX);
    assert_eq!(timers.poll(Millis(u64::MAX), last, last), [Expire(1), Expire(2)]);
}

#[test]
fn in_the_order_of_deadlines() {
    let mut timers = PeerTimers::new();
    timers.insert(1, keepalive(50, 0), Millis(0));
    timers.insert(2, keepalive(0, 30), Millis(0));
    timers.insert(3, keepalive(10, 0), Millis(0));
    timers.insert(4, keepalive(30, 0), Millis(0));
    // Peer 3 was looked for first, but is due last.
    let sent = |peer| Millis(if peer == 3 { 55 } else { 0 });
    assert_eq!(
        timers.poll(Millis(70), sent, |_| Millis(0)),
        [Expire(2), Ping(4), Ping(1), Ping(3)]
    );
}

#[test]
fn a_poll_costs_what_is_due() {
    const PEERS: u32 = 10_000;
    let mut timers = PeerTimers::new();
    for peer in 0..PEERS {
        timers.insert(peer, keepalive(10_000, 60_000), Millis(u64::from(peer)));
    }
    let asked = Cell::new(0);
    let last = |now: u64| {
        let asked = &asked;
        move |_| {
            asked.set(asked.get() + 1);
            Millis(now)
        }
    };
    // Busy peers: 60 polls a second for 100 s look at each peer some ten times for sending, once or twice for expiry.
    for now in (0..100_000).step_by(16) {
        assert_eq!(timers.poll(Millis(now), last(now), last(now)), []);
    }
    assert!(
        asked.get() <= 12 * PEERS && asked.get() >= 9 * PEERS,
        "{}",
        asked.get()
    );
    // Nothing due: nothing looked at.
    asked.set(0);
    let next = timers.next_deadline().unwrap();
    assert_eq!(timers.poll(Millis(next.0 - 1), last(0), last(0)), []);
    assert_eq!(asked.get(), 0);
    // All go at once, once.
    let gone = timers.poll(Millis(1_000_000), |_| Millis(0), |_| Millis(0));
    assert_eq!(gone.len(), PEERS as usize);
    assert!(gone.iter().all(|a| matches!(a, Expire(_))));
    assert_eq!(timers.next_deadline(), None);
}

/// A peer of the model, which looks at every peer in every poll.
#[derive(Clone, Copy)]
struct Naive {
    interval: u64,
    timeout: u64,
    sent: u64,
    heard: u64,
}

#[derive(Clone, Debug)]
enum Event {
    Insert(u32, u64, u64),
    Remove(u32),
    Sent(u32),
    Heard(u32),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let peer = 0..6u32;
    prop_oneof![
        2 => (peer.clone(), 0..40u64, 0..80u64).prop_map(|(p, i, t)| Event::Insert(p, i, t)),
        1 => peer.clone().prop_map(Event::Remove),
        5 => peer.clone().prop_map(Event::Sent),
        5 => peer.prop_map(Event::Heard),
        10 => (0..60u64).prop_map(Event::Wait),
    ]
}

proptest! {
    #[test]
    fn as_a_naive_model(events in proptest::collection::vec(event(), 1..200)) {
        let mut timers = PeerTimers::new();
        let mut model: BTreeMap<u32, Naive> = BTreeMap::new();
        // What the data plane noted; it lives longer than a peer's timers.
        let mut noted: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let mut now = 1;
        for event in events {
            match event {
                Event::Insert(p, interval, timeout) => {
                    timers.insert(p, keepalive(interval, timeout), Millis(now));
                    model.insert(p, Naive { interval, timeout, sent: now, heard: now });
                }
                Event::Remove(p) => {
                    timers.remove(p);
                    model.remove(&p);
                }
                Event::Sent(p) => {
                    noted.entry(p).or_default().0 = now;
                    model.entry(p).and_modify(|m| m.sent = now);
                }
                Event::Heard(p) => {
                    noted.entry(p).or_default().1 = now;
                    model.entry(p).and_modify(|m| m.heard = now);
                }
                Event::Wait(time) => now += time,
            }
            let mut expected = Vec::new();
            for (&p, m) in &mut model {
                if m.timeout > 0 && now >= m.heard + m.timeout {
                    expected.push((m.heard + m.timeout, Expire(p)));
                } else if m.interval > 0 && now >= m.sent + m.interval {
                    expected.push((m.sent + m.interval, Ping(p)));
                    // The keepalive itself is never noted as sent here: it is asked for again an interval later.
                    m.sent = now;
                }
            }
            expected.sort_unstable();
            for (_, action) in &expected {
                if let Expire(p) = action {
                    model.remove(p);
                }
            }
            let note = |p: u32| noted.get(&p).copied().unwrap_or_default();
            let seen = timers.poll(Millis(now), |p| Millis(note(p).0), |p| Millis(note(p).1));
            prop_assert_eq!(seen, expected.into_iter().map(|e| e.1).collect::<Vec<_>>());
            if let Some(next) = timers.next_deadline() {
                prop_assert!(next.0 > now);
            }
        }
    }
}

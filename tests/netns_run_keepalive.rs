//! Keepalive and expiry: two timers that do not depend on each other, and what starts them anew.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/life.rs"]
mod life;

use gateway::{in_namespace, wait_for};
use life::{Bed, LISTEN, Opened, Peer, Settings, vpn};
use nf_path::twin::craft::inner_v4;
use nf_wire::keepalive::PING;
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(250);

/// Peers with these timers, from peer 0 on.
fn settings(timers: &[[u32; 2]]) -> Settings {
    let mut settings = Settings::with_peers(timers.len() as u32);
    for (peer, timers) in settings.peers.iter_mut().zip(timers) {
        peer.more = format!("keepalive = {timers:?}");
    }
    settings
}

/// Which peers were removed for silence, as the log says it.
fn removed(bed: &Bed) -> Vec<u32> {
    let lines = bed.said("removed");
    let id = |line: &String| {
        let (_, rest) = line.split_once("peer ").expect("it names the peer");
        let (id, rest) = rest.split_once(' ').expect("and its tunnel");
        assert_eq!(rest, "of ovpn0: nothing heard for 3 s: removed");
        id.parse().expect("a number")
    };
    lines.iter().map(id).collect()
}

fn packet(peer: &Peer, n: u32) -> Vec<u8> {
    inner_v4(vpn(peer.id), life::OWN, 100, n)
}

#[test]
fn each_timer_works_alone() {
    in_namespace("each_timer_works_alone", || {
        // Pings alone; expiry alone; neither; pings, but something else is sent all the time.
        let mut bed = Bed::start(settings(&[[1, 0], [0, 3], [0, 0], [1, 0]]));
        bed.connected(3);
        let peers = bed.settings.peers.clone();
        let socket = bed.socket();
        let (start, mut seen): (_, Vec<(Duration, Opened)>) = (Instant::now(), Vec::new());
        let mut gone = None;
        while start.elapsed() < Duration::from_millis(5600) {
            bed.send(&socket, 3, 1);
            let until = Instant::now() + STEP;
            while Instant::now() < until {
                while let Some(record) = bed.far.next(&peers) {
                    seen.push((start.elapsed(), record));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            if gone.is_none() && !removed(&bed).is_empty() {
                gone = Some(start.elapsed());
            }
        }
        let of = |peer: u32| {
            seen.iter()
                .filter(move |(_, r)| r.peer == peer)
                .collect::<Vec<_>>()
        };
        let pings = of(0);
        assert!((5..=6).contains(&pings.len()), "{} in 5.6 s", pings.len());
        assert!(
            pings
                .iter()
                .all(|(_, r)| r.inner == PING && r.to == peers[0].remote)
        );
        assert!(pings.windows(2).all(|w| w[0].1.id + 1 == w[1].1.id));
        for pair in pings.windows(2) {
            let between = (pair[1].0 - pair[0].0).as_millis();
            assert!((900..1200).contains(&between), "{between} ms");
        }
        assert!(of(1).is_empty() && of(2).is_empty(), "nothing is sent to them");
        assert!(
            of(3).iter().all(|(_, r)| r.inner != PING),
            "others were sent in time"
        );
        assert_eq!(removed(&bed), [1]);
        let gone = gone.expect("removed").as_millis();
        assert!((2000..3600).contains(&gone), "{gone} ms after the start");
        assert_eq!(bed.gateway.telemetry("/ovpn/peers")["id"].to_string(), "[0,2,3]");
        bed.end();
    });
}

#[test]
fn only_authentic_records_keep_a_peer() {
    in_namespace("only_authentic_records_keep_a_peer", || {
        // Kept: by data; by keepalives. Gone: forged records; replayed ones; foreign key id; wrong peer's source address.
        let mut bed = Bed::start(settings(&[[0, 3]; 5]));
        let peers = bed.settings.peers.clone();
        let listen = LISTEN.parse().expect("an address");
        let replayed = bed.far.seal(&peers[3], 0, &packet(&peers[3], 0));
        bed.far.send_from(peers[3].remote, listen, &replayed);
        wait_for("the first of them", || bed.gateway.counter("authentic") == 1);
        let (start, mut n) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(4500) {
            n += 1;
            bed.far.send(&peers[0], &packet(&peers[0], n));
            bed.far.send(&peers[1], &PING);
            let mut forged = bed.far.seal(&peers[2], 0, &packet(&peers[2], n));
            forged[20] ^= 1;
            bed.far.send_from(peers[2].remote, listen, &forged);
            bed.far.send_from(peers[3].remote, listen, &replayed);
            let mut foreign = bed.far.seal(&peers[4], 0, &packet(&peers[4], n));
            foreign[0] ^= 1;
            bed.far.send_from(peers[4].remote, listen, &foreign);
            std::thread::sleep(STEP);
        }
        let mut gone = removed(&bed);
        gone.sort_unstable();
        assert_eq!(gone, [2, 3, 4]);
        assert_eq!(bed.gateway.counter("keepalives"), u64::from(n));
        assert_eq!(
            bed.gateway.counter("tunnel_tx"),
            u64::from(n) + 1,
            "keepalives are not delivered"
        );
        for reason in ["bad_tag", "replay_duplicate", "no_key", "unknown_peer"] {
            assert!(bed.gateway.dropped(reason) > 0, "{reason}");
        }
        // Silence from now on.
        wait_for("the others to go", || removed(&bed).len() == 5);
        bed.end();
    });
}

#[test]
fn what_is_not_quite_a_keepalive_is_none() {
    in_namespace("what_is_not_quite_a_keepalive_is_none", || {
        let mut bed = Bed::start(Settings::with_peers(1));
        let peer = bed.settings.peers[0].clone();
        let mut other = PING;
        other[15] ^= 1;
        for inner in [&PING[..], &[&PING[..], &[0]].concat(), &other, &PING[..15]] {
            bed.far.send(&peer, inner);
        }
        wait_for("all four", || bed.gateway.counter("authentic") == 4);
        assert_eq!(bed.gateway.counter("keepalives"), 1);
        assert_eq!(bed.gateway.dropped("not_ip"), 3);
        assert_eq!(bed.gateway.counter("tunnel_tx"), 0);
        let peers = bed.gateway.telemetry("/ovpn/peers");
        assert_eq!(peers["keepalives_rx"].to_string(), "[1]");
        bed.end();
    });
}

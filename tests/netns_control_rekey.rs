//! Keys of many peers change one after the other, again and again, under load: no record that a key covers is lost, and none
//! passes under a key that is not there.

#[path = "support/control.rs"]
mod control;
#[path = "support/gateway.rs"]
mod gateway;

use control::{Bed, Client, Key, New, PORTS, TUNNELS, each_family, listen, remote, vpn};
use gateway::{Gateway, wait_for};
use nf_path::twin::craft::inner_v4;
use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Slots: the one that seals, and the other.
const PRIMARY: u8 = 0;
const SECONDARY: u8 = 1;
/// Records of each kind at a time.
const BURST: u32 = 3;
/// What a record that a key covers may not be dropped for, in either direction.
const NEVER: [&str; 8] = [
    "bad_tag",
    "no_primary",
    "no_packet_id",
    "replay_old",
    "replay_duplicate",
    "unknown_peer",
    "tunnel_full",
    "nic_full",
];

/// What the records of the test have to come to.
#[derive(Default)]
struct Expected {
    authentic: u64,
    no_key: u64,
}

/// One peer and the keys that it has: first the one that seals.
struct Keyed {
    id: u32,
    keys: Vec<Key>,
    rounds: u8,
}

impl Keyed {
    /// Key ids as OpenVPN counts them: 0 once, then 1 to 7 in turn.
    fn next_key(&mut self) -> Key {
        self.rounds = self.rounds % 7 + 1;
        Key::random(self.rounds)
    }

    /// Records under all keys that it has, and under all ids that it has none of.
    fn send(&mut self, bed: &mut Bed, expected: &mut Expected) {
        let peer = self.id;
        let packet = |n| inner_v4(vpn(peer), control::OWN, 100, n);
        for key in &mut self.keys {
            for n in 0..BURST {
                let record = key.seal(peer, &packet(n));
                bed.far.send(remote(peer), listen(), &record);
            }
        }
        expected.authentic += u64::from(BURST) * self.keys.len() as u64;
        let there: BTreeSet<u8> = self.keys.iter().map(|key| key.id).collect();
        // The secret is that of a key that it has: only the id is another.
        for id in (0..8).filter(|id| !there.contains(id)) {
            let mut other = Key {
                id,
                ..self.keys[0].clone()
            };
            let record = other.seal(peer, &packet(0));
            bed.far.send(remote(peer), listen(), &record);
            expected.no_key += 1;
        }
    }

    /// A renegotiation as a daemon has one: the new key goes into the other slot, later it is the one that seals.
    fn rekey(&mut self, bed: &mut Bed, client: &mut Client, expected: &mut Expected) {
        let new = self.next_key();
        client.key(self.id, SECONDARY, &new).done();
        self.keys.truncate(1);
        self.keys.push(new);
        self.send(bed, expected);
        client.swap(self.id).done();
        self.keys.reverse();
        self.send(bed, expected);
    }
}

/// Sends packets to all peers in turn, until told to stop; how many.
fn load(peers: u32, over: &AtomicBool, socket: &UdpSocket) -> u64 {
    let mut sent = 0;
    while !over.load(Ordering::Relaxed) {
        for peer in 1..=peers {
            // A full queue is waited for.
            sent += u64::from(socket.send_to(&[0x5a; 100], (vpn(peer), PORTS.0)).is_ok());
            std::thread::sleep(Duration::from_micros(500));
        }
    }
    sent
}

/// Packets that the kernel had no room for on their way into the tunnel port.
fn queue_drops() -> u64 {
    let path = format!("/sys/class/net/{}/statistics/tx_dropped", TUNNELS[0]);
    let text = fs::read_to_string(path).expect("it is there");
    text.trim().parse().expect("a number")
}

fn never(gateway: &Gateway) -> Vec<u64> {
    NEVER.iter().map(|reason| gateway.dropped(reason)).collect()
}

/// So many peers, each with so many renegotiations.
fn rekeys(name: &str, peers: u32, rounds: u32) {
    each_family(name, |bed, client| {
        let keyed = |id| {
            client.make(bed, &New::of(id)).done();
            let key = Key::random(0);
            client.key(id, PRIMARY, &key).done();
            Keyed {
                id,
                keys: vec![key],
                rounds: 0,
            }
        };
        let mut all: Vec<Keyed> = (1..=peers).map(keyed).collect();
        let inside = bed.inside();
        let before = ["authentic", "sealed"].map(|name| bed.gateway.counter(name));
        let (no_key, drops, queue) = (bed.gateway.dropped("no_key"), never(&bed.gateway), queue_drops());
        let (mut expected, over) = (Expected::default(), AtomicBool::new(false));
        let mut seen = BTreeSet::new();
        let sent = std::thread::scope(|scope| {
            let loader = scope.spawn(|| load(peers, &over, &inside));
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for _ in 0..rounds {
                    for peer in &mut all {
                        peer.rekey(bed, client, &mut expected);
                    }
                    caught_up(bed, before[0], no_key, &expected);
                    seen.extend(bed.far.all().iter().map(|record| record.key()));
                }
            }));
            over.store(true, Ordering::Relaxed);
            let sent = loader.join().expect("it only sends");
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sent
        });
        wait_for("all packets to be sealed", || {
            bed.gateway.counter("sealed") - before[1] + queue_drops() - queue == sent
        });
        assert_eq!(never(&bed.gateway), drops, "{NEVER:?}");
        seen.extend(bed.far.all().iter().map(|record| record.key()));
        assert_eq!(seen, (0..8).collect(), "key ids of what it sealed");
        println!(
            "{peers} peers, {rounds} rounds: {} records, {} under no key, {sent} packets to peers",
            expected.authentic, expected.no_key
        );
        // And each seals under the newest of its keys.
        for peer in &all {
            bed.carries_out(&inside, peer.id, &peer.keys[0]);
            client.del(peer.id).done();
        }
    });
}

/// Every record so far was opened, or dropped for want of a key.
fn caught_up(bed: &Bed, authentic: u64, no_key: u64, expected: &Expected) {
    let mut now = (0, 0);
    wait_for("every record to be counted", || {
        let gateway = &bed.gateway;
        now = (
            gateway.counter("authentic") - authentic,
            gateway.dropped("no_key") - no_key,
        );
        now.0 >= expected.authentic && now.1 >= expected.no_key
    });
    assert_eq!(now, (expected.authentic, expected.no_key));
}

#[test]
fn keys_change_under_load() {
    rekeys("keys_change_under_load", 20, 9);
}

/// As many as in half an hour with `reneg-sec 15`, without the pauses.
#[test]
#[ignore = "200 peers with 120 renegotiations each: minutes"]
fn keys_of_many_peers_change_under_load() {
    rekeys("keys_of_many_peers_change_under_load", 200, 120);
}

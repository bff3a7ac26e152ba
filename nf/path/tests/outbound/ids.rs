//! Packet ids: never twice, never beyond the last, in the order of the packets.

use crate::bed::*;
use crate::peers::*;
use nf_path::outbound::{Lcores, Sink};
use nf_path::twin::{HeapBuf, SoftKey};
use nf_path::verdict::DropReason;
use nf_state::{KeySlot, PacketIds, Slot};
use std::sync::Arc;

impl Bed {
    fn key(&mut self, peer: u32) -> Arc<KeySlot<SoftKey>> {
        self.peer(peer).keys.get(Slot::Primary).unwrap().clone()
    }

    fn give(&mut self, peer: u32, key: Arc<KeySlot<SoftKey>>) {
        drop(self.peer(peer).keys.install(Slot::Primary, key));
    }
}

fn ids(sent: &Sent) -> Vec<u32> {
    sent.nic.iter().map(|got| id_of(&got.frame)).collect()
}

#[test]
fn the_last_is_ffffffff_and_then_there_are_none_until_a_new_key() {
    let mut bed = Bed::default();
    bed.give(
        1,
        key_slot(1, true, PacketIds::resume(0xffff_fffd, PacketIds::END)),
    );
    assert_eq!(
        ids(&bed.push((0..2).map(|n| buf(1, 60, n)))),
        [0xffff_fffd, 0xffff_fffe]
    );
    assert_eq!(ids(&bed.push((0..5).map(|n| buf(1, 60, n)))), [0xffff_ffff]);
    assert_eq!(bed.drops(), [(DropReason::NoPacketId, 4)]);
    assert_eq!(HeapBuf::live(), 0, "those without an id are freed at once");
    for _ in 0..3 {
        assert!(bed.push((0..5).map(|n| buf(1, 60, n))).nic.is_empty());
        assert!(bed.ping(1).nic.is_empty());
    }
    assert_eq!(bed.drops(), [(DropReason::NoPacketId, 4 + 18)]);
    assert_eq!(bed.peer_counters(1)[..2], [3, 3 * 84]);
    bed.give(1, key_slot(1, true, PacketIds::new()));
    assert_eq!(ids(&bed.push((0..2).map(|n| buf(1, 60, n)))), [1, 2]);
}

/// Case A16.
#[test]
fn of_512_packets_near_the_end_256_leave() {
    for spread in [false, true] {
        let mut bed = Bed::new(Setup {
            spread,
            lcores: Lcores { me: 0, count: 2 },
            ..Setup::default()
        });
        let peer = (1..=PEERS)
            .find(|peer| nf_path::outbound::owner(*peer, 2) == 0)
            .unwrap();
        bed.give(
            peer,
            key_slot(peer, true, PacketIds::resume(0xffff_ff00, PacketIds::END)),
        );
        let mut seen = Vec::new();
        for _ in 0..8 {
            seen.extend(ids(&bed.push((0..64).map(|n| buf(peer, 60, n)))));
        }
        assert!(seen.iter().copied().eq(0xffff_ff00..=u32::MAX), "{seen:?}");
        assert_eq!(bed.drops(), [(DropReason::NoPacketId, 256)]);
    }
}

#[test]
fn a_durable_reservation_ends_what_is_sent_until_it_grows() {
    let mut bed = Bed::default();
    bed.give(1, key_slot(1, true, PacketIds::resume(100, 103)));
    assert_eq!(ids(&bed.push((0..5).map(|n| buf(1, 60, n)))), [100, 101, 102]);
    bed.key(1).ids().extend_to(200);
    assert_eq!(ids(&bed.push((0..2).map(|n| buf(1, 60, n)))), [103, 104]);
}

/// At each frame that leaves: how many ids are reserved and not sent.
struct Ahead {
    ids: Arc<KeySlot<SoftKey>>,
    most: u64,
}

impl Sink<HeapBuf> for Ahead {
    fn nic(&mut self, frame: HeapBuf) {
        let ahead = self.ids.ids().next() - u64::from(id_of(&frame.to_vec()));
        self.most = self.most.max(ahead);
    }

    fn tunnel(&mut self, _: HeapBuf) {
        panic!("no answer is due");
    }

    fn steer(&mut self, _: u8, _: HeapBuf) {
        panic!("all is sealed here");
    }
}

#[test]
fn a_spread_peer_has_at_most_sixteen_ids_in_use_at_once() {
    let two = Lcores { me: 1, count: 2 };
    let one = Lcores { me: 0, count: 1 };
    for (spread, lcores, most) in [(true, two, 16), (true, one, 200), (false, one, 200)] {
        let mut bed = Bed::new(Setup {
            spread,
            lcores,
            ..Setup::default()
        });
        let ids = bed.key(1);
        let mut ahead = Ahead { ids, most: 0 };
        bed.push_into((0..200).map(|n| buf(1, 60, n)), &mut ahead);
        assert_eq!(ahead.most, most, "spread {spread}, {lcores:?}");
    }
}

/// Collects ids.
struct Ids(Vec<u32>);

impl Sink<HeapBuf> for Ids {
    fn nic(&mut self, frame: HeapBuf) {
        use nf_path::buf::Buf;
        self.0.push(id_of(frame.data()));
    }

    fn tunnel(&mut self, _: HeapBuf) {
        panic!("no answer is due");
    }

    fn steer(&mut self, _: u8, _: HeapBuf) {
        panic!("all is sealed here");
    }
}

/// Two lcores send `each` packets to one peer.
fn two_lcores(each: u32, spread: bool) {
    let key = key_slot(1, true, PacketIds::new());
    let lcore = |me| {
        let key = key.clone();
        move || {
            let mut bed = Bed::new(Setup {
                spread,
                lcores: Lcores {
                    me: if spread { me } else { 0 },
                    count: if spread { 2 } else { 1 },
                },
                ..Setup::default()
            });
            bed.give(1, key);
            let mut seen = Ids(Vec::with_capacity(each as usize));
            for first in (0..each).step_by(100) {
                bed.push_into((first..each.min(first + 100)).map(|n| buf(1, 32, n)), &mut seen);
            }
            seen.0
        }
    };
    let mut all = std::thread::scope(|s| {
        let threads = [s.spawn(lcore(0)), s.spawn(lcore(1))];
        threads.map(|t| t.join().unwrap()).concat()
    });
    all.sort_unstable();
    assert!(
        all.iter().copied().eq(1..=2 * each),
        "each id once, and none left out"
    );
}

#[test]
fn two_lcores_never_repeat_an_id() {
    two_lcores(500_000, true);
    two_lcores(20_000, false);
}

#[test]
#[ignore = "long"]
fn two_lcores_never_repeat_an_id_in_ten_million() {
    two_lcores(5_000_000, true);
}

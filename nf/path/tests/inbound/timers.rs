//! What keeps a peer alive: anything authentic that is no replay, and nothing else (A5, A14).

use crate::support::*;
use nf_path::twin::HeapBuf;
use nf_path::verdict::DropReason;
use nf_wire::keepalive::PING;

fn last_heard(bed: &mut Bed) -> u64 {
    bed.peer_counters(1)[5]
}

fn datagram(payload: &[u8]) -> HeapBuf {
    HeapBuf::new(&outer(1).payload(payload).build())
}

#[test]
fn a5_a_ping_is_consumed_and_counted_and_re_arms() {
    let mut bed = Bed::default();
    for (id, at) in (1..).zip([10, 20, 4000]) {
        let out = bed.at(at).push([datagram(&record_of(1, 0, id, &PING))]);
        assert_eq!((out.delivered(), out.host.len(), bed.drops().len()), (0, 0, 0));
        assert_eq!(bed.peer_counters(1)[2..], [0, 0, u64::from(id), at]);
    }
}

#[test]
fn a5_a_replayed_or_forged_ping_does_not() {
    let mut bed = Bed::default();
    let ping = record_of(1, 0, 7, &PING);
    let mut forged = record_of(1, 0, 8, &PING);
    forged[24] ^= 1;
    bed.at(10).push([datagram(&ping)]);
    bed.at(500)
        .push([datagram(&ping), datagram(&forged), datagram(&ping)]);
    assert_eq!(bed.peer_counters(1)[2..], [0, 0, 1, 10]);
    assert_eq!(
        bed.drops(),
        [(DropReason::ReplayDuplicate, 2), (DropReason::BadTag, 1)]
    );
    // One good one among them does.
    bed.at(600).push([
        datagram(&forged),
        datagram(&record_of(1, 0, 9, &PING)),
        datagram(&ping),
    ]);
    assert_eq!(bed.peer_counters(1)[2..], [0, 0, 2, 600]);
}

/// What is nearly a ping is none, but it was the peer's.
#[test]
fn a5_one_byte_more_or_another_last_byte_is_no_ping() {
    let longer = [&PING[..], &[0]].concat();
    let mut other = PING;
    other[15] ^= 1;
    for plaintext in [&longer[..], &other] {
        let mut bed = Bed::default();
        bed.at(10).push([datagram(&record_of(1, 0, 1, plaintext))]);
        assert_eq!(bed.drops(), [(DropReason::NotIp, 1)]);
        assert_eq!(bed.peer_counters(1)[2..], [0, 0, 0, 10]);
    }
}

#[test]
fn a14_data_alone_keeps_a_peer_alive() {
    let mut bed = Bed::default();
    for id in 1..=100 {
        let at = u64::from(id) * 1000;
        bed.at(at).push([buf(1, id, 200)]);
        assert_eq!(last_heard(&mut bed), at);
    }
    assert_eq!(bed.peer_counters(1)[4], 0, "no keepalive was needed");
    assert_eq!(bed.peer_counters(2)[5], 0, "nobody else was heard");
}

#[test]
fn a14_nothing_forged_replayed_or_unencrypted_keeps_one_alive() {
    let mut bed = Bed::default();
    bed.at(5).push([buf(1, 3000, 200)]);
    let good = record_of(1, 0, 3001, &inner(1, 200, 1));
    for byte in 4..good.len() {
        let mut forged = good.clone();
        forged[byte] ^= 0x80;
        bed.at(6000 + byte as u64).push([datagram(&forged)]);
        assert_eq!(last_heard(&mut bed), 5, "byte {byte}");
    }
    // Another peer's key, a key that is not there, too short, seen before, too old, never valid, control, DATA_V1.
    let mut another = record_of(2, 0, 3001, &inner(2, 200, 1));
    another[3] = 1;
    let more = [
        another,
        record_of(1, 5, 3001, &inner(1, 200, 1)),
        good[..23].to_vec(),
        record_of(1, 0, 3000, &inner(1, 200, 1)),
        record_of(1, 0, 1, &inner(1, 200, 1)),
        record_of(1, 0, 0, &inner(1, 200, 1)),
        vec![0x20; 100],
        vec![0x30; 100],
    ];
    for payload in &more {
        bed.at(9000).push([datagram(payload)]);
        assert_eq!(last_heard(&mut bed), 5);
    }
    assert_eq!(bed.peer_counters(1)[2..4], [1, 200]);
    bed.at(9001).push([datagram(&good)]);
    assert_eq!(last_heard(&mut bed), 9001);
}

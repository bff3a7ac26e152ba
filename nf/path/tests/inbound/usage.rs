//! What is counted: packets and blocks of a key, and a peer's link and VPN counters (A18).

use crate::support::*;
use nf_path::twin::HeapBuf;
use nf_path::verdict::DropReason;
use nf_state::Slot;
use nf_wire::keepalive::PING;
use proptest::prelude::*;

/// Packets and blocks opened under both keys of peer 1.
fn opened(bed: &mut Bed) -> [u64; 2] {
    [Slot::Primary, Slot::Secondary].map(|slot| bed.peer(1).keys.get(slot).unwrap().opened().get())
}

fn record(key_id: u8, packet_id: u32, plaintext: &[u8]) -> HeapBuf {
    HeapBuf::new(
        &outer(1)
            .payload(&record_of(1, key_id, packet_id, plaintext))
            .build(),
    )
}

#[test]
fn a_record_uses_itself_and_its_blocks() {
    let mut bed = Bed::default();
    let mut total = 0;
    for (id, (len, blocks)) in (1..).zip([(0, 0), (1, 1), (15, 1), (16, 1), (17, 2), (32, 2), (1400, 88)]) {
        bed.push([record(0, id, &vec![7; len])]);
        total += 1 + blocks;
        assert_eq!(opened(&mut bed), [total, 0], "{len} bytes");
    }
    bed.push([record(1, 1, &PING)]);
    assert_eq!(opened(&mut bed), [total, 2], "each key has its own");
    bed.peer(1).keys.swap();
    assert_eq!(opened(&mut bed), [2, total], "and keeps it");
}

#[test]
fn forged_and_replayed_records_use_nothing() {
    let mut bed = Bed::default();
    bed.push([buf(1, 3000, 160)]);
    assert_eq!(opened(&mut bed), [11, 0]);
    let mut forged = frame(1, 3001, 160);
    forged[100] ^= 1;
    let bad = [
        HeapBuf::new(&forged),
        buf(1, 3000, 160),
        buf(1, 1, 160),
        buf(1, 0, 160),
    ];
    assert_eq!(bed.push(bad).delivered(), 0);
    assert_eq!(opened(&mut bed), [11, 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn usage_is_the_sum_however_records_are_batched(
        records in prop::collection::vec((0..2u8, 0..1400usize, prop::bool::weighted(0.2)), 1..200),
        batch: bool,
    ) {
        let mut bed = Bed::new(Setup { batch, ..Setup::default() });
        let mut expected = [0, 0];
        let frames = (1..).zip(&records).map(|(id, (key_id, len, forged))| {
            let mut record = record_of(1, *key_id, id, &vec![0; *len]);
            record[10] ^= u8::from(*forged);
            if !forged {
                expected[usize::from(*key_id)] += 1 + len.div_ceil(16) as u64;
            }
            HeapBuf::new(&outer(1).payload(&record).build())
        });
        let frames: Vec<_> = frames.collect();
        bed.push(frames);
        prop_assert_eq!(opened(&mut bed), expected);
    }
}

/// A18: 100 packets of 1000 bytes, with forged, replayed and keepalive records among them.
#[test]
fn a18_counters_are_exact() {
    let mut bed = Bed::default();
    let (mut frames, mut link) = (vec![], [0, 0]);
    let mut send = |payload: &[u8]| {
        link = [link[0] + 1, link[1] + payload.len() as u64];
        frames.push(HeapBuf::new(&outer(1).payload(payload).build()));
    };
    for id in 1..=100 {
        let good = record_of(1, 0, id, &inner(1, 1000, id));
        let mut forged = good.clone();
        forged[500] ^= 0x10;
        send(&forged);
        send(&good);
        if id % 4 == 0 {
            send(&good);
            send(&record_of(1, 1, id, &PING));
        }
    }
    assert_eq!(frames.len(), 250);
    let out = bed.at(50).push(frames);
    assert_eq!(out.numbers(), (1..=100).collect::<Vec<_>>());
    assert_eq!(link, [250, 225 * 1024 + 25 * 40]);
    assert_eq!(bed.peer_counters(1), [link[0], link[1], 100, 100_000, 25, 50]);
    let drops = [(DropReason::ReplayDuplicate, 25), (DropReason::BadTag, 100)];
    assert_eq!(bed.drops(), drops);
    let t = bed.totals();
    assert_eq!((t.records, t.authentic, t.keepalives), (250, 125, 25));
}

/// A18: counters are the peer's, not its address's or its key's.
#[test]
fn a18_counters_survive_rekey_and_float() {
    let mut bed = Bed::default();
    let packet = inner(1, 1000, 9);
    bed.at(1).push((1..=50).map(|id| record(0, id, &packet)));
    let (k, tail) = key(1, 0);
    let fresh = key_slot(CIPHER, 0, &k, tail);
    drop(bed.peer(1).keys.install(Slot::Primary, fresh));
    let elsewhere = outer_v6(1);
    bed.at(2).push(
        (1..=50).map(|id| HeapBuf::new(&elsewhere.clone().payload(&record_of(1, 0, id, &packet)).build())),
    );
    assert_eq!(bed.peer_counters(1), [100, 102_400, 100, 100_000, 0, 2]);
    assert_eq!(bed.totals().floats, 2);
}

//! The rules of consuming a batch, 7 to 11.

use crate::support::*;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::{self, Frame};
use nf_path::twin::trace::{self, Event};
use nf_path::verdict::DropReason;
use nf_wire::keepalive::PING;
use nf_wire::record::{HeaderWord, PEER_ID_UNDEFINED};

#[test]
fn rule_07_shared_buffers_do_not_join() {
    let mut bed = Bed::default();
    let out = bed.push([
        buf(1, 1, 100),
        buf(1, 2, 100).shared(),
        buf(1, 3, 100).shared(),
        buf(1, 4, 100),
    ]);
    assert_eq!(out.numbers(), [1, 2, 3, 4], "each takes the ordinary path");
    assert_eq!(bed.batches(1), 4);
}

#[test]
fn rule_07_a_bad_member_does_not_take_the_batch_with_it() {
    let mut bed = Bed::default();
    let mut bad = frame(1, 2, 100);
    *bad.last_mut().unwrap() ^= 1;
    let out = bed.push([buf(1, 1, 100), HeapBuf::new(&bad), buf(1, 3, 100)]);
    assert_eq!(
        (out.numbers(), bed.drops()),
        (vec![1, 3], vec![(DropReason::BadTag, 1)])
    );
    assert_eq!(bed.batches(3), 1);
}

#[test]
fn rule_08_peer_and_key_are_found_once_per_batch() {
    let mut bed = Bed::default();
    let (out, events) = trace::record(|| bed.push((1..=64).map(|id| buf(1, id, 100))));
    assert_eq!(out.delivered(), 64);
    let asked = events
        .iter()
        .filter(|event| matches!(event, Event::PrefetchKey { .. }))
        .count();
    assert_eq!((bed.batches(64), asked), (1, 1));
}

#[test]
fn rule_08_the_members_are_delivered_without_their_outer_headers() {
    let mut bed = Bed::default();
    let out = bed.push((1..=3).map(|id| buf(1, id, 100)));
    for (id, got) in (1..).zip(&out.tunnels[0]) {
        assert_eq!(got.inner(), (1, &inner(1, 100, id)[..]));
    }
}

#[test]
fn rule_09_facts_of_a_member_are_its_own() {
    let mut bed = Bed::default();
    // Same size as the rest, but the last: other tag, id, IPv4 id, Ethernet padding and length.
    let member = |id: u32, len, padding: usize| {
        let payload = record_of(1, 0, id, &inner(1, len, id));
        HeapBuf::new(
            &outer(1)
                .id(id as u16)
                .payload(&payload)
                .trailing(&vec![0xee; padding])
                .build(),
        )
    };
    let out = bed.push([
        member(1, 100, 0),
        member(2, 100, 18),
        member(3, 100, 1),
        member(4, 33, 7),
    ]);
    assert_eq!(bed.batches(4), 1);
    let expected: Vec<_> = [(1, 100), (2, 100), (3, 100), (4, 33)]
        .map(|(n, len)| inner(1, len, n))
        .into();
    assert_eq!(out.inner(), expected);
}

#[test]
fn rule_10_an_undefined_peer_id_is_looked_up_by_source_address() {
    let mut bed = Bed::default();
    let (key, tail) = key(2, 0);
    let word = HeaderWord::data_v2(0, PEER_ID_UNDEFINED);
    let record = |id| craft::record(CIPHER, &key, &tail, word, id, &inner(2, 100, id));
    let out = bed.push([1, 2].map(|id| HeapBuf::new(&outer(2).payload(&record(id)).build())));
    assert_eq!((out.numbers(), bed.batches(2)), (vec![1, 2], 1));
    assert_eq!(
        out.tunnels[0][0].inner().0,
        2,
        "the peer's own id, not the undefined one"
    );
    let elsewhere = |frame: Frame, id| HeapBuf::new(&frame.payload(&record(id)).build());
    let out = bed.push([
        elsewhere(outer(2).ports(1, 1194), 3),
        elsewhere(outer_v6(2), 4),
        elsewhere(
            Frame::udp(
                "198.51.100.2:40002".parse().unwrap(),
                LISTEN_OTHER.parse().unwrap(),
            ),
            5,
        ),
    ]);
    assert_eq!(
        (out.tunnels[0].len(), out.tunnels[1].len()),
        (0, 1),
        "each tunnel has its own peers"
    );
    assert_eq!(bed.drops(), [(DropReason::UnknownAddress, 2)]);
    assert_eq!(
        bed.peer_counters(2)[0],
        2,
        "a record of nobody is in no peer's link counters"
    );
}

#[test]
fn rule_10_data_v1_is_counted_and_dropped() {
    let mut bed = Bed::default();
    let mut payload = record_of(1, 0, 1, &inner(1, 100, 1));
    payload[0] = 0x30;
    let out = bed.push([HeapBuf::new(&outer(1).payload(&payload).build())]);
    assert_eq!((out.delivered(), out.host.len()), (0, 0));
    assert_eq!(
        (bed.drops(), bed.totals().records),
        (vec![(DropReason::DataV1, 1)], 0)
    );
    assert_eq!(bed.peer_counters(1), [0; 6]);
}

#[test]
fn rule_11_every_record_is_one_datagram_in_the_statistics() {
    let run = |batch| {
        let mut bed = Bed::new(Setup {
            batch,
            ..Setup::default()
        });
        let ping = HeapBuf::new(&outer(1).payload(&record_of(1, 0, 51, &PING)).build());
        let frames = (1..=50).map(|id| buf(1, id, 100)).chain([ping, buf(1, 7, 100)]);
        bed.at(1234).push(frames);
        let totals = bed.totals();
        assert_eq!((totals.records, totals.authentic, totals.keepalives), (52, 51, 1));
        assert_eq!(bed.drops(), [(DropReason::ReplayDuplicate, 1)]);
        bed.peer_counters(1)
    };
    assert_eq!(run(true), [52, 51 * 124 + 40, 50, 5000, 1, 1234]);
    assert_eq!(run(true), run(false));
}

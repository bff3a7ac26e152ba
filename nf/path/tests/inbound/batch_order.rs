//! The rules of building a batch, 2 to 6: sizes, counts, order.

use crate::support::*;
use nf_path::inbound::Tuning;
use nf_path::inbound::batch::{Builder, Facts};
use nf_path::inbound::classify::{Class, Listeners, classify};
use nf_path::inbound::parse::parse;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::Frame;
use nf_path::verdict::DropReason;

/// The sizes of the batches that the builder makes of records of one flow with these inner lengths.
fn batches(lengths: &[usize]) -> Vec<usize> {
    let mut listeners = Listeners::default();
    listeners.add(LISTEN_V4.parse().unwrap(), 0);
    let slots: Vec<_> = (1..)
        .zip(lengths)
        .map(|(id, len)| Some(buf(1, id, *len)))
        .collect();
    let facts: Vec<Facts> = slots
        .iter()
        .flatten()
        .map(|buf| match classify(buf, parse(buf), &listeners) {
            Class::Record(facts) => facts,
            other => panic!("{other:?}"),
        })
        .collect();
    let mut builder = Builder::new(true);
    (0..slots.len()).for_each(|slot| builder.add(slot as u16, &facts, &slots));
    let order: Vec<_> = builder
        .batches()
        .iter()
        .flat_map(|batch| builder.slots(batch))
        .collect();
    assert_eq!(
        order,
        (0..slots.len() as u16).collect::<Vec<_>>(),
        "arrival order"
    );
    builder.batches().iter().map(|batch| batch.count()).collect()
}

/// All of them are delivered in order by the whole path.
fn delivered_in_order(lengths: &[usize]) {
    let mut bed = Bed::default();
    let numbers = bed.stream((1..).zip(lengths).map(|(id, len)| buf(1, id, *len)));
    assert_eq!(numbers, (1..=lengths.len() as u32).collect::<Vec<_>>());
}

#[test]
fn rule_02_the_first_sets_the_size_a_shorter_one_closes_a_larger_one_starts_the_next() {
    let long = [vec![1400; 63], vec![1]]
        .concat()
        .iter()
        .map(|len| len.max(&60).to_owned())
        .collect::<Vec<_>>();
    let cases: [(&[usize], &[usize]); 8] = [
        (&[100, 100, 100, 60, 100], &[4, 1]),
        (&[60, 100], &[1, 1]),
        (&long, &[64]),
        (&[1400, 1400, 32, 1400, 1400], &[3, 2]),
        (&[500; 10], &[10]),
        (&[100, 99, 98, 97], &[2, 2]),
        (&[97, 98, 99, 100], &[1, 1, 1, 1]),
        (&[100, 100, 101, 101, 60, 60, 60], &[2, 3, 2]),
    ];
    for (lengths, expected) in cases {
        assert_eq!(batches(lengths), expected, "{lengths:?}");
        delivered_in_order(lengths);
    }
}

#[test]
fn rule_03_at_most_64_records() {
    for (run, expected) in [
        (1, vec![1]),
        (2, vec![2]),
        (31, vec![31]),
        (32, vec![32]),
        (33, vec![33]),
        (63, vec![63]),
        (64, vec![64]),
        (65, vec![64, 1]),
        (200, vec![64, 64, 64, 8]),
    ] {
        assert_eq!(batches(&vec![100; run]), expected);
        delivered_in_order(&vec![100; run]);
    }
}

#[test]
fn rule_03_bytes_in_all_have_no_limit() {
    assert_eq!(batches(&[1400; 64]), [64], "{} bytes", 64 * 1424);
    delivered_in_order(&[1400; 64]);
}

#[test]
fn rule_04_the_header_word_lies_in_the_first_segment() {
    let bytes = frame(1, 1, 100);
    let cut = bytes.len() - 124 + 2;
    let scattered = || HeapBuf::from_segments(&[&bytes[..cut], &bytes[cut..]]);
    let mut bed = Bed::default();
    assert_eq!(bed.push([scattered(), buf(1, 2, 100)]).numbers(), [1, 2]);
    assert_eq!(bed.batches(1), 2, "copied into one segment, but alone");
    let mut bed = Bed::default();
    bed.ledger.limit_large(0);
    let out = bed.push([buf(1, 2, 100), scattered(), buf(1, 3, 100)]);
    assert_eq!(
        (out.numbers(), bed.drops()),
        (vec![2, 3], vec![(DropReason::Scattered, 1)])
    );
    assert_eq!(bed.batches(1), 2, "it closed the batch");
}

/// Between two records of a flow, `between` closes the batch: both are alone, in order.
#[track_caller]
fn closes(between: HeapBuf, delivered: &[u32]) {
    let mut bed = Bed::default().after(1);
    let out = bed.push([buf(1, 1, 100), between, buf(1, 3, 100)]);
    assert_eq!(out.numbers(), delivered);
    assert_eq!(bed.batches(2), 0, "nothing joins across it");
}

#[test]
fn rule_05_nothing_overtakes_what_cannot_join() {
    closes(control(1), &[1, 3]);
    let other_key = outer(1).payload(&record_of(1, 1, 2, &inner(1, 100, 2))).build();
    closes(HeapBuf::new(&other_key), &[1, 2, 3]);
    closes(buf(1, 2, 100).shared(), &[1, 2, 3]);
    closes(HeapBuf::new(&outer(1).payload(b"abc").build()), &[1, 3]);
    closes(HeapBuf::new(&outer(1).payload(&[0x30; 100]).build()), &[1, 3]);
    closes(
        HeapBuf::new(&outer(1).udp_len(7).payload(&[0x48; 100]).build()),
        &[1, 3],
    );
    let bytes = frame(1, 2, 100);
    closes(HeapBuf::from_segments(&[&bytes[..60], &bytes[60..]]), &[1, 2, 3]);
    closes(
        HeapBuf::new(&outer(1).fragment(0, true).payload(&[0x48; 96]).build()),
        &[1, 3],
    );
    closes(
        HeapBuf::new(&outer(1).fragment(96, true).payload(&[0x48; 96]).build()),
        &[1, 3],
    );
}

#[test]
fn rule_05_a_shorter_one_closes_even_for_its_like() {
    let mut bed = Bed::default();
    let out = bed.push([buf(1, 1, 100), buf(1, 2, 60), buf(1, 3, 60), buf(1, 4, 100)]);
    assert_eq!(out.numbers(), [1, 2, 3, 4]);
    assert_eq!((bed.batches(2), bed.batches(1)), (1, 2));
}

#[test]
fn rule_05_a_larger_one_closes_and_is_the_next_head() {
    let mut bed = Bed::default();
    let out = bed.push([buf(1, 1, 100), buf(1, 2, 101), buf(1, 3, 100), buf(1, 4, 100)]);
    assert_eq!(out.numbers(), [1, 2, 3, 4]);
    assert_eq!(
        (bed.batches(1), bed.batches(2)),
        (2, 1),
        "1, then 2 and the shorter 3, then 4"
    );
}

#[test]
fn rule_05_other_flows_close_nothing() {
    let mut bed = Bed::default();
    let foreign = Frame::udp(
        "203.0.113.5:53".parse().unwrap(),
        "203.0.113.6:53".parse().unwrap(),
    )
    .build();
    let out = bed.push([
        buf(1, 1, 100),
        buf(2, 1, 100),
        control(3),
        HeapBuf::new(&foreign),
        buf(1, 2, 100),
        buf(2, 2, 100),
    ]);
    assert_eq!((out.delivered(), out.host.len(), bed.batches(2)), (4, 2, 2));
    assert_eq!(out.numbers(), [1, 2, 1, 2], "flow by flow");
}

/// The batch begun last is another flow's, whose headers are of another kind.
#[test]
fn rule_05_a_flow_goes_on_after_one_with_other_kinds_of_headers() {
    let record = |peer, id| record_of(peer, 0, id, &inner(peer, 100, id));
    for between in [
        outer_v6(2).payload(&record(2, 1)).build(),
        outer(2).vlan(7).payload(&record(2, 1)).build(),
        outer(2).options(&[1, 1, 1, 0]).payload(&record(2, 1)).build(),
    ] {
        let mut bed = Bed::default();
        let out = bed.push([
            buf(1, 1, 100),
            HeapBuf::new(&between),
            buf(1, 2, 100),
            buf(1, 3, 100),
        ]);
        assert_eq!(out.delivered(), 4);
        assert_eq!(out.numbers(), [1, 2, 3, 1], "flow by flow");
        assert_eq!((bed.batches(1), bed.batches(3)), (1, 1));
    }
}

#[test]
fn rule_05_order_within_a_flow_is_arrival_order_whatever_comes_between() {
    let mut bed = Bed::default();
    let (mut frames, mut id) = (Vec::new(), [0; 4]);
    for step in 0..200u32 {
        let peer = step * 7 % 3 + 1;
        id[peer as usize] += 1;
        let n = id[peer as usize];
        frames.push(match step % 5 {
            0 => buf(peer, n, 200).shared(),
            1 => buf(peer, n, 100 + step as usize % 4),
            _ => buf(peer, n, 100),
        });
    }
    let out = bed.push(frames);
    for peer in 1..4 {
        let numbers: Vec<_> = out.tunnels[0]
            .iter()
            .filter(|got| got.inner().0 == peer)
            .map(|got| &got.frame[42..46])
            .collect();
        let expected: Vec<_> = (1..=id[peer as usize]).map(u32::to_be_bytes).collect();
        assert_eq!(numbers, expected, "peer {peer}");
    }
}

#[test]
fn rule_06_a_batch_of_one_is_an_ordinary_record() {
    let run = |batch| {
        let mut bed = Bed::new(Setup {
            batch,
            ..Setup::default()
        });
        let out = bed.push([buf(1, 1, 100), buf(2, 1, 100), buf(3, 1, 100)]);
        assert_eq!(bed.batches(1), 3);
        (out, bed.totals())
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn rule_06_with_batching_off_every_record_is_alone() {
    let mut bed = Bed::new(Setup {
        batch: false,
        ..Setup::default()
    });
    assert_eq!(
        bed.stream((1..=10).map(|id| buf(1, id, 100))),
        (1..=10).collect::<Vec<_>>()
    );
    assert_eq!(bed.batches(1), 10);
    bed.inbound().tune(Tuning {
        batch: true,
        lookahead: Setup::default().lookahead,
    });
    bed.stream((11..=12).map(|id| buf(1, id, 100)));
    assert_eq!((bed.batches(1), bed.batches(2)), (10, 1));
}

//! The rules of building a batch, 1 to 6.

use crate::support::*;
use nf_path::buf::Verdict;
use nf_path::inbound::batch::{Builder, Facts};
use nf_path::inbound::classify::{Class, Listeners, classify};
use nf_path::inbound::parse::parse;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::{Extension, Frame};
use nf_path::verdict::DropReason;

/// Whether two records stand in one batch. Both must be delivered in any case, in order within a tunnel.
fn join(first: HeapBuf, second: HeapBuf) -> bool {
    let mut bed = Bed::default();
    let out = bed.push([first, second]);
    assert_eq!(out.delivered(), 2, "{:?}", bed.drops());
    if out.tunnels[0].len() == 2 {
        assert_eq!(out.numbers(), [1, 2]);
    }
    let (alone, together) = (bed.batches(1), bed.batches(2));
    assert!((alone, together) == (2, 0) || (alone, together) == (0, 1));
    together == 1
}

type Change<'a> = &'a dyn Fn(Frame) -> Frame;

/// A record that differs from a plain one as `change` says joins its like, and no other.
#[track_caller]
fn only_alike(base: impl Fn() -> Frame, change: Change<'_>) {
    let record = |id| record_of(1, 0, id, &inner(1, 100, id));
    let plain = |id| HeapBuf::new(&base().payload(&record(id)).build());
    let other = |id| HeapBuf::new(&change(base()).payload(&record(id)).build());
    assert!(join(plain(1), plain(2)), "plain ones");
    assert!(join(other(1), other(2)), "changed ones");
    assert!(!join(plain(1), other(2)), "a changed one after a plain one");
    assert!(!join(other(1), plain(2)), "a plain one after a changed one");
}

#[test]
fn rule_01_source_address_and_port_agree() {
    only_alike(|| outer(1), &|f| f.ports(40002, 1194));
    only_alike(|| outer_v6(1), &|f| f.ports(40002, 1194));
    let from = |source: &str, id| {
        let to = if source.starts_with('[') { LISTEN_V6 } else { LISTEN_V4 };
        let frame = Frame::udp(source.parse().unwrap(), to.parse().unwrap());
        HeapBuf::new(&frame.payload(&record_of(1, 0, id, &inner(1, 100, id))).build())
    };
    for (one, other) in [("198.51.100.1:5", "198.51.100.2:5"), ("[2001:db8::7]:5", "[2001:db8::8]:5")] {
        assert!(join(from(one, 1), from(one, 2)));
        assert!(!join(from(one, 1), from(other, 2)));
    }
}

#[test]
fn rule_01_destination_address_and_port_agree() {
    only_alike(|| outer(1), &|f| f.ports(40001, 1195));
    let to = |source: &str, to: &str, id| {
        let frame = Frame::udp(source.parse().unwrap(), to.parse().unwrap());
        HeapBuf::new(&frame.payload(&record_of(1, 0, id, &inner(1, 100, id))).build())
    };
    assert!(!join(to("198.51.100.1:5", LISTEN_V4, 1), to("198.51.100.1:5", LISTEN_OTHER, 2)));
    assert!(join(to("198.51.100.1:5", LISTEN_OTHER, 1), to("198.51.100.1:5", LISTEN_OTHER, 2)));
    let source = "[2001:db8::7]:5";
    assert!(!join(to(source, LISTEN_V6, 1), to(source, LISTEN_OTHER_V6, 2)));
}

#[test]
fn rule_01_ip_version_agrees() {
    let v6 = |id| HeapBuf::new(&outer_v6(1).payload(&record_of(1, 0, id, &inner(1, 100, id))).build());
    assert!(!join(buf(1, 1, 100), v6(2)));
    assert!(!join(v6(1), buf(1, 2, 100)));
}

#[test]
fn rule_01_whole_header_word_agrees() {
    // From one source, as two peers behind one address translator would come.
    let record = |peer, key_id, id| {
        HeapBuf::new(&outer(1).payload(&record_of(peer, key_id, id, &inner(peer, 100, id))).build())
    };
    assert!(join(record(1, 0, 1), record(1, 0, 2)));
    assert!(!join(record(1, 0, 1), record(1, 1, 2)), "key id");
    assert!(!join(record(1, 0, 1), record(2, 0, 2)), "peer id");
    assert!(join(record(2, 1, 1), record(2, 1, 2)));
}

#[test]
fn rule_01_only_data_v2_joins() {
    for (first_byte, to_host) in [(0x30, 0), (0x20, 1), (0x28, 1), (0x38, 1), (0x50, 1), (0xf8, 1), (0x00, 1)] {
        let mut other = record_of(1, 0, 9, &inner(1, 100, 9));
        other[0] = first_byte;
        let other = || HeapBuf::new(&outer(1).payload(&other).build());
        let mut bed = Bed::default();
        let out = bed.push([other(), buf(1, 1, 100), other(), buf(1, 2, 100), other()]);
        assert_eq!(out.numbers(), [1, 2]);
        assert_eq!(out.host.len(), 3 * to_host);
        assert_eq!((bed.batches(1), bed.totals().records), (2, 2), "opcode of {first_byte:#x}");
    }
}

#[test]
fn rule_01_ipv4_fields_agree() {
    only_alike(|| outer(1), &|f| f.tos(0x10));
    only_alike(|| outer(1), &|f| f.tos(1));
    only_alike(|| outer(1), &|f| f.ttl(63));
    only_alike(|| outer(1), &|f| f.dont_fragment());
}

#[test]
fn rule_01_ipv6_fields_agree() {
    only_alike(|| outer_v6(1), &|f| f.tos(0x10));
    only_alike(|| outer_v6(1), &|f| f.tos(1));
    only_alike(|| outer_v6(1), &|f| f.ttl(63));
    only_alike(|| outer_v6(1), &|f| f.flow_label(1));
    only_alike(|| outer_v6(1), &|f| f.flow_label(0x8_0000));
}

#[test]
fn rule_01_what_differs_from_record_to_record_is_left_out() {
    let with = |id, frame: Frame| HeapBuf::new(&frame.payload(&record_of(1, 0, id, &inner(1, 100, id))).build());
    assert!(join(with(1, outer(1).id(1)), with(2, outer(1).id(2))));
    assert!(join(with(1, outer(1).trailing(&[])), with(2, outer(1).trailing(&[1; 4]))));
}

#[test]
fn rule_01_ipv4_options_never_join() {
    let with = |id| {
        let frame = outer(1).options(&[1, 1, 1, 1]);
        HeapBuf::new(&frame.payload(&record_of(1, 0, id, &inner(1, 100, id))).build())
    };
    assert!(!join(with(1), with(2)), "alike");
    assert!(!join(buf(1, 1, 100), with(2)));
    assert!(!join(with(1), buf(1, 2, 100)));
}

#[test]
fn rule_01_ipv6_extension_headers_agree_in_content() {
    let options = |byte| Extension::Destination(vec![1, 4, byte, 0, 0, 0]);
    only_alike(|| outer_v6(1), &|f| f.extension(options(0)));
    only_alike(|| outer_v6(1).extension(options(0)), &|f| f.extension(options(0)));
    let with = |id, extension: Extension| {
        let frame = outer_v6(1).extension(extension);
        HeapBuf::new(&frame.payload(&record_of(1, 0, id, &inner(1, 100, id))).build())
    };
    assert!(join(with(1, options(7)), with(2, options(7))));
    assert!(!join(with(1, options(7)), with(2, options(8))), "same length, other content");
    assert!(!join(with(1, options(0)), with(2, Extension::HopByHop(vec![1, 4, 0, 0, 0, 0]))), "other kind");
}

#[test]
fn rule_01_vlan_tags_agree() {
    only_alike(|| outer(1), &|f| f.vlan(7));
    only_alike(|| outer(1).vlan(8), &|f| f.vlan(7));
    only_alike(|| outer(1).vlan(7), &|f| f.tag(0x8100, 0x2007));
    only_alike(|| outer_v6(1), &|f| f.vlan(7));
}

#[test]
fn rule_01_checksum_verdicts_agree() {
    let passing = [Verdict::Unknown, Verdict::Good, Verdict::None];
    for (ip, l4) in passing.iter().flat_map(|ip| passing.map(|l4| (*ip, l4))) {
        for (other_ip, other_l4) in passing.iter().flat_map(|ip| passing.map(|l4| (*ip, l4))) {
            let joined = join(buf(1, 1, 100).checksums(ip, l4), buf(1, 2, 100).checksums(other_ip, other_l4));
            assert_eq!(joined, (ip, l4) == (other_ip, other_l4), "{ip:?} {l4:?}, {other_ip:?} {other_l4:?}");
        }
    }
}

/// The sizes of the batches that the builder makes of records of one flow with these inner lengths.
fn batches(lengths: &[usize]) -> Vec<usize> {
    let mut listeners = Listeners::default();
    listeners.add(LISTEN_V4.parse().unwrap(), 0);
    let slots: Vec<_> = (1..).zip(lengths).map(|(id, len)| Some(buf(1, id, *len))).collect();
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
    let order: Vec<_> = builder.batches().iter().flat_map(|batch| builder.slots(batch)).collect();
    assert_eq!(order, (0..slots.len() as u16).collect::<Vec<_>>(), "arrival order");
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
    let long = [vec![1400; 63], vec![1]].concat().iter().map(|len| len.max(&60).to_owned()).collect::<Vec<_>>();
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
    assert!(!join(scattered(), buf(1, 2, 100)), "copied into one segment, but alone");
    let mut bed = Bed::default();
    bed.ledger.limit_large(0);
    let out = bed.push([buf(1, 2, 100), scattered(), buf(1, 3, 100)]);
    assert_eq!((out.numbers(), bed.drops()), (vec![2, 3], vec![(DropReason::Scattered, 1)]));
    assert_eq!(bed.batches(1), 2, "it closed the batch");
}

/// Between two records of a flow, `between` closes the batch: both are alone, in order.
#[track_caller]
fn closes(between: HeapBuf, delivered: &[u32]) {
    let mut bed = Bed::default();
    let out = bed.push([buf(1, 1, 100), between, buf(1, 3, 100)]);
    assert_eq!(out.numbers(), delivered);
    assert_eq!(bed.batches(2), 0, "nothing joins across it");
}

#[test]
fn rule_05_nothing_overtakes_what_cannot_join() {
    closes(control(1), &[1, 3]);
    let other_key = outer(1).payload(&record_of(1, 1, 2, &inner(1, 100, 2))).build();
    closes(HeapBuf::new(&other_key), &[1, 2, 3]);
    closes(buf(1, 2, 101), &[1, 2, 3]);
    closes(buf(1, 2, 100).shared(), &[1, 2, 3]);
    closes(HeapBuf::new(&outer(1).payload(b"abc").build()), &[1, 3]);
    closes(HeapBuf::new(&outer(1).payload(&[0x30; 100]).build()), &[1, 3]);
    closes(HeapBuf::new(&outer(1).udp_len(7).payload(&[0x48; 100]).build()), &[1, 3]);
    let bytes = frame(1, 2, 100);
    closes(HeapBuf::from_segments(&[&bytes[..60], &bytes[60..]]), &[1, 2, 3]);
    closes(HeapBuf::new(&outer(1).fragment(0, true).payload(&[0x48; 96]).build()), &[1, 3]);
    closes(HeapBuf::new(&outer(1).fragment(96, true).payload(&[0x48; 96]).build()), &[1, 3]);
}

#[test]
fn rule_05_a_shorter_one_closes_even_for_its_like() {
    let mut bed = Bed::default();
    let out = bed.push([buf(1, 1, 100), buf(1, 2, 60), buf(1, 3, 60), buf(1, 4, 100)]);
    assert_eq!(out.numbers(), [1, 2, 3, 4]);
    assert_eq!((bed.batches(2), bed.batches(1)), (1, 2));
}

#[test]
fn rule_05_other_flows_close_nothing() {
    let mut bed = Bed::default();
    let foreign = Frame::udp("203.0.113.5:53".parse().unwrap(), "203.0.113.6:53".parse().unwrap()).build();
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
        let numbers: Vec<_> =
            out.tunnels[0].iter().filter(|got| got.inner().0 == peer).map(|got| &got.frame[42..46]).collect();
        let expected: Vec<_> = (1..=id[peer as usize]).map(u32::to_be_bytes).collect();
        assert_eq!(numbers, expected, "peer {peer}");
    }
}

#[test]
fn rule_06_a_batch_of_one_is_an_ordinary_record() {
    let run = |batch| {
        let mut bed = Bed::new(Setup { batch, ..Setup::default() });
        let out = bed.push([buf(1, 1, 100), buf(2, 1, 100), buf(3, 1, 100)]);
        assert_eq!(bed.batches(1), 3);
        (out, bed.totals())
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn rule_06_with_batching_off_every_record_is_alone() {
    let mut bed = Bed::new(Setup { batch: false, ..Setup::default() });
    assert_eq!(bed.stream((1..=10).map(|id| buf(1, id, 100))), (1..=10).collect::<Vec<_>>());
    assert_eq!(bed.batches(1), 10);
    bed.inbound().set_batch(true);
    bed.stream((11..=12).map(|id| buf(1, id, 100)));
    assert_eq!((bed.batches(1), bed.batches(2)), (10, 1));
}

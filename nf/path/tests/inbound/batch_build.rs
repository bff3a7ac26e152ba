//! Rule 1 of building a batch: all that must agree.

use crate::support::*;
use nf_path::buf::Verdict;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::{Extension, Frame};

/// Whether two records stand in one batch. Both must be delivered in any case, in order within a tunnel.
fn join(first: HeapBuf, second: HeapBuf) -> bool {
    let mut bed = Bed::default().after(2);
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
        let to = if source.starts_with('[') {
            LISTEN_V6
        } else {
            LISTEN_V4
        };
        let frame = Frame::udp(source.parse().unwrap(), to.parse().unwrap());
        HeapBuf::new(&frame.payload(&record_of(1, 0, id, &inner(1, 100, id))).build())
    };
    for (one, other) in [
        ("198.51.100.1:5", "198.51.100.2:5"),
        ("[2001:db8::7]:5", "[2001:db8::8]:5"),
    ] {
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
    assert!(!join(
        to("198.51.100.1:5", LISTEN_V4, 1),
        to("198.51.100.1:5", LISTEN_OTHER, 2)
    ));
    assert!(join(
        to("198.51.100.1:5", LISTEN_OTHER, 1),
        to("198.51.100.1:5", LISTEN_OTHER, 2)
    ));
    let source = "[2001:db8::7]:5";
    assert!(!join(to(source, LISTEN_V6, 1), to(source, LISTEN_OTHER_V6, 2)));
}

#[test]
fn rule_01_ip_version_agrees() {
    let v6 = |id| {
        HeapBuf::new(
            &outer_v6(1)
                .payload(&record_of(1, 0, id, &inner(1, 100, id)))
                .build(),
        )
    };
    assert!(!join(buf(1, 1, 100), v6(2)));
    assert!(!join(v6(1), buf(1, 2, 100)));
}

#[test]
fn rule_01_whole_header_word_agrees() {
    // From one source, as two peers behind one address translator would come.
    let record = |peer, key_id, id| {
        HeapBuf::new(
            &outer(1)
                .payload(&record_of(peer, key_id, id, &inner(peer, 100, id)))
                .build(),
        )
    };
    assert!(join(record(1, 0, 1), record(1, 0, 2)));
    assert!(!join(record(1, 0, 1), record(1, 1, 2)), "key id");
    assert!(!join(record(1, 0, 1), record(2, 0, 2)), "peer id");
    assert!(join(record(2, 1, 1), record(2, 1, 2)));
}

#[test]
fn rule_01_only_data_v2_joins() {
    for (first_byte, to_host) in [
        (0x30, 0),
        (0x20, 1),
        (0x28, 1),
        (0x38, 1),
        (0x50, 1),
        (0xf8, 1),
        (0x00, 1),
    ] {
        let mut other = record_of(1, 0, 9, &inner(1, 100, 9));
        other[0] = first_byte;
        let other = || HeapBuf::new(&outer(1).payload(&other).build());
        let mut bed = Bed::default();
        let out = bed.push([other(), buf(1, 1, 100), other(), buf(1, 2, 100), other()]);
        assert_eq!(out.numbers(), [1, 2]);
        assert_eq!(out.host.len(), 3 * to_host);
        assert_eq!(
            (bed.batches(1), bed.totals().records),
            (2, 2),
            "opcode of {first_byte:#x}"
        );
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
    let with =
        |id, frame: Frame| HeapBuf::new(&frame.payload(&record_of(1, 0, id, &inner(1, 100, id))).build());
    assert!(join(with(1, outer(1).id(1)), with(2, outer(1).id(2))));
    assert!(join(
        with(1, outer(1).trailing(&[])),
        with(2, outer(1).trailing(&[1; 4]))
    ));
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
    assert!(
        !join(with(1, options(7)), with(2, options(8))),
        "same length, other content"
    );
    assert!(
        !join(
            with(1, options(0)),
            with(2, Extension::HopByHop(vec![1, 4, 0, 0, 0, 0]))
        ),
        "other kind"
    );
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
            let joined = join(
                buf(1, 1, 100).checksums(ip, l4),
                buf(1, 2, 100).checksums(other_ip, other_l4),
            );
            assert_eq!(
                joined,
                (ip, l4) == (other_ip, other_l4),
                "{ip:?} {l4:?}, {other_ip:?} {other_l4:?}"
            );
        }
    }
}

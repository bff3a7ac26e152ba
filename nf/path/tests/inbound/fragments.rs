//! Outer fragments: of records, of control packets, and of what is not ours.

use crate::support::*;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::{Frame, fragment_v4, fragment_v6};
use nf_path::verdict::DropReason;

/// A record of peer 1 with 1500 bytes inside, in fragments.
fn record(v6: bool, packet_id: u32) -> Vec<HeapBuf> {
    let payload = record_of(1, 0, packet_id, &inner(1, 1500, packet_id));
    let frame = if v6 {
        outer_v6(1)
    } else {
        outer(1).id(packet_id as u16)
    };
    pieces(&frame.payload(&payload).build(), v6, packet_id)
}

fn pieces(frame: &[u8], v6: bool, id: u32) -> Vec<HeapBuf> {
    let fragments = if v6 {
        fragment_v6(frame, 600, id)
    } else {
        fragment_v4(frame, 600)
    };
    fragments.iter().map(|fragment| HeapBuf::new(fragment)).collect()
}

#[test]
fn fragments_of_a_record_in_order_and_reversed() {
    for v6 in [false, true] {
        let mut bed = Bed::default();
        let count = record(v6, 1).len() as u64;
        assert!(count >= 3);
        assert_eq!(bed.push(record(v6, 1)).inner(), [inner(1, 1500, 1)]);
        assert_eq!(
            bed.push(record(v6, 2).into_iter().rev()).inner(),
            [inner(1, 1500, 2)]
        );
        let totals = bed.totals();
        assert_eq!(
            (totals.fragments, totals.reassembled, totals.records),
            (2 * count, 2, 2)
        );
        assert_eq!((bed.drops().len(), bed.ledger.pending()), (0, 0));
    }
}

#[test]
fn fragments_in_bursts_of_their_own() {
    for v6 in [false, true] {
        let mut bed = Bed::default();
        let mut fragments = record(v6, 1);
        let last = fragments.pop().unwrap();
        for fragment in fragments {
            assert_eq!(bed.push([fragment]).delivered(), 0);
        }
        assert!(bed.ledger.pending() > 1);
        assert_eq!(bed.at(1999).push([last]).inner(), [inner(1, 1500, 1)]);
    }
}

#[test]
fn fragments_interleaved_with_other_records_keep_the_order_of_completion() {
    for v6 in [false, true] {
        let mut bed = Bed::default();
        let whole = |id| {
            let outer = if v6 { outer_v6(1) } else { outer(1) };
            HeapBuf::new(&outer.payload(&record_of(1, 0, id, &inner(1, 100, id))).build())
        };
        let mut frames = Vec::new();
        for (i, fragment) in (0..).zip(record(v6, 10)) {
            frames.extend([whole(i + 1), fragment]);
        }
        frames.push(whole(11));
        let numbers = bed.push(frames).numbers();
        let at = numbers.iter().position(|n| *n == 10).unwrap();
        assert_eq!(at, numbers.len() - 2, "{numbers:?}");
        assert_eq!(numbers[..at], (1..=at as u32).collect::<Vec<_>>());
    }
}

#[test]
fn datagrams_whose_fragments_mix_are_kept_apart() {
    let mut bed = Bed::default();
    let (one, two) = (record(false, 1), record(false, 2));
    let out = bed.push(one.into_iter().zip(two).flat_map(|(a, b)| [a, b]));
    assert_eq!(out.inner(), [inner(1, 1500, 1), inner(1, 1500, 2)]);
}

#[test]
fn a_reassembled_record_joins_no_batch() {
    let mut bed = Bed::default();
    let whole = |id| {
        HeapBuf::new(
            &outer(1)
                .payload(&record_of(1, 0, id, &inner(1, 1500, id)))
                .build(),
        )
    };
    let frames = [whole(1)].into_iter().chain(record(false, 2)).chain([whole(3)]);
    assert_eq!(bed.push(frames.collect::<Vec<_>>()).numbers(), [1, 2, 3]);
    assert_eq!(bed.batches(1), 3);
}

#[test]
fn a_forged_fragment_spoils_its_datagram_only() {
    let mut bed = Bed::default();
    let mut fragments = record(false, 1);
    let mut forged = fragments[1].to_vec();
    *forged.last_mut().unwrap() ^= 1;
    fragments[1] = HeapBuf::new(&forged);
    assert_eq!(
        bed.push(fragments.into_iter().chain([buf(1, 2, 100)])).numbers(),
        [2]
    );
    assert_eq!(bed.drops(), [(DropReason::BadTag, 1)]);
}

#[test]
fn a_control_packet_goes_to_the_host_fragmented_again() {
    for v6 in [false, true] {
        let mut bed = Bed::default();
        let frame = if v6 { outer_v6(1) } else { outer(1).id(77) };
        let control = frame.payload(&[0x20; 2000]).build();
        let fragments = pieces(&control, v6, 5);
        let count = fragments.len() as u64;
        let out = bed.push(fragments);
        let totals = bed.totals();
        assert_eq!(
            (totals.to_daemon, totals.reassembled, totals.fragments),
            (1, 1, count)
        );
        assert_eq!((totals.to_host, out.host.len(), out.delivered()), (2, 2, 0));
        // What the host gets is that datagram: reassembled, it is the frame that was sent.
        let again: Vec<_> = out.host.iter().map(|got| &got.frame[..]).collect();
        assert!(again.iter().all(|fragment| fragment.len() <= 1514));
        let data: Vec<u8> = again
            .iter()
            .flat_map(|f| f[if v6 { 62 } else { 34 }..].to_vec())
            .collect();
        assert_eq!(data, control[if v6 { 54 } else { 34 }..]);
    }
}

#[test]
fn a_reassembled_datagram_to_another_port_goes_to_the_host_and_not_to_the_daemon() {
    let mut bed = Bed::default();
    let out = bed.push(pieces(
        &outer(1).ports(40001, 53).payload(&[0x48; 2000]).build(),
        false,
        0,
    ));
    assert_eq!(
        (out.host.len(), bed.totals().to_daemon, bed.drops().len()),
        (2, 0, 0)
    );
}

#[test]
fn without_a_buffer_for_its_fragments_a_control_packet_is_counted_once() {
    let mut bed = Bed::default();
    bed.ledger.limit_large(1);
    // The books: the datagram is what is dropped, and its fragments are in it.
    let out = bed.push(pieces(&outer(1).payload(&[0x20; 2000]).build(), false, 0));
    assert_eq!(
        (out.host.len(), bed.drops()),
        (0, vec![(DropReason::Scattered, 1)])
    );
}

#[test]
fn without_a_large_buffer_every_fragment_is_counted() {
    let mut bed = Bed::default();
    bed.ledger.limit_large(0);
    let fragments = record(false, 1);
    let count = fragments.len() as u64;
    bed.push(fragments);
    assert_eq!(bed.drops(), [(DropReason::Scattered, count)]);
}

#[test]
fn datagrams_that_no_large_buffer_holds_are_counted() {
    let mut bed = Bed::default();
    let frame = outer(1)
        .payload(&record_of(1, 0, 1, &inner(1, LARGE_LEN, 1)))
        .build();
    let fragments = fragment_v4(&frame, 1500);
    let count = fragments.len() as u64;
    assert!(count <= 8);
    bed.push(fragments.iter().map(|fragment| HeapBuf::new(fragment)));
    assert_eq!(bed.drops(), [(DropReason::Scattered, count)]);
}

#[test]
fn what_does_not_come_in_time_is_counted() {
    for v6 in [false, true] {
        let mut bed = Bed::default();
        let mut fragments = record(v6, 1);
        let last = fragments.pop().unwrap();
        let count = fragments.len() as u64;
        bed.at(1000).push(fragments);
        bed.at(2999).expire();
        assert_eq!(bed.drops(), []);
        bed.at(3000).expire();
        assert_eq!(bed.drops(), [(DropReason::FragmentTimeout, count)]);
        assert_eq!(bed.push([last]).delivered(), 0, "alone now");
        assert_eq!(bed.ledger.pending(), 1);
    }
}

#[test]
fn overlaps_are_refused_with_all_that_had_come() {
    let mut bed = Bed::default();
    let piece = |offset, more, len: usize| {
        HeapBuf::new(
            &outer(1)
                .id(9)
                .fragment(offset, more)
                .protocol(17)
                .payload(&vec![1; len])
                .build(),
        )
    };
    bed.push([piece(0, true, 64), piece(56, true, 64)]);
    assert_eq!(bed.drops(), [(DropReason::FragmentRefused, 2)]);
    bed.push([piece(0, true, 64), piece(0, true, 64)]);
    assert_eq!(
        bed.drops(),
        [(DropReason::FragmentRefused, 4)],
        "a duplicate is an overlap"
    );
}

#[test]
fn more_fragments_than_a_datagram_may_have_are_refused() {
    let mut bed = Bed::default();
    let frame = outer(1)
        .id(3)
        .payload(&record_of(1, 0, 1, &inner(1, 1500, 1)))
        .build();
    let fragments = fragment_v4(&frame, 188);
    assert_eq!(fragments.len(), 10);
    bed.push(fragments.iter().map(|fragment| HeapBuf::new(fragment)));
    assert_eq!(bed.drops(), [(DropReason::FragmentRefused, 9)]);
    assert_eq!(bed.ledger.pending(), 1, "the tenth begins anew");
}

#[test]
fn first_fragments_alone_cannot_fill_memory() {
    let mut bed = Bed::default();
    for id in 0..20u16 {
        bed.push((0..100).map(|i| {
            let first = outer(1)
                .id(id * 100 + i)
                .fragment(0, true)
                .protocol(17)
                .payload(&[1; 64]);
            HeapBuf::new(&first.build())
        }));
    }
    assert_eq!(
        (bed.ledger.pending(), bed.drops()),
        (1024, vec![(DropReason::FragmentRefused, 2000 - 1024)])
    );
    bed.at(5000).expire();
    assert_eq!(bed.ledger.pending(), 0);
}

#[test]
fn fragments_to_another_address_go_to_the_host_unchanged() {
    let mut bed = Bed::default();
    for (from, to, v6) in [
        ("203.0.113.5:53", "203.0.113.6:1194", false),
        ("[2001:db8::5]:53", "[2001:db8::6]:1194", true),
    ] {
        let whole = Frame::udp(from.parse().unwrap(), to.parse().unwrap())
            .payload(&[1; 1400])
            .build();
        let fragments = pieces(&whole, v6, 1);
        let sent: Vec<_> = fragments.iter().map(HeapBuf::to_vec).collect();
        let out = bed.push(fragments);
        assert_eq!(
            out.host.into_iter().map(|got| got.frame).collect::<Vec<_>>(),
            sent
        );
    }
    assert_eq!((bed.totals().fragments, bed.totals().to_daemon), (0, 0));
}

#[test]
fn fragments_of_another_protocol_go_to_the_host_unchanged() {
    let mut bed = Bed::default();
    let icmp = outer(1).fragment(0, true).protocol(1).payload(&[8; 64]).build();
    let out = bed.push([HeapBuf::new(&icmp)]);
    assert_eq!((out.host[0].frame.clone(), bed.totals().fragments), (icmp, 0));
}

#[test]
fn an_atomic_fragment_is_a_whole_record() {
    let mut bed = Bed::default();
    let frame = outer_v6(1)
        .payload(&record_of(1, 0, 1, &inner(1, 100, 1)))
        .build();
    let atomic = fragment_v6(&frame, 1500, 7);
    assert_eq!(bed.push([HeapBuf::new(&atomic[0])]).numbers(), [1]);
    assert_eq!(bed.totals().fragments, 0);
}

#[test]
fn a_scattered_fragment_is_a_fragment() {
    let mut bed = Bed::default();
    let frames = record(false, 1).into_iter().map(|fragment| {
        let bytes = fragment.to_vec();
        HeapBuf::from_segments(&[&bytes[..30], &bytes[30..]])
    });
    assert_eq!(bed.push(frames.collect::<Vec<_>>()).inner(), [inner(1, 1500, 1)]);
    let mut bed = Bed::default();
    bed.ledger.limit_large(0);
    let bytes = record(false, 1)[0].to_vec();
    bed.push([HeapBuf::from_segments(&[&bytes[..50], &bytes[50..]])]);
    assert_eq!(bed.drops(), [(DropReason::Scattered, 1)]);
}

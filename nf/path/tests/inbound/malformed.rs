//! Tags, lengths that lie, frames cut short, copies in other tunnels.

use crate::support::*;
use nf_path::twin::HeapBuf;
use nf_path::verdict::DropReason;

#[test]
fn e11_with_and_without_vlan_tag_interleaved() {
    let mut bed = Bed::default();
    let frames = (1..=40).map(|id| {
        let frame = if id % 2 == 0 { outer(1).vlan(5) } else { outer(1) };
        HeapBuf::new(&frame.payload(&record_of(1, 0, id, &inner(1, 100, id))).build())
    });
    assert_eq!(
        bed.push(frames.collect::<Vec<_>>()).numbers(),
        (1..=40).collect::<Vec<_>>()
    );
    assert_eq!(bed.batches(1), 40);
}

#[test]
fn e11_udp_lengths_that_lie_are_counted_and_never_batched() {
    let record = |id| record_of(1, 0, id, &inner(1, 100, id));
    for lie in [0, 7, 8, 12, 131, 133, 0xffff] {
        for frame in [outer(1), outer_v6(1)] {
            let mut bed = Bed::default();
            let plain = |id| HeapBuf::new(&frame.clone().payload(&record(id)).build());
            let lying = HeapBuf::new(&frame.clone().udp_len(lie).payload(&record(2)).build());
            assert_eq!(
                bed.push([plain(1), lying, plain(3)]).numbers(),
                [1, 3],
                "UDP length {lie}"
            );
            assert_eq!(
                (bed.drops(), bed.batches(1)),
                (vec![(DropReason::UdpLength, 1)], 2)
            );
        }
    }
}

#[test]
fn e11_ip_lengths_that_lie_are_counted_and_never_batched() {
    let record = |id| record_of(1, 0, id, &inner(1, 100, id));
    let real = 20 + 8 + 124;
    for (frame, lie, reason) in [
        (outer(1), real + 1, DropReason::IpLength),
        (outer(1), 0xffff, DropReason::IpLength),
        (outer(1), 19, DropReason::IpLength),
        (outer(1), 0, DropReason::IpLength),
        (outer(1), real - 1, DropReason::UdpLength),
        (outer_v6(1), 8 + 124 + 1, DropReason::IpLength),
        (outer_v6(1), 0xffff, DropReason::IpLength),
        (outer_v6(1), 131, DropReason::UdpLength),
    ] {
        let mut bed = Bed::default();
        let plain = |id| HeapBuf::new(&frame.clone().payload(&record(id)).build());
        let lying = HeapBuf::new(&frame.clone().ip_len(lie).payload(&record(2)).build());
        assert_eq!(
            bed.push([plain(1), lying, plain(3)]).numbers(),
            [1, 3],
            "IP length {lie}"
        );
        assert_eq!(
            (bed.drops(), bed.batches(1)),
            (vec![(reason, 1)], 2),
            "IP length {lie}"
        );
    }
}

#[test]
fn e11_ipv4_header_lengths_that_lie() {
    let bytes = frame(1, 1, 100);
    for words in (0..16u8).filter(|words| *words != 5) {
        let mut lying = bytes.clone();
        lying[14] = 0x40 | words;
        let mut bed = Bed::default();
        let out = bed.push([HeapBuf::new(&lying)]);
        // With more words the ports are read from inside the record: a frame for nobody.
        assert_eq!(
            (out.delivered(), out.host.len()),
            (0, usize::from(words > 5)),
            "{words} words"
        );
        assert_eq!(bed.counters.dropped(DropReason::IpLength), u64::from(words < 5));
    }
}

#[test]
fn e11_frames_cut_anywhere_are_never_read_beyond_their_end() {
    for bytes in [
        frame(1, 1, 60),
        outer_v6(1)
            .vlan(3)
            .payload(&record_of(1, 0, 1, &inner(1, 60, 1)))
            .build(),
    ] {
        let mut bed = Bed::default();
        for len in 0..bytes.len() {
            assert_eq!(
                bed.push([HeapBuf::new(&bytes[..len])]).delivered(),
                0,
                "cut to {len}"
            );
        }
        assert_eq!(bed.push([HeapBuf::new(&bytes)]).delivered(), 1);
    }
}

#[test]
fn e11_ethernet_padding_is_no_part_of_the_record() {
    let mut bed = Bed::default();
    let frames = [(1, 6), (2, 0), (3, 46)].map(|(id, padding)| {
        let payload = record_of(1, 0, id, &inner(1, 32, id));
        HeapBuf::new(&outer(1).payload(&payload).trailing(&vec![0; padding]).build())
    });
    assert_eq!(bed.push(frames).inner(), [1, 2, 3].map(|id| inner(1, 32, id)));
}

#[test]
fn e11_encapsulated_copies_are_not_ours() {
    let bytes = frame(1, 1, 100);
    let ip = &bytes[14..];
    let gre = outer(1)
        .protocol(47)
        .payload(&[&[0, 0, 8, 0], ip].concat())
        .build();
    let ipip = outer(1).protocol(4).payload(ip).build();
    let vxlan = outer(1)
        .ports(4000, 4789)
        .payload(&[&[8, 0, 0, 0, 0, 0, 5, 0], &bytes[..]].concat())
        .build();
    let six_in_four = outer(1).protocol(41).payload(ip).build();
    let all = [gre, ipip, vxlan, six_in_four];
    let mut bed = Bed::default();
    let out = bed.push(all.iter().map(|frame| HeapBuf::new(frame)));
    assert_eq!(out.host.into_iter().map(|got| got.frame).collect::<Vec<_>>(), all);
    assert_eq!((bed.totals().records, bed.totals().to_daemon), (0, 0));
}

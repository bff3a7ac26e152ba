//! The daemon's datagrams to peers that have floated without its knowing, from the host port to the NIC.

use super::translate::{Shape, addresses, at, bed_with, counts, floated, seen, shapes, translation};
use crate::support::layer4::{self, L4Sum, UDP};
use crate::support::*;
use nf_path::buf::Buf;
use nf_path::burst::Frames;
use nf_path::translate::Translation;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::{Extension, Frame, fragment_v4, fragment_v6};
use nf_state::Way;
use nf_wire::ether::Tags;

/// The frames that leave at the NIC.
fn sent(bed: &mut Bed, frames: impl IntoIterator<Item = HeapBuf>) -> Vec<Vec<u8>> {
    let mut frames: Frames<HeapBuf> = frames.into_iter().collect();
    let count = frames.len();
    bed.inbound().translate_out(&mut frames);
    assert_eq!(frames.len(), count, "none is lost");
    frames.iter().map(HeapBuf::to_vec).collect()
}

fn one(bed: &mut Bed, frame: HeapBuf) -> Vec<u8> {
    sent(bed, [frame]).remove(0)
}

/// The daemon's frame to `to`.
fn daemons(v6: bool, to: std::net::SocketAddr, shape: Shape) -> Vec<u8> {
    let [_, _, local] = addresses(v6);
    shape(Frame::udp(local, to).payload(&[0x28; 33])).build()
}

#[test]
fn the_destination_becomes_where_the_peer_is() {
    for v6 in [false, true] {
        let [known, current, local] = addresses(v6);
        for shape in shapes(v6) {
            let mut bed = floated();
            let got = one(&mut bed, HeapBuf::new(&daemons(v6, known, shape)));
            assert_eq!(got, daemons(v6, current, shape));
            assert_eq!(seen(&got), (local, current, true));
            assert_eq!((counts(&bed), bed.totals().checksums_completed), ((0, 1, 0), 0));
        }
    }
}

#[test]
fn the_rest_stays_as_it_is_and_in_order() {
    let mut bed = floated();
    let [known, current, local] = addresses(false);
    let frames: Vec<Vec<u8>> = (0..40u8)
        .map(|n| {
            let frame = match n % 8 {
                0 => Frame::udp(local, known),
                1 => Frame::udp(local, current),
                2 => Frame::udp(local, at("198.51.100.1:40002")),
                3 => Frame::udp(local, at("198.51.100.2:40001")),
                4 => Frame::udp(at("192.0.2.1:1195"), known),
                5 => Frame::udp(known, local),
                6 => Frame::udp(local, known).protocol(1),
                _ => return vec![n; 14 + usize::from(n)],
            };
            frame.payload(&[n; 9]).build()
        })
        .collect();
    let got = sent(&mut bed, frames.iter().map(|f| HeapBuf::new(f)));
    for (n, (got, frame)) in (0u8..).zip(got.iter().zip(&frames)) {
        if n % 8 == 0 {
            assert_eq!(*got, Frame::udp(local, current).payload(&[n; 9]).build());
        } else {
            assert_eq!(got, frame);
        }
    }
    assert_eq!(counts(&bed), (0, 5, 0));
    bed.inbound().translate(Box::default());
    assert_eq!(sent(&mut bed, frames.iter().map(|f| HeapBuf::new(f))), frames);
    assert_eq!(counts(&bed), (0, 5, 0), "an empty table");
}

#[test]
fn what_has_ended_is_sent_where_the_daemon_says() {
    for v6 in [false, true] {
        let [known, current, local] = addresses(v6);
        let frame = daemons(v6, known, |f| f);
        for opened in [
            Frame::udp(current, local).payload(&[7 << 3; 20]),
            Frame::udp(known, local).payload(&[0x20; 20]),
        ] {
            let mut bed = floated();
            bed.push([HeapBuf::new(&opened.build())]);
            assert_eq!(one(&mut bed, HeapBuf::new(&frame)), frame);
            assert_eq!((counts(&bed), bed.events().len()), ((0, 0, 0), 1));
        }
    }
}

/// With this way.
fn by(tags: Tags) -> Translation {
    let way = Way {
        dst: [2, 0, 0, 0, 7, 7],
        tags,
    };
    Translation {
        way: Some(way),
        ..translation(1, addresses(false))
    }
}

#[test]
fn the_way_is_that_of_the_current_address() {
    let [known, current, _] = addresses(false);
    let tags = |count, tci, service| Tags { count, tci, service };
    let (macs, to): (Shape, Shape) = (|f| f, |f| f.macs([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 7, 7]));
    let cases: [(Tags, Shape, Shape); 4] = [
        (Tags::default(), macs, to),
        (tags(1, [0x2009, 0], 0), |f| f.vlan(7), |f| f.vlan(0x2009)),
        (tags(1, [9, 0], 1), |f| f.vlan(7), |f| f.tag(0x88a8, 9)),
        (tags(2, [9, 8], 1), |f| f.vlan(7).vlan(6), |f| f.qinq(9, 8)),
    ];
    for (tags, kernels, expected) in cases {
        let mut bed = bed_with([by(tags)]);
        let got = one(&mut bed, HeapBuf::new(&daemons(false, known, kernels)));
        let [_, _, local] = addresses(false);
        let frame = to(expected(Frame::udp(local, current).payload(&[0x28; 33])));
        assert_eq!(got, frame.build());
        assert_eq!(seen(&got), (local, current, true));
    }
    // Another number of tags: layer 2 is the kernel's.
    let others: [(Tags, Shape); 3] = [
        (Tags::default(), |f| f.vlan(7)),
        (tags(1, [9, 0], 0), |f| f),
        (tags(2, [9, 8], 1), |f| f.vlan(7)),
    ];
    for (tags, kernels) in others {
        let mut bed = bed_with([by(tags)]);
        let got = one(&mut bed, HeapBuf::new(&daemons(false, known, kernels)));
        assert_eq!(got, daemons(false, current, kernels));
        assert_eq!(counts(&bed), (0, 1, 0));
    }
}

#[test]
fn a_partial_checksum_is_completed() {
    for v6 in [false, true] {
        let [known, current, local] = addresses(v6);
        let build = |to: std::net::SocketAddr, kind| {
            let ports = [local.port().to_be_bytes(), to.port().to_be_bytes()].concat();
            let datagram = [&ports[..], &[0, 41, 0, 0], &[0x28; 33]].concat();
            let packet = layer4::packet((local.ip(), to.ip()), UDP, false, datagram, kind);
            let ether_type: [u8; 2] = if v6 { [0x86, 0xdd] } else { [8, 0] };
            [&[2; 12][..], &ether_type, &packet].concat()
        };
        for marked in [false, true] {
            let mut bed = floated();
            let buf = HeapBuf::new(&build(known, L4Sum::Partial)).unfinished_by(marked, 0);
            let mut frames: Frames<HeapBuf> = [buf].into_iter().collect();
            bed.inbound().translate_out(&mut frames);
            assert_eq!(frames[0].to_vec(), build(current, L4Sum::Right));
            assert!(!frames[0].unfinished().checksum, "or it would be completed twice");
            let layout = frames[0].layout().map(|l| (l.l2_len, l.l3_len));
            assert_eq!(layout, Some((14, if v6 { 40 } else { 20 })));
            assert_eq!((counts(&bed), bed.totals().checksums_completed), ((0, 1, 0), 1));
        }
        // Not a partial one, but nothing is known to be right: it stays wrong.
        let mut bed = floated();
        assert!(!seen(&one(&mut bed, HeapBuf::new(&build(known, L4Sum::Wrong)))).2);
    }
}

#[test]
fn shared_and_scattered_frames_are_copied_or_left_alone() {
    let [known, current, _] = addresses(true);
    let (before, after) = (daemons(true, known, |f| f), daemons(true, current, |f| f));
    let made: [fn(&[u8]) -> HeapBuf; 2] = [
        |bytes| HeapBuf::new(bytes).shared(),
        |bytes| HeapBuf::from_segments(&[&bytes[..70], &bytes[70..]]),
    ];
    for make in made {
        let mut bed = floated();
        assert_eq!(one(&mut bed, make(&before)), after);
        bed.ledger.limit_large(0);
        let plain = HeapBuf::new(&before);
        assert_eq!(
            sent(&mut bed, [make(&before), plain]),
            [before.clone(), after.clone()]
        );
        assert_eq!(counts(&bed), (0, 2, 1));
    }
}

#[test]
fn what_cannot_be_translated_is_counted() {
    for v6 in [false, true] {
        let [known, _, local] = addresses(v6);
        let whole = Frame::udp(local, known).payload(&[0x28; 2000]).build();
        let fragments = if v6 {
            fragment_v6(&whole, 1500, 7)
        } else {
            fragment_v4(&whole, 1500)
        };
        let mut bed = floated();
        let got = sent(&mut bed, fragments.iter().map(|f| HeapBuf::new(f)));
        assert_eq!((got, counts(&bed)), (fragments, (0, 0, 2)));
    }
    let shapes: [(bool, Shape); 2] = [
        (false, |f| f.options(&[137, 7, 8, 10, 0, 0, 1])),
        (true, |f| f.extension(Extension::Authentication(vec![9; 20]))),
    ];
    for (v6, shape) in shapes {
        let [known, _, _] = addresses(v6);
        let frame = daemons(v6, known, shape);
        let mut bed = floated();
        assert_eq!(one(&mut bed, HeapBuf::new(&frame)), frame);
        assert_eq!(counts(&bed), (0, 0, 1));
    }
    let [known, _, local] = addresses(false);
    let super_frame = Frame::udp(local, known).payload(&[7; 1800]).build();
    let mut bed = floated();
    let buf = HeapBuf::new(&super_frame).unfinished_by(true, 600);
    assert_eq!(one(&mut bed, buf), super_frame);
    assert_eq!(counts(&bed), (0, 0, 1));
    // Fragments of somebody else's are nothing of ours.
    let foreign = Frame::udp(local, at("198.51.100.9:1"))
        .payload(&[1; 2000])
        .build();
    let foreign = fragment_v4(&foreign, 1500);
    assert_eq!(sent(&mut bed, foreign.iter().map(|f| HeapBuf::new(f))), foreign);
    assert_eq!(counts(&bed), (0, 0, 1));
}

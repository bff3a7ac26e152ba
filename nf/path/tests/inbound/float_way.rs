//! The way on layer 2 that an endpoint is given: that of an authentic record, whatever else is in its batch.

use crate::float::*;
use crate::support::*;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::{self, Frame};
use nf_state::Way;
use nf_wire::ether::Tags;

#[test]
fn the_way_is_that_of_the_record_that_moved_it() {
    let tags = |count, tci, service| Tags { count, tci, service };
    type Tag = fn(Frame) -> Frame;
    let frames: [(Tag, Tags); 4] = [
        (|f| f, tags(0, [0, 0], 0)),
        (|f| f.vlan(0x6005), tags(1, [0x6005, 0], 0)),
        (|f| f.qinq(7, 0x2009), tags(2, [7, 0x2009], 1)),
        (|f| f.tag(0x88a8, 3), tags(1, [3, 0], 1)),
    ];
    for (tagged, tags) in frames {
        for (remote, local) in [(AWAY, LISTEN_V4), ("[2001:db8:7::7]:5000", LISTEN_V6)] {
            let mut bed = at_home();
            let frame = tagged(outer_from(remote, local)).macs([2, 3, 4, 5, 6, 7], [9; 6]);
            bed.push([record_in(frame, 101)]);
            let dst = [2, 3, 4, 5, 6, 7];
            assert_eq!(binding(&mut bed).unwrap().way, Some(Way { dst, tags }));
        }
    }
}

#[test]
fn a_forged_record_in_the_same_batch_does_not_set_the_way() {
    for forged_first in [true, false] {
        let mut bed = at_home();
        let mut record = record_of(1, 0, 102, &inner(1, 60, 102));
        record[30] ^= 1;
        let forged = outer_from(AWAY, LISTEN_V4).macs([6; 6], [9; 6]).payload(&record);
        let mut frames = vec![HeapBuf::new(&forged.build()), from(AWAY, 101)];
        if !forged_first {
            frames.reverse();
        }
        assert_eq!(bed.push(frames).numbers(), [101]);
        assert_eq!(
            (bed.batches(2), binding(&mut bed).unwrap().way.unwrap().dst),
            (1, ROUTER)
        );
    }
}

#[test]
fn the_way_alone_counts_only_where_the_last_one_heard_is_wanted() {
    let other = || outer_from(HOME, LISTEN_V4).macs([4; 6], [9; 6]);
    let way = |bed: &mut Bed| binding(bed).unwrap().way;
    for last_heard in [false, true] {
        let mut bed = at_home();
        bed.context().last_heard = last_heard;
        let before = way(&mut bed).unwrap();
        let mut forged = record_of(1, 0, 101, &inner(1, 60, 101));
        forged[30] ^= 1;
        bed.push([HeapBuf::new(&other().payload(&forged).build())]);
        bed.push([record_in(other(), 100), record_in(other(), 99)]);
        assert_eq!(way(&mut bed), Some(before), "forged, replayed, late");
        bed.push([record_in(other(), 101)]);
        let expected = if last_heard { [4; 6] } else { ROUTER };
        assert_eq!(way(&mut bed).unwrap().dst, expected);
        bed.push([record_in(other().vlan(5), 102)]);
        let expected = u8::from(last_heard);
        assert_eq!(way(&mut bed).unwrap().tags.count, expected);
        // Where the control side knows of no way, the last one heard is one.
        let endpoint = bed.peer(1).endpoint.clone();
        assert!(endpoint.set_way(address(HOME), address(LISTEN_V4), None));
        bed.push([from(HOME, 103)]);
        assert_eq!(way(&mut bed).map(|w| w.dst), Some(ROUTER));
        assert_eq!((bed.events(), bed.totals().floats), (vec![], 1));
    }
}

/// A13: what comes in fragments is a record like any other once it is whole; its fragments alone say nothing.
#[test]
fn a13_a_record_in_fragments_moves_it_when_it_is_whole() {
    let mut bed = at_home();
    let frame = outer_from(AWAY, LISTEN_V4).macs([4; 6], [9; 6]).vlan(5);
    let bytes = frame.payload(&record_of(1, 0, 101, &inner(1, 1400, 101))).build();
    let mut forged = bytes.clone();
    forged[500] ^= 1;
    for (bytes, moves) in [(forged, false), (bytes, true)] {
        let fragments = craft::fragment_v4(&bytes, 576);
        for (i, fragment) in fragments.iter().enumerate() {
            let before = binding(&mut bed).unwrap();
            assert_eq!(before.remote.to_string(), HOME);
            let delivered = bed.push([HeapBuf::new(fragment)]).delivered();
            assert_eq!(delivered, usize::from(moves && i + 1 == fragments.len()));
        }
    }
    let now = binding(&mut bed).unwrap();
    let way = now.way.unwrap();
    assert_eq!((now.remote.to_string(), way.dst), (AWAY.to_owned(), [4; 6]));
    assert_eq!((way.tags.count, way.tags.tci[0]), (1, 5));
    assert_eq!((bed.totals().reassembled, bed.totals().floats), (2, 2));
}

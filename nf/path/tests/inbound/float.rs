//! The endpoint follows its peer: what moves it, what never does, and what the control side is told.

use crate::support::*;
use nf_path::context::MAX_EVENTS;
use nf_path::tunnel::Mode;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::Frame;
use nf_path::verdict::DropReason;
use nf_state::{Binding, Event, Slot, Way};
use nf_wire::ether::{Mac, Tags};
use nf_wire::keepalive::PING;
use std::net::SocketAddr;

/// One of two places that are no peer's.
pub const HOME: &str = "203.0.113.7:5000";
/// The other.
pub const AWAY: &str = "203.0.113.8:6000";
/// The source MAC address of frames, unless said otherwise.
pub const ROUTER: Mac = [2, 0, 0, 0, 0, 1];

/// An address and port.
pub fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A datagram without payload from `remote`.
pub fn outer_from(remote: &str, local: &str) -> Frame {
    Frame::udp(address(remote), address(local))
}

/// A record of peer 1, key 0, in this frame.
pub fn record_in(frame: Frame, packet_id: u32) -> HeapBuf {
    let record = record_of(1, 0, packet_id, &inner(1, 60, packet_id));
    HeapBuf::new(&frame.payload(&record).build())
}

/// A record of peer 1 from `remote`.
pub fn from(remote: &str, packet_id: u32) -> HeapBuf {
    record_in(outer_from(remote, LISTEN_V4), packet_id)
}

/// Where peer 1 is.
pub fn binding(bed: &mut Bed) -> Option<Binding> {
    bed.peer(1).endpoint.read()
}

fn remote(bed: &mut Bed) -> Option<SocketAddr> {
    binding(bed).map(|b| b.remote)
}

fn floated(remote: &str, local: &str) -> (u8, Event) {
    let (remote, local) = (address(remote), address(local));
    let event = Event::Float {
        peer: 1,
        remote,
        local,
    };
    (0, event)
}

/// A bed whose peer 1 is at [`HOME`], bound by packet id 100; nothing is left to be told.
pub fn at_home() -> Bed {
    let mut bed = Bed::default();
    assert_eq!(bed.push([from(HOME, 100)]).numbers(), [100]);
    assert_eq!(bed.events(), [floated(HOME, LISTEN_V4)]);
    assert_eq!(bed.totals().floats, 1);
    bed
}

#[test]
fn the_first_record_binds_and_those_after_it_say_nothing_new() {
    let mut bed = Bed::default();
    assert_eq!(binding(&mut bed), None);
    bed.push((1..=9).map(|id| from(HOME, id)));
    let way = Way {
        dst: ROUTER,
        tags: Tags::default(),
    };
    let expected = Binding {
        remote: address(HOME),
        local: address(LISTEN_V4),
        way: Some(way),
    };
    assert_eq!(binding(&mut bed), Some(expected));
    bed.push((10..=19).map(|id| from(HOME, id)));
    assert_eq!(bed.events(), [floated(HOME, LISTEN_V4)]);
    assert_eq!(bed.totals().floats, 1);
}

/// A7: every move of address or port is told, also one that goes back.
#[test]
fn a7_each_move_is_made_and_told() {
    let mut bed = at_home();
    let port = "203.0.113.7:5001";
    let v6 = "[2001:db8:7::7]:5000";
    let moves = [
        (AWAY, LISTEN_V4),
        (HOME, LISTEN_V4),
        (port, LISTEN_V4),
        (v6, LISTEN_V6),
        (AWAY, LISTEN_PORT),
    ];
    for (id, (from, to)) in (101..).zip(moves) {
        assert_eq!(bed.push([record_in(outer_from(from, to), id)]).numbers(), [id]);
        let now = binding(&mut bed).unwrap();
        assert_eq!((now.remote, now.local), (address(from), address(to)));
        assert_eq!(bed.events(), [floated(from, to)]);
    }
    assert_eq!(bed.totals().floats, 6);
}

#[test]
fn another_local_address_is_learned_and_not_told() {
    let mut bed = at_home();
    bed.push([record_in(outer_from(HOME, LISTEN_PORT), 101)]);
    assert_eq!(binding(&mut bed).unwrap().local, address(LISTEN_PORT));
    assert_eq!((bed.events(), bed.totals().floats), (vec![], 1));
}

#[test]
fn forged_records_never_move_it() {
    let bad = [101u32, 5000, u32::MAX].map(|id| {
        let mut record = record_of(1, 0, id, &inner(1, 60, id));
        record[40] ^= 1;
        record
    });
    let none = [
        record_of(1, 7, 101, &inner(1, 60, 101)),
        record_of(1, 0, 101, b"")[..23].to_vec(),
        record_of(1, 0, 0, &inner(1, 60, 0)),
        record_of(99, 0, 101, &inner(1, 60, 101)),
        vec![0x20; 60],
        vec![0x30; 60],
        vec![0x48, 0, 0],
    ];
    for forged in bad.iter().chain(&none) {
        let mut bed = at_home();
        let frame = outer_from(AWAY, LISTEN_V4).payload(forged).build();
        let out = bed.push((0..5).map(|_| HeapBuf::new(&frame)));
        assert_eq!(out.delivered(), 0);
        assert_eq!(remote(&mut bed), Some(address(HOME)));
        assert_eq!((bed.events(), bed.totals().floats), (vec![], 1));
    }
}

#[test]
fn replayed_and_late_records_never_move_it() {
    let mut bed = at_home();
    // Seen before; not seen before, but not above the highest.
    let out = bed.push([from(AWAY, 100), from(AWAY, 99), from(AWAY, 1), from(AWAY, 99)]);
    assert_eq!(out.numbers(), [99, 1]);
    assert_eq!(remote(&mut bed), Some(address(HOME)));
    // A late packet from the old address does not flip it back, in one burst or the next.
    let out = bed.push([from(AWAY, 200), from(HOME, 150), from(AWAY, 201)]);
    assert_eq!(out.delivered(), 3);
    assert_eq!(bed.push([from(HOME, 151)]).numbers(), [151]);
    assert_eq!(remote(&mut bed), Some(address(AWAY)));
    assert_eq!(bed.events(), [floated(AWAY, LISTEN_V4)]);
}

#[test]
fn a_replay_behind_a_forged_record_of_one_burst_does_not_move_it() {
    for genuine in 1..=3u32 {
        let mut bed = at_home();
        let mut forged = record_of(1, 0, 900, &inner(1, 60, 900));
        forged[40] ^= 1;
        let forged = outer_from(AWAY, LISTEN_V4).payload(&forged).build();
        let ids = 101..101 + genuine;
        // All from away would be one batch, which begins before the genuine records.
        let mut burst = vec![HeapBuf::new(&forged)];
        burst.extend(ids.clone().map(|id| from(HOME, id)));
        burst.extend(ids.clone().map(|id| from(AWAY, id)));
        let out = bed.push(burst);
        assert_eq!(out.numbers(), ids.collect::<Vec<_>>());
        assert_eq!(remote(&mut bed), Some(address(HOME)));
        assert_eq!((bed.events(), bed.totals().floats), (vec![], 1));
    }
}

#[test]
fn one_good_record_in_a_batch_is_enough() {
    for good in 0..5u32 {
        let mut bed = at_home();
        let frames = (0..5u32).map(|i| {
            let mut record = record_of(1, 0, 101 + i, &inner(1, 60, 101 + i));
            record[30] ^= u8::from(i != good);
            HeapBuf::new(&outer_from(AWAY, LISTEN_V4).payload(&record).build())
        });
        assert_eq!(bed.push(frames.collect::<Vec<_>>()).numbers(), [101 + good]);
        assert_eq!((bed.batches(5), remote(&mut bed)), (1, Some(address(AWAY))));
    }
}

#[test]
fn what_is_inside_an_authentic_record_does_not_matter() {
    for plaintext in [&PING[..], b"", b"none", &inner(2, 60, 1)] {
        let mut bed = at_home();
        bed.tunnel().source_check = true;
        let payload = record_of(1, 0, 101, plaintext);
        bed.push([HeapBuf::new(
            &outer_from(AWAY, LISTEN_V4).payload(&payload).build(),
        )]);
        assert_eq!(remote(&mut bed), Some(address(AWAY)));
    }
}

#[test]
fn one_peer_alone_floats_too() {
    let mut bed = at_home();
    bed.tunnel().mode = Mode::P2p;
    bed.push([from(AWAY, 101)]);
    assert_eq!(bed.events(), [floated(AWAY, LISTEN_V4)]);
}

#[test]
fn an_older_key_does_not_take_back_what_a_newer_one_moved() {
    let mut bed = at_home();
    let with = |key_id, id, remote| {
        let record = record_of(1, key_id, id, &inner(1, 60, id));
        HeapBuf::new(&outer_from(remote, LISTEN_V4).payload(&record).build())
    };
    // Key 1 was made after key 0.
    bed.push([with(1, 1, AWAY)]);
    assert_eq!(remote(&mut bed), Some(address(AWAY)));
    bed.push([with(0, 101, HOME)]);
    assert_eq!(remote(&mut bed), Some(address(AWAY)));
    let (k, tail) = key(1, 0);
    let newest = key_slot(CIPHER, 0, &k, tail);
    drop(bed.peer(1).keys.install(Slot::Primary, newest));
    bed.push([with(0, 1, HOME)]);
    assert_eq!(remote(&mut bed), Some(address(HOME)));
}

/// What the daemon knows as another peer's is not taken from it.
#[test]
fn an_address_that_another_peer_holds_is_not_taken_and_told_once() {
    let mut bed = at_home();
    let held = |n: u32| format!("198.51.100.{n}:{}", 40000 + n);
    let told = |holder: u32| {
        let remote = address(&held(holder));
        let event = Event::FloatHeld {
            peer: 1,
            remote,
            holder,
        };
        (0, event)
    };
    assert_eq!(
        bed.push([from(&held(2), 101), from(&held(2), 102)]).delivered(),
        2
    );
    bed.push([from(&held(2), 103)]);
    assert_eq!(bed.events(), [told(2)]);
    bed.push([from(&held(3), 104)]);
    assert_eq!((bed.events(), bed.totals().floats_held), (vec![told(3)], 3));
    assert_eq!((remote(&mut bed), bed.totals().floats), (Some(address(HOME)), 1));
    // Once it is free, the next authentic record makes the float.
    drop(bed.tunnel().peers.remove(3));
    bed.push([from(&held(3), 100), from(&held(3), 104)]);
    assert_eq!(
        remote(&mut bed),
        Some(address(HOME)),
        "neither is above the highest"
    );
    bed.push([from(&held(3), 105)]);
    assert_eq!(bed.events(), [floated(&held(3), LISTEN_V4)]);
    // Its own address, as the daemon knows it, is its own.
    bed.push([from(&held(1), 106)]);
    assert_eq!(remote(&mut bed), Some(address(&held(1))));
}

#[test]
fn a_float_is_made_when_nobody_takes_events() {
    let mut bed = at_home();
    let waiting = floated(HOME, LISTEN_V4);
    bed.context().events.extend([waiting; MAX_EVENTS]);
    bed.push([from(AWAY, 101)]);
    assert_eq!(remote(&mut bed), Some(address(AWAY)));
    assert_eq!((bed.totals().floats, bed.totals().events_lost), (2, 1));
    bed.push([from("198.51.100.2:40002", 102)]);
    assert_eq!(bed.events(), [waiting; MAX_EVENTS]);
    bed.push([from("198.51.100.2:40002", 103)]);
    assert_eq!(bed.events().len(), 1, "it is told when there is room");
    assert_eq!(bed.totals().events_lost, 1);
}

#[test]
fn floats_under_load_lose_nothing() {
    let mut bed = at_home();
    let places = [HOME, AWAY, "203.0.113.9:7000", "[2001:db8:7::7]:5000"];
    let frames = (101..=10_100u32).map(|id| {
        let place = places[id as usize / 128 % 4];
        let local = if place.starts_with('[') {
            LISTEN_V6
        } else {
            LISTEN_V4
        };
        record_in(outer_from(place, local), id)
    });
    assert_eq!(bed.stream(frames), (101..=10_100).collect::<Vec<_>>());
    let t = bed.totals();
    let moves = (101..=10_100u32).filter(|id| id % 128 == 0).count() as u64;
    assert_eq!(t.floats, 1 + moves);
    assert_eq!(bed.drops(), [] as [(DropReason, u64); 0]);
    assert_eq!(bed.events().len() as u64 + t.events_lost, moves);
}

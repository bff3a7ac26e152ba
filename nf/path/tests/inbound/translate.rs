//! The daemon's datagrams of peers that have floated without its knowing, from the NIC to the host port.

use crate::support::layer4::{self, L4Sum, UDP};
use crate::support::*;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use nf_path::buf::Verdict;
use nf_path::context::MAX_EVENTS;
use nf_path::translate::{Translation, Translations};
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::{Checksum, Extension, Frame, fragment_v4, fragment_v6};
use nf_state::Event;
use std::net::SocketAddr;

/// An address that is said.
pub fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Where the daemon thinks that peer 1 is, where it is, and ours; by IP version.
pub fn addresses(v6: bool) -> [SocketAddr; 3] {
    if v6 {
        ["[2001:db8:1::1]:40001", "[2001:db8:ffff::7]:65535", LISTEN_V6].map(at)
    } else {
        ["198.51.100.1:40001", "203.0.113.254:1", LISTEN_V4].map(at)
    }
}

/// The translation of a peer with these addresses.
pub fn translation(peer: u32, [known, current, local]: [SocketAddr; 3]) -> Translation {
    Translation {
        tunnel: 0,
        peer,
        known,
        current,
        local,
        way: None,
    }
}

/// A bed in which peers 1 (IPv4) and 2 (IPv6) have floated.
pub fn floated() -> Bed {
    bed_with([translation(1, addresses(false)), translation(2, addresses(true))])
}

/// A bed with this table.
pub fn bed_with(all: impl IntoIterator<Item = Translation>) -> Bed {
    let mut bed = Bed::default();
    let before = bed.inbound().translate(Box::new(Translations::new(all)));
    assert!(before.is_empty());
    bed
}

/// Received, sent, neither.
pub fn counts(bed: &Bed) -> (u64, u64, u64) {
    let t = bed.totals();
    (t.translated_rx, t.translated_tx, t.untranslated)
}

/// What etherparse makes of a frame: source and destination, and whether the checksums are right. A UDP checksum of zero
/// over IPv4 is.
pub fn seen(frame: &[u8]) -> (SocketAddr, SocketAddr, bool) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(TransportSlice::Udp(udp)) = packet.transport else {
        panic!("no UDP in {packet:?}");
    };
    let (sum, header) = (udp.checksum(), udp.to_header());
    let (source, destination, right) = match packet.net.unwrap() {
        NetSlice::Ipv4(ip) => {
            let ip = ip.header();
            let wanted = header.calc_checksum_ipv4_raw(ip.source(), ip.destination(), udp.payload());
            let ip_right = ip.header_checksum() == ip.to_header().calc_header_checksum();
            let right = ip_right && (sum == 0 || sum == wanted.unwrap());
            (ip.source_addr().into(), ip.destination_addr().into(), right)
        }
        NetSlice::Ipv6(ip) => {
            let ip = ip.header();
            let wanted = header.calc_checksum_ipv6_raw(ip.source(), ip.destination(), udp.payload());
            (
                ip.source_addr().into(),
                ip.destination_addr().into(),
                sum == wanted.unwrap(),
            )
        }
        other => panic!("{other:?}"),
    };
    let source = SocketAddr::new(source, udp.source_port());
    let destination = SocketAddr::new(destination, udp.destination_port());
    (source, destination, right)
}

/// The frames that the host port gets.
fn host(bed: &mut Bed, frames: impl IntoIterator<Item = HeapBuf>) -> Vec<Vec<u8>> {
    let out = bed.push(frames);
    assert_eq!(out.delivered(), 0);
    out.host.into_iter().map(|got| got.frame).collect()
}

/// P_CONTROL_V1, key id 0.
const CONTROL: [u8; 40] = [0x20; 40];

/// Changes of a frame.
pub type Shape = fn(Frame) -> Frame;

/// Frames of every shape, by IP version.
pub fn shapes(v6: bool) -> Vec<Shape> {
    let mut shapes: Vec<Shape> = vec![
        |f| f,
        |f| f.vlan(0x2007),
        |f| f.qinq(0x2005, 7),
        |f| f.tos(0xb8).ttl(3).id(0xffff).dont_fragment(),
        |f| f.trailing(&[0xee; 9]),
    ];
    if v6 {
        shapes.push(|f| f.extension(Extension::HopByHop(vec![5, 2, 0, 0, 1, 0])));
        shapes.push(|f| {
            f.vlan(1)
                .extension(Extension::Destination(vec![1, 8]))
                .trailing(&[1])
        });
    } else {
        shapes.push(|f| f.options(&[1, 1, 1]));
        shapes.push(|f| f.vlan(4).udp_checksum(Checksum::Zero));
    }
    shapes
}

#[test]
fn the_source_becomes_what_the_daemon_knows() {
    for v6 in [false, true] {
        let [known, current, local] = addresses(v6);
        for shape in shapes(v6) {
            for opcode in (0..32u8).filter(|o| ![6, 7, 9, 10].contains(o)) {
                let payload = [&[opcode << 3, 1, 2, 3][..], &[9; 33]].concat();
                let from = |remote| shape(Frame::udp(remote, local).payload(&payload)).build();
                let mut bed = floated();
                let got = host(&mut bed, [HeapBuf::new(&from(current))]);
                assert_eq!(got, [from(known)]);
                assert_eq!(seen(&got[0]), (known, local, true));
                assert_eq!((counts(&bed), bed.totals().to_daemon), ((1, 0, 0), 1));
                assert_eq!((bed.totals().to_host, bed.events()), (1, vec![]));
            }
        }
    }
}

#[test]
fn nothing_else_is_touched() {
    let mut bed = floated();
    let [known, current, local] = addresses(false);
    let other = |f: Frame| f.payload(&CONTROL).build();
    let frames = [
        other(Frame::udp(at("203.0.113.254:2"), local)),
        other(Frame::udp(at("203.0.113.253:1"), local)),
        other(Frame::udp(current, at(LISTEN_PORT))),
        // To no listening address, so nobody's who floats.
        other(Frame::udp(current, at("192.0.2.1:53"))),
        other(Frame::udp(known, at("192.0.2.1:53"))),
        other(Frame::udp(local, current)),
        other(Frame::udp(local, known)),
    ];
    assert_eq!(
        host(&mut bed, frames.iter().map(|f| HeapBuf::new(f))),
        frames.to_vec()
    );
    // Records are never translated, wherever they come from.
    for from in [current, known] {
        let id = u32::from(from == known) + 1;
        let payload = record_of(1, 0, id, &inner(1, 60, id));
        let frame = Frame::udp(from, local).payload(&payload).build();
        assert_eq!(bed.push([HeapBuf::new(&frame)]).numbers(), [id]);
    }
    assert_eq!(counts(&bed), (0, 0, 0));
    let about = |(_, event): &(u8, Event)| matches!(event, Event::Float { .. });
    assert!(bed.events().iter().all(about), "records move endpoints only");
}

#[test]
fn an_empty_table_leaves_all_as_it_is() {
    let mut bed = floated();
    let [_, current, local] = addresses(false);
    let frame = Frame::udp(current, local).payload(&CONTROL).build();
    let before = bed.inbound().translate(Box::default());
    assert_eq!(before.len(), 2, "the table that was in force");
    assert_eq!(host(&mut bed, [HeapBuf::new(&frame)]), [frame]);
    assert_eq!((counts(&bed), bed.events()), ((0, 0, 0), vec![]));
}

#[test]
fn a_new_session_ends_it_within_the_burst() {
    for (opcode, v6) in [(7, false), (10, false), (7, true), (10, true)] {
        let [known, current, local] = addresses(v6);
        let frame = |from, first: u8| {
            Frame::udp(from, local)
                .payload(&[&[first][..], &CONTROL].concat())
                .build()
        };
        let sent = [
            frame(current, 0x20),
            frame(current, opcode << 3),
            frame(current, 0x20),
            frame(current, opcode << 3),
            frame(known, 0x20),
        ];
        let mut bed = floated();
        let got = host(&mut bed, sent.iter().map(|f| HeapBuf::new(f)));
        assert_eq!(got[0], frame(known, 0x20));
        assert_eq!(got[1..], sent[1..]);
        let peer = if v6 { 2 } else { 1 };
        assert_eq!(bed.events(), [(0, Event::NewSession { peer })]);
        assert_eq!(host(&mut bed, [HeapBuf::new(&sent[0])]), [sent[0].clone()]);
        assert_eq!((counts(&bed), bed.events()), ((1, 0, 0), vec![]));
    }
}

#[test]
fn somebody_at_the_known_address_ends_it_within_the_burst() {
    for v6 in [false, true] {
        let [known, current, local] = addresses(v6);
        let frame = |from| Frame::udp(from, local).payload(&CONTROL).build();
        let sent = [frame(current), frame(known), frame(current), frame(known)];
        let mut bed = floated();
        let got = host(&mut bed, sent.iter().map(|f| HeapBuf::new(f)));
        assert_eq!(got[0], frame(known));
        assert_eq!(got[1..], sent[1..]);
        let peer = if v6 { 2 } else { 1 };
        let expected = Event::OldAddress { peer, remote: known };
        assert_eq!(bed.events(), [(0, expected)]);
        assert_eq!(counts(&bed), (1, 0, 0));
    }
}

/// Nothing is lost while the control side is slow: what has no room waits.
#[test]
fn events_wait_for_room() {
    let remote = |n: usize| SocketAddr::from(([203, 0, 113, 1], 1000 + n as u16));
    let known = |n: usize| SocketAddr::from(([198, 51, 100, 99], 1000 + n as u16));
    let count = 3 * MAX_EVENTS;
    let all = (0..count).map(|n| translation(n as u32, [known(n), remote(n), at(LISTEN_V4)]));
    let mut bed = bed_with(all.collect::<Vec<_>>());
    let open = |n| {
        let frame = Frame::udp(remote(n), at(LISTEN_V4)).payload(&[7 << 3; 20]);
        HeapBuf::new(&frame.build())
    };
    let mut told = Vec::new();
    for _ in 0..5 {
        // Each of them opens its session again and again, until it is answered.
        bed.push((0..count).map(open));
        assert!(bed.context().events.len() <= MAX_EVENTS);
        told.extend(bed.events());
    }
    let mut peers: Vec<u32> = told
        .iter()
        .map(|(_, event)| match event {
            Event::NewSession { peer } => *peer,
            other => panic!("{other:?}"),
        })
        .collect();
    peers.sort_unstable();
    assert_eq!(peers, (0..count as u32).collect::<Vec<_>>(), "each once");
    assert_eq!(counts(&bed), (0, 0, 0));
}

#[test]
fn shared_and_scattered_datagrams_are_copied_or_left_alone() {
    let [known, current, local] = addresses(false);
    let frame = |from| Frame::udp(from, local).payload(&[0x20; 300]).build();
    let made: [fn(&[u8]) -> HeapBuf; 3] = [
        |bytes| HeapBuf::new(bytes).shared(),
        |bytes| HeapBuf::from_segments(&[&bytes[..80], &bytes[80..]]),
        |bytes| HeapBuf::from_segments(&[&bytes[..80], &bytes[80..]]).shared(),
    ];
    for make in made {
        let mut bed = floated();
        assert_eq!(host(&mut bed, [make(&frame(current))]), [frame(known)]);
        assert_eq!(counts(&bed), (1, 0, 0));
        bed.ledger.limit_large(0);
        assert_eq!(host(&mut bed, [make(&frame(current))]), [frame(current)]);
        assert_eq!(counts(&bed), (1, 0, 1));
        // The same holds of what is told: that needs no copy.
        host(&mut bed, [make(&frame(known))]);
        assert_eq!(bed.events().len(), 1);
    }
}

#[test]
fn what_a_route_or_a_signature_covers_is_left_alone() {
    let shapes: [(bool, Shape); 2] = [
        (false, |f| f.options(&[131, 7, 8, 10, 0, 0, 1])),
        (true, |f| f.extension(Extension::Authentication(vec![9; 20]))),
    ];
    for (v6, shape) in shapes {
        let [_, current, local] = addresses(v6);
        let frame = shape(Frame::udp(current, local).payload(&CONTROL)).build();
        let mut bed = floated();
        assert_eq!(host(&mut bed, [HeapBuf::new(&frame)]), [frame]);
        assert_eq!(counts(&bed), (0, 0, 1));
    }
}

#[test]
fn a_datagram_in_fragments_is_translated_before_it_is_cut_again() {
    for v6 in [false, true] {
        let [known, current, local] = addresses(v6);
        let frame = |from| Frame::udp(from, local).id(9).payload(&[0x20; 2500]).build();
        let cut = |bytes: &[u8], mtu| {
            if v6 {
                fragment_v6(bytes, mtu, 1)
            } else {
                fragment_v4(bytes, mtu)
            }
        };
        let mut bed = floated();
        let got = host(
            &mut bed,
            cut(&frame(current), 700).iter().map(|f| HeapBuf::new(f)),
        );
        let header = if v6 { 14 + 48 } else { 14 + 20 };
        let expected = cut(&frame(known), 1500);
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(&expected) {
            // All but the identification of the fragments over IPv6, which is anybody's choice.
            assert_eq!(got[header..], expected[header..]);
            assert_eq!(
                got[..header - 4 * usize::from(v6)],
                expected[..header - 4 * usize::from(v6)]
            );
        }
        assert_eq!((counts(&bed), bed.totals().to_daemon), ((1, 0, 0), 1));
    }
}

#[test]
fn a_partial_checksum_is_completed_first() {
    for v6 in [false, true] {
        let [known, current, local] = addresses(v6);
        let build = |from: SocketAddr, kind| {
            let ports = [from.port().to_be_bytes(), local.port().to_be_bytes()].concat();
            let datagram = [&ports[..], &[0, 48, 0, 0], &CONTROL].concat();
            let packet = layer4::packet((from.ip(), local.ip()), UDP, false, datagram, kind);
            let ether_type: [u8; 2] = if v6 { [0x86, 0xdd] } else { [8, 0] };
            [&[2; 12][..], &ether_type, &packet].concat()
        };
        for verdict in [Verdict::Unknown, Verdict::None] {
            let mut bed = floated();
            let buf = HeapBuf::new(&build(current, L4Sum::Partial)).checksums(Verdict::Unknown, verdict);
            assert_eq!(host(&mut bed, [buf]), [build(known, L4Sum::Right)]);
            assert_eq!((counts(&bed), bed.totals().checksums_completed), ((1, 0, 0), 1));
        }
        // A wrong one stays wrong by the same amount: it is the daemon's kernel that judges it.
        let mut bed = floated();
        let buf = HeapBuf::new(&build(current, L4Sum::Wrong)).checksums(Verdict::Good, Verdict::Bad);
        let got = host(&mut bed, [buf]);
        assert!(!seen(&got[0]).2);
        assert_eq!(counts(&bed), (1, 0, 0));
    }
}

//! What makes a datagram like another.

use super::build::{Udp, V4, V6, extension};
use super::{datagram, fragment};
use crate::frame::{Endpoint, Outer};

/// How two datagrams compare: all fields, the flow, the addresses.
type Alike = (bool, bool, bool);
const SAME: Alike = (true, true, true);
const FLOW: Alike = (false, true, true);
const ADDRESSES: Alike = (false, false, true);
const NOTHING: Alike = (false, false, false);

fn compare(a: &[u8], b: &[u8], expected: Alike, what: &str) {
    let (a, b) = (datagram(a).outer, datagram(b).outer);
    for (a, b) in [(&a, &b), (&b, &a)] {
        assert_eq!(
            (a.same(b), a.same_flow(b), a.same_addresses(b)),
            expected,
            "{what}"
        );
        assert!(
            !expected.1 || a.flow_hash() == b.flow_hash(),
            "{what}: one flow, two hashes"
        );
        assert!(
            expected.1 || a.flow_hash() != b.flow_hash(),
            "{what}: a hash that leaves it out"
        );
    }
}

type Change<T> = (fn(&mut T), Alike, &'static str);

const IPV4: [Change<V4>; 16] = [
    (|_| (), SAME, "itself"),
    (|f| f.id = 0x4321, SAME, "id"),
    (|f| f.checksum = 1, SAME, "header checksum"),
    (|f| f.udp.checksum = 0, SAME, "UDP checksum"),
    (|f| f.udp = Udp::of(1200), SAME, "lengths and contents"),
    (|f| f.trailing = vec![0; 5], SAME, "padding"),
    (|f| f.tos = 1, FLOW, "ECN"),
    (|f| f.tos = 0x80, FLOW, "DSCP"),
    (|f| f.ttl = 63, FLOW, "time to live"),
    (|f| f.fragment = 0x4000, FLOW, "don't fragment"),
    (|f| f.options = vec![0; 4], FLOW, "options"),
    (|f| f.tags = vec![(0x8100, 0)], FLOW, "a tag of zeros"),
    (|f| f.udp.src = 40001, ADDRESSES, "source port"),
    (|f| f.udp.dst = 1195, ADDRESSES, "destination port"),
    (|f| f.src[3] ^= 1, NOTHING, "source"),
    (|f| f.dst[0] ^= 0x80, NOTHING, "destination"),
];

const IPV6: [Change<V6>; 12] = [
    (|_| (), SAME, "itself"),
    (|f| f.udp.checksum = 1, SAME, "UDP checksum"),
    (|f| f.udp = Udp::of(1200), SAME, "lengths and contents"),
    (|f| f.traffic_class = 1, FLOW, "ECN"),
    (|f| f.traffic_class = 0x80, FLOW, "traffic class"),
    (|f| f.flow_label = 1, FLOW, "flow label"),
    (|f| f.flow_label = 0x8_0000, FLOW, "flow label"),
    (|f| f.hop_limit = 63, FLOW, "hop limit"),
    (
        |f| f.extensions = vec![extension(60, 1)],
        FLOW,
        "extension headers",
    ),
    (|f| f.tags = vec![(0x8100, 0)], FLOW, "a tag of zeros"),
    (|f| f.udp.src = 40001, ADDRESSES, "source port"),
    (|f| f.udp.dst = 1195, ADDRESSES, "destination port"),
];

#[test]
fn ipv4_field_by_field() {
    for (change, expected, what) in IPV4 {
        compare(&V4::default().frame(), &V4::with(change), expected, what);
    }
}

#[test]
fn ipv6_field_by_field() {
    let base = V6::default().frame();
    for (change, expected, what) in IPV6 {
        compare(&base, &V6::with(change), expected, what);
    }
    for i in 0..16 {
        compare(&base, &V6::with(|f| f.src[i] ^= 0x10), NOTHING, "source");
        compare(&base, &V6::with(|f| f.dst[i] ^= 0x10), NOTHING, "destination");
    }
    let units = |units| V6::with(|f| f.extensions = vec![extension(60, units)]);
    compare(&units(1), &units(2), FLOW, "bytes of extension headers");
}

#[test]
fn every_difference_in_the_tags() {
    let kinds: [&[(u16, u16)]; 10] = [
        &[],
        &[(0x8100, 0)],
        &[(0x8100, 7)],
        &[(0x8100, 0x2007)],
        &[(0x88a8, 7)],
        &[(0x8100, 0), (0x8100, 7)],
        &[(0x8100, 7), (0x8100, 0)],
        &[(0x88a8, 7), (0x8100, 0)],
        &[(0x8100, 7), (0x88a8, 0)],
        &[(0x88a8, 7), (0x88a8, 0)],
    ];
    for (i, a) in kinds.iter().enumerate() {
        for (j, b) in kinds.iter().enumerate() {
            let expected = if i == j { SAME } else { FLOW };
            let v4 = |tags: &[_]| V4::with(|f| f.tags = tags.to_vec());
            let v6 = |tags: &[_]| V6::with(|f| f.tags = tags.to_vec());
            compare(&v4(a), &v4(b), expected, &format!("{a:x?} {b:x?}"));
            compare(&v6(a), &v6(b), expected, &format!("{a:x?} {b:x?}"));
        }
    }
}

#[test]
fn accessors_give_what_the_frame_says() {
    let v4 = datagram(&V4::default().frame()).outer;
    assert_eq!(
        (v4.src().to_string(), v4.dst().to_string()),
        ("198.51.100.7".into(), "192.0.2.1".into())
    );
    assert_eq!(
        (v4.src_port(), v4.dst_port(), v4.is_v6(), v4.options_len()),
        (40000, 1194, false, 0)
    );
    let tags = vec![(0x88a8, 0xffff), (0x8100, 0xffff)];
    let v6 = V6 {
        tags,
        traffic_class: 0xff,
        flow_label: 0xf_ffff,
        hop_limit: 255,
        ..V6::default()
    };
    let v6 = datagram(&v6.frame()).outer;
    assert_eq!(v6.src().to_string(), "2001:db8:102:304:506:708:90a:b71");
    assert_eq!(v6.dst().to_string(), "2001:db8:102:304:506:708:90a:b01");
    assert_eq!(
        (v6.src_port(), v6.dst_port(), v6.is_v6(), v6.options_len()),
        (40000, 1194, true, 0)
    );
}

#[test]
fn endpoints_are_addresses_and_ports() {
    let v4 = datagram(&V4::default().frame()).outer.endpoint();
    let v6 = datagram(&V6::default().frame()).outer.endpoint();
    assert_eq!(v4, Endpoint::new("192.0.2.1".parse().unwrap(), 1194));
    assert_ne!(v4, Endpoint::new("192.0.2.1".parse().unwrap(), 1195));
    assert_ne!(v4, Endpoint::new("192.0.2.2".parse().unwrap(), 1194));
    assert_eq!(
        v6,
        Endpoint::new("2001:db8:102:304:506:708:90a:b01".parse().unwrap(), 1194)
    );
    assert!(v4.same_address(&Endpoint::new("192.0.2.1".parse().unwrap(), 9)));
    assert!(!v4.same_address(&Endpoint::new("192.0.2.2".parse().unwrap(), 1194)));
    assert!(!v4.same_address(&v6));
}

#[test]
fn ipv4_and_ipv6_with_the_same_bits_are_different() {
    let low = |a: [u8; 4]| {
        let mut v6 = [0; 16];
        v6[12..].copy_from_slice(&a);
        v6
    };
    let v4 = V4::default();
    let v6 = V6 {
        src: low(v4.src),
        dst: low(v4.dst),
        ..V6::default()
    };
    let (a, b) = (datagram(&v4.frame()).outer, datagram(&v6.frame()).outer);
    assert!(!a.same(&b) && !a.same_flow(&b) && !a.same_addresses(&b));
    assert_ne!(a.endpoint(), b.endpoint());
    assert!(!a.endpoint().same_address(&b.endpoint()));
    assert_ne!(Endpoint::new(a.dst(), 1194), Endpoint::new(b.dst(), 1194));
}

#[test]
fn a_fragment_has_the_addresses_of_its_datagram() {
    let whole = datagram(&V4::default().frame()).outer;
    let piece = fragment(&V4::with(|f| f.fragment = 0x2000)).outer;
    assert!(whole.same_addresses(&piece) && !whole.same_flow(&piece));
    assert!(whole.endpoint().same_address(&piece.endpoint()));
}

#[test]
fn none_is_nobody() {
    let none = Outer::NONE;
    for outer in [
        datagram(&V4::default().frame()).outer,
        datagram(&V6::default().frame()).outer,
    ] {
        assert!(!none.same(&outer) && !none.same_flow(&outer) && !none.same_addresses(&outer));
    }
    let zeros = Udp {
        src: 0,
        dst: 0,
        ..Udp::default()
    };
    let zeros = datagram(&V4::with(|f| {
        f.src = [0; 4];
        f.dst = [0; 4];
        f.ttl = 0;
        f.udp = zeros;
    }))
    .outer;
    assert!(!none.same_flow(&zeros) && !none.same_addresses(&zeros));
}

#[test]
fn hashes_of_many_clients_spread_over_their_high_bits() {
    // 4096 clients of one server, by port and by address, into 256 places by the top 8 bits: 16 each if even.
    for by_port in [true, false] {
        let mut places = [0u32; 256];
        for i in 0..4096u16 {
            let [high, low] = i.to_be_bytes();
            let frame = if by_port {
                V4 {
                    udp: Udp {
                        src: 30000 + i,
                        ..Udp::default()
                    },
                    ..V4::default()
                }
            } else {
                V4 {
                    src: [10, 8, high, low],
                    ..V4::default()
                }
            };
            places[(datagram(&frame.frame()).outer.flow_hash() >> 56) as usize] += 1;
        }
        assert!(places.iter().all(|n| *n <= 64), "{places:?}");
    }
}

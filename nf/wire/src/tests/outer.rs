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

#[test]
fn ipv4_field_by_field() {
    let v4 = V4::default;
    let udp = |udp| V4 { udp, ..V4::default() };
    let u = Udp::default;
    for (other, expected, what) in [
        (v4(), SAME, "itself"),
        (V4 { id: 0x4321, ..v4() }, SAME, "id"),
        (V4 { checksum: 1, ..v4() }, SAME, "header checksum"),
        (udp(Udp { checksum: 0, ..u() }), SAME, "UDP checksum"),
        (udp(Udp::of(1200)), SAME, "lengths and contents"),
        (
            V4 {
                trailing: vec![0; 5],
                ..v4()
            },
            SAME,
            "padding",
        ),
        (V4 { tos: 1, ..v4() }, FLOW, "ECN"),
        (V4 { tos: 0x80, ..v4() }, FLOW, "DSCP"),
        (V4 { ttl: 63, ..v4() }, FLOW, "time to live"),
        (
            V4 {
                fragment: 0x4000,
                ..v4()
            },
            FLOW,
            "don't fragment",
        ),
        (
            V4 {
                options: vec![0; 4],
                ..v4()
            },
            FLOW,
            "options",
        ),
        (
            V4 {
                tags: vec![(0x8100, 0)],
                ..v4()
            },
            FLOW,
            "a tag of zeros",
        ),
        (udp(Udp { src: 40001, ..u() }), ADDRESSES, "source port"),
        (udp(Udp { dst: 1195, ..u() }), ADDRESSES, "destination port"),
        (
            V4 {
                src: [198, 51, 100, 6],
                ..v4()
            },
            NOTHING,
            "source",
        ),
        (
            V4 {
                dst: [64, 0, 2, 1],
                ..v4()
            },
            NOTHING,
            "destination",
        ),
    ] {
        compare(&v4().frame(), &other.frame(), expected, what);
    }
}

#[test]
fn ipv6_field_by_field() {
    let v6 = V6::default;
    let udp = |udp| V6 { udp, ..V6::default() };
    let flip = |mut a: [u8; 16], i: usize| {
        a[i] ^= 0x10;
        a
    };
    for (other, expected, what) in [
        (v6(), SAME, "itself"),
        (udp(Udp::of(1200)), SAME, "lengths and contents"),
        (
            udp(Udp {
                checksum: 1,
                ..Udp::default()
            }),
            SAME,
            "UDP checksum",
        ),
        (
            V6 {
                traffic_class: 1,
                ..v6()
            },
            FLOW,
            "ECN",
        ),
        (
            V6 {
                traffic_class: 0x80,
                ..v6()
            },
            FLOW,
            "traffic class",
        ),
        (
            V6 {
                flow_label: 1,
                ..v6()
            },
            FLOW,
            "flow label",
        ),
        (
            V6 {
                flow_label: 0x8_0000,
                ..v6()
            },
            FLOW,
            "flow label",
        ),
        (
            V6 {
                hop_limit: 63,
                ..v6()
            },
            FLOW,
            "hop limit",
        ),
        (
            V6 {
                extensions: vec![extension(60, 1)],
                ..v6()
            },
            FLOW,
            "extension headers",
        ),
        (
            V6 {
                tags: vec![(0x8100, 0)],
                ..v6()
            },
            FLOW,
            "a tag of zeros",
        ),
        (
            udp(Udp {
                src: 40001,
                ..Udp::default()
            }),
            ADDRESSES,
            "source port",
        ),
        (
            udp(Udp {
                dst: 1195,
                ..Udp::default()
            }),
            ADDRESSES,
            "destination port",
        ),
    ] {
        compare(&v6().frame(), &other.frame(), expected, what);
    }
    for i in 0..16 {
        compare(
            &v6().frame(),
            &V6 {
                src: flip(v6().src, i),
                ..v6()
            }
            .frame(),
            NOTHING,
            "source",
        );
        compare(
            &v6().frame(),
            &V6 {
                dst: flip(v6().dst, i),
                ..v6()
            }
            .frame(),
            NOTHING,
            "destination",
        );
    }
    let two = |units: u8| {
        V6 {
            extensions: vec![extension(60, units)],
            ..v6()
        }
        .frame()
    };
    compare(&two(1), &two(2), FLOW, "bytes of extension headers");
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
            let v4 = |tags: &[_]| {
                V4 {
                    tags: tags.to_vec(),
                    ..V4::default()
                }
                .frame()
            };
            let v6 = |tags: &[_]| {
                V6 {
                    tags: tags.to_vec(),
                    ..V6::default()
                }
                .frame()
            };
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
    let piece = fragment(
        &V4 {
            fragment: 0x2000,
            ..V4::default()
        }
        .frame(),
    )
    .outer;
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
    let zeros = datagram(
        &V4 {
            src: [0; 4],
            dst: [0; 4],
            ttl: 0,
            udp: zeros,
            ..V4::default()
        }
        .frame(),
    )
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

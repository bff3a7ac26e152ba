//! IPv6: payload lengths that lie, and offsets that fit no 16 bits.

use super::build::{Udp, V6, extension, fragment_header};
use super::{broken, datagram, is_other, places};
use crate::frame::{Lie, Parsed, parse};

/// 255 units of 8 bytes: the longest extension headers, 32 of which are 65280 bytes.
fn long_chain() -> Vec<super::build::Extension> {
    vec![extension(60, 255); 32]
}

#[test]
fn a_payload_length_over_the_frame() {
    for len in [49, 50, 1500, 65527] {
        let (lie, outer) = broken(&V6::with(|f| f.len = Some(len)));
        assert_eq!(
            (lie, outer.src_port(), outer.dst_port()),
            (Lie::Ip, 40000, 1194),
            "{len}"
        );
        let extensions = vec![extension(0, 1)];
        let (lie, outer) = broken(&V6::with(|f| {
            f.len = Some(len + 8);
            f.extensions = extensions.clone();
        }));
        assert_eq!((lie, outer.dst_port()), (Lie::Ip, 1194), "{len}");
    }
}

#[test]
fn a_payload_length_of_zero() {
    let (lie, outer) = broken(&V6::with(|f| f.len = Some(0)));
    assert_eq!((lie, outer.dst_port()), (Lie::Udp, 1194), "no room for UDP");
    let extensions = vec![extension(0, 1)];
    let (lie, outer) = broken(&V6::with(|f| {
        f.len = Some(0);
        f.extensions = extensions.clone();
    }));
    assert_eq!(
        (lie, outer.dst_port()),
        (Lie::Ip, 1194),
        "no room for the headers, as in a jumbogram"
    );
}

#[test]
fn a_payload_length_that_ends_in_the_extension_headers() {
    let extensions = vec![extension(0, 2), extension(60, 1)];
    for len in 0..24 {
        let (lie, outer) = broken(&V6::with(|f| {
            f.len = Some(len);
            f.extensions = extensions.clone();
        }));
        assert_eq!((lie, outer.dst_port()), (Lie::Ip, 1194), "{len}");
    }
    for len in 24..72 {
        let (lie, outer) = broken(&V6::with(|f| {
            f.len = Some(len);
            f.extensions = extensions.clone();
        }));
        assert_eq!((lie, outer.dst_port()), (Lie::Udp, 1194), "{len}");
    }
    assert_eq!(
        datagram(&V6::with(|f| {
            f.len = Some(72);
            f.extensions = extensions.clone();
        }))
        .payload_len,
        40
    );
}

#[test]
fn a_payload_length_that_leaves_out_the_trailing_bytes() {
    let frame = V6::with(|f| {
        f.udp = Udp::of(3);
        f.trailing = vec![0xee; 30];
    });
    assert_eq!(places(&datagram(&frame)), (14, 54, 62, 3));
}

#[test]
fn the_largest_datagram() {
    let largest = V6 {
        udp: Udp::of(65527),
        tags: vec![(0x88a8, 1), (0x8100, 2)],
        ..V6::default()
    };
    assert_eq!(places(&datagram(&largest.frame())), (22, 62, 70, 65527));
}

#[test]
fn a_udp_header_at_the_last_offset_that_can_be_told() {
    // 54 bytes of headers, 65280 of extension headers, and 192 more: UDP at 65526, its payload at 65534.
    for (units, whole) in [(24, true), (25, false)] {
        let extensions = [long_chain(), vec![extension(60, units)]].concat();
        let frame = V6::with(|f| {
            f.extensions = extensions.clone();
            f.udp = Udp::of(0);
        });
        match parse(&frame, frame.len()) {
            Parsed::Udp(d) if whole => assert_eq!(places(&d), (14, 65526, 65534, 0)),
            Parsed::Other if !whole => {}
            other => panic!("{units}: {other:?}"),
        }
    }
}

#[test]
fn a_fragment_whose_offsets_fit_no_16_bits() {
    let extensions = [long_chain(), vec![extension(60, 25), fragment_header(8, true)]].concat();
    assert!(is_other(&V6::with(|f| {
        f.extensions = extensions.clone();
        f.udp = Udp::of(0);
    })));
    let long = V6 {
        extensions: vec![fragment_header(8, true)],
        udp: Udp::of(65512),
        ..V6::default()
    };
    assert!(is_other(&long.frame()), "65568 bytes from the IPv6 header on");
}

#[test]
fn a_chain_longer_than_any_packet() {
    let extensions = [long_chain(), long_chain()].concat();
    let (lie, outer) = broken(&V6::with(|f| {
        f.len = Some(9000);
        f.extensions = extensions.clone();
    }));
    assert_eq!(
        (lie, outer.dst_port(), outer.options_len()),
        (Lie::Ip, 1194, 0xffff)
    );
}

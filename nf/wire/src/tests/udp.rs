//! UDP: lengths against the IP payload, the checksum field.

use super::build::{Udp, V4, V6};
use super::{broken, datagram, places};
use crate::frame::Lie;

#[test]
fn a_total_length_that_cuts_the_udp_header() {
    for room in 0..8 {
        let cut = V4 {
            total: Some(20 + room),
            ..V4::default()
        };
        let (lie, outer) = broken(&cut.frame());
        assert_eq!(
            (lie, outer.dst_port()),
            (Lie::Udp, 1194),
            "{room} bytes, then padding"
        );
        let frame = &cut.frame()[..34 + usize::from(room)];
        let (lie, outer) = broken(frame);
        let port = if room < 4 { 0 } else { 1194 };
        assert_eq!(
            (lie, outer.dst_port()),
            (Lie::Udp, port),
            "{room} bytes, then nothing"
        );
    }
}

#[test]
fn a_udp_length_that_lies() {
    // The IP payload is 48 bytes.
    for len in [0, 1, 7, 8, 47, 49, 65535] {
        let udp = Udp {
            len: Some(len),
            ..Udp::default()
        };
        let (lie, outer) = broken(&V4::with(|f| f.udp = udp.clone()));
        assert_eq!((lie, outer.dst_port()), (Lie::Udp, 1194), "{len}");
        let (lie, outer) = broken(&V6::with(|f| f.udp = udp.clone()));
        assert_eq!((lie, outer.dst_port()), (Lie::Udp, 1194), "{len}");
        // A length that takes in the padding is as wrong.
        assert_eq!(
            broken(&V4::with(|f| {
                f.udp = udp.clone();
                f.trailing = vec![0; 1];
            }))
            .0,
            Lie::Udp,
            "{len}"
        );
    }
}

#[test]
fn a_zero_udp_checksum_is_none() {
    for (checksum, none) in [(0, true), (1, false), (0x100, false), (0xffff, false)] {
        let udp = Udp {
            checksum,
            ..Udp::default()
        };
        assert_eq!(datagram(&V4::with(|f| f.udp = udp.clone())).no_checksum, none);
        let options = V4 {
            udp: udp.clone(),
            options: vec![0; 4],
            ..V4::default()
        };
        assert_eq!(datagram(&options.frame()).no_checksum, none);
        assert_eq!(datagram(&V6::with(|f| f.udp = udp.clone())).no_checksum, none);
    }
}

#[test]
fn the_largest_datagram_and_a_frame_longer_than_any_packet() {
    let largest = V4 {
        udp: Udp::of(65507),
        tags: vec![(0x88a8, 1), (0x8100, 2)],
        ..V4::default()
    };
    assert_eq!(places(&datagram(&largest.frame())), (22, 42, 50, 65507));
    let padded = V4 {
        udp: Udp::of(65507),
        trailing: vec![0; 100_000],
        ..V4::default()
    };
    assert_eq!(places(&datagram(&padded.frame())), (14, 34, 42, 65507));
}

#[test]
fn lengths_that_agree_on_less_than_a_udp_header() {
    for len in 0..8 {
        let udp = Udp {
            len: Some(len),
            ..Udp::default()
        };
        let (lie, outer) = broken(&V4::with(|f| {
            f.total = Some(20 + len);
            f.udp = udp.clone();
        }));
        assert_eq!((lie, outer.dst_port()), (Lie::Udp, 1194), "{len}");
        let (lie, outer) = broken(&V6::with(|f| {
            f.len = Some(len);
            f.udp = udp.clone();
        }));
        assert_eq!((lie, outer.dst_port()), (Lie::Udp, 1194), "{len}");
    }
}

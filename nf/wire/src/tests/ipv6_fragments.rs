//! IPv6: fragments.

use super::build::{Extension, V6, authentication, extension, fragment_header};
use super::{broken, datagram, fragment, is_other, places};
use crate::frame::{Lie, Parsed, parse};

fn with(extensions: &[Extension]) -> V6 {
    V6 {
        extensions: extensions.to_vec(),
        ..V6::default()
    }
}

#[test]
fn first_middle_and_last_fragment() {
    for (offset, more) in [(0, true), (8, true), (1448, true), (1448, false), (0xfff8, false)] {
        let f = fragment(&with(&[fragment_header(offset, more)]).frame());
        assert_eq!((f.l3, f.data, f.ip_len, f.plain), (14, 62, 96, true), "{offset}");
        assert_eq!((f.outer.src_port(), f.outer.dst_port()), (0, 0));
        assert!(f.outer.is_v6());
        let tagged = V6 {
            tags: vec![(0x8100, 1)],
            trailing: vec![0; 6],
            ..with(&[fragment_header(offset, more)])
        };
        let f = fragment(&tagged.frame());
        assert_eq!((f.l3, f.data, f.ip_len, f.plain), (18, 66, 96, true), "{offset}");
    }
}

#[test]
fn other_headers_before_the_fragment_header_are_told() {
    for (before, bytes) in [
        (vec![extension(0, 1)], 8),
        (vec![extension(43, 3)], 24),
        (vec![authentication(6)], 24),
        (vec![extension(0, 1), extension(60, 2)], 24),
        (vec![fragment_header(0, false)], 8),
    ] {
        let f = fragment(&with(&[before, vec![fragment_header(8, true)]].concat()).frame());
        assert_eq!((f.data, f.ip_len, f.plain), (62 + bytes, 96 + bytes, false));
    }
}

#[test]
fn an_atomic_fragment_is_a_whole_datagram() {
    let mut atomic = fragment_header(0, false);
    for reserved in [0, 2, 4, 6] {
        atomic.1[3] = reserved;
        let d = datagram(&with(std::slice::from_ref(&atomic)).frame());
        assert_eq!(places(&d), (14, 62, 70, 40));
        assert_eq!(d.outer.options_len(), 8);
        assert_eq!(d.outer.dst_port(), 1194);
    }
}

#[test]
fn fragments_of_something_else() {
    // The fragment header's next header alone says whose fragments the later ones are.
    assert!(is_other(
        &with(&[fragment_header(8, true), extension(60, 1)]).frame()
    ));
    assert!(is_other(
        &V6 {
            protocol: 6,
            ..with(&[fragment_header(8, true)])
        }
        .frame()
    ));
}

#[test]
fn a_fragment_header_past_the_first_segment() {
    let frame = with(&[fragment_header(8, true)]).frame();
    for head in 0..62 {
        assert!(
            matches!(parse(&frame[..head], frame.len()), Parsed::Other),
            "{head}"
        );
    }
    assert!(matches!(parse(&frame[..62], frame.len()), Parsed::Fragment(_)));
}

#[test]
fn only_a_first_fragment_tells_ports_when_its_length_lies() {
    for (offset, port) in [(0, 1194), (8, 0), (0xfff8, 0)] {
        for len in [0, 7, 57, 65535] {
            let frame = V6 {
                len: Some(len),
                ..with(&[fragment_header(offset, true)])
            }
            .frame();
            let (lie, outer) = broken(&frame);
            assert_eq!((lie, outer.dst_port()), (Lie::Ip, port), "{offset} {len}");
        }
    }
}

//! IPv4: options, lengths, fragments.

use super::build::{Udp, V4};
use super::{broken, datagram, fragment, is_other, places};
use crate::frame::{Lie, Parsed, parse};

#[test]
fn options_of_every_length() {
    for words in 1..=10usize {
        let frame = V4::with(|f| f.options = vec![1; words * 4]);
        let d = datagram(&frame);
        let l4 = 34 + 4 * words as u16;
        assert_eq!(places(&d), (14, l4, l4 + 8, 40));
        assert_eq!(d.outer.options_len(), 4 * words);
        assert_eq!((d.outer.src_port(), d.outer.dst_port()), (40000, 1194));
    }
}

#[test]
fn a_header_length_under_five_words() {
    for ihl in 0..5 {
        let (lie, outer) = broken(&V4::with(|f| f.ihl = Some(ihl)));
        assert_eq!((lie, outer.dst_port()), (Lie::Ip, 1194), "{ihl}");
    }
}

#[test]
fn ethernet_padding_is_left_out() {
    let frame = V4::with(|f| {
        f.udp = Udp::of(5);
        f.trailing = vec![0xee; 13];
    });
    assert_eq!(frame.len(), 60);
    assert_eq!(places(&datagram(&frame)), (14, 34, 42, 5));
    let frame = V4::with(|f| {
        f.options = vec![0; 4];
        f.udp = Udp::of(0);
        f.trailing = vec![0xee; 14];
    });
    assert_eq!(places(&datagram(&frame)), (14, 38, 46, 0));
}

#[test]
fn a_total_length_over_the_frame() {
    for total in [69, 70, 1500, 65527] {
        for options in [0, 8] {
            let options = vec![0; options];
            let frame = V4::with(|f| {
                f.total = Some(total + options.len() as u16);
                f.options = options.clone();
            });
            let (lie, outer) = broken(&frame);
            assert_eq!(
                (lie, outer.dst_port(), outer.src_port()),
                (Lie::Ip, 1194, 40000),
                "{total}"
            );
        }
    }
    let cut = V4::default().frame();
    assert_eq!(broken(&cut[..cut.len() - 1]).0, Lie::Ip);
    let (lie, outer) = broken(&cut[..14 + 20 + 3]);
    assert_eq!(
        (lie, outer.src_port(), outer.dst_port()),
        (Lie::Ip, 0, 0),
        "the frame ends in the ports"
    );
}

#[test]
fn a_total_length_under_the_header() {
    for total in [0, 1, 19] {
        assert_eq!(broken(&V4::with(|f| f.total = Some(total))).0, Lie::Ip, "{total}");
    }
    let with_options = V4 {
        total: Some(23),
        options: vec![0; 4],
        ..V4::default()
    };
    assert_eq!(broken(&with_options.frame()).0, Lie::Ip);
}

#[test]
fn other_protocols_whatever_they_hold() {
    for protocol in (0..=255).filter(|p| *p != 17) {
        assert!(is_other(&V4::with(|f| f.protocol = protocol)), "{protocol}");
        assert!(
            is_other(&V4::with(|f| {
                f.protocol = protocol;
                f.total = Some(3);
            })),
            "{protocol}"
        );
        assert!(
            is_other(&V4::with(|f| {
                f.protocol = protocol;
                f.fragment = 0x2000;
            })),
            "{protocol}"
        );
    }
}

#[test]
fn first_middle_and_last_fragment() {
    const MORE: u16 = 0x2000;
    for field in [
        MORE,
        MORE | 185,
        370,
        0x1fff,
        MORE | 0x4000,
        0x4000 | 1,
        0x8000 | 1,
    ] {
        for options in [0, 4, 40] {
            let options = vec![0; options];
            let l4 = 34 + options.len() as u16;
            let tags = vec![(0x8100, 5)];
            let f = fragment(&V4::with(|f| {
                f.fragment = field;
                f.options = options.clone();
            }));
            assert_eq!(
                (f.l3, f.data, f.ip_len, f.plain),
                (14, l4, l4 - 14 + 48, true),
                "{field:04x}"
            );
            assert_eq!((f.outer.src_port(), f.outer.dst_port()), (0, 0), "{field:04x}");
            assert_eq!(f.outer.dst().to_string(), "192.0.2.1");
            let trailing = vec![0; 9];
            let f = fragment(&V4::with(|f| {
                f.fragment = field;
                f.options = options.clone();
                f.tags = tags.clone();
                f.trailing = trailing.clone();
            }));
            assert_eq!(
                (f.l3, f.data, f.ip_len),
                (18, l4 + 4, l4 - 14 + 48),
                "{field:04x}"
            );
        }
    }
}

#[test]
fn flags_alone_make_no_fragment() {
    for field in [0x4000, 0x8000, 0xc000] {
        assert_eq!(
            places(&datagram(&V4::with(|f| f.fragment = field))),
            (14, 34, 42, 40)
        );
    }
}

#[test]
fn only_a_first_fragment_tells_ports_when_its_length_lies() {
    for (field, port) in [(0x2000, 1194), (0x2001, 0), (0x0001, 0), (0x1fff, 0)] {
        for (ihl, total) in [(None, Some(1500)), (None, Some(19)), (Some(4), None)] {
            let (lie, outer) = broken(&V4::with(|f| {
                f.fragment = field;
                f.ihl = ihl;
                f.total = total;
            }));
            assert_eq!(
                (lie, outer.dst_port()),
                (Lie::Ip, port),
                "{field:04x} {ihl:?} {total:?}"
            );
        }
    }
}

#[test]
fn headers_that_go_on_past_the_first_segment() {
    let plain = V4::default().frame();
    let options = V4::with(|f| f.options = vec![0; 8]);
    let piece = V4::with(|f| {
        f.options = vec![0; 8];
        f.fragment = 0x2000;
    });
    for head in 0..42 {
        assert!(
            matches!(parse(&plain[..head], plain.len()), Parsed::Other),
            "{head}"
        );
        assert!(
            matches!(parse(&options[..head + 8], options.len()), Parsed::Other),
            "{head}"
        );
        assert!(
            matches!(parse(&piece[..head], piece.len()), Parsed::Other),
            "{head}"
        );
    }
    assert!(matches!(parse(&plain[..42], plain.len()), Parsed::Udp(_)));
    assert!(matches!(parse(&options[..50], options.len()), Parsed::Udp(_)));
    assert!(matches!(parse(&piece[..42], piece.len()), Parsed::Fragment(_)));
}

#[test]
fn encapsulated_copies_are_not_ours() {
    let inner = V4::default();
    let ip_in_ip = V4 {
        protocol: 4,
        body: Some(inner.packet()),
        ..V4::default()
    };
    let gre = [&[0, 0, 8, 0], &inner.packet()[..]].concat();
    let gre = V4 {
        protocol: 47,
        body: Some(gre),
        ..V4::default()
    };
    assert!(is_other(&ip_in_ip.frame()));
    assert!(is_other(&gre.frame()));
    let vxlan = [&[8, 0, 0, 0, 0, 0, 1, 0], &inner.frame()[..]].concat();
    let udp = Udp {
        dst: 4789,
        payload: vxlan,
        ..Udp::default()
    };
    let d = datagram(&V4::with(|f| {
        f.udp = udp.clone();
        f.dst = [192, 0, 2, 9];
    }));
    assert_eq!(
        (d.outer.dst_port(), d.outer.dst().to_string()),
        (4789, "192.0.2.9".to_string())
    );
}

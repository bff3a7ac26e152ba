//! IPv6: extension headers.

use super::build::{Extension, V4, V6, authentication, extension, fragment_header};
use super::{datagram, is_other, places};
use crate::frame::{Parsed, parse};

const NUMBERS: [(u8, &str); 8] = [
    (0, "hop-by-hop options"),
    (43, "routing"),
    (60, "destination options"),
    (135, "mobility"),
    (139, "HIP"),
    (140, "shim6"),
    (253, "experiment"),
    (254, "experiment"),
];

fn with(extensions: &[Extension]) -> V6 {
    V6 {
        extensions: extensions.to_vec(),
        ..V6::default()
    }
}

fn check(extensions: &[Extension], what: &str) {
    let bytes: usize = extensions.iter().map(|e| e.1.len()).sum();
    for tags in [vec![], vec![(0x8100, 9)], vec![(0x88a8, 9), (0x8100, 9)]] {
        let l3 = 14 + 4 * tags.len() as u16;
        let d = datagram(
            &V6 {
                tags,
                trailing: vec![0; 4],
                ..with(extensions)
            }
            .frame(),
        );
        let l4 = l3 + 40 + bytes as u16;
        assert_eq!(places(&d), (l3, l4, l4 + 8, 40), "{what}");
        assert_eq!(d.outer.options_len(), bytes, "{what}");
        assert_eq!((d.outer.src_port(), d.outer.dst_port()), (40000, 1194), "{what}");
    }
}

#[test]
fn every_extension_header_alone() {
    for (number, what) in NUMBERS {
        for units in [1, 2, 7, 255] {
            check(&[extension(number, units)], what);
        }
    }
}

#[test]
fn an_authentication_header_counts_in_words() {
    for words in [4, 6, 7, 10, 255] {
        check(&[authentication(words)], "authentication");
    }
}

#[test]
fn several_in_a_row() {
    check(
        &[
            extension(0, 1),
            extension(60, 2),
            extension(43, 3),
            authentication(6),
            extension(60, 1),
            extension(135, 1),
        ],
        "the order that RFC 8200 recommends, and mobility",
    );
    check(
        &[
            fragment_header(0, false),
            extension(60, 1),
            fragment_header(0, false),
        ],
        "atomic fragments",
    );
    check(&vec![extension(60, 1); 150], "150 of them");
}

#[test]
fn segments_left_mean_that_it_has_not_arrived() {
    let mut routing = extension(43, 3);
    routing.1[3] = 1;
    assert!(is_other(&with(std::slice::from_ref(&routing)).frame()));
    assert!(is_other(&with(&[extension(0, 1), routing.clone()]).frame()));
    assert!(is_other(&with(&[routing, fragment_header(0, true)]).frame()));
}

#[test]
fn no_next_header_esp_and_whatever_is_no_udp() {
    let walked = NUMBERS.map(|n| n.0);
    for protocol in (0..=255u8).filter(|p| *p != 17 && *p != 44 && *p != 51 && !walked.contains(p)) {
        assert!(is_other(&V6::with(|f| f.protocol = protocol)), "{protocol}");
        let behind = V6 {
            protocol,
            ..with(&[extension(60, 1), extension(0, 1)])
        };
        assert!(is_other(&behind.frame()), "{protocol}");
        assert!(
            is_other(
                &V6 {
                    protocol,
                    ..with(&[fragment_header(0, true)])
                }
                .frame()
            ),
            "{protocol}"
        );
    }
}

#[test]
fn a_packet_of_another_version() {
    for version in (0..16u8).filter(|v| *v != 6) {
        let mut frame = V6::default().frame();
        frame[14] = version << 4;
        assert!(is_other(&frame), "{version}");
    }
}

#[test]
fn headers_that_end_early() {
    for extensions in [
        vec![],
        vec![extension(0, 1)],
        vec![extension(0, 1), authentication(7), extension(43, 3)],
    ] {
        let frame = with(&extensions).frame();
        let l4 = 54 + extensions.iter().map(|e| e.1.len()).sum::<usize>();
        for head in 0..l4 + 8 {
            assert!(
                matches!(parse(&frame[..head], frame.len()), Parsed::Other),
                "{head}, the rest elsewhere"
            );
            let cut = parse(&frame[..head], head);
            assert!(
                !matches!(cut, Parsed::Udp(_) | Parsed::Fragment(_)),
                "{head}: {cut:?}"
            );
        }
        assert!(matches!(parse(&frame[..l4 + 8], frame.len()), Parsed::Udp(_)));
    }
}

#[test]
fn an_extension_header_cut_by_the_first_segment_hides_what_follows() {
    for room in [0, 7, 8, 48] {
        let frame = V6::with(|f| {
            f.extensions = vec![extension(60, 3)];
            f.len = Some(24 + room);
        });
        for head in 54..78 {
            assert!(
                matches!(parse(&frame[..head], frame.len()), Parsed::Other),
                "{head}"
            );
        }
    }
}

#[test]
fn an_extension_header_that_says_it_is_longer_than_the_frame() {
    for number in NUMBERS.map(|n| n.0).into_iter().chain([51]) {
        // The one that lies is followed, by its own word, by another that is not there.
        let mut long = extension(number, 1);
        long.1[1] = 255;
        assert!(is_other(&with(&[long, extension(60, 1)]).frame()), "{number}");
    }
}

#[test]
fn encapsulated_copies_are_not_ours() {
    for (protocol, packet) in [(41, V6::default().packet()), (4, V4::default().packet())] {
        assert!(is_other(&V6::with(|f| {
            f.protocol = protocol;
            f.body = Some(packet);
        })));
    }
    let gre = [&[0, 0, 0x86, 0xdd], &V6::default().packet()[..]].concat();
    assert!(is_other(&V6::with(|f| {
        f.protocol = 47;
        f.body = Some(gre);
    })));
}

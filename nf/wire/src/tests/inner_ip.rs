//! The packet inside: versions, lengths that lie, extension headers, fragments.

use super::build::{Extension, V4, V6, authentication, extension, fragment_header};
use crate::inner::{Lie, MAX_EXTENSIONS, Piece, Version, parse, version_and_len};
use proptest::collection::vec;
use proptest::prelude::*;

fn v4(change: impl FnOnce(&mut V4)) -> Vec<u8> {
    let mut fields = V4::default();
    change(&mut fields);
    fields.packet()
}

fn v6(change: impl FnOnce(&mut V6)) -> Vec<u8> {
    let mut fields = V6::default();
    change(&mut fields);
    fields.packet()
}

fn with_extensions(extensions: Vec<Extension>) -> Vec<u8> {
    v6(|f| f.extensions = extensions)
}

#[test]
fn plain_packets() {
    let ip = parse(&v4(|_| ())).expect("right");
    assert_eq!(
        (ip.version, ip.l4, ip.total_len, ip.protocol),
        (Version::V4, 20, 68, 17)
    );
    assert_eq!((ip.piece, ip.source_routed), (Piece::Whole, false));
    assert_eq!((ip.src, ip.dst), (0xc633_6407, 0xc000_0201));
    assert_eq!(ip.version.ether_type(), 0x0800);

    let ip = parse(&v6(|_| ())).expect("right");
    assert_eq!(
        (ip.version, ip.l4, ip.total_len, ip.protocol),
        (Version::V6, 40, 88, 17)
    );
    assert_eq!((ip.piece, ip.source_routed), (Piece::Whole, false));
    assert_eq!(ip.src, 0x2001_0db8_0102_0304_0506_0708_090a_0b71);
    assert_eq!(ip.dst, 0x2001_0db8_0102_0304_0506_0708_090a_0b01);
    assert_eq!(ip.version.ether_type(), 0x86dd);
}

#[test]
fn ethernet_padding_is_cut_off() {
    for mut packet in [v4(|_| ()), v6(|_| ())] {
        let len = packet.len();
        packet.extend([0; 18]);
        assert_eq!(parse(&packet).expect("right").total_len, len);
        assert_eq!(version_and_len(&packet).expect("right").1, len);
    }
}

#[test]
fn ends_inside_a_header() {
    for (packet, fixed) in [(v4(|_| ()), 20), (v6(|_| ()), 40)] {
        for len in 0..packet.len() {
            let lie = if len < fixed { Lie::Short } else { Lie::TotalLength };
            assert_eq!(parse(&packet[..len]), Err(lie), "{len} bytes");
            assert_eq!(version_and_len(&packet[..len]), Err(lie), "{len} bytes");
        }
    }
}

#[test]
fn other_versions() {
    for version in (0..16).filter(|v| ![4, 6].contains(v)) {
        for len in [1, 19, 20, 60] {
            let mut packet = vec![0; len];
            packet[0] = version << 4 | 5;
            assert_eq!(parse(&packet), Err(Lie::Version));
            assert_eq!(version_and_len(&packet), Err(Lie::Version));
        }
    }
}

#[test]
fn ipv4_header_lengths() {
    for words in 0..5 {
        assert_eq!(parse(&v4(|f| f.ihl = Some(words))), Err(Lie::HeaderLength));
    }
    for words in 5..16 {
        assert_eq!(
            parse(&v4(|f| f.ihl = Some(words))).map(|ip| ip.l4),
            Ok(usize::from(words) * 4)
        );
    }
    let short = |total| v4(|f| (f.options, f.total) = (vec![1; 8], Some(total)));
    assert_eq!(parse(&short(27)), Err(Lie::HeaderLength));
    assert_eq!(parse(&short(28)).map(|ip| (ip.l4, ip.total_len)), Ok((28, 28)));
    assert_eq!(parse(&v4(|f| f.total = Some(0))), Err(Lie::HeaderLength));
    assert_eq!(parse(&v4(|f| f.total = Some(69))), Err(Lie::TotalLength));
}

#[test]
fn ipv6_payload_lengths() {
    let len = |len| parse(&v6(|f| f.len = Some(len))).map(|ip| ip.total_len);
    assert_eq!(len(48), Ok(88));
    assert_eq!(len(0), Ok(40));
    assert_eq!(len(49), Err(Lie::TotalLength));
    assert_eq!(len(0xffff), Err(Lie::TotalLength));
}

#[test]
fn ipv4_fragments() {
    let piece = |field| parse(&v4(|f| f.fragment = field)).map(|ip| ip.piece);
    assert_eq!(piece(0x4000), Ok(Piece::Whole));
    assert_eq!(piece(0x2000), Ok(Piece::First));
    assert_eq!(piece(0x2001), Ok(Piece::Later));
    assert_eq!(piece(0x1fff), Ok(Piece::Later));
}

#[test]
fn ipv4_source_routes() {
    let routed = |options: &[u8]| parse(&v4(|f| f.options = options.to_vec())).map(|ip| ip.source_routed);
    assert_eq!(routed(&[131, 7, 4, 192, 0, 2, 9, 0]), Ok(true));
    assert_eq!(routed(&[1, 137, 7, 4, 192, 0, 2, 9]), Ok(true));
    assert_eq!(routed(&[7, 3, 4, 131, 7, 4, 1, 1]), Ok(true));
    // Record route; behind the end of the list; a list that is not well-formed.
    assert_eq!(routed(&[7, 7, 4, 131, 131, 131, 131, 0]), Ok(false));
    assert_eq!(routed(&[0, 131, 7, 4, 192, 0, 2, 9]), Ok(false));
    assert_eq!(routed(&[7, 0, 131, 131]), Ok(false));
    assert_eq!(routed(&[1, 1, 1, 7]), Ok(false));
    assert_eq!(routed(&[7, 200, 131, 131]), Ok(false));
}

#[test]
fn ipv6_extension_headers_are_walked() {
    let all: Vec<_> = [0, 43, 60, 135, 139, 140, 253, 254]
        .into_iter()
        .zip(1..)
        .map(|(number, units)| extension(number, units))
        .collect();
    let ip = parse(&with_extensions(all)).expect("right");
    assert_eq!((ip.l4, ip.protocol, ip.piece), (40 + 36 * 8, 17, Piece::Whole));
    assert!(!ip.source_routed);
    let mut routing = extension(43, 3);
    routing.1[3] = 1;
    assert!(
        parse(&with_extensions(vec![routing]))
            .expect("right")
            .source_routed
    );
}

#[test]
fn ipv6_authentication_ends_the_walk() {
    let ip = parse(&with_extensions(vec![extension(0, 1), authentication(6)])).expect("right");
    assert_eq!((ip.l4, ip.protocol), (48, 51));
}

#[test]
fn ipv6_extension_headers_past_the_end() {
    let packet = with_extensions(vec![extension(0, 2), extension(60, 3)]);
    for len in 0..packet.len() - 40 {
        let mut packet = packet.clone();
        packet[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        let l4 = parse(&packet).map(|ip| ip.l4);
        assert_eq!(
            l4,
            if len < 40 { Err(Lie::Extensions) } else { Ok(80) },
            "{len} bytes"
        );
    }
    let long = v6(|f| {
        f.extensions = vec![extension(60, 1)];
        f.extensions[0].1[1] = 255;
    });
    assert_eq!(parse(&long), Err(Lie::Extensions));
    assert!(version_and_len(&long).is_ok());
}

#[test]
fn ipv6_chains_are_bounded() {
    let chain = |n| parse(&with_extensions(vec![extension(60, 1); n])).map(|ip| ip.l4);
    assert_eq!(chain(MAX_EXTENSIONS), Ok(40 + 8 * MAX_EXTENSIONS));
    assert_eq!(chain(MAX_EXTENSIONS + 1), Err(Lie::Extensions));
}

#[test]
fn ipv6_fragments() {
    let read = |offset, more| {
        let chain = vec![extension(0, 1), fragment_header(offset, more), extension(60, 2)];
        parse(&with_extensions(chain)).map(|ip| (ip.piece, ip.protocol, ip.l4))
    };
    assert_eq!(read(0, false), Ok((Piece::Whole, 17, 72)));
    assert_eq!(read(0, true), Ok((Piece::First, 17, 72)));
    // The data of a later fragment are no extension headers, whatever they look like.
    assert_eq!(read(8, true), Ok((Piece::Later, 60, 56)));
    assert_eq!(read(1448, false), Ok((Piece::Later, 60, 56)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_bytes_give_true_lengths(mut bytes in vec(any::<u8>(), 0..120), v6: bool, small: bool) {
        if let Some(b) = bytes.first_mut() {
            *b = if v6 { 0x60 } else { *b & 0xf | 0x40 };
        }
        if small && bytes.len() > 8 {
            bytes[if v6 { 4 } else { 2 }] = 0;
            bytes[6] = [0, 43, 44, 60][usize::from(bytes[7]) % 4];
        }
        let brief = version_and_len(&bytes);
        match parse(&bytes) {
            Ok(ip) => {
                prop_assert_eq!(brief, Ok((ip.version, ip.total_len)));
                prop_assert!(ip.l4 <= ip.total_len && ip.total_len <= bytes.len());
                let fixed = if v6 { 40 } else { 20 };
                prop_assert!(ip.l4 >= fixed);
            }
            Err(Lie::Extensions) => prop_assert!(brief.is_ok()),
            Err(lie) => prop_assert_eq!(brief, Err(lie)),
        }
    }
}

//! Whatever the bytes: no panic, no offset outside the frame, and one answer by both paths.

use super::build::{Extension, Udp, V4, V6, authentication, extension, fragment_header};
use crate::checksum;
use crate::frame::{Parsed, parse, parse_any};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

fn any_tags() -> impl Strategy<Value = Vec<(u16, u16)>> {
    vec((select(vec![0x8100, 0x88a8]), any::<u16>()), 0..3)
}

fn any_udp() -> impl Strategy<Value = Udp> {
    let payload = vec(any::<u8>(), 0..80);
    (any::<u16>(), any::<u16>(), select(vec![0, 1, 0xffff]), payload).prop_map(
        |(src, dst, checksum, payload)| Udp {
            src,
            dst,
            len: None,
            checksum,
            payload,
        },
    )
}

/// Valid UDP over IPv4, whole or in fragments.
pub fn any_v4() -> impl Strategy<Value = Vec<u8>> {
    let tags = prop_oneof![Just(vec![]), any_tags()];
    let fragment = prop_oneof![4 => Just(0), 2 => Just(0x4000), 1 => any::<u16>()];
    let options = prop_oneof![Just(0), 0..=10usize];
    let trailing = vec(any::<u8>(), 0..20);
    let fields = any::<(u8, u16, u8, [u8; 4], [u8; 4])>();
    (tags, fragment, options, trailing, fields, any_udp()).prop_map(
        |(tags, fragment, options, trailing, f, udp)| {
            let (tos, id, ttl, src, dst) = f;
            let options = vec![1; options * 4];
            V4 {
                tags,
                fragment,
                options,
                trailing,
                tos,
                id,
                ttl,
                src,
                dst,
                udp,
                ..V4::default()
            }
            .frame()
        },
    )
}

fn any_extension() -> impl Strategy<Value = Extension> {
    prop_oneof![
        (select(vec![0u8, 43, 60, 135, 139, 140, 253, 254]), 1..5u8)
            .prop_map(|(n, units)| extension(n, units)),
        (4..9u8).prop_map(authentication),
        any::<(bool, bool)>().prop_map(|(later, more)| fragment_header(if later { 1448 } else { 0 }, more)),
    ]
}

/// UDP over IPv6 with any extension headers.
fn any_v6() -> impl Strategy<Value = Vec<u8>> {
    let fields = any::<(u8, u8, [u8; 16], [u8; 16])>();
    let trailing = vec(any::<u8>(), 0..20);
    (
        any_tags(),
        vec(any_extension(), 0..5),
        trailing,
        fields,
        any_udp(),
    )
        .prop_map(|(tags, extensions, trailing, f, udp)| {
            let (traffic_class, hop_limit, src, dst) = f;
            V6 {
                tags,
                extensions,
                trailing,
                traffic_class,
                hop_limit,
                src,
                dst,
                udp,
                ..V6::default()
            }
            .frame()
        })
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![any_v4(), any_v6()]
}

/// The same frames with a few bytes changed, most of them in the headers, most of them by little.
pub fn mutated(frames: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![any::<u8>(), select(vec![0, 1, 2, 4, 8, 16, 32, 64, 128, 255])];
    let changes = vec((any::<Index>(), any::<bool>(), byte), 1..6);
    (frames, changes).prop_map(|(mut frame, changes)| {
        for (at, header, by) in changes {
            let at = at.index(if header { frame.len().min(62) } else { frame.len() });
            frame[at] ^= by;
        }
        frame
    })
}

/// Parses by both paths, and checks that they agree and that what comes out lies in the frame.
fn check(head: &[u8], frame_len: usize) {
    let parsed = parse(head, frame_len);
    assert_eq!(
        format!("{parsed:?}"),
        format!("{:?}", parse_any(head, frame_len)),
        "{head:02x?} of {frame_len}"
    );
    match parsed {
        Parsed::Udp(d) => {
            let (l3, l4, payload) = (usize::from(d.l3), usize::from(d.l4), usize::from(d.payload));
            assert!(14 <= l3 && l3 + 20 <= l4 && payload == l4 + 8 && payload <= head.len());
            assert!(payload + usize::from(d.payload_len) <= frame_len);
            let ip = if d.outer.is_v6() { 40 } else { 20 };
            assert_eq!(l4, l3 + ip + d.outer.options_len());
        }
        Parsed::Fragment(f) => {
            let (l3, data, len) = (usize::from(f.l3), usize::from(f.data), usize::from(f.ip_len));
            assert!(14 <= l3 && l3 + 20 <= data && data <= head.len());
            assert!(data <= l3 + len && l3 + len <= frame_len);
        }
        Parsed::Broken(..) | Parsed::Other => {}
    }
}

/// Every prefix: as the whole frame, as the first segment of the frame, and as that of one that is longer still.
fn check_prefixes(frame: &[u8]) {
    for head in (0..=frame.len()).map(|len| &frame[..len]) {
        for frame_len in [
            head.len(),
            head.len() + 1,
            frame.len(),
            frame.len() + 9000,
            70_000,
            usize::MAX,
        ] {
            check(head, frame_len.max(head.len()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_prefix_of_valid_frames(frame in any_frame()) {
        prop_assert!(!matches!(parse(&frame, frame.len()), Parsed::Broken(..)), "every length is right");
        check_prefixes(&frame);
    }

    #[test]
    fn every_prefix_of_mutated_frames(frame in mutated(any_frame())) {
        check_prefixes(&frame);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn mutated_frames_by_both_paths(frame in mutated(any_frame()), more in 0..70_000usize) {
        check(&frame, frame.len());
        check(&frame, frame.len() + more);
    }

    #[test]
    fn random_bytes(mut bytes in vec(any::<u8>(), 0..160), ether_type in select(vec![None, Some(0x0800u16), Some(0x86dd)])) {
        if let (Some(t), true) = (ether_type, bytes.len() > 14) {
            bytes[12..14].copy_from_slice(&t.to_be_bytes());
            bytes[14] = if t == 0x0800 { 0x45 } else { 0x60 };
        }
        check(&bytes, bytes.len());
    }

    #[test]
    fn checksums_by_word_and_in_parts(bytes in vec(any::<u8>(), 0..200), cut in any::<Index>()) {
        let mut naive: u32 = 0;
        for pair in bytes.chunks(2) {
            naive += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            naive = (naive & 0xffff) + (naive >> 16);
        }
        prop_assert_eq!(u32::from(checksum::fold(checksum::sum(&bytes))), naive);
        let (a, b) = bytes.split_at(cut.index(bytes.len() / 2 + 1) * 2);
        prop_assert_eq!(u32::from(checksum::fold(checksum::sum(a) + checksum::sum(b))), naive);
    }

    #[test]
    fn fold_keeps_the_value_modulo_ffff(sum in any::<u64>()) {
        let folded = checksum::fold(sum);
        prop_assert_eq!(u64::from(folded) % 0xffff, sum % 0xffff);
        prop_assert_eq!(folded == 0, sum == 0);
    }
}

#[test]
fn fold_at_its_edges() {
    for (sum, folded) in [
        (0, 0),
        (0xffff, 0xffff),
        (0x1_0000, 1),
        (0xffff_ffff, 0xffff),
        (u64::MAX, 0xffff),
    ] {
        assert_eq!(checksum::fold(sum), folded, "{sum:x}");
    }
    assert_eq!(checksum::fold(u64::MAX - 1), 0xfffe);
}

#[test]
fn an_ipv4_header_with_a_right_checksum_and_every_bit_of_it_wrong() {
    for options in [0, 4, 40] {
        let mut header = V4 {
            options: vec![7; options],
            checksum: 0,
            ..V4::default()
        }
        .packet();
        header.truncate(20 + options);
        let sum = !checksum::fold(checksum::sum(&header));
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        assert!(checksum::ipv4_header_ok(&header));
        for bit in 0..header.len() * 8 {
            header[bit / 8] ^= 1 << (bit % 8);
            assert!(!checksum::ipv4_header_ok(&header), "bit {bit}");
            header[bit / 8] ^= 1 << (bit % 8);
        }
    }
    assert!(!checksum::ipv4_header_ok(&[]));
}

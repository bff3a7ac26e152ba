//! Partial checksums: told from right and from wrong ones, and completed.

use super::build::{Extension, Udp, V4, V6, authentication, ethernet, extension, fragment_header};
use super::tcp::{Tcp, is_right, pseudo, words};
use crate::partial::{complete, looks_partial};
use proptest::collection::vec;
use proptest::prelude::*;

/// As whoever hands a frame to a kernel does.
fn complete_if_partial(frame: &mut [u8], l3: usize) -> bool {
    looks_partial(frame, l3) && complete(frame, l3)
}

/// A packet with TCP or UDP and where the parts are.
#[derive(Clone, Debug)]
struct Packet {
    bytes: Vec<u8>,
    protocol: u8,
    l4: usize,
}

impl Packet {
    fn field(&self) -> usize {
        self.l4 + if self.protocol == 6 { 16 } else { 6 }
    }

    fn with(&self, sum: u16) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[self.field()..self.field() + 2].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn pseudo(&self) -> u16 {
        words(&pseudo(&self.bytes, self.protocol, self.l4))
    }

    fn is_right(&self, bytes: &[u8]) -> bool {
        is_right(bytes, self.protocol, self.l4)
    }
}

fn chain() -> Vec<Extension> {
    vec![extension(0, 1), fragment_header(0, false), extension(43, 2)]
}

/// TCP and UDP with this payload, in IPv4 and IPv6, with and without options and extension headers.
fn packets(payload: &[u8]) -> Vec<Packet> {
    let tcp = Tcp {
        payload: payload.to_vec(),
        options: vec![1; 12],
        ..Tcp::default()
    };
    let udp = Udp {
        payload: payload.to_vec(),
        ..Udp::default()
    };
    let mut all = vec![];
    for (protocol, body) in [(6, tcp.bytes()), (17, udp.bytes())] {
        for options in [0, 24] {
            let body = Some(body.clone());
            let bytes = V4 {
                protocol,
                options: vec![1; options],
                body,
                ..V4::default()
            }
            .packet();
            all.push(Packet {
                bytes,
                protocol,
                l4: 20 + options,
            });
        }
        for extensions in [vec![], chain()] {
            let l4 = 40 + extensions.iter().map(|e| e.1.len()).sum::<usize>();
            let bytes = V6 {
                protocol,
                extensions,
                body: Some(body.clone()),
                ..V6::default()
            }
            .packet();
            all.push(Packet { bytes, protocol, l4 });
        }
    }
    all
}

#[test]
fn partial_ones_are_completed() {
    for len in [0, 1, 2, 40, 1399, 1400, 9001] {
        let payload: Vec<u8> = (0..len).map(|i| (i * 7 + 3) as u8).collect();
        for packet in packets(&payload) {
            let mut bytes = packet.with(packet.pseudo());
            assert!(looks_partial(&bytes, 0) && !packet.is_right(&bytes));
            let mut other = bytes.clone();
            assert!(complete_if_partial(&mut bytes, 0));
            assert!(packet.is_right(&bytes), "{packet:?}");
            assert!(complete(&mut other, 0));
            assert_eq!(other, bytes);
            // Nothing but the field.
            let sum = u16::from_be_bytes([bytes[packet.field()], bytes[packet.field() + 1]]);
            assert_eq!(bytes, packet.with(sum));
            assert!(!looks_partial(&bytes, 0) && !complete_if_partial(&mut bytes, 0));
        }
    }
}

#[test]
fn right_and_wrong_ones_are_not_partial() {
    for packet in packets(&[9, 8, 7]) {
        let mut right = packet.bytes.clone();
        assert!(complete(&mut right, 0));
        let mut partial = 0;
        for sum in 0..=0xffff {
            let bytes = packet.with(sum);
            let wrong_by_pseudo = sum == packet.pseudo() && !packet.is_right(&bytes);
            assert_eq!(looks_partial(&bytes, 0), wrong_by_pseudo, "{sum:#x}");
            partial += u32::from(wrong_by_pseudo);
        }
        assert_eq!(partial, 1);
    }
}

/// A packet whose right checksum is its pseudo-header's sum.
#[test]
fn a_right_one_that_equals_the_pseudo_header_is_right() {
    for packet in packets(&[0; 6]) {
        let at = packet.bytes.len() - 2;
        let mut found = 0;
        for word in 0..=0xffffu16 {
            let mut chance = packet.clone();
            chance.bytes[at..].copy_from_slice(&word.to_be_bytes());
            let mut bytes = chance.with(chance.pseudo());
            if chance.is_right(&bytes) {
                found += 1;
                assert!(!looks_partial(&bytes, 0) && !complete_if_partial(&mut bytes, 0));
                assert_eq!(bytes, chance.with(chance.pseudo()));
            }
        }
        assert!(found > 0);
    }
}

#[test]
fn udp_never_says_that_there_is_none() {
    let mut zeros = 0;
    for mut packet in packets(&[0; 6]).into_iter().filter(|p| p.protocol == 17) {
        let at = packet.bytes.len() - 2;
        for word in 0..=0xffffu16 {
            packet.bytes[at..].copy_from_slice(&word.to_be_bytes());
            assert!(complete(&mut packet.bytes, 0));
            let field = packet.field();
            assert_ne!(packet.bytes[field..field + 2], [0, 0]);
            zeros += u32::from(packet.bytes[field..field + 2] == [0xff, 0xff]);
            assert!(packet.is_right(&packet.bytes));
        }
    }
    assert!(zeros > 0);
}

#[test]
fn udp_without_a_checksum_keeps_none() {
    for packet in packets(&[1; 9]).into_iter().filter(|p| p.protocol == 17) {
        assert!(!looks_partial(&packet.with(0), 0));
    }
}

#[test]
fn in_ethernet_with_tags_and_padding() {
    for packet in packets(&[0x77; 3]) {
        for tags in [vec![], vec![(0x8100, 7)], vec![(0x88a8, 7), (0x8100, 9)]] {
            let l3 = 14 + 4 * tags.len();
            let ether_type = if packet.bytes[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
            let mut frame = ethernet(&tags, ether_type, &packet.with(packet.pseudo()), &[0xee; 11]);
            let before = frame.clone();
            assert!(complete_if_partial(&mut frame, l3));
            let end = l3 + packet.bytes.len();
            assert!(packet.is_right(&frame[l3..end]));
            assert_eq!(frame[..l3], before[..l3]);
            assert_eq!(frame[end..], before[end..]);
        }
    }
}

/// Neither looks partial nor is touched.
fn refused(bytes: &[u8]) {
    let mut same = bytes.to_vec();
    assert!(!looks_partial(bytes, 0));
    assert!(!complete(&mut same, 0) && !complete_if_partial(&mut same, 0));
    assert_eq!(same, bytes);
}

#[test]
fn other_packets_are_left_alone() {
    for packet in packets(&[3; 30]) {
        let partial = packet.with(packet.pseudo());
        for len in 0..partial.len() {
            refused(&partial[..len]);
        }
        let mut other = partial.clone();
        if other[0] >> 4 == 4 {
            for field in [0x2000u16, 0x2003, 0x0003] {
                other[6..8].copy_from_slice(&field.to_be_bytes());
                refused(&other);
            }
            other = partial.clone();
            for protocol in [1, 2, 33, 50, 51, 132, 136] {
                other[9] = protocol;
                refused(&other);
            }
        }
        assert!(!looks_partial(&partial, partial.len() + 1));
        assert!(!complete(&mut other, usize::MAX));
    }
    let body = Tcp::default().bytes();
    let mut routing = extension(43, 1);
    routing.1[3] = 1;
    let chains = [
        authentication(4),
        fragment_header(0, true),
        fragment_header(8, false),
        routing,
    ];
    for extension in chains {
        let body = Some(body.clone());
        refused(
            &V6 {
                protocol: 6,
                extensions: vec![extension],
                body,
                ..V6::default()
            }
            .packet(),
        );
    }
    let options = vec![131, 7, 4, 192, 0, 2, 9, 0];
    refused(
        &V4 {
            protocol: 6,
            options,
            body: Some(body),
            ..V4::default()
        }
        .packet(),
    );
}

#[test]
fn layer_4_lengths_that_lie_are_left_alone() {
    for packet in packets(&[3; 3]) {
        let (at, lies): (_, &[[u8; 2]]) = match packet.protocol {
            // Data offset: 0 and 4 words, and more than there is.
            6 => (12, &[[0, 0x10], [0x40, 0x10], [0xf0, 0x10]]),
            _ => (4, &[[0, 0], [0, 7], [0, 12], [0xff, 0xff]]),
        };
        for lie in lies {
            let mut bytes = packet.with(packet.pseudo());
            bytes[packet.l4 + at..packet.l4 + at + 2].copy_from_slice(lie);
            refused(&bytes);
        }
    }
}

/// What the IP packet holds behind the UDP datagram is not covered (RFC 768).
#[test]
fn udp_shorter_than_its_packet() {
    let bytes = Udp {
        len: Some(13),
        ..Udp::of(20)
    }
    .bytes();
    let mut packet = V4 {
        body: Some(bytes.clone()),
        ..V4::default()
    }
    .packet();
    assert!(complete(&mut packet, 0));
    let covered = is_right(&packet[..20 + 13], 17, 20);
    assert!(covered && packet[20 + 13..] == bytes[13..]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_payload(payload in vec(any::<u8>(), 0..600)) {
        for packet in packets(&payload) {
            let mut bytes = packet.with(packet.pseudo());
            prop_assert!(complete(&mut bytes, 0) && packet.is_right(&bytes));
        }
    }

    #[test]
    fn any_bytes(mut bytes in vec(any::<u8>(), 0..150), v6: bool, udp: bool, l3 in 0..4usize) {
        if bytes.len() > 16 {
            bytes[l3] = if v6 { 0x60 } else { bytes[l3] & 0xf | 0x40 };
            bytes[l3 + if v6 { 4 } else { 2 }] = 0;
            bytes[l3 + if v6 { 6 } else { 9 }] = if udp { 17 } else { 6 };
        }
        let before = bytes.clone();
        let done = complete(&mut bytes, l3);
        let differ = bytes.iter().zip(&before).filter(|(a, b)| a != b).count();
        prop_assert!(differ <= if done { 2usize } else { 0 }, "{} bytes", differ);
    }
}

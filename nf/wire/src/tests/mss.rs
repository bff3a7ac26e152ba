//! MSS clamping: what is lowered, what stays, and that the checksum stays right.

use super::build::{authentication, extension, fragment_header};
use super::tcp::{Tcp, is_right};
use crate::mss::{Limits, auto_mss, auto_mss_within, clamp, is_candidate};
use proptest::collection::vec;
use proptest::prelude::*;

const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;

fn syn(flags: u8, options: &[u8]) -> Tcp {
    Tcp {
        flags,
        options: options.to_vec(),
        ..Tcp::default()
    }
}

/// The segment in every kind of packet, each with the offset of TCP.
fn packets(tcp: &Tcp) -> [(Vec<u8>, usize); 4] {
    let chain = vec![extension(0, 1), extension(60, 3), fragment_header(0, false)];
    [
        (tcp.v4(0), 20),
        (tcp.v4(40), 60),
        (tcp.v6(vec![]), 40),
        (tcp.v6(chain), 80),
    ]
}

fn clamped(packet: &[u8], max: u16) -> Option<Vec<u8>> {
    let mut packet = packet.to_vec();
    clamp(&mut packet, max).then_some(packet)
}

fn stays(packet: &[u8], max: u16) {
    let mut same = packet.to_vec();
    assert!(!clamp(&mut same, max));
    assert_eq!(same, packet);
}

/// The MSS 1460 with this many no-operations before it, and nothing after it but padding.
fn after(padding: usize) -> Vec<u8> {
    let mut options = vec![1; padding];
    options.extend([2, 4, 0x05, 0xb4]);
    options.resize(options.len().next_multiple_of(4), 0);
    options
}

#[test]
fn a_larger_mss_is_lowered_at_any_offset() {
    for flags in [SYN, SYN_ACK, SYN | 0xc0] {
        for padding in 0..9 {
            for (packet, l4) in packets(&syn(flags, &after(padding))) {
                let new = clamped(&packet, 1400).expect("lowered");
                assert!(is_right(&new, 6, l4), "{padding} bytes before it");
                let at = l4 + 20 + padding + 2;
                assert_eq!(new[at..at + 2], 1400u16.to_be_bytes());
                let others = |p: &[u8]| [&p[..l4 + 16], &p[l4 + 18..at], &p[at + 2..]].concat();
                assert_eq!(others(&new), others(&packet));
                stays(&new, 1400);
            }
        }
    }
}

#[test]
fn a_mss_that_fits_stays() {
    for (packet, _) in packets(&syn(SYN, &after(1))) {
        for max in [1460, 1461, 9000, 0xffff, 0] {
            stays(&packet, max);
        }
        assert!(clamped(&packet, 1459).is_some());
    }
}

#[test]
fn only_syns_are_lowered() {
    for flags in 0..=255u8 {
        for (packet, _) in packets(&syn(flags, &after(2))) {
            assert_eq!(clamped(&packet, 1400).is_some(), flags & SYN != 0, "{flags:#x}");
        }
    }
}

#[test]
fn option_lists_without_a_whole_mss_option_stay() {
    let lists: [&[u8]; 12] = [
        &[],
        &[1, 1, 1, 1],
        &[3, 3, 7, 1, 4, 2, 1, 1],
        // The end of the list before it; length 0, 1, past the end.
        &[0, 4, 1, 1, 2, 4, 5, 180],
        &[3, 0, 1, 1, 2, 4, 5, 180],
        &[3, 1, 1, 1, 2, 4, 5, 180],
        &[3, 9, 1, 1, 2, 4, 5, 180],
        // The option itself cut, or of another length.
        &[1, 1, 1, 2],
        &[1, 1, 2, 4],
        &[1, 2, 4, 5],
        &[2, 0, 5, 180],
        &[2, 3, 180, 1],
    ];
    for list in lists {
        for (mut packet, _) in packets(&syn(SYN, list)) {
            stays(&packet, 100);
            // What looks like the rest of the option is padding behind the packet.
            packet.extend([5, 180, 5, 180]);
            stays(&packet, 100);
        }
    }
}

#[test]
fn all_of_several_are_lowered() {
    let tcp = syn(SYN, &[2, 4, 5, 180, 3, 3, 7, 2, 4, 5, 200, 0]);
    for (packet, l4) in packets(&tcp) {
        let new = clamped(&packet, 1300).expect("lowered");
        assert!(is_right(&new, 6, l4));
        assert_eq!(new[l4 + 20..], [2, 4, 5, 20, 3, 3, 7, 2, 4, 5, 20, 0]);
    }
}

#[test]
fn data_offsets_that_lie_stay() {
    for words in 0..16u8 {
        for (mut packet, l4) in packets(&syn(SYN, &after(0))) {
            packet[l4 + 12] = words << 4;
            assert_eq!(clamped(&packet, 1400).is_some(), words == 6, "{words} words");
            stays(&packet, 1460);
        }
    }
}

#[test]
fn cut_packets_stay() {
    for (packet, _) in packets(&syn(SYN, &after(3))) {
        for len in 0..packet.len() {
            stays(&packet[..len], 1400);
            let mut short = packet[..len].to_vec();
            let (at, less) = if packet[0] >> 4 == 4 { (2, 0) } else { (4, 40) };
            if len >= less + 20 {
                // The lengths now say what there is.
                short[at..at + 2].copy_from_slice(&((len - less) as u16).to_be_bytes());
                stays(&short, 1400);
            }
        }
    }
}

#[test]
fn fragments() {
    let tcp = syn(SYN, &after(0));
    let v4 = |field: u16| {
        let mut packet = tcp.v4(0);
        packet[6..8].copy_from_slice(&field.to_be_bytes());
        clamped(&packet, 1400).is_some()
    };
    let v6 = |offset, more| clamped(&tcp.v6(vec![fragment_header(offset, more)]), 1400).is_some();
    assert!(v4(0x4000) && v4(0x2000) && v6(0, false) && v6(0, true));
    assert!(!v4(0x2001) && !v4(1) && !v4(0x1fff) && !v6(8, true) && !v6(8, false));
}

#[test]
fn what_is_not_tcp_stays() {
    let tcp = syn(SYN, &after(0));
    for (mut packet, _) in [(tcp.v4(0), 20), (tcp.v6(vec![]), 40)] {
        let at = if packet[0] >> 4 == 4 { 9 } else { 6 };
        for protocol in (0..=255).filter(|&p| p != 6) {
            packet[at] = protocol;
            stays(&packet, 1400);
        }
        packet[0] = 0x55;
        stays(&packet, 1400);
    }
    // What an authentication header covers must not be changed.
    stays(&tcp.v6(vec![authentication(4)]), 1400);
}

#[test]
fn most_packets_are_no_candidates() {
    for (packet, _) in [(syn(0x10, &[]).v4(0), 20), (syn(0x18, &[]).v6(vec![]), 40)] {
        assert!(!is_candidate(&packet));
    }
    for (packet, _) in packets(&syn(SYN, &[])) {
        assert!(is_candidate(&packet));
    }
    assert!(!is_candidate(&[]));
}

#[test]
fn limits() {
    assert_eq!(auto_mss(1500, false), Limits { v4: 1408, v6: 1388 });
    assert_eq!(auto_mss(1500, true), Limits { v4: 1388, v6: 1368 });
    assert_eq!(auto_mss(91, false), Limits::both(0));
    assert_eq!(auto_mss(0, true), Limits::both(0));
    assert_eq!(auto_mss_within(9000, false, 1500), Limits { v4: 1460, v6: 1440 });
    assert_eq!(auto_mss_within(1500, false, 9000), auto_mss(1500, false));
    assert_eq!(auto_mss_within(1500, true, 1420), Limits { v4: 1380, v6: 1360 });
    let limits = Limits { v4: 1300, v6: 1200 };
    for (mut packet, l4) in packets(&syn(SYN_ACK, &after(0))) {
        let max: u16 = if packet[0] >> 4 == 4 { 1300 } else { 1200 };
        assert!(limits.clamp(&mut packet));
        assert_eq!(packet[l4 + 22..l4 + 24], max.to_be_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_checksum_stays_right(
        before in 0..8usize, mss: u16, max: u16, sequence: u32,
        payload in vec(any::<u8>(), 0..40), kind in 0..4usize,
    ) {
        let mut options = vec![1; before];
        options.extend([2, 4]);
        options.extend(mss.to_be_bytes());
        options.resize(options.len().next_multiple_of(4), 0);
        let tcp = Tcp { sequence, payload, ..syn(SYN, &options) };
        let (packet, l4) = packets(&tcp)[kind].clone();
        match clamped(&packet, max) {
            None => prop_assert!(mss <= max || max == 0),
            Some(new) => {
                prop_assert!(mss > max && is_right(&new, 6, l4));
                prop_assert_eq!(&new[l4 + 22 + before..l4 + 24 + before], &max.to_be_bytes()[..]);
            }
        }
    }

    #[test]
    fn whatever_the_options_nothing_breaks(
        mut options in vec(prop_oneof![2 => Just(2), 2 => Just(4), 1 => 0..8u8, 1 => any::<u8>()], 0..=40),
        kind in 0..4usize,
    ) {
        options.resize(options.len().next_multiple_of(4), 1);
        let (packet, l4) = packets(&syn(SYN, &options))[kind].clone();
        if let Some(new) = clamped(&packet, 300) {
            prop_assert!(is_right(&new, 6, l4));
        }
    }

    #[test]
    fn whatever_the_bytes_nothing_breaks(mut bytes in vec(any::<u8>(), 0..150), v6: bool) {
        if bytes.len() > 10 {
            bytes[0] = if v6 { 0x60 } else { bytes[0] & 0xf | 0x40 };
            bytes[if v6 { 4 } else { 2 }] = 0;
            bytes[if v6 { 6 } else { 9 }] = 6;
        }
        let len = bytes.len();
        clamp(&mut bytes, 1);
        prop_assert_eq!(bytes.len(), len);
    }
}

//! Super-frames cut into segments, and put together again.

use super::build::{authentication, ethernet, extension, fragment_header};
use super::tcp::{Tcp, is_right, words};
use crate::inner::Lie;
use crate::segment::{Plan, Refused};
use proptest::prelude::*;

/// A packet behind `l3` bytes of Ethernet, with padding behind it.
#[derive(Clone, Debug)]
struct Frame {
    bytes: Vec<u8>,
    l3: usize,
    /// From the begin of the IP packet.
    l4: usize,
    tcp: Tcp,
}

/// The segment in every kind of frame.
fn frames(tcp: &Tcp) -> Vec<Frame> {
    let chain = vec![extension(0, 1), extension(60, 3), fragment_header(0, false)];
    let packets = [
        (tcp.v4(0), 20),
        (tcp.v4(12), 32),
        (tcp.v6(vec![]), 40),
        (tcp.v6(chain), 80),
    ];
    let mut all = vec![];
    for (tags, trailing) in [(None, 0), (Some((0x8100, 42)), 7)] {
        for (packet, l4) in &packets {
            let tags: Vec<_> = tags.into_iter().collect();
            let ether_type = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
            let bytes = ethernet(&tags, ether_type, packet, &vec![0xee; trailing]);
            let l3 = 14 + 4 * tags.len();
            all.push(Frame {
                bytes,
                l3,
                l4: *l4,
                tcp: tcp.clone(),
            });
        }
    }
    all.push(Frame {
        bytes: packets[0].0.clone(),
        l3: 0,
        l4: 20,
        tcp: tcp.clone(),
    });
    all
}

fn cut(frame: &Frame, mss: u16) -> Vec<Vec<u8>> {
    let plan = Plan::new(&frame.bytes, frame.l3, mss).expect("can be cut");
    let segments: Vec<_> = plan
        .segments()
        .map(|segment| {
            let mut fresh = frame.bytes[..plan.header_len()].to_vec();
            fresh.extend(&frame.bytes[segment.payload.clone()]);
            assert!(plan.finish(&segment, &mut fresh));
            assert!(fresh.len() <= plan.largest());
            fresh
        })
        .collect();
    assert_eq!(plan.count(), segments.len());
    assert_eq!(plan.segments().len(), segments.len());
    segments
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// What any IP and TCP receiver would check, and the header fields that must be those of the frame.
fn check_segment(frame: &Frame, segment: &[u8], index: usize) {
    let (whole, one) = (&frame.bytes[frame.l3..], &segment[frame.l3..]);
    let l4 = frame.l4;
    assert_eq!(segment[..frame.l3], frame.bytes[..frame.l3]);
    if one[0] >> 4 == 4 {
        assert_eq!(usize::from(word(one, 2)), one.len());
        assert_eq!(word(one, 4), word(whole, 4).wrapping_add(index as u16));
        assert_eq!(words(&one[..l4]), 0xffff);
        assert_eq!(one[6..10], whole[6..10]);
        assert_eq!(one[12..l4], whole[12..l4]);
    } else {
        assert_eq!(usize::from(word(one, 4)), one.len() - 40);
        assert_eq!(one[..4], whole[..4]);
        assert_eq!(one[6..l4], whole[6..l4]);
    }
    assert!(is_right(one, 6, l4), "segment {index}");
    let (whole, one) = (&whole[l4..], &one[l4..]);
    let header_len = 20 + frame.tcp.options.len();
    assert_eq!(one[..4], whole[..4]);
    assert_eq!(one[8..13], whole[8..13]);
    assert_eq!(one[14..16], whole[14..16]);
    assert_eq!(one[20..header_len], whole[20..header_len]);
}

/// Cuts, checks each segment and puts the stream together.
fn check(frame: &Frame, mss: u16) -> Vec<Vec<u8>> {
    let segments = cut(frame, mss);
    let payload = &frame.tcp.payload;
    let header_len = frame.l3 + frame.l4 + 20 + frame.tcp.options.len();
    assert_eq!(segments.len(), payload.len().div_ceil(mss.into()).max(1));
    let mut stream: Vec<u8> = vec![];
    for (index, segment) in segments.iter().enumerate() {
        check_segment(frame, segment, index);
        let tcp = &segment[frame.l3 + frame.l4..];
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        assert_eq!(sequence, frame.tcp.sequence.wrapping_add(stream.len() as u32));
        let data = &segment[header_len..];
        let is_last = index + 1 == segments.len();
        assert!(data.len() <= usize::from(mss) && (is_last || data.len() == usize::from(mss)));
        stream.extend(data);
    }
    assert_eq!(stream, *payload);
    segments
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i * 131 + i / 251) as u8 ^ seed).collect()
}

fn tcp(len: usize) -> Tcp {
    Tcp {
        flags: 0x18,
        options: vec![1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8],
        payload: bytes(len, 0),
        ..Tcp::default()
    }
}

#[test]
fn exact_multiples_and_one_byte_over() {
    for len in [0, 1, 99, 100, 101, 1000, 1001, 999] {
        for frame in frames(&tcp(len)) {
            let last = check(&frame, 100).pop().expect("at least one");
            let payload = last.len() - frame.l3 - frame.l4 - 32;
            assert_eq!(payload, if len == 0 { 0 } else { (len - 1) % 100 + 1 });
        }
    }
}

#[test]
fn one_segment_is_the_frame_itself() {
    for frame in frames(&tcp(1000)) {
        let end = frame.l3 + frame.l4 + 32 + 1000;
        assert_eq!(check(&frame, 1000), [&frame.bytes[..end]]);
        assert_eq!(check(&frame, 0xffff), [&frame.bytes[..end]]);
    }
}

#[test]
fn the_largest_there_are() {
    for (l4, len) in [(20, 65495), (40, 65515)] {
        let payload = bytes(len, 1);
        let tcp = Tcp {
            payload,
            ..Tcp::default()
        };
        let bytes = if l4 == 20 { tcp.v4(0) } else { tcp.v6(vec![]) };
        let frame = Frame {
            bytes,
            l3: 0,
            l4,
            tcp,
        };
        for mss in [1, 536, 1460, 0xffff] {
            assert_eq!(check(&frame, mss).len(), len.div_ceil(mss.into()));
        }
    }
}

/// FIN and PSH come last, CWR first, the others everywhere.
#[test]
fn every_combination_of_flags() {
    for flags in (0..=255u8).filter(|f| f & 0x06 == 0) {
        let tcp = Tcp {
            flags,
            urgent: 150,
            ..tcp(250)
        };
        for frame in frames(&tcp) {
            let seen = check(&frame, 100);
            for (index, segment) in seen.iter().enumerate() {
                let tcp = &segment[frame.l3 + frame.l4..];
                let mut expected = flags;
                if index != 2 {
                    expected &= !0x09;
                }
                if index != 0 {
                    expected &= !0x80;
                }
                let mut urgent = 150;
                if flags & 0x20 != 0 {
                    // Urgent data end at byte 150 of the stream: in the first two segments.
                    urgent = [150, 50, 0][index];
                    if index == 2 {
                        expected &= !0x20;
                    }
                }
                assert_eq!((tcp[13], word(tcp, 18)), (expected, urgent), "{flags:#x}");
            }
        }
    }
}

#[test]
fn what_is_refused() {
    let refused = |packet: &[u8], mss| Plan::new(packet, 0, mss).expect_err("refused");
    let good = tcp(300);
    for packet in [good.v4(0), good.v6(vec![])] {
        let is_v4 = packet[0] >> 4 == 4;
        let l4 = if is_v4 { 20 } else { 40 };
        let change = |at: usize, value: u8| {
            let mut packet = packet.clone();
            packet[at] = value;
            refused(&packet, 100)
        };
        assert_eq!(refused(&packet, 0), Refused::NoSize);
        for flags in [0x02, 0x12, 0x04, 0x14, 0x06] {
            assert_eq!(change(l4 + 13, flags), Refused::Control);
        }
        assert_eq!(change(if is_v4 { 9 } else { 6 }, 17), Refused::NotTcp);
        assert_eq!(change(l4 + 12, 0x40), Refused::TcpHeader);
        assert_eq!(change(0, 0x54), Refused::Ip(Lie::Version));
        for len in 0..packet.len() {
            let lie = if len < l4 { Lie::Short } else { Lie::TotalLength };
            assert_eq!(refused(&packet[..len], 100), Refused::Ip(lie), "{len} bytes");
            let mut short = packet[..len].to_vec();
            if len >= l4 {
                let (at, value) = if is_v4 { (2, len) } else { (4, len - 40) };
                short[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
                let error = Plan::new(&short, 0, 100).err();
                assert_eq!(error, (len < l4 + 32).then_some(Refused::TcpHeader));
            }
        }
        assert_eq!(
            Plan::new(&packet, packet.len() + 9, 100).err(),
            Some(Refused::Ip(Lie::Short))
        );
    }
    for field in [0x2000u16, 0x2001, 0x0001] {
        let mut packet = good.v4(0);
        packet[6..8].copy_from_slice(&field.to_be_bytes());
        assert_eq!(refused(&packet, 100), Refused::Fragment);
    }
    for fragment in [fragment_header(0, true), fragment_header(8, false)] {
        assert_eq!(refused(&good.v6(vec![fragment]), 100), Refused::Fragment);
    }
    assert_eq!(refused(&good.v6(vec![authentication(4)]), 100), Refused::NotTcp);
    let mut routing = extension(43, 1);
    routing.1[3] = 2;
    assert_eq!(refused(&good.v6(vec![routing]), 100), Refused::SourceRouted);
}

#[test]
fn bytes_of_another_length_are_not_finished() {
    let frame = &frames(&tcp(250))[0];
    let plan = Plan::new(&frame.bytes, frame.l3, 100).expect("can be cut");
    let last = plan.segments().last().expect("three");
    for len in (0..200).filter(|&len| len != plan.header_len() + 50) {
        let mut bytes = vec![0x45; len];
        assert!(!plan.finish(&last, &mut bytes));
        assert_eq!(bytes, vec![0x45; len]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_size(
        len in prop_oneof![0..3000usize, 0..65000usize], mss in prop_oneof![1..300u16, 300..9000u16, 1..=0xffffu16],
        sequence: u32, flags: u8, seed: u8, kind in 0..9usize,
    ) {
        let flags = flags & !0x06;
        let len = if mss < 20 { len.min(3000) } else { len };
        let tcp = Tcp { sequence, flags, payload: bytes(len, seed), ..tcp(0) };
        check(&frames(&tcp)[kind], mss);
    }

    #[test]
    fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..150), v6: bool, mss in 1..60u16) {
        if bytes.len() > 16 {
            bytes[0] = if v6 { 0x60 } else { bytes[0] & 0xf | 0x40 };
            bytes[if v6 { 4 } else { 2 }] = 0;
            bytes[if v6 { 6 } else { 9 }] = 6;
        }
        if let Ok(plan) = Plan::new(&bytes, 0, mss) {
            for segment in plan.segments() {
                let mut fresh = bytes[..plan.header_len()].to_vec();
                fresh.extend(&bytes[segment.payload.clone()]);
                prop_assert!(plan.finish(&segment, &mut fresh));
            }
        }
    }
}

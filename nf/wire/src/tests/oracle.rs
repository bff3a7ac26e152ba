//! A slow and obvious reading of a frame as UDP over IPv4, against the parser.

use super::props::{any_v4, mutated};
use crate::frame::{Lie, Outer, Parsed, parse};
use proptest::prelude::*;

/// What a frame is, in the words of RFC 791 and RFC 768.
#[derive(Debug, PartialEq)]
enum Reading {
    NotUdpOverIpv4,
    BadIp {
        ports: (u16, u16),
    },
    BadUdp {
        ports: (u16, u16),
    },
    Piece {
        ip: usize,
        data: usize,
        packet: usize,
    },
    Whole {
        ip: usize,
        udp: usize,
        payload: Vec<u8>,
        ports: (u16, u16),
        checksum: u16,
    },
}

/// Two bytes as a number; zero past the end.
fn number(frame: &[u8], at: usize) -> u16 {
    let byte = |at: usize| u16::from(*frame.get(at).unwrap_or(&0));
    byte(at) * 256 + byte(at + 1)
}

fn ports(frame: &[u8], at: usize) -> (u16, u16) {
    if frame.len() < at + 4 {
        (0, 0)
    } else {
        (number(frame, at), number(frame, at + 2))
    }
}

fn read(frame: &[u8]) -> Reading {
    let mut ether_type = 12;
    let mut tags = 0;
    while [0x8100, 0x88a8].contains(&number(frame, ether_type)) {
        tags += 1;
        ether_type += 4;
    }
    let ip = ether_type + 2;
    if tags > 2 || frame.len() < ip + 20 || number(frame, ether_type) != 0x0800 {
        return Reading::NotUdpOverIpv4;
    }
    if frame[ip] / 16 != 4 || frame[ip + 9] != 17 {
        return Reading::NotUdpOverIpv4;
    }
    let header = usize::from(frame[ip] % 16) * 4;
    let packet = usize::from(number(frame, ip + 2));
    let offset = number(frame, ip + 6) % 8192 * 8;
    let more = number(frame, ip + 6) / 8192 % 2 == 1;
    if header < 20 || packet < header || frame.len() - ip < packet {
        let at = ip + header.max(20);
        return Reading::BadIp {
            ports: if offset > 0 { (0, 0) } else { ports(frame, at) },
        };
    }
    if more || offset > 0 {
        return Reading::Piece {
            ip,
            data: ip + header,
            packet,
        };
    }
    let udp = ip + header;
    let datagram = &frame[udp..ip + packet];
    if datagram.len() < 8 || usize::from(number(datagram, 4)) != datagram.len() {
        return Reading::BadUdp {
            ports: ports(frame, udp),
        };
    }
    let payload = datagram[8..].to_vec();
    Reading::Whole {
        ip,
        udp,
        payload,
        ports: ports(frame, udp),
        checksum: number(datagram, 6),
    }
}

/// The parser's answer in the same words.
fn said(frame: &[u8]) -> Reading {
    let ports = |o: &Outer| (o.src_port(), o.dst_port());
    match parse(frame, frame.len()) {
        Parsed::Udp(d) if !d.outer.is_v6() => {
            let (ip, udp, at) = (usize::from(d.l3), usize::from(d.l4), usize::from(d.payload));
            assert_eq!(at, udp + 8);
            let payload = frame[at..at + usize::from(d.payload_len)].to_vec();
            let checksum = number(frame, udp + 6);
            assert_eq!(d.no_checksum, checksum == 0);
            assert_eq!(d.outer.options_len(), udp - ip - 20);
            assert_eq!(d.outer.src().to_string(), dotted(&frame[ip + 12..]));
            assert_eq!(d.outer.dst().to_string(), dotted(&frame[ip + 16..]));
            Reading::Whole {
                ip,
                udp,
                payload,
                ports: ports(&d.outer),
                checksum,
            }
        }
        Parsed::Fragment(f) if !f.outer.is_v6() => {
            assert!(f.plain);
            assert_eq!(
                f.outer.dst().to_string(),
                dotted(&frame[usize::from(f.l3) + 16..])
            );
            Reading::Piece {
                ip: f.l3.into(),
                data: f.data.into(),
                packet: f.ip_len.into(),
            }
        }
        Parsed::Broken(Lie::Ip, o) if !o.is_v6() => Reading::BadIp { ports: ports(&o) },
        Parsed::Broken(Lie::Udp, o) if !o.is_v6() => Reading::BadUdp { ports: ports(&o) },
        _ => Reading::NotUdpOverIpv4,
    }
}

fn dotted(a: &[u8]) -> String {
    format!("{}.{}.{}.{}", a[0], a[1], a[2], a[3])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn valid_frames_are_read_alike(frame in any_v4()) {
        let right = matches!(said(&frame), Reading::Whole { .. } | Reading::Piece { .. });
        prop_assert!(right, "every length is right");
        prop_assert_eq!(said(&frame), read(&frame));
    }

    #[test]
    fn mutated_frames_are_read_alike(frame in mutated(any_v4())) {
        prop_assert_eq!(said(&frame), read(&frame));
    }

    #[test]
    fn cut_frames_are_read_alike(frame in any_v4(), cut in any::<prop::sample::Index>()) {
        let frame = &frame[..cut.index(frame.len() + 1)];
        prop_assert_eq!(said(frame), read(frame));
    }
}

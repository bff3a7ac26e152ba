//! What the kernel is told on a tunnel interface.

use std::net::{Ipv4Addr, Ipv6Addr};

use nf_path::buf::Buf;
use nf_path::outbound::answer::{Answer, answer};
use nf_path::tunnel::{Mode, Tunnel};
use nf_path::twin::HeapBuf;
use nf_state::{Addresses, Peer, Update};
use proptest::prelude::*;

use crate::packets::{Shape, filler, words};
use crate::pool::{Pool, leaks_nothing};

const KERNEL: [u8; 6] = [2, 0, 0, 0, 0, 9];
const ASKER: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);

fn tunnel(mode: Mode) -> Tunnel<()> {
    let mut tunnel = Tunnel::new(KERNEL);
    tunnel.mode = mode;
    for (peer, prefixes) in [
        (
            0x01_0203,
            ["10.8.0.2/32", "fd00::2/128", "192.168.0.0/16", "fd01::/32"],
        ),
        (
            7,
            ["10.8.0.3/32", "fd00::3/128", "192.168.9.0/24", "fd01:0:9::/48"],
        ),
    ] {
        let new = Box::new(Peer::new(peer, Addresses::default()));
        assert!(tunnel.apply(Update::AddPeer(new)).is_ok());
        for prefix in prefixes.map(|p| p.parse().unwrap()) {
            assert!(tunnel.apply(Update::AddRoute { peer, prefix }).is_ok());
        }
    }
    tunnel
}

fn mac(peer: u32) -> [u8; 6] {
    let [_, a, b, c] = peer.to_be_bytes();
    [0x02, 0x6f, 0x76, a, b, c]
}

fn arp(sender: &str, target: &str) -> Vec<u8> {
    let (sender, target): (Ipv4Addr, Ipv4Addr) = (sender.parse().unwrap(), target.parse().unwrap());
    let head = [0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1];
    [
        &[0xff; 6][..],
        &KERNEL,
        &head,
        &KERNEL,
        &sender.octets(),
        &[0; 6],
        &target.octets(),
    ]
    .concat()
}

/// An ICMPv6 message with the right checksum.
fn icmpv6(source: Ipv6Addr, hops: u8, mut message: Vec<u8>) -> Vec<u8> {
    let dst: Ipv6Addr = "ff02::1:ff00:2".parse().unwrap();
    let len = message.len() as u8;
    let sum = words(&[&source.octets(), &dst.octets(), &[0, len, 0, 58], &message]);
    message[2..4].copy_from_slice(&(!sum).to_be_bytes());
    let ip = [0x60, 0, 0, 0, 0, len, 58, hops];
    [
        &[0x33, 0x33, 0xff, 0, 0, 2],
        &KERNEL[..],
        &[0x86, 0xdd],
        &ip,
        &source.octets(),
        &dst.octets(),
        &message,
    ]
    .concat()
}

fn solicitation(source: Ipv6Addr, target: &str) -> Vec<u8> {
    let target: Ipv6Addr = target.parse().unwrap();
    let mut message = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target.octets()].concat();
    if !source.is_unspecified() {
        message.extend([1, 1]);
        message.extend(KERNEL);
    }
    icmpv6(source, 255, message)
}

fn ask(frame: &[u8], mode: Mode) -> Answer<HeapBuf> {
    answer(frame, &tunnel(mode), &mut Pool::endless())
}

fn reply(frame: &[u8]) -> Vec<u8> {
    match ask(frame, Mode::Mp) {
        Answer::Reply(reply) => reply.data().to_vec(),
        other => panic!("{other:?}"),
    }
}

const KNOWN: [(&str, &str, u32); 4] = [
    ("10.8.0.2", "fd00::2", 0x01_0203),
    ("10.8.0.3", "fd00::3", 7),
    ("192.168.8.1", "fd01:0:8::1", 0x01_0203),
    ("192.168.9.1", "fd01:0:9::1", 7),
];

#[test]
fn the_longest_prefix_names_the_peer() {
    leaks_nothing(|| {
        for (v4, v6, peer) in KNOWN {
            let target: Ipv4Addr = v4.parse().unwrap();
            let expected = [
                &KERNEL[..],
                &mac(peer),
                &[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2],
                &mac(peer),
                &target.octets(),
                &KERNEL,
                &[10, 8, 0, 1],
            ];
            assert_eq!(reply(&arp("10.8.0.1", v4)), expected.concat(), "{v4}");

            let target: Ipv6Addr = v6.parse().unwrap();
            let mut got = reply(&solicitation(ASKER, v6));
            let sum = words(&[&target.octets(), &ASKER.octets(), &[0, 32, 0, 58], &got[54..]]);
            assert_eq!(sum, 0xffff);
            got[56..58].fill(0);
            let expected = [
                &KERNEL[..],
                &mac(peer),
                &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255],
                &target.octets(),
                &ASKER.octets(),
                &[136, 0, 0, 0, 0x60, 0, 0, 0],
                &target.octets(),
                &[2, 1],
                &mac(peer),
            ];
            assert_eq!(got, expected.concat(), "{v6}");
        }
    });
}

/// Probes, announcements, addresses of nobody, and the rest of what a kernel says.
fn noise() -> Vec<Vec<u8>> {
    let mut reply = arp("10.8.0.1", "10.8.0.2");
    reply[21] = 2;
    let report = icmpv6(ASKER, 1, vec![143, 0, 0, 0, 0, 0, 0, 0]);
    // Behind hop-by-hop options with a router alert, as the kernel sends it.
    let mut behind = report.clone();
    behind[20] = 0;
    behind[19] += 8;
    behind.splice(54..54, [58, 0, 5, 2, 0, 0, 1, 0]);
    vec![
        arp("0.0.0.0", "10.8.0.2"),
        arp("10.8.0.2", "10.8.0.2"),
        arp("10.8.0.1", "10.8.0.1"),
        arp("10.8.0.1", "10.8.0.77"),
        reply,
        solicitation(Ipv6Addr::UNSPECIFIED, "fd00::2"),
        solicitation(ASKER, "fd00::77"),
        solicitation(ASKER, "fe80::1"),
        icmpv6(ASKER, 255, vec![133, 0, 0, 0, 0, 0, 0, 0]),
        icmpv6(ASKER, 255, [&[136, 0, 0, 0, 0, 0, 0, 0][..], &[0; 16]].concat()),
        report,
        behind,
    ]
}

#[test]
fn the_rest_of_the_kernels_talk_is_noise() {
    leaks_nothing(|| {
        for (n, frame) in noise().iter().enumerate() {
            for mode in [Mode::Mp, Mode::P2p] {
                assert!(matches!(ask(frame, mode), Answer::Noise), "{n}, {mode:?}");
            }
        }
        for (v4, v6, _) in KNOWN {
            for frame in [arp("10.8.0.1", v4), solicitation(ASKER, v6)] {
                assert!(matches!(ask(&frame, Mode::P2p), Answer::Noise), "one peer");
            }
        }
    });
}

#[test]
fn other_frames_are_left_to_the_caller() {
    let mut frames = vec![vec![], vec![0; 13], vec![0xff; 60]];
    for shape in Shape::ALL {
        frames.extend([shape.udp(&filler(80)), shape.tcp(2, b"")]);
    }
    // Echo request, over both.
    frames.push(icmpv6(ASKER, 64, vec![128, 0, 0, 0, 0, 1, 0, 1]));
    frames.push(Shape::ALL[0].frame().protocol(1).payload(&[8, 0, 0, 0]).build());
    for frame in frames {
        for mode in [Mode::Mp, Mode::P2p] {
            assert!(matches!(ask(&frame, mode), Answer::NotNeighbour), "{frame:02x?}");
        }
    }
}

#[test]
fn lies_are_told_apart() {
    let ask_arp = arp("10.8.0.1", "10.8.0.2");
    let ask_v6 = solicitation(ASKER, "fd00::2");
    let mut bad: Vec<_> = (14..42).map(|len| ask_arp[..len].to_vec()).collect();
    bad.extend((55..ask_v6.len()).map(|len| ask_v6[..len].to_vec()));
    // Hardware type, protocol, address lengths; hop limit, code, target, option length.
    for (frame, at) in [(&ask_arp, 15), (&ask_arp, 16), (&ask_arp, 18), (&ask_arp, 19)]
        .into_iter()
        .chain([21, 55, 57, 62, 70, 79].map(|at| (&ask_v6, at)))
    {
        let mut frame = frame.clone();
        frame[at] ^= 0x80;
        bad.push(frame);
    }
    for frame in bad {
        let got = ask(&frame, Mode::Mp);
        assert!(matches!(got, Answer::Malformed), "{got:?}: {frame:02x?}");
    }
}

#[test]
fn without_a_buffer_there_is_no_reply() {
    leaks_nothing(|| {
        for frame in [arp("10.8.0.1", "10.8.0.2"), solicitation(ASKER, "fd00::2")] {
            let got = answer(&frame, &tunnel(Mode::Mp), &mut Pool::of(0, 1));
            assert!(matches!(got, Answer::NoBuffer));
        }
    });
}

proptest! {
    #[test]
    fn nothing_panics(noise in prop::collection::vec(any::<u8>(), 0..120), like: bool, cut in 0..87usize) {
        let real = if like { arp("10.8.0.1", "10.8.0.2") } else { solicitation(ASKER, "fd00::2") };
        let frame = [&real[..cut.min(real.len())], &noise].concat();
        for mode in [Mode::Mp, Mode::P2p] {
            if let Answer::Reply(reply) = ask(&frame, mode) {
                prop_assert!([42, 86].contains(&reply.packet_len()));
                prop_assert_eq!(mode, Mode::Mp);
            }
        }
    }
}

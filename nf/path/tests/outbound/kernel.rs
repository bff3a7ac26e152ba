//! What the kernel says on a tunnel interface by itself.

use crate::bed::*;
use crate::far::Far;
use crate::peers::*;
use nf_path::twin::HeapBuf;
use nf_path::verdict::DropReason;
use nf_wire::ether::{self, Mac, peer_mac};
use std::net::Ipv4Addr;

fn arp(sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let mut frame = ether::header([0xff; 6], INTERFACE, 0x0806).to_vec();
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(INTERFACE);
    frame.extend(sender.octets());
    frame.extend([0; 6]);
    frame.extend(target.octets());
    frame
}

/// An ICMPv6 message of this type, with `extension` in front of it.
fn icmp(to: Mac, kind: u8, extension: &[u8]) -> Vec<u8> {
    let source: std::net::Ipv6Addr = "fe80::1".parse().unwrap();
    let destination: std::net::Ipv6Addr = "ff02::2".parse().unwrap();
    let message = [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &[0; 16]].concat();
    let mut packet = vec![0x60, 0, 0, 0, 0, (extension.len() + message.len()) as u8];
    // Multicast listener reports are sent with a hop limit of 1.
    packet.extend(if extension.is_empty() { [58, 255] } else { [0, 1] });
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend(extension);
    packet.extend(message);
    framed(to, &packet)
}

/// Hop-by-hop options with a router alert, before ICMPv6.
const ALERT: [u8; 8] = [58, 0, 5, 2, 0, 0, 1, 0];
const ALL_ROUTERS: Mac = [0x33, 0x33, 0, 0, 0, 2];

#[test]
fn an_address_of_a_peer_is_answered_for_it() {
    let mut bed = Bed::default();
    let sent = bed.push([HeapBuf::new(&arp([10, 8, 0, 1].into(), address(5)))]);
    assert!(sent.nic.is_empty() && sent.tunnel.len() == 1);
    let reply = &sent.tunnel[0].frame;
    assert_eq!((&reply[..6], &reply[22..28]), (&INTERFACE[..], &peer_mac(5)[..]));
    assert_eq!(bed.totals().neighbour_replies, 1);
    bed.pool.small.set(0);
    bed.push([HeapBuf::new(&arp([10, 8, 0, 1].into(), address(5)))]);
    assert_eq!(bed.drops(), [(DropReason::NoBuffer, 1)]);
}

#[test]
fn other_talk_is_noise_in_both_modes() {
    let own = Ipv4Addr::new(10, 8, 0, 1);
    let noise = [
        arp(own, [10, 9, 9, 9].into()),
        arp([0; 4].into(), address(1)),
        arp(own, own),
        icmp(ALL_ROUTERS, 133, &[]),
        icmp(ALL_ROUTERS, 143, &ALERT),
        icmp(ALL_ROUTERS, 131, &ALERT),
        icmp(peer_mac(1), 133, &[]),
    ];
    for mut bed in [Bed::default(), Bed::p2p(Setup::default(), 1)] {
        let sent = bed.push(noise.iter().map(|frame| HeapBuf::new(frame)));
        assert_eq!(sent, Sent::default());
        assert_eq!(
            (bed.totals().kernel_noise, bed.drops()),
            (noise.len() as u64, vec![])
        );
    }
}

#[test]
fn in_p2p_mode_nothing_is_answered() {
    let mut bed = Bed::p2p(Setup::default(), 5);
    let sent = bed.push([HeapBuf::new(&arp([10, 8, 0, 1].into(), address(5)))]);
    assert_eq!(sent, Sent::default());
    assert_eq!(bed.totals().kernel_noise, 1);
}

#[test]
fn echo_requests_and_hop_by_hop_options_travel() {
    let mut bed = Bed::default();
    let ping = icmp(peer_mac(3), 128, &[]);
    let alert = icmp(peer_mac(3), 128, &ALERT);
    let sent = bed.push([HeapBuf::new(&ping), HeapBuf::new(&alert), buf(3, 60, 1)]);
    let opened: Vec<_> = Far::default()
        .open(&sent)
        .into_iter()
        .map(|(_, inner)| inner)
        .collect();
    assert_eq!(
        opened,
        [ping[14..].to_vec(), alert[14..].to_vec(), packet(3, 60, 1)]
    );
}

#[test]
fn an_arp_packet_that_lies_is_dropped() {
    let mut bed = Bed::default();
    let mut lie = arp([10, 8, 0, 1].into(), address(5));
    lie[18] = 7;
    bed.push([HeapBuf::new(&lie), HeapBuf::new(&lie[..30])]);
    assert_eq!(bed.drops(), [(DropReason::TunnelLength, 2)]);
}

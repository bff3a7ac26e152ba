//! The bytes that a translation changes: one address, one port, the checksums over them, layer 2.

use core::net::SocketAddr;
use nf_state::Way;
use nf_wire::frame::Datagram;
use nf_wire::inner::{self, Piece, UDP};
use nf_wire::{checksum, ether, ipv4, ipv6};

/// One end of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Source,
    Destination,
}

/// Whether the addresses may be changed of a datagram whose frame lies in one piece: its layer 4 checksum covers those
/// in the header, which a source route would make untrue, and no authentication header (RFC 4302) covers them.
pub(crate) fn is_translatable(frame: &[u8], udp: &Datagram) -> bool {
    frame
        .get(usize::from(udp.l3)..)
        .and_then(|packet| inner::parse(packet).ok())
        .is_some_and(|ip| ip.protocol == UDP && ip.piece == Piece::Whole && !ip.source_routed)
}

/// Gives one end of the datagram another address and port. The IPv4 header checksum and the UDP checksum change with it
/// (RFC 1624): they are right after it if they were before, and a UDP checksum of zero, which is none, stays.
/// False, and the frame as it was, when the address is of the other IP version or `udp` is not of this frame.
pub(crate) fn set_address(frame: &mut [u8], udp: &Datagram, end: End, to: SocketAddr) -> bool {
    let (l3, l4) = (usize::from(udp.l3), usize::from(udp.l4));
    let header_len = if udp.outer.is_v6() {
        ipv6::HEADER_LEN
    } else {
        ipv4::HEADER_LEN
    };
    if udp.outer.is_v6() != to.is_ipv6() || l3 + header_len > l4 || l4 + 8 > frame.len() {
        return false;
    }
    let second = usize::from(end == End::Destination);
    let udp_sum = Some(l4 + 6);
    match to {
        SocketAddr::V4(a) => {
            let (at, octets) = (l3 + 12 + 4 * second, a.ip().octets());
            replace(frame, at, &octets, Some(l3 + 10), udp_sum);
        }
        SocketAddr::V6(a) => replace(frame, l3 + 8 + 16 * second, &a.ip().octets(), None, udp_sum),
    }
    replace(frame, l4 + 2 * second, &to.port().to_be_bytes(), None, udp_sum);
    true
}

/// Replaces bytes, an even number of them, and updates the checksums at these places.
fn replace(frame: &mut [u8], at: usize, new: &[u8], ip_sum: Option<usize>, udp_sum: Option<usize>) {
    for (at, new) in (at..).step_by(2).zip(new.chunks_exact(2)) {
        let new = u16::from_be_bytes([new[0], new[1]]);
        let old = get(frame, at);
        put(frame, at, new);
        if let Some(sum) = ip_sum {
            put(frame, sum, checksum::update16(get(frame, sum), old, new));
        }
        if let Some(sum) = udp_sum {
            put(frame, sum, checksum::update16_udp(get(frame, sum), old, new));
        }
    }
}

fn get(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

fn put(frame: &mut [u8], at: usize, word: u16) {
    frame[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

/// Sends the frame another way: destination MAC address and VLAN tags. One with another number of tags stays as it is.
pub(crate) fn set_way(frame: &mut [u8], way: &Way) {
    let Some((_, l3, tags)) = ether::layer3(frame) else {
        return;
    };
    if tags.count != way.tags.count {
        return;
    }
    frame[..6].copy_from_slice(&way.dst);
    let places = (12..l3 - 2).step_by(ether::TAG_LEN);
    for (i, (at, tci)) in places.zip(way.tags.tci).enumerate() {
        let service = way.tags.service >> i & 1 != 0;
        put(frame, at, if service { ether::QINQ } else { ether::VLAN });
        put(frame, at + 2, tci);
    }
}

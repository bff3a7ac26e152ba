//! The bytes of frames: outer headers and inner packets.

use crate::program::cli::Direction;
use nf_wire::ether::{self, Mac};
use nf_wire::{checksum, ipv4};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// Where the UDP payload begins: Ethernet, IPv4 without options, UDP.
pub const PAYLOAD: usize = ether::HEADER_LEN + ipv4::HEADER_LEN + UDP_LEN;
/// Bytes of a UDP header.
const UDP_LEN: usize = 8;
/// The address and port of the measured gateway.
const GATEWAY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 1194);
/// The same.
pub const LISTEN: SocketAddr = SocketAddr::V4(GATEWAY);
/// The tunnel interface's MAC address.
pub const INTERFACE: Mac = [0x02, 0, 0, 0, 0, 1];
/// The NIC port's.
pub const NIC: Mac = [0x02, 0, 0, 0, 0, 2];
/// That of the router, behind which all peers are.
pub const ROUTER: Mac = [0x02, 0, 0, 0, 0, 3];
/// The other end of every inner packet.
const INNER_HOST: Ipv4Addr = Ipv4Addr::new(10, 255, 255, 1);
/// Destinations of outbound frames that are no peer's: a multicast group's, a peer's that there is not.
const STRANGERS: [Mac; 2] = [[0x01, 0, 0x5e, 0, 0, 5], ether::peer_mac(0xff_fffe)];

/// A peer's VPN address.
pub fn inner_address(peer: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + 2 + peer)
}

/// Where a peer's records come from and go to.
pub fn outer_address(peer: u32) -> SocketAddrV4 {
    let [high, low] = ((peer >> 8) as u16).to_be_bytes();
    SocketAddrV4::new(Ipv4Addr::new(198, 18, high, low), 20_000 + (peer & 0xff) as u16)
}

/// Outer headers of what a peer sends; `foreign`: to a port on which nobody listens.
pub fn received(frame: &mut [u8], peer: u32, foreign: bool) {
    let port = if foreign { 53 } else { GATEWAY.port() };
    let to = SocketAddrV4::new(*GATEWAY.ip(), port);
    // DF set: [0x40, 0] in the IPv4 header.
    headers(
        frame,
        ether::header(NIC, ROUTER, ether::IPV4),
        outer_address(peer),
        to,
        [0, 0, 0x40, 0],
    );
}

/// Outer headers of what is sent to a peer under this IPv4 id; the UDP checksum is 0.
fn sent(frame: &mut [u8], peer: u32, ip_id: [u8; 2]) {
    let [a, b] = ip_id;
    headers(
        frame,
        ether::header(ROUTER, NIC, ether::IPV4),
        GATEWAY,
        outer_address(peer),
        [a, b, 0, 0],
    );
}

/// Ethernet, IPv4 and UDP headers; the UDP checksum is 0.
fn headers(
    frame: &mut [u8],
    ethernet: [u8; 14],
    from: SocketAddrV4,
    to: SocketAddrV4,
    id_and_flags: [u8; 4],
) {
    let len = frame.len();
    frame[..14].copy_from_slice(&ethernet);
    let ip = &mut frame[14..34];
    ip.copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    ip[2..4].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    ip[4..8].copy_from_slice(&id_and_flags);
    ip[12..16].copy_from_slice(&from.ip().octets());
    ip[16..20].copy_from_slice(&to.ip().octets());
    let sum = !checksum::fold(checksum::sum(ip));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let udp = &mut frame[34..42];
    udp[..2].copy_from_slice(&from.port().to_be_bytes());
    udp[2..4].copy_from_slice(&to.port().to_be_bytes());
    udp[4..6].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    udp[6..].fill(0);
}

/// Whether a frame has the outer headers of a record to `peer`: any IPv4 id, and a UDP checksum that is right or, if
/// that was left to the port (`offload`), the sum of the pseudo-header, which a port is to be given.
pub fn is_sent(frame: &[u8], peer: u32, offload: bool) -> bool {
    if frame.len() < PAYLOAD {
        return false;
    }
    let mut right = vec![0; frame.len()];
    sent(&mut right, peer, [frame[18], frame[19]]);
    let pseudo = checksum::sum(&frame[26..34]) + 17 + (frame.len() - 34) as u64;
    let checksum_is_right = if offload {
        frame[40..42] == checksum::fold(pseudo).to_be_bytes()
    } else {
        frame[40..42] != [0, 0] && checksum::fold(pseudo + checksum::sum(&frame[34..])) == 0xffff
    };
    frame[..40] == right[..40] && checksum_is_right
}

/// The Ethernet header of a frame from the tunnel interface to a peer.
pub fn to_peer(peer: u32) -> [u8; ether::HEADER_LEN] {
    ether::header(ether::peer_mac(peer), INTERFACE, ether::IPV4)
}

/// The Ethernet header of a frame from the tunnel interface to nobody; `n` chooses between the kinds.
pub fn to_nobody(n: usize) -> [u8; ether::HEADER_LEN] {
    ether::header(STRANGERS[n % STRANGERS.len()], INTERFACE, ether::IPV4)
}

/// The inner packet number `n` of `peer`: an IPv4 header from or to the peer's address, then bytes that only this packet
/// has.
pub fn plaintext(inner: &mut [u8], direction: Direction, peer: u32, n: u32) {
    let mut byte = peer.wrapping_mul(0x9e37_79b9) ^ n;
    for chunk in inner.chunks_mut(4) {
        byte = byte.wrapping_mul(0x85eb_ca6b).wrapping_add(0xc2b2_ae35);
        chunk.copy_from_slice(&byte.to_ne_bytes()[..chunk.len()]);
    }
    let len = inner.len() as u16;
    inner[..2].copy_from_slice(&[0x45, 0]);
    inner[2..4].copy_from_slice(&len.to_be_bytes());
    inner[6..10].copy_from_slice(&[0, 0, 64, 17]);
    let (from, to) = match direction {
        Direction::In => (inner_address(peer), INNER_HOST),
        Direction::Out => (INNER_HOST, inner_address(peer)),
    };
    inner[12..16].copy_from_slice(&from.octets());
    inner[16..20].copy_from_slice(&to.octets());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_told_from_anything_else() {
        let mut frame = vec![7; PAYLOAD + 33];
        sent(&mut frame, 300, [1, 2]);
        assert!(
            !is_sent(&frame, 300, true) && !is_sent(&frame, 300, false),
            "no checksum"
        );
        let pseudo = checksum::sum(&frame[26..34]) + 17 + (frame.len() - 34) as u64;
        frame[40..42].copy_from_slice(&checksum::fold(pseudo).to_be_bytes());
        assert!(is_sent(&frame, 300, true) && !is_sent(&frame, 300, false));
        // The field holds the pseudo-header's sum already.
        let whole = !checksum::fold(checksum::sum(&frame[34..]));
        frame[40..42].copy_from_slice(&whole.to_be_bytes());
        assert!(is_sent(&frame, 300, false) && !is_sent(&frame, 300, true));
        assert!(!is_sent(&frame, 301, false));
        for at in (0..frame.len()).filter(|at| ![18, 19].contains(at)) {
            frame[at] ^= 4;
            assert!(!is_sent(&frame, 300, false), "byte {at}");
            frame[at] ^= 4;
        }
    }

    #[test]
    fn outer_addresses_differ() {
        let all: std::collections::HashSet<_> = (0..65_536).map(outer_address).collect();
        assert_eq!(all.len(), 65_536);
    }
}

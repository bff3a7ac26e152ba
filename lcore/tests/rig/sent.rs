//! What the kernel sends to peers, and what leaves for them.

use nf_path::aead::Aead;
use nf_path::twin::craft::{Frame, inner_v4};
use nf_path::twin::{SoftAead, SoftKey};
use nf_wire::ether;
use nf_wire::record::nonce;

use super::{CIPHER, GATEWAY, INTERFACE, LISTEN, NIC, key, remote, vpn_address};

/// The kernel's frame to a peer, around any packet.
pub fn to_peer(peer: u32, packet: &[u8]) -> Vec<u8> {
    let header = ether::header(ether::peer_mac(peer), INTERFACE, ether::IPV4);
    [&header[..], packet].concat()
}

/// The kernel's frame to a peer with an inner packet of `len` bytes that carries `number`.
pub fn kernels(peer: u32, number: u32, len: usize) -> Vec<u8> {
    let packet = inner_v4([10, 8, 0, 1].into(), vpn_address(peer), len, number);
    to_peer(peer, &packet)
}

/// The kernel's question for the MAC address of a peer (RFC 826).
pub fn arp_request(peer: u32) -> Vec<u8> {
    let mut frame = ether::header([0xff; 6], INTERFACE, 0x0806).to_vec();
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(INTERFACE);
    frame.extend([10, 8, 0, 1]);
    frame.extend([0; 6]);
    frame.extend(vpn_address(peer).octets());
    frame
}

/// The answer: the peer's MAC address.
pub fn arp_reply(peer: u32) -> Vec<u8> {
    let mut frame = ether::header(INTERFACE, ether::peer_mac(peer), 0x0806).to_vec();
    frame.extend([0, 1, 8, 0, 6, 4, 0, 2]);
    frame.extend(ether::peer_mac(peer));
    frame.extend(vpn_address(peer).octets());
    frame.extend(INTERFACE);
    frame.extend([10, 8, 0, 1]);
    frame
}

/// Peer id, packet id and inner packet of a frame that left at the NIC over IPv4, opened by the AEAD in plain Rust. The
/// outer addresses must be the peer's, lengths and checksums right.
pub fn opened(frame: &[u8]) -> (u32, u32, Vec<u8>) {
    let (peer, id) = ids(frame);
    let record = &frame[42..];
    let expected = outer_to(peer)
        .id(u16::from_be_bytes([frame[18], frame[19]]))
        .payload(record)
        .build();
    assert!(
        frame == expected,
        "outer headers of packet {id} to peer {peer}: {:x?}",
        &frame[..42]
    );
    let (key, tail) = key(peer);
    let (aad, rest) = record.split_first_chunk::<8>().expect("a header");
    let (tag, text) = rest.split_at(16);
    let mut text = text.to_vec();
    let key = SoftKey::new(CIPHER, &key);
    let own = SoftAead::new().open(&key, &nonce(id.to_be_bytes(), &tail), aad, &mut text);
    assert!(own == *tag, "tag of packet {id} to peer {peer}");
    (peer, id, text)
}

/// Peer id and packet id of a frame that left at the NIC over IPv4.
pub fn ids(frame: &[u8]) -> (u32, u32) {
    let word = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().expect("4 bytes"));
    (word(42) & 0xff_ffff, word(46))
}

/// The outer datagram to a peer, without payload.
pub fn outer_to(peer: u32) -> Frame {
    let local = LISTEN[0].parse().expect("an address");
    Frame::udp(local, remote(peer)).macs(NIC, GATEWAY)
}

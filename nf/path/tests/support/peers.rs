//! Peers, their keys, and what they send.

use nf_path::twin::craft::{self, Frame, inner_v4};
use nf_path::twin::{HeapBuf, SoftKey};
use nf_state::{Addresses, Cipher, Direction, KeySlot, Peer, PeerTable, Slot};
use nf_wire::ether;
use nf_wire::record::HeaderWord;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Tunnel 0 listens here, ...
pub const LISTEN_V4: &str = "192.0.2.1:1194";
/// ... here, ...
pub const LISTEN_PORT: &str = "192.0.2.1:1195";
/// ... and here.
pub const LISTEN_V6: &str = "[2001:db8::1]:1194";
/// Tunnel 1, with peers and keys like those of tunnel 0, listens here, ...
pub const LISTEN_OTHER: &str = "192.0.2.2:1194";
/// ... and here.
pub const LISTEN_OTHER_V6: &str = "[2001:db8::2]:1194";
/// The MAC address of both tunnel interfaces.
pub const INTERFACE: ether::Mac = [2, 0, 0, 0, 0, 9];
/// The cipher of all keys.
pub const CIPHER: Cipher = Cipher::Aes128Gcm;
/// Peers 1 to this many, each with key 0 (primary) and key 1 (secondary).
pub const PEERS: u32 = 8;

/// Key and nonce tail of a peer's key id.
pub fn key(peer: u32, key_id: u8) -> ([u8; 16], [u8; 8]) {
    let mut key = [key_id; 16];
    key[..8].fill(peer as u8);
    (key, [0xa0 ^ peer as u8 ^ key_id << 4; 8])
}

/// A key slot as the control side would make it.
pub fn key_slot(cipher: Cipher, key_id: u8, key: &[u8], nonce_tail: [u8; 8]) -> Arc<KeySlot<SoftKey>> {
    let direction = || Direction {
        key: SoftKey::new(cipher, key),
        nonce_tail,
    };
    KeySlot::new(cipher, key_id, direction(), direction())
}

/// A record of `peer` under its key `key_id` around any plaintext.
pub fn record_of(peer: u32, key_id: u8, packet_id: u32, plaintext: &[u8]) -> Vec<u8> {
    let (key, tail) = key(peer, key_id);
    craft::record(
        CIPHER,
        &key,
        &tail,
        HeaderWord::data_v2(key_id, peer),
        packet_id,
        plaintext,
    )
}

/// The inner IPv4 address of a peer.
pub fn address_of(peer: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 8, 0, peer as u8 + 1)
}

/// An inner packet of `len` bytes from the peer's own address, with this number in it.
pub fn inner(peer: u32, len: usize, number: u32) -> Vec<u8> {
    inner_v4(address_of(peer), Ipv4Addr::new(10, 8, 0, 1), len, number)
}

/// The peer's outer datagram over IPv4, without payload.
pub fn outer(peer: u32) -> Frame {
    let source = format!("198.51.100.{peer}:{}", 40000 + peer);
    Frame::udp(source.parse().unwrap(), LISTEN_V4.parse().unwrap())
}

/// The peer's outer datagram over IPv6, without payload.
pub fn outer_v6(peer: u32) -> Frame {
    let source = format!("[2001:db8:1::{peer}]:{}", 40000 + peer);
    Frame::udp(source.parse().unwrap(), LISTEN_V6.parse().unwrap())
}

/// A frame with a record of `peer`, key 0, whose inner packet has `len` bytes and the packet id as its number.
pub fn frame(peer: u32, packet_id: u32, len: usize) -> Vec<u8> {
    outer(peer)
        .payload(&record_of(peer, 0, packet_id, &inner(peer, len, packet_id)))
        .build()
}

/// [`frame`] in a buffer.
pub fn buf(peer: u32, packet_id: u32, len: usize) -> HeapBuf {
    HeapBuf::new(&frame(peer, packet_id, len))
}

/// A control packet (P_CONTROL_V1) of `peer`.
pub fn control(peer: u32) -> HeapBuf {
    HeapBuf::new(&outer(peer).payload(&[0x20; 40]).build())
}

/// Peers 1 to [`PEERS`]; each is bound to the source address of [`outer`].
pub fn peers() -> PeerTable<SoftKey> {
    let mut table = PeerTable::new();
    for id in 1..=PEERS {
        let mut peer = Peer::new(
            id,
            Addresses {
                v4: Some(address_of(id)),
                v6: None,
            },
        );
        for (key_id, slot) in [(0, Slot::Primary), (1, Slot::Secondary)] {
            let (key, tail) = key(id, key_id);
            assert!(
                peer.keys
                    .install(slot, key_slot(CIPHER, key_id, &key, tail))
                    .is_none()
            );
        }
        table.insert(peer).unwrap();
        let source: std::net::SocketAddr = format!("198.51.100.{id}:{}", 40000 + id).parse().unwrap();
        table.bind_address(id, (source.ip(), source.port())).unwrap();
    }
    table
}

//! Peers, their keys and their places; packets to them.

use nf_path::twin::craft::{Frame, inner_v4, inner_v6};
use nf_path::twin::{HeapBuf, SoftKey};
use nf_state::{
    Addresses, Binding, Cipher, Direction, Endpoint, KeySlot, PacketIds, Peer, PeerTable, Slot, Way,
};
use nf_wire::ether::{self, Mac, Tags};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// The MAC address of the NIC port.
pub const NIC: Mac = [2, 0, 0, 0, 0, 7];
/// The MAC address of the tunnel interface.
pub const INTERFACE: Mac = [2, 0, 0, 0, 0, 9];
/// Peers 1 to this many have all that it takes. 4 is behind one VLAN tag and 5 behind two; 7 and 8 are reached over IPv6.
pub const PEERS: u32 = 8;
/// A peer without a remote.
pub const NO_REMOTE: u32 = 20;
/// A peer whose next hop is not known.
pub const NO_WAY: u32 = 21;
/// A peer with a secondary key only.
pub const NO_PRIMARY: u32 = 22;
/// A peer whose key has no packet ids left.
pub const NO_IDS: u32 = 23;
/// A peer that lacks both a remote and packet ids.
pub const NEITHER: u32 = 24;
/// The id of the keys that seal.
pub const KEY_ID: u8 = 2;

/// Key and nonce tail of one direction: away from the side with the outbound path under test, or to it.
pub fn secret(peer: u32, away: bool) -> ([u8; 16], [u8; 8]) {
    let mut key = [if away { 0x51 } else { 0x11 }; 16];
    key[..4].copy_from_slice(&peer.to_be_bytes());
    (key, [0xc0 ^ peer as u8 ^ u8::from(away) << 5; 8])
}

/// A key slot of a peer, on the side under test (`near`) or on the other.
pub fn key_slot(peer: u32, near: bool, ids: PacketIds) -> Arc<KeySlot<SoftKey>> {
    let direction = |away| {
        let (key, nonce_tail) = secret(peer, away);
        let key = SoftKey::new(Cipher::Aes128Gcm, &key);
        Direction { key, nonce_tail }
    };
    KeySlot::with_ids(Cipher::Aes128Gcm, KEY_ID, direction(!near), direction(near), ids)
}

/// Where a peer is.
pub fn remote(peer: u32) -> SocketAddr {
    let ip: IpAddr = match peer {
        7 | 8 => Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, peer as u16).into(),
        _ => Ipv4Addr::new(198, 51, 100, peer as u8).into(),
    };
    (ip, 40000 + peer as u16).into()
}

/// The address that the peer contacted.
pub fn local(peer: u32) -> SocketAddr {
    let address = match peer {
        7 | 8 => "[2001:db8::1]:1194",
        _ => "192.0.2.1:1194",
    };
    address.parse().unwrap()
}

/// The way to a peer.
pub fn way(peer: u32) -> Way {
    let tags = match peer {
        4 => Tags {
            count: 1,
            tci: [0x2007, 0],
            service: 0,
        },
        5 => Tags {
            count: 2,
            tci: [5, 6],
            service: 1,
        },
        _ => Tags::default(),
    };
    Way {
        dst: [2, 0, 0, 0, 1, peer as u8],
        tags,
    }
}

/// What a peer is bound to.
pub fn binding(peer: u32) -> Binding {
    Binding {
        remote: remote(peer),
        local: local(peer),
        way: Some(way(peer)),
    }
}

/// The peers with all that it takes and those without, or the same on the other side.
pub fn table(near: bool) -> PeerTable<SoftKey> {
    let mut table = PeerTable::new();
    let without = [NO_REMOTE, NO_WAY, NO_PRIMARY, NO_IDS, NEITHER];
    for id in (1..=PEERS).chain(without) {
        let mut peer = Peer::new(id, Addresses::default());
        let ids = match id {
            NO_IDS | NEITHER => PacketIds::resume(PacketIds::END, PacketIds::END),
            _ => PacketIds::new(),
        };
        let slot = if id == NO_PRIMARY {
            Slot::Secondary
        } else {
            Slot::Primary
        };
        assert!(peer.keys.install(slot, key_slot(id, near, ids)).is_none());
        peer.endpoint = match id {
            NO_REMOTE | NEITHER => Endpoint::new().into(),
            NO_WAY => Endpoint::bound(&Binding {
                way: None,
                ..binding(id)
            })
            .into(),
            _ => Endpoint::bound(&binding(id)).into(),
        };
        table.insert(peer).unwrap();
    }
    table
}

/// The VPN address of a peer.
pub fn address(peer: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 8, 0, peer as u8 + 1)
}

/// An IPv4 packet of `len` bytes to a peer, with this number in it.
pub fn packet(peer: u32, len: usize, number: u32) -> Vec<u8> {
    inner_v4(Ipv4Addr::new(10, 8, 0, 1), address(peer), len, number)
}

/// An IPv6 packet of `len` bytes to a peer, with this number in it.
pub fn packet_v6(peer: u32, len: usize, number: u32) -> Vec<u8> {
    let to = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, peer as u16 + 1);
    inner_v6("fd00::1".parse().unwrap(), to, len, number)
}

/// The frame in which the kernel hands over a packet for a destination MAC address.
pub fn framed(to: Mac, packet: &[u8]) -> Vec<u8> {
    let ether_type = if packet[0] >> 4 == 4 {
        ether::IPV4
    } else {
        ether::IPV6
    };
    [&ether::header(to, INTERFACE, ether_type)[..], packet].concat()
}

/// A frame with a packet to a peer, in a buffer.
pub fn buf(peer: u32, len: usize, number: u32) -> HeapBuf {
    HeapBuf::new(&framed(ether::peer_mac(peer), &packet(peer, len, number)))
}

/// The frame that should leave with this record for a peer, made by other code.
pub fn expected(peer: u32, ip_id: u16, record: &[u8]) -> Vec<u8> {
    let Way { dst, tags } = way(peer);
    let mut frame = Frame::udp(local(peer), remote(peer)).macs(NIC, dst).id(ip_id);
    for i in 0..usize::from(tags.count) {
        let tpid = if tags.service >> i & 1 == 1 {
            0x88a8
        } else {
            0x8100
        };
        frame = frame.tag(tpid, tags.tci[i]);
    }
    frame.payload(record).build()
}

//! A worker between rings: what goes in at the NIC comes out at the tunnel or the host port, and every buffer is counted.
#![allow(dead_code, reason = "not every scenario needs all of it")]

pub mod kinds;
pub mod memory;
pub mod pair;
pub mod pieces;
mod sent;
mod worker;

#[allow(unused_imports, reason = "not every scenario sends")]
pub use sent::{arp_reply, arp_request, ids, kernels, opened, outer_to, to_peer};
#[allow(unused_imports, reason = "not every scenario has a worker")]
pub use worker::{Ends, Options, Rig, all_back, parts};

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use arrayvec::ArrayVec;
use lcore::imb::Key;
use lcore::reassembly::IpFrag;
use lcore::{Imb, Mbuf, Mempool, RingPort};
use nf_path::buf::Buf;
use nf_path::context::Context;
use nf_path::counters::Counters;
use nf_path::inbound::classify::Listeners;
use nf_path::inbound::{Inbound, Tuning};
use nf_path::tunnel::Tunnel;
use nf_path::twin::craft::{self, Frame, inner_v4};
use nf_state::{Addresses, Binding, Cipher, Direction, Endpoint, KeySlot, Lookahead, PacketIds, Peer, Way};
use nf_wire::ether::{self, Tags};
use nf_wire::record::HeaderWord;

/// The server's outer addresses.
pub const LISTEN: [&str; 2] = ["192.0.2.1:1194", "[2001:db8::1]:1194"];
/// The MAC address of the tunnel interface.
pub const INTERFACE: [u8; 6] = [2, 0, 0, 0, 0, 9];
/// The MAC address of the NIC.
pub const NIC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The MAC address of the next hop, behind which all peers are.
pub const GATEWAY: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Peers 1 to this many.
pub const PEERS: u32 = 4;
/// The cipher of all keys.
pub const CIPHER: Cipher = Cipher::Aes256Gcm;
/// Room of a large buffer, as in the program.
pub const LARGE_ROOM: u16 = 9 * 1024 + 512 + 128;
/// MTU of the host port.
pub const HOST_MTU: u16 = 1500;

/// Key and nonce tail of a peer.
pub fn key(peer: u32) -> ([u8; 32], [u8; 8]) {
    ([0x40 ^ peer as u8; 32], [0xa0 ^ peer as u8; 8])
}

/// Outer address and port of a peer, below 39,000.
pub fn remote(peer: u32) -> SocketAddr {
    let [_, _, high, low] = peer.to_be_bytes();
    ([198, 51, 100 + high, low], 40_000).into()
}

/// VPN address of a peer: 10.8.0.2 for peer 1.
pub fn vpn_address(peer: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 8, 0, 1)) + peer)
}

/// Where a peer is from the start.
pub fn binding(peer: u32) -> Binding {
    Binding {
        remote: remote(peer),
        local: LISTEN[0].parse().expect("an address"),
        way: Some(Way {
            dst: GATEWAY,
            tags: Tags::default(),
        }),
    }
}

/// A record of `peer` around any plaintext.
pub fn record_of(peer: u32, id: u32, plaintext: &[u8]) -> Vec<u8> {
    let (key, tail) = key(peer);
    craft::record(CIPHER, &key, &tail, HeaderWord::data_v2(0, peer), id, plaintext)
}

/// An inner packet of `len` bytes that carries `number`.
pub fn inner(len: usize, number: u32) -> Vec<u8> {
    inner_v4([10, 8, 0, 2].into(), [10, 8, 0, 1].into(), len, number)
}

/// The outer datagram of `peer` over IPv4, without payload; the identification is `id`.
pub fn outer(peer: u32, id: u32) -> Frame {
    Frame::udp(remote(peer), LISTEN[0].parse().expect("an address"))
        .macs(GATEWAY, NIC)
        .id(id as u16)
}

/// The outer datagram of `peer` over IPv6, without payload.
pub fn outer_v6(peer: u32) -> Frame {
    let source = format!("[2001:db8:1::{peer}]:40000");
    Frame::udp(
        source.parse().expect("an address"),
        LISTEN[1].parse().expect("an address"),
    )
}

/// A frame with a record of `peer` whose inner packet has `len` bytes and carries `id`.
pub fn frame(peer: u32, id: u32, len: usize) -> Vec<u8> {
    outer(peer, id)
        .payload(&record_of(peer, id, &inner(len, id)))
        .build()
}

/// What comes of it at the tunnel port.
pub fn delivered(peer: u32, inner: &[u8]) -> Vec<u8> {
    let ether_type = if inner[0] >> 4 == 4 {
        ether::IPV4
    } else {
        ether::IPV6
    };
    let header = ether::header(INTERFACE, ether::peer_mac(peer), ether_type);
    [&header[..], inner].concat()
}

/// The bytes of a buffer, all segments.
pub fn bytes(m: &Mbuf) -> Vec<u8> {
    m.segment_slices().flatten().copied().collect()
}

/// A buffer with a copy of `frame`. Panics when the pool is empty.
pub fn buffer(pool: &Mempool, frame: &[u8]) -> Mbuf {
    let mut m = pool.alloc().expect("a buffer");
    assert!(m.extend_from_slice(frame), "{} bytes fit", frame.len());
    m
}

/// A packet in one segment for each part.
pub fn chain(pool: &Mempool, parts: &[&[u8]]) -> Mbuf {
    let mut segments: Vec<Mbuf> = parts.iter().map(|part| buffer(pool, part)).collect();
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut next = std::ptr::null_mut();
    while segments.len() > 1 {
        let last = segments.pop().expect("more than one").into_raw();
        // SAFETY: the segment was this test's alone; the pointer to it goes into the one before it.
        unsafe { (*last.as_ptr()).next = next };
        next = last.as_ptr();
    }
    let head = segments.pop().expect("at least one part");
    // SAFETY: the head is this test's alone; it takes over the segments behind it.
    unsafe {
        let m = &mut *head.as_ptr();
        (m.next, m.nb_segs, m.pkt_len) = (next, parts.len() as u16, len as u32);
    }
    head
}

/// The fields of a buffer.
pub fn raw(m: &mut Mbuf) -> &mut dpdk_sys::RteMbuf {
    // SAFETY: the buffer is the caller's alone.
    unsafe { &mut *m.as_ptr() }
}

/// The key slot of a peer.
pub fn slot(imb: &Imb, peer: u32) -> Arc<KeySlot<Key>> {
    slot_with(imb, peer, PacketIds::new())
}

/// The key slot of a peer, with these packet ids.
pub fn slot_with(imb: &Imb, peer: u32, ids: PacketIds) -> Arc<KeySlot<Key>> {
    let (key, nonce_tail) = key(peer);
    let direction = || Direction {
        key: Key::expand(imb, CIPHER, &key).expect("a key of the right length"),
        nonce_tail,
    };
    KeySlot::with_ids(CIPHER, 0, direction(), direction(), ids)
}

/// A peer that is bound and has a key.
pub fn peer(id: u32, key: Arc<KeySlot<Key>>) -> Peer<Key> {
    let mut peer = Peer::new(id, Addresses::default());
    peer.endpoint = Arc::new(Endpoint::bound(&binding(id)));
    assert!(peer.keys.install_primary(key).is_none());
    peer
}

/// The tunnel's table with all peers and their routes, without source check.
pub fn tunnel(imb: &Imb) -> Tunnel<Key> {
    tunnel_of((1..=PEERS).map(|id| peer(id, slot(imb, id))))
}

/// A tunnel's table with these peers and their routes, without source check.
pub fn tunnel_of(peers: impl IntoIterator<Item = Peer<Key>>) -> Tunnel<Key> {
    let mut tunnel = Tunnel::new(INTERFACE);
    for peer in peers {
        tunnel
            .routes
            .set(IpAddr::from(vpn_address(peer.id)).into(), peer.id);
        tunnel.peers.insert(peer).expect("a new peer");
    }
    tunnel
}

/// The addresses to listen on.
pub fn listeners(at: &[&str]) -> Listeners {
    let mut listeners = Listeners::default();
    at.iter()
        .for_each(|at| assert!(listeners.add(at.parse().expect("an address"), 0)));
    listeners
}

/// The inbound path by itself, for scenarios that set the clock.
pub fn path(fragments: IpFrag, counters: Arc<Counters>) -> (Inbound<Mbuf, IpFrag>, Context<Imb>) {
    let imb = Imb::new().expect("this CPU has AES-NI");
    let tunnels = vec![tunnel(&imb)];
    let context = Context::new(tunnels, imb, counters.clone());
    (
        Inbound::new(listeners(&LISTEN), tuning(true), fragments, counters),
        context,
    )
}

/// Batching as told, and the lookahead that the program has.
pub fn tuning(batch: bool) -> Tuning {
    Tuning {
        batch,
        lookahead: Lookahead::default(),
    }
}

/// Puts buffers into a ring. Panics when it is full.
pub fn put(ring: &mut RingPort, buffers: impl IntoIterator<Item = Mbuf>) {
    let mut burst = ArrayVec::<Mbuf, 256>::new();
    for m in buffers {
        burst.push(m);
        if burst.is_full() {
            ring.fill(&mut burst);
        }
    }
    ring.fill(&mut burst);
    assert!(burst.is_empty(), "the ring has room");
}

/// All buffers of a ring.
pub fn taken(ring: &mut RingPort) -> Vec<Mbuf> {
    let mut all = Vec::new();
    loop {
        let mut burst = ArrayVec::<Mbuf, 256>::new();
        if ring.take(&mut burst) == 0 {
            return all;
        }
        all.extend(burst);
    }
}

/// Bytes of a packet, as the port counts them.
pub fn total(frames: &[Vec<u8>]) -> u64 {
    frames.iter().map(|f| f.len() as u64).sum()
}

/// Whether a buffer is a packet in one segment that nobody else holds.
pub fn is_plain(m: &Mbuf) -> bool {
    m.segments() == 1 && m.is_private()
}

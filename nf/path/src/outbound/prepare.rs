//! Stage 4: what a run's packets have in common, and room in each buffer. Drops: `no_primary`, `no_remote`,
//! `no_neighbour`, `own_outer`, `oversize`, `no_buffer`; of packets without a way also `no_packet_id`.
//!
//! A missing key or way is found here, before a packet id is spent.

use super::Outbound;
use super::encap::Outside;
use super::work::Run;
use crate::buf::Buf;
use crate::buffers::Buffers;
use crate::burst::Now;
use crate::tunnel::Tunnel;
use crate::verdict::DropReason;
use core::net::{IpAddr, SocketAddr};
use nf_state::{KeySlot, Peer, Slot};
use nf_wire::inner::{self, Piece};
use nf_wire::mss::Limits;
use nf_wire::record::{HeaderWord, OVERHEAD};

/// A run that can be sealed.
pub struct Prepared<'t, K> {
    /// Whose packets they are.
    pub peer: &'t Peer<K>,
    /// The key to seal them with.
    pub key: &'t KeySlot<K>,
    /// The outer headers; there is room for them in front of each packet.
    pub outside: Outside,
    /// The header word of the records.
    pub word: HeaderWord,
    /// The largest MSS to let pass.
    pub mss: Option<Limits>,
    /// The first slot, ...
    pub first: u16,
    /// ... and the one after the last. Some in between may be empty.
    pub end: u16,
    /// Slots that are not.
    pub packets: u16,
    /// Whether they are keepalives.
    pub ping: bool,
}

/// Counts a run as sent to its peer, and finds key and outer headers. Afterwards every buffer in its slots begins with
/// room for outer headers and record header. None when nothing can be sealed.
#[inline]
pub(super) fn prepare<'t, B: Buf, P: Buffers<B>, K>(
    run: &Run<'t, K>,
    tunnel: &Tunnel<K>,
    path: &mut Outbound<B, P>,
    now: Now,
) -> Option<Prepared<'t, K>> {
    let Run { peer, first, end, .. } = *run;
    if !run.ping {
        peer.counters.vpn_tx_packets.add(u64::from(run.frames));
        peer.counters.vpn_tx_bytes.add(run.bytes);
    }
    let slots = &mut path.slots[usize::from(first)..usize::from(end)];
    let (key, outside, remote) = match find(peer, path.nic.mac) {
        Ok(found) => found,
        Err(reason) => {
            without(run, reason, now);
            slots.fill_with(|| None);
            path.counters.count(reason, u64::from(end - first));
            return None;
        }
    };
    let (own, mut packets) = (OwnOuter::new(remote), end - first);
    let (front, limit) = (outside.encap.len() + OVERHEAD, outside.max_payload() - OVERHEAD);
    for slot in slots {
        let Some(mut buf) = slot.take() else { continue };
        let fits = if own.is(buf.data()) {
            Err(DropReason::OwnOuter)
        } else if buf.packet_len() > limit {
            Err(DropReason::Oversize)
        } else if buf.grow_front(front) {
            Ok(buf)
        } else {
            moved(buf, front, &mut path.buffers)
        };
        match fits {
            Ok(buf) => *slot = Some(buf),
            Err(reason) => {
                packets -= 1;
                path.counters.count(reason, 1);
            }
        }
    }
    let mss = tunnel.mss.map(|clamp| {
        let [v4, v6] = clamp.max[usize::from(outside.encap.is_v6())];
        Limits { v4, v6 }
    });
    Some(Prepared {
        peer,
        key,
        word: HeaderWord::data_v2(key.key_id(), peer.tx_id),
        outside,
        mss,
        first,
        end,
        packets,
        ping: run.ping,
    })
}

/// Primary key, outer headers and remote of a peer.
#[inline]
fn find<K>(
    peer: &Peer<K>,
    source: nf_wire::ether::Mac,
) -> Result<(&KeySlot<K>, Outside, SocketAddr), DropReason> {
    let key = peer.keys.get(Slot::Primary).ok_or(DropReason::NoPrimary)?;
    let binding = peer.endpoint.read();
    let missing = match &binding {
        None => DropReason::NoRemote,
        Some(binding) => match binding.way {
            None => DropReason::NoNeighbour,
            Some(way) => match Outside::new(&way, source, binding.local, binding.remote) {
                Some(outside) => return Ok((key, outside, binding.remote)),
                None => DropReason::NoRemote,
            },
        },
    };
    // Those that have no id either are not sealed for that reason.
    let spent = key.ids().next() >= key.ids().end();
    Err(if spent { DropReason::NoPacketId } else { missing })
}

/// Packets for which there is a key but no way count as sent all the same: the kernel driver seals them before it
/// looks for a route.
#[cold]
fn without<K>(run: &Run<'_, K>, reason: DropReason, now: Now) {
    if matches!(reason, DropReason::NoRemote | DropReason::NoNeighbour) {
        let packets = u64::from(run.end - run.first);
        sent(run.peer, packets, run.bytes, run.ping, now);
    }
}

/// Counts records, with `bytes` of inner packets, as sent.
#[inline]
pub(super) fn sent<K>(peer: &Peer<K>, records: u64, bytes: u64, ping: bool, now: Now) {
    let counters = &peer.counters;
    counters.link_tx_packets.add(records);
    counters.link_tx_bytes.add(bytes + records * OVERHEAD as u64);
    counters.sent(now.millis);
    if ping {
        counters.keepalives_tx.add(records);
    }
}

/// A packet whose headroom is too small, in a buffer with more.
#[cold]
fn moved<B: Buf>(buf: B, front: usize, buffers: &mut impl Buffers<B>) -> Result<B, DropReason> {
    let mut buf = buffers.linearise(buf).map_err(|_| DropReason::NoBuffer)?;
    if buf.grow_front(front) {
        Ok(buf)
    } else {
        Err(DropReason::NoBuffer)
    }
}

/// A peer's outer address, to tell UDP packets to it: our own records, which a route has led back into the tunnel.
struct OwnOuter {
    remote: SocketAddr,
    /// Where an inner packet of the remote's family has its destination.
    at: usize,
    /// The last four bytes of the remote, which differ most.
    word: [u8; 4],
}

impl OwnOuter {
    fn new(remote: SocketAddr) -> Self {
        let (at, word) = match remote.ip() {
            IpAddr::V4(a) => (16, a.octets()),
            IpAddr::V6(a) => (36, a.octets()[12..].try_into().unwrap_or_default()),
        };
        OwnOuter { remote, at, word }
    }

    #[inline(always)]
    fn is(&self, packet: &[u8]) -> bool {
        packet.get(self.at..self.at + 4) == Some(&self.word) && self.is_surely(packet)
    }

    #[cold]
    fn is_surely(&self, packet: &[u8]) -> bool {
        let Ok(ip) = inner::parse(packet) else {
            return false;
        };
        let (version, address) = match self.remote.ip() {
            IpAddr::V4(a) => (inner::Version::V4, u128::from(u32::from(a))),
            IpAddr::V6(a) => (inner::Version::V6, u128::from(a)),
        };
        let port = packet.get(ip.l4 + 2..ip.l4 + 4);
        ip.version == version
            && ip.dst == address
            && ip.protocol == inner::UDP
            && ip.piece != Piece::Later
            && port == Some(&self.remote.port().to_be_bytes())
    }
}

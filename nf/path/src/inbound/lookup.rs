//! Stage 4: peer and key, once for each batch. Drops: `unknown_peer`, `unknown_address`, `no_key`, `short_record`.
//!
//! The peer id names the peer, whatever the source address; only the undefined peer id is looked up by
//! source address and port. The key is the primary slot's if it has the record's key id, else the secondary's.

use crate::burst::MAX_BURST;
use crate::counters::Counters;
use crate::inbound::Tunnel;
use crate::inbound::batch::{Builder, Facts};
use crate::verdict::DropReason;
use arrayvec::ArrayVec;
use nf_state::{KeySlot, Peer};
use nf_wire::record::{OVERHEAD, PEER_ID_UNDEFINED};

/// A record's place in the opening order.
#[derive(Clone, Copy, Debug)]
pub struct Ordered {
    /// Slot in the burst.
    pub slot: u16,
    /// Index into [`Opening::batches`].
    pub batch: u16,
}

/// A batch whose peer and key are found: the records `[first, first + count)` of the opening order.
#[derive(Clone, Copy, Debug)]
pub struct Found<'t, K> {
    /// Whose records they are.
    pub peer: &'t Peer<K>,
    /// The key that they name.
    pub key: &'t KeySlot<K>,
    /// Index of the tunnel.
    pub tunnel: u8,
    /// Position of its first record in the opening order.
    pub first: usize,
    /// Position after its last record.
    pub end: usize,
}

/// The records of a burst that will be opened, in that order.
pub struct Opening<'t, K> {
    /// The records.
    pub order: ArrayVec<Ordered, MAX_BURST>,
    /// Their batches.
    pub batches: ArrayVec<Found<'t, K>, MAX_BURST>,
}

/// Finds peer and key of every batch. Records that have none are dropped and counted here.
#[inline]
pub fn lookup<'t, B, K>(
    builder: &Builder,
    facts: &[Facts],
    slots: &mut [Option<B>],
    tunnels: &'t [Tunnel<K>],
    counters: &Counters,
) -> Opening<'t, K> {
    let mut opening = Opening { order: ArrayVec::new(), batches: ArrayVec::new() };
    for batch in builder.batches() {
        counters.batches.add(batch.count());
        let head = &facts[usize::from(batch.head())];
        let found = peer(head, tunnels).map(|peer| (peer, peer.keys.by_key_id(head.word.key_id())));
        let (first, index) = (opening.order.len(), opening.batches.len() as u16);
        let (mut bytes, mut short) = (0, 0);
        for slot in builder.slots(batch) {
            let len = facts[usize::from(slot)].payload_len;
            bytes += u64::from(len);
            if !matches!(found, Ok((_, Some(_)))) {
                slots[usize::from(slot)] = None;
            } else if usize::from(len) < OVERHEAD {
                short += 1;
                slots[usize::from(slot)] = None;
            } else {
                opening.order.push(Ordered { slot, batch: index });
            }
        }
        if let Ok((peer, _)) = found {
            // Every record counts, before any authentication.
            peer.counters.link_rx_packets.add(batch.count() as u64);
            peer.counters.link_rx_bytes.add(bytes);
        }
        match found {
            Ok((peer, Some(key))) => {
                if short > 0 {
                    counters.count(DropReason::ShortRecord, short);
                }
                let end = opening.order.len();
                opening.batches.push(Found { peer, key, tunnel: head.tunnel, first, end });
            }
            Ok((_, None)) => counters.count(DropReason::NoKey, batch.count() as u64),
            Err(reason) => counters.count(reason, batch.count() as u64),
        }
    }
    opening
}

/// The peer that a record names.
#[inline]
fn peer<'t, K>(head: &Facts, tunnels: &'t [Tunnel<K>]) -> Result<&'t Peer<K>, DropReason> {
    let table = &tunnels[usize::from(head.tunnel)].peers;
    if head.word.peer_id() == PEER_ID_UNDEFINED {
        let address = (head.outer.src(), head.outer.src_port());
        let id = table.by_address(&address);
        return id.and_then(|id| table.get(id)).ok_or(DropReason::UnknownAddress);
    }
    table.get(head.word.peer_id()).ok_or(DropReason::UnknownPeer)
}

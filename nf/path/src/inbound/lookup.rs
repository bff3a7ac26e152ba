//! Stage 4: peer and key, once for each batch. Drops: `unknown_peer`, `unknown_address`, `no_key`, `short_record`.
//!
//! The peer id names the peer, whatever the source address; only the undefined peer id is looked up by
//! source address and port. The key is the primary slot's if it has the record's key id, else the secondary's.
//! Records from elsewhere than where their peer is are opened last.

use crate::burst::MAX_BURST;
use crate::counters::Counters;
use crate::inbound::batch::{Batch, Builder, Facts};
use crate::tunnel::Tunnel;
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
    /// Bytes of UDP payload.
    pub len: u16,
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
    /// Where the UDP payload begins in each record's frame, in bytes: all have headers of one length.
    pub payload: u16,
    /// Slot of the batch's first record, whose facts hold for all.
    pub head: u16,
    /// Position of its first record in the opening order.
    pub first: usize,
    /// Position after its last record.
    pub end: usize,
    /// Whether the batch comes from where the peer is bound to, as far as known before the burst was opened.
    pub here: bool,
}

/// The records of a burst that will be opened, in that order.
pub struct Opening<'t, K> {
    /// The records.
    pub order: ArrayVec<Ordered, MAX_BURST>,
    /// Their batches.
    pub batches: ArrayVec<Found<'t, K>, MAX_BURST>,
}

/// Finds peer and key of every batch and appends its records to `opening`, which is written in place since it is
/// large. Records that have none are dropped and counted here.
#[inline(always)]
pub fn lookup<'t, B, K>(
    opening: &mut Opening<'t, K>,
    builder: &Builder,
    facts: &[Facts],
    slots: &mut [Option<B>],
    tunnels: &'t [Tunnel<K>],
    counters: &Counters,
) {
    let mut astray = false;
    for batch in builder.batches() {
        counters.batches.add(batch.count());
        match find(batch, builder, facts, tunnels) {
            Ok((peer, key, tunnel)) => {
                let first = opening.order.len();
                let index = opening.batches.len() as u16;
                for (slot, len) in builder.records(batch) {
                    if usize::from(len) < OVERHEAD {
                        counters.count(DropReason::ShortRecord, 1);
                        slots[usize::from(slot)] = None;
                    } else {
                        opening.order.push(Ordered {
                            slot,
                            batch: index,
                            len,
                        });
                    }
                }
                let end = opening.order.len();
                let here = peer.endpoint.holds(&facts[usize::from(batch.head())].outer);
                astray |= !here && is_bound(peer);
                opening.batches.push(Found {
                    peer,
                    key,
                    tunnel,
                    payload: facts[usize::from(batch.head())].payload,
                    head: batch.head(),
                    first,
                    end,
                    here,
                });
            }
            Err(reason) => {
                counters.count(reason, batch.count() as u64);
                builder
                    .slots(batch)
                    .for_each(|slot| slots[usize::from(slot)] = None);
            }
        }
    }
    if astray && opening.batches.len() > 1 {
        elsewhere_last(opening);
    }
}

#[cold]
fn is_bound<K>(peer: &Peer<K>) -> bool {
    peer.endpoint.read().is_some()
}

/// Puts records from elsewhere behind all others, singly and in order of arrival. Batches are in the order of their first
/// records, so a replay could be opened before the record that it repeats, and move the endpoint, if a forged record
/// of its flow came first.
#[cold]
#[inline(never)]
fn elsewhere_last<K>(opening: &mut Opening<'_, K>) {
    let order = core::mem::take(&mut opening.order);
    let batches = core::mem::take(&mut opening.batches);
    let mut elsewhere: ArrayVec<Ordered, MAX_BURST> = ArrayVec::new_const();
    for found in &batches {
        let records = &order[found.first..found.end];
        if found.here || !is_bound(found.peer) {
            opening.append(found, records);
        } else {
            elsewhere.extend(records.iter().copied());
        }
    }
    elsewhere.sort_unstable_by_key(|record| record.slot);
    for record in &elsewhere {
        opening.append(&batches[usize::from(record.batch)], core::slice::from_ref(record));
    }
}

impl<'t, K> Opening<'t, K> {
    /// Appends records of a batch as one of their own.
    fn append(&mut self, found: &Found<'t, K>, records: &[Ordered]) {
        let (first, index) = (self.order.len(), self.batches.len() as u16);
        let moved = records.iter().map(|record| Ordered {
            batch: index,
            ..*record
        });
        self.order.extend(moved);
        let end = self.order.len();
        self.batches.push(Found { first, end, ..*found });
    }
}

/// Peer, key and tunnel of one batch. The peer's link counters count every record, before any authentication.
#[inline]
fn find<'t, K>(
    batch: &Batch,
    builder: &Builder,
    facts: &[Facts],
    tunnels: &'t [Tunnel<K>],
) -> Result<(&'t Peer<K>, &'t KeySlot<K>, u8), DropReason> {
    let head = &facts[usize::from(batch.head())];
    let table = &tunnels[usize::from(head.tunnel)].peers;
    let peer = if head.word.peer_id() == PEER_ID_UNDEFINED {
        table
            .by_address(&(head.outer.src(), head.outer.src_port()))
            .and_then(|id| table.get(id))
            .ok_or(DropReason::UnknownAddress)?
    } else {
        table.get(head.word.peer_id()).ok_or(DropReason::UnknownPeer)?
    };
    peer.counters.link_rx_packets.add(batch.count() as u64);
    peer.counters.link_rx_bytes.add(builder.bytes(batch));
    let key = peer.keys.by_key_id(head.word.key_id()).ok_or(DropReason::NoKey)?;
    Ok((peer, key, head.tunnel))
}

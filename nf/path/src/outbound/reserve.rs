//! Stage 5: packet ids. Drops: `no_packet_id`.

use super::Lcores;
use crate::tunnel::Tunnel;
use nf_state::{PacketIds, Reserved};

/// The most ids that one lcore takes at once of a key under which several send: a receiver may take only 64 packets of
/// reordering (`--replay-window` of OpenVPN).
pub const SPREAD_IDS: u32 = 16;

/// How many ids may be reserved at once.
#[inline]
pub fn limit<K>(tunnel: &Tunnel<K>, lcores: Lcores) -> u32 {
    if tunnel.spread && lcores.count > 1 {
        SPREAD_IDS
    } else {
        u32::MAX
    }
}

/// Ids for the next of `packets` packets, for as many as the limit and the key allow. None when the key has none left.
#[inline]
pub fn reserve(ids: &PacketIds, packets: u16, limit: u32) -> Option<Reserved> {
    ids.reserve(u32::from(packets).min(limit))
}

//! Stage 8: what is inside an accepted record. Drops: `empty`, `not_ip`, `bad_source`.

use crate::inbound::replay::Accepted;
use crate::verdict::DropReason;
use nf_state::{Peer, Routes};
pub use nf_wire::inner::Version;
use nf_wire::{ipv4, ipv6, keepalive};

/// What an authentic plaintext is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// An IP packet to deliver.
    Packet(Version),
    /// The keepalive: consumed, no drop.
    Keepalive,
}

/// Looks at the version nibble and the shortest length that goes with it, and at nothing else: no header length,
/// total length or checksum.
#[inline]
pub fn inspect(plaintext: &[u8], _proof: &Accepted) -> Result<Inner, DropReason> {
    match plaintext.first() {
        Some(b) if b >> 4 == 4 && plaintext.len() >= ipv4::HEADER_LEN => Ok(Inner::Packet(Version::V4)),
        Some(b) if b >> 4 == 6 && plaintext.len() >= ipv6::HEADER_LEN => Ok(Inner::Packet(Version::V6)),
        None => Err(DropReason::Empty),
        Some(_) if keepalive::is_ping(plaintext) => Ok(Inner::Keepalive),
        Some(_) => Err(DropReason::NotIp),
    }
}

/// The source check: the inner source must be the peer's own address, or its longest matching network must be this
/// peer's. Without `sources` the check is off.
#[inline]
pub fn source<K>(
    plaintext: &[u8],
    version: Version,
    peer: &Peer<K>,
    sources: Option<&Routes>,
) -> Result<(), DropReason> {
    let Some(sources) = sources else { return Ok(()) };
    let held_by_peer = match version {
        Version::V4 => plaintext
            .get(12..)
            .and_then(|s| s.first_chunk())
            .is_some_and(|source| {
                peer.addresses.is_own_v4(*source) || sources.lookup_v4(*source) == Some(peer.id)
            }),
        Version::V6 => plaintext
            .get(8..)
            .and_then(|s| s.first_chunk())
            .is_some_and(|source| {
                peer.addresses.is_own_v6(*source) || sources.lookup_v6(*source) == Some(peer.id)
            }),
    };
    if held_by_peer {
        Ok(())
    } else {
        Err(DropReason::BadSource)
    }
}

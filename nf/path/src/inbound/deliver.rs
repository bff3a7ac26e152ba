//! Stage 9: an inner packet becomes a frame for the tunnel port. Drops: none.

use crate::buf::{Buf, Layout};
use crate::inbound::inner::Version;
use nf_wire::ether::{self, Mac};
use nf_wire::{ipv4, ipv6};

/// `RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4_EXT_UNKNOWN` (`rte_mbuf_ptype.h`).
const PTYPE_IPV4: u32 = 0x1 | 0x90;
/// `RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV6_EXT_UNKNOWN`.
const PTYPE_IPV6: u32 = 0x1 | 0xe0;

/// The MAC addresses of a peer's frames: the interface as destination, the peer's as source.
#[derive(Clone, Copy, Debug)]
pub struct Macs([u8; 12]);

impl Macs {
    /// Those of frames from `peer_id` to the tunnel interface `interface`.
    pub fn new(interface: Mac, peer_id: u32) -> Self {
        let header = ether::header(interface, ether::peer_mac(peer_id), 0);
        Macs(*header.first_chunk().expect("the addresses come first"))
    }
}

/// Turns the buffer into a frame: Ethernet header, then the `len` bytes of inner packet at `at`, in place. The
/// record's headers give the room in front. Nothing that was said of the outer packet stays.
#[inline(always)]
pub fn deliver<B: Buf>(buf: &mut B, at: usize, len: usize, version: Version, macs: &Macs) {
    buf.narrow(at - ether::HEADER_LEN, ether::HEADER_LEN + len);
    if let Some(header) = buf.data_mut().first_chunk_mut::<{ ether::HEADER_LEN }>() {
        header[..12].copy_from_slice(&macs.0);
        header[12..].copy_from_slice(&version.ether_type().to_be_bytes());
    }
    let (l3_len, packet_type) = match version {
        Version::V4 => (ipv4::HEADER_LEN as u16, PTYPE_IPV4),
        Version::V6 => (ipv6::HEADER_LEN as u16, PTYPE_IPV6),
    };
    buf.restate(Layout {
        l2_len: ether::HEADER_LEN as u8,
        l3_len,
        packet_type,
    });
}

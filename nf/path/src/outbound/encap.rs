//! Stage 7: outer headers and checksums. Drops: none.

use super::Nic;
use crate::buf::{Buf, Layout};
use core::net::SocketAddr;
use nf_state::Way;
use nf_wire::encap::{self, Encap};
use nf_wire::ether::Mac;

/// `RTE_PTYPE_L2_ETHER`, `RTE_PTYPE_L2_ETHER_VLAN`, `RTE_PTYPE_L2_ETHER_QINQ` (`rte_mbuf_ptype.h`), by number of tags.
const PTYPE_L2: [u32; 3] = [0x1, 0x6, 0x7];
/// `RTE_PTYPE_L3_IPV4`.
const PTYPE_IPV4: u32 = 0x10;
/// `RTE_PTYPE_L3_IPV6`.
const PTYPE_IPV6: u32 = 0x40;
/// `RTE_PTYPE_L4_UDP`.
const PTYPE_UDP: u32 = 0x200;
/// Bytes of a UDP header.
const UDP_LEN: usize = 8;

/// The outside of a run's records.
#[derive(Clone, Copy, Debug)]
pub struct Outside {
    /// The headers.
    pub encap: Encap,
    layout: Layout,
}

impl Outside {
    /// The outside of frames from the NIC with MAC address `src` that go this way. None when the addresses are of two
    /// families.
    #[inline]
    pub fn new(way: &Way, src: Mac, local: SocketAddr, remote: SocketAddr) -> Option<Self> {
        let encap = Encap::new(way.dst, src, way.tags, local, remote)?;
        let l3 = if encap.is_v6() { PTYPE_IPV6 } else { PTYPE_IPV4 };
        let l2 = PTYPE_L2.get(usize::from(way.tags.count))?;
        let layout = Layout {
            l2_len: encap.l2_len() as u8,
            l3_len: encap.l3_len() as u16,
            packet_type: l2 | l3 | PTYPE_UDP,
        };
        Some(Outside { encap, layout })
    }

    /// The most bytes of UDP payload: an IPv4 total length and an IPv6 payload length have 16 bits.
    #[inline]
    pub fn max_payload(&self) -> usize {
        let header = if self.encap.is_v6() {
            0
        } else {
            self.encap.l3_len()
        };
        usize::from(u16::MAX) - UDP_LEN - header
    }

    /// Bytes of IP packet in a frame with these headers.
    #[inline]
    pub fn ip_len(&self, frame_len: usize) -> usize {
        frame_len - self.encap.l2_len()
    }
}

/// Writes the outer headers over the front of a frame that holds a sealed record behind them. Time to live 64, type of
/// service 0, DF clear. The UDP checksum is the port's to compute if it can and the packet goes `whole`, else it is
/// computed here. False when the packet is longer than its headers can say, which [`super::prepare`] rules out.
#[inline(always)]
pub fn encap<B: Buf>(buf: &mut B, outside: &Outside, nic: &Nic, whole: bool, ip_id: u16) -> bool {
    let len = outside.encap.len();
    let frame = buf.data_mut();
    let payload = frame.len().wrapping_sub(len);
    let written = frame
        .get_mut(..len)
        .is_some_and(|front| outside.encap.write(front, payload as u16, ip_id));
    if whole && nic.checksums {
        buf.offload(outside.layout, outside.encap.is_v6());
        return written;
    }
    let finished = encap::finish_udp(frame, len - UDP_LEN);
    buf.restate(outside.layout);
    written && finished
}

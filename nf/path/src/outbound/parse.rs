//! Stage 1: the inner IP packet of a frame from the tunnel port. Drops: `tunnel_length`, `not_ip_frame`.

use crate::verdict::DropReason;
use nf_wire::ether;
use nf_wire::inner::{self, Lie, Version};

/// Next header values of IPv6 behind which neighbour discovery and MLD are: hop-by-hop options, ICMPv6.
const KERNELS: [u8; 2] = [0, 58];

/// The inner packet of a frame, behind its Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its bytes by its own header; the frame may have padding behind.
    pub len: usize,
    /// Whether it may be neighbour discovery or the like: [`super::answer`] is to be asked.
    pub may_be_kernels: bool,
}

/// Reads the headers of an untagged frame. EtherType and version must agree and the packet's length must fit the frame;
/// no checksum is looked at.
///
/// # Errors
/// [`DropReason::TunnelLength`], [`DropReason::NotIpFrame`].
#[inline(always)]
pub fn parse(frame: &[u8]) -> Result<Packet, DropReason> {
    let Some((header, packet)) = frame.split_first_chunk::<{ ether::HEADER_LEN }>() else {
        return Err(DropReason::TunnelLength);
    };
    let ether_type = u16::from_be_bytes([header[12], header[13]]);
    match inner::version_and_len(packet) {
        Ok((version, len)) if version.ether_type() == ether_type => Ok(Packet {
            len,
            may_be_kernels: version == Version::V6
                && packet.get(6).is_some_and(|next| KERNELS.contains(next)),
        }),
        other => Err(reason(ether_type, other.err())),
    }
}

#[cold]
fn reason(ether_type: u16, lie: Option<Lie>) -> DropReason {
    match lie {
        Some(Lie::Version) | None => DropReason::NotIpFrame,
        _ if ether_type != ether::IPV4 && ether_type != ether::IPV6 => DropReason::NotIpFrame,
        Some(_) => DropReason::TunnelLength,
    }
}

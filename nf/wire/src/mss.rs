//! MSS clamping: the maximum segment size option of TCP SYNs (RFC 9293, section 3.7.1) is lowered so that full-size
//! segments fit the tunnel.

use crate::inner::{self, Piece, TCP};
use crate::{checksum, ipv4, ipv6, record};

/// Bytes of a TCP header without options.
const TCP_LEN: usize = 20;
/// Bytes of a UDP header.
const UDP_LEN: u16 = 8;
/// Of the TCP flags, the one that opens a connection.
const SYN: u8 = 0x02;

/// The largest maximum segment sizes to let pass, in bytes of TCP payload and options, by the inner IP version. Zero
/// lets all pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For IPv4 packets.
    pub v4: u16,
    /// For IPv6 packets.
    pub v6: u16,
}

impl Limits {
    /// One limit for both.
    pub const fn both(max: u16) -> Self {
        Limits { v4: max, v6: max }
    }

    /// [`clamp`] with the limit of the packet's version.
    #[inline(always)]
    pub fn clamp(&self, packet: &mut [u8]) -> bool {
        let max = if packet.first().is_some_and(|b| b >> 4 == 6) {
            self.v6
        } else {
            self.v4
        };
        clamp(packet, max)
    }
}

/// The limits with which a full segment's record fits one outer packet of `nic_mtu` bytes (IP header to the end):
/// what is left of it without the outer IP header (20 bytes, or 40 if `outer_v6`), UDP (8), the record's overhead
/// (24), the inner IP header (20 or 40) and TCP (20). RFC 6691: options of IP and TCP are the sender's to subtract.
/// Zero where nothing is left: such an MTU carries no TCP.
pub const fn auto_mss(nic_mtu: u16, outer_v6: bool) -> Limits {
    let outer_ip = ip_len(outer_v6);
    within(nic_mtu.saturating_sub(outer_ip + UDP_LEN + record::OVERHEAD as u16))
}

/// [`auto_mss`] where inner packets are also limited to `tunnel_mtu` bytes, the tunnel interface's MTU.
pub const fn auto_mss_within(nic_mtu: u16, outer_v6: bool, tunnel_mtu: u16) -> Limits {
    let (nic, tunnel) = (auto_mss(nic_mtu, outer_v6), within(tunnel_mtu));
    Limits {
        v4: if nic.v4 < tunnel.v4 { nic.v4 } else { tunnel.v4 },
        v6: if nic.v6 < tunnel.v6 { nic.v6 } else { tunnel.v6 },
    }
}

/// What inner packets of at most `mtu` bytes leave to TCP.
const fn within(mtu: u16) -> Limits {
    Limits {
        v4: mtu.saturating_sub(ip_len(false) + TCP_LEN as u16),
        v6: mtu.saturating_sub(ip_len(true) + TCP_LEN as u16),
    }
}

const fn ip_len(v6: bool) -> u16 {
    if v6 {
        ipv6::HEADER_LEN as u16
    } else {
        ipv4::HEADER_LEN as u16
    }
}

/// Whether the IP packet at the slice's begin may be a TCP SYN. False is sure; true is for the slow path to look at:
/// in IPv6 any packet with extension headers is true, and no length has been looked at.
#[inline(always)]
pub fn is_candidate(packet: &[u8]) -> bool {
    let Some(h) = packet.first_chunk::<{ ipv4::HEADER_LEN + TCP_LEN }>() else {
        return false;
    };
    match h[0] >> 4 {
        4 => {
            let flags = usize::from(h[0] & 0xf) * 4 + 13;
            let later = u16::from_be_bytes([h[6] & 0x1f, h[7]]);
            h[9] == TCP && later == 0 && packet.get(flags).is_some_and(|f| f & SYN != 0)
        }
        6 if h[6] == TCP => packet.get(ipv6::HEADER_LEN + 13).is_some_and(|f| f & SYN != 0),
        6 => inner::is_extension(h[6]),
        _ => false,
    }
}

/// Lowers to `max` every MSS option over it in the TCP SYN or SYN-ACK (IPv4 or IPv6, extension headers walked) at the
/// slice's begin, and brings the TCP checksum along (RFC 1624). Returns whether anything was changed.
///
/// Anything else stays as it is: other packets, later fragments, lengths that cannot be true, option lists from the
/// first option that is not well-formed. `max` zero changes nothing. The checksum must be a finished one: a partial
/// one is completed first ([`crate::partial`]).
#[inline(always)]
pub fn clamp(packet: &mut [u8], max: u16) -> bool {
    is_candidate(packet) && clamp_syn(packet, max)
}

#[cold]
#[inline(never)]
fn clamp_syn(packet: &mut [u8], max: u16) -> bool {
    let Ok(ip) = inner::parse(packet) else {
        return false;
    };
    if max == 0 || ip.protocol != TCP || ip.piece == Piece::Later {
        return false;
    }
    let segment = &mut packet[ip.l4..ip.total_len];
    let Some(h) = segment.first_chunk::<TCP_LEN>() else {
        return false;
    };
    let header_len = usize::from(h[12] >> 4) * 4;
    if h[13] & SYN == 0 || header_len < TCP_LEN || header_len > segment.len() {
        return false;
    }
    clamp_options(&mut segment[..header_len], max)
}

/// A TCP header with its options.
fn clamp_options(header: &mut [u8], max: u16) -> bool {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const MSS: [u8; 2] = [2, 4];
    let mut changed = false;
    let mut at = TCP_LEN;
    while let Some(&[kind, len]) = header.get(at..).and_then(|o| o.first_chunk()) {
        if kind == NO_OPERATION {
            at += 1;
            continue;
        }
        let end = at + usize::from(len);
        if kind == END || len < 2 || end > header.len() {
            break;
        }
        if [kind, len] == MSS {
            // Receivers differ in which of several they heed.
            changed |= lower(header, at + 2, max);
        }
        at = end;
    }
    changed
}

/// Makes the value at `at` in a TCP header `max` if it is larger.
fn lower(header: &mut [u8], at: usize, max: u16) -> bool {
    let mut old = [header[at], header[at + 1]];
    if u16::from_be_bytes(old) <= max {
        return false;
    }
    let mut new = max.to_be_bytes();
    header[at..at + 2].copy_from_slice(&new);
    if at % 2 == 1 {
        // Across two words of the sum: its high byte counts as a low one and the reverse (RFC 1071, section 2B).
        old.reverse();
        new.reverse();
    }
    let sum = u16::from_be_bytes([header[16], header[17]]);
    let sum = checksum::update16(sum, u16::from_be_bytes(old), u16::from_be_bytes(new));
    header[16..18].copy_from_slice(&sum.to_be_bytes());
    true
}

//! The IP packet inside a tunnel frame or a record: its version, its true length, where layer 4 is.

use crate::ether;
use crate::{ipv4, ipv6};

/// The most IPv6 extension headers that [`parse`] walks; a longer chain is a [`Lie::Extensions`].
pub const MAX_EXTENSIONS: usize = 16;

/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;

const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;

/// IPv4's loose and strict source route options (RFC 791, section 3.1).
const SOURCE_ROUTES: [u8; 2] = [131, 137];

/// The IP version of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Version {
    /// Its EtherType.
    #[inline]
    pub const fn ether_type(self) -> u16 {
        match self {
            Version::V4 => ether::IPV4,
            Version::V6 => ether::IPV6,
        }
    }
}

/// What keeps bytes from being an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// The version is neither 4 nor 6.
    Version,
    /// The bytes end inside the fixed header (20 bytes of IPv4, 40 of IPv6), or there are none.
    Short,
    /// IPv4: a header length under 20 bytes, or over the total length.
    HeaderLength,
    /// The total length (IPv4), or 40 and the payload length (IPv6), is more than there is.
    TotalLength,
    /// IPv6: an extension header reaches past the packet's end, or there are more than [`MAX_EXTENSIONS`].
    Extensions,
}

/// Which part of a datagram a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// All of it. (An IPv6 fragment header with offset 0 and no more to follow is whole, RFC 6946.)
    Whole,
    /// The first fragment, with the layer 4 header.
    First,
    /// Another fragment: what stands where layer 4 should is data.
    Later,
}

/// An IP packet whose lengths are true. All offsets are bytes from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerIp {
    /// Its version.
    pub version: Version,
    /// Bytes of header, IPv4 options and IPv6 extension headers included: where layer 4 begins.
    pub l4: usize,
    /// Bytes of the whole packet, as its header says; what the slice has beyond is Ethernet padding.
    pub total_len: usize,
    /// The protocol at `l4`; of a later fragment, the one its fragment header names. The authentication header (51)
    /// is not walked: what it protects must not be changed.
    pub protocol: u8,
    /// Whole or a fragment.
    pub piece: Piece,
    /// Whether a source route names the last destination, so that `dst` is not the one in layer 4's pseudo-header:
    /// IPv6 with segments left (RFC 8200, section 4.4), or any IPv4 source route option.
    pub source_routed: bool,
    /// Source address; IPv4 in the low 32 bits.
    pub src: u128,
    /// Destination address; IPv4 in the low 32 bits.
    pub dst: u128,
}

impl InnerIp {
    /// The sum, for [`crate::checksum::fold`], of the pseudo-header over `len` bytes of TCP or UDP (RFC 9293,
    /// section 3.1; RFC 768; RFC 8200, section 8.1). Without meaning when [`InnerIp::source_routed`].
    #[inline]
    pub(crate) fn pseudo_header(&self, len: usize) -> u64 {
        let words =
            |a: u128| (a >> 96) + (a >> 64 & 0xffff_ffff) + (a >> 32 & 0xffff_ffff) + (a & 0xffff_ffff);
        words(self.src) as u64 + words(self.dst) as u64 + u64::from(self.protocol) + len as u64
    }
}

/// The version of the packet at the slice's begin, and its bytes by its own header: at least the fixed header's, at
/// most the slice's. Looks at no option, extension header or checksum.
#[inline(always)]
pub fn version_and_len(packet: &[u8]) -> Result<(Version, usize), Lie> {
    let Some(h) = packet.first_chunk::<{ ipv4::HEADER_LEN }>() else {
        return Err(short(packet));
    };
    match h[0] >> 4 {
        4 => {
            let header_len = usize::from(h[0] & 0xf) * 4;
            let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
            if header_len < ipv4::HEADER_LEN || total < header_len {
                Err(Lie::HeaderLength)
            } else if total > packet.len() {
                Err(Lie::TotalLength)
            } else {
                Ok((Version::V4, total))
            }
        }
        6 => {
            let total = ipv6::HEADER_LEN + usize::from(u16::from_be_bytes([h[4], h[5]]));
            if packet.len() < ipv6::HEADER_LEN {
                Err(Lie::Short)
            } else if total > packet.len() {
                Err(Lie::TotalLength)
            } else {
                Ok((Version::V6, total))
            }
        }
        _ => Err(Lie::Version),
    }
}

#[cold]
fn short(packet: &[u8]) -> Lie {
    match packet.first() {
        Some(b) if b >> 4 != 4 && b >> 4 != 6 => Lie::Version,
        _ => Lie::Short,
    }
}

/// Reads the packet at the slice's begin up to layer 4. No header checksum is looked at, and nothing of layer 4.
///
/// # Errors
/// Lengths that cannot be true: see [`Lie`].
pub fn parse(packet: &[u8]) -> Result<InnerIp, Lie> {
    match version_and_len(packet)? {
        (Version::V4, total) => Ok(v4(&packet[..total])),
        (Version::V6, total) => v6(&packet[..total]),
    }
}

/// An IPv4 packet of the slice's length, header included.
fn v4(packet: &[u8]) -> InnerIp {
    let l4 = usize::from(packet[0] & 0xf) * 4;
    let fragment = u16::from_be_bytes([packet[6], packet[7]]);
    InnerIp {
        version: Version::V4,
        l4,
        total_len: packet.len(),
        protocol: packet[9],
        piece: match (fragment & ipv4_fragment::OFFSET, fragment & ipv4_fragment::MORE) {
            (0, 0) => Piece::Whole,
            (0, _) => Piece::First,
            _ => Piece::Later,
        },
        source_routed: has_source_route(&packet[ipv4::HEADER_LEN..l4]),
        src: address(&packet[12..16]),
        dst: address(&packet[16..20]),
    }
}

/// The flags and fragment offset field of IPv4.
mod ipv4_fragment {
    pub const MORE: u16 = 0x2000;
    pub const OFFSET: u16 = 0x1fff;
}

fn has_source_route(options: &[u8]) -> bool {
    let mut rest = options;
    while let [kind, tail @ ..] = rest {
        let skip = match (kind, tail) {
            (0, _) => return false,
            (1, _) => 1,
            (k, _) if SOURCE_ROUTES.contains(k) => return true,
            (_, [len, ..]) if *len >= 2 => usize::from(*len),
            _ => return false,
        };
        rest = rest.get(skip..).unwrap_or_default();
    }
    false
}

/// An IPv6 packet of the slice's length, fixed header included.
fn v6(packet: &[u8]) -> Result<InnerIp, Lie> {
    let mut ip = InnerIp {
        version: Version::V6,
        l4: ipv6::HEADER_LEN,
        total_len: packet.len(),
        protocol: packet[6],
        piece: Piece::Whole,
        source_routed: false,
        src: address(&packet[8..24]),
        dst: address(&packet[24..40]),
    };
    let mut walked = 0;
    while is_extension(ip.protocol) && ip.piece != Piece::Later {
        let rest = packet.get(ip.l4..).unwrap_or_default();
        let Some(h) = rest.first_chunk::<8>().filter(|_| walked < MAX_EXTENSIONS) else {
            return Err(Lie::Extensions);
        };
        ip.l4 += 8;
        if ip.protocol == FRAGMENT {
            let field = u16::from_be_bytes([h[2], h[3]]);
            match (field & 0xfff8, field & 1) {
                (0, 0) => (),
                (0, _) => ip.piece = Piece::First,
                _ => ip.piece = Piece::Later,
            }
        } else {
            ip.l4 += usize::from(h[1]) * 8;
            ip.source_routed |= ip.protocol == ROUTING && h[3] != 0;
        }
        ip.protocol = h[0];
        walked += 1;
    }
    if ip.l4 > packet.len() {
        return Err(Lie::Extensions);
    }
    Ok(ip)
}

/// Whether an IPv6 next header value is an extension header that [`parse`] walks: RFC 7045's list (hop-by-hop,
/// routing, fragment, destination options, mobility, HIP, shim6, and the two for experiments) but ESP and AH.
#[inline(always)]
pub(crate) const fn is_extension(next: u8) -> bool {
    matches!(next, 0 | 43 | 44 | 60 | 135 | 139 | 140 | 253 | 254)
}

fn address(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |v, b| v << 8 | u128::from(*b))
}

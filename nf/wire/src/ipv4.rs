//! IPv4 (RFC 791): options, fragments, a total length shorter than the frame.

use crate::ether::{self, Tags};
use crate::frame::{Datagram, Fragment, Layer3, Outer, Parsed, broken_ip, udp};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Protocol number of UDP.
pub const UDP: u8 = 17;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_OR_OFFSET: u16 = 0x3fff;
const OFFSET: u16 = 0x1fff;

/// The common case in few steps: untagged Ethernet, IPv4 without options, a whole UDP datagram, lengths that agree.
/// None says nothing but "not that".
#[inline(always)]
pub(crate) fn parse_plain(head: &[u8], frame_len: usize) -> Option<Datagram> {
    const L3: usize = ether::HEADER_LEN;
    const L4: usize = L3 + HEADER_LEN;
    let h: &[u8; L4 + 8] = head.first_chunk()?;
    // Four loads have all fields: from the EtherType to the id, from the flags to half of the source address, both
    // addresses, UDP.
    let be64 = |at: usize| h[at..].first_chunk().map_or(0, |w| u64::from_be_bytes(*w));
    let (start, middle, addresses, udp) = (be64(12), be64(20), be64(26), be64(L4));
    let (first, fragment) = ((start >> 16) as u32, (middle >> 48) as u32);
    let total = (first & 0xffff) as usize;
    let udp_len = (udp >> 16) as usize & 0xffff;
    let odd = (start >> 40) ^ (u64::from(ether::IPV4) << 8 | 0x45)
        | u64::from(fragment & u32::from(MORE_OR_OFFSET))
        | (middle >> 32 & 0xff) ^ u64::from(UDP);
    if odd != 0 || total + L3 > frame_len || udp_len + HEADER_LEN != total || udp_len < 8 {
        return None;
    }
    let layer3 = Layer3 {
        src: u128::from(addresses >> 32),
        dst: u128::from(addresses as u32),
        class: class(first, fragment),
        hops: (middle >> 40) as u8,
        options: 0,
    };
    Some(Datagram {
        outer: Outer::new(&layer3, Tags::default(), (udp >> 32) as u32),
        l3: L3 as u16,
        l4: L4 as u16,
        payload: L4 as u16 + 8,
        payload_len: udp_len as u16 - 8,
        no_checksum: udp & 0xffff == 0,
    })
}

/// Version, type of service and DF, laid out so that the version is the top nibble.
#[inline]
fn class(first: u32, fragment: u32) -> u32 {
    first & 0xf0ff_0000 | fragment & u32::from(DONT_FRAGMENT)
}

/// Any IPv4 packet at `l3`.
pub(crate) fn parse(head: &[u8], frame_len: usize, l3: usize, tags: Tags) -> Parsed {
    let Some(h) = head.get(l3..l3 + HEADER_LEN) else {
        return Parsed::Other;
    };
    let be32 = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
    let (first, fragment) = (be32(0), be32(4));
    if first >> 28 != 4 || h[9] != UDP {
        return Parsed::Other;
    }
    let header_len = usize::from(h[0] & 0xf) * 4;
    let total = (first & 0xffff) as usize;
    let layer3 = Layer3 {
        src: u128::from(be32(12)),
        dst: u128::from(be32(16)),
        class: class(first, fragment),
        hops: h[8],
        options: header_len.saturating_sub(HEADER_LEN) as u16,
    };
    // Only the first fragment has the ports; the others' data must not be taken for them.
    let first_piece = fragment & u32::from(OFFSET) == 0;
    if header_len < HEADER_LEN {
        return broken_ip(head, first_piece.then_some(l3 + HEADER_LEN), &layer3, tags);
    }
    let l4 = l3 + header_len;
    if total < header_len || l3 + total > frame_len {
        return broken_ip(head, first_piece.then_some(l4), &layer3, tags);
    }
    if head.len() < l4 {
        return Parsed::Other;
    }
    if fragment & u32::from(MORE_OR_OFFSET) != 0 {
        return Parsed::Fragment(Fragment {
            outer: Outer::new(&layer3, tags, 0),
            l3: l3 as u16,
            data: l4 as u16,
            ip_len: total as u16,
            plain: true,
        });
    }
    udp(head, l3, l4, l3 + total, &layer3, tags)
}

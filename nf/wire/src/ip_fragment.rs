//! How a frame is cut into IP fragments (RFC 791, section 3.2; RFC 8200, section 4.5): arithmetic, nothing is copied.

use std::ops::Range;

use crate::ether::{self, be16};
use crate::{checksum, ipv4, ipv6};

/// Smallest MTU that a link for IPv4 may have (RFC 791, section 3.2).
pub const MIN_MTU_V4: usize = 68;
/// Smallest MTU that a link for IPv6 may have (RFC 8200, section 5).
pub const MIN_MTU_V6: usize = 1280;

/// The most bytes that stand before the payload of a fragment: Ethernet with two tags and the longest IPv4 header.
pub const MAX_HEAD: usize = ether::HEADER_LEN + 2 * ether::TAG_LEN + 60;

const MORE: u16 = 0x2000;
const MORE_OR_OFFSET: u16 = 0x3fff;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// One fragment: the headers to put first, and the bytes of the frame that follow them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    bytes: [u8; MAX_HEAD],
    len: usize,
    /// The bytes of the original frame that are the fragment's payload.
    pub payload: Range<usize>,
}

impl Piece {
    /// Ethernet and VLAN header, IP header, and for IPv6 the fragment header: at most [`MAX_HEAD`] bytes, all lengths
    /// and checksums in them final.
    #[inline]
    pub fn head(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// How to cut one frame: an iterator over its fragments in order. A frame that needs no cutting is one fragment whose
/// headers are those of the frame.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Ethernet and IP headers, for IPv6 with the fragment header behind.
    head: [u8; MAX_HEAD],
    head_len: usize,
    /// Offset of layer 3.
    l3: usize,
    v6: bool,
    /// The frame is as it is.
    whole: bool,
    /// Offset of the payload in the frame, and of its end.
    payload: usize,
    end: usize,
    /// Where the next fragment begins.
    at: usize,
    /// Payload bytes of every fragment but the last: a multiple of 8.
    step: usize,
}

impl Plan {
    /// The plan for a frame of `frame_len` bytes that begins with `head` (its headers at least), for IP packets of at
    /// most `mtu` bytes. What follows the IP packet in the frame is left out. `ipv6_id` is the identification of IPv6
    /// fragments; those of IPv4 have that of the packet. Whether DF forbids the cutting is for the caller to ask: the
    /// fragments have it clear. Options of IPv4 that are not to be copied stand in the first fragment alone.
    ///
    /// None for what is not IP; for lengths that cannot be true; for a packet that is a fragment itself; for IPv6
    /// extension headers that must stand before the fragment header (hop-by-hop, routing); for an `mtu` below
    /// [`MIN_MTU_V4`] or [`MIN_MTU_V6`].
    pub fn of(head: &[u8], frame_len: usize, mtu: usize, ipv6_id: u32) -> Option<Plan> {
        let (ether_type, l3, _) = ether::layer3(head)?;
        let plan = match ether_type {
            ether::IPV4 => Plan::v4(head, l3, mtu),
            ether::IPV6 => Plan::v6(head, l3, mtu, ipv6_id),
            _ => None,
        }?;
        (plan.end <= frame_len).then_some(plan)
    }

    fn v4(frame: &[u8], l3: usize, mtu: usize) -> Option<Plan> {
        let start = *frame.get(l3)?;
        let header_len = usize::from(start & 0xf) * 4;
        let total = usize::from(be16(frame, l3 + 2)?);
        let is_fragment = be16(frame, l3 + 6)? & MORE_OR_OFFSET != 0;
        let plausible = start >> 4 == 4 && header_len >= ipv4::HEADER_LEN && total >= header_len;
        if !plausible || is_fragment || mtu < MIN_MTU_V4 {
            return None;
        }
        let mut plan = Plan {
            head: [0; MAX_HEAD],
            head_len: l3 + header_len,
            l3,
            v6: false,
            whole: total <= mtu,
            payload: l3 + header_len,
            end: l3 + total,
            at: l3 + header_len,
            step: (mtu - header_len) / 8 * 8,
        };
        let headers = frame.get(..plan.head_len)?;
        plan.head.get_mut(..plan.head_len)?.copy_from_slice(headers);
        // Tried on a copy: options that cannot be walked must be known before the first fragment is out.
        let mut options = plan.head;
        let walked = only_copied_options(&mut options[l3 + ipv4::HEADER_LEN..plan.head_len]);
        (walked || plan.whole).then_some(plan)
    }

    fn v6(frame: &[u8], l3: usize, mtu: usize, id: u32) -> Option<Plan> {
        let payload = l3 + ipv6::HEADER_LEN;
        let headers = frame.get(..payload)?;
        let total = ipv6::HEADER_LEN + usize::from(be16(frame, l3 + 4)?);
        if headers[l3] >> 4 != 6 || mtu < MIN_MTU_V6 {
            return None;
        }
        let next = headers[l3 + 6];
        let mut plan = Plan {
            head: [0; MAX_HEAD],
            head_len: payload,
            l3,
            v6: true,
            whole: total <= mtu,
            payload,
            end: l3 + total,
            at: payload,
            step: (mtu - ipv6::HEADER_LEN - ipv6::FRAGMENT_LEN) / 8 * 8,
        };
        plan.head.get_mut(..payload)?.copy_from_slice(headers);
        if plan.whole {
            return Some(plan);
        }
        if !may_follow_fragment_header(frame, payload, next) {
            return None;
        }
        plan.head_len += ipv6::FRAGMENT_LEN;
        plan.head[l3 + 6] = FRAGMENT;
        plan.head[payload] = next;
        plan.head[payload + 4..plan.head_len].copy_from_slice(&id.to_be_bytes());
        Some(plan)
    }

    /// How many fragments are still to come.
    fn left(&self) -> usize {
        match (self.whole, self.at) {
            (_, usize::MAX) => 0,
            (true, _) => 1,
            (false, at) => (self.end - at).div_ceil(self.step),
        }
    }

    /// Sets in `piece` what a fragment has of its own.
    fn finish(&self, piece: &mut Piece, more: bool) {
        let offset = (piece.payload.start - self.payload) as u16;
        let ip_len = piece.len - self.l3 + piece.payload.len();
        let ip = &mut piece.bytes[self.l3..piece.len];
        if self.v6 {
            let len = (ip_len - ipv6::HEADER_LEN) as u16;
            ip[4..6].copy_from_slice(&len.to_be_bytes());
            // The offset is in units of 8 bytes and 3 bits from the right: the number of bytes, as it is.
            let field = offset | u16::from(more);
            ip[ipv6::HEADER_LEN + 2..ipv6::HEADER_LEN + 4].copy_from_slice(&field.to_be_bytes());
        } else {
            let field = (offset / 8) | if more { MORE } else { 0 };
            ip[2..4].copy_from_slice(&(ip_len as u16).to_be_bytes());
            ip[6..8].copy_from_slice(&field.to_be_bytes());
            ip[10..12].fill(0);
            let sum = !checksum::fold(checksum::sum(ip));
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

impl Iterator for Plan {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.left() == 0 {
            return None;
        }
        let end = if self.whole {
            self.end
        } else {
            self.end.min(self.at + self.step)
        };
        let mut piece = Piece {
            bytes: self.head,
            len: self.head_len,
            payload: self.at..end,
        };
        let more = end < self.end;
        if !self.whole {
            self.finish(&mut piece, more);
        }
        if !self.v6 && self.at == self.payload {
            only_copied_options(&mut self.head[self.l3 + ipv4::HEADER_LEN..self.head_len]);
        }
        self.at = if more { end } else { usize::MAX };
        Some(piece)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left(), Some(self.left()))
    }
}

impl ExactSizeIterator for Plan {}

/// Puts no-operation over the options of IPv4 that only the first fragment carries: those without the copied flag
/// (RFC 791, section 3.1). False when they cannot be walked.
fn only_copied_options(options: &mut [u8]) -> bool {
    const COPIED: u8 = 0x80;
    const NO_OPERATION: u8 = 1;
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        let len = match kind {
            0 => return true,
            NO_OPERATION => 1,
            _ => usize::from(*options.get(at + 1).unwrap_or(&0)),
        };
        let Some(option) = options.get_mut(at..at + len).filter(|o| !o.is_empty()) else {
            return false;
        };
        if kind != NO_OPERATION && len < 2 {
            return false;
        }
        if kind & COPIED == 0 {
            option.fill(NO_OPERATION);
        }
        at += len;
    }
    true
}

/// Whether a fragment header may be put at `at`, before what `next` says is there: not before hop-by-hop options or a
/// routing header, and destination options stand before the latter. A second fragment header is refused too.
fn may_follow_fragment_header(frame: &[u8], mut at: usize, mut next: u8) -> bool {
    while next == DESTINATION {
        let Some(&[after, units]) = frame.get(at..).and_then(|h| h.first_chunk()) else {
            return false;
        };
        at += (usize::from(units) + 1) * 8;
        next = after;
    }
    !matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT)
}

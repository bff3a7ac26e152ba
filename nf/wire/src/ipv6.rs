//! IPv6 (RFC 8200): all extension headers, fragments.

use crate::ether::Tags;
use crate::frame::{Fragment, Layer3, Outer, Parsed, broken_ip, udp};

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;
/// Bytes of a fragment header.
pub const FRAGMENT_LEN: usize = 8;

const UDP: u8 = 17;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;

/// In a fragment header: where the data stand, in bytes.
const OFFSET: u16 = 0xfff8;
/// In a fragment header: more fragments follow.
const MORE: u16 = 1;

/// Whether `next` is an extension header with its length in 8-byte units in its second byte (RFC 7045's list:
/// hop-by-hop, routing, destination options, mobility, HIP, shim6, and the two for experiments).
const fn is_extension(next: u8) -> bool {
    matches!(next, 0 | 43 | 60 | 135 | 139 | 140 | 253 | 254)
}

/// Where the chain of extension headers ends.
struct Chain {
    /// Offset of what follows the last extension header that was walked.
    at: usize,
    /// A fragment header makes this a fragment, whose data stand this many bytes into the whole packet's.
    fragment: Option<u16>,
    /// Whether a header other than the fragment header came before it.
    plain: bool,
}

/// Walks from `at` to the UDP header or to a fragment header that says the packet is not whole. None when it ends
/// elsewhere, or `head` ends first.
fn walk(head: &[u8], mut at: usize, mut next: u8) -> Option<Chain> {
    let mut plain = true;
    while next != UDP {
        let h = head.get(at..at + FRAGMENT_LEN)?;
        if next == FRAGMENT {
            let field = u16::from_be_bytes([h[2], h[3]]);
            if field & (OFFSET | MORE) != 0 {
                // The later fragments of a datagram are told by the fragment header's next header alone.
                let chain = Chain {
                    at: at + FRAGMENT_LEN,
                    fragment: Some(field & OFFSET),
                    plain,
                };
                return (h[0] == UDP).then_some(chain);
            }
            at += FRAGMENT_LEN;
        } else if next == AUTHENTICATION {
            at += (usize::from(h[1]) + 2) * 4;
        } else if next == ROUTING && h[3] != 0 {
            // Segments left: the destination address is not the last one (RFC 8200, section 4.4).
            return None;
        } else if is_extension(next) {
            at += (usize::from(h[1]) + 1) * 8;
        } else {
            return None;
        }
        plain = false;
        next = h[0];
    }
    Some(Chain {
        at,
        fragment: None,
        plain,
    })
}

/// Any IPv6 packet at `l3`.
pub(crate) fn parse(head: &[u8], frame_len: usize, l3: usize, tags: Tags) -> Parsed {
    let Some(h) = head.get(l3..l3 + HEADER_LEN) else {
        return Parsed::Other;
    };
    let class = u32::from_be_bytes([h[0], h[1], h[2], h[3]]);
    let Some(chain) = (if class >> 28 == 6 {
        walk(head, l3 + HEADER_LEN, h[6])
    } else {
        None
    }) else {
        return Parsed::Other;
    };
    let word = |at: usize| h[at..at + 16].iter().fold(0u128, |v, b| v << 8 | u128::from(*b));
    let layer3 = Layer3 {
        src: word(8),
        dst: word(24),
        class,
        hops: h[7],
        options: (chain.at - l3 - HEADER_LEN).min(0xffff) as u16,
    };
    let len = usize::from(u16::from_be_bytes([h[4], h[5]]));
    let end = l3 + HEADER_LEN + len;
    if end > frame_len || chain.at > end {
        let first_piece = chain.fragment.is_none_or(|offset| offset == 0);
        return broken_ip(head, first_piece.then_some(chain.at), &layer3, tags);
    }
    if head.len() < chain.at {
        return Parsed::Other;
    }
    match chain.fragment {
        Some(_) => match (u16::try_from(chain.at), u16::try_from(HEADER_LEN + len)) {
            (Ok(data), Ok(ip_len)) => Parsed::Fragment(Fragment {
                outer: Outer::new(&layer3, tags, 0),
                l3: l3 as u16,
                data,
                ip_len,
                plain: chain.plain,
            }),
            _ => Parsed::Other,
        },
        None => udp(head, l3, chain.at, end, &layer3, tags),
    }
}

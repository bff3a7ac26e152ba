//! What the first three stages find out about one record.

use crate::buf::{Buf, RxChecksums, Verdict};
use nf_wire::frame::{Datagram, Outer};
use nf_wire::record::HeaderWord;

/// Offset of the next-header field in the IPv6 header (RFC 8200 section 3).
const NEXT_HEADER: usize = 6;

/// What parsing found of one record, once: one cache line beside the burst.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Facts {
    /// The outer headers' shared fields.
    pub outer: Outer,
    /// Header word.
    pub word: HeaderWord,
    /// Offset of the UDP payload in the frame, in bytes.
    pub payload: u16,
    /// Bytes of UDP payload.
    pub payload_len: u16,
    /// Offset of the IP header.
    pub l3: u16,
    /// The port's checksum verdicts.
    pub sums: RxChecksums,
    /// Index of the tunnel whose listener it came to.
    pub tunnel: u8,
    /// Whether the buffer and the headers allow it to stand in a batch with others.
    pub joins: bool,
}

const _: () = assert!(size_of::<Facts>() == 64);

impl Facts {
    /// Facts of no record, for slots that hold none.
    pub(crate) const VOID: Facts = Facts {
        outer: Outer::NONE,
        word: HeaderWord(0),
        payload: 0,
        payload_len: 0,
        l3: 0,
        sums: RxChecksums {
            ip: Verdict::Unknown,
            l4: Verdict::Unknown,
        },
        tunnel: 0,
        joins: false,
    };

    /// The facts of a record in `buf`.
    #[inline(always)]
    pub(crate) fn new<B: Buf>(buf: &B, udp: &Datagram, word: HeaderWord, tunnel: u8) -> Self {
        let bare = udp.outer.is_v6() || udp.outer.options_len() == 0;
        Facts {
            outer: udp.outer,
            word,
            payload: udp.payload,
            payload_len: udp.payload_len,
            l3: udp.l3,
            sums: buf.rx_checksums(),
            tunnel,
            joins: bare && buf.is_private(),
        }
    }

    /// Whether two records may stand in one batch, their sizes and extension headers apart.
    #[inline(always)]
    pub(super) fn agrees(&self, other: &Facts) -> bool {
        self.word == other.word && self.outer.same(&other.outer) && self.sums == other.sums
    }

    /// The extension headers, from the IPv6 header's next-header field on, which names the first of them. What lies
    /// between (hop limit, addresses) agrees by then.
    pub(super) fn extension_headers<'b, B: Buf>(&self, buf: Option<&'b B>) -> Option<&'b [u8]> {
        buf?.data()
            .get(usize::from(self.l3) + NEXT_HEADER..usize::from(self.payload) - 8)
    }
}

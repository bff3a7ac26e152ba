//! Stage 1: the frame's headers, read once. Drops: none; a frame that makes no sense is judged by the next stage.

use crate::buf::Buf;
use nf_wire::frame::{self, Datagram, Parsed};

/// The common case: untagged IPv4 without options, a whole UDP datagram. None says nothing but "not that".
#[inline(always)]
pub fn plain<B: Buf>(buf: &B) -> Option<Datagram> {
    frame::parse_plain(buf.data(), buf.packet_len())
}

/// Parses the first segment of `buf`.
#[inline]
pub fn parse<B: Buf>(buf: &B) -> Parsed {
    frame::parse(buf.data(), buf.packet_len())
}

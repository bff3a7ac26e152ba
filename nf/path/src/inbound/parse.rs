//! Stage 1: the frame's headers, read once. Drops: none; a frame that makes no sense is judged by the next stage.

use crate::buf::Buf;
use nf_wire::frame::{self, Parsed};

/// Parses the first segment of `buf`.
#[inline]
pub fn parse<B: Buf>(buf: &B) -> Parsed {
    frame::parse(buf.data(), buf.packet_len())
}

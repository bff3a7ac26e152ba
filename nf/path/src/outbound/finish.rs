//! What the kernel left undone in a frame from a tunnel interface, as the frame's virtio-net header says it: a
//! partial checksum is completed, a TCP super-frame is cut into segments.
//!
//! Drops: `scattered`, `tunnel_length`, `oversize`, `no_buffer`.

use nf_wire::ether;
use nf_wire::inner::{self, Version};
use nf_wire::partial;
use nf_wire::segment::{Plan, Segment};

use crate::buf::{Buf, Layout, Unfinished};
use crate::buffers::Buffers;
use crate::counters::Counters;
use crate::verdict::DropReason;

/// Bytes that a buffer of [`Buffers::small`] holds behind its headroom.
pub const SMALL_LEN: usize = 2048;
/// Headers of a super-frame that are looked at, which may lie in several segments: Ethernet, IP with extension
/// headers, TCP.
const MAX_HEADERS: usize = 512;

/// TCP's FIN and PSH, which the last segment alone has.
const LAST_ONLY: u8 = 0x01 | 0x08;

/// Finishes an Ethernet frame with an IP packet and gives what comes of it, in order: the frame itself, or its
/// segments in fresh buffers. What is given is finished ([`Buf::unfinished`]). A frame that was finished costs
/// the test and is given untouched.
///
/// Segments are as large as the sender asks for, and smaller where that is more than a small buffer holds
/// ([`SMALL_LEN`]). `checksums_completed` counts frames, `segmented` super-frames.
///
/// # Errors
/// The frame is freed. [`DropReason::TunnelLength`]: the checksum of a frame that is not TCP or UDP, or whose
/// lengths cannot be true. [`DropReason::Scattered`]: the same in several segments or a shared buffer, and no
/// large buffer for it. [`DropReason::Oversize`]: a super-frame that cannot be cut
/// ([`nf_wire::segment::Refused`]). [`DropReason::NoBuffer`]: none free for a segment; those before it have
/// been given.
#[inline(always)]
pub fn finish<B: Buf, P: Buffers<B>>(
    frame: B,
    buffers: &mut P,
    counters: &Counters,
    give: &mut dyn FnMut(B),
) -> Result<(), DropReason> {
    let Unfinished { checksum, segment } = frame.unfinished();
    if segment != 0 {
        cut(frame, segment, buffers, counters, give)
    } else if checksum {
        complete(frame, buffers, counters).map(give)
    } else {
        give(frame);
        Ok(())
    }
}

#[cold]
fn complete<B: Buf>(frame: B, buffers: &mut impl Buffers<B>, counters: &Counters) -> Result<B, DropReason> {
    let mut frame = if frame.segments() == 1 && frame.is_private() {
        frame
    } else {
        buffers.linearise(frame).map_err(|_| DropReason::Scattered)?
    };
    let l3 = ip_at(frame.data()).ok_or(DropReason::TunnelLength)?;
    if !partial::complete(frame.data_mut(), l3) {
        return Err(DropReason::TunnelLength);
    }
    counters.checksums_completed.add(1);
    let l3_len = usize::from(frame.data()[l3] >> 4 == 6) * 20 + 20;
    frame.restate(Layout {
        l2_len: l3 as u8,
        l3_len: l3_len as u16,
        packet_type: 0,
    });
    Ok(frame)
}

#[cold]
fn cut<B: Buf>(
    frame: B,
    size: u16,
    buffers: &mut impl Buffers<B>,
    counters: &Counters,
    give: &mut dyn FnMut(B),
) -> Result<(), DropReason> {
    let mut head = [0; MAX_HEADERS];
    let gathered = gather(&frame, &mut head);
    let cut = Cut::of(&mut head[..gathered], frame.packet_len(), size).ok_or(DropReason::Oversize)?;
    if cut.begin + usize::from(size) >= cut.end {
        return complete(frame, buffers, counters).map(give);
    }
    let mut source = Cursor::new(frame.parts());
    source.skip(cut.begin);
    for segment in cut.segments() {
        let mut fresh = buffers.small().ok_or(DropReason::NoBuffer)?;
        let copied = fresh.append(&head[..cut.begin]) && source.copy(segment.payload.len(), &mut fresh);
        if !copied {
            return Err(DropReason::NoBuffer);
        }
        if !cut.finish(&segment, fresh.data_mut()) {
            return Err(DropReason::Oversize);
        }
        if segment.index == 0 {
            counters.segmented.add(1);
        }
        give(fresh);
    }
    Ok(())
}

/// Where the IP packet begins. None when the EtherType names another one, or none.
fn ip_at(frame: &[u8]) -> Option<usize> {
    let (ether_type, l3, _) = ether::layer3(frame)?;
    match (ether_type, frame.get(l3)? >> 4) {
        (ether::IPV4, 4) | (ether::IPV6, 6) => Some(l3),
        _ => None,
    }
}

/// Copies the packet's first bytes, as many as fit: how many.
fn gather<B: Buf>(frame: &B, to: &mut [u8]) -> usize {
    let mut at = 0;
    for part in frame.parts() {
        let n = part.len().min(to.len() - at);
        to[at..at + n].copy_from_slice(&part[..n]);
        at += n;
    }
    at
}

/// How a super-frame is cut of which only the first bytes are in one piece.
struct Cut {
    /// The plan for the headers alone, as of a packet without payload: every segment with payload is one before
    /// its last.
    plan: Plan,
    l3: usize,
    /// Offset of TCP's flags.
    flags_at: usize,
    /// The frame's flags that its last segment has.
    last_flags: u8,
    /// Where the TCP payload begins, and where it ends.
    begin: usize,
    end: usize,
    /// Payload bytes of every segment but the last.
    step: usize,
}

impl Cut {
    /// None when the frame, of `len` bytes, cannot be cut. The length in the IP header of `head` is changed;
    /// every segment gets its own.
    fn of(head: &mut [u8], len: usize, size: u16) -> Option<Cut> {
        let l3 = ip_at(head)?;
        let packet = head.get_mut(l3..)?;
        let (version, total) = claimed_len(packet)?;
        let end = l3 + total;
        if end > len {
            return None;
        }
        state_len(packet, version, total.min(packet.len()));
        let l4 = inner::parse(packet).ok()?.l4;
        let begin = Plan::new(head, l3, size).ok()?.header_len();
        state_len(head.get_mut(l3..)?, version, begin - l3);
        let plan = Plan::new(head, l3, size).ok()?;
        let room = SMALL_LEN.checked_sub(begin).filter(|&room| room > 0)?;
        let flags_at = l3 + l4 + 13;
        Some(Cut {
            plan,
            l3,
            flags_at,
            last_flags: head[flags_at] & LAST_ONLY,
            begin,
            end,
            step: room.min(usize::from(size)),
        })
    }

    fn segments(&self) -> impl Iterator<Item = Segment> {
        let starts = (self.begin..self.end).step_by(self.step);
        // Fewer than 65536, which a packet's bytes are.
        starts.enumerate().map(|(i, at)| Segment {
            index: i as u16,
            payload: at..self.end.min(at + self.step),
        })
    }

    /// Makes a segment of the headers and its payload.
    fn finish(&self, segment: &Segment, bytes: &mut [u8]) -> bool {
        let done = self.plan.finish(segment, bytes);
        if !done || segment.payload.end < self.end || self.last_flags == 0 {
            return done;
        }
        bytes[self.flags_at] |= self.last_flags;
        partial::complete(bytes, self.l3)
    }
}

/// The version and total length that an IP header claims. None when it ends before that.
fn claimed_len(packet: &[u8]) -> Option<(Version, usize)> {
    let h = packet.first_chunk::<20>()?;
    match h[0] >> 4 {
        4 => Some((Version::V4, usize::from(u16::from_be_bytes([h[2], h[3]])))),
        6 => Some((Version::V6, 40 + usize::from(u16::from_be_bytes([h[4], h[5]])))),
        _ => None,
    }
}

/// Writes an IP packet's total length. The packet is at least 20 bytes, and of IPv6 the length at least 40.
fn state_len(packet: &mut [u8], version: Version, total: usize) {
    let (at, len) = match version {
        Version::V4 => (2, total),
        Version::V6 => (4, total.saturating_sub(40)),
    };
    packet[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
}

/// Reads a packet's bytes in order, over its segments.
struct Cursor<'p, I> {
    parts: I,
    rest: &'p [u8],
}

impl<'p, I: Iterator<Item = &'p [u8]>> Cursor<'p, I> {
    fn new(parts: I) -> Self {
        Cursor { parts, rest: &[] }
    }

    /// The next bytes in one piece, at most `max`, which is not 0; None at the end.
    fn next(&mut self, max: usize) -> Option<&'p [u8]> {
        while self.rest.is_empty() {
            self.rest = self.parts.next()?;
        }
        let (here, rest) = self.rest.split_at(max.min(self.rest.len()));
        self.rest = rest;
        Some(here)
    }

    fn skip(&mut self, mut n: usize) {
        while n > 0
            && let Some(here) = self.next(n)
        {
            n -= here.len();
        }
    }

    /// Appends the next `n` bytes to a buffer. False when it is full, or there are not as many.
    fn copy(&mut self, mut n: usize, to: &mut impl Buf) -> bool {
        while n > 0 {
            match self.next(n) {
                Some(here) if to.append(here) => n -= here.len(),
                _ => return false,
            }
        }
        true
    }
}

//! TCP super-frames (what TSO leaves to the interface) cut into segments, by arithmetic alone: the caller copies.
//!
//! ```
//! # fn cut(frame: &[u8]) -> Result<Vec<Vec<u8>>, nf_wire::segment::Refused> {
//! let plan = nf_wire::segment::Plan::new(frame, 14, 1400)?;
//! let mut out = Vec::new();
//! for segment in plan.segments() {
//!     let mut fresh = frame[..plan.header_len()].to_vec();
//!     fresh.extend(&frame[segment.payload.clone()]);
//!     assert!(plan.finish(&segment, &mut fresh));
//!     out.push(fresh);
//! }
//! # Ok(out)
//! # }
//! ```

use crate::checksum;
use crate::inner::{self, Piece, TCP, Version};
use core::ops::Range;

const TCP_LEN: usize = 20;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const URG: u8 = 0x20;
const CWR: u8 = 0x80;

/// Why a frame cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The IP lengths cannot be true.
    Ip(inner::Lie),
    /// Not TCP, or TCP under an authentication header.
    NotTcp,
    /// A fragment of an IP datagram.
    Fragment,
    /// A source route keeps the last destination, which the checksum needs.
    SourceRouted,
    /// The TCP header does not fit the packet, or says it is shorter than 20 bytes.
    TcpHeader,
    /// SYN or RST: no sender leaves their payload to be cut.
    Control,
    /// A segment size of zero.
    NoSize,
}

/// How one frame is cut.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    version: Version,
    l3: usize,
    l4: usize,
    /// Where the TCP payload begins and the packet ends.
    payload: usize,
    end: usize,
    mss: usize,
    sequence: u32,
    flags: u8,
    urgent: u16,
    /// IPv4.
    id: u16,
    /// Sum of the pseudo-header without its length, for [`checksum::fold`].
    pseudo: u64,
}

/// One segment of a [`Plan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Which it is, from 0.
    pub index: u16,
    /// Where its payload is in the frame. (Empty only when the frame has none.)
    pub payload: Range<usize>,
}

impl Plan {
    /// The plan for the frame whose IP packet begins at byte `l3`, for segments of at most `mss` bytes of TCP payload.
    /// What lies behind the packet's end is left out. The frame's checksums are not looked at.
    ///
    /// # Errors
    /// What it does not cut: see [`Refused`].
    pub fn new(frame: &[u8], l3: usize, mss: u16) -> Result<Self, Refused> {
        let packet = frame.get(l3..).unwrap_or_default();
        let ip = inner::parse(packet).map_err(Refused::Ip)?;
        if ip.piece != Piece::Whole {
            return Err(Refused::Fragment);
        }
        if ip.protocol != TCP {
            return Err(Refused::NotTcp);
        }
        if ip.source_routed {
            return Err(Refused::SourceRouted);
        }
        let tcp = &packet[ip.l4..ip.total_len];
        let h = tcp.first_chunk::<TCP_LEN>().ok_or(Refused::TcpHeader)?;
        let header_len = usize::from(h[12] >> 4) * 4;
        if header_len < TCP_LEN || header_len > tcp.len() {
            return Err(Refused::TcpHeader);
        }
        if h[13] & (SYN | RST) != 0 {
            return Err(Refused::Control);
        }
        if mss == 0 {
            return Err(Refused::NoSize);
        }
        let l4 = l3 + ip.l4;
        Ok(Plan {
            version: ip.version,
            l3,
            l4,
            payload: l4 + header_len,
            end: l3 + ip.total_len,
            mss: usize::from(mss),
            sequence: u32::from_be_bytes([h[4], h[5], h[6], h[7]]),
            flags: h[13],
            urgent: u16::from_be_bytes([h[18], h[19]]),
            id: u16::from_be_bytes([packet[4], packet[5]]),
            pseudo: ip.pseudo_header(0),
        })
    }

    /// Bytes that every segment begins with: those of the frame up to its TCP payload.
    pub fn header_len(&self) -> usize {
        self.payload
    }

    /// Bytes of the largest segment, headers and all.
    pub fn largest(&self) -> usize {
        self.end.min(self.payload + self.mss)
    }

    /// How many segments there are, at least 1.
    pub fn count(&self) -> usize {
        (self.end - self.payload).div_ceil(self.mss).max(1)
    }

    /// The segments in the order of their sequence numbers.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = Segment> + use<> {
        let (begin, end, mss) = (self.payload, self.end, self.mss);
        // Under 65536 bytes of packet, so never more segments.
        (0..self.count() as u16).map(move |index| {
            let at = begin + usize::from(index) * mss;
            Segment {
                index,
                payload: at..end.min(at + mss),
            }
        })
    }

    /// Makes a segment out of `bytes`, which are the frame's first [`Plan::header_len`] bytes and the segment's
    /// payload: IPv4 total length, id (the frame's and one more for each segment) and header checksum, or IPv6 payload
    /// length; TCP sequence number; FIN and PSH on the last segment alone and CWR on the first (RFC 3168, section
    /// 6.1.2); the urgent pointer, as far as it reaches (RFC 9293, section 3.1); TCP checksum.
    ///
    /// False, and the bytes as they were, when they are not as many as that makes.
    pub fn finish(&self, segment: &Segment, bytes: &mut [u8]) -> bool {
        let payload_len = segment.payload.len();
        if bytes.len() != self.payload + payload_len || segment.payload.start < self.payload {
            return false;
        }
        let offset = segment.payload.start - self.payload;
        self.finish_ip(segment.index, &mut bytes[self.l3..]);
        let tcp = &mut bytes[self.l4..];
        tcp[4..8].copy_from_slice(&self.sequence.wrapping_add(offset as u32).to_be_bytes());
        let (flags, urgent) = self.flags_at(offset, segment.payload.end == self.end);
        tcp[13] = flags;
        tcp[18..20].copy_from_slice(&urgent.to_be_bytes());
        tcp[16..18].fill(0);
        let sum = checksum::fold(self.pseudo + tcp.len() as u64 + checksum::sum(tcp));
        tcp[16..18].copy_from_slice(&(!sum).to_be_bytes());
        true
    }

    /// The IP header of a packet that is as long as the slice.
    fn finish_ip(&self, index: u16, packet: &mut [u8]) {
        // Not over the frame's own lengths, which 16 bits hold.
        match self.version {
            Version::V4 => {
                let len = packet.len() as u16;
                packet[2..4].copy_from_slice(&len.to_be_bytes());
                packet[4..6].copy_from_slice(&self.id.wrapping_add(index).to_be_bytes());
                packet[10..12].fill(0);
                let sum = checksum::fold(checksum::sum(&packet[..self.l4 - self.l3]));
                packet[10..12].copy_from_slice(&(!sum).to_be_bytes());
            }
            Version::V6 => {
                let len = (packet.len() - crate::ipv6::HEADER_LEN) as u16;
                packet[4..6].copy_from_slice(&len.to_be_bytes());
            }
        }
    }

    /// The flags and the urgent pointer of the segment that begins `offset` bytes into the payload.
    fn flags_at(&self, offset: usize, is_last: bool) -> (u8, u16) {
        let mut flags = self.flags;
        if !is_last {
            flags &= !(FIN | PSH);
        }
        if offset > 0 {
            flags &= !CWR;
        }
        if flags & URG == 0 {
            return (flags, self.urgent);
        }
        match usize::from(self.urgent).saturating_sub(offset) {
            0 => (flags & !URG, 0),
            ahead => (flags, ahead as u16),
        }
    }
}

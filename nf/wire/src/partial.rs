//! Partial TCP and UDP checksums: a sender that leaves the checksum to its interface writes the sum of the
//! pseudo-header into the field, folded and not inverted (Linux: `CHECKSUM_PARTIAL`; virtio 1.2, section 5.1.6.2.1).
//! veth hands such packets on as they are, without a mark.

use crate::checksum;
use crate::inner::{self, InnerIp, Piece, TCP, UDP};

/// Where layer 4 and its checksum are, in bytes from the first byte of the frame.
struct Layer4 {
    begin: usize,
    end: usize,
    field: usize,
    /// Sum of the pseudo-header, for [`checksum::fold`].
    pseudo: u64,
    udp: bool,
}

impl Layer4 {
    /// Of the IP packet at `l3`. None when it is not a whole, well-formed TCP or UDP packet, or is source-routed.
    fn of(frame: &[u8], l3: usize) -> Option<Self> {
        let packet = frame.get(l3..)?;
        let ip = inner::parse(packet).ok()?;
        if ip.piece != Piece::Whole || ip.source_routed {
            return None;
        }
        let layer4 = &packet[ip.l4..ip.total_len];
        let (len, field) = match ip.protocol {
            TCP => (tcp_len(layer4)?, 16),
            UDP => (udp_len(layer4)?, 6),
            _ => return None,
        };
        Some(Self::at(l3 + ip.l4, len, field, &ip))
    }

    fn at(begin: usize, len: usize, field: usize, ip: &InnerIp) -> Self {
        Layer4 {
            begin,
            end: begin + len,
            field: begin + field,
            pseudo: ip.pseudo_header(len),
            udp: ip.protocol == UDP,
        }
    }

    fn sum(&self, frame: &[u8]) -> u64 {
        checksum::sum(&frame[self.begin..self.end])
    }

    fn is_partial(&self, frame: &[u8]) -> bool {
        // The field alone is no proof: one in 65536 finished checksums equals the pseudo-header's sum.
        frame[self.field..self.field + 2] == checksum::fold(self.pseudo).to_be_bytes()
            && checksum::fold(self.pseudo + self.sum(frame)) != 0xffff
    }

    fn complete(&self, frame: &mut [u8]) {
        frame[self.field..self.field + 2].fill(0);
        let sum = !checksum::fold(self.pseudo + self.sum(frame));
        let sum = if self.udp { checksum::udp_field(sum) } else { sum };
        frame[self.field..self.field + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The bytes that TCP's checksum covers: all of the packet's rest, if it holds the header.
fn tcp_len(segment: &[u8]) -> Option<usize> {
    let header_len = usize::from(segment.first_chunk::<20>()?[12] >> 4) * 4;
    (20..=segment.len())
        .contains(&header_len)
        .then_some(segment.len())
}

/// The bytes that UDP's checksum covers: as many as its own length says.
fn udp_len(datagram: &[u8]) -> Option<usize> {
    let h = datagram.first_chunk::<8>()?;
    let len = usize::from(u16::from_be_bytes([h[4], h[5]]));
    (8..=datagram.len()).contains(&len).then_some(len)
}

/// Whether the IP packet at byte `l3` of the frame carries TCP or UDP with a partial checksum: the field is the
/// pseudo-header's sum, and is wrong as a checksum. False for fragments, source-routed packets, lengths that cannot be
/// true, and anything else. Few loads unless the field is the pseudo-header's sum.
pub fn looks_partial(frame: &[u8], l3: usize) -> bool {
    Layer4::of(frame, l3).is_some_and(|l4| l4.is_partial(frame))
}

/// Computes the TCP or UDP checksum of the IP packet at byte `l3` of the frame, whatever stands in the field. UDP over
/// IPv4 that had none gets one. False, and the frame as it was, for fragments, source-routed packets, lengths that
/// cannot be true, and anything but TCP and UDP.
pub fn complete(frame: &mut [u8], l3: usize) -> bool {
    let layer4 = Layer4::of(frame, l3);
    if let Some(l4) = &layer4 {
        l4.complete(frame);
    }
    layer4.is_some()
}

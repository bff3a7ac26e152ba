//! Inner TCP and UDP packets with every checksum as asked for, computed apart from the code under test.

use std::net::IpAddr;

/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// TCP flags of the first segment of a connection.
pub const SYN: u8 = 0x02;
/// TCP flags of the answer to it.
pub const SYN_ACK: u8 = 0x12;
/// Destination options (RFC 8200, section 4.6): one unit of padding, behind it what `next` says.
const DESTINATION_OPTIONS: u8 = 60;

/// What stands in a TCP or UDP checksum field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L4Sum {
    /// The right one.
    Right,
    /// The sum of the pseudo-header, folded and not inverted.
    Partial,
    /// The right one with its lowest bit flipped.
    Wrong,
}

/// The one's complement sum of the parts joined, each but the last of even length.
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u64 = words
        .map(|pair| u64::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// A TCP header with these flags and options (whole words), then the payload; no checksum.
pub fn tcp(flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    assert_eq!(options.len() % 4, 0, "options are whole words");
    let words = (20 + options.len()) as u8 / 4;
    let fixed = [
        0x30,
        0x39,
        0,
        80,
        0,
        0,
        0,
        7,
        0,
        0,
        0,
        9,
        words << 4,
        flags,
        0xff,
        0xff,
        0,
        0,
        0,
        0,
    ];
    [&fixed[..], options, payload].concat()
}

/// A UDP header, then the payload; no checksum.
pub fn udp(payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len() as u16).to_be_bytes();
    [&[0x30, 0x39, 0, 53], &len[..], &[0, 0], payload].concat()
}

/// An IP packet around TCP or UDP without checksum, which gets one. With `extended`, IPv6 has an extension header.
pub fn packet(
    (source, destination): (IpAddr, IpAddr),
    protocol: u8,
    extended: bool,
    mut l4: Vec<u8>,
    kind: L4Sum,
) -> Vec<u8> {
    let (source_bytes, destination_bytes) = (bytes(source), bytes(destination));
    let len = (l4.len() as u32).to_be_bytes();
    let pseudo = sum(&[&source_bytes, &destination_bytes, &len, &[0, protocol]]);
    let right = match !sum(&[&pseudo.to_be_bytes(), &l4]) {
        0 if protocol == UDP => 0xffff,
        right => right,
    };
    let field = match kind {
        L4Sum::Right => right,
        L4Sum::Partial => pseudo,
        L4Sum::Wrong => right ^ 1,
    };
    l4[checksum_at(protocol)..][..2].copy_from_slice(&field.to_be_bytes());
    let extension: &[u8] = if extended {
        &[protocol, 0, 1, 4, 0, 0, 0, 0]
    } else {
        &[]
    };
    let total = extension.len() + l4.len();
    let mut header = if source.is_ipv4() {
        assert!(!extended, "IPv4 has no extension headers");
        let total = (20 + total as u16).to_be_bytes();
        vec![0x45, 0, total[0], total[1], 0, 1, 0, 0, 64, protocol, 0, 0]
    } else {
        let total = (total as u16).to_be_bytes();
        let next = if extended { DESTINATION_OPTIONS } else { protocol };
        vec![0x60, 0, 0, 0, total[0], total[1], next, 64]
    };
    header.extend(source_bytes);
    header.extend(destination_bytes);
    if source.is_ipv4() {
        let check = !sum(&[&header]);
        header[10..12].copy_from_slice(&check.to_be_bytes());
    }
    [&header[..], extension, &l4].concat()
}

fn checksum_at(protocol: u8) -> usize {
    if protocol == TCP { 16 } else { 6 }
}

/// Whether the checksum of a packet as [`packet`] makes it is right.
pub fn is_right(packet: &[u8]) -> bool {
    let (protocol, l4, addresses) = if packet[0] >> 4 == 4 {
        (packet[9], 20, &packet[12..20])
    } else if packet[6] == DESTINATION_OPTIONS {
        (packet[40], 48, &packet[8..40])
    } else {
        (packet[6], 40, &packet[8..40])
    };
    let len = (packet.len() as u32 - l4).to_be_bytes();
    sum(&[addresses, &len, &[0, protocol], &packet[l4 as usize..]]) == 0xffff
}

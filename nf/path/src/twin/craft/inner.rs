//! Inner packets: valid UDP over IP, each carrying a number.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{checksum, udp_checksum};

/// A filler that depends on the number and the place.
fn filler(number: u32, len: usize) -> Vec<u8> {
    let mut state = number ^ 0x9e37_79b9;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(next).collect()
}

/// What follows the IP header: UDP with the number, then filler; below 12 bytes (no room for both) filler alone.
/// Gives the protocol number as well: 17, or 253 (RFC 3692, for experiments).
fn content(source: &[u8], destination: &[u8], len: usize, number: u32) -> (u8, Vec<u8>) {
    if len < 12 {
        return (253, filler(number, len));
    }
    let len_field = u16::try_from(len)
        .expect("an inner packet is under 64 KiB")
        .to_be_bytes();
    let mut udp = [
        &[0x0f, 0xa1, 0x0f, 0xa2],
        &len_field[..],
        &[0, 0],
        &number.to_be_bytes(),
    ]
    .concat();
    udp.extend(filler(number, len - 12));
    let sum = udp_checksum(source, destination, &udp);
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    (17, udp)
}

/// An IPv4 packet of `len` bytes, at least 20, with right lengths and checksums. [`number`] gives `n` back from 32
/// bytes on; the identification is its lower half.
pub fn inner_v4(source: Ipv4Addr, destination: Ipv4Addr, len: usize, n: u32) -> Vec<u8> {
    assert!(len >= 20, "an IPv4 packet of {len} bytes");
    let (source, destination) = (source.octets(), destination.octets());
    let (protocol, content) = content(&source, &destination, len - 20, n);
    let total = u16::try_from(len)
        .expect("an inner packet is under 64 KiB")
        .to_be_bytes();
    let id = (n as u16).to_be_bytes();
    let mut ip = [
        &[0x45, 0],
        &total[..],
        &id,
        &[0x40, 0, 64, protocol, 0, 0],
        &source,
        &destination,
    ]
    .concat();
    let sum = checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend(content);
    ip
}

/// An IPv6 packet of `len` bytes, at least 40, with right lengths and checksum. [`number`] gives `n` back from 52
/// bytes on; the flow label is its lower 20 bits.
pub fn inner_v6(source: Ipv6Addr, destination: Ipv6Addr, len: usize, n: u32) -> Vec<u8> {
    assert!(len >= 40, "an IPv6 packet of {len} bytes");
    let (source, destination) = (source.octets(), destination.octets());
    let (protocol, content) = content(&source, &destination, len - 40, n);
    let first = (6 << 28 | n & 0xf_ffff).to_be_bytes();
    let payload = u16::try_from(len - 40)
        .expect("an inner packet is under 64 KiB")
        .to_be_bytes();
    let mut ip = [&first[..], &payload, &[protocol, 64], &source, &destination].concat();
    ip.extend(content);
    ip
}

/// The number that [`inner_v4`] or [`inner_v6`] put in; `None` when the packet is too short to carry one.
pub fn number(inner: &[u8]) -> Option<u32> {
    let at = if inner.first()? >> 4 == 4 { 28 } else { 48 };
    inner
        .get(at..at + 4)
        .map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_is_valid_at_every_length() {
        let (source, destination) = (Ipv4Addr::new(10, 8, 0, 2), Ipv4Addr::new(10, 8, 0, 1));
        for len in 20..1501 {
            let n = 0xdead_0000 + len as u32;
            let packet = inner_v4(source, destination, len, n);
            assert_eq!((packet.len(), packet[0]), (len, 0x45));
            assert_eq!(u16::from_be_bytes([packet[2], packet[3]]) as usize, len);
            assert_eq!(checksum(&[&packet[..20]]), 0);
            assert_eq!(
                (&packet[12..16], &packet[16..20]),
                (&source.octets()[..], &destination.octets()[..])
            );
            assert_eq!(number(&packet), (len >= 32).then_some(n));
            if len >= 32 {
                let udp = &packet[20..];
                let length = (udp.len() as u32).to_be_bytes();
                assert_eq!(checksum(&[&packet[12..20], &length, &[0, 17], udp]), 0);
            }
        }
    }

    #[test]
    fn ipv6_is_valid_at_every_length() {
        let (source, destination) = ("fd00::2".parse().unwrap(), "fd00::1".parse().unwrap());
        for len in 40..1501 {
            let n = 0xbeef_0000 + len as u32;
            let packet = inner_v6(source, destination, len, n);
            assert_eq!((packet.len(), packet[0] >> 4), (len, 6));
            assert_eq!(u16::from_be_bytes([packet[4], packet[5]]) as usize, len - 40);
            assert_eq!(number(&packet), (len >= 52).then_some(n));
            if len >= 52 {
                let udp = &packet[40..];
                let length = (udp.len() as u32).to_be_bytes();
                assert_eq!(
                    (packet[6], checksum(&[&packet[8..40], &length, &[0, 17], udp])),
                    (17, 0)
                );
            }
        }
    }

    #[test]
    fn numbers_make_packets_differ() {
        let address = Ipv4Addr::new(10, 8, 0, 2);
        let packets: std::collections::HashSet<_> =
            (0..1000).map(|n| inner_v4(address, address, 20, n)).collect();
        assert_eq!(packets.len(), 1000);
    }
}

//! TCP packets said field by field, and their checksums the slow way.

use super::build::{Extension, V4, V6};

/// A TCP segment. The checksum is right once it is in a packet.
#[derive(Clone, Debug)]
pub struct Tcp {
    pub sequence: u32,
    pub flags: u8,
    pub urgent: u16,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Default for Tcp {
    fn default() -> Self {
        Tcp {
            sequence: 0xffff_f000,
            flags: 0x10,
            urgent: 0,
            options: vec![],
            payload: vec![],
        }
    }
}

impl Tcp {
    pub fn bytes(&self) -> Vec<u8> {
        assert_eq!(self.options.len() % 4, 0);
        let mut b = vec![0x9c, 0x40, 0, 80];
        b.extend(self.sequence.to_be_bytes());
        b.extend([1, 2, 3, 4]);
        b.extend([(5 + self.options.len() as u8 / 4) << 4, self.flags, 0x20, 0, 0, 0]);
        b.extend(self.urgent.to_be_bytes());
        b.extend(self.options.iter().chain(&self.payload));
        b
    }

    /// In IPv4 with `ip_options` bytes of no-operation options.
    pub fn v4(&self, ip_options: usize) -> Vec<u8> {
        let mut packet = V4 {
            protocol: 6,
            options: vec![1; ip_options],
            body: Some(self.bytes()),
            ..V4::default()
        }
        .packet();
        let l4 = 20 + ip_options;
        set(&mut packet, l4 + 16, 6, l4);
        packet[10..12].fill(0);
        let sum = !words(&packet[..l4]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    /// In IPv6 behind extension headers.
    pub fn v6(&self, extensions: Vec<Extension>) -> Vec<u8> {
        let l4 = 40 + extensions.iter().map(|e| e.1.len()).sum::<usize>();
        let mut packet = V6 {
            protocol: 6,
            extensions,
            body: Some(self.bytes()),
            ..V6::default()
        }
        .packet();
        set(&mut packet, l4 + 16, 6, l4);
        packet
    }
}

/// The one's complement sum, word by word.
pub fn words(bytes: &[u8]) -> u16 {
    bytes.chunks(2).fold(0, |sum: u16, pair| {
        let word = u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
        let (sum, carry) = sum.overflowing_add(word);
        sum + u16::from(carry)
    })
}

/// The pseudo-header over what lies from `l4` to the packet's end.
pub fn pseudo(packet: &[u8], protocol: u8, l4: usize) -> Vec<u8> {
    let addresses = if packet[0] >> 4 == 4 { 12..20 } else { 8..40 };
    let mut b = packet[addresses].to_vec();
    b.extend(((packet.len() - l4) as u32).to_be_bytes());
    b.extend([0, 0, 0, protocol]);
    b
}

/// Whether the checksum of layer 4 is right.
pub fn is_right(packet: &[u8], protocol: u8, l4: usize) -> bool {
    words(&[pseudo(packet, protocol, l4), packet[l4..].to_vec()].concat()) == 0xffff
}

/// Writes the right checksum of layer 4 into the field at `field`.
pub fn set(packet: &mut [u8], field: usize, protocol: u8, l4: usize) {
    packet[field..field + 2].fill(0);
    let sum = !words(&[pseudo(packet, protocol, l4), packet[l4..].to_vec()].concat());
    packet[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    assert!(is_right(packet, protocol, l4));
}

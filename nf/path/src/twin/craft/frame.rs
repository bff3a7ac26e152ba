//! One Ethernet frame, said field by field.

use std::net::{IpAddr, SocketAddr};

use super::field::{Checksum, Extension};
use super::{checksum, udp_checksum};

/// An Ethernet frame to be: UDP over IPv4 or IPv6 unless said otherwise, every field right unless said otherwise.
///
/// ```
/// use nf_path::twin::craft::{Checksum, Frame};
/// let frame = Frame::udp("198.51.100.7:40000".parse().unwrap(), "192.0.2.1:1194".parse().unwrap())
///     .vlan(7)
///     .ttl(9)
///     .udp_checksum(Checksum::Zero)
///     .payload(b"hello")
///     .build();
/// assert_eq!(frame.len(), 14 + 4 + 20 + 8 + 5);
/// ```
#[derive(Clone, Debug)]
pub struct Frame {
    source: SocketAddr,
    destination: SocketAddr,
    source_mac: [u8; 6],
    destination_mac: [u8; 6],
    tags: Vec<(u16, u16)>,
    tos: u8,
    ttl: u8,
    id: u16,
    dont_fragment: bool,
    fragment: (u16, bool),
    flow_label: u32,
    options: Vec<u8>,
    extensions: Vec<Extension>,
    ip_len: Option<u16>,
    ip_checksum: Checksum,
    protocol: Option<u8>,
    udp_len: Option<u16>,
    udp_checksum: Checksum,
    payload: Vec<u8>,
    trailing: Vec<u8>,
}

impl Frame {
    /// A UDP datagram between these addresses, both of one family. TTL 64, no tags, no payload.
    pub fn udp(source: SocketAddr, destination: SocketAddr) -> Self {
        assert_eq!(
            source.is_ipv4(),
            destination.is_ipv4(),
            "addresses of two families"
        );
        Self {
            source,
            destination,
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            tags: Vec::new(),
            tos: 0,
            ttl: 64,
            id: 0,
            dont_fragment: false,
            fragment: (0, false),
            flow_label: 0,
            options: Vec::new(),
            extensions: Vec::new(),
            ip_len: None,
            ip_checksum: Checksum::Right,
            protocol: None,
            udp_len: None,
            udp_checksum: Checksum::Right,
            payload: Vec::new(),
            trailing: Vec::new(),
        }
    }

    /// Ethernet addresses.
    pub fn macs(mut self, source: [u8; 6], destination: [u8; 6]) -> Self {
        (self.source_mac, self.destination_mac) = (source, destination);
        self
    }

    /// Adds an 802.1Q tag (0x8100) with this control information, inside those already there.
    pub fn vlan(self, tci: u16) -> Self {
        self.tag(0x8100, tci)
    }

    /// Adds an 802.1ad tag (0x88a8) and an 802.1Q tag inside it.
    pub fn qinq(self, outer: u16, inner: u16) -> Self {
        self.tag(0x88a8, outer).tag(0x8100, inner)
    }

    /// Adds a tag of any kind, inside those already there.
    pub fn tag(mut self, tpid: u16, tci: u16) -> Self {
        self.tags.push((tpid, tci));
        self
    }

    /// Source and destination port.
    pub fn ports(mut self, source: u16, destination: u16) -> Self {
        self.source.set_port(source);
        self.destination.set_port(destination);
        self
    }

    /// IPv4 type of service or IPv6 traffic class.
    pub fn tos(mut self, tos: u8) -> Self {
        self.tos = tos;
        self
    }

    /// IPv4 time to live or IPv6 hop limit.
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// IPv4 identification.
    pub fn id(mut self, id: u16) -> Self {
        self.id = id;
        self
    }

    /// IPv4 "don't fragment".
    pub fn dont_fragment(mut self) -> Self {
        self.dont_fragment = true;
        self
    }

    /// IPv4 fragment offset in bytes (a multiple of 8) and "more fragments".
    pub fn fragment(mut self, offset: u16, more: bool) -> Self {
        assert_eq!(offset % 8, 0, "fragment offset {offset} is no multiple of 8");
        self.fragment = (offset, more);
        self
    }

    /// IPv4 options, padded with zeros to whole words; at most 40 bytes.
    pub fn options(mut self, options: &[u8]) -> Self {
        assert!(options.len() <= 40, "{} bytes of IPv4 options", options.len());
        self.options = options.to_vec();
        self.options.resize(options.len().next_multiple_of(4), 0);
        self
    }

    /// IPv6 flow label, 20 bits.
    pub fn flow_label(mut self, label: u32) -> Self {
        self.flow_label = label & 0xf_ffff;
        self
    }

    /// Adds an IPv6 extension header after those already there.
    pub fn extension(mut self, extension: Extension) -> Self {
        self.extensions.push(extension);
        self
    }

    /// A lie in IPv4's total length or IPv6's payload length.
    pub fn ip_len(mut self, len: u16) -> Self {
        self.ip_len = Some(len);
        self
    }

    /// The IPv4 header checksum.
    pub fn ip_checksum(mut self, kind: Checksum) -> Self {
        self.ip_checksum = kind;
        self
    }

    /// A protocol other than UDP: the payload follows the IP headers at once.
    pub fn protocol(mut self, number: u8) -> Self {
        self.protocol = Some(number);
        self
    }

    /// A lie in UDP's length.
    pub fn udp_len(mut self, len: u16) -> Self {
        self.udp_len = Some(len);
        self
    }

    /// The UDP checksum. Over IPv6 it is worked out with the destination of the IPv6 header, which is right unless a
    /// routing header has segments left.
    pub fn udp_checksum(mut self, kind: Checksum) -> Self {
        self.udp_checksum = kind;
        self
    }

    /// What UDP carries.
    pub fn payload(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// Bytes behind the IP datagram, as Ethernet padding is.
    pub fn trailing(mut self, bytes: &[u8]) -> Self {
        self.trailing = bytes.to_vec();
        self
    }

    /// Where the IP header begins in the frame.
    pub fn l3_offset(&self) -> usize {
        14 + 4 * self.tags.len()
    }

    /// The frame.
    pub fn build(&self) -> Vec<u8> {
        let mut out = [self.destination_mac, self.source_mac].concat();
        for (tpid, tci) in &self.tags {
            out.extend(tpid.to_be_bytes());
            out.extend(tci.to_be_bytes());
        }
        out.extend(if self.source.is_ipv4() {
            [0x08, 0x00]
        } else {
            [0x86, 0xdd]
        });
        let transport = self.transport();
        match self.source.ip() {
            IpAddr::V4(_) => out.extend(self.ipv4(transport.len())),
            IpAddr::V6(_) => out.extend(self.ipv6(transport.len())),
        }
        out.extend(transport);
        out.extend(&self.trailing);
        out
    }

    /// Where the UDP header (or, without UDP, the payload) begins in the frame.
    pub fn l4_offset(&self) -> usize {
        let fixed = if self.source.is_ipv4() {
            20 + self.options.len()
        } else {
            40
        };
        self.l3_offset() + fixed + self.extensions.iter().map(|e| e.encode(0).len()).sum::<usize>()
    }

    fn transport(&self) -> Vec<u8> {
        if self.protocol.is_some() {
            return self.payload.clone();
        }
        let len = 8 + self.payload.len();
        let len = self
            .udp_len
            .unwrap_or(u16::try_from(len).expect("a UDP datagram is under 64 KiB"));
        let (from, to) = (
            self.source.port().to_be_bytes(),
            self.destination.port().to_be_bytes(),
        );
        let mut udp = [&from[..], &to, &len.to_be_bytes(), &[0, 0], &self.payload].concat();
        let right = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(s), IpAddr::V4(d)) => udp_checksum(&s.octets(), &d.octets(), &udp),
            (IpAddr::V6(s), IpAddr::V6(d)) => udp_checksum(&s.octets(), &d.octets(), &udp),
            _ => unreachable!("both of one family since Frame::udp"),
        };
        udp[6..8].copy_from_slice(&self.udp_checksum.of(right));
        udp
    }

    fn ipv4(&self, payload: usize) -> Vec<u8> {
        assert!(self.extensions.is_empty(), "IPv4 has no extension headers");
        let header = 20 + self.options.len();
        let len = self
            .ip_len
            .unwrap_or(u16::try_from(header + payload).expect("IPv4 is under 64 KiB"));
        let (offset, more) = self.fragment;
        let field = u16::from(self.dont_fragment) << 14 | u16::from(more) << 13 | (offset / 8);
        let mut ip = vec![0x40 | (header / 4) as u8, self.tos];
        ip.extend(len.to_be_bytes());
        ip.extend(self.id.to_be_bytes());
        ip.extend(field.to_be_bytes());
        ip.extend([self.ttl, self.protocol.unwrap_or(17), 0, 0]);
        for address in [self.source.ip(), self.destination.ip()] {
            let IpAddr::V4(address) = address else {
                unreachable!("IPv4 by Frame::build")
            };
            ip.extend(address.octets());
        }
        ip.extend(&self.options);
        let sum = self.ip_checksum.of(checksum(&[&ip]));
        ip[10..12].copy_from_slice(&sum);
        ip
    }

    fn ipv6(&self, payload: usize) -> Vec<u8> {
        assert!(self.options.is_empty(), "IPv6 has extension headers, no options");
        let protocol = self.protocol.unwrap_or(17);
        let after = self
            .extensions
            .iter()
            .skip(1)
            .map(Extension::number)
            .chain([protocol]);
        let chain: Vec<u8> = self
            .extensions
            .iter()
            .zip(after)
            .flat_map(|(e, next)| e.encode(next))
            .collect();
        let len = self
            .ip_len
            .unwrap_or(u16::try_from(chain.len() + payload).expect("no jumbograms"));
        let mut ip = (6 << 28 | u32::from(self.tos) << 20 | self.flow_label)
            .to_be_bytes()
            .to_vec();
        ip.extend(len.to_be_bytes());
        ip.extend([
            self.extensions.first().map_or(protocol, Extension::number),
            self.ttl,
        ]);
        for address in [self.source.ip(), self.destination.ip()] {
            let IpAddr::V6(address) = address else {
                unreachable!("IPv6 by Frame::build")
            };
            ip.extend(address.octets());
        }
        ip.extend(chain);
        ip
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;

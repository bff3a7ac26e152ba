//! One frame, parsed once: what it is, where its parts are, and what makes its datagram like another.

use crate::ether::{self, Tags};
use crate::{ipv4, ipv6};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The fields of the outer headers in which two records of one batch must agree, in 48 bytes that compare quickly.
///
/// IPv4: addresses, type of service, time to live, the don't-fragment bit. IPv6: addresses, traffic class, flow
/// label, hop limit, bytes of extension headers (their contents are compared apart). Both: ports and VLAN tags, kind and contents.
/// Lengths, the IPv4 id and checksums differ from record to record and are left out.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Outer {
    src: u128,
    dst: u128,
    /// `class:32 | hops:8 | tag kinds:6, tag count:2 | options:16 | tag:16 | tag:16 | ports:32`, highest bits first.
    rest: u128,
}

const _: () = assert!(size_of::<Outer>() == 48);

/// The IPv4 or IPv6 fields that go into an [`Outer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layer3 {
    pub src: u128,
    pub dst: u128,
    /// IPv6: the first word (version, traffic class, flow label). IPv4: version, type of service, DF in the same
    /// places, so that the version nibble tells them apart.
    pub class: u32,
    pub hops: u8,
    /// Bytes of IPv4 options or IPv6 extension headers.
    pub options: u16,
}

impl Outer {
    /// No datagram's.
    pub const NONE: Outer = Outer {
        src: 0,
        dst: 0,
        rest: 0,
    };

    #[inline]
    pub(crate) fn new(l3: &Layer3, tags: Tags, ports: u32) -> Self {
        let kinds = tags.service << 2 | tags.count;
        let tags = u128::from(tags.tci[0]) << 48 | u128::from(tags.tci[1]) << 32 | u128::from(kinds) << 80;
        Outer {
            src: l3.src,
            dst: l3.dst,
            rest: u128::from(l3.class) << 96
                | u128::from(l3.hops) << 88
                | u128::from(l3.options) << 64
                | tags
                | u128::from(ports),
        }
    }

    /// Whether both have the same source and destination address and port and IP version: one flow.
    #[inline]
    pub fn same_flow(&self, other: &Outer) -> bool {
        const PORTS_AND_VERSION: u128 = 0xf << 124 | 0xffff_ffff;
        (self.src ^ other.src) | (self.dst ^ other.dst) | ((self.rest ^ other.rest) & PORTS_AND_VERSION) == 0
    }

    /// Whether both have the same addresses and IP version, whatever the ports.
    #[inline]
    pub fn same_addresses(&self, other: &Outer) -> bool {
        (self.src ^ other.src) | (self.dst ^ other.dst) | (self.rest ^ other.rest) >> 124 == 0
    }

    /// Whether all fields agree.
    #[inline]
    pub fn same(&self, other: &Outer) -> bool {
        (self.src ^ other.src) | (self.dst ^ other.dst) | (self.rest ^ other.rest) == 0
    }

    /// A hash of the flow (addresses and ports), all bits mixed towards the high ones.
    #[inline]
    pub fn flow_hash(&self) -> u64 {
        let fold = |v: u128| (v as u64) ^ (v >> 64) as u64;
        (fold(self.src) ^ fold(self.dst).rotate_left(32) ^ (self.rest as u64 & 0xffff_ffff).rotate_left(17))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Whether the datagram is IPv6.
    #[inline]
    pub fn is_v6(&self) -> bool {
        self.rest >> 124 == 6
    }

    /// Bytes of IPv4 options or IPv6 extension headers.
    #[inline]
    pub fn options_len(&self) -> usize {
        (self.rest >> 64) as u16 as usize
    }

    /// Source address.
    pub fn src(&self) -> IpAddr {
        self.address(self.src)
    }

    /// Destination address.
    pub fn dst(&self) -> IpAddr {
        self.address(self.dst)
    }

    /// Source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        (self.rest >> 16) as u16
    }

    /// Destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        self.rest as u16
    }

    /// Addresses, ports and IP version in five words that compare quickly: source (high, low), destination (high,
    /// low), `version:4 << 32 | source port << 16 | destination port`. IPv4 addresses are the low 32 bits.
    #[inline]
    pub fn flow_words(&self) -> [u64; 5] {
        let (src, dst) = (self.src, self.dst);
        let ports = (self.rest >> 124) as u64 & 0xf;
        [
            (src >> 64) as u64,
            src as u64,
            (dst >> 64) as u64,
            dst as u64,
            ports << 32 | self.rest as u64 & 0xffff_ffff,
        ]
    }

    /// The destination as a listener is stored: address bits, IP version nibble and port.
    #[inline]
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            address: self.dst,
            version: (self.rest >> 124) as u8,
            port: self.rest as u16,
        }
    }

    fn address(&self, bits: u128) -> IpAddr {
        if self.is_v6() {
            Ipv6Addr::from(bits).into()
        } else {
            Ipv4Addr::from(bits as u32).into()
        }
    }
}

/// A local address and port in the form in which frames are compared with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    address: u128,
    version: u8,
    port: u16,
}

impl Endpoint {
    /// The endpoint of an address and a port.
    pub fn new(address: IpAddr, port: u16) -> Self {
        match address {
            IpAddr::V4(a) => Endpoint {
                address: u128::from(u32::from(a)),
                version: 4,
                port,
            },
            IpAddr::V6(a) => Endpoint {
                address: u128::from(a),
                version: 6,
                port,
            },
        }
    }

    /// Whether both have the same address, whatever the port.
    #[inline]
    pub fn same_address(&self, other: &Endpoint) -> bool {
        self.address == other.address && self.version == other.version
    }
}

/// A whole UDP datagram in a frame. All offsets are bytes from the first byte of the frame.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    /// What it shares with others of its flow.
    pub outer: Outer,
    /// Where the IP header begins.
    pub l3: u16,
    /// Where the UDP header begins.
    pub l4: u16,
    /// Where the UDP payload begins.
    pub payload: u16,
    /// Bytes of UDP payload.
    pub payload_len: u16,
    /// The UDP checksum field is zero: none was sent.
    pub no_checksum: bool,
}

/// A fragment of a UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Fragment {
    /// Addresses and the like; the ports are zero.
    pub outer: Outer,
    /// Where the IP header begins.
    pub l3: u16,
    /// Where the fragment's data begins: the end of the IPv4 header, or of the IPv6 fragment header. The headers
    /// before it lie in `head`, whole.
    pub data: u16,
    /// Bytes from `l3` to the end of the IP packet.
    pub ip_len: u16,
    /// IPv6: the fragment header follows the IPv6 header at once. IPv4: true.
    pub plain: bool,
}

/// A length field that cannot be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// IPv4 header length or total length, or IPv6 payload length, against the frame.
    Ip,
    /// UDP length against the IP payload, or an IP payload too short for a UDP header.
    Udp,
}

/// What a frame turned out to be.
#[derive(Clone, Copy, Debug)]
pub enum Parsed {
    /// A whole UDP datagram whose lengths agree.
    Udp(Datagram),
    /// One fragment of a UDP datagram.
    Fragment(Fragment),
    /// UDP with lengths that lie. The ports are zero in `outer` when the frame ends before them, and for a fragment
    /// other than the first, which has none.
    Broken(Lie, Outer),
    /// Anything else: not IP, not UDP, or too short to tell.
    Other,
}

/// Parses an Ethernet frame of `frame_len` bytes of which `head` is the first, linear part.
///
/// Bytes after the end of the IP packet (Ethernet padding) are left out of the datagram. A frame whose headers go
/// on past `head`, or past its first 65535 bytes, is [`Parsed::Other`].
#[inline]
pub fn parse(head: &[u8], frame_len: usize) -> Parsed {
    if let Some(udp) = ipv4::parse_plain(head, frame_len) {
        return Parsed::Udp(udp);
    }
    parse_any(head, frame_len)
}

/// [`parse`] without the fast path: every shape of frame, the plain one too.
/// The common case of [`parse`] in few steps: untagged Ethernet, IPv4 without options, a whole UDP datagram, lengths
/// that agree. None says nothing but "not that".
#[inline(always)]
pub fn parse_plain(head: &[u8], frame_len: usize) -> Option<Datagram> {
    ipv4::parse_plain(head, frame_len)
}

#[cold]
pub(crate) fn parse_any(head: &[u8], frame_len: usize) -> Parsed {
    match ether::layer3(head) {
        Some((ether::IPV4, l3, tags)) => ipv4::parse(head, frame_len, l3, tags),
        Some((ether::IPV6, l3, tags)) => ipv6::parse(head, frame_len, l3, tags),
        _ => Parsed::Other,
    }
}

/// The UDP header at `l4` of an IP packet whose payload ends at `end`, which is no less than `l4`.
#[inline]
pub(crate) fn udp(head: &[u8], l3: usize, l4: usize, end: usize, layer3: &Layer3, tags: Tags) -> Parsed {
    if end - l4 < 8 {
        // Whether padding fills the rest of a UDP header must make no difference.
        return Parsed::Broken(Lie::Udp, Outer::new(layer3, tags, ports(head, Some(l4))));
    }
    let Some(h) = head.get(l4..l4 + 8) else {
        return Parsed::Other;
    };
    let ports = u32::from_be_bytes([h[0], h[1], h[2], h[3]]);
    let len = usize::from(u16::from_be_bytes([h[4], h[5]]));
    let outer = Outer::new(layer3, tags, ports);
    if l4 + len != end {
        return Parsed::Broken(Lie::Udp, outer);
    }
    let Ok(payload) = u16::try_from(l4 + 8) else {
        return Parsed::Other;
    };
    Parsed::Udp(Datagram {
        outer,
        l3: l3 as u16,
        l4: payload - 8,
        payload,
        payload_len: len as u16 - 8,
        no_checksum: h[6] == 0 && h[7] == 0,
    })
}

/// The verdict on a UDP packet whose IP length cannot be true; the ports are told where they can be read. `l4` is
/// None for a fragment that has no UDP header.
pub(crate) fn broken_ip(head: &[u8], l4: Option<usize>, layer3: &Layer3, tags: Tags) -> Parsed {
    Parsed::Broken(Lie::Ip, Outer::new(layer3, tags, ports(head, l4)))
}

/// Source and destination port at `l4`; zero where `head` ends before them.
fn ports(head: &[u8], l4: Option<usize>) -> u32 {
    let ports = l4.and_then(|at| head.get(at..)?.first_chunk());
    ports.map_or(0, |p| u32::from_be_bytes(*p))
}

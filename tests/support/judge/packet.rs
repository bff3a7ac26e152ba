//! Frames and IP packets, taken apart as far as the judge asks.

use etherparse::checksum::Sum16BitWords;
use etherparse::{IpPayloadSlice, IpSlice, Ipv6ExtensionSlice, TcpSlice};
use std::net::IpAddr;

/// Protocol numbers (IANA).
pub const ICMP: u8 = 1;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// ICMPv6.
pub const ICMPV6: u8 = 58;

/// An Ethernet frame, without its 802.1Q tags.
pub struct Frame<'a> {
    /// Destination address.
    pub dst: [u8; 6],
    /// Source address.
    pub src: [u8; 6],
    /// How many tags there were.
    pub tags: usize,
    /// EtherType behind the tags.
    pub ether_type: u16,
    /// What follows, padding included.
    pub payload: &'a [u8],
    /// Bytes of the whole frame.
    pub len: usize,
}

impl<'a> Frame<'a> {
    /// `None`: shorter than its headers.
    pub fn parse(bytes: &'a [u8]) -> Option<Frame<'a>> {
        let (mut at, mut tags) = (12, 0);
        loop {
            let ether_type = u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?);
            if !matches!(ether_type, 0x8100 | 0x88a8) {
                return Some(Frame {
                    dst: bytes[..6].try_into().ok()?,
                    src: bytes[6..12].try_into().ok()?,
                    tags,
                    ether_type,
                    payload: &bytes[at + 2..],
                    len: bytes.len(),
                });
            }
            (at, tags) = (at + 4, tags + 1);
        }
    }

    /// Whether it says that it holds IPv4 or IPv6.
    pub fn is_ip(&self) -> bool {
        matches!(self.ether_type, 0x0800 | 0x86dd)
    }
}

/// Where a fragment belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Identification.
    pub id: u32,
    /// Offset in bytes.
    pub offset: usize,
    /// Whether others follow.
    pub more: bool,
}

/// An IP packet whose lengths are true.
pub struct Ip<'a> {
    /// The packet, without padding behind it.
    pub bytes: &'a [u8],
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Protocol of the payload, behind extension headers.
    pub protocol: u8,
    /// Set if it is a fragment.
    pub fragment: Option<Fragment>,
    /// What follows all IP headers.
    pub payload: &'a [u8],
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Whether IPv4 has options, or IPv6 extension headers other than that of a fragment.
    pub options: bool,
    /// DF of IPv4.
    pub dont_fragment: bool,
    /// Whether the IPv4 header checksum is right; true for IPv6.
    pub header_right: bool,
}

impl<'a> Ip<'a> {
    /// What it begins with at `bytes`; more bytes may follow, as padding does. The error says what is wrong.
    pub fn parse(bytes: &'a [u8]) -> Result<Ip<'a>, String> {
        let slice = IpSlice::from_slice(bytes).map_err(|e| e.to_string())?;
        let IpPayloadSlice {
            ip_number, payload, ..
        } = slice.payload().clone();
        let common = |len: usize| (&bytes[..len], ip_number.0, payload);
        match &slice {
            IpSlice::Ipv4(ip) => {
                let header = ip.header();
                let (bytes, protocol, payload) = common(header.total_len().into());
                let offset = usize::from(header.fragments_offset().value()) * 8;
                let is_fragment = header.is_fragmenting_payload();
                Ok(Ip {
                    bytes,
                    src: header.source_addr().into(),
                    dst: header.destination_addr().into(),
                    protocol,
                    fragment: is_fragment.then(|| Fragment {
                        id: header.identification().into(),
                        offset,
                        more: header.more_fragments(),
                    }),
                    payload,
                    ttl: header.ttl(),
                    tos: bytes[1],
                    options: header.ihl() != 5,
                    dont_fragment: header.dont_fragment(),
                    header_right: sums_up(Sum16BitWords::new().add_slice(header.slice())),
                })
            }
            IpSlice::Ipv6(ip) => {
                let header = ip.header();
                let (bytes, protocol, payload) = common(40 + usize::from(header.payload_length()));
                let (mut fragment, mut options) = (None, false);
                for extension in ip.extensions().clone() {
                    match extension {
                        Ipv6ExtensionSlice::Fragment(f) => {
                            fragment = Some(Fragment {
                                id: f.identification(),
                                offset: usize::from(f.fragment_offset().value()) * 8,
                                more: f.more_fragments(),
                            });
                        }
                        _ => options = true,
                    }
                }
                Ok(Ip {
                    bytes,
                    src: header.source_addr().into(),
                    dst: header.destination_addr().into(),
                    protocol,
                    fragment,
                    payload,
                    ttl: header.hop_limit(),
                    tos: header.traffic_class(),
                    options,
                    dont_fragment: false,
                    header_right: true,
                })
            }
        }
    }

    /// Whether the checksum of TCP, UDP, ICMP or ICMPv6 is right. `None`: another protocol, a fragment, or UDP over
    /// IPv4 without one (RFC 768).
    pub fn checksum_right(&self) -> Option<bool> {
        if self.fragment.is_some() {
            return None;
        }
        checksum_right(self.src, self.dst, self.protocol, self.payload)
    }

    /// Whether it is neighbour or router discovery, or multicast listener discovery (RFC 4861, 2710, 3810): what the
    /// kernel sends of its own, and what is never tunnelled.
    pub fn is_kernels_own(&self) -> bool {
        let kind = self.payload.first().copied().unwrap_or(0);
        // Behind the first fragment the first byte is data.
        self.protocol == ICMPV6 && self.fragment.is_none() && matches!(kind, 130..=137 | 143)
    }

    /// The bytes that have to cross unchanged: the packet, with that set to zero which the gateways may finish or change,
    /// the TCP or UDP checksum and the MSS of a SYN.
    pub fn normal_form(&self) -> Vec<u8> {
        let mut normal = self.bytes.to_vec();
        if self.fragment.is_some() {
            return normal;
        }
        let start = self.bytes.len() - self.payload.len();
        let own = &mut normal[start..];
        match self.protocol {
            // A checksum of zero is none, and has to stay that.
            UDP if own.len() >= 8 && own[6..8] != [0, 0] => own[6..8].copy_from_slice(&[0xff, 0xff]),
            TCP if own.len() >= 20 => {
                own[16..18].fill(0);
                if let Some(at) = mss_at(own) {
                    own[at..at + 2].fill(0);
                }
            }
            _ => {}
        }
        normal
    }

    /// The MSS of a TCP SYN.
    pub fn mss(&self) -> Option<u16> {
        if self.protocol != TCP || self.fragment.is_some() {
            return None;
        }
        let at = mss_at(self.payload)?;
        Some(u16::from_be_bytes([self.payload[at], self.payload[at + 1]]))
    }
}

/// Whether the checksum of a whole TCP, UDP, ICMP or ICMPv6 payload is right (RFC 1071, RFC 8200 8.1).
pub fn checksum_right(src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8]) -> Option<bool> {
    let minimum = match protocol {
        ICMP | ICMPV6 => 4,
        TCP => 20,
        UDP => 8,
        _ => return None,
    };
    if payload.len() < minimum {
        return Some(false);
    }
    if protocol == UDP && payload[6..8] == [0, 0] {
        return if src.is_ipv4() { None } else { Some(false) };
    }
    let mut sum = Sum16BitWords::new();
    if protocol != ICMP {
        sum = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => sum.add_slice(&src.octets()).add_slice(&dst.octets()),
            (IpAddr::V6(src), IpAddr::V6(dst)) => sum.add_slice(&src.octets()).add_slice(&dst.octets()),
            _ => unreachable!("one header has both"),
        };
        sum = sum
            .add_2bytes([0, protocol])
            .add_slice(&(payload.len() as u32).to_be_bytes());
    }
    Some(sums_up(sum.add_slice(payload)))
}

fn sums_up(sum: Sum16BitWords) -> bool {
    sum.ones_complement() == 0
}

/// Where the MSS stands in a TCP segment that is a SYN.
fn mss_at(segment: &[u8]) -> Option<usize> {
    let tcp = TcpSlice::from_slice(segment).ok()?;
    if !tcp.syn() {
        return None;
    }
    let (options, mut at) = (tcp.options(), 0);
    while let Some(kind) = options.get(at) {
        match (kind, options.get(at + 1)) {
            (0, _) => return None,
            (1, _) => at += 1,
            (2, Some(4)) if at + 4 <= options.len() => return Some(20 + at + 2),
            (_, Some(len @ 2..)) => at += usize::from(*len),
            _ => return None,
        }
    }
    None
}

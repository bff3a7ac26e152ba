//! Neighbour discovery as the far side of a tunnel interface sees it: what the kernel asks there, and the answers.
//!
//! ARP is RFC 826 (probes: RFC 5227), Neighbour Solicitation and Advertisement are RFC 4861. Frames are untagged.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum;
use crate::ether::{self, HEADER_LEN as ETHER, Mac, be16};
use crate::ipv6;

/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// Bytes of an ARP packet for IPv4 over Ethernet.
const ARP_LEN: usize = 28;
/// Bytes of a frame with an ARP reply.
pub const ARP_REPLY_LEN: usize = ETHER + ARP_LEN;
/// Bytes of a frame with a Neighbour Advertisement that has a link-layer address option.
pub const ADVERTISEMENT_LEN: usize = ETHER + ipv6::HEADER_LEN + SOLICITATION_LEN + OPTION_LEN;

/// An ARP packet up to the operation: Ethernet, IPv4, address lengths 6 and 4.
const ARP_START: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_REQUEST: u16 = 1;

const ICMPV6: u8 = 58;
const HOP_BY_HOP: u8 = 0;
/// Bytes of a solicitation or advertisement without options.
const SOLICITATION_LEN: usize = 24;
/// Bytes of a link-layer address option with a MAC address.
const OPTION_LEN: usize = 8;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;
/// Hop limit of neighbour discovery: a router would have made it less (RFC 4861, section 7.1.1).
const UNROUTED: u8 = 255;
/// The flags solicited and override of an advertisement.
const SOLICITED_OVERRIDE: u8 = 0x60;

/// What a frame asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Solicitation {
    /// Who has an IPv4 address.
    Arp(ArpRequest),
    /// Who has an IPv6 address.
    Ndp(NeighbourSolicitation),
    /// The frame is no ARP request and no Neighbour Solicitation, or ends before it can be told.
    NotOne,
    /// It says that it is ARP or a Neighbour Solicitation, and breaks the rules of RFC 826 or RFC 4861, section 7.1.1.
    Malformed,
}

/// An ARP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpRequest {
    /// Who asks: its MAC address in the ARP packet.
    pub sender_mac: Mac,
    /// Who asks; 0.0.0.0 in a probe.
    pub sender: Ipv4Addr,
    /// Whose MAC address is asked for.
    pub target: Ipv4Addr,
}

impl ArpRequest {
    /// Whether the sender only looks if the address is free, or says that it has it (RFC 5227, section 1.1): nothing
    /// to answer.
    #[inline]
    pub fn is_dad(&self) -> bool {
        self.sender.is_unspecified() || self.sender == self.target
    }
}

/// A Neighbour Solicitation that passes the checks of RFC 4861, section 7.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourSolicitation {
    /// Who asks: its MAC address from the source link-layer address option, without one from the Ethernet header.
    pub source_mac: Mac,
    /// Who asks; `::` in duplicate address detection.
    pub source: Ipv6Addr,
    /// Whose MAC address is asked for; not multicast.
    pub target: Ipv6Addr,
}

impl NeighbourSolicitation {
    /// Whether the sender only looks if the address is free (RFC 4862, section 5.4): nothing to answer.
    #[inline]
    pub fn is_dad(&self) -> bool {
        self.source.is_unspecified()
    }
}

impl Solicitation {
    /// What an untagged Ethernet frame asks.
    pub fn parse(frame: &[u8]) -> Solicitation {
        match be16(frame, ETHER - 2) {
            Some(ARP) => arp(&frame[ETHER..]),
            Some(ether::IPV6) => match Icmpv6::of(&frame[ETHER..]) {
                Some(icmp) if icmp.kind == SOLICITATION && !icmp.behind_options => {
                    solicitation(&icmp, &frame[6..12]).map_or(Solicitation::Malformed, Solicitation::Ndp)
                }
                _ => Solicitation::NotOne,
            },
            _ => Solicitation::NotOne,
        }
    }
}

fn arp(packet: &[u8]) -> Solicitation {
    let Some(p) = packet.first_chunk::<ARP_LEN>() else {
        return Solicitation::Malformed;
    };
    if !p.starts_with(&ARP_START) {
        return Solicitation::Malformed;
    }
    if u16::from_be_bytes([p[6], p[7]]) != ARP_REQUEST {
        return Solicitation::NotOne;
    }
    let request = ArpRequest {
        sender_mac: mac(&p[8..14]),
        sender: Ipv4Addr::new(p[14], p[15], p[16], p[17]),
        target: Ipv4Addr::new(p[24], p[25], p[26], p[27]),
    };
    // An answer must not go to a group (RFC 1812, section 3.3.2).
    if is_group(&request.sender_mac) {
        return Solicitation::Malformed;
    }
    Solicitation::Arp(request)
}

/// The first 6 bytes; the caller has them.
fn mac(bytes: &[u8]) -> Mac {
    bytes.first_chunk().copied().unwrap_or_default()
}

fn is_group(mac: &Mac) -> bool {
    mac[0] & 1 != 0
}

/// An ICMPv6 message right behind the IPv6 header, or behind hop-by-hop options.
struct Icmpv6<'p> {
    hops: u8,
    source: Ipv6Addr,
    dst: Ipv6Addr,
    kind: u8,
    /// Whether hop-by-hop options came before it.
    behind_options: bool,
    /// The message; None when the IPv6 packet is longer than the frame, or the options longer than the packet.
    message: Option<&'p [u8]>,
}

impl<'p> Icmpv6<'p> {
    /// None when the packet is something else, or ends before the message's type.
    fn of(packet: &'p [u8]) -> Option<Self> {
        let header: &[u8; ipv6::HEADER_LEN] = packet.first_chunk()?;
        let mut next = header[6];
        let mut at = ipv6::HEADER_LEN;
        let behind_options = next == HOP_BY_HOP;
        if behind_options {
            let &[after, units] = packet.get(at..)?.first_chunk()?;
            at += (usize::from(units) + 1) * 8;
            next = after;
        }
        let kind = *packet.get(at)?;
        let end = ipv6::HEADER_LEN + usize::from(u16::from_be_bytes([header[4], header[5]]));
        (header[0] >> 4 == 6 && next == ICMPV6).then(|| Icmpv6 {
            hops: header[7],
            source: address(&header[8..]),
            dst: address(&header[24..]),
            kind,
            behind_options,
            message: packet.get(at..end),
        })
    }
}

/// The first 16 bytes; the caller has them.
fn address(bytes: &[u8]) -> Ipv6Addr {
    bytes
        .first_chunk::<16>()
        .map_or(Ipv6Addr::UNSPECIFIED, |a| Ipv6Addr::from(*a))
}

/// The one's complement sum of an ICMPv6 message and its pseudo-header (RFC 8200, section 8.1).
fn icmpv6_sum(source: &Ipv6Addr, dst: &Ipv6Addr, message: &[u8]) -> u16 {
    let addresses = checksum::sum(&source.octets()) + checksum::sum(&dst.octets());
    checksum::fold(addresses + message.len() as u64 + u64::from(ICMPV6) + checksum::sum(message))
}

/// The checks of RFC 4861, section 7.1.1. None when one fails, or when there is nobody to answer: the source is a
/// group, as an IPv6 or as a MAC address.
fn solicitation(icmp: &Icmpv6<'_>, ethernet_source: &[u8]) -> Option<NeighbourSolicitation> {
    let message = icmp.message.filter(|m| m.len() >= SOLICITATION_LEN)?;
    let sum = icmpv6_sum(&icmp.source, &icmp.dst, message);
    if icmp.hops != UNROUTED || message[1] != 0 || sum != 0xffff {
        return None;
    }
    let target = address(&message[8..]);
    let option = source_link_layer(&message[SOLICITATION_LEN..])?;
    let dad_is_wrong = icmp.source.is_unspecified() && (option.is_some() || !is_solicited_node(&icmp.dst));
    if target.is_multicast() || icmp.source.is_multicast() || dad_is_wrong {
        return None;
    }
    let source_mac = option.unwrap_or_else(|| mac(ethernet_source));
    (!is_group(&source_mac)).then_some(NeighbourSolicitation {
        source_mac,
        source: icmp.source,
        target,
    })
}

/// The address in the source link-layer address option, if there is one. None when the options cannot be walked.
fn source_link_layer(mut options: &[u8]) -> Option<Option<Mac>> {
    let mut found = None;
    while !options.is_empty() {
        let len = usize::from(*options.get(1)?) * 8;
        let (option, rest) = options.split_at_checked(len).filter(|_| len > 0)?;
        if option[0] == SOURCE_LINK_LAYER {
            // Other lengths are for other links (RFC 2464, section 6).
            if len != OPTION_LEN {
                return None;
            }
            found = Some(mac(&option[2..]));
        }
        options = rest;
    }
    Some(found)
}

/// Whether an address is in `ff02::1:ff00:0/104` (RFC 4291, section 2.7.1).
fn is_solicited_node(address: &Ipv6Addr) -> bool {
    const PREFIX: [u8; 13] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff];
    address.octets().starts_with(&PREFIX)
}

/// Whether a frame is the kernel's own: ARP of any kind, router and neighbour discovery and redirects (RFC 4861: types
/// 133 to 137, hop limit 255), or reports and leaving of Multicast Listener Discovery (RFC 2710 and RFC 3810: types 131, 132 and 143, hop
/// limit 1), behind hop-by-hop options or not. Whether it is well-formed otherwise makes no difference.
pub fn classify_noise(frame: &[u8]) -> bool {
    match be16(frame, ETHER - 2) {
        Some(ARP) => true,
        Some(ether::IPV6) => Icmpv6::of(&frame[ETHER..]).is_some_and(|icmp| {
            matches!(
                (icmp.kind, icmp.hops),
                (133..=137, UNROUTED) | (131 | 132 | 143, 1)
            )
        }),
        _ => false,
    }
}

/// Writes the ARP reply that tells the sender of `request` that its target has `mac`. False, and nothing is written, for
/// a probe or an announcement.
pub fn arp_reply(reply: &mut [u8; ARP_REPLY_LEN], request: &ArpRequest, mac: Mac) -> bool {
    const OPERATION: [u8; 2] = [0, 2];
    if request.is_dad() {
        return false;
    }
    let parts: [&[u8]; 7] = [
        &ether::header(request.sender_mac, mac, ARP),
        &ARP_START,
        &OPERATION,
        &mac,
        &request.target.octets(),
        &request.sender_mac,
        &request.sender.octets(),
    ];
    fill(reply, &parts);
    true
}

/// Writes the Neighbour Advertisement, solicited and overriding, that tells the sender of `asked` that its target has
/// `mac` (RFC 4861, section 4.4). False, and nothing is written, in duplicate address detection.
pub fn advertisement(reply: &mut [u8; ADVERTISEMENT_LEN], asked: &NeighbourSolicitation, mac: Mac) -> bool {
    const LEN: u8 = (SOLICITATION_LEN + OPTION_LEN) as u8;
    if asked.is_dad() {
        return false;
    }
    let parts: [&[u8]; 8] = [
        &ether::header(asked.source_mac, mac, ether::IPV6),
        &[0x60, 0, 0, 0, 0, LEN, ICMPV6, UNROUTED],
        &asked.target.octets(),
        &asked.source.octets(),
        &[ADVERTISEMENT, 0, 0, 0, SOLICITED_OVERRIDE, 0, 0, 0],
        &asked.target.octets(),
        &[TARGET_LINK_LAYER, 1],
        &mac,
    ];
    fill(reply, &parts);
    let message = &mut reply[ETHER + ipv6::HEADER_LEN..];
    let sum = !icmpv6_sum(&asked.target, &asked.source, message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    true
}

/// Writes the parts one after the other.
fn fill(mut to: &mut [u8], parts: &[&[u8]]) {
    for part in parts {
        let Some((here, rest)) = to.split_at_mut_checked(part.len()) else {
            return;
        };
        here.copy_from_slice(part);
        to = rest;
    }
}

//! The outer headers of what is sent to one peer: Ethernet, VLAN, IP and UDP, made once and stamped on every packet.

use std::net::{IpAddr, SocketAddr};

use crate::checksum;
use crate::ether::{self, Mac, Tags};
use crate::{ipv4, ipv6};

/// Bytes of a UDP header.
const UDP_LEN: usize = 8;
/// Bytes over Ethernet with two tags, IPv6 and UDP: the longest there is.
pub const MAX_LEN: usize = ether::HEADER_LEN + 2 * ether::TAG_LEN + ipv6::HEADER_LEN + UDP_LEN;

/// Time to live and hop limit of what is sent: the default of RFC 1700.
const HOPS: u8 = 64;

const V4: usize = ether::HEADER_LEN + ipv4::HEADER_LEN + UDP_LEN;
const V6: usize = ether::HEADER_LEN + ipv6::HEADER_LEN + UDP_LEN;
/// The lengths by number of VLAN tags.
const V4_TAGGED: usize = V4 + ether::TAG_LEN;
const V4_TAGGED_TWICE: usize = V4_TAGGED + ether::TAG_LEN;
const V6_TAGGED: usize = V6 + ether::TAG_LEN;
const V6_TAGGED_TWICE: usize = V6_TAGGED + ether::TAG_LEN;

/// Outer headers, all but what differs from packet to packet: lengths, IPv4 id, checksums.
#[derive(Clone, Copy, Debug)]
pub struct Encap {
    /// The headers, the varying fields zero.
    bytes: [u8; MAX_LEN],
    len: u8,
    /// Sum of the IPv4 header without total length, id and checksum; zero for IPv6.
    ip_sum: u16,
    /// Sum of the pseudo-header (RFC 768; RFC 8200, section 8.1) without the UDP length.
    pseudo_sum: u16,
}

impl Encap {
    /// The headers of datagrams from `local` to `remote` in Ethernet frames from `src` to `dst` that carry `tags`. None
    /// when the families of the addresses differ, or there are more than two tags.
    ///
    /// IPv4: time to live 64, type of service 0, DF clear. IPv6: hop limit 64, traffic class and flow label 0.
    pub fn new(dst: Mac, src: Mac, tags: Tags, local: SocketAddr, remote: SocketAddr) -> Option<Encap> {
        let mut h = Head {
            bytes: [0; MAX_LEN],
            len: 0,
        };
        h.put(&dst);
        h.put(&src);
        for (i, tci) in tags.tci.get(..usize::from(tags.count))?.iter().enumerate() {
            let service = tags.service >> i & 1 != 0;
            h.put(&(if service { ether::QINQ } else { ether::VLAN }).to_be_bytes());
            h.put(&tci.to_be_bytes());
        }
        let (ip_sum, address_sum) = match (local.ip(), remote.ip()) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                h.put(&ether::IPV4.to_be_bytes());
                let l3 = h.len;
                h.put(&[0x45, 0, 0, 0, 0, 0, 0, 0, HOPS, ipv4::UDP, 0, 0]);
                h.put(&local.octets());
                h.put(&remote.octets());
                let header = &h.bytes[l3..h.len];
                (checksum::sum(header), checksum::sum(&header[12..]))
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                h.put(&ether::IPV6.to_be_bytes());
                let l3 = h.len;
                h.put(&[0x60, 0, 0, 0, 0, 0, ipv4::UDP, HOPS]);
                h.put(&local.octets());
                h.put(&remote.octets());
                (0, checksum::sum(&h.bytes[l3 + 8..h.len]))
            }
            _ => return None,
        };
        h.put(&local.port().to_be_bytes());
        h.put(&remote.port().to_be_bytes());
        Some(Encap {
            bytes: h.bytes,
            len: (h.len + 4) as u8,
            ip_sum: checksum::fold(ip_sum),
            pseudo_sum: checksum::fold(address_sum + u64::from(ipv4::UDP)),
        })
    }

    /// Bytes of Ethernet, VLAN, IP and UDP headers together.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // Never empty.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Bytes of Ethernet and VLAN headers: where layer 3 begins.
    #[inline]
    pub fn l2_len(&self) -> usize {
        self.len() - UDP_LEN - self.l3_len()
    }

    /// Bytes of the IP header.
    #[inline]
    pub fn l3_len(&self) -> usize {
        if self.is_v6() {
            ipv6::HEADER_LEN
        } else {
            ipv4::HEADER_LEN
        }
    }

    /// Whether the outer IP version is 6.
    #[inline]
    pub fn is_v6(&self) -> bool {
        // The longest over IPv4 is shorter than the shortest over IPv6.
        self.len() >= V6
    }

    /// Writes the headers of a datagram with `payload_len` bytes of UDP payload over `front`, which is [`len`](Self::len)
    /// bytes long. `ip_id` is the identification of IPv4; IPv6 has none.
    ///
    /// The IPv4 header checksum is final. The UDP checksum field holds the folded sum of the pseudo-header, not
    /// inverted: what a port that completes it wants there (`rte_ipv4_phdr_cksum`, `rte_ipv6_phdr_cksum`), and
    /// [`finish_udp`]. False, and nothing is written, when `front` has another length or the datagram would be longer
    /// than its IP version can say.
    #[inline]
    pub fn write(&self, front: &mut [u8], payload_len: u16, ip_id: u16) -> bool {
        if front.len() != self.len() {
            return false;
        }
        match front.len() {
            V4 => self.put::<V4>(front, payload_len, ip_id),
            V6 => self.put::<V6>(front, payload_len, ip_id),
            V4_TAGGED => self.put::<V4_TAGGED>(front, payload_len, ip_id),
            V6_TAGGED => self.put::<V6_TAGGED>(front, payload_len, ip_id),
            V4_TAGGED_TWICE => self.put::<V4_TAGGED_TWICE>(front, payload_len, ip_id),
            V6_TAGGED_TWICE => self.put::<V6_TAGGED_TWICE>(front, payload_len, ip_id),
            _ => false,
        }
    }

    /// [`write`](Self::write) for one length of headers, so that all offsets are known to the compiler.
    #[inline(always)]
    fn put<const LEN: usize>(&self, front: &mut [u8], payload_len: u16, ip_id: u16) -> bool {
        let (Some(front), Some(bytes)) = (front.first_chunk_mut::<LEN>(), self.bytes.first_chunk()) else {
            return false;
        };
        let Some(udp_len) = payload_len.checked_add(UDP_LEN as u16) else {
            return false;
        };
        let udp = LEN - UDP_LEN;
        if LEN < V6 {
            let Some(total) = udp_len.checked_add(ipv4::HEADER_LEN as u16) else {
                return false;
            };
            let ip = udp - ipv4::HEADER_LEN;
            *front = *bytes;
            let sum = u32::from(self.ip_sum) + u32::from(total) + u32::from(ip_id);
            front[ip + 2..ip + 4].copy_from_slice(&total.to_be_bytes());
            front[ip + 4..ip + 6].copy_from_slice(&ip_id.to_be_bytes());
            front[ip + 10..ip + 12].copy_from_slice(&(!fold_few(sum)).to_be_bytes());
        } else {
            let ip = udp - ipv6::HEADER_LEN;
            *front = *bytes;
            front[ip + 4..ip + 6].copy_from_slice(&udp_len.to_be_bytes());
        }
        let sum = fold_few(u32::from(self.pseudo_sum) + u32::from(udp_len));
        front[udp + 4..udp + 6].copy_from_slice(&udp_len.to_be_bytes());
        front[udp + 6..].copy_from_slice(&sum.to_be_bytes());
        true
    }
}

/// [`checksum::fold`] of the sum of a few 16-bit words, in half its steps.
#[inline(always)]
fn fold_few(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// Headers as they grow.
struct Head {
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl Head {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// Completes the checksum of the UDP header at offset `l4` of `frame`, whose field holds the sum of the pseudo-header as
/// [`Encap::write`] leaves it, over header and payload; bytes after the UDP length are not looked at. A checksum of 0 is
/// sent as 0xffff (RFC 768; RFC 8200, section 8.1). False, and nothing is written, when the datagram is not all there.
#[inline]
pub fn finish_udp(frame: &mut [u8], l4: usize) -> bool {
    let Some(udp) = frame.get_mut(l4..) else {
        return false;
    };
    let Some(len) = ether::be16(udp, 4).map(usize::from) else {
        return false;
    };
    let Some(udp) = udp.get_mut(..len).filter(|_| len >= UDP_LEN) else {
        return false;
    };
    let sum = checksum::udp_field(!checksum::fold(checksum::sum(udp)));
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    true
}

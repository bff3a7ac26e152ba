//! Ethernet II and VLAN tags (IEEE 802.3, 802.1Q).

/// Bytes of an untagged Ethernet header.
pub const HEADER_LEN: usize = 14;
/// Bytes of one VLAN tag.
pub const TAG_LEN: usize = 4;
/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
/// Tag protocol id of 802.1Q.
pub const VLAN: u16 = 0x8100;
/// Tag protocol id of the outer tag of QinQ (802.1ad).
pub const QINQ: u16 = 0x88a8;

/// A MAC address.
pub type Mac = [u8; 6];

/// The MAC address by which the kernel's neighbour table names a peer: `02:6f:76` (locally administered, "ov"),
/// then the 24-bit peer id.
#[inline]
pub const fn peer_mac(peer_id: u32) -> Mac {
    [
        0x02,
        0x6f,
        0x76,
        (peer_id >> 16) as u8,
        (peer_id >> 8) as u8,
        peer_id as u8,
    ]
}

/// An untagged Ethernet header.
#[inline]
pub fn header(dst: Mac, src: Mac, ether_type: u16) -> [u8; HEADER_LEN] {
    let mut h = [0; HEADER_LEN];
    h[..6].copy_from_slice(&dst);
    h[6..12].copy_from_slice(&src);
    h[12..].copy_from_slice(&ether_type.to_be_bytes());
    h
}

/// The VLAN tags in front of layer 3, at most two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// How many tags there are: 0, 1 or 2.
    pub count: u8,
    /// Their tag control information (priority, DEI, VLAN id), outermost first.
    pub tci: [u16; 2],
    /// Which of them are service tags ([`QINQ`], not [`VLAN`]): bit 0 for the outermost, bit 1 for the next.
    pub service: u8,
}

/// Finds layer 3: its EtherType, its offset in bytes and the tags before it. None when the frame ends before that,
/// or carries more than two tags.
#[inline]
pub fn layer3(frame: &[u8]) -> Option<(u16, usize, Tags)> {
    let mut at = HEADER_LEN - 2;
    let mut tags = Tags::default();
    loop {
        let ether_type = be16(frame, at)?;
        if ether_type != VLAN && ether_type != QINQ {
            return Some((ether_type, at + 2, tags));
        }
        let slot = tags.tci.get_mut(usize::from(tags.count))?;
        *slot = be16(frame, at + 2)?;
        tags.service |= u8::from(ether_type == QINQ) << tags.count;
        tags.count += 1;
        at += TAG_LEN;
    }
}

#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

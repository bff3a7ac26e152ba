//! Frames cut into IP fragments, as a router (IPv4) or the source (IPv6) would.

use super::checksum;

/// Where the IP header begins behind any number of VLAN tags.
fn l3_offset(frame: &[u8]) -> usize {
    let mut at = 12;
    while matches!(
        (frame[at], frame[at + 1]),
        (0x81, 0x00) | (0x88, 0xa8) | (0x91, 0x00)
    ) {
        at += 4;
    }
    at + 2
}

/// The options that go into every fragment: those with the copied bit (RFC 791 section 3.1), padded to whole words.
fn copied_options(options: &[u8]) -> Vec<u8> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < options.len() && options[at] != 0 {
        let len = if options[at] == 1 {
            1
        } else {
            options[at + 1] as usize
        };
        assert!(len > 0 && at + len <= options.len(), "IPv4 option that overruns");
        if options[at] & 0x80 != 0 {
            kept.extend(&options[at..at + len]);
        }
        at += len;
    }
    kept.resize(kept.len().next_multiple_of(4), 0);
    kept
}

/// Cuts the IPv4 datagram in `frame` into fragments of at most `mtu` bytes, IP header included, each in a frame of its
/// own with the same Ethernet header and tags (RFC 791 section 3.2). Options without the copied bit are in the first
/// one only. What follows the datagram is left out; "don't fragment" is cleared. One that fits is one frame. Panics on
/// a frame that holds no whole IPv4 datagram or an `mtu` with no room for 8 bytes.
pub fn fragment_v4(frame: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let (l2, ip) = frame.split_at(l3_offset(frame));
    let header_len = usize::from(ip[0] & 15) * 4;
    assert!(ip[0] >> 4 == 4 && header_len >= 20, "no IPv4 header");
    let (header, payload) = ip[..usize::from(u16::from_be_bytes([ip[2], ip[3]]))].split_at(header_len);
    let field = u16::from_be_bytes([header[6], header[7]]);
    let (offset, last_has_more) = (usize::from(field & 0x1fff) * 8, field & 0x2000 != 0);
    let later = [&header[..20], &copied_options(&header[20..])].concat();
    let (mut frames, mut done) = (Vec::new(), 0);
    while done < payload.len() || frames.is_empty() {
        let mut head = if done == 0 { header.to_vec() } else { later.clone() };
        let (left, room) = (payload.len() - done, mtu.saturating_sub(head.len()));
        let len = if left <= room { left } else { room / 8 * 8 };
        assert!(len > 0 || left == 0, "an MTU of {mtu} has no room for a fragment");
        let more = last_has_more || done + len < payload.len();
        head[0] = 0x40 | (head.len() / 4) as u8;
        let total = (head.len() + len) as u16;
        head[2..4].copy_from_slice(&total.to_be_bytes());
        let field = u16::from(more) << 13 | ((offset + done) / 8) as u16;
        head[6..8].copy_from_slice(&field.to_be_bytes());
        head[10..12].fill(0);
        let sum = checksum(&[&head]);
        head[10..12].copy_from_slice(&sum.to_be_bytes());
        frames.push([l2, &head, &payload[done..done + len]].concat());
        done += len;
    }
    frames
}

/// The length of the unfragmentable part (RFC 8200 section 4.5) and the place of its last next-header field: the IPv6
/// header and what must stand in front: hop-by-hop options, and all up to a routing header.
fn unfragmentable(ip: &[u8]) -> (usize, usize) {
    let (mut end, mut field) = (40, 6);
    let (mut next, mut at) = (ip[6], 40);
    while matches!(next, 0 | 43 | 60) {
        let (kind, after) = (next, at + 8 + 8 * usize::from(ip[at + 1]));
        if kind != 60 {
            (end, field) = (after, at);
        }
        (next, at) = (ip[at], after);
    }
    (end, field)
}

/// Cuts the IPv6 datagram in `frame` into fragments of at most `mtu` bytes, IPv6 header included, with this
/// identification, each in a frame of its own with the same Ethernet header and tags. Destination options go with the
/// fragmentable part unless a routing header follows. What follows the datagram is left out. One that fits is still
/// given a fragment header (an "atomic fragment", RFC 6946). Panics on a frame that holds no whole IPv6 datagram or an
/// `mtu` with no room for 8 bytes.
pub fn fragment_v6(frame: &[u8], mtu: usize, id: u32) -> Vec<Vec<u8>> {
    let (l2, ip) = frame.split_at(l3_offset(frame));
    assert!(ip[0] >> 4 == 6, "no IPv6 header");
    let ip = &ip[..40 + usize::from(u16::from_be_bytes([ip[4], ip[5]]))];
    let (end, field) = unfragmentable(ip);
    let (front, payload) = ip.split_at(end);
    let room = mtu.saturating_sub(end + 8);
    let (mut frames, mut done) = (Vec::new(), 0);
    while done < payload.len() || frames.is_empty() {
        let left = payload.len() - done;
        let len = if left <= room { left } else { room / 8 * 8 };
        assert!(len > 0 || left == 0, "an MTU of {mtu} has no room for a fragment");
        let mut head = front.to_vec();
        head[4..6].copy_from_slice(&((end - 40 + 8 + len) as u16).to_be_bytes());
        let next = std::mem::replace(&mut head[field], 44);
        let place = (done as u16 | u16::from(done + len < payload.len())).to_be_bytes();
        head.extend([next, 0, place[0], place[1]]);
        head.extend(id.to_be_bytes());
        frames.push([l2, &head, &payload[done..done + len]].concat());
        done += len;
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::super::{Extension, Frame};
    use super::*;

    fn v4() -> Frame {
        Frame::udp(
            "198.51.100.7:40000".parse().unwrap(),
            "192.0.2.1:1194".parse().unwrap(),
        )
    }

    fn v6() -> Frame {
        Frame::udp(
            "[2001:db8::7]:40000".parse().unwrap(),
            "[2001:db8::1]:1194".parse().unwrap(),
        )
    }

    fn be16(bytes: &[u8], at: usize) -> usize {
        usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
    }

    #[test]
    fn ipv4_fragments_join_to_the_datagram() {
        let payload: Vec<u8> = (0..3000).map(|i| i as u8).collect();
        let whole = v4()
            .vlan(5)
            .id(77)
            .dont_fragment()
            .options(&[0x44, 4, 5, 0, 0x94, 4, 0, 0])
            .payload(&payload);
        let bytes = whole.trailing(&[9; 4]).build();
        let fragments = fragment_v4(&bytes, 1500);
        assert_eq!(fragments.len(), 3);
        let mut joined: Vec<u8> = Vec::new();
        for (i, fragment) in fragments.iter().enumerate() {
            let (ip, header) = (&fragment[18..], usize::from(fragment[18] & 15) * 4);
            assert_eq!(fragment[..18], bytes[..18]);
            assert_eq!(
                header,
                if i == 0 { 28 } else { 24 },
                "the option without the copied bit"
            );
            assert!(ip.len() <= 1500 && be16(ip, 2) == ip.len());
            assert_eq!((be16(ip, 4), checksum(&[&ip[..header]])), (77, 0));
            assert_eq!(be16(ip, 6), (usize::from(i < 2) << 13) | (joined.len() / 8));
            joined.extend(&ip[header..]);
        }
        assert_eq!(joined, bytes[18 + 28..bytes.len() - 4]);
    }

    #[test]
    fn ipv4_that_fits_is_one_and_a_fragment_can_be_cut_again() {
        let bytes = v4().payload(&[1; 100]).build();
        assert_eq!(fragment_v4(&bytes, 128), std::slice::from_ref(&bytes));
        let again: Vec<_> = fragment_v4(&bytes, 100)
            .iter()
            .flat_map(|f| fragment_v4(f, 60))
            .collect();
        let fields: Vec<_> = again.iter().map(|f| be16(f, 20)).collect();
        assert_eq!(fields, [0x2000, 0x2000 | 5, 10]);
        assert_eq!(
            again.iter().flat_map(|f| f[34..].to_vec()).collect::<Vec<_>>(),
            bytes[34..]
        );
    }

    #[test]
    fn ipv6_fragments_join_to_the_datagram() {
        let frame = v6()
            .extension(Extension::HopByHop(vec![1, 4, 0, 0, 0, 0]))
            .extension(Extension::Destination(vec![1, 4, 0, 0, 0, 0]))
            .payload(&[7; 2500]);
        let bytes = frame.build();
        let fragments = fragment_v6(&bytes, 1280, 0xcafe);
        assert_eq!(fragments.len(), 3);
        let mut joined: Vec<u8> = Vec::new();
        for (i, fragment) in fragments.iter().enumerate() {
            let ip = &fragment[14..];
            assert!(ip.len() <= 1280 && be16(ip, 4) == ip.len() - 40);
            assert_eq!(
                (ip[6], ip[40], ip[48], ip[49]),
                (0, 44, 60, 0),
                "hop-by-hop, then fragment, then the rest"
            );
            assert_eq!(be16(ip, 50), joined.len() | usize::from(i < 2));
            assert_eq!(ip[52..56], [0, 0, 0xca, 0xfe]);
            joined.extend(&ip[56..]);
        }
        assert_eq!(joined, bytes[14 + 48..]);
        let atomic = fragment_v6(&v6().payload(b"x").build(), 1280, 1);
        assert_eq!((atomic.len(), be16(&atomic[0], 14 + 42)), (1, 0));
    }

    #[test]
    fn destination_options_in_front_of_routing_stay_in_front() {
        let frame = v6()
            .extension(Extension::Destination(vec![1, 4, 0, 0, 0, 0]))
            .extension(Extension::Routing(vec![4, 0, 0, 0, 0, 0]))
            .payload(&[7; 30]);
        let fragment = &fragment_v6(&frame.build(), 1280, 1)[0];
        assert_eq!(
            (fragment[20], fragment[54], fragment[62], fragment[70]),
            (60, 43, 44, 17)
        );
    }
}

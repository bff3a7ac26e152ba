use super::super::checksum;
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

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Zero when the checksum over pseudo-header and datagram is right (RFC 768, RFC 8200 section 8.1).
fn udp_residue(addresses: &[u8], datagram: &[u8]) -> u16 {
    checksum(&[
        addresses,
        &(datagram.len() as u32).to_be_bytes(),
        &[0, 17],
        datagram,
    ])
}

/// A header from RFC 1071 practice: the well-known example of 20 bytes with checksum b861.
#[test]
fn checksum_of_a_known_header() {
    let header = [
        0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7,
    ];
    assert_eq!(checksum(&[&header]), 0xb861);
}

#[test]
fn ipv4_says_every_field() {
    let frame = v4()
        .macs([2, 1, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2])
        .tos(0xb8)
        .ttl(9)
        .id(0x1234)
        .dont_fragment()
        .options(&[1, 1, 1])
        .payload(b"abc")
        .trailing(&[0xee; 6])
        .build();
    assert_eq!(&frame[..14], [2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 8, 0]);
    let ip = &frame[14..38];
    assert_eq!(&ip[..10], [0x46, 0xb8, 0, 35, 0x12, 0x34, 0x40, 0, 9, 17]);
    assert_eq!(&ip[12..], [198, 51, 100, 7, 192, 0, 2, 1, 1, 1, 1, 0]);
    assert_eq!(checksum(&[ip]), 0, "header checksum");
    let udp = &frame[38..49];
    assert_eq!(
        (be16(udp, 0), be16(udp, 2), be16(udp, 4), &udp[8..]),
        (40000, 1194, 11, &b"abc"[..])
    );
    assert_eq!(udp_residue(&ip[12..20], udp), 0, "UDP checksum");
    assert_eq!(&frame[49..], [0xee; 6]);
}

#[test]
fn tags_stand_in_order() {
    let frame = v4().qinq(0x2005, 7).build();
    assert_eq!(&frame[12..22], [0x88, 0xa8, 0x20, 5, 0x81, 0, 0, 7, 8, 0]);
    assert_eq!(v4().vlan(7).l3_offset(), 18);
    assert_eq!(&v4().vlan(7).build()[12..18], [0x81, 0, 0, 7, 8, 0]);
}

#[test]
fn checksums_can_be_wrong_or_none() {
    let wrong = v4()
        .ip_checksum(Checksum::Wrong)
        .udp_checksum(Checksum::Wrong)
        .payload(b"x")
        .build();
    assert_ne!(checksum(&[&wrong[14..34]]), 0);
    assert_ne!(udp_residue(&wrong[26..34], &wrong[34..]), 0);
    assert_ne!(be16(&wrong, 40), 0);
    assert_eq!(be16(&v4().udp_checksum(Checksum::Zero).build(), 40), 0);
    assert_eq!(Checksum::Wrong.of(1), [0, 3]);
}

#[test]
fn lengths_and_fragments_as_told() {
    let frame = v4().ip_len(999).udp_len(7).fragment(1480, true).build();
    assert_eq!(
        (be16(&frame, 16), be16(&frame, 20), be16(&frame, 38)),
        (999, 0x2000 | 185, 7)
    );
    assert_eq!(checksum(&[&frame[14..34]]), 0);
    assert_eq!(be16(&v6().ip_len(5).build(), 18), 5);
}

#[test]
fn another_protocol_has_no_udp_header() {
    let frame = v4().protocol(1).payload(&[8, 0, 1, 2]).build();
    assert_eq!((frame.len(), frame[23], &frame[34..]), (38, 1, &[8, 0, 1, 2][..]));
}

#[test]
fn ipv6_chains_its_extension_headers() {
    let frame = v6()
        .tos(0x12)
        .flow_label(0xabcde)
        .ttl(3)
        .extension(Extension::HopByHop(vec![5, 2, 0, 0, 1, 0]))
        .extension(Extension::Routing(vec![4, 0]))
        .extension(Extension::Destination(vec![1, 8]))
        .extension(Extension::Fragment {
            offset: 16,
            more: true,
            id: 0x0102_0304,
        })
        .extension(Extension::Authentication(vec![9; 20]))
        .payload(b"hello");
    let at = frame.l4_offset();
    let bytes = frame.build();
    assert_eq!(&bytes[12..18], [0x86, 0xdd, 0x61, 0x2a, 0xbc, 0xde]);
    assert_eq!(
        (be16(&bytes, 18) as usize, bytes[20], bytes[21]),
        (bytes.len() - 54, 0, 3)
    );
    let ext = &bytes[54..at];
    assert_eq!(&ext[..8], [43, 0, 5, 2, 0, 0, 1, 0]);
    assert_eq!(&ext[8..16], [60, 0, 4, 0, 0, 0, 0, 0]);
    assert_eq!(&ext[16..24], [44, 0, 1, 8, 0, 0, 0, 0]);
    assert_eq!(&ext[24..32], [51, 0, 0, 17, 1, 2, 3, 4]);
    assert_eq!(&ext[32..56], [&[17, 4, 0, 0][..], &[9; 20]].concat());
    assert_eq!(at, bytes.len() - 13);
    let udp = &bytes[at..];
    assert_eq!(
        (be16(udp, 0), be16(udp, 4), &udp[8..]),
        (40000, 13, &b"hello"[..])
    );
    assert_eq!(udp_residue(&bytes[22..54], udp), 0, "UDP checksum");
}

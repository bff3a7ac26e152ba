//! Neighbour discovery: vectors by hand, each rule broken, each length cut.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::checksum::{fold, sum};
use crate::neighbour::{
    ADVERTISEMENT_LEN, ARP_REPLY_LEN, Solicitation, advertisement, arp_reply, classify_noise,
};

const OUR_MAC: [u8; 6] = [2, 0x6f, 0x76, 0, 0, 9];

/// Bytes from hexadecimal digits and blanks.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|c| c.to_digit(16))
        .map(|d| d as u8)
        .collect();
    digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
}

/// 10.8.0.2 at 02:00:00:00:00:05 asks for 10.8.0.1.
fn arp() -> Vec<u8> {
    hex("ffffffffffff 020000000005 0806 0001 0800 06 04 0001 020000000005 0a080002 000000000000 0a080001")
}

/// fe80::5 at 02:00:00:00:00:05 asks for fe80::1, with a source link-layer address.
fn ns() -> Vec<u8> {
    // Checksum: fe80+5 + ff02+1+ff00+1 + 20 + 3a + 8700 + fe80+1 + 101+200+0+5 = 4_856a, folded 856e, inverted 7a91.
    hex("3333ff000001 020000000005 86dd 60000000 0020 3a ff
         fe800000000000000000000000000005 ff0200000000000000000001ff000001
         87 00 7a91 00000000 fe800000000000000000000000000001 01 01 020000000005")
}

fn with_sum(mut frame: Vec<u8>) -> Vec<u8> {
    frame[56..58].fill(0);
    let len = (frame.len() - 54) as u64;
    let s = !fold(sum(&frame[22..54]) + len + 58 + sum(&frame[54..]));
    frame[56..58].copy_from_slice(&s.to_be_bytes());
    frame
}

/// [`ns`] changed, with the lengths and the checksum that belong to it.
fn ns_with(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = ns();
    change(&mut frame);
    let len = (frame.len() - 54) as u16;
    frame[18..20].copy_from_slice(&len.to_be_bytes());
    with_sum(frame)
}

#[test]
fn an_arp_request_and_its_answer() {
    let Solicitation::Arp(asked) = Solicitation::parse(&arp()) else {
        panic!("no request")
    };
    assert_eq!(asked.sender_mac, [2, 0, 0, 0, 0, 5]);
    assert_eq!(
        (asked.sender.octets(), asked.target.octets()),
        ([10, 8, 0, 2], [10, 8, 0, 1])
    );
    assert!(!asked.is_dad());
    let mut reply = [0xff; ARP_REPLY_LEN];
    assert!(arp_reply(&mut reply, &asked, OUR_MAC));
    let want = "020000000005 026f76000009 0806 0001 0800 06 04 0002
                026f76000009 0a080001 020000000005 0a080002";
    assert_eq!(reply[..], hex(want));
    assert_eq!(
        Solicitation::parse(&reply),
        Solicitation::NotOne,
        "a reply asks nothing"
    );
    assert!(classify_noise(&reply) && classify_noise(&arp()));
}

#[test]
fn a_solicitation_and_its_answer() {
    assert_eq!(with_sum(ns()), ns(), "the sum done by hand");
    let Solicitation::Ndp(asked) = Solicitation::parse(&ns()) else {
        panic!("no solicitation")
    };
    assert_eq!(asked.source_mac, [2, 0, 0, 0, 0, 5]);
    assert_eq!(
        (asked.source.to_string(), asked.target.to_string()),
        ("fe80::5".into(), "fe80::1".into())
    );
    assert!(!asked.is_dad());
    let mut reply = [0xff; ADVERTISEMENT_LEN];
    assert!(advertisement(&mut reply, &asked, OUR_MAC));
    let want = "020000000005 026f76000009 86dd 60000000 0020 3a ff
                fe800000000000000000000000000001 fe800000000000000000000000000005
                88 00 0000 60000000 fe800000000000000000000000000001 02 01 026f76000009";
    assert_eq!(reply[..], with_sum(hex(want)));
    assert_eq!(fold(sum(&reply[22..54]) + 32 + 58 + sum(&reply[54..])), 0xffff);
    assert_eq!(Solicitation::parse(&reply), Solicitation::NotOne);
    assert!(classify_noise(&reply) && classify_noise(&ns()));
}

#[test]
fn where_the_mac_address_comes_from() {
    let mac_of = |frame: &[u8]| match Solicitation::parse(frame) {
        Solicitation::Ndp(asked) => asked.source_mac,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        mac_of(&ns_with(|f| f[11] = 6)),
        [2, 0, 0, 0, 0, 5],
        "from the option"
    );
    assert_eq!(
        mac_of(&ns_with(|f| f.truncate(78))),
        [2, 0, 0, 0, 0, 5],
        "from the Ethernet header"
    );
    // A nonce option (RFC 3971) before it is walked over; padding after the packet is not looked at.
    let nonce = ns_with(|f| {
        f.splice(78..78, [14, 1, 1, 2, 3, 4, 5, 6]);
        f[11] = 6;
    });
    assert_eq!(mac_of(&[nonce, vec![0; 9]].concat()), [2, 0, 0, 0, 0, 5]);
}

#[test]
fn probes_are_known_and_not_answered() {
    for sender in [[0, 0, 0, 0], [10, 8, 0, 1]] {
        let mut frame = arp();
        frame[28..32].copy_from_slice(&sender);
        let Solicitation::Arp(asked) = Solicitation::parse(&frame) else {
            panic!("no request")
        };
        let mut reply = [0x77; ARP_REPLY_LEN];
        assert!(asked.is_dad() && !arp_reply(&mut reply, &asked, OUR_MAC) && reply == [0x77; ARP_REPLY_LEN]);
    }
    let dad = ns_with(|f| {
        f[22..38].fill(0);
        f.truncate(78);
    });
    let Solicitation::Ndp(asked) = Solicitation::parse(&dad) else {
        panic!("no solicitation")
    };
    let mut reply = [0x77; ADVERTISEMENT_LEN];
    assert!(
        asked.is_dad() && !advertisement(&mut reply, &asked, OUR_MAC) && reply == [0x77; ADVERTISEMENT_LEN]
    );
}

#[test]
fn malformed_arp() {
    // Hardware type, protocol type, lengths; the sender's MAC address a group.
    for at in [14, 15, 16, 17, 18, 19] {
        let mut frame = arp();
        frame[at] ^= 2;
        assert_eq!(Solicitation::parse(&frame), Solicitation::Malformed, "byte {at}");
    }
    let mut frame = arp();
    frame[22] |= 1;
    assert_eq!(Solicitation::parse(&frame), Solicitation::Malformed);
    for operation in [0, 2, 3, 8, 0x0101u16] {
        let mut frame = arp();
        frame[20..22].copy_from_slice(&operation.to_be_bytes());
        assert_eq!(
            Solicitation::parse(&frame),
            Solicitation::NotOne,
            "operation {operation}"
        );
    }
}

type Change = fn(&mut Vec<u8>);

#[test]
fn malformed_solicitations() {
    let bad: [(&str, Change); 14] = [
        ("hop limit", |f| f[21] = 254),
        ("code", |f| f[55] = 1),
        ("too short", |f| f.truncate(77)),
        ("too short by much", |f| f.truncate(58)),
        ("target is multicast", |f| f[62] = 0xff),
        ("source is multicast", |f| f[22] = 0xff),
        ("option length 0", |f| f[79] = 0),
        ("option longer than the packet", |f| f[79] = 2),
        ("other option of length 0", |f| {
            f.extend([14, 0, 0, 0, 0, 0, 0, 0])
        }),
        ("option type alone", |f| f.push(14)),
        ("link-layer address of 14 bytes", |f| {
            f[79] = 2;
            f.extend([0; 8]);
        }),
        ("MAC address of a group", |f| f[80] = 3),
        ("duplicate address detection with a link-layer address", |f| {
            f[22..38].fill(0)
        }),
        ("duplicate address detection to an address", |f| {
            f[22..38].fill(0);
            f.truncate(78);
            f[38] = 0xfe;
        }),
    ];
    for (what, change) in bad {
        assert_eq!(
            Solicitation::parse(&ns_with(change)),
            Solicitation::Malformed,
            "{what}"
        );
    }
    let mut sum = ns();
    sum[57] ^= 1;
    assert_eq!(Solicitation::parse(&sum), Solicitation::Malformed);
    let mut long = ns();
    long[19] += 1;
    assert_eq!(
        Solicitation::parse(&long),
        Solicitation::Malformed,
        "longer than the frame"
    );
}

#[test]
fn others_are_not_one() {
    for (at, value) in [(12, 8), (13, 0xde), (14, 0x40), (20, 17), (54, 133), (54, 128)] {
        assert_eq!(
            Solicitation::parse(&ns_with(|f| f[at] = value)),
            Solicitation::NotOne,
            "byte {at}"
        );
    }
    let tagged = |mut f: Vec<u8>| {
        f.splice(12..12, [0x81, 0, 0, 5]);
        f
    };
    assert_eq!(Solicitation::parse(&tagged(arp())), Solicitation::NotOne);
}

#[test]
fn cut_at_every_length() {
    for len in 0..arp().len() {
        let want = if len < 14 {
            Solicitation::NotOne
        } else {
            Solicitation::Malformed
        };
        assert_eq!(Solicitation::parse(&arp()[..len]), want, "{len} bytes of ARP");
    }
    for len in 0..ns().len() {
        let want = if len < 55 {
            Solicitation::NotOne
        } else {
            Solicitation::Malformed
        };
        assert_eq!(
            Solicitation::parse(&ns()[..len]),
            want,
            "{len} bytes of a solicitation"
        );
        assert_eq!(classify_noise(&ns()[..len]), len >= 55, "{len} bytes");
    }
}

/// An ICMPv6 message of a type, with a hop limit, behind hop-by-hop options (router alert) or not.
fn icmp(kind: u8, hops: u8, options: bool) -> Vec<u8> {
    let mut frame = ns();
    frame[21] = hops;
    frame[54] = kind;
    if options {
        frame[20] = 0;
        frame.splice(54..54, [58, 0, 5, 2, 0, 0, 1, 0]);
        frame[19] += 8;
    }
    frame
}

#[test]
fn noise_and_what_is_none() {
    for options in [false, true] {
        for kind in 0..=255 {
            let (discovery, mld) = ((133..=137).contains(&kind), [131, 132, 143].contains(&kind));
            assert_eq!(
                classify_noise(&icmp(kind, 255, options)),
                discovery,
                "type {kind}"
            );
            assert_eq!(classify_noise(&icmp(kind, 1, options)), mld, "type {kind}");
            assert!(!classify_noise(&icmp(kind, 64, options)), "routed: type {kind}");
        }
    }
    let report = icmp(143, 1, true);
    for len in 0..report.len() {
        assert_eq!(classify_noise(&report[..len]), len >= 63, "{len} bytes");
    }
    assert_eq!(Solicitation::parse(&icmp(135, 255, true)), Solicitation::NotOne);
    let mut udp = report.clone();
    udp[54] = 17;
    assert!(!classify_noise(&udp));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn no_panic_whatever_the_bytes(mut bytes in vec(any::<u8>(), 0..130), kind in 0..4u8) {
        let start: &[u8] = match kind {
            1 => &arp()[12..22],
            2 => &ns()[12..22],
            3 => &icmp(135, 255, true)[12..22],
            _ => &[],
        };
        if let Some(at) = bytes.get_mut(12..12 + start.len()) {
            at.copy_from_slice(start);
        }
        classify_noise(&bytes);
        if let Solicitation::Ndp(_) = Solicitation::parse(&bytes) {
            prop_assert!(bytes.len() >= 78 && bytes[21] == 255);
        }
    }
}

#[test]
fn every_flipped_bit_is_found_but_those_outside_the_sum() {
    for bit in 0..ns().len() * 8 {
        let mut frame = ns();
        frame[bit / 8] ^= 1 << (bit % 8);
        // The MAC addresses, the traffic class and the flow label.
        let outside = match bit / 8 {
            0..12 | 15..18 => true,
            14 => bit % 8 < 4,
            _ => false,
        };
        let taken = matches!(Solicitation::parse(&frame), Solicitation::Ndp(_));
        assert_eq!(taken, outside, "byte {} bit {}", bit / 8, bit % 8);
    }
}

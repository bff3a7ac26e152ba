//! Outer headers, against the parser and against summing everything anew.

use std::net::SocketAddr;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::checksum::{fold, ipv4_header_ok, sum};
use crate::encap::{Encap, MAX_LEN, finish_udp};
use crate::ether::{Mac, Tags};
use crate::frame::{Parsed, parse};

const DST: Mac = [2, 0, 0, 0, 0, 1];
const SRC: Mac = [2, 0, 0, 0, 0, 2];

fn encap(tags: Tags, local: &str, remote: &str) -> Option<Encap> {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    Encap::new(DST, SRC, tags, address(local), address(remote))
}

fn tags(count: u8) -> Tags {
    Tags {
        count,
        tci: [0x2064, if count > 1 { 0x0007 } else { 0 }],
        service: u8::from(count > 1),
    }
}

#[test]
fn every_byte_of_an_ipv4_header() {
    let e = encap(Tags::default(), "192.0.2.1:1194", "198.51.100.7:40000").expect("one family");
    let mut front = [0xff; 42];
    assert!(e.write(&mut front, 100, 0xbeef));
    // 4500+0080+beef+4011+c000+0201+c633+6407 = 3_30bb, folded 30be, inverted cf41.
    // c000+0201+c633+6407+0011+006c = 1_ecb8, folded ecb9.
    let want =
        "020000000001 020000000002 0800 4500 0080 beef 0000 40 11 cf41 c0000201 c6336407 04aa 9c40 006c ecb9";
    assert_eq!(hex(&front), want.replace(' ', ""));
    assert_eq!((e.len(), e.l2_len(), e.l3_len(), e.is_v6()), (42, 14, 20, false));
}

#[test]
fn every_byte_of_an_ipv6_header_with_two_tags() {
    let e = encap(tags(2), "[2001:db8::1]:1194", "[2001:db8::2]:40000").expect("one family");
    let mut front = [0xff; MAX_LEN];
    assert!(e.write(&mut front, 100, 0xbeef));
    // 2*(2001+0db8)+0001+0002+0011+006c = 5bf2.
    let want = "020000000001 020000000002 88a8 2064 8100 0007 86dd 60000000 006c 11 40 \
                20010db8000000000000000000000001 20010db8000000000000000000000002 04aa 9c40 006c 5bf2";
    assert_eq!(hex(&front), want.replace(' ', ""));
    assert_eq!((e.len(), e.l2_len(), e.l3_len(), e.is_v6()), (70, 22, 40, true));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn what_cannot_be_is_refused() {
    assert!(encap(tags(0), "192.0.2.1:1", "[2001:db8::1]:1").is_none());
    assert!(encap(tags(0), "[2001:db8::1]:1", "192.0.2.1:1").is_none());
    assert!(encap(tags(3), "192.0.2.1:1", "192.0.2.2:1").is_none());
    let v4 = encap(tags(1), "192.0.2.1:1", "192.0.2.2:1").expect("one family");
    let v6 = encap(tags(0), "[::1]:1", "[::2]:1").expect("one family");
    for (e, most) in [(v4, 65535 - 28), (v6, 65535 - 8)] {
        let mut front = vec![0; e.len()];
        assert!(!e.write(&mut front, most + 1, 1) && !e.write(&mut front, u16::MAX, 1));
        for wrong in [0, 1, 42, e.len() - 1, e.len() + 1, 62, 70]
            .into_iter()
            .filter(|&n| n != e.len())
        {
            assert!(!e.write(&mut vec![0; wrong], 1, 1), "{wrong}");
        }
        assert!(front.iter().all(|&b| b == 0), "nothing is written");
        assert!(e.write(&mut front, most, 1));
    }
    assert!(size_of::<Encap>() <= 96);
}

/// The UDP checksum that summing the pseudo-header and all of the datagram gives; IP header of `ip_len` bytes at `l3`.
fn whole_sum(frame: &[u8], l3: usize, v6: bool, len: usize) -> u16 {
    let (addresses, l4) = if v6 {
        (&frame[l3 + 8..l3 + 40], l3 + 40)
    } else {
        (&frame[l3 + 12..l3 + 20], l3 + 20)
    };
    fold(sum(addresses) + 17 + len as u64 + sum(&frame[l4..l4 + len]))
}

fn any_address() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    prop_oneof![
        any::<([u8; 4], u16, [u8; 4], u16)>().prop_map(|(a, p, b, q)| ((a, p).into(), (b, q).into())),
        any::<([u8; 16], u16, [u8; 16], u16)>().prop_map(|(a, p, b, q)| ((a, p).into(), (b, q).into())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_written_parses_and_sums_up((local, remote) in any_address(), count in 0..3u8, service in 0..4u8,
            tci in any::<[u16; 2]>(), id in any::<u16>(), mut payload in vec(any::<u8>(), 0..300), padding in 0..9usize,
            zero in any::<bool>()) {
        let tci = [if count > 0 { tci[0] } else { 0 }, if count > 1 { tci[1] } else { 0 }];
        let tags = Tags { count, tci, service: service & ((1 << count) - 1) };
        let e = Encap::new(DST, SRC, tags, local, remote).expect("one family");
        let mut frame = vec![0xee; e.len()];
        prop_assert!(e.write(&mut frame, payload.len() as u16, id));
        if zero && payload.len() > 1 {
            // Chosen so that all sums to ffff: the checksum is 0.
            payload[..2].fill(0);
            let rest = fold(sum(&frame[e.l2_len() + e.l3_len()..]) + sum(&payload));
            payload[..2].copy_from_slice(&(!rest).to_be_bytes());
        }
        frame.extend(&payload);
        frame.resize(frame.len() + padding, 0xdd);
        let Parsed::Udp(d) = parse(&frame, frame.len()) else { panic!("no datagram") };
        let l4 = e.l2_len() + e.l3_len();
        prop_assert_eq!((usize::from(d.l3), usize::from(d.l4)), (e.l2_len(), l4));
        prop_assert_eq!(usize::from(d.payload_len), payload.len());
        prop_assert_eq!(d.outer.is_v6(), e.is_v6());
        prop_assert_eq!(crate::ether::layer3(&frame).expect("short").2, tags);
        if !e.is_v6() {
            prop_assert!(ipv4_header_ok(&frame[e.l2_len()..l4]));
            prop_assert_eq!(&frame[e.l2_len() + 4..e.l2_len() + 6], &id.to_be_bytes());
        }
        prop_assert!(finish_udp(&mut frame, l4));
        let field = [frame[l4 + 6], frame[l4 + 7]];
        prop_assert_ne!(field, [0, 0]);
        if zero && payload.len() > 1 {
            prop_assert_eq!(field, [0xff, 0xff]);
        }
        prop_assert_eq!(whole_sum(&frame, e.l2_len(), e.is_v6(), 8 + payload.len()), 0xffff);
        prop_assert_eq!(&frame[l4 + 8..l4 + 8 + payload.len()], &payload[..]);
        prop_assert!(frame[l4 + 8 + payload.len()..].iter().all(|&b| b == 0xdd));
    }

    #[test]
    fn finishing_never_reads_past_the_end(mut bytes in vec(any::<u8>(), 0..60), l4 in 0..70usize, len in 0..70u16) {
        if let Some(field) = bytes.get_mut(l4 + 4..l4 + 6) {
            field.copy_from_slice(&len.to_be_bytes());
        }
        let fits = len >= 8 && l4 + usize::from(len) <= bytes.len();
        let before = bytes.clone();
        prop_assert_eq!(finish_udp(&mut bytes, l4), fits);
        prop_assert!(fits || bytes == before);
    }
}

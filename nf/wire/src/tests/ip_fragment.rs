//! Fragments, put together again by a reassembler that trusts nothing but their headers.

use proptest::prelude::*;

use super::build::{Udp, V4, V6, extension, fragment_header};
use crate::checksum::{self, ipv4_header_ok};
use crate::ether::layer3;
use crate::ip_fragment::Plan;

const ID: u32 = 0xdead_beef;

/// The IP header's length and whether it is IPv6.
fn header(frame: &[u8]) -> (usize, usize, bool) {
    let (ether_type, l3, _) = layer3(frame).expect("layer 3");
    let v6 = ether_type == 0x86dd;
    (l3, if v6 { 40 } else { usize::from(frame[l3] & 0xf) * 4 }, v6)
}

fn be(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |n, &b| n << 8 | usize::from(b))
}

/// Puts an IPv4 checksum that is right, as the frames of `build` have none.
fn with_checksum(mut frame: Vec<u8>) -> Vec<u8> {
    let (l3, len, v6) = header(&frame);
    if !v6 {
        frame[l3 + 10..l3 + 12].fill(0);
        let sum = !checksum::fold(checksum::sum(&frame[l3..l3 + len]));
        frame[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

/// The fragments as frames.
fn cut(frame: &[u8], mtu: usize) -> Option<Vec<Vec<u8>>> {
    let plan = Plan::of(frame, frame.len(), mtu, ID)?;
    let count = plan.len();
    let made: Vec<_> = plan
        .map(|p| [p.head(), &frame[p.payload.clone()]].concat())
        .collect();
    assert_eq!(made.len(), count);
    Some(made)
}

/// Joins fragments into the frame that was cut; checks each of them on the way.
fn join(fragments: &[Vec<u8>], mtu: usize) -> Vec<u8> {
    if let [only] = fragments {
        return only.clone();
    }
    let mut whole = vec![];
    let mut data: Vec<u8> = vec![];
    for (i, f) in fragments.iter().enumerate() {
        let (l3, len, v6) = header(f);
        assert!(f.len() - l3 <= mtu, "fits");
        let (offset, more, body) = if v6 {
            assert_eq!(be(&f[l3 + 4..l3 + 6]) + 40 + l3, f.len());
            let field = be(&f[l3 + 42..l3 + 44]);
            assert_eq!((f[l3 + 6], f[l3 + 41], field & 6), (44, 0, 0));
            assert_eq!(be(&f[l3 + 44..l3 + 48]), ID as usize);
            (field & !7, field & 1 != 0, l3 + 48)
        } else {
            assert_eq!(be(&f[l3 + 2..l3 + 4]) + l3, f.len());
            assert!(ipv4_header_ok(&f[l3..l3 + len]));
            let field = be(&f[l3 + 6..l3 + 8]);
            ((field & 0x1fff) * 8, field & 0x2000 != 0, l3 + len)
        };
        assert_eq!((offset, more), (data.len(), i + 1 < fragments.len()));
        if i == 0 {
            whole = f[..l3 + len].to_vec();
            if v6 {
                whole[l3 + 6] = f[l3 + 40];
            }
        }
        assert!(
            !more || ((f.len() - body) % 8 == 0 && f.len() + 8 > l3 + mtu),
            "full"
        );
        data.extend(&f[body..]);
    }
    let (l3, _, v6) = header(&whole);
    whole.extend(data);
    let ip_len = whole.len() - l3 - if v6 { 40 } else { 0 };
    let at = l3 + if v6 { 4 } else { 2 };
    whole[at..at + 2].copy_from_slice(&(ip_len as u16).to_be_bytes());
    if !v6 {
        whole[l3 + 6..l3 + 8].fill(0);
    }
    with_checksum(whole)
}

fn frame(v6: bool, size: usize, tags: Vec<(u16, u16)>, options: Vec<u8>) -> Vec<u8> {
    let mut udp = Udp::of(size);
    for (i, b) in udp.payload.iter_mut().enumerate() {
        *b = (i * 31 + (i >> 8)) as u8;
    }
    let frame = if v6 {
        V6 {
            tags,
            udp,
            ..V6::default()
        }
        .frame()
    } else {
        V4 {
            tags,
            options,
            udp,
            ..V4::default()
        }
        .frame()
    };
    with_checksum(frame)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn joined_fragments_are_the_datagram(v6 in any::<bool>(), size in 1..20_000usize, mtu in 576..9000usize,
            tag_count in 0..3usize, options in 0..11usize, padding in 0..5usize) {
        // Options that are copied (security, RFC 1108: 0x82), so that all fragments have the same header.
        let mut option = vec![1; options * 4];
        if options > 0 {
            option[..4].copy_from_slice(&[0x82, 4, 9, 9]);
        }
        let mtu = if v6 { mtu.max(1280) } else { mtu };
        let whole = frame(v6, size, vec![(0x8100, 5); tag_count], option);
        let mut padded = whole.clone();
        padded.resize(whole.len() + padding, 0xee);
        let fragments = cut(&padded, mtu).expect("a plan");
        let (l3, _, _) = header(&whole);
        prop_assert_eq!(fragments.len() == 1, whole.len() - l3 <= mtu);
        prop_assert_eq!(join(&fragments, mtu), whole);
    }

    #[test]
    fn no_panic_and_no_range_outside(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), more in 0..70_000usize,
            mtu in 0..3000usize, v6 in any::<bool>(), typed in 0..4u8) {
        if let (true, Some(start)) = (typed > 0, bytes.get_mut(12..15)) {
            start.copy_from_slice(if v6 { &[0x86, 0xdd, 0x60] } else { &[8, 0, 0x46] });
        }
        let frame_len = bytes.len() + more;
        for piece in Plan::of(&bytes, frame_len, mtu, 1).into_iter().flatten() {
            prop_assert!(piece.payload.start <= piece.payload.end && piece.payload.end <= frame_len);
            prop_assert!(piece.head().len() <= bytes.len() + 8);
        }
    }
}

#[test]
fn sizes_around_every_boundary() {
    for v6 in [false, true] {
        let (mtu, room) = if v6 { (1280, 1232) } else { (576, 552) };
        for n in 1..5 {
            for size in n * room - 40..n * room + 40 {
                let whole = frame(v6, size, vec![], vec![]);
                assert_eq!(
                    join(&cut(&whole, mtu).expect("a plan"), mtu),
                    whole,
                    "{size} bytes"
                );
            }
        }
    }
    let (longest, smallest) = (frame(false, 65_507, vec![], vec![]), 68);
    let fragments = cut(&longest, smallest).expect("a plan");
    assert_eq!(fragments.len(), 65_515usize.div_ceil(48));
    assert_eq!(join(&fragments, smallest), longest);
}

#[test]
fn a_frame_that_fits_is_left_as_it_is() {
    let mut whole = frame(false, 500, vec![], vec![]);
    whole[20] |= 0x40; // DF, and with it a checksum that is wrong: neither is touched.
    assert_eq!(cut(&whole, 528), Some(vec![whole.clone()]));
    let apart = cut(&whole, 527).expect("a plan");
    assert_eq!(
        (apart.len(), apart[0][20] & 0x40),
        (2, 0),
        "DF is clear in fragments"
    );
}

#[test]
fn options_not_to_be_copied_are_in_the_first_fragment_alone() {
    // Record route (7, not copied), security (0x82, copied), no-operation, end.
    let options = vec![7, 3, 4, 0x82, 4, 8, 9, 1, 0x44, 3, 5, 0];
    let whole = frame(false, 1000, vec![], options.clone());
    let fragments = cut(&whole, 576).expect("a plan");
    assert_eq!(fragments.len(), 2);
    assert_eq!(fragments[0][34..46], options);
    assert_eq!(fragments[1][34..46], [1, 1, 1, 0x82, 4, 8, 9, 1, 1, 1, 1, 0]);
    assert_eq!(join(&fragments, 576), whole);
    for bad in [[7, 0, 1, 1], [7, 1, 1, 1], [1, 1, 1, 7], [7, 5, 0, 0]] {
        let whole = frame(false, 1000, vec![], bad.to_vec());
        assert_eq!(cut(&whole, 576), None, "{bad:?}");
        assert!(cut(&whole, 1500).is_some(), "nothing to cut");
    }
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let v4 = frame(false, 1000, vec![], vec![]);
    let v6 = frame(true, 2000, vec![], vec![]);
    assert!(cut(&v4, 67).is_none() && cut(&v4, 0).is_none() && cut(&v4, 68).is_some());
    assert!(cut(&v6, 1279).is_none() && cut(&v6, 1280).is_some());
    for fragment in [0x2000, 1, 0x1fff] {
        let f = V4::with(|f| f.fragment = fragment);
        assert!(cut(&f, 68).is_none() && cut(&f, 1500).is_none());
    }
    for len in 0..v4.len() {
        assert_eq!(cut(&v4[..len], 576), None, "{len} bytes");
    }
    for len in 0..v6.len() {
        assert_eq!(cut(&v6[..len], 1280), None, "{len} bytes");
    }
    let lies: [fn(&mut V4); 4] = [
        |f| f.ihl = Some(4),
        |f| f.total = Some(19),
        |f| f.total = Some(9000),
        |f| f.ihl = Some(15),
    ];
    for lie in lies {
        let f = V4::with(|f| {
            f.udp = Udp::of(3);
            lie(f);
        });
        assert!(cut(&f, 1500).is_none());
    }
    let mut arp = v4.clone();
    arp[13] = 6;
    assert!(cut(&arp, 576).is_none());
}

#[test]
fn extension_headers_that_may_and_may_not_follow_the_fragment_header() {
    let frame_with = |extensions| {
        V6 {
            extensions,
            udp: Udp::of(3000),
            ..V6::default()
        }
        .frame()
    };
    let good = frame_with(vec![extension(60, 2), extension(60, 1)]);
    let fragments = cut(&good, 1280).expect("a plan");
    assert_eq!((fragments[0][20], fragments[0][54]), (44, 60));
    assert_eq!(join(&fragments, 1280), good);
    for bad in [
        vec![extension(0, 1)],
        vec![extension(43, 1)],
        vec![extension(60, 1), extension(43, 1)],
        vec![fragment_header(0, false)],
    ] {
        assert_eq!(cut(&frame_with(bad), 1280), None);
    }
}

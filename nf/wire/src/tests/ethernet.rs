//! Ethernet, 802.1Q and QinQ.

use super::build::{V4, V6, ethernet};
use super::{datagram, is_other, places};
use crate::ether::{self, Tags};

const TRIPLE: [(u16, u16); 3] = [(0x88a8, 1), (0x8100, 2), (0x8100, 3)];

#[test]
fn untagged() {
    assert_eq!(places(&datagram(&V4::default().frame())), (14, 34, 42, 40));
    assert_eq!(places(&datagram(&V6::default().frame())), (14, 54, 62, 40));
}

#[test]
fn one_802_1q_tag() {
    let tags = vec![(0x8100, 0xb007)];
    assert_eq!(
        places(&datagram(&V4::with(|f| f.tags = tags.clone()))),
        (18, 38, 46, 40)
    );
    let frame = V6::with(|f| f.tags = tags.clone());
    assert_eq!(places(&datagram(&frame)), (18, 58, 66, 40));
    let seen = ether::layer3(&frame);
    assert_eq!(
        seen,
        Some((
            ether::IPV6,
            18,
            Tags {
                count: 1,
                tci: [0xb007, 0],
                service: 0
            }
        ))
    );
}

#[test]
fn qinq_with_a_service_tag_outside_or_without_one() {
    for (tpid, service) in [(0x88a8, 1), (0x8100, 0)] {
        let tags = vec![(tpid, 0x2064), (0x8100, 7)];
        let frame = V4::with(|f| f.tags = tags.clone());
        assert_eq!(places(&datagram(&frame)), (22, 42, 50, 40));
        let seen = ether::layer3(&frame);
        assert_eq!(
            seen,
            Some((
                ether::IPV4,
                22,
                Tags {
                    count: 2,
                    tci: [0x2064, 7],
                    service
                }
            ))
        );
        assert_eq!(
            places(&datagram(&V6::with(|f| f.tags = tags.clone()))),
            (22, 62, 70, 40)
        );
    }
}

#[test]
fn three_tags_are_not_ours() {
    assert!(is_other(&V4::with(|f| f.tags = TRIPLE.to_vec())));
    assert!(is_other(&V6::with(|f| f.tags = TRIPLE.to_vec())));
}

#[test]
fn a_frame_cut_in_its_ethernet_header_or_tags() {
    for tags in [&TRIPLE[..0], &TRIPLE[..1], &TRIPLE[..2], &TRIPLE[..]] {
        let frame = V4::with(|f| f.tags = tags.to_vec());
        for len in 0..14 + 4 * tags.len() {
            assert_eq!(ether::layer3(&frame[..len]), None, "{len}");
            assert!(is_other(&frame[..len]), "{len}");
        }
    }
}

#[test]
fn other_ether_types_whatever_they_hold() {
    let packet = V4::default().packet();
    // ARP, an 802.3 length, MPLS, PPPoE, the 0x9100 that some switches use for QinQ, and IPv6 around IPv4.
    for ether_type in [0x0806, 0x0040, 0x8847, 0x8864, 0x9100, 0x86dd] {
        assert!(
            is_other(&ethernet(&[], ether_type, &packet, &[])),
            "{ether_type:04x}"
        );
    }
    assert!(is_other(&ethernet(&[], 0x0800, &V6::default().packet(), &[])));
}

#[test]
fn the_header_and_the_mac_of_a_peer() {
    assert_eq!(ether::peer_mac(0xab_cdef), [0x02, 0x6f, 0x76, 0xab, 0xcd, 0xef]);
    assert_eq!(ether::peer_mac(0), [0x02, 0x6f, 0x76, 0, 0, 0]);
    let header = ether::header([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12], ether::IPV6);
    assert_eq!(header, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x86, 0xdd]);
}

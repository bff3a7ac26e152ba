//! Packets over the NIC's MTU leave in fragments; lack of headroom is made up for.

use crate::bed::*;
use crate::far::Far;
use crate::packets::words;
use crate::peers::*;
use nf_path::buf::Buf;
use nf_path::twin::{HEADROOM, HeapBuf};
use nf_path::verdict::DropReason;
use nf_wire::ether::{self, peer_mac};

fn big(peer: u32, len: usize) -> HeapBuf {
    HeapBuf::sized(&framed(peer_mac(peer), &packet(peer, len, 5)), HEADROOM, 12_000)
}

/// Panics unless the UDP checksum over the payloads of all fragments of a packet, in order, is right.
fn udp_checksum_ok(fragments: &[Got]) {
    let (ether_type, l3, _) = ether::layer3(&fragments[0].frame).unwrap();
    let (header, addresses) = if ether_type == ether::IPV4 {
        (20, 12..20)
    } else {
        (48, 8..40)
    };
    let datagram: Vec<_> = fragments
        .iter()
        .flat_map(|got| got.frame[l3 + header..].to_vec())
        .collect();
    let addresses = &fragments[0].frame[l3..][addresses];
    let len = (datagram.len() as u32).to_be_bytes();
    assert_eq!(
        usize::from(u16::from_be_bytes([datagram[4], datagram[5]])),
        datagram.len()
    );
    assert_eq!(words(&[addresses, &len, &[0, 0, 0, 17], &datagram]), 0xffff);
}

#[test]
fn what_is_longer_than_the_mtu_leaves_in_fragments() {
    // IPv4 without, with one and with two tags; IPv6.
    for (peer, header) in [(1, 20), (4, 20), (5, 20), (7, 40)] {
        let exact = 1500 - header - 8 - 24;
        for (len, fragments) in [(exact - 1, 1), (exact, 1), (exact + 1, 2), (3000, 3), (8900, 7)] {
            for checksums in [false, true] {
                let mut bed = Bed::new(Setup {
                    mtu: 1500,
                    checksums,
                    ..Setup::default()
                });
                let mut sent = bed.push([buf(peer, 60, 1), big(peer, len), buf(peer, 60, 2)]);
                let l2 = sent.nic[0].frame.len() - 60 - 24 - 8 - header;
                assert_eq!(sent.nic.len(), 2 + fragments, "peer {peer}, {len} bytes");
                assert!(sent.nic.iter().all(|got| got.frame.len() <= l2 + 1500));
                let counted = if fragments > 1 { fragments as u64 } else { 0 };
                assert_eq!(bed.totals().fragments_tx, counted);
                // The rest may be left to the port; the checksum of what is fragmented may not.
                sent.nic.retain(|got| !got.offloaded);
                let whole = if checksums {
                    0
                } else {
                    2 + usize::from(fragments == 1)
                };
                let pieces = if fragments > 1 { fragments } else { 0 };
                assert_eq!(sent.nic.len(), whole + pieces);
                if fragments > 1 {
                    udp_checksum_ok(&sent.nic[whole / 2..][..fragments]);
                    let opened = Far::default().open(&sent);
                    assert!(opened.contains(&(peer, packet(peer, len, 5))));
                }
            }
        }
    }
}

/// Case A12.
#[test]
fn inner_fragments_are_sealed_like_any_packet() {
    for (peer, flags) in [(1, 0x2000u16), (7, 0x2000), (1, 0x00b9), (7, 0x4000)] {
        let mut bed = Bed::new(Setup {
            mtu: 1500,
            ..Setup::default()
        });
        let mut inner = packet(peer, 1500, 3);
        inner[6..8].copy_from_slice(&flags.to_be_bytes());
        let sent = bed.push([HeapBuf::new(&framed(peer_mac(peer), &inner))]);
        assert_eq!(sent.nic.len(), 2);
        let (_, l3, _) = ether::layer3(&sent.nic[0].frame).unwrap();
        if peer == 1 {
            assert_eq!(sent.nic[0].frame[l3 + 6] & 0x40, 0, "DF is clear");
        }
        assert_eq!(Far::default().open(&sent), [(peer, inner)]);
    }
    let mut bed = Bed::new(Setup {
        mtu: 1500,
        ..Setup::default()
    });
    let mut inner = packet_v6(2, 1500, 3);
    (inner[6], inner[40]) = (44, 17);
    let sent = bed.push([HeapBuf::new(&framed(peer_mac(2), &inner))]);
    assert_eq!(Far::default().open(&sent), [(2, inner)]);
}

#[test]
fn fragments_that_find_no_buffer_are_all_missing_and_leak_nothing() {
    for free in 0..3 {
        let mut bed = Bed::new(Setup {
            mtu: 1500,
            ..Setup::default()
        });
        bed.pool.small.set(free);
        let sent = bed.push([big(1, 3000)]);
        assert_eq!(
            (sent, bed.drops()),
            (Sent::default(), vec![(DropReason::NoBuffer, 1)])
        );
        assert_eq!((bed.totals().sealed, bed.totals().fragments_tx), (1, 0));
        // The books of the bed count it once, as sealed.
        bed.made(1);
    }
}

#[test]
fn headroom_that_is_too_small_is_made_up_for_by_a_copy() {
    for (peer, needed) in [(1, 52), (5, 60), (7, 72)] {
        for headroom in [0, needed - 1, needed, needed + 1] {
            let mut bed = Bed::default();
            bed.pool.large.set(usize::from(headroom < needed));
            let frame = framed(peer_mac(peer), &packet(peer, 200, 1));
            let sent = bed.push([HeapBuf::sized(&frame, headroom, 1000)]);
            assert_eq!(Far::default().open(&sent), [(peer, packet(peer, 200, 1))]);
            assert_eq!(
                bed.pool.large.get(),
                0,
                "a copy only where one is needed: {headroom} bytes"
            );
            let sent = bed.push([HeapBuf::sized(&frame, 0, 1000)]);
            assert_eq!(
                (sent.nic.len(), bed.drops()),
                (0, vec![(DropReason::NoBuffer, 1)])
            );
            let key = bed.peer(peer).keys.get(nf_state::Slot::Primary).unwrap().clone();
            assert_eq!(key.ids().next(), 2, "no id is spent on it");
        }
    }
}

#[test]
fn scattered_and_shared_packets_are_copied() {
    let frame = framed(peer_mac(2), &packet(2, 1000, 1));
    for cut in [1, 13, 14, 33, 34, 500, 1013] {
        let mut bed = Bed::default();
        let scattered = HeapBuf::from_segments(&[&frame[..cut], &frame[cut..]]);
        assert_eq!(scattered.segments(), 2);
        let sent = bed.push([
            buf(2, 60, 0),
            scattered,
            HeapBuf::new(&frame).shared(),
            buf(2, 60, 2),
        ]);
        let opened: Vec<_> = Far::default()
            .open(&sent)
            .into_iter()
            .map(|(_, inner)| inner)
            .collect();
        assert_eq!(
            opened,
            [
                packet(2, 60, 0),
                packet(2, 1000, 1),
                packet(2, 1000, 1),
                packet(2, 60, 2)
            ]
        );
        bed.pool.large.set(0);
        bed.push([HeapBuf::from_segments(&[&frame[..cut], &frame[cut..]])]);
        assert_eq!(bed.drops(), [(DropReason::Scattered, 1)]);
    }
}

#[test]
fn every_length_up_to_a_record_s_longest() {
    for (peer, longest) in [(1, 65_483), (7, 65_503)] {
        for (len, fits) in [(longest, true), (longest + 1, false)] {
            let mut bed = Bed::new(Setup {
                mtu: 65_535,
                ..Setup::default()
            });
            let buffer = HeapBuf::sized(&framed(peer_mac(peer), &packet(peer, len, 5)), HEADROOM, 70_000);
            let sent = bed.push([buffer]);
            // The longest IPv6 packet is over any MTU.
            let frames = if peer == 1 { 1 } else { 34 };
            assert_eq!(
                sent.nic.len(),
                usize::from(fits) * frames,
                "peer {peer}, {len} bytes"
            );
            assert_eq!(bed.drops().is_empty(), fits);
        }
    }
}

//! A10: the MSS of inner TCP connections from peers, clamped on delivery.

use crate::support::layer4::{self, L4Sum, SYN, SYN_ACK, TCP, tcp};
use crate::support::*;
use nf_path::tunnel::MssClamp;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::Frame;
use nf_path::verdict::DropReason;
use std::net::IpAddr;

/// Told apart by outer and inner family.
const CLAMP: MssClamp = MssClamp {
    max: [[1400, 1380], [1360, 1340]],
};

fn addresses(v6: bool) -> (IpAddr, IpAddr) {
    if v6 {
        ("fd00::2".parse().unwrap(), "fd00::1".parse().unwrap())
    } else {
        (address_of(1).into(), "10.8.0.1".parse().unwrap())
    }
}

fn segment(v6: bool, flags: u8, options: &[u8]) -> Vec<u8> {
    let l4 = tcp(flags, options, b"");
    layer4::packet(addresses(v6), TCP, false, l4, L4Sum::Right)
}

/// One packet of peer 1 through a tunnel with [`CLAMP`]; what is delivered, and how often a clamp was counted.
fn through(bed: &mut Bed, outer: Frame, packet: &[u8]) -> (Vec<u8>, u64) {
    let before = bed.totals().mss_clamped;
    let id = bed.peer_counters(1)[0] as u32 + 1;
    let out = bed.push([HeapBuf::new(&outer.payload(&record_of(1, 0, id, packet)).build())]);
    let delivered = out.inner().first().expect("delivered").to_vec();
    (delivered, bed.totals().mss_clamped - before)
}

fn clamping() -> Bed {
    let mut bed = Bed::default();
    bed.tunnel().mss = Some(CLAMP);
    bed
}

/// The options of a Linux SYN: MSS, SACK permitted, timestamps, window scale.
fn linux(mss: u16) -> Vec<u8> {
    let [high, low] = mss.to_be_bytes();
    let mut options = vec![2, 4, high, low, 4, 2, 8, 10];
    options.extend([1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7]);
    options
}

#[test]
fn a10_syn_and_syn_ack_are_clamped_by_both_families() {
    let mut bed = clamping();
    for (outer, outer_v6) in [(outer(1), false), (outer_v6(1), true)] {
        for v6 in [false, true] {
            for flags in [SYN, SYN_ACK] {
                for mss in [1460, 9000, 0xffff, CLAMP.max[0][0] + 1] {
                    let max = CLAMP.max[usize::from(outer_v6)][usize::from(v6)];
                    let packet = segment(v6, flags, &linux(mss));
                    let (got, count) = through(&mut bed, outer.clone(), &packet);
                    assert_eq!((&got, count), (&segment(v6, flags, &linux(max)), 1));
                    assert!(layer4::is_right(&got));
                }
            }
        }
    }
}

#[test]
fn a10_an_option_at_an_odd_offset_and_one_behind_an_extension_header() {
    let mut bed = clamping();
    let odd = |mss: u16| [&[1, 2, 4][..], &mss.to_be_bytes(), &[1, 1, 0]].concat();
    for v6 in [false, true] {
        let max = CLAMP.max[0][usize::from(v6)];
        let (got, count) = through(&mut bed, outer(1), &segment(v6, SYN, &odd(1460)));
        assert_eq!((&got, count), (&segment(v6, SYN, &odd(max)), 1));
        assert!(layer4::is_right(&got));
    }
    let extended = |mss| {
        layer4::packet(
            addresses(true),
            TCP,
            true,
            tcp(SYN, &linux(mss), b""),
            L4Sum::Right,
        )
    };
    let (got, count) = through(&mut bed, outer(1), &extended(1460));
    assert_eq!((&got, count), (&extended(CLAMP.max[0][1]), 1));
    assert!(layer4::is_right(&got));
}

#[test]
fn a10_what_needs_no_clamp_or_takes_none_stays_as_it_is() {
    let mut bed = clamping();
    let mut packets = Vec::new();
    for v6 in [false, true] {
        let max = CLAMP.max[0][usize::from(v6)];
        packets.extend([536, max - 1, max].map(|mss| segment(v6, SYN, &linux(mss))));
        // Not a SYN; no options; no MSS among them; a list that ends early; a length of 0, 1, past the end.
        for (flags, options) in [
            (0x10, linux(1460)),
            (0x04, linux(1460)),
            (SYN, vec![]),
            (SYN, vec![4, 2, 1, 1]),
            (SYN, vec![0, 0, 0, 0, 2, 4, 5, 180]),
            (SYN, vec![1, 1, 1, 2]),
            (SYN, vec![1, 1, 2, 4]),
            (SYN, vec![3, 0, 2, 4, 5, 180, 0, 0]),
            (SYN, vec![3, 1, 2, 4, 5, 180, 0, 0]),
            (SYN, vec![3, 40, 2, 4, 5, 180, 0, 0]),
            (SYN, vec![2, 0, 5, 180]),
        ] {
            packets.push(segment(v6, flags, &options));
        }
        let whole = segment(v6, SYN, &linux(1460));
        let l4 = if v6 { 40 } else { 20 };
        // Cut in the TCP header, whatever the IP header says.
        packets.extend([l4, l4 + 1, l4 + 13, l4 + 19].map(|len| whole[..len].to_vec()));
        // A data offset that lies.
        for words in [0, 4, 15] {
            let mut lying = whole.clone();
            lying[l4 + 12] = words << 4;
            packets.push(lying);
        }
    }
    let mut fragment = segment(false, SYN, &linux(1460));
    fragment[7] = 1;
    packets.push(fragment);
    for packet in packets {
        let (got, count) = through(&mut bed, outer(1), &packet);
        assert_eq!((got, count), (packet, 0));
    }
}

#[test]
fn a10_off_means_off() {
    let mut bed = Bed::default();
    let packet = segment(false, SYN, &linux(9000));
    assert_eq!(through(&mut bed, outer(1), &packet), (packet.clone(), 0));
    bed.tunnel().mss = Some(MssClamp { max: [[0; 2]; 2] });
    assert_eq!(through(&mut bed, outer(1), &packet), (packet, 0));
}

#[test]
fn a10_what_is_not_delivered_is_not_counted_and_batches_are_clamped_one_by_one() {
    let mut bed = clamping();
    bed.tunnel().source_check = true;
    let spoofed = layer4::packet(
        ("10.8.0.77".parse().unwrap(), "10.8.0.1".parse().unwrap()),
        TCP,
        false,
        tcp(SYN, &linux(1460), b""),
        L4Sum::Right,
    );
    let plain = inner(1, spoofed.len(), 2);
    let syn = segment(false, SYN, &linux(1460));
    let packets = [&spoofed, &plain, &syn, &plain, &syn];
    let frames = (1..)
        .zip(packets)
        .map(|(id, packet)| HeapBuf::new(&outer(1).payload(&record_of(1, 0, id, packet)).build()));
    let out = bed.push(frames.collect::<Vec<_>>());
    let clamped = segment(false, SYN, &linux(CLAMP.max[0][0]));
    assert_eq!(
        (bed.batches(5), out.inner()),
        (1, vec![&plain[..], &clamped, &plain, &clamped])
    );
    assert_eq!(bed.totals().mss_clamped, 2);
    assert_eq!(bed.drops(), [(DropReason::BadSource, 1)]);
}

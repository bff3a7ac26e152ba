//! The MSS clamp, case A10.

use crate::bed::*;
use crate::far::Far;
use crate::packets::{Facts, Shape, be16, words};
use crate::peers::*;
use nf_path::tunnel::MssClamp;
use nf_path::twin::HeapBuf;
use nf_wire::ether::{self, peer_mac};

/// By outer and inner IP version.
const MAX: MssClamp = MssClamp {
    max: [[1400, 1380], [1360, 1340]],
};

/// A frame to a peer with a TCP packet with these flags and options, whose checksum is right.
fn tcp(peer: u32, v6: bool, flags: u8, options: &[u8]) -> Vec<u8> {
    let shape = Shape {
        v6,
        tags: 0,
        options: false,
    };
    let mut tcp = vec![0x0f, 0xa1, 0x0f, 0xa2, 1, 2, 3, 4, 0, 0, 0, 0];
    tcp.extend([
        ((20 + options.len() as u8) / 4) << 4,
        flags,
        0x12,
        0x34,
        0,
        0,
        0,
        0,
    ]);
    tcp.extend(options);
    let ip = shape.frame().protocol(6).build();
    let addresses = if v6 {
        &ip[14 + 8..14 + 40]
    } else {
        &ip[14 + 12..14 + 20]
    };
    let sum = !words(&[addresses, &(tcp.len() as u32).to_be_bytes(), &[0, 0, 0, 6], &tcp]);
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut frame = shape.frame().protocol(6).payload(&tcp).build();
    frame[..6].copy_from_slice(&peer_mac(peer));
    frame
}

/// The inner packet that the other side gets.
fn through(bed: &mut Bed, frame: &[u8]) -> Vec<u8> {
    let sent = bed.push([HeapBuf::new(frame)]);
    let mut opened = Far::default().open(&sent);
    assert_eq!(opened.len(), 1);
    opened.remove(0).1
}

fn bed() -> Bed {
    Bed::new(Setup {
        mss: Some(MAX),
        ..Setup::default()
    })
}

#[test]
fn syn_and_syn_ack_are_clamped_by_both_versions() {
    for (peer, outer_v6) in [(1, false), (7, true)] {
        for v6 in [false, true] {
            for flags in [0x02, 0x12] {
                let max = MAX.max[usize::from(outer_v6)][usize::from(v6)];
                for (at, options) in [(22, vec![2, 4, 5, 180]), (23, vec![1, 2, 4, 5, 180, 1, 1, 0])] {
                    let mut bed = bed();
                    let inner = through(&mut bed, &tcp(peer, v6, flags, &options));
                    let ether_type = if v6 { ether::IPV6 } else { ether::IPV4 };
                    let l4 = if v6 { 40 } else { 20 };
                    assert_eq!(
                        be16(&inner, l4 + at),
                        usize::from(max),
                        "outer v6 {outer_v6}, inner v6 {v6}"
                    );
                    Facts::right(&[&ether::header(INTERFACE, INTERFACE, ether_type)[..], &inner].concat());
                    assert_eq!(bed.totals().mss_clamped, 1);
                }
            }
        }
    }
}

#[test]
fn anything_else_is_unchanged() {
    let lists: [(u8, &[u8]); 9] = [
        (0x02, &[2, 4, 3, 0]),
        (0x02, &[]),
        (0x02, &[1, 1, 1, 2]),
        (0x02, &[2, 0, 5, 180]),
        (0x02, &[2, 1, 5, 180]),
        (0x02, &[2, 5, 5, 180]),
        (0x02, &[0, 2, 4, 9, 9, 0, 0, 0]),
        (0x10, &[2, 4, 5, 180]),
        (0x04, &[2, 4, 5, 180]),
    ];
    for (flags, options) in lists {
        for v6 in [false, true] {
            let mut bed = bed();
            let frame = tcp(1, v6, flags, options);
            assert_eq!(through(&mut bed, &frame), &frame[14..]);
            assert_eq!(bed.totals().mss_clamped, 0);
        }
    }
    let mut later = tcp(1, false, 2, &[2, 4, 5, 180]);
    later[21] = 5;
    let mut bed = bed();
    assert_eq!(through(&mut bed, &later), &later[14..]);
}

#[test]
fn without_a_clamp_nothing_is_changed() {
    let frame = tcp(1, false, 2, &[2, 4, 5, 180]);
    assert_eq!(through(&mut Bed::default(), &frame), &frame[14..]);
}

#[test]
fn a_partial_checksum_is_completed_before_the_clamp() {
    let mut frame = tcp(1, false, 2, &[2, 4, 5, 180]);
    let pseudo = words(&[&frame[26..34], &[0, 6], &24u16.to_be_bytes()]);
    frame[50..52].copy_from_slice(&pseudo.to_be_bytes());
    let mut bed = bed();
    let sent = bed.push([HeapBuf::new(&frame).unfinished_by(true, 0)]);
    let inner = &Far::default().open(&sent)[0].1;
    assert_eq!(be16(inner, 42), 1400);
    Facts::right(&[&ether::header(INTERFACE, INTERFACE, ether::IPV4)[..], inner].concat());
}

//! What `net_virtio` says of frames that their sender did not finish, on real buffers: partial checksums are
//! completed and super-frames cut; every buffer comes back.

mod common;
mod rig;

use std::sync::Arc;

use dpdk_sys::{SHIM_RX_IP_CKSUM_GOOD, SHIM_RX_L4_CKSUM_GOOD, SHIM_RX_L4_CKSUM_NONE, SHIM_RX_LRO};
use lcore::buffers::Pools;
use lcore::{Eal, Mbuf, Mempool};
use nf_path::buf::{Buf, Unfinished};
use nf_path::buffers::Buffers;
use nf_path::counters::Counters;
use nf_path::outbound::finish::finish;
use nf_path::twin::craft::Frame;
use nf_path::verdict::DropReason;
use rig::{LARGE_ROOM, bytes, chain, raw};

/// Ethernet and the IP header, without VLAN tags and options.
const L4: [usize; 2] = [34, 54];

#[test]
fn frames_that_were_left_unfinished() {
    let eal = common::eal("unfinished");
    the_flags_are_read(&eal);
    let bed = Bed::new(&eal);
    checksums(&bed);
    super_frames(&bed);
    pools_run_dry(&bed);
    bed.all_back();
}

struct Bed {
    small: Arc<Mempool>,
    large: Arc<Mempool>,
}

impl Bed {
    fn new(eal: &Eal) -> Bed {
        let pool = |name, count, room| Mempool::new(eal, name, count, 0, room, -1).expect("a pool");
        Bed {
            small: pool("unfinished_small", 255, 2176),
            large: pool("unfinished_large", 3, LARGE_ROOM),
        }
    }

    fn finish(&self, frame: Mbuf) -> (Result<(), DropReason>, Vec<Mbuf>, [u64; 2]) {
        let mut pools = Pools::new(self.small.clone(), self.large.clone());
        let (counters, mut given) = (Counters::default(), vec![]);
        let result = finish(frame, &mut pools, &counters, &mut |m| given.push(m));
        let counted = [&counters.checksums_completed, &counters.segmented].map(|c| c.get());
        (result, given, counted)
    }

    fn all_back(&self) {
        for pool in [&self.small, &self.large] {
            assert_eq!(pool.available(), pool.capacity(), "{}", pool.name());
        }
    }
}

/// Sets what the driver sets.
fn flagged(mut m: Mbuf, flags: u64, segment: u16) -> Mbuf {
    raw(&mut m).ol_flags = flags;
    raw(&mut m).tx_offload = u64::from(segment) << 24;
    m
}

fn the_flags_are_read(eal: &Eal) {
    let pool = common::pool(eal, "unfinished_flags", 63);
    let good = SHIM_RX_IP_CKSUM_GOOD;
    for (flags, checksum, segment) in [
        (0, false, 0),
        (good | SHIM_RX_L4_CKSUM_GOOD, false, 0),
        (good | SHIM_RX_L4_CKSUM_NONE, true, 0),
        (SHIM_RX_LRO | SHIM_RX_L4_CKSUM_NONE, true, 1448),
        (SHIM_RX_LRO, false, 1448),
    ] {
        let m = flagged(pool.alloc().expect("a buffer"), flags, 1448);
        assert_eq!(m.unfinished(), Unfinished { checksum, segment }, "{flags:#x}");
    }
    // All bits of the size, and none of its neighbours'.
    let mut m = flagged(pool.alloc().expect("a buffer"), SHIM_RX_LRO, u16::MAX);
    assert_eq!(m.unfinished().segment, u16::MAX);
    raw(&mut m).tx_offload = !(0xffff << 24);
    assert_eq!(m.unfinished().segment, 0);
    // Parts are the segments.
    let m = chain(&pool, &[b"ab", b"", b"cde"]);
    assert!(m.parts().eq([&b"ab"[..], b"", b"cde"]));
}

/// The one's complement sum of 16-bit words, one by one.
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.concat();
    let add = |a: u32, w: &[u8]| a + (u32::from(w[0]) << 8 | w.get(1).map_or(0, |&b| u32::from(b)));
    let total = words.chunks(2).fold(0, add);
    let total = (total & 0xffff) + (total >> 16);
    ((total & 0xffff) + (total >> 16)) as u16
}

/// The sum of the pseudo-header of a frame with `len` bytes of layer 4.
fn pseudo(frame: &[u8], v6: bool, len: usize) -> u16 {
    let (addresses, protocol) = if v6 {
        (&frame[22..54], frame[20])
    } else {
        (&frame[26..34], frame[23])
    };
    sum(&[addresses, &(len as u32).to_be_bytes(), &[0, protocol]])
}

/// TCP or UDP with this payload and a partial checksum.
fn frame(v6: bool, tcp: bool, payload: &[u8]) -> Vec<u8> {
    let ends = if v6 {
        ("[fd00::1]:5001", "[fd00::2]:5002")
    } else {
        ("10.8.0.1:5001", "10.8.0.2:5002")
    };
    let len = (8 + payload.len()) as u16;
    let (protocol, field, header) = if tcp {
        (6, 16, [&[0x13; 12][..], &[0x50, 0x19, 1, 1, 0, 0, 0, 0]].concat())
    } else {
        (17, 6, [&[0x13; 4][..], &len.to_be_bytes(), &[0, 0]].concat())
    };
    let layer4 = [&header, payload].concat();
    let ends = (
        ends.0.parse().expect("an address"),
        ends.1.parse().expect("an address"),
    );
    let mut frame = Frame::udp(ends.0, ends.1)
        .protocol(protocol)
        .payload(&layer4)
        .build();
    let at = L4[usize::from(v6)] + field;
    let partial = pseudo(&frame, v6, layer4.len()).to_be_bytes();
    frame[at..at + 2].copy_from_slice(&partial);
    frame
}

fn is_right(frame: &[u8], v6: bool) -> bool {
    let layer4 = &frame[L4[usize::from(v6)]..];
    let header = v6 || sum(&[&frame[14..34]]) == 0xffff;
    header && sum(&[&pseudo(frame, v6, layer4.len()).to_be_bytes(), layer4]) == 0xffff
}

fn filler(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i * 31 + i / 250) as u8).collect()
}

fn checksums(bed: &Bed) {
    let payload = filler(1400);
    for v6 in [false, true] {
        for tcp in [false, true] {
            for len in (1..=1400).step_by(7) {
                let frame = frame(v6, tcp, &payload[..len]);
                assert!(!is_right(&frame, v6));
                for cut in [0, 20] {
                    let parts = [&frame[..cut], &frame[cut..]];
                    let m = chain(&bed.small, if cut == 0 { &parts[1..] } else { &parts });
                    let at = m.as_ptr();
                    let (result, given, counted) = bed.finish(flagged(m, SHIM_RX_L4_CKSUM_NONE, 0));
                    assert_eq!((result, given.len(), counted), (Ok(()), 1, [1, 0]));
                    assert_eq!(given[0].as_ptr() == at, cut == 0, "in place when it can be");
                    assert_eq!((given[0].unfinished(), given[0].flags()), Default::default());
                    assert!(is_right(&bytes(&given[0]), v6), "{v6} {tcp} {len}");
                }
            }
        }
    }
}

fn super_frames(bed: &Bed) {
    for v6 in [false, true] {
        let payload = filler(if v6 { 65535 - 20 } else { 65535 - 40 });
        let frame = frame(v6, true, &payload);
        for step in [1700, 2048] {
            let m = chain(&bed.small, &frame.chunks(step).collect::<Vec<_>>());
            let (result, given, counted) = bed.finish(flagged(m, SHIM_RX_L4_CKSUM_NONE | SHIM_RX_LRO, 1348));
            assert_eq!((result, counted), (Ok(()), [0, 1]));
            assert_eq!(given.len(), payload.len().div_ceil(1348));
            let mut joined = vec![];
            for m in &given {
                assert_eq!((m.unfinished(), m.flags()), Default::default());
                assert!(m.segments() == 1 && m.headroom() == 128 && m.packet_len() <= 1348 + 74);
                let segment = bytes(m);
                assert!(is_right(&segment, v6));
                joined.extend_from_slice(&segment[L4[usize::from(v6)] + 20..]);
            }
            assert!(joined == payload);
        }
    }
    bed.all_back();
}

fn pools_run_dry(bed: &Bed) {
    let whole = frame(false, true, &filler(9000));
    for left in [0, 1, 6] {
        let m = chain(&bed.small, &whole.chunks(2048).collect::<Vec<_>>());
        let mut pools = Pools::new(bed.small.clone(), bed.large.clone());
        let held: Vec<_> = (left..bed.small.available())
            .map(|_| pools.small().expect("one is free"))
            .collect();
        let (result, given, counted) = bed.finish(flagged(m, SHIM_RX_LRO | SHIM_RX_L4_CKSUM_NONE, 1348));
        assert_eq!((result, given.len()), (Err(DropReason::NoBuffer), left as usize));
        assert_eq!(counted, [0, u64::from(left > 0)]);
        drop((held, given));
        bed.all_back();
    }
    // Large buffers: none left, then a packet that is larger than they are.
    let two = || chain(&bed.small, &[&whole[..1000], &whole[1000..2000]]);
    let mut pools = Pools::new(bed.small.clone(), bed.large.clone());
    let held: Vec<_> = (0..3)
        .map(|_| pools.linearise(two()).expect("one is free"))
        .collect();
    assert!(held.iter().all(|m| bytes(m) == whole[..2000]));
    let back = pools.linearise(two()).expect_err("none is free");
    assert_eq!((back.segments(), bytes(&back)), (2, whole[..2000].to_vec()));
    drop((held, back));
    let huge = chain(&bed.small, &[&whole[..2000]; 5]);
    assert!(pools.linearise(huge).is_err());
}

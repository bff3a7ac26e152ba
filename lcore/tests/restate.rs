//! Nothing that was said of the frame that came in stays with the frame that goes out, whatever its neighbours were.

mod common;
mod rig;

use lcore::{Eal, Mbuf};
use nf_path::buf::Buf;
use rig::{Options, Rig, buffer, chain, delivered, frame, inner, raw};

#[test]
fn delivered_frames_are_clean() {
    let eal = common::eal("restate");
    said_before(&eal);
    a_wrong_tag_between(&eal);
    copied_and_reassembled(&eal);
}

/// All that ports and offloads can have said, except that a checksum is wrong, for which a record is dropped.
fn soil(m: &mut Mbuf) {
    use dpdk_sys::*;
    let m = raw(m);
    m.ol_flags = SHIM_TX_TCP_SEG | SHIM_TX_IP_CKSUM | SHIM_TX_UDP_CKSUM | SHIM_TX_TCP_CKSUM | SHIM_TX_IPV4;
    m.ol_flags |= SHIM_RX_VLAN | SHIM_RX_VLAN_STRIPPED | SHIM_RX_LRO | SHIM_RX_RSS_HASH;
    m.ol_flags |= SHIM_RX_IP_CKSUM_GOOD | SHIM_RX_L4_CKSUM_GOOD;
    (m.tx_offload, m.packet_type, m.vlan_tci, m.vlan_tci_outer) = (u64::MAX, u32::MAX, 0x0fff, 0x0abc);
    m.hash = [u32::MAX; 2];
}

/// One frame in one segment that says of itself what it is, and nothing else.
fn clean(m: &mut Mbuf) {
    assert!(rig::is_plain(m));
    let m = raw(m);
    assert_eq!(
        (m.ol_flags, m.vlan_tci, m.vlan_tci_outer, m.hash),
        (0, 0, 0, [0; 2])
    );
    assert_eq!(m.tx_offload, 14 | 20 << 7, "l2_len and l3_len, no segment size");
    assert_eq!(
        m.packet_type,
        dpdk_sys::SHIM_PTYPE_L2_ETHER | 0x90,
        "Ethernet, IPv4 of any header length"
    );
    assert_eq!(m.pkt_len, u32::from(m.data_len));
    assert!(m.next.is_null());
}

fn check(rig: &mut Rig, expected: &[Vec<u8>]) {
    let mut sent = rig::taken(&mut rig.tunnel_out);
    assert_eq!(sent.iter().map(rig::bytes).collect::<Vec<_>>(), expected);
    sent.iter_mut().for_each(clean);
}

fn said_before(eal: &Eal) {
    for (batch, name) in [(true, "said1"), (false, "said0")] {
        let mut rig = Rig::new(
            eal,
            Options {
                batch,
                ..Options::new(name)
            },
        );
        let small = rig.small.clone();
        let soiled = (1..=64).map(|id| {
            let mut m = buffer(&small, &frame(1, id, 200));
            soil(&mut m);
            m
        });
        rig.put(soiled);
        rig.poll();
        let expected: Vec<_> = (1..=64).map(|id| delivered(1, &inner(200, id))).collect();
        check(&mut rig, &expected);
        assert_eq!(rig.drops(), []);
        drop(small);
        rig.finish();
    }
}

fn a_wrong_tag_between(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("tag"));
    let small = rig.small.clone();
    for bad in [0u32, 3, 7] {
        let first = bad * 10 + 1;
        rig.put((first..first + 8).map(|id| {
            let mut frame = frame(1, id, 120);
            if id == first + bad {
                let last = frame.len() - 1;
                frame[last] ^= 1;
            }
            let mut m = buffer(&small, &frame);
            // What the one with the wrong tag carries must not reach its neighbours.
            if id == first + bad {
                soil(&mut m);
            }
            m
        }));
        rig.poll();
        let ids = (first..first + 8).filter(|id| *id != first + bad);
        check(
            &mut rig,
            &ids.map(|id| delivered(1, &inner(120, id))).collect::<Vec<_>>(),
        );
    }
    assert_eq!(rig.drops(), [(nf_path::verdict::DropReason::BadTag, 3)]);
    drop(small);
    rig.finish();
}

/// Copies into large buffers take flags along on the way in.
fn copied_and_reassembled(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("copied"));
    let small = rig.small.clone();
    let whole = frame(1, 1, 1400);
    let mut scattered = chain(&small, &[&whole[..700], &whole[700..]]);
    soil(&mut scattered);
    let pieces = nf_path::twin::craft::fragment_v4(&frame(1, 2, 1400), 800);
    let mut buffers = vec![scattered];
    buffers.extend(pieces.iter().map(|piece| {
        let mut m = buffer(&small, piece);
        soil(&mut m);
        m
    }));
    rig.put(buffers);
    rig.poll();
    check(
        &mut rig,
        &[delivered(1, &inner(1400, 1)), delivered(1, &inner(1400, 2))],
    );
    assert_eq!(rig.drops(), []);
    // A buffer that goes back and comes again starts clean as well.
    let fresh = small.alloc().expect("a buffer");
    assert_eq!((fresh.flags(), fresh.packet_len(), fresh.segments()), (0, 0, 1));
    drop((fresh, small));
    rig.finish();
}

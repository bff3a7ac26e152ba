//! The Rust view of a buffer and DPDK's own agree.

mod common;

use lcore::{Burst, Mbuf};
use nf_path::buf::{Buf, Layout, RxChecksums, Verdict};

/// The field of `m` that the fast path reads without a call into C.
fn raw(m: &mut Mbuf) -> &mut dpdk_sys::RteMbuf {
    // SAFETY: the buffer is this test's alone.
    unsafe { &mut *m.as_ptr() }
}

fn references(m: &mut Mbuf) -> u16 {
    raw(m).refcnt.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn the_view_of_a_buffer_is_dpdks() {
    let eal = common::eal("mbuf");
    let pool = common::pool(&eal, "mbuf", 255);
    assert!(pool.element_size() >= size_of::<dpdk_sys::RteMbuf>() + pool.room());

    let mut m = pool.alloc().expect("a buffer");
    assert_eq!(
        (
            references(&mut m),
            raw(&mut m).nb_segs,
            raw(&mut m).buf_len,
            raw(&mut m).data_off
        ),
        (1, 1, 2176, 128)
    );
    assert!(raw(&mut m).next.is_null() && !raw(&mut m).pool.is_null());
    assert_eq!((m.room(), m.headroom(), m.packet_len()), (2048, 128, 0));
    // SAFETY: one more reference, which is given back below.
    unsafe { dpdk_sys::shim_pktmbuf_refcnt_update(m.as_ptr(), 1) };
    assert_eq!(references(&mut m), 2);
    assert!(!m.is_private());
    // SAFETY: gives the reference of above back.
    unsafe { dpdk_sys::shim_pktmbuf_free(m.as_ptr()) };
    assert_eq!(references(&mut m), 1);
    assert!(m.is_private());
    for flag in [dpdk_sys::SHIM_MBUF_INDIRECT, dpdk_sys::SHIM_MBUF_EXTERNAL] {
        raw(&mut m).ol_flags = flag;
        assert!(!m.is_private());
        raw(&mut m).ol_flags = 0;
    }

    grow_and_shrink(&mut m);
    verdicts_and_restate(&mut m);
    segments(&pool);
    drop(m);
    assert_eq!(
        pool.available(),
        pool.capacity(),
        "as full at the end as at the start"
    );

    let m = pool.alloc().expect("a buffer");
    let at = m.into_raw();
    assert_eq!(pool.available(), 254, "whoever holds the pointer owns it");
    // SAFETY: into_raw gave the ownership, which goes to another thread and is dropped there.
    let m = unsafe { Mbuf::from_raw(at) };
    std::thread::spawn(move || drop(m))
        .join()
        .expect("any thread may give a buffer back");
    assert_eq!(pool.available(), 255);

    let kept = pool.alloc().expect("a buffer");
    drop((pool, eal));
    assert_eq!(
        kept.headroom(),
        128,
        "a buffer that outlives its pool's handles keeps its memory"
    );
}

fn grow_and_shrink(m: &mut Mbuf) {
    assert!(m.append(2049).is_none());
    m.append(2048).expect("all the room").fill(7);
    assert!(!m.extend_from_slice(&[1]) && m.room() == 0);
    assert!(m.prepend(129).is_none());
    m.prepend(128).expect("all the headroom").fill(9);
    assert_eq!((m.packet_len(), m.data()[127], m.data()[128]), (2176, 9, 7));
    m.narrow(120, 16);
    assert_eq!(m.data(), [[9; 8], [7; 8]].concat());
    m.prefetch();
    for (from, len) in [
        (0, 16),
        (0, 0),
        (15, 1),
        (16, 1),
        (3, usize::MAX),
        (usize::MAX, 2),
    ] {
        m.prefetch_write(from, len);
    }
    assert_eq!(m.data_mut(), [[9; 8], [7; 8]].concat());
    for (front, len) in [(0, 17), (17, 0), (16, 1), (usize::MAX, 2)] {
        let other = std::panic::AssertUnwindSafe(&mut *m);
        let narrowed = std::panic::catch_unwind(move || {
            let other = other;
            other.0.narrow(front, len)
        });
        assert!(narrowed.is_err(), "{front}+{len}");
    }
}

fn verdicts_and_restate(m: &mut Mbuf) {
    use Verdict::*;
    assert_eq!(m.rx_checksums(), RxChecksums::default());
    for (bits, ip) in [
        (0, Unknown),
        (1 << 4, Bad),
        (1 << 7, Good),
        (1 << 4 | 1 << 7, None),
    ] {
        for (more, l4) in [
            (0, Unknown),
            (1 << 3, Bad),
            (1 << 8, Good),
            (1 << 3 | 1 << 8, None),
        ] {
            raw(m).ol_flags = bits | more | 1;
            assert_eq!(m.rx_checksums(), RxChecksums { ip, l4 });
        }
    }
    raw(m).tx_offload = u64::MAX;
    raw(m).vlan_tci = 5;
    raw(m).ol_flags |= dpdk_sys::SHIM_RX_VLAN_STRIPPED;
    assert_eq!(m.stripped_vlan(), Some(5));
    m.restate(Layout {
        l2_len: 18,
        l3_len: 40,
        packet_type: 0x41,
    });
    assert_eq!((m.flags(), raw(m).vlan_tci, raw(m).packet_type), (0, 0, 0x41));
    assert_eq!(
        (raw(m).tx_offload, m.stripped_vlan()),
        (18 | 40 << 7, Option::None)
    );
}

fn segments(pool: &lcore::Mempool) {
    let mut head = pool.alloc().expect("a buffer");
    let mut tail = pool.alloc().expect("a buffer");
    assert!(head.extend_from_slice(b"first ") && tail.extend_from_slice(b"second"));
    let other = tail.into_raw();
    raw(&mut head).next = other.as_ptr();
    raw(&mut head).nb_segs = 2;
    raw(&mut head).pkt_len = 12;
    assert_eq!((head.segments(), head.data()), (2, &b"first "[..]));
    assert_eq!(head.segment_slices().collect::<Vec<_>>(), [b"first ", b"second"]);
    assert!(head.is_private());
    assert!(head.append(1).is_none(), "not in the middle of a packet");
    // SAFETY: the second segment is the packet's alone.
    unsafe { dpdk_sys::shim_pktmbuf_refcnt_update(other.as_ptr(), 1) };
    assert!(!head.is_private(), "every segment counts");
    // SAFETY: as above.
    unsafe { dpdk_sys::shim_pktmbuf_refcnt_update(other.as_ptr(), -1) };

    let mut copy = pool.alloc().expect("a buffer");
    assert!(copy.extend_from_slice(b"what was there before"));
    raw(&mut head).ol_flags = 1 << 7;
    assert!(head.copy_packet_to(&mut copy));
    assert_eq!(
        (copy.data(), copy.segments(), copy.rx_checksums().ip),
        (&b"first second"[..], 1, Verdict::Good)
    );
    let spare = copy.room();
    copy.append(spare).expect("all the room");
    let mut narrow = pool.alloc().expect("a buffer");
    narrow.append(100).expect("room");
    narrow.narrow(100, 0);
    assert!(
        !copy.copy_packet_to(&mut narrow) && narrow.packet_len() == 0,
        "too large"
    );
    assert!(
        !copy.copy_packet_to(&mut head),
        "a packet of two segments is no place for it"
    );

    let mut burst = Burst::<4>::new();
    burst.push(head);
    burst.push(copy);
    assert_eq!(pool.available(), 255 - 5);
    burst.clear();
    assert_eq!(pool.available(), 255 - 2, "both segments came back");
}

use super::super::trace;
use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn counts_buffers_that_live() {
    let before = HeapBuf::live();
    let first = HeapBuf::new(b"a");
    let second = HeapBuf::from_segments(&[b"b", b"c"]);
    assert_ne!(first.id(), second.id());
    assert_eq!(HeapBuf::live(), before + 2);
    drop(first);
    assert_eq!(HeapBuf::live(), before + 1);
    drop(vec![second]);
    assert_eq!(HeapBuf::live(), before);
}

#[test]
fn has_the_shape_of_an_mbuf() {
    let buf = HeapBuf::new(&[7; 100]);
    assert_eq!(
        (buf.headroom(), buf.data().len(), buf.tailroom()),
        (128, 100, 1948)
    );
    assert_eq!(
        (buf.segments(), buf.packet_len(), buf.is_private()),
        (1, 100, true)
    );
    assert_eq!(HeapBuf::new(&[0; 2048]).tailroom(), 0);
    assert!(!HeapBuf::new(b"x").shared().is_private());
}

#[test]
fn narrow_moves_the_window_and_copies_nothing() {
    let bytes: Vec<u8> = (0..200).collect();
    let mut buf = HeapBuf::new(&bytes);
    let first = buf.data().as_ptr().addr();
    buf.narrow(40, 100);
    assert_eq!(buf.data(), &bytes[40..140]);
    assert_eq!(buf.data().as_ptr().addr(), first + 40);
    assert_eq!((buf.headroom(), buf.tailroom()), (168, 2176 - 168 - 100));
    buf.data_mut()[0] = 0xff;
    buf.narrow(0, 0);
    assert_eq!((buf.packet_len(), buf.headroom()), (0, 168));
}

#[test]
fn narrow_refuses_what_is_outside_and_leaves_it_alone() {
    let mut buf = HeapBuf::new(&[1; 10]);
    for (front, len) in [(0, 11), (11, 0), (5, 6), (usize::MAX, 2)] {
        assert!(
            catch_unwind(AssertUnwindSafe(|| buf.narrow(front, len))).is_err(),
            "{front} {len}"
        );
    }
    assert_eq!((buf.data(), buf.headroom()), (&[1; 10][..], 128));
    let mut two = HeapBuf::from_segments(&[b"abc", b"d"]);
    assert!(catch_unwind(AssertUnwindSafe(|| two.narrow(0, 1))).is_err());
}

#[test]
fn data_is_the_first_segment_only() {
    let buf = HeapBuf::from_segments(&[b"abc", b"", b"defg"]);
    assert_eq!(
        (buf.data(), buf.segments(), buf.packet_len()),
        (&b"abc"[..], 3, 7)
    );
    assert_eq!(buf.to_vec(), b"abcdefg");
}

#[test]
fn data_lies_at_any_offset_asked_for() {
    for offset in 0..64 {
        let buf = HeapBuf::aligned(&[3; 2048], offset);
        assert_eq!(buf.data().as_ptr().addr() % 64, offset);
        assert_eq!(
            (buf.data(), buf.headroom(), buf.tailroom()),
            (&[3; 2048][..], 128, 0)
        );
    }
}

#[test]
fn restate_forgets_what_the_port_said() {
    let mut buf = HeapBuf::new(b"x")
        .checksums(Verdict::Good, Verdict::Bad)
        .offload(0x80)
        .stripped_vlan(5);
    assert_eq!(
        buf.rx_checksums(),
        RxChecksums {
            ip: Verdict::Good,
            l4: Verdict::Bad
        }
    );
    assert_eq!((buf.flags(), buf.vlan_tci(), buf.layout()), (0x80, 5, None));
    let layout = Layout {
        l2_len: 14,
        l3_len: 20,
        packet_type: 0x11,
    };
    buf.restate(layout);
    assert_eq!((buf.flags(), buf.vlan_tci(), buf.layout()), (0, 0, Some(layout)));
    assert_eq!(buf.rx_checksums(), RxChecksums::default());
}

#[test]
fn prefetches_are_seen_in_order_and_only_when_asked() {
    let (a, b) = (HeapBuf::new(b"a"), HeapBuf::new(b"b"));
    a.prefetch_write(0, 1);
    let ((), events) = trace::record(|| {
        b.prefetch_write(8, 99);
        a.prefetch();
        a.prefetch_write(0, 1);
    });
    let event = |buf: &HeapBuf, from, len| Event::PrefetchWrite {
        buffer: buf.id(),
        from,
        len,
    };
    assert_eq!(events, [event(&b, 8, 99), event(&a, 0, 1)]);
}

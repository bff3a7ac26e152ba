//! The packet path's accessors: no call into C.

use core::arch::asm;
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::slice;
use std::sync::atomic::Ordering;

use nf_path::buf::{Buf, Layout, RxChecksums, Unfinished, Verdict};

use super::{Mbuf, STORAGE};

/// Bytes of a cache line.
const LINE: usize = 64;

/// DPDK's two verdict bits as one of four.
#[inline(always)]
const fn verdict(flags: u64, mask: u64, bad: u64, good: u64) -> Verdict {
    match flags & mask {
        0 => Verdict::Unknown,
        f if f == bad => Verdict::Bad,
        f if f == good => Verdict::Good,
        _ => Verdict::None,
    }
}

/// Asks for the cache line of `at` for reading.
#[inline(always)]
fn prefetch_read(at: *const u8) {
    // SAFETY: a prefetch is a hint: it neither faults nor changes memory, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

/// Asks for write ownership of the cache line of `at`.
///
/// Written in assembly: the compiler lowers its own write hint to a plain prefetch unless the target CPU is declared
/// to have PRFCHW. CPUs without it take the instruction as a no-op.
#[inline(always)]
fn prefetch_own(at: *const u8) {
    // SAFETY: as above.
    unsafe { asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags)) };
}

/// Asks for write ownership of every cache line of `bytes`. Never changes a result.
#[inline(always)]
pub fn prefetch_write(bytes: &[u8]) {
    prefetch_lines(bytes.as_ptr(), bytes.len());
}

#[inline(always)]
fn prefetch_lines(first: *const u8, len: usize) {
    let end = first.wrapping_add(len) as usize;
    let mut line = first as usize & !(LINE - 1);
    while line < end {
        prefetch_own(line as *const u8);
        line += LINE;
    }
}

impl Buf for Mbuf {
    #[inline(always)]
    fn data(&self) -> &[u8] {
        let m = self.head();
        // SAFETY: DPDK keeps data_off + data_len within the segment's buffer, as do all methods here, and the bytes
        // are initialised memory of the pool.
        unsafe { slice::from_raw_parts(m.buf_addr.add(m.data_off as usize), m.data_len as usize) }
    }

    #[inline(always)]
    fn data_mut(&mut self) -> &mut [u8] {
        let m = self.head();
        // SAFETY: as for data; the borrow of `self` is exclusive, and nothing here makes a second reference to a
        // buffer. Whether DPDK made one (an indirect buffer) is what is_private tells, and callers ask it first.
        unsafe { slice::from_raw_parts_mut(m.buf_addr.add(m.data_off as usize), m.data_len as usize) }
    }

    #[inline]
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.segment_slices()
    }

    #[inline(always)]
    fn segments(&self) -> u16 {
        self.head().nb_segs
    }

    #[inline(always)]
    fn packet_len(&self) -> usize {
        self.head().pkt_len as usize
    }

    #[inline(always)]
    fn rx_state(&self) -> u64 {
        self.head().ol_flags & (dpdk_sys::SHIM_RX_IP_CKSUM_MASK | dpdk_sys::SHIM_RX_L4_CKSUM_MASK)
    }

    #[inline(always)]
    fn is_private(&self) -> bool {
        let head = self.head();
        // A single segment's second line, where `next` is, is left alone.
        let mut next = Some(head);
        while let Some(m) = next {
            if m.ol_flags & STORAGE != 0 || m.refcnt.load(Ordering::Relaxed) != 1 {
                return false;
            }
            if head.nb_segs == 1 {
                return true;
            }
            // SAFETY: null or the following segment, which this packet holds a reference to.
            next = unsafe { m.next.as_ref() };
        }
        true
    }

    #[inline(always)]
    fn rx_checksums(&self) -> RxChecksums {
        use dpdk_sys::*;
        let f = self.head().ol_flags;
        RxChecksums {
            ip: verdict(
                f,
                SHIM_RX_IP_CKSUM_MASK,
                SHIM_RX_IP_CKSUM_BAD,
                SHIM_RX_IP_CKSUM_GOOD,
            ),
            l4: verdict(
                f,
                SHIM_RX_L4_CKSUM_MASK,
                SHIM_RX_L4_CKSUM_BAD,
                SHIM_RX_L4_CKSUM_GOOD,
            ),
        }
    }

    #[inline]
    fn narrow(&mut self, front: usize, len: usize) {
        let m = self.head_mut();
        let inside = front
            .checked_add(len)
            .is_some_and(|end| end <= m.data_len as usize);
        assert!(
            inside && m.nb_segs == 1,
            "narrow: {front}+{len} of {} in {} segments",
            m.data_len,
            m.nb_segs
        );
        m.data_off += front as u16;
        m.data_len = len as u16;
        m.pkt_len = len as u32;
    }

    #[inline(always)]
    fn grow_front(&mut self, n: usize) -> bool {
        self.prepend(n).is_some()
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) -> bool {
        self.extend_from_slice(bytes)
    }

    #[inline(always)]
    fn unfinished(&self) -> Unfinished {
        use dpdk_sys::*;
        let m = self.head();
        // What net_virtio says of VIRTIO_NET_HDR_F_NEEDS_CSUM and of the GSO types: the second line is read for the latter only.
        let segment = if m.ol_flags & SHIM_RX_LRO == 0 {
            0
        } else {
            (m.tx_offload >> 24) as u16
        };
        let checksum = m.ol_flags & SHIM_RX_L4_CKSUM_MASK == SHIM_RX_L4_CKSUM_NONE;
        Unfinished { checksum, segment }
    }

    #[inline(always)]
    fn offload(&mut self, layout: Layout, v6: bool) {
        self.restate(layout);
        self.head_mut().ol_flags |= if v6 {
            dpdk_sys::SHIM_TX_IPV6 | dpdk_sys::SHIM_TX_UDP_CKSUM
        } else {
            dpdk_sys::SHIM_TX_IPV4 | dpdk_sys::SHIM_TX_IP_CKSUM | dpdk_sys::SHIM_TX_UDP_CKSUM
        };
    }

    #[inline]
    fn restate(&mut self, layout: Layout) {
        let m = self.head_mut();
        m.ol_flags &= STORAGE;
        m.packet_type = layout.packet_type;
        m.vlan_tci = 0;
        m.vlan_tci_outer = 0;
        m.hash = [0; 2];
        // l2_len has 7 bits, l3_len 9 (asserted in shim.c).
        m.tx_offload = (layout.l2_len & 0x7f) as u64 | ((layout.l3_len & 0x1ff) as u64) << 7;
    }

    #[inline(always)]
    fn prefetch(&self) {
        // Where data begin stands in the descriptor, which is what is being asked for: so the place is guessed at which
        // `rte_pktmbuf_pool_create` and the drivers put it. A wrong guess costs a line and nothing else.
        let first = self.0.as_ptr().cast::<u8>();
        prefetch_read(first);
        prefetch_read(
            first.wrapping_add(size_of::<dpdk_sys::RteMbuf>() + dpdk_sys::RTE_PKTMBUF_HEADROOM as usize),
        );
    }

    #[inline(always)]
    fn prefetch_write(&self, from: usize, len: usize) {
        // The descriptor's second line is written when the frame is restated, and read when it is freed.
        prefetch_own(self.0.as_ptr().cast::<u8>().wrapping_add(LINE));
        let m = self.head();
        let to = from.saturating_add(len).min(m.data_len as usize);
        if from >= to {
            return;
        }
        let data = m.buf_addr.wrapping_add(m.data_off as usize);
        prefetch_lines(data.wrapping_add(from), to - from);
    }
}

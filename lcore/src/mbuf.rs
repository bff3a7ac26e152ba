//! The packet buffer (`struct rte_mbuf`), owned.

mod access;

pub use access::prefetch_write;

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::slice;

use dpdk_sys::RteMbuf;
use nf_path::buf::Buf;

/// Bits of an mbuf's `ol_flags` that say where its bytes live; they decide how it is freed.
const STORAGE: u64 = dpdk_sys::SHIM_MBUF_INDIRECT | dpdk_sys::SHIM_MBUF_EXTERNAL;

/// A packet buffer that this value owns: not `Clone`, and dropping it gives all its segments back to their pools.
///
/// It may move between threads (`Send`): pools take buffers back from any thread, and only the owner touches the
/// fields. It is not `Sync`: drivers and DPDK's libraries change fields behind a pointer without asking.
///
/// ```compile_fail,E0599
/// fn twice(m: lcore::Mbuf) -> (lcore::Mbuf, lcore::Mbuf) {
///     (m.clone(), m)
/// }
/// ```
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<lcore::Mbuf>();
/// ```
#[repr(transparent)]
pub struct Mbuf(NonNull<RteMbuf>);

// SAFETY: see the type: one owner, and rte_mempool's put and get are safe from any thread.
unsafe impl Send for Mbuf {}

impl Mbuf {
    /// Takes over a buffer.
    ///
    /// # Safety
    /// `m` points to the first segment of a valid packet of which the caller gives up a reference, and its pool
    /// lives until it is back (which [`crate::Mempool`] sees to).
    #[inline(always)]
    pub const unsafe fn from_raw(m: NonNull<RteMbuf>) -> Mbuf {
        Mbuf(m)
    }

    /// Gives the buffer to whoever holds the pointer: it is freed only if they do.
    #[inline(always)]
    pub fn into_raw(self) -> NonNull<RteMbuf> {
        ManuallyDrop::new(self).0
    }

    /// The buffer's address, still owned by `self`; for calls into DPDK.
    #[inline(always)]
    pub const fn as_ptr(&self) -> *mut RteMbuf {
        self.0.as_ptr()
    }

    #[inline(always)]
    fn head(&self) -> &RteMbuf {
        // SAFETY: the Mbuf owns a valid rte_mbuf (from_raw's condition), and nothing changes it while it is borrowed.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    fn head_mut(&mut self) -> &mut RteMbuf {
        // SAFETY: as for head, and the borrow of `self` is exclusive.
        unsafe { self.0.as_mut() }
    }

    /// Bytes in front of the data, in the first segment.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.head().data_off as usize
    }

    /// Free bytes behind the data of the first segment.
    #[inline]
    pub fn room(&self) -> usize {
        let m = self.head();
        (m.buf_len as usize).saturating_sub(m.data_off as usize + m.data_len as usize)
    }

    /// Makes the packet `n` bytes longer at its end and gives the new bytes, whose content is whatever was there.
    /// `None`, and nothing changed, when the room is too small or there are more segments than one.
    #[inline]
    pub fn append(&mut self, n: usize) -> Option<&mut [u8]> {
        if n > self.room() || self.head().nb_segs != 1 {
            return None;
        }
        let m = self.head_mut();
        let from = m.data_len as usize;
        m.data_len += n as u16;
        m.pkt_len += n as u32;
        Some(&mut self.data_mut()[from..])
    }

    /// Makes the packet `n` bytes longer at its front and gives the new bytes, whose content is whatever was there.
    /// `None`, and nothing changed, when the headroom is too small.
    #[inline]
    pub fn prepend(&mut self, n: usize) -> Option<&mut [u8]> {
        let m = self.head_mut();
        if n > m.data_off as usize || n > (u16::MAX - m.data_len) as usize {
            return None;
        }
        m.data_off -= n as u16;
        m.data_len += n as u16;
        m.pkt_len += n as u32;
        Some(&mut self.data_mut()[..n])
    }

    /// Appends a copy of `bytes`; `false`, and nothing changed, when the room is too small.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) -> bool {
        self.append(bytes.len())
            .map(|to| to.copy_from_slice(bytes))
            .is_some()
    }

    /// The data of every segment, in order.
    pub fn segment_slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut next = Some(self.head());
        std::iter::from_fn(move || {
            let m = next?;
            // SAFETY: `next` is null or the following segment of this packet, which `self` owns and keeps unchanged
            // while it is borrowed; the data lie inside the segment's buffer.
            unsafe {
                next = m.next.as_ref();
                Some(slice::from_raw_parts(
                    m.buf_addr.add(m.data_off as usize),
                    m.data_len as usize,
                ))
            }
        })
    }

    /// Makes the first segment of `to` a copy of this whole packet, in place of what it had: how a packet of many
    /// segments becomes one of one. Flags, VLAN and checksum verdicts go with it. `false`, and an empty `to`, when
    /// it does not fit or `to` has more segments than one.
    pub fn copy_packet_to(&self, to: &mut Mbuf) -> bool {
        if to.head().nb_segs != 1 {
            return false;
        }
        to.narrow(0, 0);
        if self.packet_len() > to.room() {
            return false;
        }
        if !self.segment_slices().all(|bytes| to.extend_from_slice(bytes)) {
            to.narrow(0, 0);
            return false;
        }
        let from = self.head();
        let m = to.head_mut();
        m.ol_flags = from.ol_flags & !STORAGE | m.ol_flags & STORAGE;
        (m.port, m.packet_type, m.vlan_tci, m.vlan_tci_outer) =
            (from.port, from.packet_type, from.vlan_tci, from.vlan_tci_outer);
        (m.hash, m.tx_offload) = (from.hash, from.tx_offload);
        true
    }

    /// The port that received it.
    #[inline]
    pub fn port(&self) -> u16 {
        self.head().port
    }

    /// `RTE_MBUF_F_*` bits: what the receiving port found, or what the sending one is asked for.
    #[inline]
    pub fn flags(&self) -> u64 {
        self.head().ol_flags
    }

    /// The VLAN tag control information that the receiving port took out of the data, if it did.
    #[inline]
    pub fn stripped_vlan(&self) -> Option<u16> {
        let m = self.head();
        (m.ol_flags & dpdk_sys::SHIM_RX_VLAN_STRIPPED != 0).then_some(m.vlan_tci)
    }

    /// States the lengths of the outer headers, in bytes, for DPDK's IP reassembly.
    pub(crate) fn set_header_lens(&mut self, l2: usize, l3: usize) {
        self.head_mut().tx_offload = (l2 as u64 & 0x7f) | (l3 as u64 & 0x1ff) << 7;
    }

    /// Forgets the receiving port's checksum verdicts: they are unknown from now on.
    pub(crate) fn forget_checksums(&mut self) {
        let verdicts = dpdk_sys::SHIM_RX_IP_CKSUM_MASK | dpdk_sys::SHIM_RX_L4_CKSUM_MASK;
        self.head_mut().ol_flags &= !verdicts;
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the Mbuf owned a reference to the packet, and is gone after this.
        unsafe { dpdk_sys::shim_pktmbuf_free(self.0.as_ptr()) };
    }
}

impl std::fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // No packet bytes: they may be plaintext.
        let m = self.head();
        f.debug_struct("Mbuf")
            .field("pkt_len", &m.pkt_len)
            .field("nb_segs", &m.nb_segs)
            .finish()
    }
}

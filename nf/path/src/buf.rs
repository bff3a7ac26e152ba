//! The packet buffer, as every stage sees it. `lcore::Mbuf` is one, [`crate::twin::HeapBuf`] is the other.

/// What the receiving port says of a checksum (the four states of `RTE_MBUF_F_RX_IP_CKSUM_*` and
/// `RTE_MBUF_F_RX_L4_CKSUM_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// The port did not look.
    #[default]
    Unknown = 0,
    /// The port looked, and it is wrong.
    Bad = 1,
    /// The port looked, and it is right.
    Good = 2,
    /// The data carries no checksum that a port could check, yet the packet is intact.
    None = 3,
}

/// The receiving port's verdicts on the outer IP header checksum and on the UDP checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxChecksums {
    /// IPv4 header checksum.
    pub ip: Verdict,
    /// UDP checksum.
    pub l4: Verdict,
}

/// Header lengths and packet type that a finished frame is given, as DPDK defines `l2_len`, `l3_len` and
/// `packet_type` (`rte_mbuf_core.h`, `rte_mbuf_ptype.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of layer 2.
    pub l2_len: u8,
    /// Bytes of layer 3, without IPv6 extension headers.
    pub l3_len: u16,
    /// `RTE_PTYPE_*` bits.
    pub packet_type: u32,
}

/// What the sender on the other side of a port left undone, as its virtio-net header says (`VIRTIO_NET_HDR_F_NEEDS_CSUM`,
/// `VIRTIO_NET_HDR_GSO_*`; VIRTIO 1.2, 5.1.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// The TCP or UDP checksum field holds the sum over the pseudo-header only.
    pub checksum: bool,
    /// A TCP super-frame, to be cut into segments of this many payload bytes; 0: none.
    pub segment: u16,
}

/// An owned packet buffer: not `Clone`, and dropping it gives it back.
///
/// Offsets are bytes from the first byte of the frame; all data accessors but [`Buf::parts`] see the **first
/// segment** only, which is the whole packet for every buffer with `segments() == 1`.
pub trait Buf: Sized {
    /// The bytes of the first segment.
    fn data(&self) -> &[u8];
    /// The bytes of the first segment, for rewriting in place.
    fn data_mut(&mut self) -> &mut [u8];
    /// The bytes of every segment, in order.
    fn parts(&self) -> impl Iterator<Item = &[u8]>;
    /// Number of segments, at least 1.
    fn segments(&self) -> u16;
    /// Bytes in all segments together.
    fn packet_len(&self) -> usize;
    /// Whether nobody else sees these bytes: reference count one in every segment, neither indirect nor external.
    fn is_private(&self) -> bool;
    /// The receiving port's checksum verdicts.
    fn rx_checksums(&self) -> RxChecksums;
    /// The same as opaque bits, which are equal where the verdicts are.
    #[inline(always)]
    fn rx_state(&self) -> u64 {
        let seen = self.rx_checksums();
        seen.ip as u64 | (seen.l4 as u64) << 8
    }
    /// Makes `[front, front + len)` of the first segment the whole packet. The bytes outside become headroom and
    /// tailroom. Panics when the range is not inside the first segment or there is more than one segment.
    fn narrow(&mut self, front: usize, len: usize);
    /// Makes the packet `n` bytes longer at its front: headroom becomes data, whose content is whatever was there.
    /// False, and nothing changed, when the headroom is too small.
    fn grow_front(&mut self, n: usize) -> bool;
    /// Appends a copy of `bytes`. False, and nothing changed, when the room behind the data is too small or there is
    /// more than one segment.
    fn append(&mut self, bytes: &[u8]) -> bool;
    /// What the sender left undone.
    fn unfinished(&self) -> Unfinished;
    /// [`Buf::restate`], and asks the sending port for the IPv4 header checksum (not when `v6`) and the UDP checksum of
    /// the frame, whose field holds the pseudo-header's sum.
    fn offload(&mut self, layout: Layout, v6: bool);
    /// Forgets everything that was said of the frame that came in (offload flags, VLAN, segmentation size, hash)
    /// and states what it is now.
    fn restate(&mut self, layout: Layout);
    /// Asks for what parsing reads: the first line of the descriptor and the first line of data. Reads neither, and
    /// never changes a result.
    fn prefetch(&self);
    /// Asks for write ownership of the rest of the descriptor, and of every cache line that holds bytes
    /// `[from, from + len)` of the first segment
    /// (the linear part only). Never changes a result; a range that is not inside the
    /// segment is cut.
    fn prefetch_write(&self, from: usize, len: usize);
}

//! A packet buffer on the heap with the shape of `rte_mbuf`.

use std::cell::Cell;
use std::marker::PhantomData;

use super::trace::{Event, note};
use crate::buf::{Buf, Layout, RxChecksums, Unfinished, Verdict};

/// Bytes in front of the data of a fresh buffer (`RTE_PKTMBUF_HEADROOM`).
pub const HEADROOM: usize = 128;
/// Bytes of a buffer, headroom included (`RTE_MBUF_DEFAULT_BUF_SIZE`).
pub const BUF_LEN: usize = 2048 + HEADROOM;
const CACHE_LINE: usize = 64;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static NEXT_ID: Cell<u64> = const { Cell::new(1) };
}

/// One segment: memory with a window of data in it.
struct Segment {
    memory: Box<[u8]>,
    /// Where the buffer (headroom first) begins in `memory`; in front of it is slack for the alignment.
    base: usize,
    buf_len: usize,
    data_off: usize,
    data_len: usize,
}

impl Segment {
    /// A copy of `bytes` whose first byte lies at an address that is `offset` modulo the cache line.
    fn new(bytes: &[u8], headroom: usize, buf_len: usize, offset: usize) -> Self {
        assert!(
            headroom + bytes.len() <= buf_len,
            "{} bytes do not fit into a buffer of {buf_len}",
            bytes.len()
        );
        let mut memory = vec![0xa5; buf_len + CACHE_LINE].into_boxed_slice();
        let data_addr = memory.as_ptr().addr() + headroom;
        let base = (offset % CACHE_LINE + CACHE_LINE - data_addr % CACHE_LINE) % CACHE_LINE;
        memory[base + headroom..][..bytes.len()].copy_from_slice(bytes);
        Self {
            memory,
            base,
            buf_len,
            data_off: headroom,
            data_len: bytes.len(),
        }
    }

    fn data(&self) -> &[u8] {
        &self.memory[self.base + self.data_off..][..self.data_len]
    }
}

/// An owned packet buffer: not `Clone`, and counted while it lives.
///
/// A fresh one has [`HEADROOM`] bytes of headroom in [`BUF_LEN`] bytes, one segment, nobody else sharing it, unknown
/// checksums, no flags. Bytes that were never written are 0xa5. It stays on its thread, so that [`HeapBuf::live`] can
/// be trusted.
///
/// ```
/// let buf = nf_path::twin::HeapBuf::new(b"frame");
/// assert_eq!(nf_path::twin::HeapBuf::live(), 1);
/// ```
///
/// ```compile_fail,E0599
/// let buf = nf_path::twin::HeapBuf::new(b"frame");
/// let _ = buf.clone();
/// ```
///
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// send(nf_path::twin::HeapBuf::new(b"frame"));
/// ```
pub struct HeapBuf {
    id: u64,
    segments: Vec<Segment>,
    shared: bool,
    checksums: RxChecksums,
    unfinished: Unfinished,
    offloaded: bool,
    flags: u64,
    vlan_tci: u16,
    layout: Option<Layout>,
    thread: PhantomData<*const ()>,
}

impl HeapBuf {
    /// A buffer with a copy of `frame`, of at most [`BUF_LEN`] - [`HEADROOM`] bytes.
    pub fn new(frame: &[u8]) -> Self {
        Self::aligned(frame, 0)
    }

    /// As [`HeapBuf::new`], with the first byte of data at an address that is `offset` modulo 64.
    pub fn aligned(frame: &[u8], offset: usize) -> Self {
        Self::with(vec![Segment::new(frame, HEADROOM, BUF_LEN, offset)])
    }

    /// As [`HeapBuf::new`], in a buffer of `buf_len` bytes in all, `headroom` of them in front of the data.
    pub fn sized(frame: &[u8], headroom: usize, buf_len: usize) -> Self {
        Self::with(vec![Segment::new(frame, headroom, buf_len, 0)])
    }

    /// A packet in as many segments as `parts` has, which is at least one. As in a scattered packet, only the first
    /// has headroom.
    pub fn from_segments(parts: &[&[u8]]) -> Self {
        assert!(!parts.is_empty(), "a packet has at least one segment");
        let segment =
            |(i, part): (usize, &&[u8])| Segment::new(part, if i == 0 { HEADROOM } else { 0 }, BUF_LEN, 0);
        Self::with(parts.iter().enumerate().map(segment).collect())
    }

    fn with(segments: Vec<Segment>) -> Self {
        LIVE.set(LIVE.get() + 1);
        Self {
            id: NEXT_ID.replace(NEXT_ID.get() + 1),
            segments,
            shared: false,
            checksums: RxChecksums::default(),
            unfinished: Unfinished::default(),
            offloaded: false,
            flags: 0,
            vlan_tci: 0,
            layout: None,
            thread: PhantomData,
        }
    }

    /// The same buffer with these verdicts of the receiving port.
    pub fn checksums(mut self, ip: Verdict, l4: Verdict) -> Self {
        self.checksums = RxChecksums { ip, l4 };
        self
    }

    /// The same buffer as a sender left it that did not finish it: a checksum over the pseudo-header only, a segment size
    /// (0: none).
    pub fn unfinished_by(mut self, checksum: bool, segment: u16) -> Self {
        self.unfinished = Unfinished { checksum, segment };
        self
    }

    /// The same buffer with these offload flags (`ol_flags`).
    pub fn offload(mut self, flags: u64) -> Self {
        self.flags = flags;
        self
    }

    /// The same buffer with the tag that the port took off (`vlan_tci`).
    pub fn stripped_vlan(mut self, tci: u16) -> Self {
        self.vlan_tci = tci;
        self
    }

    /// The same buffer as if someone else held a reference to it.
    pub fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// Buffers of this thread that are alive. A test takes it at the start and compares at the end.
    pub fn live() -> usize {
        LIVE.get()
    }

    /// A number that no other buffer of this thread has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Bytes in front of the data of the first segment.
    pub fn headroom(&self) -> usize {
        self.segments[0].data_off
    }

    /// Bytes behind the data of the last segment.
    pub fn tailroom(&self) -> usize {
        let last = &self.segments[self.segments.len() - 1];
        last.buf_len - last.data_off - last.data_len
    }

    /// Offload flags; zero once restated.
    pub fn flags(&self) -> u64 {
        self.flags
    }

    /// The tag that the port took off; zero once restated.
    pub fn vlan_tci(&self) -> u16 {
        self.vlan_tci
    }

    /// Whether [`Buf::offload`] was the last to state what it is.
    pub fn is_offloaded(&self) -> bool {
        self.offloaded
    }

    /// What [`Buf::restate`] said last; `None` for a buffer as received.
    pub fn layout(&self) -> Option<Layout> {
        self.layout
    }

    /// A copy of the bytes of all segments.
    pub fn to_vec(&self) -> Vec<u8> {
        self.segments.iter().flat_map(Segment::data).copied().collect()
    }
}

impl Drop for HeapBuf {
    fn drop(&mut self) {
        LIVE.set(LIVE.get() - 1);
    }
}

impl Buf for HeapBuf {
    fn data(&self) -> &[u8] {
        self.segments[0].data()
    }

    fn data_mut(&mut self) -> &mut [u8] {
        let segment = &mut self.segments[0];
        &mut segment.memory[segment.base + segment.data_off..][..segment.data_len]
    }

    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.segments.iter().map(Segment::data)
    }

    fn segments(&self) -> u16 {
        u16::try_from(self.segments.len()).expect("rte_mbuf counts segments in 16 bits")
    }

    fn packet_len(&self) -> usize {
        self.segments.iter().map(|segment| segment.data_len).sum()
    }

    fn is_private(&self) -> bool {
        !self.shared
    }

    fn rx_checksums(&self) -> RxChecksums {
        self.checksums
    }

    fn narrow(&mut self, front: usize, len: usize) {
        assert_eq!(
            self.segments.len(),
            1,
            "narrow on {} segments",
            self.segments.len()
        );
        let segment = &mut self.segments[0];
        let inside = front.checked_add(len).is_some_and(|end| end <= segment.data_len);
        assert!(inside, "narrow to {len} bytes at {front} of {}", segment.data_len);
        segment.data_off += front;
        segment.data_len = len;
    }

    fn grow_front(&mut self, n: usize) -> bool {
        let segment = &mut self.segments[0];
        let fits = n <= segment.data_off;
        if fits {
            segment.data_off -= n;
            segment.data_len += n;
        }
        fits
    }

    fn append(&mut self, bytes: &[u8]) -> bool {
        let fits = self.segments.len() == 1 && bytes.len() <= self.tailroom();
        if fits {
            let segment = &mut self.segments[0];
            let end = segment.base + segment.data_off + segment.data_len;
            segment.memory[end..][..bytes.len()].copy_from_slice(bytes);
            segment.data_len += bytes.len();
        }
        fits
    }

    fn unfinished(&self) -> Unfinished {
        self.unfinished
    }

    fn offload(&mut self, layout: Layout, _v6: bool) {
        self.restate(layout);
        self.offloaded = true;
    }

    fn restate(&mut self, layout: Layout) {
        self.checksums = RxChecksums::default();
        self.unfinished = Unfinished::default();
        self.offloaded = false;
        self.flags = 0;
        self.vlan_tci = 0;
        self.layout = Some(layout);
    }

    fn prefetch(&self) {}

    fn prefetch_write(&self, from: usize, len: usize) {
        note(Event::PrefetchWrite {
            buffer: self.id,
            from,
            len,
        });
    }
}

impl std::fmt::Debug for HeapBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "HeapBuf {} ({} bytes in {})",
            self.id,
            self.packet_len(),
            self.segments.len()
        )
    }
}

#[cfg(test)]
#[path = "heap_tests.rs"]
mod tests;

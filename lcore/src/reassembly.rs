//! Packets in pieces: `rte_ip_frag` for fragments, and copies into large buffers for all that has several segments.

use std::ptr::NonNull;
use std::sync::Arc;

use nf_path::buf::Buf;
use nf_path::burst::Now;
use nf_path::fragments::{Fragments, Reassembly};
use nf_wire::checksum;
use nf_wire::ether;
use nf_wire::frame::Fragment;

use crate::{Eal, Error, Mbuf, Mempool};

/// The most datagrams in reassembly at one time, of at most 8 fragments each (`RTE_LIBRTE_IP_FRAG_MAX_FRAG`).
pub const MAX_DATAGRAMS: u32 = 1024;
/// How long the fragments of a datagram may take, in milliseconds.
pub const TIMEOUT_MS: u64 = 2000;
/// Fragments that one datagram may have here: DPDK's compiled-in limit.
pub const MAX_FRAGMENTS: u32 = 8;

/// Associativity of the table's buckets.
const BUCKET_ENTRIES: u32 = 16;
/// Bytes of a fragment header of IPv6.
const FRAGMENT_LEN: usize = nf_wire::ipv6::FRAGMENT_LEN;

/// Reassembly of one lcore. `!Send`: its table has no lock.
pub struct IpFrag {
    table: NonNull<dpdk_sys::rte_ip_frag_tbl>,
    /// Buffers of which DPDK wants to be rid; empty between calls.
    death_row: Box<dpdk_sys::rte_ip_frag_death_row>,
    large: Arc<Mempool>,
    small: Arc<Mempool>,
    /// Largest IP packet that leaves for the host port in one piece.
    mtu: usize,
    /// Identification of the IPv6 datagram that was completed last, to fragment it again.
    ipv6_id: [u8; 4],
}

impl IpFrag {
    /// A table on the caller's NUMA node. `large` takes whole datagrams and scattered packets; fragments that are
    /// made again, at most `mtu` bytes of IP, come from `small`.
    pub fn new(eal: &Eal, large: Arc<Mempool>, small: Arc<Mempool>, mtu: u16) -> Result<IpFrag, Error> {
        let cycles = eal.tsc_hz() / 1000 * TIMEOUT_MS;
        // SAFETY: EAL is up (witness `eal`); no pointer is passed.
        let table = unsafe {
            let node = dpdk_sys::rte_socket_id() as i32;
            dpdk_sys::rte_ip_frag_table_create(MAX_DATAGRAMS, BUCKET_ENTRIES, MAX_DATAGRAMS, cycles, node)
        };
        let table = NonNull::new(table).ok_or(Error::Fragments)?;
        // SAFETY: all zero is an empty death row.
        let death_row: Box<dpdk_sys::rte_ip_frag_death_row> = Box::new(unsafe { std::mem::zeroed() });
        Ok(IpFrag {
            table,
            death_row,
            large,
            small,
            mtu: usize::from(mtu),
            ipv6_id: [0; 4],
        })
    }

    /// Frees what is on the death row: how many buffers that were.
    fn bury(&mut self) -> u32 {
        let dead = self.death_row.cnt;
        if dead > 0 {
            // SAFETY: the row holds `cnt` buffers that its owner gave up, and is reset by the call.
            unsafe { dpdk_sys::rte_ip_frag_free_death_row(&mut *self.death_row, 0) };
        }
        dead
    }

    /// The fragment's bytes up to the end of its IP packet, with the header lengths that `rte_ip_frag` reads.
    fn prepare(&self, mut fragment: Mbuf, at: &Fragment) -> Mbuf {
        let (l3, data) = (usize::from(at.l3), usize::from(at.data));
        let whole = fragment.data().len().min(l3 + usize::from(at.ip_len));
        fragment.narrow(0, whole);
        // For IPv6 the "l3" that is taken off later fragments includes the fragment header.
        fragment.set_header_lens(l3, data - l3);
        fragment
    }

    /// Copies the completed datagram into one large buffer and mends what DPDK leaves to its caller.
    fn whole(&mut self, chain: Mbuf, at: &Fragment) -> Reassembly<Mbuf> {
        let segments = u32::from(chain.segments());
        let Some(mut whole) = self.large.alloc() else {
            return Reassembly::TooLarge(segments);
        };
        if !chain.copy_packet_to(&mut whole) {
            return Reassembly::TooLarge(segments);
        }
        // The first fragment's checksum verdicts say nothing of the whole.
        whole.forget_checksums();
        if !at.outer.is_v6() {
            let header = &mut whole.data_mut()[usize::from(at.l3)..usize::from(at.data)];
            set_ipv4_checksum(header);
        }
        Reassembly::Whole(whole)
    }
}

fn set_ipv4_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = !checksum::fold(checksum::sum(header));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

impl Fragments<Mbuf> for IpFrag {
    fn reassemble(&mut self, fragment: Mbuf, at: &Fragment, now: Now) -> Reassembly<Mbuf> {
        // DPDK reassembles only what has its fragment header right behind the IPv6 header.
        if fragment.segments() != 1 || !fragment.is_private() || !at.plain {
            return Reassembly::Refused(1);
        }
        let mut fragment = self.prepare(fragment, at);
        let bytes = fragment.data_mut();
        if at.outer.is_v6() {
            let id = &bytes[usize::from(at.data) - 4..usize::from(at.data)];
            self.ipv6_id.copy_from_slice(id);
        }
        let l3 = bytes[usize::from(at.l3)..].as_mut_ptr();
        let data =
            bytes[usize::from(at.data) - if at.outer.is_v6() { FRAGMENT_LEN } else { 0 }..].as_mut_ptr();
        let (table, row, raw) = (
            self.table.as_ptr(),
            &mut *self.death_row,
            fragment.into_raw().as_ptr().cast(),
        );
        // SAFETY: table and row are this value's own. The call takes the buffer over: it comes back as the result,
        // waits in the table, or is on the death row. The headers lie in its first segment, which parsing checked.
        let result = unsafe {
            if at.outer.is_v6() {
                dpdk_sys::rte_ipv6_frag_reassemble_packet(table, row, raw, now.cycles, l3.cast(), data.cast())
            } else {
                dpdk_sys::rte_ipv4_frag_reassemble_packet(table, row, raw, now.cycles, l3.cast())
            }
        };
        let dead = self.bury();
        match NonNull::new(result) {
            Some(chain) => {
                // SAFETY: a completed datagram, given to the caller.
                let chain = unsafe { Mbuf::from_raw(chain.cast()) };
                self.whole(chain, at)
            }
            None if dead > 0 => Reassembly::Refused(dead),
            None => Reassembly::Pending,
        }
    }

    fn expire(&mut self, now: Now) -> u32 {
        let mut lost = 0;
        loop {
            // SAFETY: table and row are this value's own; a full row is left for the next call.
            unsafe {
                let row = &mut *self.death_row;
                dpdk_sys::rte_ip_frag_table_del_expired_entries(self.table.as_ptr(), row, now.cycles);
            }
            match self.bury() {
                0 => return lost,
                n => lost += n,
            }
        }
    }

    fn refragment(&mut self, whole: Mbuf, sink: &mut dyn FnMut(Mbuf)) -> bool {
        match Pieces::of(whole.data(), self.mtu, self.ipv6_id) {
            Some(pieces) => pieces.make(&self.small, sink),
            None => false,
        }
    }

    fn linearise(&mut self, scattered: Mbuf) -> Result<Mbuf, Mbuf> {
        let Some(mut one) = self.large.alloc() else {
            return Err(scattered);
        };
        if scattered.copy_packet_to(&mut one) {
            Ok(one)
        } else {
            Err(scattered)
        }
    }
}

impl Drop for IpFrag {
    fn drop(&mut self) {
        self.bury();
        // SAFETY: the table is this value's own; the buffers that wait in it go back to their pool, which lives as
        // long as `small` and the ports that filled it.
        unsafe { dpdk_sys::rte_ip_frag_table_destroy(self.table.as_ptr()) };
    }
}

/// A frame to be cut into fragments.
struct Pieces<'f> {
    /// Ethernet and IP headers, without the IPv6 fragment header.
    headers: &'f [u8],
    l3: usize,
    payload: &'f [u8],
    /// Payload bytes of every fragment but the last: a multiple of 8.
    step: usize,
    v6_id: Option<[u8; 4]>,
}

impl<'f> Pieces<'f> {
    /// None when the frame is not IPv4 or IPv6, or has IPv6 extension headers.
    fn of(frame: &'f [u8], mtu: usize, ipv6_id: [u8; 4]) -> Option<Self> {
        let (ether_type, l3, _) = ether::layer3(frame)?;
        let (header, v6_id) = match ether_type {
            ether::IPV4 => (usize::from(frame.get(l3)? & 0xf) * 4, None),
            ether::IPV6 => (nf_wire::ipv6::HEADER_LEN, Some(ipv6_id)),
            _ => return None,
        };
        let room = mtu.checked_sub(header + if v6_id.is_some() { FRAGMENT_LEN } else { 0 })?;
        let step = room / 8 * 8;
        let (headers, payload) = frame.split_at_checked(l3 + header)?;
        (step > 0).then_some(Pieces {
            headers,
            l3,
            payload,
            step,
            v6_id,
        })
    }

    /// Makes all fragments, or none when buffers run out.
    fn make(&self, pool: &Mempool, sink: &mut dyn FnMut(Mbuf)) -> bool {
        let mut made = crate::Burst::<64>::new();
        for (i, part) in self.payload.chunks(self.step).enumerate() {
            let offset = i * self.step;
            let more = offset + part.len() < self.payload.len();
            let Some(mut m) = pool.alloc() else { return false };
            if made.is_full() || !self.piece(&mut m, part, offset as u16, more) {
                return false;
            }
            made.push(m);
        }
        made.take().into_iter().for_each(sink);
        true
    }

    fn piece(&self, m: &mut Mbuf, part: &[u8], offset: u16, more: bool) -> bool {
        if !m.extend_from_slice(self.headers) {
            return false;
        }
        let ip = self.l3;
        match self.v6_id {
            Some(id) => {
                let len = (FRAGMENT_LEN + part.len()) as u16;
                let header = &mut m.data_mut()[ip..];
                header[4..6].copy_from_slice(&len.to_be_bytes());
                let next = std::mem::replace(&mut header[6], 44);
                let [high, low] = (offset | u16::from(more)).to_be_bytes();
                m.extend_from_slice(&[next, 0, high, low, id[0], id[1], id[2], id[3]])
                    && m.extend_from_slice(part)
            }
            None => {
                let header = &mut m.data_mut()[ip..];
                let len = (header.len() + part.len()) as u16;
                header[2..4].copy_from_slice(&len.to_be_bytes());
                let flags = (offset / 8) | if more { 0x2000 } else { 0 };
                header[6..8].copy_from_slice(&flags.to_be_bytes());
                set_ipv4_checksum(header);
                m.extend_from_slice(part)
            }
        }
    }
}

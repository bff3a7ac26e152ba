//! Packets in pieces: `rte_ip_frag` for fragments, and copies into large buffers for all that has several segments.

use std::ptr::NonNull;
use std::sync::Arc;

use nf_path::buf::Buf;
use nf_path::buffers::Buffers;
use nf_path::burst::Now;
use nf_path::fragments::{Fragments, Reassembly};
use nf_path::outbound::fragment;
use nf_wire::checksum;
use nf_wire::ether;
use nf_wire::frame::Fragment;

use crate::buffers::Pools;
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
    pools: Pools,
    /// Largest IP packet that leaves for the host port in one piece.
    mtu: usize,
    /// Identification of the IPv6 datagram that was completed last, to fragment it again.
    ipv6_id: u32,
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
            pools: Pools::new(small, large),
            mtu: usize::from(mtu),
            ipv6_id: 0,
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
        let Some(mut whole) = self.pools.large.alloc() else {
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
            let id = bytes[..usize::from(at.data)].last_chunk();
            self.ipv6_id = id.map_or(0, |id| u32::from_be_bytes(*id));
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
        let Some((_, l2_len, _)) = ether::layer3(whole.data()) else {
            return false;
        };
        // Copies even where one piece is enough: large buffers are few, and ports keep what they send for a while.
        fragment::copies(whole, l2_len, self.mtu, self.ipv6_id, &mut self.pools, sink).is_ok()
    }

    fn linearise(&mut self, scattered: Mbuf) -> Result<Mbuf, Mbuf> {
        self.pools.linearise(scattered)
    }
}

impl Drop for IpFrag {
    fn drop(&mut self) {
        self.bury();
        // SAFETY: the table is this value's own; the buffers that wait in it go back to their pool, which lives as
        // long as `pools` and the ports that filled it.
        unsafe { dpdk_sys::rte_ip_frag_table_destroy(self.table.as_ptr()) };
    }
}

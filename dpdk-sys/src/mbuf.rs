//! A view of `struct rte_mbuf` (`rte_mbuf_core.h`) with the fields that the fast path touches.
//!
//! bindgen cannot be used here: the packet path must read and write the fields without a call into C. `shim.h`
//! states each offset once; `shim.c` asserts them of DPDK's struct and this file asserts them of its own, both when
//! compiled, so a DPDK with another layout fails to build instead of corrupting packets.

use core::ffi::c_void;
use core::mem::offset_of;
use core::sync::atomic::AtomicU16;

use crate::bindings as b;

/// `struct rte_mbuf`: 128 bytes in two cache lines.
#[repr(C, align(64))]
pub struct RteMbuf {
    /// First byte of this segment's buffer (headroom included).
    pub buf_addr: *mut u8,
    /// IO address of the buffer.
    pub buf_iova: u64,
    /// Bytes from `buf_addr` to the data: the headroom.
    pub data_off: u16,
    /// How many own this segment.
    pub refcnt: AtomicU16,
    /// Segments of the packet; valid in the first one.
    pub nb_segs: u16,
    /// Port that received it.
    pub port: u16,
    /// `RTE_MBUF_F_*` bits.
    pub ol_flags: u64,
    /// `RTE_PTYPE_*` bits.
    pub packet_type: u32,
    /// Bytes in all segments; valid in the first one.
    pub pkt_len: u32,
    /// Bytes of data in this segment.
    pub data_len: u16,
    /// VLAN tag control information in host order.
    pub vlan_tci: u16,
    /// RSS hash, flow director id and the like.
    pub hash: [u32; 2],
    /// Outer VLAN tag control information in host order.
    pub vlan_tci_outer: u16,
    /// Bytes of this segment's buffer.
    pub buf_len: u16,
    /// The pool that it goes back to.
    pub pool: *mut b::rte_mempool,
    /// The next segment, or null. First field of the second cache line.
    pub next: *mut RteMbuf,
    /// Header lengths and segment size: `l2_len` in bits 0 to 6, `l3_len` in 7 to 15, `l4_len` in 16 to 23,
    /// `tso_segsz` in 24 to 39.
    pub tx_offload: u64,
    /// Shared data of an external buffer.
    pub shinfo: *mut c_void,
    /// Bytes of application data between this struct and the buffer.
    pub priv_size: u16,
    /// IEEE 1588 flags.
    pub timesync: u16,
    /// Dynamic fields.
    pub dynfield1: [u32; 9],
}

macro_rules! at {
    ($($field:ident = $offset:ident,)*) => {
        $(const _: () = assert!(offset_of!(RteMbuf, $field) == b::$offset as usize);)*
    };
}

const _: () = assert!(size_of::<RteMbuf>() == b::SHIM_MBUF_SIZE as usize);
at! {
    buf_addr = SHIM_MBUF_BUF_ADDR,
    data_off = SHIM_MBUF_DATA_OFF,
    refcnt = SHIM_MBUF_REFCNT,
    nb_segs = SHIM_MBUF_NB_SEGS,
    port = SHIM_MBUF_PORT,
    ol_flags = SHIM_MBUF_OL_FLAGS,
    packet_type = SHIM_MBUF_PACKET_TYPE,
    pkt_len = SHIM_MBUF_PKT_LEN,
    data_len = SHIM_MBUF_DATA_LEN,
    vlan_tci = SHIM_MBUF_VLAN_TCI,
    hash = SHIM_MBUF_HASH,
    vlan_tci_outer = SHIM_MBUF_VLAN_TCI_OUTER,
    buf_len = SHIM_MBUF_BUF_LEN,
    pool = SHIM_MBUF_POOL,
    next = SHIM_MBUF_NEXT,
    tx_offload = SHIM_MBUF_TX_OFFLOAD,
    shinfo = SHIM_MBUF_SHINFO,
    priv_size = SHIM_MBUF_PRIV_SIZE,
}

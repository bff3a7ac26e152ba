//! What is bound from DPDK (22.11 to 25.11): an allowlist by bindgen, a C shim for the static inline calls
//! (`shim_*`), and [`RteMbuf`], a view of the packet buffer. Names and meaning are DPDK's: see its API documentation.

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unused_qualifications,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod bindings {
    use crate::mbuf::RteMbuf as rte_mbuf;
    include!(concat!(env!("OUT_DIR"), "/dpdk.rs"));
}
mod mbuf;

pub use bindings::*;
pub use mbuf::RteMbuf;

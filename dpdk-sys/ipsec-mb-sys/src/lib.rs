//! The functions of Intel's Multi-Buffer Crypto for IPsec library (IPsec-MB, 1.3 or later) in use: making a manager,
//! and the function pointers in it (`IMB_MGR`) that are its direct calls. Names and meaning are the library's: see
//! `intel-ipsec-mb.h`.

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
    include!(concat!(env!("OUT_DIR"), "/ipsec_mb.rs"));
}

pub use bindings::*;

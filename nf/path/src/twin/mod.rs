//! Twins for tests: what DPDK and IPsec-MB give in production, in plain memory and plain Rust.
//!
//! - [`HeapBuf`] is a packet buffer with the shape of `rte_mbuf` (headroom, data, tailroom, segments), on the heap;
//! - [`SoftAead`] opens and seals records with RustCrypto;
//! - [`craft`] builds the frames and records that go in;
//! - [`trace`] shows in which order a stage prefetched and opened.
//!
//! Only built with the feature `twin`. Arguments that make no sense panic: the caller is a test.

pub mod craft;
mod heap;
mod soft;
pub mod trace;

pub use heap::{BUF_LEN, HEADROOM, HeapBuf};
pub use soft::{SoftAead, SoftKey};

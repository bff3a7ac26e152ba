//! The caches' state before a round.

use lcore::{Mbuf, Mempool};
use nf_path::buf::Buf;
use std::sync::Arc;

/// The cache lines of a pool, walked to bring the caches to a stated state. Buffers first: they go back to the pool.
pub struct Walk {
    buffers: Vec<Mbuf>,
    _pool: Arc<Mempool>,
}

impl Walk {
    /// Holds every buffer of a pool.
    pub fn new(pool: Arc<Mempool>) -> Self {
        let mut buffers: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc()).collect();
        for buf in &mut buffers {
            let room = buf.room();
            buf.append(room);
        }
        Walk { buffers, _pool: pool }
    }

    /// Reads and writes one byte of every line.
    pub fn walk(&mut self) {
        for buf in &mut self.buffers {
            for line in buf.data_mut().chunks_mut(64) {
                line[0] = line[0].wrapping_add(1);
            }
        }
    }
}

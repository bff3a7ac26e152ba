//! Buffers that the packet path asks for, out of two pools.

use std::sync::Arc;

use nf_path::buffers::Buffers;

use crate::{Mbuf, Mempool};

/// The pool of ordinary buffers and that of large ones.
#[derive(Clone, Debug)]
pub struct Pools {
    /// Ordinary buffers: 2 KB behind their headroom.
    pub small: Arc<Mempool>,
    /// Large buffers: room for whole datagrams and for packets of several segments.
    pub large: Arc<Mempool>,
}

impl Pools {
    /// `small` has 2 KB behind the headroom of its buffers; `large` has room for whole datagrams and for
    /// packets of several segments.
    pub fn new(small: Arc<Mempool>, large: Arc<Mempool>) -> Pools {
        Pools { small, large }
    }

    /// Both, for what is said of each.
    pub fn all(&self) -> Vec<Arc<Mempool>> {
        vec![self.small.clone(), self.large.clone()]
    }
}

impl Buffers<Mbuf> for Pools {
    #[inline]
    fn small(&mut self) -> Option<Mbuf> {
        self.small.alloc()
    }

    /// What the receiving port said of the packet goes with it ([`Mbuf::copy_packet_to`]).
    fn linearise(&mut self, scattered: Mbuf) -> Result<Mbuf, Mbuf> {
        let one = self
            .large
            .alloc()
            .and_then(|mut one| scattered.copy_packet_to(&mut one).then_some(one));
        one.ok_or(scattered)
    }
}

//! A burst of packet buffers.

use std::ops::{Deref, DerefMut};

use arrayvec::ArrayVec;

use crate::Mbuf;

/// Up to `N` packet buffers in order, without a heap: an [`ArrayVec`] whose buffers go back in one bulk call
/// (`rte_pktmbuf_free_bulk`) when it is cleared or dropped.
#[derive(Default, Debug)]
pub struct Burst<const N: usize = 256>(ArrayVec<Mbuf, N>);

/// Gives all buffers back in one bulk call.
#[inline]
pub(crate) fn free<const N: usize>(buffers: &mut ArrayVec<Mbuf, N>) {
    let n = buffers.len();
    if n > 0 {
        // SAFETY: an Mbuf is a pointer to an rte_mbuf that it owns; the length is set to 0 first, so none is freed
        // twice whatever happens.
        unsafe {
            buffers.set_len(0);
            dpdk_sys::rte_pktmbuf_free_bulk(buffers.as_mut_ptr().cast(), n as u32);
        }
    }
}

impl<const N: usize> Burst<N> {
    /// An empty burst.
    #[inline]
    pub const fn new() -> Self {
        Burst(ArrayVec::new_const())
    }

    /// Gives all buffers back in one bulk call.
    #[inline]
    pub fn clear(&mut self) {
        free(&mut self.0);
    }

    /// Takes the buffers out as an [`ArrayVec`], which frees them one by one when dropped.
    #[inline]
    pub fn take(&mut self) -> ArrayVec<Mbuf, N> {
        self.0.take()
    }
}

impl<const N: usize> Deref for Burst<N> {
    type Target = ArrayVec<Mbuf, N>;
    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<const N: usize> DerefMut for Burst<N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<const N: usize> Drop for Burst<N> {
    fn drop(&mut self) {
        self.clear();
    }
}

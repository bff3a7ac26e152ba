//! Pools of packet buffers (`rte_mempool`, `rte_pktmbuf_pool_create`).

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::{Error, rte_errno_text};
use arrayvec::ArrayVec;

use crate::{Eal, Mbuf};

/// A pool of packet buffers of one size. Buffers may be taken and given back by any thread; EAL lcores and workers do
/// it through a cache of their own.
///
/// The pool is freed with the last handle **if all its buffers are back**. If some are still out (held by a value
/// that outlives the handle), memory and EAL are left in place until the process ends, so an [`Mbuf`] never points
/// into freed memory; a warning says so.
pub struct Mempool {
    pool: NonNull<dpdk_sys::rte_mempool>,
    eal: Option<Eal>,
    name: String,
}

// SAFETY: pools made by rte_pktmbuf_pool_create use the default handler, which is safe for many producers and many
// consumers, and per-lcore caches that are touched by their own lcore only; the other fields never change.
unsafe impl Send for Mempool {}
// SAFETY: as above.
unsafe impl Sync for Mempool {}

impl Mempool {
    /// Makes a pool of `count` buffers. `cache` is the number that each lcore may keep to itself (0 to 512), `room` the
    /// bytes of each buffer with its headroom of 128, `socket` the NUMA node or -1 for any.
    pub fn new(
        eal: &Eal,
        name: &str,
        count: u32,
        cache: u32,
        room: u16,
        socket: i32,
    ) -> Result<Arc<Mempool>, Error> {
        let fail = |reason: String| Error::Mempool {
            name: name.into(),
            count,
            room,
            reason,
        };
        let c_name = CString::new(name).map_err(|_| fail("its name holds a NUL byte".into()))?;
        if count == 0 {
            return Err(fail("no buffers asked for".into()));
        }
        // SAFETY: the EAL is up (`eal`), the name is a C string; bad numbers give null and rte_errno.
        let pool =
            unsafe { dpdk_sys::rte_pktmbuf_pool_create(c_name.as_ptr(), count, cache, 0, room, socket) };
        let pool = NonNull::new(pool).ok_or_else(|| fail(rte_errno_text()))?;
        Ok(Arc::new(Mempool {
            pool,
            eal: Some(eal.clone()),
            name: name.into(),
        }))
    }

    /// Buffers that are in the pool or in a cache of it (`rte_mempool_avail_count`): exact while nobody moves any.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives as long as `self`.
        unsafe { dpdk_sys::rte_mempool_avail_count(self.pool.as_ptr()) }
    }

    /// Buffers in all.
    pub fn capacity(&self) -> u32 {
        // SAFETY: the pool lives as long as `self`.
        unsafe { dpdk_sys::shim_mempool_capacity(self.pool.as_ptr()) }
    }

    /// Bytes that one buffer takes in memory: header, descriptor, room, trailer.
    pub fn element_size(&self) -> usize {
        // SAFETY: the pool lives as long as `self`.
        unsafe { dpdk_sys::shim_mempool_element_size(self.pool.as_ptr()) as usize }
    }

    /// Bytes of room per buffer, headroom included.
    pub fn room(&self) -> usize {
        // SAFETY: the pool lives as long as `self`.
        unsafe { dpdk_sys::shim_pktmbuf_data_room_size(self.pool.as_ptr()) as usize }
    }

    /// The name it was made with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One empty buffer with 128 bytes of headroom, or `None` when the pool is empty.
    pub fn alloc(&self) -> Option<Mbuf> {
        // SAFETY: the pool lives as long as `self`.
        let m = unsafe { dpdk_sys::shim_pktmbuf_alloc(self.pool.as_ptr()) };
        // SAFETY: a buffer fresh from its pool has one owner, which becomes the Mbuf.
        NonNull::new(m).map(|m| unsafe { Mbuf::from_raw(m) })
    }

    /// Appends `n` empty buffers to `burst`: all or, when the pool or the burst has too few places, none and `false`.
    pub fn alloc_bulk<const N: usize>(&self, burst: &mut ArrayVec<Mbuf, N>, n: usize) -> bool {
        if n > burst.remaining_capacity() {
            return false;
        }
        let len = burst.len();
        // SAFETY: there are `n` free places behind the last element, an Mbuf is a pointer to an rte_mbuf, and the call
        // fills all or none of them, each with a buffer that has one owner.
        unsafe {
            let free = burst.as_mut_ptr().add(len).cast();
            if dpdk_sys::shim_pktmbuf_alloc_bulk(self.pool.as_ptr(), free, n as u32) != 0 {
                return false;
            }
            burst.set_len(len + n);
        }
        true
    }

    /// The pool, for calls that this crate makes.
    pub(crate) fn as_ptr(&self) -> *mut dpdk_sys::rte_mempool {
        self.pool.as_ptr()
    }
}

impl Drop for Mempool {
    fn drop(&mut self) {
        let (available, capacity) = (self.available(), self.capacity());
        if available == capacity {
            // SAFETY: every buffer is back, this was the last handle, and ports hold a handle as long as they may
            // take buffers, so nobody uses the pool any more.
            unsafe { dpdk_sys::rte_mempool_free(self.pool.as_ptr()) };
        } else {
            // Leaking the handle keeps rte_eal_cleanup from unmapping what those buffers are in.
            std::mem::forget(self.eal.take());
            tracing::warn!(
                "mempool {}: {} buffers are still out; it stays in place",
                self.name,
                capacity - available.min(capacity)
            );
        }
    }
}

impl std::fmt::Debug for Mempool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mempool")
            .field("name", &self.name)
            .field("available", &self.available())
            .finish()
    }
}

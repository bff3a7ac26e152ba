//! A port whose wire is a ring in memory (`rte_eth_from_ring`): what is sent comes back, and what the program puts in
//! arrives.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::{Error, errno_text, rte_errno_text};
use arrayvec::ArrayVec;

use crate::{Burst, Eal, Mbuf, Port};

/// `rte_ring` of packet buffers. Empties itself into the buffers' pools when dropped.
pub(crate) struct Ring {
    ring: NonNull<dpdk_sys::rte_ring>,
    _eal: Eal,
}

// SAFETY: the ring is made for many producers and many consumers, and its buffers may move between threads (Mbuf).
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// A port on a ring, with the program's own end of it: prefilled traffic for measurements, loops for tests.
#[derive(Debug)]
pub struct RingPort {
    port: Port,
    ring: Arc<Ring>,
}

impl RingPort {
    /// Makes a ring of `capacity` places or a little more (rounded up to a power of two less one), and a port on it with one queue
    /// each way.
    pub fn new(eal: &Eal, name: &str, capacity: u32) -> Result<RingPort, Error> {
        let fail = |reason: String| Error::Ring {
            name: name.into(),
            capacity,
            reason,
        };
        let size = capacity.checked_add(1).and_then(u32::checked_next_power_of_two);
        let size = size.ok_or_else(|| fail("too large".into()))?;
        let c_name = CString::new(name).map_err(|_| fail("its name holds a NUL byte".into()))?;
        // SAFETY: a C string; the EAL is up. Flags 0: many producers, many consumers.
        let ring = unsafe { dpdk_sys::rte_ring_create(c_name.as_ptr(), size, -1, 0) };
        let ring = NonNull::new(ring).ok_or_else(|| fail(rte_errno_text()))?;
        let ring = Arc::new(Ring {
            ring,
            _eal: eal.clone(),
        });
        // SAFETY: the ring is valid, and the port keeps it until it is closed.
        let id = unsafe { dpdk_sys::rte_eth_from_ring(ring.ring.as_ptr()) };
        let id = u16::try_from(id).map_err(|_| fail(errno_text(id)))?;
        let port = Port::of_ring(eal, id, ring.clone())?;
        Ok(RingPort { port, ring })
    }

    /// The port, to be started and polled like any other.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Puts packets in, as if they came from the wire: takes from the front of the burst what there is room for and
    /// leaves the rest, in order. Returns how many went in.
    pub fn fill<const N: usize>(&mut self, burst: &mut ArrayVec<Mbuf, N>) -> usize {
        let len = burst.len();
        // SAFETY: an Mbuf is a pointer to an rte_mbuf that it owns; the ring takes over the first `put` of them, so they are
        // moved out of the burst: its length is 0 while the rest moves to the front.
        unsafe {
            let first = burst.as_mut_ptr();
            let put =
                dpdk_sys::shim_ring_enqueue_burst(self.ring.ring.as_ptr(), first.cast(), len as u32) as usize;
            burst.set_len(0);
            if put < len {
                std::ptr::copy(first.add(put), first, len - put);
            }
            burst.set_len(len - put);
            put
        }
    }

    /// Packets that wait in the ring.
    pub fn len(&self) -> usize {
        // SAFETY: the ring lives as long as `self`.
        unsafe { dpdk_sys::shim_ring_count(self.ring.ring.as_ptr()) as usize }
    }

    /// Whether the ring is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends packets from the ring to `burst`, as many as it has places for. Returns how many.
    pub fn take<const N: usize>(&mut self, burst: &mut ArrayVec<Mbuf, N>) -> usize {
        self.ring.take(burst)
    }

    /// Gives back all packets in the ring. Returns how many there were.
    pub fn drain(&mut self) -> usize {
        self.ring.drain()
    }
}

impl Drop for RingPort {
    fn drop(&mut self) {
        // Before the port lets go of its pool, so that the pool has all its buffers back.
        self.ring.drain();
    }
}

impl Ring {
    fn take<const N: usize>(&self, burst: &mut ArrayVec<Mbuf, N>) -> usize {
        let (len, want) = (burst.len(), burst.remaining_capacity());
        // SAFETY: `want` places are free behind the last element; an Mbuf is a pointer to an rte_mbuf; everything in the
        // ring was put there by its owner, who gave it up.
        unsafe {
            let free = burst.as_mut_ptr().add(len).cast();
            let got = dpdk_sys::shim_ring_dequeue_burst(self.ring.as_ptr(), free, want as u32) as usize;
            burst.set_len(len + got);
            got
        }
    }

    fn drain(&self) -> usize {
        let mut burst = Burst::<256>::new();
        let mut sum = 0;
        while self.take(&mut burst) > 0 {
            sum += burst.len();
            burst.clear();
        }
        sum
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({:p})", self.ring)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.drain();
        // SAFETY: the last handle: the port on it, which holds one, is closed.
        unsafe { dpdk_sys::rte_ring_free(self.ring.as_ptr()) };
    }
}

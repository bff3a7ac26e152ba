//! Receive and transmit queues of a port, each with one owner.

use std::fmt;
use std::sync::Arc;

use arrayvec::ArrayVec;

use crate::Mbuf;
use crate::port::Inner;

/// A receive queue. It has one owner, who may be another thread than the one that configured the port (`Send`), and
/// it keeps the port open.
///
/// ```compile_fail,E0599
/// fn two_owners(q: lcore::RxQueue) -> (lcore::RxQueue, lcore::RxQueue) {
///     (q.clone(), q)
/// }
/// ```
pub struct RxQueue {
    pub(crate) port: Arc<Inner>,
    pub(crate) queue: u16,
}

impl RxQueue {
    /// Appends up to `max` received packets to `burst`, as many as it has places for (`rte_eth_rx_burst`). Returns how many
    /// came.
    #[inline]
    pub fn recv<const N: usize>(&mut self, burst: &mut ArrayVec<Mbuf, N>, max: usize) -> usize {
        let want = max.min(burst.remaining_capacity()).min(u16::MAX as usize);
        let len = burst.len();
        // SAFETY: `want` places are free behind the last element; an Mbuf is a pointer to an rte_mbuf; the driver
        // writes at most `want` of them and hands over a reference to each. The port is started as long as `self.port`
        // lives, and `&mut self` of a queue handed out once keeps others off it.
        unsafe {
            let free = burst.as_mut_ptr().add(len).cast();
            let got = dpdk_sys::shim_rx_burst(self.port.id, self.queue, free, want as u16) as usize;
            burst.set_len(len + got);
            got
        }
    }

    /// The DPDK number of its port.
    pub fn port_id(&self) -> u16 {
        self.port.id
    }

    /// Its number.
    pub fn index(&self) -> u16 {
        self.queue
    }
}

impl fmt::Debug for RxQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RxQueue({}:{})", self.port.name, self.queue)
    }
}

/// A transmit queue. It has one owner, who may be another thread than the one that configured the port (`Send`), and
/// it keeps the port open.
///
/// ```compile_fail,E0599
/// fn two_owners(q: lcore::TxQueue) -> (lcore::TxQueue, lcore::TxQueue) {
///     (q.clone(), q)
/// }
/// ```
///
/// What was sent is no longer there:
///
/// ```compile_fail,E0382
/// use nf_path::buf::Buf;
/// fn after(q: &mut lcore::TxQueue, m: lcore::Mbuf) -> usize {
///     let mut burst = lcore::Burst::<4>::new();
///     burst.push(m);
///     q.send(&mut burst);
///     m.packet_len()
/// }
/// ```
pub struct TxQueue {
    pub(crate) port: Arc<Inner>,
    pub(crate) queue: u16,
}

impl TxQueue {
    /// Offers the burst to the driver once (`rte_eth_tx_burst`). What it took leaves the burst at its front; the rest stays,
    /// in order, with the caller. Returns how many were taken.
    #[inline]
    pub fn send<const N: usize>(&mut self, burst: &mut ArrayVec<Mbuf, N>) -> usize {
        let len = burst.len();
        let offered = len.min(u16::MAX as usize);
        // SAFETY: an Mbuf is a pointer to an rte_mbuf that it owns; the driver takes over the first `sent` of them,
        // so they are moved out of the burst: its length is 0 while the rest moves to the front. The port is
        // started as long as `self.port` lives, and `&mut self` of a queue handed out once keeps others off it.
        unsafe {
            let first = burst.as_mut_ptr();
            let sent =
                dpdk_sys::shim_tx_burst(self.port.id, self.queue, first.cast(), offered as u16) as usize;
            burst.set_len(0);
            if sent < len {
                std::ptr::copy(first.add(sent), first, len - sent);
            }
            burst.set_len(len - sent);
            sent
        }
    }

    /// The DPDK number of its port.
    pub fn port_id(&self) -> u16 {
        self.port.id
    }

    /// Its number.
    pub fn index(&self) -> u16 {
        self.queue
    }
}

impl fmt::Debug for TxQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TxQueue({}:{})", self.port.name, self.queue)
    }
}

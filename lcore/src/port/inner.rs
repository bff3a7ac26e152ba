//! What a port and its queues share.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::Capabilities;
use crate::error::{Error, errno_text};
use crate::ring::Ring;
use crate::{Eal, Mempool};

/// Ports that a [`Port`] exists for.
static TAKEN: [AtomicBool; dpdk_sys::SHIM_MAX_ETHPORTS as usize] =
    [const { AtomicBool::new(false) }; dpdk_sys::SHIM_MAX_ETHPORTS as usize];

/// What a port is, shared with its queues.
pub(crate) struct Inner {
    pub(crate) id: u16,
    pub(crate) name: String,
    /// The device to remove after closing, when it was made here.
    vdev: Option<CString>,
    /// Taken for configuring calls, which DPDK wants one at a time per port; holds the pools that the driver was
    /// given and may take buffers from until the port is closed.
    pub(super) control: Mutex<Vec<Arc<Mempool>>>,
    pub(super) started: OnceLock<Started>,
    /// What the driver's vdev reads and writes; gone only after the port is closed (fields drop after `drop`).
    ring: Option<Arc<Ring>>,
    _eal: Eal,
}

/// What is fixed when a port is started.
pub(super) struct Started {
    pub(super) enabled: Capabilities,
    pub(super) rx_taken: Vec<AtomicBool>,
    pub(super) tx_taken: Vec<AtomicBool>,
}

impl Started {
    pub(super) fn with(enabled: Capabilities) -> Started {
        let flags = |n: u16| (0..n).map(|_| AtomicBool::new(false)).collect();
        Started {
            enabled,
            rx_taken: flags(enabled.rx_queues),
            tx_taken: flags(enabled.tx_queues),
        }
    }
}

impl Inner {
    /// Takes the port, which nobody else here may have.
    pub(super) fn claim(
        eal: &Eal,
        id: u16,
        name: &str,
        vdev: Option<CString>,
        ring: Option<Arc<Ring>>,
    ) -> Result<Inner, Error> {
        let taken = TAKEN.get(id as usize).ok_or_else(|| Error::NoPort(name.into()))?;
        if taken.swap(true, Ordering::SeqCst) {
            return Err(Error::PortTaken(name.into()));
        }
        let (control, started) = (Mutex::default(), OnceLock::new());
        Ok(Inner {
            id,
            name: name.into(),
            vdev,
            control,
            started,
            ring,
            _eal: eal.clone(),
        })
    }

    pub(super) fn started(&self) -> Result<&Started, Error> {
        self.started.get().ok_or_else(|| self.state("is not started"))
    }

    pub(super) fn state(&self, what: &'static str) -> Error {
        Error::PortState {
            port: self.name.clone(),
            what,
        }
    }

    pub(super) fn take(
        &self,
        direction: &'static str,
        index: u16,
        taken: &[AtomicBool],
    ) -> Result<(), Error> {
        let port = || self.name.clone();
        let count = taken.len() as u16;
        let flag = taken.get(index as usize).ok_or_else(|| Error::NoQueue {
            port: port(),
            direction,
            index,
            count,
        })?;
        if flag.swap(true, Ordering::SeqCst) {
            return Err(Error::QueueTaken {
                port: port(),
                direction,
                index,
            });
        }
        Ok(())
    }

    pub(super) fn check(&self, call: &'static str, code: i32) -> Result<(), Error> {
        if code < 0 {
            return Err(Error::Port {
                port: self.name.clone(),
                call,
                reason: errno_text(code),
            });
        }
        Ok(())
    }

    pub(super) fn info(&self) -> Result<dpdk_sys::rte_eth_dev_info, Error> {
        let mut info = MaybeUninit::<dpdk_sys::rte_eth_dev_info>::zeroed();
        // SAFETY: a place for the answer.
        self.check("rte_eth_dev_info_get", unsafe {
            dpdk_sys::rte_eth_dev_info_get(self.id, info.as_mut_ptr())
        })?;
        // SAFETY: zeroed is a valid rte_eth_dev_info (integers and pointers), and DPDK filled it.
        Ok(unsafe { info.assume_init() })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: the last handle is gone, and with it every queue, so nobody polls the port. Stopping a port that was
        // never started is allowed.
        unsafe {
            if self.started.get().is_some() {
                dpdk_sys::rte_eth_dev_stop(self.id);
            }
            dpdk_sys::rte_eth_dev_close(self.id);
            if let Some(name) = &self.vdev {
                dpdk_sys::rte_eal_hotplug_remove(c"vdev".as_ptr(), name.as_ptr());
            }
        }
        if let Some(taken) = TAKEN.get(self.id as usize) {
            taken.store(false, Ordering::SeqCst);
        }
        drop(self.ring.take());
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner")
            .field("id", &self.id)
            .field("name", &self.name)
            .finish()
    }
}

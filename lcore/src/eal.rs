//! DPDK's environment abstraction layer (EAL): memory, devices, logical cores.

use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::affinity::CpuSet;
use crate::error::{Error, rte_errno_text};
use crate::logging;

static STARTED: AtomicBool = AtomicBool::new(false);

/// A started EAL. Clones are handles to the same one.
///
/// Everything made of EAL memory (mempools, ports, rings, workers) holds a clone, so `rte_eal_cleanup` runs when the
/// last of them is gone and never under one of them.
#[derive(Clone)]
pub struct Eal(Arc<Inner>);

struct Inner {
    caller: CpuSet,
    consumed: usize,
}

impl Eal {
    /// Starts the EAL (`rte_eal_init`) with the calling thread as its main lcore. `args` are EAL arguments without a
    /// program name. Works once per process, whether it succeeds or not. DPDK's log goes to `tracing` from here on
    /// (see [`logging::install`]).
    ///
    /// The EAL pins the calling thread to one CPU, which every thread started later inherits:
    /// [`Eal::unpin_caller`] undoes that.
    pub fn init(args: &[String]) -> Result<Eal, Error> {
        let mut words = vec![c"ovpn-dpdk".to_owned()];
        for a in args {
            words.push(CString::new(a.as_str()).map_err(|_| Error::EalArgument(a.clone()))?);
        }
        let caller = CpuSet::current()?;
        logging::install()?;
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(Error::EalTwice);
        }
        // The EAL reorders the array and keeps pointers into the words for the life of the process.
        let mut argv: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
        let count = argv.len() as c_int;
        argv.push(std::ptr::null_mut());
        // SAFETY: argv is a NUL-terminated array of `count` writable C strings, all leaked on purpose; STARTED makes
        // this the only call.
        let code = unsafe { dpdk_sys::rte_eal_init(count, argv.leak().as_mut_ptr()) };
        if code < 0 {
            let reason = rte_errno_text();
            let _ = caller.apply();
            return Err(Error::EalInit {
                reason,
                last: logging::last_line(),
            });
        }
        Ok(Eal(Arc::new(Inner {
            caller,
            consumed: code as usize,
        })))
    }

    /// How many words of argv the EAL took, the program name included (the return value of `rte_eal_init`).
    pub fn consumed(&self) -> usize {
        self.0.consumed
    }

    /// The CPUs that the caller of [`Eal::init`] could run on before.
    pub fn caller_affinity(&self) -> CpuSet {
        self.0.caller
    }

    /// Lets the calling thread run where the caller of [`Eal::init`] could before, so that logging, metrics and
    /// control threads, which inherit this, are not bound to the main lcore's CPU.
    pub fn unpin_caller(&self) -> Result<(), Error> {
        self.0.caller.apply()
    }

    /// Whether memory comes from hugepages (`rte_eal_has_hugepages`).
    pub fn hugepages(&self) -> bool {
        // SAFETY: the EAL is up as long as `self` lives.
        unsafe { dpdk_sys::rte_eal_has_hugepages() != 0 }
    }

    /// Bytes of the largest page that the EAL has memory in.
    pub fn page_size(&self) -> u64 {
        // SAFETY: the EAL is up as long as `self` lives.
        unsafe { dpdk_sys::shim_page_size() }
    }

    /// TSC cycles per second (`rte_get_tsc_hz`).
    pub fn tsc_hz(&self) -> u64 {
        // SAFETY: the EAL is up as long as `self` lives.
        unsafe { dpdk_sys::rte_get_tsc_hz() }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: everything that uses EAL memory holds a clone of the handle, so nothing is left.
        let code = unsafe { dpdk_sys::rte_eal_cleanup() };
        if code != 0 {
            tracing::warn!(target: "dpdk", "rte_eal_cleanup: {}", crate::error::errno_text(code));
        }
    }
}

/// DPDK's version, such as "DPDK 22.11.11" (`rte_version`).
pub fn version() -> String {
    // SAFETY: rte_version returns a NUL-terminated string that lives for ever.
    unsafe { std::ffi::CStr::from_ptr(dpdk_sys::rte_version()) }
        .to_string_lossy()
        .into_owned()
}

/// The time stamp counter, in cycles. Not serialising.
#[inline(always)]
pub fn cycles() -> u64 {
    // SAFETY: RDTSC exists on every x86-64.
    unsafe { core::arch::x86_64::_rdtsc() }
}

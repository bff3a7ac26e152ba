//! Which CPUs a thread may run on (`sched_getaffinity(2)`, `sched_setaffinity(2)`), and telling threads apart from it.

use std::io;
use std::mem::{self, MaybeUninit};

use crate::Error;

/// A set of CPUs.
#[derive(Clone, Copy)]
pub struct CpuSet(libc::cpu_set_t);

impl CpuSet {
    /// The CPUs that the calling thread may run on.
    pub fn current() -> Result<CpuSet, Error> {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
        // SAFETY: the kernel writes at most the given size into `set`; 0 is the calling thread.
        let code = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()) };
        if code != 0 {
            return Err(Error::Affinity {
                what: "this thread".into(),
                source: io::Error::last_os_error(),
            });
        }
        // SAFETY: zeroed is a valid cpu_set_t, and the kernel wrote the rest.
        Ok(CpuSet(unsafe { set.assume_init() }))
    }

    /// The set of one CPU. A CPU number above what a set holds gives the empty set, which [`CpuSet::apply`] refuses.
    pub fn one(cpu: usize) -> CpuSet {
        // SAFETY: cpu_set_t is a plain bit array, for which zero is the empty set.
        let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
        if cpu < libc::CPU_SETSIZE as usize {
            // SAFETY: `cpu` is inside the array.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        CpuSet(set)
    }

    /// Lets the calling thread run on these CPUs only.
    pub fn apply(&self) -> Result<(), Error> {
        // SAFETY: the kernel reads the given size from the set; 0 is the calling thread.
        let code = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.0) };
        if code != 0 {
            return Err(Error::Affinity {
                what: format!("CPUs {:?}", self.cpus()),
                source: io::Error::last_os_error(),
            });
        }
        Ok(())
    }

    /// The CPU numbers in the set, ascending.
    pub fn cpus(&self) -> Vec<usize> {
        // SAFETY: every number asked for is inside the array.
        (0..libc::CPU_SETSIZE as usize)
            .filter(|&c| unsafe { libc::CPU_ISSET(c, &self.0) })
            .collect()
    }
}

impl std::fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.cpus()).finish()
    }
}

//! Keeping keys out of core dumps.

use crate::Error;

/// Forbids core dumps of this process and reading its memory by others (`prctl(PR_SET_DUMPABLE, 0)`, and a core size
/// limit of zero). Keys live in its memory, and a dump outlives them.
pub fn forbid_core_dumps() -> Result<(), Error> {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a valid struct that is only read, and plain numbers.
    let failed = unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &none) != 0 || libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) != 0
    };
    if failed {
        return Err(Error::CoreDumps(std::io::Error::last_os_error()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_process_is_not_dumpable_afterwards() {
        super::forbid_core_dumps().unwrap();
        // SAFETY: plain numbers.
        assert_eq!(unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) }, 0);
    }
}

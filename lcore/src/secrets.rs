//! Keeping keys out of core dumps.

use crate::Error;

/// Sets the core size limit to zero (`setrlimit(RLIMIT_CORE)`): for before the first key is read, when the EAL, which
/// reads files of this process that [`forbid_core_dumps`] closes to others than root, is not up yet.
pub fn forbid_core_files() -> Result<(), Error> {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a valid struct that is only read.
    done(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) })
}

/// Forbids core dumps of this process and reading its memory by others (`prctl(PR_SET_DUMPABLE, 0)`, and a core size
/// limit of zero). Keys live in its memory, and a dump outlives them.
pub fn forbid_core_dumps() -> Result<(), Error> {
    forbid_core_files()?;
    // SAFETY: plain numbers.
    done(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) })
}

fn done(code: libc::c_int) -> Result<(), Error> {
    match code {
        0 => Ok(()),
        _ => Err(Error::CoreDumps(std::io::Error::last_os_error())),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_process_is_not_dumpable_afterwards() {
        super::forbid_core_dumps().unwrap();
        // SAFETY: plain numbers.
        assert_eq!(unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) }, 0);
        let mut limit = libc::rlimit {
            rlim_cur: 1,
            rlim_max: 1,
        };
        // SAFETY: a place for the answer.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_CORE, &mut limit) }, 0);
        assert_eq!((limit.rlim_cur, limit.rlim_max), (0, 0));
    }
}

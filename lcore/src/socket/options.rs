//! Options of sockets that rustix has no function for, or none that allows all that the kernel says.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::Credentials;

/// Most groups that a process can be in (`NGROUPS_MAX`).
const GROUPS: usize = 65_536;

/// Reads an option of level `SOL_SOCKET` that is 32-bit words. Returns how many there were.
fn words(fd: BorrowedFd<'_>, option: libc::c_int, words: &mut [u32]) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(size_of_val(words)).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: getsockopt writes at most `length` bytes to where `words` is, which has that many, and any bits are a u32.
    let code = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            words.as_mut_ptr().cast(),
            &mut length,
        )
    };
    match code {
        0 => Ok(length as usize / size_of::<u32>()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Who connected (`SO_PEERCRED`, unix(7)). The process id is 0 for a process of another PID namespace.
pub(super) fn credentials(fd: BorrowedFd<'_>) -> io::Result<Credentials> {
    // struct ucred: pid, uid, gid.
    let mut ucred = [0; 3];
    words(fd, libc::SO_PEERCRED, &mut ucred)?;
    let [pid, uid, gid] = ucred;
    Ok(Credentials { pid, uid, gid })
}

/// Whether who connected was in that group besides its own (`SO_PEERGROUPS`, Linux 4.13).
pub(super) fn is_in_group(fd: BorrowedFd<'_>, group: u32) -> bool {
    let mut groups = vec![0; 64];
    loop {
        match words(fd, libc::SO_PEERGROUPS, &mut groups) {
            Ok(count) => return groups[..count].contains(&group),
            Err(e) if e.raw_os_error() == Some(libc::ERANGE) && groups.len() < GROUPS => {
                groups.resize(groups.len() * 4, 0);
            }
            Err(_) => return false,
        }
    }
}

/// The mark of what a socket sends (`SO_MARK`, socket(7)); 0 if it has none.
pub(super) fn mark(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut mark = [0];
    words(fd, libc::SO_MARK, &mut mark)?;
    Ok(mark[0])
}

//! The scattered bytes of a `struct msghdr`.

use libc::{iovec, msghdr};

/// The parts of a message.
///
/// # Safety
/// `msg_iov` is null or points to `msg_iovlen` entries that outlive the result, as sendmsg(2) and recvmsg(2) demand.
pub unsafe fn parts(message: &msghdr) -> &[iovec] {
    if message.msg_iov.is_null() {
        return &[];
    }
    // SAFETY: the caller upholds it.
    unsafe { std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) }
}

/// The bytes of all parts together.
pub fn length(parts: &[iovec]) -> usize {
    parts.iter().fold(0, |sum, part| part.iov_len.saturating_add(sum))
}

/// Copies the start of a message into `into`; how many bytes.
///
/// # Safety
/// Each part points to `iov_len` readable bytes.
pub unsafe fn gather(parts: &[iovec], into: &mut [u8]) -> usize {
    let mut done = 0;
    for part in parts {
        let room = into.get_mut(done..).unwrap_or_default();
        let count = part.iov_len.min(room.len());
        if count == 0 {
            continue;
        }
        // SAFETY: count bytes are readable there (caller) and writable here (the slice); a caller's buffer cannot
        // overlap a local one.
        unsafe { std::ptr::copy_nonoverlapping(part.iov_base.cast(), room.as_mut_ptr(), count) };
        done += count;
    }
    done
}

/// Copies `from` into the parts of a message; how many bytes there was room for.
///
/// # Safety
/// Each part points to `iov_len` writable bytes.
pub unsafe fn scatter(parts: &[iovec], from: &[u8]) -> usize {
    let mut done = 0;
    for part in parts {
        let left = from.get(done..).unwrap_or_default();
        let count = part.iov_len.min(left.len());
        if count == 0 {
            continue;
        }
        // SAFETY: count bytes are writable there (caller) and readable here (the slice); they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(left.as_ptr(), part.iov_base.cast(), count) };
        done += count;
    }
    done
}

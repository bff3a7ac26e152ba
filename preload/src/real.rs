//! The real calls, as raw system calls: the C library's functions of these names are replaced by this library's own, in
//! this library too. Errors are errno values.

use std::time::{Duration, Instant};

use libc::{c_int, c_long, c_void, msghdr, sockaddr, socklen_t};

/// What a call gives: its result, or an errno value.
pub type Result<T> = std::result::Result<T, c_int>;

/// The calling thread's errno.
pub fn errno() -> c_int {
    // SAFETY: the C library's errno location is valid for the calling thread as long as it lives.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's errno.
pub fn set_errno(value: c_int) {
    // SAFETY: as in errno().
    unsafe { *libc::__errno_location() = value }
}

fn check(result: c_long) -> Result<usize> {
    usize::try_from(result).map_err(|_| errno())
}

fn descriptor(result: c_long) -> Result<c_int> {
    c_int::try_from(check(result)?).map_err(|_| libc::EBADF)
}

/// socket(2).
pub fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int> {
    // SAFETY: takes no pointers.
    descriptor(unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) })
}

/// close(2).
pub fn close(fd: c_int) -> Result<usize> {
    // SAFETY: takes no pointers; who calls owns the descriptor, or passes on what the daemon asked for.
    check(unsafe { libc::syscall(libc::SYS_close, fd) })
}

/// bind(2).
///
/// # Safety
/// `address` is null or points to `len` readable bytes.
pub unsafe fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> Result<usize> {
    // SAFETY: the caller upholds what the kernel reads.
    check(unsafe { libc::syscall(libc::SYS_bind, fd, address, len) })
}

/// getsockname(2).
///
/// # Safety
/// `len` is null or writable, and `address` null or writable for `*len` bytes.
pub unsafe fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> Result<usize> {
    // SAFETY: the caller upholds what the kernel writes.
    check(unsafe { libc::syscall(libc::SYS_getsockname, fd, address, len) })
}

/// setsockopt(2).
///
/// # Safety
/// `value` is null or points to `len` readable bytes.
pub unsafe fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Result<usize> {
    // SAFETY: the caller upholds what the kernel reads.
    check(unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, value, len) })
}

/// sendmsg(2).
///
/// # Safety
/// `message` is null or points to a header whose pointers are null or readable for the lengths beside them.
pub unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> Result<usize> {
    // SAFETY: the caller upholds what the kernel reads.
    check(unsafe { libc::syscall(libc::SYS_sendmsg, fd, message, flags) })
}

/// recvmsg(2).
///
/// # Safety
/// `message` is null or points to a header whose pointers are null or writable for the lengths beside them.
pub unsafe fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> Result<usize> {
    // SAFETY: the caller upholds what the kernel writes.
    check(unsafe { libc::syscall(libc::SYS_recvmsg, fd, message, flags) })
}

/// Waits until `fd` can be read or written (POLLIN, POLLOUT), is hung up, or the time has come. An interrupted wait goes
/// on.
///
/// # Errors
/// ETIME: the time has come. Else what poll(2) says.
pub fn wait(fd: c_int, events: libc::c_short, until: Instant) -> Result<()> {
    let mut poll = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = c_int::try_from(left.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: one pollfd, which lives on this stack.
        match unsafe { libc::poll(&raw mut poll, 1, left) } {
            0 => return Err(libc::ETIME),
            1.. => return Ok(()),
            _ if errno() == libc::EINTR => {}
            _ => return Err(errno()),
        }
    }
}

/// Sends one packet whole, waiting until `until` for room. No SIGPIPE.
///
/// # Errors
/// ENODEV: there is nobody at the other end, or no room in time. Else what sendmsg(2) says.
///
/// # Safety
/// As [`sendmsg`].
pub unsafe fn transmit(fd: c_int, message: &msghdr, until: Instant) -> Result<usize> {
    loop {
        // SAFETY: the caller upholds it.
        match unsafe { sendmsg(fd, message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) } {
            Err(libc::EINTR) => {}
            Err(libc::EAGAIN) => wait(fd, libc::POLLOUT, until).map_err(|_| libc::ENODEV)?,
            Err(libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN) => return Err(libc::ENODEV),
            done => return done,
        }
    }
}

/// The inode of the socket behind `fd`: what tells it from another one that got its number. None: no socket.
pub fn inode(fd: c_int) -> Option<u64> {
    // SAFETY: struct stat consists of integers, for which zero is a value.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the status is written into this stack's variable.
    let done = unsafe { libc::fstat(fd, &raw mut status) };
    (done == 0 && status.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(status.st_ino)
}

/// A message header of these parts of one packet, without name and control data. Read only: what it points to is taken
/// as const by [`sendmsg`].
pub fn packet(parts: &[libc::iovec]) -> msghdr {
    // SAFETY: struct msghdr consists of integers and pointers, for which zero is a value.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_ptr().cast_mut();
    message.msg_iovlen = parts.len();
    message
}

/// These bytes as a part of a packet that is sent.
pub fn part(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

/// When a wait of this many seconds ends.
pub fn deadline(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

/// Waits for so many milliseconds, or until a signal comes.
pub fn pause(milliseconds: c_int) {
    // SAFETY: no descriptors.
    unsafe { libc::poll(std::ptr::null_mut(), 0, milliseconds) };
}

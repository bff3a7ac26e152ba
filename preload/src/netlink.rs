//! The addresses of netlink sockets (netlink(7)).

use libc::{c_int, msghdr, sockaddr, sockaddr_nl, socklen_t};

use crate::real;
use crate::table::Entry;

const LEN: usize = size_of::<sockaddr_nl>();

fn address(port: u32) -> sockaddr_nl {
    // SAFETY: struct sockaddr_nl consists of integers, for which zero is a value.
    let mut address: sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as u16;
    address.nl_pid = port;
    address
}

/// Copies an address out as the kernel does: as much as there is room for; the whole length.
///
/// # Safety
/// `to` is writable for `room` bytes.
unsafe fn copy(address: &sockaddr_nl, to: *mut u8, room: usize) -> socklen_t {
    // SAFETY: no more than is there and than there is room for; the address is this library's own.
    unsafe { std::ptr::copy_nonoverlapping((&raw const *address).cast(), to, room.min(LEN)) };
    LEN as socklen_t
}

/// What recvmsg(2) says besides a message: it comes from the kernel (port id 0), without control data.
///
/// # Safety
/// `msg_name` is null or writable for `msg_namelen` bytes.
pub unsafe fn name(message: &mut msghdr) {
    if !message.msg_name.is_null() {
        // SAFETY: the caller upholds it.
        message.msg_namelen =
            unsafe { copy(&address(0), message.msg_name.cast(), message.msg_namelen as usize) };
    }
    message.msg_controllen = 0;
}

/// bind(2): the port id is stored. 0 is "any", which is the process id.
///
/// # Errors
/// EINVAL: not a netlink address.
///
/// # Safety
/// `from` is null or points to `len` readable bytes.
pub unsafe fn bind(entry: &Entry, from: *const sockaddr, len: socklen_t) -> real::Result<usize> {
    if from.is_null() {
        return Err(libc::EFAULT);
    }
    if (len as usize) < LEN {
        return Err(libc::EINVAL);
    }
    // SAFETY: that many bytes are readable, at any alignment.
    let address = unsafe { from.cast::<sockaddr_nl>().read_unaligned() };
    if c_int::from(address.nl_family) != libc::AF_NETLINK {
        return Err(libc::EINVAL);
    }
    // SAFETY: takes no pointers.
    let own = unsafe { libc::getpid() }.cast_unsigned();
    entry.set_port(if address.nl_pid == 0 { own } else { address.nl_pid });
    Ok(0)
}

/// getsockname(2).
///
/// # Errors
/// EFAULT: null.
///
/// # Safety
/// `len` is null or writable, and `to` null or writable for `*len` bytes.
pub unsafe fn getsockname(entry: &Entry, to: *mut sockaddr, len: *mut socklen_t) -> real::Result<usize> {
    // SAFETY: the caller upholds it.
    let Some(len) = (unsafe { len.as_mut() }) else {
        return Err(libc::EFAULT);
    };
    if to.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: the caller upholds it.
    *len = unsafe { copy(&address(entry.port()), to.cast(), *len as usize) };
    Ok(0)
}

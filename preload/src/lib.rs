//! Takes the stock OpenVPN daemon's netlink to ovpn-dpdk.
//!
//! A library for LD_PRELOAD that puts itself in front of seven functions of the C library. With the variable
//! [`ovpn_dco_protocol::SOCKET_VARIABLE`] set when it is loaded, the daemon's generic-netlink sockets are connections to
//! the gateway's socket, and its rtnetlink messages about the making and removing of an interface go there first.
//! Without the variable, without a gateway, and for every other descriptor, the functions do what they always do.
//!
//! There is no policy here: what the gateway answers is what the daemon gets. No allocation, no log, no panic. One
//! difference remains for every descriptor: the seven functions are raw system calls, and so no cancellation points of
//! pthread_cancel(3).

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("control messages are laid out as 64-bit Linux has them");

mod filter;
mod generic;
mod lifeline;
mod lock;
mod message;
mod netlink;
mod real;
mod route;
mod scattered;
mod table;

use std::ffi::CStr;

use libc::{c_char, c_int, c_void, msghdr, sockaddr, socklen_t, ssize_t};

use crate::real::Result;
use crate::table::{Entry, Kind};

/// Run by the dynamic linker when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    const VARIABLE: &CStr = c"OVPN_DCO_SOCKET";
    const _: () = assert!(VARIABLE.count_bytes() == ovpn_dco_protocol::SOCKET_VARIABLE.len());
    // SAFETY: the name is terminated; nobody changes the environment while libraries are being loaded.
    let path: *const c_char = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    if !path.is_null() {
        // SAFETY: values in the environment are terminated.
        lifeline::configure(unsafe { CStr::from_ptr(path) }.to_bytes());
        lock::make();
    }
}

/// Runs a call: its result with errno untouched, or -1 with errno set.
fn answer(call: impl FnOnce() -> Result<usize>) -> ssize_t {
    let errno = real::errno();
    let (result, errno) = match call() {
        Ok(result) => (result.cast_signed(), errno),
        Err(error) => (-1, error),
    };
    real::set_errno(errno);
    result
}

fn generic(fd: c_int) -> Option<&'static Entry> {
    table::find(fd).filter(|entry| entry.kind() == Kind::Generic)
}

/// socket(2). NETLINK_GENERIC: a connection to the gateway, if there is one. NETLINK_ROUTE: the real one, remembered.
#[unsafe(no_mangle)]
pub extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let call = || {
        let ours = domain == libc::AF_NETLINK && lifeline::is_configured();
        if ours
            && protocol == libc::NETLINK_GENERIC
            && let Some(fd) = generic::open(kind)
        {
            return Ok(fd as usize);
        }
        let fd = real::socket(domain, kind, protocol)?;
        if ours && protocol == libc::NETLINK_ROUTE && table::remember(fd, Kind::Route) {
            route::forget(fd);
        }
        Ok(fd as usize)
    };
    answer(call) as c_int
}

/// close(2). The descriptor is forgotten first: another thread may get its number at once.
#[unsafe(no_mangle)]
pub extern "C" fn close(fd: c_int) -> c_int {
    answer(|| {
        if table::forget(fd) {
            route::forget(fd);
        }
        real::close(fd)
    }) as c_int
}

/// bind(2). A connection to the gateway: the netlink port id is stored.
///
/// # Safety
/// As bind(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the caller of bind(2) upholds it, in both.
    answer(|| unsafe {
        match generic(fd) {
            Some(entry) => netlink::bind(entry, address, len),
            None => real::bind(fd, address, len),
        }
    }) as c_int
}

/// getsockname(2). A connection to the gateway: a netlink address.
///
/// # Safety
/// As getsockname(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the caller of getsockname(2) upholds it, in both.
    answer(|| unsafe {
        match generic(fd) {
            Some(entry) => netlink::getsockname(entry, address, len),
            None => real::getsockname(fd, address, len),
        }
    }) as c_int
}

/// setsockopt(2). A connection to the gateway: SOL_NETLINK is answered, other levels are real.
///
/// # Safety
/// As setsockopt(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: the caller of setsockopt(2) upholds it, in both.
    answer(|| unsafe {
        match generic(fd) {
            Some(_) if level == libc::SOL_NETLINK => generic::set_option(fd, name, value, len),
            _ => real::setsockopt(fd, level, name, value, len),
        }
    }) as c_int
}

/// sendmsg(2). A connection to the gateway: a packet without address. rtnetlink: the gateway is asked first.
///
/// # Safety
/// As sendmsg(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller of sendmsg(2) upholds it, in all.
    answer(|| unsafe {
        match (table::find(fd), message.as_ref()) {
            (Some(entry), Some(message)) => match entry.kind() {
                Kind::Generic => generic::send(fd, entry, message),
                Kind::Route => route::send(fd, message, flags),
            },
            _ => real::sendmsg(fd, message, flags),
        }
    })
}

/// recvmsg(2). A connection to the gateway: a message as from the kernel. rtnetlink: the gateway's answers first.
///
/// # Safety
/// As recvmsg(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller of recvmsg(2) upholds it, in all.
    answer(|| unsafe {
        match (table::find(fd), message.as_mut()) {
            (Some(entry), Some(message)) => match entry.kind() {
                Kind::Generic => generic::receive(fd, entry, message, flags),
                Kind::Route => route::receive(fd, message, flags),
            },
            _ => real::recvmsg(fd, message, flags),
        }
    })
}

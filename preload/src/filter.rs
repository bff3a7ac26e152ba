//! The filter that keeps data packets from the daemon's own socket.
//!
//! Under offload the daemon has no cipher for P_DATA_V2 and takes its payload for authenticated plaintext, so a
//! forged one must never reach it, whichever way it came.

use libc::{c_int, c_ushort, sock_filter, sock_fprog};

use crate::real;

/// Classic BPF of SO_ATTACH_FILTER (Documentation/networking/filter.rst of Linux). On a UDP socket offset 0 is the UDP
/// header, so 8 is the first byte of the payload, whose upper five bits are the opcode. An empty datagram fails the
/// load and is dropped as well.
const PROGRAM: [sock_filter; 5] = [
    op(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, 8),
    op(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 0, 0, 3),
    op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, P_DATA_V2),
    op(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    op(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
];

const P_DATA_V2: u32 = 9;

const fn op(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// Datagrams that may wait on a socket when it gets the filter; more are not looked at.
const WAITING: usize = 65_536;

/// Puts the filter on a UDP socket; anything else is left alone. What waits on it already has passed no filter and is thrown
/// away: control packets are sent again by whoever sent them.
///
/// # Errors
/// What setsockopt(2) says: the socket is not protected then.
pub fn keep_data_from(fd: c_int) -> real::Result<()> {
    let domain = option(fd, libc::SO_DOMAIN);
    let inet = domain == Some(libc::AF_INET) || domain == Some(libc::AF_INET6);
    if !inet || option(fd, libc::SO_PROTOCOL) != Some(libc::IPPROTO_UDP) {
        return Ok(());
    }
    if has_filter(fd) {
        return Ok(());
    }
    let program = sock_fprog {
        len: PROGRAM.len() as c_ushort,
        filter: PROGRAM.as_ptr().cast_mut(),
    };
    let len = size_of::<sock_fprog>() as u32;
    // SAFETY: the kernel reads a sock_fprog and its len instructions, which are not written.
    unsafe {
        real::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            len,
        )
    }?;
    throw_away_what_waits(fd);
    Ok(())
}

/// Whether the socket has a filter of this length.
fn has_filter(fd: c_int) -> bool {
    let mut len: u32 = 0;
    // SAFETY: with a length of 0 the kernel writes the number of instructions to it and nothing else.
    let done = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_GET_FILTER,
            std::ptr::null_mut(),
            &raw mut len,
        )
    };
    done == 0 && len as usize == PROGRAM.len()
}

fn throw_away_what_waits(fd: c_int) {
    for _ in 0..WAITING {
        let mut byte = 0_u8;
        // SAFETY: one byte of this stack; the rest of the datagram is cut off.
        let got = unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT) };
        if got < 0 {
            return;
        }
    }
}

fn option(fd: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as u32;
    // SAFETY: value and its length live on this stack.
    let done = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut len) };
    (done == 0).then_some(value)
}

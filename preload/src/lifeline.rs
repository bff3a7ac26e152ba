//! The one connection by path that a process has to the gateway.
//!
//! It is made at the first need and kept: further connections come over it, so that nothing has to be opened by path
//! once the daemon has given up its privileges or is in a chroot.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use libc::{c_int, iovec, sockaddr_un};
use ovpn_dco_protocol::{HEADER_LEN, HELLO, OPEN, ROUTE, VERSION};

use crate::lock::Held;
use crate::message::Header;
use crate::real::{self, deadline};
use crate::route::Store;

/// How long the gateway may take for a connection, in seconds.
const CONNECT_SECONDS: u64 = 5;
/// How long the gateway may take for an rtnetlink message, in seconds.
const ANSWER_SECONDS: u64 = 15;
/// The connection is moved to a number from here on, so that the daemon's own descriptors keep theirs.
const LOWEST: c_int = 512;
/// struct nlmsgerr has the error after the header.
const ERROR_LEN: usize = HEADER_LEN + 4;
/// Room for one descriptor beside a packet: CMSG_SPACE(4).
const CONTROL_LEN: usize = 24;

static ADDRESS: OnceLock<sockaddr_un> = OnceLock::new();
static LINE: AtomicI32 = AtomicI32::new(-1);
static INODE: AtomicU64 = AtomicU64::new(0);
static SEQUENCE: AtomicU32 = AtomicU32::new(1);

/// Why the gateway did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is none, or none that wants us.
    Gone,
    /// It is there and says nothing, or nothing that makes sense.
    Hung,
}

/// A descriptor that is closed when it is not given away.
struct Fd(c_int);

impl Fd {
    fn into_raw(self) -> c_int {
        let fd = self.0;
        std::mem::forget(self);
        fd
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        let _ = real::close(self.0);
    }
}

/// Sets the path of the socket, once. A path that is empty or too long for an address is none.
pub fn configure(path: &[u8]) {
    // SAFETY: struct sockaddr_un consists of integers, for which zero is a value.
    let mut address: sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    if path.is_empty() || path.len() >= address.sun_path.len() {
        return;
    }
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = from.cast_signed();
    }
    let _ = ADDRESS.set(address);
}

/// Whether there is a path.
pub fn is_configured() -> bool {
    ADDRESS.get().is_some()
}

/// A new connection for a netlink protocol, close-on-exec. None: no gateway.
pub fn open(protocol: u32) -> Option<c_int> {
    let _held = Held::acquire()?;
    let until = deadline(CONNECT_SECONDS);
    let opened = with_line(until, |line| control(line, OPEN, &[protocol], until)).ok()?;
    match opened {
        (0, Some(fd)) => Some(fd.into_raw()),
        _ => None,
    }
}

/// Sends an rtnetlink message and puts what the gateway answers into `store`, all of it.
///
/// # Safety
/// The parts point to readable bytes.
pub unsafe fn ask(request: &Header, parts: &[iovec], store: &mut Store) -> Result<(), Failure> {
    let _held = Held::acquire().ok_or(Failure::Gone)?;
    let answer_until = deadline(ANSWER_SECONDS);
    with_line(deadline(CONNECT_SECONDS), |line| {
        store.clear();
        // SAFETY: the caller upholds it.
        unsafe { send(line, parts, answer_until) }?;
        let mut bytes = [0; 4096];
        loop {
            let (count, _) = receive(line, &mut bytes, answer_until)?;
            let message = bytes.get(..count).ok_or(Failure::Hung)?;
            let header = Header::parse(message).ok_or(Failure::Hung)?;
            if header.seq != request.seq {
                continue;
            }
            if !store.push(message) {
                return Err(Failure::Hung);
            }
            if request.is_answered_by(&header) {
                return Ok(());
            }
        }
    })
}

/// Runs an exchange over the connection; over a new one, once, when the other end has gone meanwhile.
fn with_line<T>(until: Instant, mut exchange: impl FnMut(c_int) -> Result<T, Failure>) -> Result<T, Failure> {
    if let Some(line) = current() {
        match exchange(line) {
            Err(Failure::Gone) => {
                LINE.store(-1, Ordering::Relaxed);
                let _ = real::close(line);
            }
            done => return done,
        }
    }
    // One that does not even greet is none.
    exchange(connect(until).map_err(|_| Failure::Gone)?)
}

/// The connection, when there is one, the other end lives, and its number is not somebody else's by now. What is left
/// of an earlier exchange is read and forgotten.
fn current() -> Option<c_int> {
    /// More than any answer; a bound all the same.
    const LEFT_OVER: usize = 1024;
    let line = LINE.load(Ordering::Relaxed);
    if line < 0 || real::inode(line) != Some(INODE.load(Ordering::Relaxed)) {
        return None;
    }
    let mut bytes = [0; HEADER_LEN];
    for _ in 0..LEFT_OVER {
        match receive_now(line, &mut bytes) {
            Ok((1.., _)) => {}
            Err(libc::EAGAIN) => return Some(line),
            _ => break,
        }
    }
    LINE.store(-1, Ordering::Relaxed);
    let _ = real::close(line);
    None
}

fn connect(until: Instant) -> Result<c_int, Failure> {
    let address = ADDRESS.get().ok_or(Failure::Gone)?;
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let fd = Fd(real::socket(libc::AF_UNIX, kind, 0).map_err(|_| Failure::Gone)?);
    let len = size_of::<sockaddr_un>() as u32;
    // SAFETY: the address is a whole sockaddr_un with a terminated path.
    while unsafe { libc::connect(fd.0, (&raw const *address).cast(), len) } != 0 {
        match real::errno() {
            libc::EINTR => {}
            // The listener's backlog is full; poll(2) does not tell when it is not.
            libc::EAGAIN if Instant::now() < until => real::pause(10),
            _ => return Err(Failure::Gone),
        }
    }
    let (error, _) = control(fd.0, HELLO, &[VERSION, ROUTE], until)?;
    if error != 0 {
        return Err(Failure::Gone);
    }
    // SAFETY: takes no pointers.
    let moved = unsafe { libc::fcntl(fd.0, libc::F_DUPFD_CLOEXEC, LOWEST) };
    let line = if moved >= 0 { Fd(moved) } else { fd };
    INODE.store(real::inode(line.0).ok_or(Failure::Gone)?, Ordering::Relaxed);
    let line = line.into_raw();
    LINE.store(line, Ordering::Relaxed);
    Ok(line)
}

/// A message of the socket's own protocol and its NLMSG_ERROR: the error, and the descriptor that came with it.
fn control(line: c_int, kind: u16, payload: &[u32], until: Instant) -> Result<(i32, Option<Fd>), Failure> {
    const F_REQUEST_ACK: u16 = 5;
    let seq = SEQUENCE.fetch_add(1, Ordering::Relaxed);
    let bytes = size_of_val(payload);
    let header = Header {
        len: (HEADER_LEN + bytes) as u32,
        kind,
        flags: F_REQUEST_ACK,
        seq,
        // The process that connected may have forked since, and ended.
        pid: std::process::id(),
    };
    let header = header.bytes();
    let payload = iovec {
        iov_base: payload.as_ptr().cast_mut().cast(),
        iov_len: bytes,
    };
    // SAFETY: both parts are in this frame.
    unsafe { send(line, &[real::part(&header), payload], until) }?;
    loop {
        let mut answer = [0; ERROR_LEN];
        let (count, fd) = receive(line, &mut answer, until)?;
        let header = Header::parse(&answer).ok_or(Failure::Hung)?;
        if count >= ERROR_LEN && header.ends(seq) {
            let error = answer.last_chunk().map_or(0, |error| i32::from_ne_bytes(*error));
            return Ok((error, fd));
        }
    }
}

/// # Safety
/// The parts point to readable bytes.
unsafe fn send(line: c_int, parts: &[iovec], until: Instant) -> Result<(), Failure> {
    // SAFETY: the caller upholds it.
    match unsafe { real::transmit(line, &real::packet(parts), until) } {
        Ok(_) => Ok(()),
        Err(_) if Instant::now() >= until => Err(Failure::Hung),
        Err(_) => Err(Failure::Gone),
    }
}

/// The next packet: its length, even if it is longer than `bytes`, and the descriptor beside it.
fn receive(line: c_int, bytes: &mut [u8], until: Instant) -> Result<(usize, Option<Fd>), Failure> {
    loop {
        real::wait(line, libc::POLLIN, until).map_err(|_| Failure::Hung)?;
        match receive_now(line, bytes) {
            Ok((0, _)) => return Err(Failure::Gone),
            Ok(received) => return Ok(received),
            Err(libc::EAGAIN | libc::EINTR) => {}
            Err(_) => return Err(Failure::Gone),
        }
    }
}

fn receive_now(line: c_int, bytes: &mut [u8]) -> real::Result<(usize, Option<Fd>)> {
    let mut control = [0_u64; CONTROL_LEN / 8];
    let part = iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut message = real::packet(std::slice::from_ref(&part));
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_LEN;
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the part is writable (made of a &mut), the control buffer is on this stack and aligned for cmsghdr.
    let count = unsafe { real::recvmsg(line, &raw mut message, flags) }?;
    // SAFETY: the kernel has written msg_controllen bytes of control messages; the first one is looked at.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
    let fd = first.filter(|first| {
        first.cmsg_level == libc::SOL_SOCKET
            && first.cmsg_type == libc::SCM_RIGHTS
            && first.cmsg_len >= CONTROL_LEN - size_of::<c_int>()
    });
    // SAFETY: a control message of that kind and length has a descriptor as its data, which is now ours.
    let fd = fd.map(|first| Fd(unsafe { libc::CMSG_DATA(first).cast::<c_int>().read_unaligned() }));
    Ok((count, fd))
}

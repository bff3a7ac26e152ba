//! Connections to the gateway in the place of generic-netlink sockets.

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Instant;

use libc::{c_int, c_void, iovec, msghdr, socklen_t};
use ovpn_dco_protocol::{AGAIN, GENERIC, HEADER_LEN, SUBSCRIBE};

use crate::message::{self, Family, GENERIC_HEADER_LEN, Header};
use crate::table::{self, Entry, Kind};
use crate::{filter, lifeline, netlink, real, scattered};

/// How long the gateway may take to answer a request or to take one, in seconds.
const ANSWER_SECONDS: u64 = 15;
/// Longer than any notification, in bytes.
const NOTIFICATION_LEN: usize = 4096;
/// Longer than any message that is looked into, in bytes. Those hold no keys.
const PARSED_LEN: usize = 1024;
/// A control message with one descriptor: `struct cmsghdr` (16 bytes), the number, padding.
const RIGHTS_LEN: usize = 24;

/// Family ids as the gateway told them; 0: not yet.
static DCO_V2: AtomicU16 = AtomicU16::new(0);
static OVPN: AtomicU16 = AtomicU16::new(0);

/// socket(2). None: no gateway, or no place to remember the connection.
pub fn open(kind: c_int) -> Option<c_int> {
    let fd = lifeline::open(GENERIC)?;
    if dress(fd, kind) && table::remember(fd, Kind::Generic) {
        return Some(fd);
    }
    let _ = real::close(fd);
    None
}

/// Gives a connection the flags that socket(2) was called with.
fn dress(fd: c_int, kind: c_int) -> bool {
    let close = if kind & libc::SOCK_CLOEXEC != 0 {
        libc::FD_CLOEXEC
    } else {
        0
    };
    // SAFETY: fcntl with integers only.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        let wanted = flags & !libc::O_NONBLOCK | kind & libc::SOCK_NONBLOCK;
        flags >= 0
            && libc::fcntl(fd, libc::F_SETFL, wanted) == 0
            && libc::fcntl(fd, libc::F_SETFD, close) == 0
    }
}

/// setsockopt(2) with SOL_NETLINK: joining a group is told to the gateway; the other options change nothing here.
///
/// # Errors
/// EINVAL, EFAULT: not a group. ENODEV: the gateway has gone.
///
/// # Safety
/// `value` is null or points to `len` readable bytes.
pub unsafe fn set_option(
    fd: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> real::Result<usize> {
    if name != libc::NETLINK_ADD_MEMBERSHIP {
        return Ok(0);
    }
    if (len as usize) < size_of::<u32>() {
        return Err(libc::EINVAL);
    }
    if value.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: that many bytes are readable, at any alignment.
    let group = unsafe { value.cast::<u32>().read_unaligned() };
    send_own(
        fd,
        SUBSCRIBE,
        &group.to_ne_bytes(),
        real::deadline(ANSWER_SECONDS),
    )?;
    Ok(0)
}

/// Sends a message of the socket's own protocol that is not answered by NLMSG_ERROR.
fn send_own(fd: c_int, kind: u16, payload: &[u8], until: Instant) -> real::Result<()> {
    const F_REQUEST: u16 = 1;
    let len = (HEADER_LEN + payload.len()) as u32;
    let header = Header {
        len,
        kind,
        flags: F_REQUEST,
        seq: 0,
        pid: 0,
    }
    .bytes();
    // SAFETY: both parts are borrowed here.
    unsafe {
        real::transmit(
            fd,
            &real::packet(&[real::part(&header), real::part(payload)]),
            until,
        )
    }?;
    Ok(())
}

/// sendmsg(2): one message, one packet. A new peer's socket goes with it, with the filter on it by then.
///
/// # Errors
/// ENODEV: the gateway has gone, or takes nothing. What SO_ATTACH_FILTER says: without the filter there is no peer.
///
/// # Safety
/// As sendmsg(2) demands of its caller.
pub unsafe fn send(fd: c_int, entry: &Entry, message: &msghdr) -> real::Result<usize> {
    // SAFETY: the caller upholds it.
    let parts = unsafe { scattered::parts(message) };
    let mut packet = real::packet(parts);
    let mut start = [0; GENERIC_HEADER_LEN];
    // SAFETY: the caller upholds it.
    let count = unsafe { scattered::gather(parts, &mut start) };
    let header = start.get(..count).and_then(Header::parse);
    let mut rights = [0_u64; RIGHTS_LEN / 8];
    // SAFETY: the caller upholds it.
    let socket = header.and_then(|header| unsafe { peer_socket(&header, &start, parts) });
    if let Some(socket) = socket {
        filter::keep_data_from(socket)?;
        packet.msg_control = rights.as_mut_ptr().cast();
        packet.msg_controllen = RIGHTS_LEN;
        // SAFETY: the buffer has room for a cmsghdr with one descriptor and is aligned for it.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const packet);
            (*first).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as usize;
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            libc::CMSG_DATA(first).cast::<c_int>().write_unaligned(socket);
        }
    }
    if let Some(header) = header.filter(Header::wants_answer) {
        entry.set_request(Some(header.seq));
    }
    // SAFETY: the caller upholds it for the parts; the control data is on this stack.
    let sent = unsafe { real::transmit(fd, &packet, real::deadline(ANSWER_SECONDS)) };
    if sent.is_err() {
        entry.set_request(None);
    }
    sent
}

/// The descriptor that a message names as a new peer's socket, if it is one that is open: of any other number the
/// gateway says that it is none.
///
/// # Safety
/// The parts point to readable bytes.
unsafe fn peer_socket(header: &Header, start: &[u8], parts: &[iovec]) -> Option<c_int> {
    let family = match header.kind {
        0 => None,
        id if id == DCO_V2.load(Ordering::Relaxed) => Some(Family::DcoV2),
        id if id == OVPN.load(Ordering::Relaxed) => Some(Family::Ovpn),
        _ => None,
    }?;
    if !message::is_new_peer(start) {
        return None;
    }
    let mut bytes = [0; PARSED_LEN];
    // SAFETY: the caller upholds it.
    let count = unsafe { scattered::gather(parts, &mut bytes) };
    let socket = message::new_peer_socket(bytes.get(..count)?, family)?;
    // SAFETY: fcntl with integers only.
    (unsafe { libc::fcntl(socket, libc::F_GETFD) } >= 0).then_some(socket)
}

/// recvmsg(2). While an answer is outstanding it waits for that, whatever the socket's mode: the daemon would only ask
/// again at once.
///
/// # Errors
/// ENODEV: the gateway has gone, or does not answer. Else what recvmsg(2) says.
///
/// # Safety
/// As recvmsg(2) demands of its caller.
pub unsafe fn receive(
    fd: c_int,
    entry: &Entry,
    message: &mut msghdr,
    mut flags: c_int,
) -> real::Result<usize> {
    let mut is_end = false;
    if let Some(seq) = entry.request() {
        let next = wait_for_answer(fd, seq).inspect_err(|_| entry.set_request(None))?;
        is_end = next.is_some_and(|next| next.ends(seq));
        flags |= libc::MSG_DONTWAIT;
    }
    // SAFETY: the caller upholds it.
    let parts = unsafe { scattered::parts(message) };
    let mut packet = real::packet(parts);
    // SAFETY: the caller upholds it for the parts.
    let count = match unsafe { real::recvmsg(fd, &raw mut packet, flags) } {
        Ok(0) | Err(libc::ECONNRESET | libc::ENOTCONN) => return Err(libc::ENODEV),
        received => received?,
    };
    if flags & libc::MSG_PEEK == 0 {
        let mut start = [0; PARSED_LEN];
        let start = &mut start[..count.min(PARSED_LEN)];
        // SAFETY: the kernel has just filled these parts, as far as the packet went.
        let copied = unsafe { scattered::gather(parts, start) };
        learn(&start[..copied]);
        if is_end {
            entry.set_request(None);
        }
    }
    message.msg_flags = packet.msg_flags & !libc::MSG_CTRUNC;
    // SAFETY: the caller upholds it.
    unsafe { netlink::name(message) };
    Ok(count)
}

/// Keeps the id of a family that the gateway tells the daemon.
fn learn(message: &[u8]) {
    match message::family(message) {
        Some((Family::DcoV2, id)) => DCO_V2.store(id, Ordering::Relaxed),
        Some((Family::Ovpn, id)) => OVPN.store(id, Ordering::Relaxed),
        None => {}
    }
}

/// Waits until the next packet is one that the daemon may read inside its request: its header. Notifications go back to the
/// gateway, which sends them again after the answer: read inside a request they are lost on one daemon and the end
/// of the other. Kept here instead they would not make the descriptor readable for the daemon's event loop.
fn wait_for_answer(fd: c_int, seq: u32) -> real::Result<Option<Header>> {
    let until = real::deadline(ANSWER_SECONDS);
    let mut bytes = [0; NOTIFICATION_LEN];
    loop {
        real::wait(fd, libc::POLLIN, until).map_err(|_| libc::ENODEV)?;
        let Some(count) = look(fd, &mut bytes[..HEADER_LEN], libc::MSG_PEEK)? else {
            continue;
        };
        let header = bytes.get(..HEADER_LEN.min(count)).and_then(Header::parse);
        if seq == 0 || !header.is_some_and(|header| header.is_notification()) {
            return Ok(header);
        }
        let Some(count) = look(fd, &mut bytes, 0)? else {
            continue;
        };
        let notification = bytes.get(..count).ok_or(libc::ENODEV)?;
        send_own(fd, AGAIN, notification, until)?;
    }
}

/// Reads or peeks at the next packet without waiting: its whole length. None: there is none.
fn look(fd: c_int, bytes: &mut [u8], flags: c_int) -> real::Result<Option<usize>> {
    let part = iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut packet = real::packet(std::slice::from_ref(&part));
    // SAFETY: the part is writable (made of a &mut).
    match unsafe { real::recvmsg(fd, &raw mut packet, flags | libc::MSG_DONTWAIT | libc::MSG_TRUNC) } {
        Ok(0) => Err(libc::ENODEV),
        Ok(count) => Ok(Some(count)),
        Err(libc::EAGAIN | libc::EINTR) => Ok(None),
        Err(_) => Err(libc::ENODEV),
    }
}

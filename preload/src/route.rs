//! rtnetlink sockets: real ones. Messages about the making and removing of an interface go to the gateway first; what it
//! answers is kept here until the daemon reads it. It does so at once, without poll(2), which would not see it.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use libc::{c_int, msghdr};
use ovpn_dco_protocol::HEADER_LEN;

use crate::lifeline::{self, Failure};
use crate::message::Header;
use crate::{netlink, real, scattered};

/// Sockets with unread answers at one time.
const SLOTS: usize = 8;
/// Bytes of unread answers of one socket, with 4 bytes of length before each.
const ROOM: usize = 8192;
const LENGTH_LEN: usize = 4;

/// Unread answers of one socket, in order.
pub struct Store {
    start: usize,
    end: usize,
    bytes: [u8; ROOM],
}

impl Store {
    const fn new() -> Store {
        Store {
            start: 0,
            end: 0,
            bytes: [0; ROOM],
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Adds an answer. False: no room.
    pub fn push(&mut self, message: &[u8]) -> bool {
        let Some(room) = self.bytes.get_mut(self.end..) else {
            return false;
        };
        let Some((length, room)) = room.split_first_chunk_mut::<LENGTH_LEN>() else {
            return false;
        };
        let Some(room) = room.get_mut(..message.len()) else {
            return false;
        };
        *length = (message.len() as u32).to_ne_bytes();
        room.copy_from_slice(message);
        self.end += LENGTH_LEN + message.len();
        true
    }

    /// Adds what another has. False: no room.
    fn append(&mut self, other: &Store) -> bool {
        let new = other.bytes.get(other.start..other.end).unwrap_or_default();
        let Some(room) = self
            .bytes
            .get_mut(self.end..)
            .and_then(|room| room.get_mut(..new.len()))
        else {
            return false;
        };
        room.copy_from_slice(new);
        self.end += new.len();
        true
    }

    /// The oldest answer.
    pub fn first(&self) -> Option<&[u8]> {
        let (length, rest) = self
            .bytes
            .get(self.start..self.end)?
            .split_first_chunk::<LENGTH_LEN>()?;
        rest.get(..u32::from_ne_bytes(*length) as usize)
    }

    /// Forgets the oldest answer.
    pub fn pop(&mut self) {
        if let Some(length) = self.first().map(<[u8]>::len) {
            self.start += LENGTH_LEN + length;
        }
        if self.start == self.end {
            self.clear();
        }
    }
}

struct Slot {
    /// Its socket; -1: free.
    owner: AtomicI32,
    taken: AtomicBool,
    store: UnsafeCell<Store>,
}

// SAFETY: the store is reached through a Taken alone, of which there is one at a time (`taken`).
unsafe impl Sync for Slot {}

static SLOT: [Slot; SLOTS] = [const {
    Slot {
        owner: AtomicI32::new(-1),
        taken: AtomicBool::new(false),
        store: UnsafeCell::new(Store::new()),
    }
}; SLOTS];

/// A slot that this thread may use. One that is left empty is free again.
struct Taken(&'static Slot);

impl Taken {
    /// The slot of a socket; a free one for it, if `new`. None: there is none, or it is in use (a signal came in
    /// between).
    fn of(fd: c_int, new: bool) -> Option<Taken> {
        let owned = |slot: &&Slot| slot.owner.load(Ordering::Acquire) == fd;
        let claim = |slot: &&Slot| {
            slot.owner
                .compare_exchange(-1, fd, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        let slot = SLOT
            .iter()
            .find(owned)
            .or_else(|| SLOT.iter().find(|slot| new && claim(slot)))?;
        let free = slot
            .taken
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        free.is_ok().then_some(Taken(slot))
    }

    fn store(&mut self) -> &mut Store {
        // SAFETY: `taken` was false and was set by this Taken, which is borrowed mutably.
        unsafe { &mut *self.0.store.get() }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.store().first().is_none() {
            self.0.owner.store(-1, Ordering::Release);
        }
        self.0.taken.store(false, Ordering::Release);
    }
}

/// Forgets what was kept for a socket.
pub fn forget(fd: c_int) {
    if let Some(mut taken) = Taken::of(fd, false) {
        taken.store().clear();
    }
}

/// sendmsg(2). A message of which the gateway says "not mine", and all when there is no gateway, go to the kernel.
///
/// # Errors
/// ENODEV: the gateway is there and does not answer. ENOBUFS: too many answers are unread. Else the kernel's.
///
/// # Safety
/// As sendmsg(2) demands of its caller.
pub unsafe fn send(fd: c_int, message: &msghdr, flags: c_int) -> real::Result<usize> {
    // SAFETY: the caller upholds it.
    let parts = unsafe { scattered::parts(message) };
    let length = scattered::length(parts);
    let mut start = [0; HEADER_LEN];
    // SAFETY: the caller upholds it.
    let count = unsafe { scattered::gather(parts, &mut start) };
    let header = start.get(..count).and_then(Header::parse);
    // One message and no more: its length says the whole.
    if let Some(header) = header.filter(|header| header.is_for_gateway() && header.len as usize == length) {
        let mut taken = Taken::of(fd, true).ok_or(libc::ENOBUFS)?;
        let mut answers = Store::new();
        // SAFETY: the caller upholds it.
        match unsafe { lifeline::ask(&header, parts, &mut answers) } {
            Ok(()) => {
                if answers
                    .first()
                    .and_then(Header::parse)
                    .is_some_and(|answer| !answer.is_noop())
                {
                    return taken
                        .store()
                        .append(&answers)
                        .then_some(length)
                        .ok_or(libc::ENOBUFS);
                }
            }
            Err(Failure::Hung) => return Err(libc::ENODEV),
            Err(Failure::Gone) => {}
        }
    }
    // SAFETY: the caller upholds it.
    unsafe { real::sendmsg(fd, message, flags) }
}

/// recvmsg(2): the gateway's answers first, then what the kernel has.
///
/// # Errors
/// The kernel's.
///
/// # Safety
/// As recvmsg(2) demands of its caller.
pub unsafe fn receive(fd: c_int, message: &mut msghdr, flags: c_int) -> real::Result<usize> {
    let mut taken = Taken::of(fd, false);
    let Some(answer) = taken.as_mut().and_then(|taken| taken.store().first()) else {
        // SAFETY: the caller upholds it.
        return unsafe { real::recvmsg(fd, message, flags) };
    };
    let length = answer.len();
    // SAFETY: the caller upholds it.
    let copied = unsafe { scattered::scatter(scattered::parts(message), answer) };
    message.msg_flags = if copied < length { libc::MSG_TRUNC } else { 0 };
    // SAFETY: the caller upholds it.
    unsafe { netlink::name(message) };
    if flags & libc::MSG_PEEK == 0
        && let Some(taken) = &mut taken
    {
        taken.store().pop();
    }
    Ok(if flags & libc::MSG_TRUNC != 0 {
        length
    } else {
        copied
    })
}

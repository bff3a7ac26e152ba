//! Which descriptors are netlink sockets of the daemon. Fixed size, atomics only: it is read in every intercepted call,
//! by any thread, in a forked child and in a signal handler.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use libc::c_int;

use crate::real;

/// Descriptors from this number on are left to the kernel.
pub const SIZE: usize = 4096;

/// What a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A connection to the gateway that the daemon takes for a generic-netlink socket.
    Generic,
    /// A real rtnetlink socket.
    Route,
}

/// A descriptor that is ours.
pub struct Entry {
    kind: AtomicU8,
    inode: AtomicU64,
    port: AtomicU32,
    /// 0: none; else bit 32 and the sequence number.
    request: AtomicU64,
}

const PLAIN: u8 = 0;
const GENERIC: u8 = 1;
const ROUTE: u8 = 2;
const OUTSTANDING: u64 = 1 << 32;

static TABLE: [Entry; SIZE] = [const { Entry::new() }; SIZE];

impl Entry {
    const fn new() -> Entry {
        Entry {
            kind: AtomicU8::new(PLAIN),
            inode: AtomicU64::new(0),
            port: AtomicU32::new(0),
            request: AtomicU64::new(0),
        }
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        if self.kind.load(Ordering::Acquire) == ROUTE {
            Kind::Route
        } else {
            Kind::Generic
        }
    }

    /// The netlink port id that the daemon bound it to.
    pub fn port(&self) -> u32 {
        self.port.load(Ordering::Relaxed)
    }

    /// Sets the netlink port id.
    pub fn set_port(&self, port: u32) {
        self.port.store(port, Ordering::Relaxed);
    }

    /// The sequence number of the request whose answer has not been read to its end.
    pub fn request(&self) -> Option<u32> {
        let request = self.request.load(Ordering::Relaxed);
        (request != 0).then_some(request as u32)
    }

    /// Notes that a request was sent, or that there is none any more.
    pub fn set_request(&self, seq: Option<u32>) {
        self.request.store(
            seq.map_or(0, |seq| OUTSTANDING | u64::from(seq)),
            Ordering::Relaxed,
        );
    }
}

fn slot(fd: c_int) -> Option<&'static Entry> {
    TABLE.get(usize::try_from(fd).ok()?)
}

/// Remembers a socket. False: its number is beyond the table.
pub fn remember(fd: c_int, kind: Kind) -> bool {
    let (Some(entry), Some(inode)) = (slot(fd), real::inode(fd)) else {
        return false;
    };
    entry.inode.store(inode, Ordering::Relaxed);
    entry.set_port(0);
    entry.set_request(None);
    entry.kind.store(
        if kind == Kind::Route { ROUTE } else { GENERIC },
        Ordering::Release,
    );
    true
}

/// Forgets a descriptor. Whether it was one of ours.
pub fn forget(fd: c_int) -> bool {
    slot(fd).is_some_and(|entry| entry.kind.swap(PLAIN, Ordering::AcqRel) != PLAIN)
}

/// What is known of a descriptor. One that was closed behind our back (close_range(2), dup2(2), inside the C library)
/// is told by its inode and forgotten.
pub fn find(fd: c_int) -> Option<&'static Entry> {
    let entry = slot(fd)?;
    if entry.kind.load(Ordering::Acquire) == PLAIN {
        return None;
    }
    if real::inode(fd) != Some(entry.inode.load(Ordering::Relaxed)) {
        forget(fd);
        return None;
    }
    Some(entry)
}

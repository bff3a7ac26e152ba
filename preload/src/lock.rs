//! The lock of the connection to the gateway.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::c_int;

use crate::real;

/// How often to try, and how long to wait in between, in milliseconds: one second together.
const TRIES: u32 = 500;
const PAUSE_MILLISECONDS: c_int = 2;

/// The thread that holds the lock; 0: none. In memory that a process shares with its forked children, as they share
/// the connection.
static HOLDER: OnceLock<&'static AtomicI32> = OnceLock::new();

/// Makes the lock. Without memory for it there is none, and then no connection either.
pub fn make() {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<AtomicI32>(), access, kind, -1, 0) };
    if page != libc::MAP_FAILED {
        // SAFETY: the mapping is readable and writable, zero (a value of an AtomicI32), aligned to a page, and is never
        // unmapped; nothing but this reference leads there.
        let _ = HOLDER.set(unsafe { &*page.cast::<AtomicI32>() });
    }
}

/// The lock, held. Given back on drop.
pub struct Held(&'static AtomicI32);

impl Held {
    /// Takes the lock. None: somebody else has it for too long, or this thread itself has it (a signal came in
    /// between). A holder that does not exist any more has left it behind.
    pub fn acquire() -> Option<Held> {
        let lock = HOLDER.get()?;
        // SAFETY: takes no pointers.
        let own = unsafe { libc::gettid() };
        let mut expected = 0;
        for _ in 0..TRIES {
            match lock.compare_exchange(expected, own, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Held(lock)),
                Err(holder) if holder == own => return None,
                Err(0) => expected = 0,
                Err(holder) if !exists(holder) => expected = holder,
                Err(_) => {
                    expected = 0;
                    real::pause(PAUSE_MILLISECONDS);
                }
            }
        }
        None
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

fn exists(thread: c_int) -> bool {
    // SAFETY: takes no pointers; signal 0 is none, only the existence is checked.
    let sent = unsafe { libc::syscall(libc::SYS_tkill, thread, 0) };
    sent == 0 || real::errno() != libc::ESRCH
}

//! DPDK's log, line by line into `tracing` under the target "dpdk".

use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::sync::{Mutex, OnceLock};

use crate::Error;

/// `cookie_io_functions_t` of `fopencookie(3)`.
#[repr(C)]
struct CookieFunctions {
    read: *const c_void,
    write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> isize>,
    seek: *const c_void,
    close: *const c_void,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: CookieFunctions) -> *mut libc::FILE;
}

#[derive(Default)]
struct Lines {
    /// What came since the last newline.
    partial: String,
    /// The last whole line.
    last: String,
    /// The first whole line since [`mark`].
    first: String,
}

static LINES: Mutex<Lines> = Mutex::new(Lines {
    partial: String::new(),
    last: String::new(),
    first: String::new(),
});
static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();

/// A line longer than this is cut, so a driver that never ends its line cannot take the memory.
const LONGEST: usize = 4096;

/// Sends DPDK's log to `tracing` (`rte_openlog_stream`). [`crate::Eal::init`] does so by itself; calling it again
/// changes nothing.
pub fn install() -> Result<(), Error> {
    let done = INSTALLED.get_or_init(|| {
        let functions = CookieFunctions {
            read: std::ptr::null(),
            write: Some(write),
            seek: std::ptr::null(),
            close: std::ptr::null(),
        };
        // SAFETY: mode is a C string; null functions are allowed by fopencookie(3); the cookie is not used.
        let stream = unsafe { fopencookie(std::ptr::null_mut(), c"w".as_ptr(), functions) };
        if stream.is_null() {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
        }
        // SAFETY: the stream is open and never closed, so DPDK may use it as long as it likes.
        match unsafe { dpdk_sys::rte_openlog_stream(stream.cast()) } {
            0 => Ok(()),
            code => Err(code),
        }
    });
    done.map_err(|code| Error::Log(io::Error::from_raw_os_error(code.saturating_abs())))
}

/// The last line that DPDK logged, empty if none.
pub(crate) fn last_line() -> String {
    LINES.lock().map(|l| l.last.clone()).unwrap_or_default()
}

/// From here on, [`first_line`] is the next line that comes.
pub(crate) fn mark() {
    if let Ok(mut lines) = LINES.lock() {
        lines.first.clear();
    }
}

/// The first line that DPDK logged since [`mark`], which tells why a call failed (those that follow tell only that it
/// did); empty if none.
pub(crate) fn first_line() -> String {
    LINES.lock().map(|l| l.first.clone()).unwrap_or_default()
}

/// The stream's write function: called by stdio, which holds the stream's lock, with whole or partial lines.
unsafe extern "C" fn write(_cookie: *mut c_void, bytes: *const c_char, len: usize) -> isize {
    // SAFETY: stdio hands over `len` readable bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) };
    // A subscriber that panics must not unwind into C.
    let _ = std::panic::catch_unwind(|| take(&String::from_utf8_lossy(bytes), level()));
    len as isize
}

fn take(text: &str, level: u32) {
    let mut done = Vec::new();
    if let Ok(mut lines) = LINES.lock() {
        for piece in text.split_inclusive('\n') {
            lines.partial.push_str(piece);
            if piece.ends_with('\n') || lines.partial.len() > LONGEST {
                let whole = std::mem::take(&mut lines.partial).trim_end().to_string();
                if !whole.is_empty() {
                    lines.last.clone_from(&whole);
                    if lines.first.is_empty() {
                        lines.first.clone_from(&whole);
                    }
                    done.push(whole);
                }
            }
        }
    }
    for line in done {
        emit(&line, level);
    }
}

/// `RTE_LOG_*` of the message being written.
fn level() -> u32 {
    // SAFETY: both read per-thread variables of DPDK.
    let (id, level) = unsafe { (dpdk_sys::shim_lcore_id(), dpdk_sys::rte_log_cur_msg_loglevel()) };
    // DPDK knows the level per lcore only; for any other thread it answers with the global maximum.
    if id == dpdk_sys::SHIM_LCORE_ID_ANY {
        dpdk_sys::RTE_LOG_INFO
    } else {
        level as c_int as u32
    }
}

fn emit(line: &str, level: u32) {
    match level {
        0..=dpdk_sys::RTE_LOG_ERR => tracing::error!(target: "dpdk", "{line}"),
        dpdk_sys::RTE_LOG_WARNING => tracing::warn!(target: "dpdk", "{line}"),
        dpdk_sys::RTE_LOG_NOTICE | dpdk_sys::RTE_LOG_INFO => tracing::info!(target: "dpdk", "{line}"),
        _ => tracing::debug!(target: "dpdk", "{line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_and_cut() {
        take("EAL: first ha", dpdk_sys::RTE_LOG_INFO);
        assert_eq!(last_line(), "");
        take("lf\nEAL: sec", dpdk_sys::RTE_LOG_INFO);
        assert_eq!(last_line(), "EAL: first half");
        take("ond\n\n", dpdk_sys::RTE_LOG_INFO);
        assert_eq!(last_line(), "EAL: second");
        take(&"x".repeat(LONGEST + 1), dpdk_sys::RTE_LOG_INFO);
        assert_eq!(last_line().len(), LONGEST + 1);
        assert_eq!(first_line(), "EAL: first half");
        mark();
        take("EAL: why\nEAL: that\n", dpdk_sys::RTE_LOG_ERR);
        assert_eq!(
            (first_line(), last_line()),
            ("EAL: why".into(), "EAL: that".into())
        );
    }
}

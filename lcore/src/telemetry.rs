//! Commands on DPDK's telemetry socket (`rte_telemetry_register_cmd`), which `dpdk-telemetry.py` reads.

use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock};

use dpdk_sys::rte_tel_data;

use crate::error::errno_text;
use crate::{Eal, Error};

/// A value in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// Text of at most 127 bytes; what is longer is cut.
    Text(String),
    /// Numbers, at most 512 (256 from some versions on).
    Numbers(Vec<u64>),
    /// Texts, at most 256.
    Texts(Vec<String>),
}

/// An answer: names of letters, digits, `_` and `/`, at most 63 bytes each, and values. At most 256 of them.
pub type Answer = Vec<(String, Value)>;

/// Who answers the commands. Called on the telemetry thread, one command at a time.
pub trait Answers: Send {
    /// Answers `command`, as registered, with what stood behind its first comma (empty if nothing did).
    fn answer(&mut self, command: &str, parameters: &str) -> Answer;
}

/// Who answers; empty before [`serve`] and after the end.
static ANSWERS: OnceLock<Mutex<Option<Box<dyn Answers>>>> = OnceLock::new();

/// Answers are given as long as this lives; after that, the commands give nothing.
#[must_use = "the commands are answered as long as this lives"]
pub struct Serving {
    _eal: Eal,
}

/// Registers commands, each with a line of help, and answers them. DPDK keeps a command for the life of the process,
/// so a process does this once.
///
/// # Errors
/// [`Error::Telemetry`]: a command does not begin with `/`, holds characters that commands cannot have, or there are
/// too many.
pub fn serve(eal: &Eal, commands: &[(&CStr, &CStr)], answers: Box<dyn Answers>) -> Result<Serving, Error> {
    *registry() = Some(answers);
    let serving = Serving { _eal: eal.clone() };
    for (command, help) in commands {
        // SAFETY: DPDK copies both strings, and the function lives for ever.
        let code =
            unsafe { dpdk_sys::rte_telemetry_register_cmd(command.as_ptr(), Some(called), help.as_ptr()) };
        if code != 0 {
            let command = command.to_string_lossy().into_owned();
            return Err(Error::Telemetry {
                command,
                reason: errno_text(code),
            });
        }
    }
    Ok(serving)
}

impl Drop for Serving {
    fn drop(&mut self) {
        registry().take();
    }
}

fn registry() -> std::sync::MutexGuard<'static, Option<Box<dyn Answers>>> {
    ANSWERS
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(|e| e.into_inner())
}

/// The callback of every command. DPDK sends "null" when it returns less than 0.
unsafe extern "C" fn called(
    command: *const c_char,
    parameters: *const c_char,
    data: *mut rte_tel_data,
) -> c_int {
    // A panic must not unwind into C.
    catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: DPDK passes C strings, the second one null when there is no comma, that live during the call.
        let (command, parameters) = unsafe { (text(command), text(parameters)) };
        match registry().as_mut() {
            // SAFETY: DPDK passes the place for the answer, which nobody else has during the call.
            Some(answers) => unsafe { fill(data, &answers.answer(&command, &parameters)) },
            None => -libc::ENOENT,
        }
    }))
    .unwrap_or(-libc::EIO)
}

/// # Safety
/// `string` is null or a C string.
unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: not null, so a C string by the caller's promise.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

/// Writes the answer as a dictionary. Returns 0 or a negative errno.
///
/// # Safety
/// `data` is the place that DPDK gave for the answer, and the caller has it alone.
unsafe fn fill(data: *mut rte_tel_data, answer: &Answer) -> c_int {
    // SAFETY: `data` by the caller's promise.
    let mut code = unsafe { dpdk_sys::rte_tel_data_start_dict(data) };
    for (name, value) in answer {
        let name = c_string(name);
        if code != 0 {
            return code;
        }
        // SAFETY: `data` by the caller's promise, a dictionary by now; strings are copied, and a container passed on
        // with keep = 0 becomes DPDK's.
        code = unsafe {
            match value {
                Value::Number(n) => dpdk_sys::shim_tel_data_add_dict_u64(data, name.as_ptr(), *n),
                Value::Text(t) => {
                    match dpdk_sys::rte_tel_data_add_dict_string(data, name.as_ptr(), c_string(t).as_ptr()) {
                        // Cut, and there.
                        code if code.abs() == libc::E2BIG => 0,
                        code => code,
                    }
                }
                Value::Numbers(_) | Value::Texts(_) => match array(value) {
                    Some(array) => dpdk_sys::rte_tel_data_add_dict_container(data, name.as_ptr(), array, 0),
                    None => -libc::ENOMEM,
                },
            }
        };
    }
    code
}

/// A container with the elements of an array, as many as it takes.
fn array(value: &Value) -> Option<*mut rte_tel_data> {
    // SAFETY: the container is fresh from DPDK and used here alone; it is handed on or, unused, not made.
    unsafe {
        let array = dpdk_sys::rte_tel_data_alloc();
        if array.is_null() {
            return None;
        }
        match value {
            Value::Numbers(numbers) => {
                dpdk_sys::shim_tel_data_start_array_u64(array);
                for n in numbers {
                    dpdk_sys::shim_tel_data_add_array_u64(array, *n);
                }
            }
            Value::Texts(texts) => {
                dpdk_sys::shim_tel_data_start_array_string(array);
                for t in texts {
                    dpdk_sys::rte_tel_data_add_array_string(array, c_string(t).as_ptr());
                }
            }
            Value::Number(_) | Value::Text(_) => {}
        }
        Some(array)
    }
}

/// The text up to its first NUL byte.
fn c_string(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

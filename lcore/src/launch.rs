//! Worker threads: pinned to a CPU and registered as EAL lcores.

use std::any::Any;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use crate::Eal;
use crate::affinity::CpuSet;
use crate::error::{Error, rte_errno_text};

/// The calling thread, as an EAL lcore. A worker gets it when it starts; it stays on its thread.
///
/// ```compile_fail,E0277
/// fn moves<T: Send>() {}
/// moves::<lcore::launch::Lcore>();
/// ```
#[derive(Debug)]
pub struct Lcore {
    id: u32,
    cpu: usize,
    _one_thread: PhantomData<*mut ()>,
}

impl Lcore {
    /// The EAL's number of this lcore, never `LCORE_ID_ANY`: mempools have a cache for it.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The CPU that the thread is pinned to.
    pub fn cpu(&self) -> usize {
        self.cpu
    }
}

/// The lcore number of the calling thread (`rte_lcore_id`), `None` for a thread that the EAL does not know.
pub fn lcore_id() -> Option<u32> {
    // SAFETY: reads a per-thread variable of DPDK.
    let id = unsafe { dpdk_sys::shim_lcore_id() };
    (id != dpdk_sys::SHIM_LCORE_ID_ANY).then_some(id)
}

/// A running worker.
#[derive(Debug)]
pub struct Worker<T> {
    name: String,
    thread: JoinHandle<Result<T, String>>,
}

/// Starts `work` on a new thread that is pinned to `cpu` and registered as an EAL lcore (`rte_thread_register`).
/// Returns when it is, or with the reason why not.
pub fn launch<T, F>(eal: &Eal, name: &str, cpu: usize, work: F) -> Result<Worker<T>, Error>
where
    T: Send + 'static,
    F: FnOnce(Lcore) -> T + Send + 'static,
{
    let fail = |reason: String| Error::Worker {
        name: name.into(),
        reason,
    };
    let (eal, (ready, is_ready)) = (eal.clone(), mpsc::sync_channel(1));
    let body = move || {
        let registered = match Registered::new(eal, cpu) {
            Ok(registered) => registered,
            Err(reason) => {
                let _ = ready.send(Err(reason));
                return Err("it did not start".into());
            }
        };
        let lcore = Lcore {
            id: registered.id,
            cpu,
            _one_thread: PhantomData,
        };
        let _ = ready.send(Ok(()));
        // What the closure owned is dropped by the unwinding, before the thread is taken off the EAL's list.
        let result = catch_unwind(AssertUnwindSafe(move || work(lcore))).map_err(message);
        drop(registered);
        result
    };
    let thread = thread::Builder::new()
        .name(name.into())
        .spawn(body)
        .map_err(|e| fail(e.to_string()))?;
    match is_ready.recv() {
        Ok(Ok(())) => Ok(Worker {
            name: name.into(),
            thread,
        }),
        Ok(Err(reason)) => {
            let _ = thread.join();
            Err(fail(reason))
        }
        Err(_) => Err(fail("its thread ended".into())),
    }
}

impl<T> Worker<T> {
    /// Waits for the worker to end and returns what it returned; its panic is an error.
    pub fn join(self) -> Result<T, Error> {
        let panic = |name, message| Error::Panic { name, message };
        match self.thread.join() {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(text)) => Err(panic(self.name, text)),
            Err(payload) => Err(panic(self.name, message(payload))),
        }
    }

    /// Whether the worker has ended, so that [`Worker::join`] would not wait.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

/// This thread's place among the EAL's lcores, given back when dropped.
struct Registered {
    id: u32,
    _eal: Eal,
}

impl Registered {
    /// Pins first: the EAL notes the thread's CPUs when it is registered.
    fn new(eal: Eal, cpu: usize) -> Result<Registered, String> {
        block_signals()?;
        CpuSet::one(cpu).apply().map_err(|e| e.to_string())?;
        // SAFETY: the EAL is up (`eal`), and this new thread is not registered.
        if unsafe { dpdk_sys::rte_thread_register() } != 0 {
            return Err(format!("rte_thread_register: {}", rte_errno_text()));
        }
        let id = lcore_id();
        let registered = Registered {
            id: id.unwrap_or(dpdk_sys::SHIM_LCORE_ID_ANY),
            _eal: eal,
        };
        id.map(|_| registered)
            .ok_or_else(|| "the EAL gave it no lcore id".into())
    }
}

/// Leaves signals to the threads that do not call this: net_tap has the kernel send one for what arrives, thousands a second,
/// and each would interrupt the worker.
pub(crate) fn block_signals() -> Result<(), String> {
    let mut all = MaybeUninit::uninit();
    // SAFETY: sigfillset writes the set, which pthread_sigmask reads; the former mask is not asked for.
    let code = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut())
    };
    match code {
        0 => Ok(()),
        code => Err(std::io::Error::from_raw_os_error(code).to_string()),
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: this thread was registered in `new` and still is.
        unsafe { dpdk_sys::rte_thread_unregister() };
    }
}

fn message(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into())
}

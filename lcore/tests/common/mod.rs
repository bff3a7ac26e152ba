//! What every scenario needs. The EAL starts once per process, so a file holds one test.

use std::sync::Arc;

use lcore::{Eal, Mempool};

/// An EAL on CPU 0 without hugepages or devices, beside any other one.
pub fn eal(name: &str) -> Eal {
    let name = format!("{name}-{}", std::process::id());
    let prefix = format!("--file-prefix={name}");
    let args = [
        "-l",
        "0",
        "--no-huge",
        "-m",
        "256",
        "--no-pci",
        "--no-telemetry",
        "--no-shconf",
        &prefix,
    ]
    .map(String::from);
    let eal = Eal::init(&args).expect("the EAL starts without hugepages");
    // With these arguments its folder stays empty; it goes at once.
    drop(lcore::RuntimeDir::of(&name));
    eal
}

/// A pool of `count` buffers of the usual size.
#[allow(dead_code, reason = "not every scenario has packets")]
pub fn pool(eal: &Eal, name: &str, count: u32) -> Arc<Mempool> {
    Mempool::new(eal, name, count, 32, 2176, -1).expect("a pool fits into 256 MB")
}

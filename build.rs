//! Link arguments of the program, its tests and its benches.
//!
//! There are none to give: the `-sys` crates emit the libraries of DPDK and IPsec-MB, which Cargo passes on to
//! whatever links them, and DPDK's drivers are plugins that the EAL loads. This file is where an argument for the
//! final link (such as a run path for a DPDK outside the system's folders) goes.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}

//! The release binary prefetches with write intent, in the code of the packet path.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The release binary: `OVPN_DPDK_RELEASE_BIN`, else built (or found up to date) in the target folder of this test.
fn release_binary() -> PathBuf {
    if let Some(given) = std::env::var_os("OVPN_DPDK_RELEASE_BIN") {
        return given.into();
    }
    // TARGET/debug/ovpn-dpdk
    let target = Path::new(env!("CARGO_BIN_EXE_ovpn-dpdk"))
        .ancestors()
        .nth(2)
        .expect("a target folder");
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--release",
            "--locked",
            "--bin",
            "ovpn-dpdk",
            "--target-dir",
        ])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the release build fails");
    target.join("release/ovpn-dpdk")
}

#[test]
fn the_release_binary_prefetches_with_write_intent() {
    if Command::new("objdump").arg("--version").output().is_err() {
        println!("SKIP: release_disassembly: no objdump (install binutils)");
        return;
    }
    let binary = release_binary();
    let done = Command::new("objdump")
        .args(["-d", "-C", "--no-show-raw-insn"])
        .arg(&binary)
        .output();
    let done = done.expect("objdump runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8_lossy(&done.stdout);
    let mut function = "";
    let mut found: Vec<(&str, usize)> = Vec::new();
    for line in text.lines() {
        // "0000000000012340 <name>:" begins a function.
        if let Some((_, name)) = line.strip_suffix(">:").and_then(|l| l.split_once(" <")) {
            function = name;
        } else if line.contains("\tprefetchw ") {
            match found.last_mut() {
                Some((last, n)) if *last == function => *n += 1,
                _ => found.push((function, 1)),
            }
        }
    }
    println!("prefetchw in {}: {found:?}", binary.display());
    // Inlining decides which function of the path it ends up in.
    let path = [
        "nf_path::inbound",
        "nf_path::lookahead",
        "lcore::worker::Worker",
        "lcore::mbuf",
    ];
    let in_path = |name: &str| path.iter().any(|part| name.contains(part));
    let in_worker = found.iter().filter(|(name, _)| in_path(name)).count();
    assert!(
        in_worker > 0,
        "no prefetchw in the packet path; elsewhere: {found:?}"
    );
}

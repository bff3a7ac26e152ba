//! A test's own network namespaces, and what the kernel has in them.

#![allow(dead_code, reason = "no test uses all of it")]

use nf_kernel::{Change, Mac, Monitor, Netlink};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Set in the process that runs inside: the name of its namespace.
const INSIDE: &str = "OVPN_DPDK_KERNEL_TEST_INSIDE";
/// How long anything may take that is not expected to fail.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Namespaces that this process made.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Runs the body of the test `name` in a network namespace that goes away with it; beside it there is another, the one
/// that [`peer`] names. Prints why if this machine cannot.
pub fn in_namespace(name: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        ip("link set lo up");
        return body();
    }
    if !is_root() {
        return skip(name, "not root");
    }
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let namespace = format!("ovpn-k-{}-{number}", std::process::id());
    let beside = format!("{namespace}-peer");
    let mut made = Vec::new();
    for each in [&namespace, &beside] {
        match Command::new("ip").args(["netns", "add", each]).output() {
            Ok(out) if out.status.success() => made.push(Namespace(each.clone())),
            Ok(out) => return skip(name, String::from_utf8_lossy(&out.stderr).trim()),
            Err(e) => return skip(name, &format!("ip: {e}")),
        }
    }
    let me = std::env::current_exe().expect("this test's own file");
    let inside = Command::new("ip")
        .args(["netns", "exec", &namespace])
        .arg(me)
        .args([
            "--exact",
            name,
            "--nocapture",
            "--test-threads=1",
            "--include-ignored",
        ])
        .env(INSIDE, &namespace)
        .output()
        .expect("ip was there before");
    // Without the inner harness's own lines, which would be counted as a second test.
    let said = [inside.stdout, inside.stderr].concat();
    for line in String::from_utf8_lossy(&said)
        .lines()
        .filter(|l| !l.starts_with("test ") && !l.starts_with("running "))
    {
        println!("{line}");
    }
    drop(made);
    assert!(
        inside.status.success(),
        "{name} failed in its namespace: see above"
    );
}

fn is_root() -> bool {
    // The capability set says more, but all of these tests are for root.
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

/// Says that a test cannot run on this machine, and why.
pub fn skip(name: &str, why: &str) {
    println!("SKIP: {name}: {why}");
}

struct Namespace(String);

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.0])
            .stderr(Stdio::null())
            .status();
    }
}

/// The namespace beside the test's own.
pub fn peer() -> String {
    format!("{}-peer", std::env::var(INSIDE).expect("only inside"))
}

/// Runs a program with these words, parted by spaces, and returns what it prints.
pub fn run(program: &str, words: &str) -> String {
    run_words(program, &words.split_whitespace().collect::<Vec<_>>())
}

/// Runs a program with these words and returns what it prints.
pub fn run_words(program: &str, words: &[&str]) -> String {
    let out = Command::new(program).args(words).output().expect(program);
    assert!(
        out.status.success(),
        "{program} {words:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Runs `ip` with these words, parted by spaces, and returns what it prints.
pub fn ip(words: &str) -> String {
    run("ip", words)
}

/// A veth pair `v0`, `v1`, both up, without addresses of IPv6's own making. Returns the index of `v0`.
pub fn veth(netlink: &mut Netlink) -> u32 {
    ip("link add v0 address 02:00:00:00:00:10 type veth peer name v1 address 02:00:00:00:00:11");
    for end in ["v0", "v1"] {
        ip(&format!("link set {end} addrgenmode none"));
        ip(&format!("link set {end} up"));
    }
    netlink.link("v0").expect("a look-up").expect("v0").index
}

/// A MAC address of its own for each number.
pub fn mac(number: u32) -> Mac {
    let [a, b, c, d] = number.to_be_bytes();
    [0x02, 0x77, a, b, c, d]
}

/// Waits until `what` holds.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads changes until one is as wanted, and returns all that came until then, that one and what came with it included.
pub fn until(monitor: &mut Monitor, what: &str, wanted: impl Fn(&Change) -> bool) -> Vec<Change> {
    let end = Instant::now() + PATIENCE;
    let mut seen = Vec::new();
    loop {
        let new = monitor.changes().expect("changes");
        let found = new.iter().any(&wanted);
        seen.extend(new);
        if found {
            return seen;
        }
        let left = end.saturating_duration_since(Instant::now());
        assert!(
            monitor.wait(left).expect("a wait"),
            "{what}: not within {PATIENCE:?}; seen: {seen:?}"
        );
    }
}

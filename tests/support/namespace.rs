//! Network namespaces of the tests, and what is done in them.

#![allow(dead_code, reason = "no test uses all of it")]

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Set in the process that runs inside the namespace.
const INSIDE: &str = "OVPN_DPDK_TEST_INSIDE";
/// How long anything may take that is not expected to fail.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Namespaces that this process made.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Runs the body of the test `name` in a network namespace that goes away with it. Prints why if this machine cannot.
pub fn in_namespace(name: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        ip(&["link", "set", "lo", "up"]);
        // The kernel's own neighbour discovery would count as frames.
        fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").expect("the namespace's own setting");
        return body();
    }
    if let Err(why) = can_make_interfaces() {
        return skip(name, &why);
    }
    let namespace = match Namespace::new("test") {
        Ok(namespace) => namespace,
        Err(why) => return skip(name, &why),
    };
    let me = std::env::current_exe().expect("this test's own file");
    let inside = Command::new("ip")
        .args(["netns", "exec", namespace.name()])
        .arg(me)
        .args([
            "--exact",
            name,
            "--nocapture",
            "--test-threads=1",
            "--include-ignored",
        ])
        .env(INSIDE, "1")
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
    assert!(
        inside.status.success(),
        "{name} failed in its namespace: see above"
    );
}

/// Says that a test cannot run on this machine, and why.
pub fn skip(name: &str, why: &str) {
    println!("SKIP: {name}: {why}");
}

/// Whether a gateway can make TAP interfaces here; why not.
pub fn can_make_interfaces() -> Result<(), String> {
    let tun = File::options().read(true).write(true).open("/dev/net/tun");
    tun.map(drop).map_err(|e| format!("/dev/net/tun: {e}"))
}

/// A network namespace, deleted when dropped.
pub struct Namespace(String);

impl Namespace {
    /// Makes one; its name has `word` in it. The error says why this machine cannot.
    pub fn new(word: &str) -> Result<Namespace, String> {
        let namespace = Namespace(format!(
            "ovpn-{word}-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        ));
        let made = Command::new("ip").args(["netns", "add", &namespace.0]).output();
        match made {
            Ok(out) if out.status.success() => Ok(namespace),
            Ok(out) => Err(String::from_utf8_lossy(&out.stderr).trim().to_owned()),
            Err(e) => Err(format!("ip: {e}")),
        }
    }

    /// Its name, as `ip netns` lists it.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// A program to be run in it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(program);
        command
    }

    /// Runs `body` on a thread that is in it. Sockets made there stay in it, and /proc/sys/net is its own.
    pub fn enter<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        let file = File::open(Path::new("/var/run/netns").join(&self.0)).expect("made before");
        std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may");
                body()
            });
            inside
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.0])
            .stderr(Stdio::null())
            .status();
    }
}

/// A program that runs beside the test; killed when dropped.
pub struct Background(Option<Child>);

impl Background {
    /// Starts it; what it prints is kept.
    pub fn start(command: &mut Command) -> Background {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Background(Some(command.spawn().expect("ip was there before")))
    }

    /// Waits for its end, which has to be a success; what it printed.
    pub fn finish(mut self) -> String {
        let out = self
            .0
            .take()
            .expect("taken once")
            .wait_with_output()
            .expect("a child");
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(
            out.status.success(),
            "{said}{}",
            String::from_utf8_lossy(&out.stderr)
        );
        said
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs a program that has to succeed; what it printed.
pub fn run(command: &mut Command) -> String {
    let out = command
        .output()
        .unwrap_or_else(|e| panic!("{:?}: {e}", command.get_program()));
    assert!(
        out.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Runs `ip` with these words.
pub fn ip(words: &[&str]) {
    run(Command::new("ip").args(words));
}

/// Whether the namespace has an interface of that name.
pub fn interface_exists(name: &str) -> bool {
    Path::new("/proc/sys/net/ipv4/conf").join(name).exists()
}

/// The address of an interface.
pub fn mac(interface: &str) -> [u8; 6] {
    let out = Command::new("ip")
        .args(["-j", "link", "show", interface])
        .output()
        .expect("iproute2 is installed");
    let links: Value = serde_json::from_slice(&out.stdout).expect("ip -j prints JSON");
    let text = links[0]["address"].as_str().expect("an address").to_owned();
    let bytes: Vec<u8> = text
        .split(':')
        .map(|b| u8::from_str_radix(b, 16).expect("hexadecimal"))
        .collect();
    bytes.try_into().expect("six bytes")
}

/// Waits until `what` holds.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

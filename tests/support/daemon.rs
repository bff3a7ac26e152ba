//! Stock OpenVPN daemons on machines (network namespaces) that a bridge joins, with their data channel in a gateway or in
//! the daemon itself, which the same test can run with for comparison.
//!
//! [`Net`] are the machines, [`server()`] and [`client()`] make daemons on them. All of it goes away when dropped, also when
//! a test fails: then the logs are printed.

#![allow(dead_code, unused_imports, reason = "no test uses all of it")]

#[path = "daemon/carry.rs"]
mod carry;
#[path = "daemon/client.rs"]
mod client;
#[path = "daemon/config.rs"]
mod config;
#[path = "daemon/log.rs"]
mod log;
#[path = "daemon/machine.rs"]
mod machine;
#[path = "daemon/management.rs"]
mod management;
#[path = "daemon/pki.rs"]
mod pki;
#[path = "daemon/report.rs"]
mod report;
#[path = "daemon/server.rs"]
mod server;
#[path = "daemon/status.rs"]
mod status;
#[path = "daemon/topology.rs"]
mod topology;
#[path = "daemon/traffic.rs"]
mod traffic;

use crate::gateway::{PATIENCE, run};
pub use carry::connects;
pub use client::client;
pub use config::Options;
pub use log::{INITIALISED, Log};
pub use machine::{HOST, Machine, SERVER};
pub use management::{ByteCount, Management};
pub use pki::{Identity, Pki};
pub use report::Status;
pub use server::{port, server, server_address};
pub use status::{ClientRow, StatusFile};
use std::net::IpAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use tempfile::TempDir;
pub use topology::{Net, Plan};
pub use traffic::{Flow, Iperf, Pings, Transfer};

/// The environment variable that makes the preload library do something.
pub const SOCKET_VARIABLE: &str = "OVPN_DCO_SOCKET";
/// The environment variable that, if it is `own`, has all machines of all tests be without a gateway.
pub const PATH_VARIABLE: &str = "OVPN_DPDK_TEST_PATH";
/// Lines of a log that are printed when a test fails.
const LAST_WORDS: usize = 80;

/// Where the data channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// In the daemon itself.
    Own,
    /// In a gateway on the same machine.
    Offload,
}

impl Path {
    /// This one, or [`Path::Own`] where the environment says so: the same test without a gateway, for comparison.
    pub fn chosen(self) -> Path {
        match std::env::var_os(PATH_VARIABLE) {
            Some(path) if path == "own" => Path::Own,
            Some(other) => panic!("{PATH_VARIABLE} is {other:?}, not \"own\""),
            None => self,
        }
    }
}

/// Where the preload library is: beside the program.
pub fn preload_library() -> PathBuf {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_ovpn-dpdk"));
    let library = program.with_file_name("libovpn_dco_preload.so");
    assert!(
        library.exists(),
        "{} is missing: cargo build -p ovpn-dco-preload",
        library.display()
    );
    library
}

/// A running daemon; killed and reaped when dropped.
pub struct Daemon<'n> {
    /// Where it runs.
    pub machine: &'n Machine,
    child: Child,
    log: Log,
    /// Its files: configuration, log, status, management.
    folder: TempDir,
    path: Path,
    interface: String,
}

impl<'n> Daemon<'n> {
    fn new(machine: &'n Machine, child: Child, folder: TempDir, path: Path, interface: String) -> Daemon<'n> {
        Daemon {
            machine,
            child,
            log: Log::new(folder.path().join("log")),
            folder,
            path,
            interface,
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The name of its tunnel interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Waits until it has connected, or serves, for the first time; its data channel must be where it should be.
    pub fn connected(&mut self) {
        self.connected_times(1);
        self.assert_path();
    }

    /// Waits until it has connected, or served, for the `times`th time, counted from its start.
    pub fn connected_times(&mut self, times: usize) {
        let until = Instant::now() + PATIENCE;
        while self.said(INITIALISED).len() < times {
            let ended = self.child.try_wait().expect("a child");
            assert!(
                ended.is_none() && Instant::now() < until,
                "not connected {times} times ({ended:?})"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asserts that its data channel is where it should be, by its log, and by what a gateway says.
    pub fn assert_path(&self) {
        let offloaded = self.offloaded(&self.interface);
        match self.path {
            Path::Offload => {
                offloaded.unwrap_or_else(|why| panic!("not offloaded: {why}"));
                self.machine.status().assert_drives(self.pid(), &self.interface);
            }
            Path::Own => assert!(offloaded.is_err(), "it has an offload, of the kernel's?"),
        }
    }

    /// Where its data channel should be.
    pub fn path(&self) -> Path {
        self.path
    }

    /// The address of its tunnel interface, once it has one. Not a link-local one.
    pub fn vpn(&self, v6: bool) -> IpAddr {
        self.machine.address_of(&self.interface, v6)
    }

    /// Sends it a signal, such as "USR1".
    pub fn signal(&self, signal: &str) {
        run(Command::new("kill").args(["-s", signal, &self.pid().to_string()]));
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Waits for its end.
    pub fn wait(&mut self, patience: Duration) -> ExitStatus {
        let until = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(Instant::now() < until, "the daemon still runs after {patience:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGTERM: it ends with status 0 within five seconds.
    pub fn end(mut self) {
        self.signal("TERM");
        let status = self.wait(Duration::from_secs(5));
        assert_eq!(status.code(), Some(0), "the daemon's end");
    }

    /// SIGKILL: it ends without a word to the other side.
    pub fn kill(mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("a child");
    }

    /// Its management interface.
    pub fn management(&self) -> Management {
        Management::open(&self.folder.path().join("management"))
    }

    /// Its status file, which it writes every second, in a version written after this call.
    pub fn status(&self) -> StatusFile {
        StatusFile::next(&self.folder.path().join("status"))
    }
}

impl Deref for Daemon<'_> {
    type Target = Log;

    fn deref(&self) -> &Log {
        &self.log
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let text = self.text();
            let lines: Vec<_> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n");
            eprintln!("the daemon of {} logged:\n{last}", self.machine.name());
        }
    }
}

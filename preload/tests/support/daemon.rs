//! Stock daemons, with the library and without.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::child::library;

/// The server's.
pub const PORT: &str = "11940";
/// What a daemon says when it is ready.
pub const UP: &str = "Initialization Sequence Completed";
/// Longer than anything takes.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon, which ends with the test, and what it says.
pub struct Daemon {
    process: Child,
    log: PathBuf,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            println!("{}:\n{}", self.log.display(), self.said());
        }
    }
}

impl Daemon {
    /// Starts one that says what it says into a file of that name.
    pub fn start(mut command: Command, folder: &Path, name: &str) -> Daemon {
        let log = folder.join(name);
        let file = std::fs::File::create(&log).unwrap();
        let process = command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(file)
            .spawn()
            .unwrap();
        Daemon { process, log }
    }

    /// All that it said.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until it has said something so many times.
    pub fn wait_for(&self, text: &str, times: usize) {
        let until = Instant::now() + PATIENCE;
        while self.said().matches(text).count() < times {
            assert!(Instant::now() < until, "no {text:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        let done = Command::new("kill")
            .args(["-s", name, &self.process.id().to_string()])
            .status();
        assert!(done.unwrap().success());
    }

    /// Waits for its end.
    pub fn end(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A command in its network namespace.
    pub fn beside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.process.id().to_string(), "-n", program]);
        command
    }
}

/// Why these tests cannot run here, if so.
fn missing() -> Option<&'static str> {
    let found = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let namespace = Command::new("unshare").args(["-n", "true"]).status();
    if !namespace.is_ok_and(|status| status.success()) {
        Some("no network namespaces (not root?)")
    } else if !Path::new("/dev/net/tun").exists() {
        Some("no /dev/net/tun")
    } else if !found("openvpn") {
        Some("no openvpn")
    } else if !found("openssl") {
        Some("no openssl")
    } else {
        None
    }
}

/// A folder with the credentials of both ends. None: these tests cannot run here, which is said.
pub fn folder(test: &str) -> Option<tempfile::TempDir> {
    if let Some(reason) = missing() {
        println!("SKIP: {test}: {reason}");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    // The daemon gives up being root in one test.
    let open = Command::new("chmod").arg("755").arg(folder.path()).status();
    assert!(open.unwrap().success());
    certificate(folder.path());
    Some(folder)
}

/// A certificate that is its own authority, for both ends.
fn certificate(folder: &Path) {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ])
        .args([
            "-days", "2", "-subj", "/CN=test", "-keyout", "key.pem", "-out", "cert.pem",
        ])
        .current_dir(folder)
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
}

/// A shell line that makes the interface, in a network namespace of its own, and turns into the daemon with the library.
pub fn with_library(socket: &Path) -> Command {
    let line = format!(
        "ip link set lo up && ip tuntap add dev ovpn0 mode tun && \
         exec env LD_PRELOAD={} OVPN_DCO_SOCKET={} openvpn --dev ovpn0 --dev-type tun \"$@\"",
        library().display(),
        socket.display()
    );
    let mut command = Command::new("unshare");
    command.args(["-n", "sh", "-c", &line, "openvpn"]);
    command
}

const CREDENTIALS: [&str; 10] = [
    "--ca", "cert.pem", "--cert", "cert.pem", "--key", "key.pem", "--proto", "udp4", "--verb", "3",
];

/// A server without its interface.
pub fn server_options(command: &mut Command) -> &mut Command {
    command
        .args(CREDENTIALS)
        .args(["--mode", "server", "--tls-server", "--dh", "none", "--port", PORT]);
    command.args([
        "--topology",
        "subnet",
        "--server",
        "10.8.0.0",
        "255.255.255.0",
        "--keepalive",
        "1",
        "9",
    ])
}

/// A client without its interface.
pub fn client_options(command: &mut Command) -> &mut Command {
    command
        .args(CREDENTIALS)
        .args(["--client", "--nobind", "--remote", "127.0.0.1", PORT])
}

/// A server with the library.
pub fn server(folder: &Path, socket: &Path, more: &[&str]) -> Daemon {
    let mut command = with_library(socket);
    server_options(&mut command).args(more);
    Daemon::start(command, folder, "server.log")
}

/// A client without offload beside the server.
pub fn client(folder: &Path, server: &Daemon) -> Daemon {
    let mut command = server.beside("openvpn");
    client_options(&mut command).args([
        "--dev",
        "tun9",
        "--disable-dco",
        "--ifconfig-noexec",
        "--route-noexec",
    ]);
    Daemon::start(command, folder, "client.log")
}

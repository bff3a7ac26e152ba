//! A gateway in a network namespace of its own: `run` as a process, and the kernel's side of its interfaces.

#![allow(dead_code, reason = "no test uses all of it")]

#[path = "namespace.rs"]
mod namespace;

pub use namespace::*;
use pcap::{Active, Capture, Linktype};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Gateways that this process started.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A file among the captures.
pub fn captured(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/captures")
        .join(name)
}

/// What a configuration is made of, besides the name.
pub struct Setup<'a> {
    /// The NIC port: one EAL argument and the port's name.
    pub nic: (&'a str, &'a str),
    /// What the host port is made of.
    pub host: &'a str,
    /// More lines of the top level of the configuration.
    pub general: &'a str,
    /// A capture whose keys file is used.
    pub keys: &'a str,
    /// More lines of `[[tunnel]]`.
    pub tunnel: &'a str,
}

/// `run` as a process, ended and reaped when dropped.
pub struct Gateway {
    child: Child,
    /// Its name, which is EAL's file prefix.
    pub name: String,
    /// Its files: `gw.toml`, `out`, `err`.
    pub folder: TempDir,
}

impl Gateway {
    /// Starts it with host interface `host0` and tunnel interface `tun0`; ready when this returns.
    pub fn start(setup: &Setup, arguments: &[&str]) -> Gateway {
        Gateway::spawn(setup, arguments).ready()
    }

    /// Waits until it says that packets flow.
    pub fn ready(mut self) -> Gateway {
        let until = Instant::now() + PATIENCE;
        while !self.stdout().lines().any(|line| line == "ready") {
            let ended = self.child.try_wait().expect("a child");
            assert!(
                ended.is_none() && Instant::now() < until,
                "not ready ({ended:?}): {}",
                self.stderr()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        self
    }

    /// Starts it.
    pub fn spawn(setup: &Setup, arguments: &[&str]) -> Gateway {
        let keys = fs::read_to_string(captured(&format!("{}.keys.json", setup.keys))).expect("keys");
        let (vdev, port) = setup.nic;
        let Setup {
            host,
            general,
            tunnel,
            ..
        } = setup;
        let text = format!(
            "eal = [\"--vdev={vdev}\"]\ninsecure_static_keys = true\n{general}\n[nic]\nport = \"{port}\"\n\
             [host]\nkind = \"{host}\"\ninterface = \"host0\"\n[[tunnel]]\nkind = \"tap\"\ninterface = \"tun0\"\n\
             source_check = false\nkeys_file = \"keys.json\"\n{tunnel}\n"
        );
        Gateway::spawn_in(None, &text, &keys, arguments)
    }

    /// Starts it with this configuration, to which its name is added, and this text as `keys.json` beside it; in a
    /// namespace, or in that of the caller.
    pub fn spawn_in(namespace: Option<&Namespace>, config: &str, keys: &str, arguments: &[&str]) -> Gateway {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{}-{count}", std::process::id());
        Gateway::spawn_as(name, namespace, config, keys, arguments)
    }

    /// Like [`Gateway::spawn_in`], with a name: that of one before.
    pub fn spawn_as(
        name: String,
        namespace: Option<&Namespace>,
        config: &str,
        keys: &str,
        arguments: &[&str],
    ) -> Gateway {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut options = File::options();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(folder.path().join("keys.json"));
        let written = file.as_mut().map(|file| file.write_all(keys.as_bytes()));
        written.expect("a new folder").expect("room in it");
        let path = folder.path().join("gw.toml");
        fs::write(&path, format!("name = \"{name}\"\n{config}")).expect("a configuration");
        let file = |name: &str| File::create(folder.path().join(name)).expect("a file");
        let program = env!("CARGO_BIN_EXE_ovpn-dpdk");
        let mut command = match namespace {
            Some(namespace) => namespace.command(program),
            None => Command::new(program),
        };
        let child = command
            .args(["run", "--config"])
            .arg(&path)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .expect("the program starts");
        Gateway { child, name, folder }
    }

    /// What it printed so far.
    pub fn stdout(&self) -> String {
        fs::read_to_string(self.folder.path().join("out")).expect("its output")
    }

    /// What it logged so far.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.folder.path().join("err")).expect("its log")
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill")
            .args(["-s", signal, &pid])
            .status()
            .expect("kill is there");
        assert!(sent.success(), "kill -s {signal} {pid}");
    }

    /// Waits for its end.
    pub fn wait(&mut self, patience: Duration) -> ExitStatus {
        let until = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(
                Instant::now() < until,
                "it still runs after {patience:?}: {}",
                self.stderr()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGTERM: it ends with status 0 within two seconds, and leaves no interface and no EAL file.
    pub fn end(self) {
        let name = self.terminate();
        nothing_left(&name);
    }

    /// SIGTERM: it ends with status 0, within two seconds on a machine that has nothing else to do. Its name.
    pub fn terminate(mut self) -> String {
        self.signal("TERM");
        let status = self.wait(PATIENCE);
        assert_eq!(status.code(), Some(0), "{}", self.stderr());
        self.name.clone()
    }

    /// What telemetry answers to a command. By its socket, since Debian's dpdk-telemetry.py is a Python to start each time.
    pub fn telemetry(&self, command: &str) -> Value {
        use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType, sockopt};
        let path = Path::new("/var/run/dpdk")
            .join(&self.name)
            .join("dpdk_telemetry.v2");
        let ask = || -> rustix::io::Result<Vec<u8>> {
            let socket = net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
            net::connect(&socket, &SocketAddrUnix::new(&path)?)?;
            let mut answer = vec![0; 1 << 17];
            // First it says who it is.
            net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
            net::send(&socket, command.as_bytes(), SendFlags::NOSIGNAL)?;
            let (length, _) = net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
            answer.truncate(length);
            Ok(answer)
        };
        let answer = ask().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        let key = command.split(',').next().expect("a command");
        answer
            .get(key)
            .cloned()
            .unwrap_or_else(|| panic!("no answer to {command}: {answer}"))
    }

    /// How many packets were dropped for a reason so far, by telemetry.
    pub fn dropped(&self, reason: &str) -> u64 {
        self.telemetry("/ovpn/drops")[reason]
            .as_u64()
            .unwrap_or_else(|| panic!("no reason {reason}"))
    }

    /// A counter of the one worker, by telemetry.
    pub fn counter(&self, name: &str) -> u64 {
        self.telemetry("/ovpn/lcores")[name][0]
            .as_u64()
            .unwrap_or_else(|| panic!("no counter {name}"))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A test that failed kills a gateway in the middle, and no other of its name comes to clean up.
        if std::thread::panicking() {
            remove_files(&self.name);
        }
    }
}

/// Removes what a gateway that was killed leaves, unless another of its name cleans up.
pub fn remove_files(name: &str) {
    for ending in ["undo", "sock"] {
        let _ = fs::remove_file(format!("/run/ovpn-dpdk/{name}.{ending}"));
    }
    let _ = fs::remove_dir_all(Path::new("/var/run/dpdk").join(name));
}

/// Asserts that a gateway left no interface and no file of EAL.
pub fn nothing_left(name: &str) {
    for interface in ["host0", "tun0"] {
        assert!(!interface_exists(interface), "{interface} is left");
    }
    no_files_left(name);
}

/// Asserts that a gateway left no file of EAL.
pub fn no_files_left(name: &str) {
    let folder = Path::new("/var/run/dpdk").join(name);
    assert!(!folder.exists(), "{} is left", folder.display());
    let pages = fs::read_dir("/dev/hugepages").into_iter().flatten().flatten();
    let left: Vec<_> = pages
        .map(|e| e.file_name())
        .filter(|f| f.to_string_lossy().starts_with(name))
        .collect();
    assert!(left.is_empty(), "{left:?} are left");
}

/// The kernel's side of an interface, or of all ("any").
pub struct Wire(Capture<Active>);

impl Wire {
    /// The interface behind a TAP as NIC, with room for all that a test sends at once: a TAP drops what does not fit.
    pub fn of_nic() -> Wire {
        ip(&["link", "set", "nic0", "txqueuelen", "20000"]);
        Wire::of("nic0")
    }

    /// From now on, frames in both directions.
    pub fn of(interface: &str) -> Wire {
        // The buffer is divided into places of the snapshot length: some 30,000 frames.
        let capture = Capture::from_device(interface)
            .and_then(|c| c.snaplen(2048).buffer_size(64 << 20).immediate_mode(true).open())
            .and_then(Capture::setnonblock);
        Wire(capture.unwrap_or_else(|e| panic!("{interface}: {e}")))
    }

    /// Sends a frame out of the interface, into the port behind it; waits while its queue is full.
    pub fn send(&mut self, frame: &[u8]) {
        let until = Instant::now() + PATIENCE;
        while let Err(e) = self.0.sendpacket(frame) {
            assert!(Instant::now() < until, "{e}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The next frame, if there is one.
    pub fn next(&mut self) -> Option<Vec<u8>> {
        match self.0.next_packet() {
            Ok(packet) => Some(packet.data.to_vec()),
            Err(pcap::Error::TimeoutExpired | pcap::Error::NoMorePackets) => None,
            Err(e) => panic!("{e}"),
        }
    }

    /// The next frame that `wanted` takes; the others are passed over.
    pub fn expect(&mut self, what: &str, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut found = None;
        wait_for(what, || {
            found = self.next().filter(|f| wanted(f));
            found.is_some()
        });
        found.expect("waited for")
    }

    /// On "any": the peer id and the inner packet of each frame that is from a peer, until there were `n` of them
    /// and no more came for half a second.
    pub fn peers_packets(&mut self, n: usize) -> Vec<(u32, Vec<u8>)> {
        assert_eq!(
            self.0.get_datalink(),
            Linktype::LINUX_SLL,
            "libpcap's \"any\" device"
        );
        let (mut packets, until) = (Vec::new(), Instant::now() + PATIENCE);
        let mut last = Instant::now();
        while (packets.len() < n && Instant::now() < until) || last.elapsed() < Duration::from_millis(500) {
            let Some(frame) = self.next() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            last = Instant::now();
            // Packet type, ARPHRD, address length, address in 8 bytes, protocol.
            if let Some(id) = frame[6..].strip_prefix(&[0x02, 0x6f, 0x76]) {
                packets.push((u32::from_be_bytes([0, id[0], id[1], id[2]]), frame[16..].to_vec()));
            }
        }
        packets
    }
}

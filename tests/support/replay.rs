//! What the tests of `replay` share: the captures with what is in them, and running the program on them.
#![allow(dead_code, reason = "not every test needs all of it")]

#[path = "pcap.rs"]
pub mod pcap;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A capture of `tests/captures` and what its README says of it.
pub struct Known {
    /// The first part of its file names.
    pub name: &'static str,
    /// Peer id, inner packets delivered, SHA-256 over them.
    pub peers: &'static [(u64, u64, &'static str)],
    /// Datagrams to the listening address that are not DATA_V2.
    pub to_daemon: u64,
    /// Keepalives.
    pub keepalives: u64,
}

/// The captures.
pub const CAPTURES: [Known; 4] = [
    Known {
        name: "aes128-udp4",
        peers: &[(
            0,
            3314,
            "341f0a08f9960b39501513b7b7b93a3aa036b31c1528fea3e57a8e4fc5d86f4d",
        )],
        to_daemon: 22,
        keepalives: 6,
    },
    Known {
        name: "aes256-udp6",
        peers: &[(
            0,
            3760,
            "0715f800848368fa330d679347a79dd3fccbb3174a6fceb1d0dd4b0d81648d2d",
        )],
        to_daemon: 22,
        keepalives: 5,
    },
    Known {
        name: "chacha20-udp4",
        peers: &[(
            0,
            3413,
            "3202c8927c47de50d03b9a6c8758059e0ea9e4fdd6e6c0ba890e98efd4c3f2be",
        )],
        to_daemon: 8,
        keepalives: 6,
    },
    Known {
        name: "three-clients",
        peers: &[
            (
                0,
                25,
                "da9803c60cd9501cdf69505fddef5d32d36bc629d86f12ce85c566f913df6157",
            ),
            (
                1,
                181,
                "e714345e0ce93b21e576067147ec941481e300f792099ae8ef7532db2ec160fd",
            ),
            (
                2,
                367,
                "00bfda544b2128be8097cb7c13ace8e2d6115c10454b84b3e06a0a8fc5843b94",
            ),
        ],
        to_daemon: 24,
        keepalives: 3,
    },
];

impl Known {
    /// The capture of the server's port.
    pub fn outer(&self) -> PathBuf {
        captures().join(format!("{}.outer.pcap", self.name))
    }

    /// The keys file.
    pub fn keys(&self) -> PathBuf {
        captures().join(format!("{}.keys.json", self.name))
    }

    /// Inner packets of all peers.
    pub fn delivered(&self) -> u64 {
        self.peers.iter().map(|(_, packets, _)| packets).sum()
    }

    /// Checks what `replay --json` printed: packets and digests of each peer, keepalives, the daemon's, no drop, and an end for
    /// every frame. `ordered`: whether the digests hold, which are over the packets in the capture's order.
    pub fn check(&self, out: &Value, ordered: bool, of: &str) {
        let of = format!("{} {of}: {out}", self.name);
        let peers = out["peers"].as_array().expect("peers");
        assert_eq!(peers.len(), self.peers.len(), "{of}");
        for (peer, (id, packets, sha256)) in peers.iter().zip(self.peers) {
            assert_eq!(
                (peer["peer"].as_u64(), peer["delivered"].as_u64()),
                (Some(*id), Some(*packets)),
                "{of}"
            );
            assert!(!ordered || peer["sha256"].as_str() == Some(*sha256), "{of}");
        }
        assert_eq!(out["keepalives"].as_u64(), Some(self.keepalives), "{of}");
        assert_eq!(out["to_daemon"].as_u64(), Some(self.to_daemon), "{of}");
        assert_eq!(out["drops"], serde_json::json!({}), "{of}");
        let n = |name: &str| out[name].as_u64().expect("a number");
        // Nothing was dropped, so every record was delivered or a keepalive, and all that came in fragments were records.
        let records: u64 = peers
            .iter()
            .map(|p| p["records"].as_u64().expect("a number"))
            .sum();
        assert_eq!(records, self.delivered() + self.keepalives, "{of}");
        assert_eq!(
            n("captured"),
            n("to_host") + (records - n("reassembled")) + n("fragments"),
            "{of}"
        );
    }
}

/// The folder of the captures.
pub fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures")
}

/// What a run of the program left.
#[derive(Debug)]
pub struct Ran {
    /// Process id.
    pub pid: u32,
    /// Exit code; None when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// What `--json` printed; the run went well and had nothing to say, unless that others may read the keys file, as
    /// in a checkout.
    pub fn json(&self) -> Value {
        let said = self
            .stderr
            .lines()
            .filter(|line| !line.ends_with("chmod 600 closes it"));
        assert_eq!((self.code, said.count()), (Some(0), 0), "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// EAL arguments for CPU `cpu` under this file prefix, beside any other run.
pub fn eal(cpu: usize, prefix: &str) -> Vec<String> {
    let (cpu, prefix) = (format!("-l{cpu}"), format!("--file-prefix={prefix}"));
    let words = [
        &cpu,
        "--no-huge",
        "-m",
        "256",
        "--no-pci",
        "--no-telemetry",
        "--no-shconf",
        &prefix,
    ];
    words.map(String::from).to_vec()
}

/// Runs the program with these arguments.
pub fn program<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ovpn-dpdk"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().expect("the program starts");
    let pid = child.id();
    let done = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran {
        pid,
        code: done.status.code(),
        stdout: text(done.stdout),
        stderr: text(done.stderr),
    }
}

/// Runs `replay --json` on CPU `cpu`; `more`: further arguments. Its runtime folder is looked for and must be gone.
pub fn replay(cpu: usize, keys: &Path, input: &Path, output: &Path, more: &[&str]) -> Ran {
    let prefix = unique();
    let mut words = eal(cpu, &prefix);
    words.extend(["--", "replay", "--json", "--keys"].map(String::from));
    let path = |p: &Path| p.to_str().expect("a name in UTF-8").to_owned();
    words.extend([
        path(keys),
        "--in".into(),
        path(input),
        "--out".into(),
        path(output),
    ]);
    words.extend(more.iter().map(|m| m.to_string()));
    let ran = program(&words);
    nothing_left(&prefix);
    ran
}

/// A file prefix that nobody else has.
pub fn unique() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(
        "replay-test-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Checks that nothing is left in the runtime folder of a prefix, and takes the empty folder away.
pub fn nothing_left(prefix: &str) {
    let folder = Path::new("/var/run/dpdk").join(prefix);
    let Ok(left) = std::fs::read_dir(&folder) else {
        return;
    };
    let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{}: {left:?}", folder.display());
    std::fs::remove_dir(&folder).expect("an empty folder");
}

/// Inner packets of the frames that the tunnel port wrote.
pub fn inner(output: &Path) -> Vec<Vec<u8>> {
    pcap::read(output)
        .into_iter()
        .map(|mut frame| frame.split_off(14))
        .collect()
}

/// Runs `case` for every item, on two CPUs at a time where there are two.
pub fn in_pairs<T: Sync>(items: &[T], case: impl Fn(usize, &T) + Sync) {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get().min(2));
    let allowed = allowed_cpus();
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for cpu in &allowed[..cpus.min(allowed.len())] {
            let (next, case) = (&next, &case);
            scope.spawn(move || {
                while let Some(item) = items.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    case(*cpu, item);
                }
            });
        }
    });
}

/// The CPUs that this process may use (`Cpus_allowed_list` in `/proc/self/status`).
fn allowed_cpus() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc is mounted");
    let list = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))
        .expect("a line of it")
        .trim();
    let number = |text: &str| text.parse::<usize>().expect("a CPU number");
    let range = |part: &str| match part.split_once('-') {
        Some((from, to)) => number(from)..=number(to),
        None => number(part)..=number(part),
    };
    list.split(',').flat_map(range).collect()
}

//! The configuration after validation: what the rest of the program works with.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::error::ConfigError;
use crate::layers::Origins;
use crate::tunnel::Tunnel;

/// A validated configuration. Made by [`Config::load`] only, so whoever holds one may rely on its ranges.
#[derive(Debug, Clone)]
pub struct Config {
    /// Instance name, 1 to 32 of `A-Z a-z 0-9 _ . -`: EAL file prefix, socket and log names.
    pub name: String,
    /// Extra EAL arguments.
    pub eal: Vec<String>,
    /// Worker CPUs.
    pub lcores: Lcores,
    /// Packets taken from a port per poll, 1 to 256.
    pub burst: u16,
    /// Whether records of one flow are opened as a batch.
    pub batch: bool,
    /// How far ahead cache lines are asked for.
    pub lookahead: Lookahead,
    /// Buffers in the mempool.
    pub mbufs: AutoOr<u32>,
    /// Microseconds that a worker sleeps after an empty poll; 0 spins.
    pub idle_sleep_us: u32,
    /// Whether [`Tunnel::keys_file`] may be used by the gateway (see [`Config::check_static_keys`]).
    pub insecure_static_keys: bool,
    /// Where packet ids of static keys are reserved durably.
    pub state_file: PathBuf,
    /// The NIC port.
    pub nic: Nic,
    /// The kernel's side of the NIC.
    pub host: Host,
    /// The tunnels, at least one.
    pub tunnels: Vec<Tunnel>,
    /// The daemon's control socket.
    pub control: Control,
    /// The metrics endpoint.
    pub metrics: Metrics,
    /// Log output.
    pub log: Log,
    /// Where each effective value came from, and how errors name the file.
    pub(crate) origins: Origins,
}

/// A number, or "auto": the program chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoOr<T> {
    /// The program chooses.
    Auto,
    /// As configured.
    Value(T),
}

/// Which CPUs run workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lcores {
    /// The allowed CPUs but the first, which is left to main and control; the only one, if there is one.
    Auto,
    /// These, in this order; not empty, no duplicates, none over [`crate::cpulist::CPU_MAX`].
    List(Vec<usize>),
}

/// How far ahead of opening a record its cache lines are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lookahead {
    /// Records ahead, 0 (off) to 16.
    pub distance: AutoOr<u8>,
    /// Which records count as "ahead".
    pub scope: LookaheadScope,
}

/// Over which records the lookahead runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookaheadScope {
    /// All records of the burst, in opening order, across batches.
    Burst,
    /// Only the records of the same batch.
    Batch,
}

/// What stands behind a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortKind {
    /// virtio-user where `/dev/vhost-net` opens, else TAP.
    Auto,
    /// virtio-user on vhost-net.
    VirtioUser,
    /// DPDK's TAP driver.
    Tap,
    /// No port of ours: the NIC's own netdev stays with the kernel. Host port only.
    Kernel,
    /// A port that the EAL arguments make, by its ethdev name.
    Ethdev(String),
}

/// The NIC port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    /// PCI address or vdev name.
    pub port: String,
    /// Queue pairs, 1 to 128.
    pub queues: AutoOr<u16>,
    /// Largest IP packet in bytes, 576 to 9600.
    pub mtu: u16,
    /// Flow isolation.
    pub isolate: Isolate,
    /// Where the Ethernet header of outbound packets comes from.
    pub outbound_l2: OutboundL2,
}

/// Whether the NIC hands us only what is for a listening address (DPDK's flow isolation).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolate {
    /// Where the driver offers it and keeps the kernel's netdev.
    Auto,
    /// Demanded.
    On,
    /// Not used.
    Off,
}

/// Where the Ethernet header of an outbound packet comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboundL2 {
    /// The kernel's route and neighbour tables of the host interface.
    Kernel,
    /// The way the peer was last heard.
    LastHeard,
}

/// The kernel's side of the NIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// What stands behind the host port.
    pub kind: PortKind,
    /// The kernel interface's name.
    pub interface: String,
}

/// The daemon's control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// Path of the socket, at most 107 bytes (`sockaddr_un`).
    pub socket: PathBuf,
    /// The group that may connect, besides root.
    pub group: String,
}

/// The metrics endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    /// Where to serve; `None` is off.
    pub listen: Option<SocketAddr>,
}

/// Log output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// Form of a log line.
    pub format: LogFormat,
    /// The least severe level that is logged.
    pub level: LogLevel,
}

/// Form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Log levels, most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Config {
    /// Reads and validates the configuration file, with the process's environment laid over it.
    ///
    /// # Errors
    /// The first thing wrong, as one line (see [`ConfigError`]).
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| ConfigError::Read {
            file: file.clone(),
            reason: e.to_string(),
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Config::parse(&text, &file, folder, std::env::vars_os())
    }

    /// Validates configuration text. `file` names it in errors, relative paths in it are relative to `folder`,
    /// and of `environment` the variables that begin with `OVPN_DPDK__` are laid over the text.
    ///
    /// # Errors
    /// The first thing wrong, as one line (see [`ConfigError`]).
    pub fn parse(
        text: &str,
        file: &str,
        folder: &Path,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Config, ConfigError> {
        let environment: BTreeMap<OsString, OsString> = environment.into_iter().collect();
        let (raw, origins) = crate::layers::layered(text, file, environment)?;
        crate::check::config(raw, origins, folder)
    }

    /// Refuses static keys unless the operator accepted their risk: after a restart they would repeat packet ids,
    /// and with them AEAD nonces. To be asked before the gateway installs keys of a keys file.
    ///
    /// # Errors
    /// A tunnel has a keys file and `insecure_static_keys` is false.
    pub fn check_static_keys(&self) -> Result<(), ConfigError> {
        let first = self.tunnels.iter().position(|t| t.keys_file.is_some());
        match first {
            Some(i) if !self.insecure_static_keys => Err(self.origins.error(
                &format!("tunnel[{i}].keys_file"),
                "static keys are for tests only: they need insecure_static_keys = true",
            )),
            _ => Ok(()),
        }
    }
}

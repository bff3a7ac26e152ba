//! What can go wrong outside the packet path. Each message is one line: what, and what to do about it.

/// An error of this crate. No message holds key bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `rte_eal_init` was already called: it works once per process.
    #[error("the EAL was started before in this process: it starts once")]
    EalTwice,
    /// An EAL argument holds a NUL byte.
    #[error("EAL argument {0:?} holds a NUL byte")]
    EalArgument(String),
    /// `rte_eal_init` failed.
    #[error(
        "the EAL does not start: {reason} ({last}); see its log lines, and check hugepages and permissions"
    )]
    EalInit {
        /// `rte_errno` as text.
        reason: String,
        /// The last line that the EAL logged.
        last: String,
    },
    /// A mempool could not be made.
    #[error(
        "mempool {name}: {count} buffers of {room} bytes cannot be had: {reason}; give the EAL more memory or ask for fewer"
    )]
    Mempool {
        /// Its name.
        name: String,
        /// Buffers asked for.
        count: u32,
        /// Bytes per buffer asked for.
        room: u16,
        /// `rte_errno` as text.
        reason: String,
    },
    /// No port of that name.
    #[error("no port {0}: it is neither a device that the EAL found nor a vdev; see the EAL's log lines")]
    NoPort(String),
    /// The port's frames are shorter than the MTU asks for.
    #[error("port {port}: an MTU of {mtu} is too large for its driver: at most {most}")]
    Mtu {
        /// Name of the port.
        port: String,
        /// The MTU wanted, in bytes.
        mtu: u16,
        /// The largest MTU, in bytes.
        most: u16,
    },
    /// The port is in use here already.
    #[error("port {0} is in use already: name each port once")]
    PortTaken(String),
    /// A virtual device could not be made.
    #[error("vdev {name},{args}: {reason}")]
    Vdev {
        /// Device name, driver first.
        name: String,
        /// Its arguments.
        args: String,
        /// Errno as text.
        reason: String,
    },
    /// A call that configures a port failed.
    #[error("port {port}: {call} failed: {reason}")]
    Port {
        /// Port name.
        port: String,
        /// The DPDK function.
        call: &'static str,
        /// Errno as text.
        reason: String,
    },
    /// The port is not in the state that the call needs.
    #[error("port {port}: {what}")]
    PortState {
        /// Port name.
        port: String,
        /// What is not so.
        what: &'static str,
    },
    /// A queue number that the port does not have.
    #[error("port {port} has no {direction} queue {index}: it has {count}")]
    NoQueue {
        /// Port name.
        port: String,
        /// "rx" or "tx".
        direction: &'static str,
        /// The queue asked for.
        index: u16,
        /// Queues there are.
        count: u16,
    },
    /// A queue that was handed out before.
    #[error("port {port}: {direction} queue {index} has an owner already")]
    QueueTaken {
        /// Port name.
        port: String,
        /// "rx" or "tx".
        direction: &'static str,
        /// The queue asked for.
        index: u16,
    },
    /// Core dumps could not be forbidden.
    #[error("core dumps, which would hold keys, cannot be forbidden: {0}")]
    CoreDumps(std::io::Error),
    /// The reassembly table could not be made.
    #[error("the table for IP reassembly cannot be had; give the EAL more memory")]
    Fragments,
    /// A ring could not be made.
    #[error("ring {name} of {capacity}: {reason}")]
    Ring {
        /// Ring name.
        name: String,
        /// Places asked for.
        capacity: u32,
        /// Errno as text.
        reason: String,
    },
    /// A name that no kernel interface can have, or that EAL device arguments cannot carry.
    #[error("interface name {name:?} {why}")]
    InterfaceName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The kernel has an interface of that name.
    #[error(
        "interface {0} exists already: choose another name, stop the process that made it, or delete it (ip link delete {0})"
    )]
    InterfaceTaken(String),
    /// `/dev/net/tun` does not open.
    #[error("/dev/net/tun cannot be opened: {0}; load the tun module and run as root or with CAP_NET_ADMIN")]
    NoTun(std::io::Error),
    /// The kernel does not let this process make interfaces.
    #[error("interface {0} cannot be made: not permitted; run as root or with CAP_NET_ADMIN")]
    InterfaceRight(String),
    /// `/dev/vhost-net` does not open though virtio-user was asked for.
    #[error("/dev/vhost-net cannot be opened: {0}; load vhost_net, or use kind \"tap\"")]
    NoVhost(std::io::Error),
    /// A call on a kernel interface failed.
    #[error("interface {interface}: {what}: {source}")]
    Interface {
        /// Interface name.
        interface: String,
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// CPU affinity could not be read or set.
    #[error("CPU affinity of {what}: {source}; check which CPUs this process may use (taskset -p)")]
    Affinity {
        /// Thread or CPU.
        what: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A worker could not be started.
    #[error("worker {name} does not start: {reason}")]
    Worker {
        /// Thread name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A worker panicked.
    #[error("worker {name} panicked: {message}")]
    Panic {
        /// Thread name.
        name: String,
        /// The panic's message.
        message: String,
    },
    /// The IPsec-MB that is loaded at run time is too old.
    #[error("IPsec-MB {found} is loaded but 1.3.0 or later is needed: install libipsec-mb1 1.3 or later")]
    ImbVersion {
        /// Version found.
        found: String,
    },
    /// The CPU lacks instructions that IPsec-MB's AEADs need.
    #[error("{0}")]
    Cpu(String),
    /// IPsec-MB refused.
    #[error("IPsec-MB: {0}")]
    Imb(String),
    /// A key of the wrong length for its cipher.
    #[error("{cipher} takes a key of {want} bytes, not {got}")]
    KeyLength {
        /// Cipher.
        cipher: &'static str,
        /// Bytes needed.
        want: usize,
        /// Bytes given.
        got: usize,
    },
    /// The known-answer self-test failed: nothing that this machine encrypts can be trusted.
    #[error("self-test of {cipher} failed at {step}: this CPU or IPsec-MB computes wrongly, do not use it")]
    SelfTest {
        /// Cipher.
        cipher: &'static str,
        /// "open" or "seal".
        step: &'static str,
    },
    /// A telemetry command could not be registered.
    #[error("telemetry command {command} cannot be registered: {reason}")]
    Telemetry {
        /// The command.
        command: String,
        /// Errno as text.
        reason: String,
    },
    /// The DPDK log could not be redirected.
    #[error("the DPDK log cannot be redirected: {0}")]
    Log(std::io::Error),
}

/// The text of a DPDK return code or `rte_errno`, whatever its sign.
pub(crate) fn errno_text(code: i32) -> String {
    std::io::Error::from_raw_os_error(code.saturating_abs()).to_string()
}

/// The text of `rte_errno` of this thread.
pub(crate) fn rte_errno_text() -> String {
    // SAFETY: reads a per-thread variable of DPDK; no precondition.
    errno_text(unsafe { dpdk_sys::shim_errno() })
}

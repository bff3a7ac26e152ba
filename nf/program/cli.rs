//! The command line.

use crate::program::exit::Failure;
use clap::{Args, Parser, Subcommand, ValueEnum};
use nf_state::{Cipher, Lookahead, Scope};
use std::path::PathBuf;

/// OpenVPN's data channel in user space, on DPDK.
///
/// EAL arguments come first and end at `--`, as in every DPDK program:
///
///     ovpn-dpdk -l 0-3 -a 0000:3b:00.0 -- run --config gw0.toml
///
/// Without them the program chooses: lcores from the configuration, no PCI scan where no port is a PCI device,
/// hugepages where the machine has them.
///
/// Exit codes: 0 done, 1 the machine said no (permission, hugepages, a name that is taken, CPU), 2 wrong usage
/// or configuration, 3 (status only) a gateway that runs but is not healthy. Messages go to stderr, results to stdout.
#[derive(Parser, Debug)]
#[command(
    name = "ovpn-dpdk",
    version,
    verbatim_doc_comment,
    arg_required_else_help = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the gateway; says "ready" when its interfaces are up
    #[command(verbatim_doc_comment)]
    Run(Run),
    /// Play a capture through the inbound path and write what comes out
    ///
    /// The real path between real net_pcap ports: every record of the capture that opens with a key of the keys
    /// file is delivered. Prints, per peer, how many packets were delivered and the SHA-256 over them (each inner
    /// packet preceded by its length as a 32-bit big-endian number), and every drop by reason. A keys file holds no
    /// VPN addresses, so there is no source check.
    #[command(verbatim_doc_comment)]
    Replay(Replay),
    /// Measure a path on one lcore against IPsec-MB alone, in turns
    ///
    /// Without --size and --pool: the tables of the README. Inbound: 64, 256 and 1400 bytes; pools of 8, 24 and
    /// 400 MB; batching and lookahead off and on. Outbound: the same sizes with 8 MB, the UDP checksum left to the
    /// port and computed; 1400 bytes with 400 MB, lookahead off and on. With --size or --pool: one case, or one row
    /// of cases.
    ///
    /// Inbound, the records wait in a prefilled net_ring port, and the tunnel port is net_null. Every record is fresh
    /// ciphertext with its own packet id, the replay window is on, 1 % of the frames are foreign. Outbound, inner
    /// packets wait in a prefilled net_ring that is the tunnel port, and the NIC port is net_null. Every packet is
    /// sealed under a packet id of its own, 1 % of the frames go to MAC addresses that are no peer's.
    /// Buffers are in random order. Before each timed round the caches are brought to the same state by walking a
    /// second pool of the same size. An untimed round checks every packet that comes out.
    #[command(verbatim_doc_comment)]
    Perf(Perf),
    /// Check a configuration file and print what it means
    CheckConfig(CheckConfig),
    /// Ask a running gateway how it is: is the data channel really here?
    ///
    /// Prints tunnels and the daemons that drive them, peers with endpoints, keys (ids and ages, never bytes) and counters,
    /// worker lcores and drops; and, a line each, what is not as it should be: a daemon's tunnel that no daemon drives, a
    /// daemon that is connected and drives no tunnel (its data channel is its own), a peer without a key to send with, a
    /// stuck worker.
    ///
    /// Without an option the gateway is the only one that has a socket in /run/ovpn-dpdk.
    ///
    /// Exit codes, for a monitor: 0 healthy, 3 the gateway runs but something of the above is wrong, 1 no gateway (no
    /// socket, no permission, no answer within 5 seconds), 2 wrong usage.
    #[command(verbatim_doc_comment)]
    Status(Status),
}

/// `run`.
#[derive(Args, Debug)]
pub struct Run {
    /// Configuration file (TOML); OVPN_DPDK__SECTION__KEY in the environment overrides it
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Print a table of ports, lcores, bursts, batches and drops to stdout every S seconds
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub stats_period: Option<u64>,
    /// End, with status 0, when the NIC port has received nothing for S seconds
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub exit_after_idle: Option<u64>,
}

/// `replay`.
#[derive(Args, Debug)]
pub struct Replay {
    /// Keys file (JSON): listening addresses, and each peer's keys in order of installation
    #[arg(long, value_name = "K.json")]
    pub keys: PathBuf,
    /// Capture to play: pcap or pcapng, link type Ethernet, no frame cut short
    #[arg(long = "in", value_name = "OUTER.pcap")]
    pub input: PathBuf,
    /// Where the delivered Ethernet frames go (pcap)
    #[arg(long = "out", value_name = "INNER.pcap")]
    pub output: PathBuf,
    /// Where the frames for the host port go (pcap)
    #[arg(long, value_name = "FILE")]
    pub host_out: Option<PathBuf>,
    /// Build batches of records
    #[arg(long, value_name = "on|off", default_value = "on")]
    pub batch: Switch,
    /// Records to look ahead while one is opened, 0 to 16
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=16))]
    pub prefetch: u8,
    /// Frames in one burst, 1 to 256
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub burst: u16,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `perf`.
#[derive(Args, Debug)]
pub struct Perf {
    /// Inner packet's bytes, 20 to 1800
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(20..=1800))]
    pub size: Option<u16>,
    /// Build batches of records; inbound only, as packets to one peer are always sealed in runs
    #[arg(long, value_name = "on|off")]
    pub batch: Option<Switch>,
    /// Records to look ahead while one is opened: 0 to 16, or "auto"
    #[arg(long, value_name = "N|auto")]
    pub prefetch: Option<Distance>,
    /// Look ahead over the whole burst, or within a batch only
    #[arg(long, value_name = "burst|batch", default_value = "burst")]
    pub scope: ScopeName,
    /// Size of the pool in MB: records x mbuf element size
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub pool: Option<u32>,
    /// From the NIC to the tunnel port, or back; both for the README's tables, else "in", if none is given
    #[arg(long, value_name = "in|out")]
    pub direction: Option<Direction>,
    /// Outbound: leave the UDP checksum to the port, as a NIC that can allows, or compute it
    ///
    /// net_null computes none: "offload" (the default) asks the port for it, which is the path's part of the work.
    #[arg(long, value_name = "offload|software")]
    pub checksum: Option<Checksum>,
    /// AES-128-GCM, AES-192-GCM, AES-256-GCM or CHACHA20-POLY1305
    #[arg(long, value_name = "C", default_value = "AES-128-GCM")]
    pub cipher: Cipher,
    /// Frames in one burst, 1 to 256
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub burst: u16,
    /// Peers; each is one flow with a key of its own
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub peers: u32,
    /// Consecutive records of one peer, or "random": every record's peer is drawn
    #[arg(long, value_name = "N|random", default_value = "16")]
    pub run: RunLength,
    /// Number of lcores; one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1))]
    pub lcores: u16,
    /// Pairs of timed rounds, 5 to 1000
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(5..=1000))]
    pub rounds: u32,
    /// Print one JSON object a case
    #[arg(long)]
    pub json: bool,
}

/// `check-config`.
#[derive(Args, Debug)]
pub struct CheckConfig {
    /// Configuration file (TOML)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// `status`.
#[derive(Args, Debug)]
pub struct Status {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The gateway of this configuration file (TOML)
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    pub config: Option<PathBuf>,
    /// The gateway that has this control socket
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// "on" or "off".
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// Which way records go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    /// From the NIC to the tunnel port.
    In,
    /// From the tunnel port to the NIC.
    Out,
}

/// Who computes the UDP checksum of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Checksum {
    /// The port.
    Offload,
    /// The path.
    Software,
}

/// [`Scope`] as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScopeName {
    /// Across batches.
    Burst,
    /// Within a batch.
    Batch,
}

impl From<ScopeName> for Scope {
    fn from(name: ScopeName) -> Scope {
        match name {
            ScopeName::Burst => Scope::Burst,
            ScopeName::Batch => Scope::Batch,
        }
    }
}

/// A lookahead distance; "auto" is the default distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distance(pub u8);

impl std::str::FromStr for Distance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Distance(Lookahead::default().distance));
        }
        match text.parse() {
            Ok(n) if n <= Lookahead::MAX_DISTANCE => Ok(Distance(n)),
            _ => Err(format!("0 to {} or \"auto\"", Lookahead::MAX_DISTANCE)),
        }
    }
}

/// How the peers of consecutive records are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLength {
    /// This many records of one peer, then the next peer's.
    Fixed(u32),
    /// Each record's peer is drawn.
    Random,
}

impl std::str::FromStr for RunLength {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "random" => Ok(RunLength::Random),
            Ok(n) if (1..=1 << 20).contains(&n) => Ok(RunLength::Fixed(n)),
            _ => Err("1 to 1048576 or \"random\"".into()),
        }
    }
}

impl std::fmt::Display for RunLength {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunLength::Fixed(n) => n.fmt(f),
            RunLength::Random => f.write_str("random"),
        }
    }
}

/// Splits the arguments at `--` into EAL arguments and the command's (with the program's name in front).
///
/// If the first word does not begin with `-`, there are no EAL arguments and it is the command. Words that begin
/// with `-` and no `--` after them are the command parser's (`--help`, `--version`), which explains the rest.
pub fn split(mut arguments: Vec<String>) -> Result<(Vec<String>, Vec<String>), Failure> {
    let begins_with_dash = arguments.get(1).is_some_and(|a| a.starts_with('-'));
    if !begins_with_dash {
        return Ok((Vec::new(), arguments));
    }
    match arguments.iter().position(|a| a == "--") {
        Some(end) => {
            let rest = arguments.split_off(end + 1);
            arguments.truncate(end);
            let program = arguments.remove(0);
            Ok((arguments, std::iter::once(program).chain(rest).collect()))
        }
        None if ["-h", "--help", "-V", "--version"].contains(&arguments[1].as_str()) => {
            Ok((Vec::new(), arguments))
        }
        None => Err(Failure::usage(format!(
            "{}: EAL arguments end at `--`, then comes the command: ovpn-dpdk [EAL --] run --config FILE",
            arguments[1]
        ))),
    }
}

#[cfg(test)]
mod tests;

//! `replay`: a capture through the real inbound path, between real net_pcap ports.

use crate::program::capture;
use crate::program::cli::{Replay, Switch};
use crate::program::eal_args::Wants;
use crate::program::exit::{self, Failure};
use crate::program::setup::{self, Machine, Pools, queues};
use crate::program::statics::{self, Table};
use lcore::mailbox::mailbox;
use lcore::reassembly::{IpFrag, MAX_DATAGRAMS, MAX_FRAGMENTS};
use lcore::steering::Steering;
use lcore::worker::{Parts, Worker};
use lcore::{Imb, Port, PortConfig, launch};
use nf_control::{KeysFile, LogFormat, LogLevel};
use nf_path::counters::{Counters, Totals};
use nf_path::inbound::Tuning;
use nf_path::inbound::classify::Listeners;
use nf_path::outbound::Nic;
use nf_state::{Lookahead, PeerCounters, Scope};
use serde_json::json;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Buffers: descriptors play no part in net_pcap; what can wait is a burst in each place and the fragments.
const MBUFS: u32 = 8 * 256 + MAX_DATAGRAMS * MAX_FRAGMENTS + 2 * setup::CACHE;
/// Large buffers: net_pcap and net_null give them back at once.
const LARGE: u32 = 511;
/// How long the capture may stand still before the run is given up.
const STALLED: Duration = Duration::from_secs(30);

/// What one run counted.
struct Outcome {
    totals: Totals,
    peers: Vec<(u32, Arc<PeerCounters>)>,
}

/// Runs the command.
pub fn run(eal: &[String], command: &Replay) -> Result<(), Failure> {
    setup::log(LogFormat::Text, LogLevel::Warn);
    let keys = KeysFile::load(&command.keys).map_err(Failure::usage)?;
    keys.warnings.iter().for_each(|w| tracing::warn!("{w}"));
    if keys.listen.is_empty() {
        return Err(Failure::usage(format!(
            "{}: listen is missing",
            command.keys.display()
        )));
    }
    let frames = capture::inspect(&command.input)?;
    check_names(command)?;
    let outcome = play(eal, command, &keys, frames)?;
    report(command, frames, outcome)
}

/// Refuses names that net_pcap cannot be given, outputs that cannot be written, and one file in two places: the driver
/// empties an output when it opens it.
fn check_names(command: &Replay) -> Result<(), Failure> {
    let mut files = vec![("--in", &command.input), ("--out", &command.output)];
    files.extend(command.host_out.iter().map(|path| ("--host-out", path)));
    for (_, path) in &files {
        argument(path)?;
    }
    let mut seen: Vec<(&str, (u64, u64))> = Vec::new();
    for (option, path) in files {
        let refuse = |e: std::io::Error| Failure::usage(format!("{option} {}: {e}", path.display()));
        let mut open = OpenOptions::new();
        let open = if option == "--in" {
            open.read(true)
        } else {
            open.write(true).create(true).truncate(false)
        };
        let file = open.open(path).and_then(|file| file.metadata()).map_err(refuse)?;
        let identity = (file.dev(), file.ino());
        if let Some((other, _)) = seen
            .iter()
            .find(|(_, known)| file.is_file() && *known == identity)
        {
            return Err(Failure::usage(format!(
                "{option} {}: the same file as {other}",
                path.display()
            )));
        }
        seen.push((option, identity));
    }
    Ok(())
}

/// Plays the capture; when it returns, ports are closed and the output files are complete.
fn play(eal: &[String], command: &Replay, keys: &KeysFile, frames: u64) -> Result<Outcome, Failure> {
    let wants = Wants {
        prefix: format!("ovpn-dpdk-{}", std::process::id()),
        transient: true,
        no_huge_mb: setup::megabytes(MBUFS, LARGE),
        ..Wants::default()
    };
    let machine = setup::start(eal, wants, None)?;
    let pools = setup::pools(&machine.eal, MBUFS, LARGE)?;
    let open = |name: &str, args: String| port(&machine, &pools, name, &args);
    let nic = open("net_pcap_nic", format!("rx_pcap={}", argument(&command.input)?))?;
    let tunnel = open(
        "net_pcap_tunnel",
        format!("tx_pcap={}", argument(&command.output)?),
    )?;
    let host = match &command.host_out {
        Some(file) => open("net_pcap_host", format!("tx_pcap={}", argument(file)?))?,
        None => open("net_null_host", "no-rx=1".into())?,
    };
    let table = statics::table(&machine.imb, keys, tunnel.mac().map_err(Failure::machine)?)?;
    let Table {
        tunnel: table,
        counters: peers,
    } = table;
    let counters = Arc::new(Counters::default());
    let lookahead = Lookahead {
        distance: command.prefetch,
        scope: Scope::Burst,
    };
    let parts = Parts {
        nic: queues(&nic, usize::MAX)?,
        host: Some(queues(&host, usize::MAX)?),
        tunnels: vec![queues(&tunnel, usize::MAX)?],
        tables: vec![table],
        listeners: listeners(keys, &command.keys)?,
        tuning: Tuning {
            batch: command.batch == Switch::On,
            lookahead,
        },
        burst: usize::from(command.burst),
        outer: Nic {
            mac: [0; 6],
            mtu: u16::MAX,
            checksums: false,
        },
        last_heard: true,
        steering: Steering::mesh(1).pop().expect("one for one worker"),
        pools: pools.clone(),
        idle_sleep: None,
        mailbox: mailbox().1,
        counters: counters.clone(),
        cycles_per_ms: machine.eal.tsc_hz() / 1000,
    };
    work(&machine, pools, parts, frames)?;
    Ok(Outcome {
        totals: counters.totals(),
        peers,
    })
}

/// Where the keys file, whose path errors name, says that the tunnel listens.
fn listeners(keys: &KeysFile, path: &Path) -> Result<Listeners, Failure> {
    let mut listeners = Listeners::default();
    if keys.listen.iter().all(|address| listeners.add(*address, 0)) {
        return Ok(listeners);
    }
    Err(Failure::usage(format!(
        "{}: too many listening addresses",
        path.display()
    )))
}

/// Polls on a worker's lcore until every frame of the capture has come by.
fn work(machine: &Machine, pools: Pools, parts: Parts, frames: u64) -> Result<(), Failure> {
    let (eal, cpu) = (machine.eal.clone(), machine.workers[0]);
    let counters = parts.counters.clone();
    let job = launch::launch(&machine.eal, "replay", cpu, move |_lcore| {
        let reassembly = IpFrag::new(&eal, pools.large, pools.small, 1500)?;
        let mut worker = Worker::new(parts, Imb::new()?, reassembly);
        let mut last = Instant::now();
        while counters.nic_rx.get() < frames && last.elapsed() < STALLED {
            if worker.poll() > 0 {
                last = Instant::now();
            }
        }
        worker.give_up_fragments();
        Ok::<u64, lcore::Error>(counters.nic_rx.get())
    });
    let played = job
        .and_then(launch::Worker::join)
        .and_then(|done| done)
        .map_err(Failure::machine)?;
    if played < frames {
        return Err(Failure::machine(format!(
            "the capture stood still after {played} of {frames} frames"
        )));
    }
    Ok(())
}

fn port(machine: &Machine, pools: &Pools, name: &str, args: &str) -> Result<Port, Failure> {
    let port = Port::create_vdev(&machine.eal, name, args).map_err(Failure::machine)?;
    port.start(
        &PortConfig {
            mtu: None,
            ..PortConfig::default()
        },
        &pools.small,
    )
    .map_err(Failure::machine)?;
    Ok(port)
}

/// A file name as a device argument, in which commas would end it.
fn argument(path: &Path) -> Result<&str, Failure> {
    match path.to_str() {
        Some(text) if !text.contains([',', '[', ']', '=']) => Ok(text),
        _ => Err(Failure::usage(format!(
            "{}: a file name with `,`, `=`, `[` or `]` cannot be given to net_pcap: rename it",
            path.display()
        ))),
    }
}

fn report(command: &Replay, frames: u64, outcome: Outcome) -> Result<(), Failure> {
    let Outcome { totals: t, peers } = outcome;
    let mut delivered = capture::delivered(&command.output)?;
    let rows: Vec<(u32, u64, u64, String)> = peers
        .iter()
        .map(|(id, counters)| {
            let (packets, sha256) = match delivered.remove(id) {
                Some(d) => (d.packets, d.sha256()),
                None => (0, String::new()),
            };
            (*id, counters.link_rx_packets.get(), packets, sha256)
        })
        .collect();
    if command.json {
        let peers: Vec<_> = rows
            .iter()
            .map(|(id, records, packets, sha256)| {
                json!({"peer": id, "records": records, "delivered": packets, "sha256": sha256})
            })
            .collect();
        let drops: serde_json::Map<_, _> = t
            .nonzero_drops()
            .map(|(d, n)| (d.name().into(), n.into()))
            .collect();
        let all = json!({
            "captured": frames, "peers": peers, "keepalives": t.keepalives, "to_host": t.to_host,
            "to_daemon": t.to_daemon, "fragments": t.fragments, "reassembled": t.reassembled, "drops": drops,
        });
        return exit::result(&format!("{all}\n"));
    }
    let mut out = format!("captured     {frames}\n");
    for (id, records, packets, sha256) in rows {
        let _ = writeln!(
            out,
            "peer {id:<7} records {records}  delivered {packets}  sha256 {sha256}"
        );
    }
    for (name, value) in [
        ("keepalives", t.keepalives),
        ("to_host", t.to_host),
        ("to_daemon", t.to_daemon),
        ("fragments", t.fragments),
        ("reassembled", t.reassembled),
    ] {
        let _ = writeln!(out, "{name:<12} {value}");
    }
    let _ = writeln!(out, "drops        {}", t.drops.iter().sum::<u64>());
    for (reason, n) in t.nonzero_drops() {
        let _ = writeln!(out, "  {:<18} {n}", reason.name());
    }
    exit::result(&out)
}

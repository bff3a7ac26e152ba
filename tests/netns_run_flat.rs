//! Nothing remains of what is dropped: after 10^5 frames of every kind of drop, and after many questions, all buffers are
//! free and memory is what it was.

#[path = "support/drop_frames.rs"]
mod drop_frames;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/life.rs"]
mod life;

use drop_frames::{
    FRAGMENTS, HOST, INBOUND, Maker, NO_NEIGHBOUR, NO_PACKET_ID, NO_PRIMARY, NO_REMOTE, OUTBOUND,
};
use gateway::{Gateway, Wire, in_namespace, ip, mac, wait_for};
use life::{Bed, NIC, Settings};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Frames in all, and in each round.
const TOTAL: usize = 100_000;
const ROUND: usize = 10_000;
/// By how much the process may have grown between the first and the last round, in kB.
const SLACK: u64 = 2048;

fn settings(folder: &Path) -> Settings {
    let mut settings = Settings {
        port: [format!("--vdev=net_tap_nic,iface={NIC}"), "net_tap_nic".into()],
        tunnel: "mtu = 1400".into(),
        state_file: folder.join("ids").display().to_string(),
        ..Settings::with_peers(5)
    };
    let peers = &mut settings.peers;
    peers[NO_PRIMARY as usize].keys.clear();
    // Nothing listens that could send there.
    peers[NO_REMOTE as usize].remote = "[2001:db8::2]:4002".parse().expect("an address");
    peers[NO_NEIGHBOUR as usize].remote = "192.0.2.99:4003".parse().expect("an address");
    settings
}

/// A gateway whose NIC is a TAP, which passes malformed frames as they are.
fn start(settings: &Settings) -> Gateway {
    let gateway = Gateway::spawn_in(None, &settings.config(), &settings.keys(), &[]).ready();
    for words in [
        "address add 192.0.2.1/24 dev wan0",
        "neighbour replace 192.0.2.2 lladdr 02:00:00:00:00:02 dev wan0 nud permanent",
        // A TAP drops what does not fit.
        "link set wan0 txqueuelen 20000 mtu 1600",
        "link set ovpn0 txqueuelen 20000",
        "link set nic0 txqueuelen 20000 mtu 1600",
    ] {
        ip(&words.split(' ').collect::<Vec<_>>());
    }
    gateway
}

/// Runs once with the one key that is to have no ids, and marks all of them as used.
fn use_up(settings: &Settings, folder: &Path) {
    let mut one = settings.clone();
    one.peers = vec![settings.peers[NO_PACKET_ID as usize].clone()];
    start(&one).terminate();
    let path = folder.join("ids");
    let text = fs::read_to_string(&path).expect("a state file");
    let mut state: Value = serde_json::from_str(&text).expect("JSON");
    for mark in state["keys"].as_object_mut().expect("keys").values_mut() {
        *mark = (1u64 << 32).into();
    }
    fs::write(path, state.to_string()).expect("our own folder");
}

/// By reason.
type Counts = BTreeMap<String, u64>;

fn drops(gateway: &Gateway) -> Counts {
    let drops = gateway.telemetry("/ovpn/drops");
    let drops = drops.as_object().expect("an object");
    drops
        .iter()
        .map(|(name, n)| (name.clone(), n.as_u64().expect("a number")))
        .collect()
}

/// Buffers that are free, by pool.
fn free(gateway: &Gateway) -> String {
    let pools = gateway.telemetry("/ovpn/pools");
    format!("{}: {}", pools["name"], pools["free"])
}

/// What of the process is in memory, in kB.
fn resident(gateway: &Gateway) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", gateway.pid())).expect("it runs");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let number = line.and_then(|l| l.split_whitespace().next());
    number.expect("it has memory").parse().expect("a number")
}

/// Frames that the gateway took from all ports. The kernel sends a few of its own.
fn taken(gateway: &Gateway) -> u64 {
    ["nic_rx", "tunnel_rx", "host_rx"]
        .iter()
        .map(|name| gateway.counter(name))
        .sum()
}

/// A round of frames of all kinds in turn; how many of each. In the first one every other frame is a fragment: the pages of
/// the reassembly table, some 8 MB, are in memory once they were touched.
fn send_round(wires: &mut [Wire; 3], maker: &mut Maker, from: usize, sent: &mut Counts) {
    let all = [&INBOUND[..], &OUTBOUND, &HOST];
    let kinds: Vec<(usize, &str)> = (0..3)
        .flat_map(|port| all[port].iter().map(move |r| (port, *r)))
        .collect();
    for n in from..from + ROUND {
        let (port, reason) = match from {
            0 if n % 2 == 0 => (0, "fragment_refused"),
            0 => kinds[n / 2 % kinds.len()],
            _ => kinds[n % kinds.len()],
        };
        let frame = match port {
            0 => maker.inbound(reason, n),
            1 => maker.outbound(reason, n),
            _ => maker.host(n),
        };
        wires[port].send(&frame);
        *sent.entry(reason.to_owned()).or_default() += 1;
    }
}

/// Every frame is under its reason, and no other reason has any.
fn assert_counted(before: &Counts, now: &Counts, sent: &Counts) {
    let fold = |counts: &Counts| {
        let mut folded = Counts::new();
        for (reason, n) in counts {
            let reason = if FRAGMENTS.contains(&reason.as_str()) {
                "fragments"
            } else {
                reason
            };
            *folded.entry(reason.to_owned()).or_default() += n;
        }
        folded
    };
    let mut grown = fold(now);
    for (reason, n) in fold(before) {
        *grown.get_mut(&reason).expect("the same reasons") -= n;
    }
    grown.retain(|_, n| *n > 0);
    assert_eq!(grown, fold(sent));
    for reason in FRAGMENTS {
        assert!(now[reason] > 0, "{reason}");
    }
}

#[test]
fn nothing_remains_of_frames_that_are_dropped() {
    in_namespace("nothing_remains_of_frames_that_are_dropped", || {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let settings = settings(folder.path());
        use_up(&settings, folder.path());
        let gateway = start(&settings);
        let mut wires = [NIC, "ovpn0", "wan0"].map(Wire::of);
        let mut maker = Maker::new(settings.peers[0].clone(), mac("ovpn0"));
        // What is old and what is a duplicate needs one that is neither.
        let first = maker.authentic(&maker.good(60));
        wires[0].send(&maker.udp(&first).build());
        wait_for("a packet", || gateway.counter("tunnel_tx") == 1);
        let (before, empty) = (drops(&gateway), free(&gateway));
        let (mut sent, mut memory) = (Counts::new(), 0);
        for from in (0..TOTAL).step_by(ROUND) {
            let all = taken(&gateway) + ROUND as u64;
            send_round(&mut wires, &mut maker, from, &mut sent);
            wait_for("all of them to be taken", || taken(&gateway) >= all);
            if from == 0 {
                memory = resident(&gateway);
            }
        }
        let counted = || drops(&gateway).values().sum::<u64>() - before.values().sum::<u64>();
        wait_for("all of them to be counted", || counted() >= TOTAL as u64);
        wait_for("all buffers to be free", || free(&gateway) == empty);
        let grown = resident(&gateway).saturating_sub(memory);
        println!("\n{TOTAL} frames; {grown} kB more than the {memory} kB after the first {ROUND}");
        assert_counted(&before, &drops(&gateway), &sent);
        assert_eq!(sent.values().sum::<u64>(), TOTAL as u64);
        assert!(grown <= SLACK, "{grown} kB more");
        assert_eq!(gateway.counter("sealed"), 0, "none was for anybody");
        assert_eq!(gateway.counter("tunnel_tx"), 1);
        gateway.terminate();
    });
}

/// A connection to the telemetry socket that stays open.
struct Telemetry {
    tool: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Telemetry {
    fn of(gateway: &Gateway) -> Telemetry {
        let mut tool = Command::new("/usr/bin/python3")
            .args(["-u", "/usr/bin/dpdk-telemetry.py", "-f", &gateway.name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("dpdk is installed");
        let input = tool.stdin.take().expect("piped");
        let output = BufReader::new(tool.stdout.take().expect("piped"));
        Telemetry { tool, input, output }
    }

    fn ask(&mut self, command: &str) -> Value {
        writeln!(self.input, "{command}").expect("it reads");
        let key = command.split(',').next().expect("a command");
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).expect("UTF-8") > 0, "it ended");
            let json = line
                .find('{')
                .and_then(|at| serde_json::from_str(&line[at..]).ok());
            if let Some(answer) = json.and_then(|v: Value| v.get(key).cloned()) {
                return answer;
            }
        }
    }

    /// All pages: the ids of the peers, and how many pages.
    fn peers(&mut self) -> (Vec<u64>, usize) {
        let (mut command, mut ids, mut pages) = (String::from("/ovpn/peers"), Vec::new(), 0);
        loop {
            let page = self.ask(&command);
            pages += 1;
            let column = page["id"].as_array().expect("a column").iter();
            ids.extend(column.map(|id| id.as_u64().expect("a number")));
            match page["next"].as_str().expect("a text") {
                "" => return (ids, pages),
                next => command = format!("/ovpn/peers,{next}"),
            }
        }
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        let _ = self.tool.kill();
        let _ = self.tool.wait();
    }
}

/// CPU time that the threads whose names begin so have used.
fn cpu_time(gateway: &Gateway, name: &str) -> Duration {
    let threads = fs::read_dir(format!("/proc/{}/task", gateway.pid())).expect("it runs");
    let of = |thread: std::io::Result<fs::DirEntry>| {
        let path = thread.ok()?.path();
        let is_it = fs::read_to_string(path.join("comm")).ok()?.starts_with(name);
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok().filter(|_: &u64| is_it)
    };
    Duration::from_nanos(threads.filter_map(of).sum())
}

#[test]
fn nothing_remains_of_questions_about_many_peers() {
    in_namespace("nothing_remains_of_questions_about_many_peers", || {
        const PEERS: u32 = 500;
        let bed = Bed::start(Settings::with_peers(PEERS));
        let mut telemetry = Telemetry::of(&bed.gateway);
        telemetry.peers();
        let (used, memory) = (cpu_time(&bed.gateway, "telemetry"), resident(&bed.gateway));
        let (start, mut polls, mut pages) = (Instant::now(), 0, 0);
        while start.elapsed() < Duration::from_secs(3) {
            let next = Instant::now() + Duration::from_millis(100);
            let (ids, asked) = telemetry.peers();
            assert!(
                ids.into_iter().eq(0..u64::from(PEERS)),
                "each peer once, in order"
            );
            (polls, pages) = (polls + 1, asked);
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        let used = cpu_time(&bed.gateway, "telemetry") - used;
        let grown = resident(&bed.gateway).saturating_sub(memory);
        println!(
            "\n{polls} polls of {PEERS} peers in {pages} pages: {:?} of CPU time each; {grown} kB more in memory",
            used / polls
        );
        assert!(used > Duration::ZERO, "the thread that answers was found");
        assert!(grown <= SLACK, "{grown} kB more");
        drop(telemetry);
        bed.end();
    });
}

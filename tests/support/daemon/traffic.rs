//! Traffic between machines: iperf3, and pings that are counted.

use super::Machine;
use crate::gateway::{Background, wait_for};
use serde_json::Value;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU16, Ordering};

/// The next iperf3 server's port.
static PORT: AtomicU16 = AtomicU16::new(5201);
/// Milliseconds without a byte after which iperf3 gives up.
const SILENCE_MS: &str = "15000";

/// One iperf3 run.
#[derive(Clone, Copy)]
pub struct Flow<'a> {
    /// Where the client is, so who opens the connections. It sends, unless `-R` is among the arguments.
    pub from: &'a Machine,
    /// Where the server is.
    pub to: &'a Machine,
    /// The server's address.
    pub address: IpAddr,
    /// The client's further arguments: `-u`, `-b`, `-t`, `-n`, `-l`, `-R`; not `--bidir`.
    pub arguments: &'a [&'a str],
}

/// A run that goes on.
pub struct Iperf {
    server: Background,
    client: Background,
}

/// What a run carried, as iperf3 counts.
#[derive(Debug)]
pub struct Transfer {
    /// Payload bytes sent.
    pub sent: u64,
    /// Payload bytes received.
    pub received: u64,
    /// UDP: datagrams that the receiver knows of.
    pub packets: u64,
    /// UDP: those that did not arrive.
    pub lost: u64,
    /// Bits per second at the receiver.
    pub rate: f64,
    /// All that iperf3 says.
    pub report: Value,
}

/// What became of pings.
#[derive(Debug)]
pub struct Pings {
    /// Echo requests.
    pub sent: u64,
    /// Echo replies.
    pub received: u64,
    /// What ping printed.
    pub text: String,
}

impl Iperf {
    /// Starts a server and its client.
    pub fn start(flow: &Flow) -> Iperf {
        let port = PORT.fetch_add(1, Ordering::Relaxed).to_string();
        let address = flow.address.to_string();
        let common = ["-p", &port, "-J"];
        // Of who receives only.
        let patience = ["--rcv-timeout", SILENCE_MS];
        let receives = if flow.arguments.contains(&"-R") {
            &patience[..]
        } else {
            &[]
        };
        let server = flow
            .to
            .spawn(&[&["iperf3", "-s", "-1", "-B", &address], &common[..], &patience].concat());
        let listening = format!("sport = :{port}");
        wait_for("iperf3's server", || {
            !flow.to.run(&["ss", "-Hltn", &listening]).is_empty()
        });
        let client = [&["iperf3", "-c", &address], &common[..], receives, flow.arguments].concat();
        Iperf {
            server,
            client: flow.from.spawn(&client),
        }
    }

    /// Runs all of them at once, until the last is done.
    pub fn all(flows: &[Flow]) -> Vec<Transfer> {
        let started: Vec<_> = flows.iter().map(Iperf::start).collect();
        started.into_iter().map(Iperf::finish).collect()
    }

    /// Waits for its end.
    pub fn finish(self) -> Transfer {
        let said = self.client.finish();
        self.server.finish();
        let report: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
        Transfer::of(report)
    }
}

impl Transfer {
    fn of(report: Value) -> Transfer {
        let end = &report["end"];
        let number = |part: &str, what: &str| end[part][what].as_f64();
        // With UDP, `sum` is what the receiver counted, whichever end that is; in TCP's there are only the two others.
        let bytes =
            |part: &str| number(part, "bytes").unwrap_or_else(|| panic!("no {part}: {report}")) as u64;
        Transfer {
            sent: bytes("sum_sent"),
            received: bytes("sum_received"),
            packets: number("sum", "packets").unwrap_or_default() as u64,
            lost: number("sum", "lost_packets").unwrap_or_default() as u64,
            rate: number("sum_received", "bits_per_second").unwrap_or_default(),
            report,
        }
    }

    /// Asserts that at least so many bytes came, and of UDP that nothing was lost.
    pub fn assert_lossless(&self, least: u64) {
        assert!(
            self.received >= least,
            "only {} bytes: {}",
            self.received,
            self.report["end"]
        );
        assert_eq!(self.lost, 0, "of {}: {}", self.packets, self.report["end"]["sum"]);
    }
}

impl Pings {
    /// Runs `ping` until it ends by itself.
    pub(super) fn run(machine: &Machine, to: IpAddr, arguments: &[&str]) -> Pings {
        let to = to.to_string();
        let mut command = machine.command(&[&["ping", "-n"], arguments, &[&to]].concat());
        let out = command.output().expect("ip was there before");
        Pings::of(String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
    }

    /// From what ping printed.
    pub fn of(text: String) -> Pings {
        let number = |word: &str| {
            let line = text.lines().find(|line| line.contains("packets transmitted"));
            let part = line.and_then(|line| line.split(", ").find(|part| part.contains(word)));
            part.and_then(|part| part.split(' ').next())
                .and_then(|n| n.parse().ok())
                .unwrap_or(0)
        };
        Pings {
            sent: number("transmitted"),
            received: number(" received"),
            text,
        }
    }

    /// Asserts that all were answered, and that there were any.
    pub fn assert_all(&self) {
        assert!(self.sent > 0 && self.received == self.sent, "{}", self.text);
    }
}

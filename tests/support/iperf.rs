//! Traffic by iperf3 between the two sides of a pair. What iperf3 says of losses is not asked.

#![allow(dead_code, reason = "no test uses all of it")]

use crate::gateway::wait_for;
use crate::pair::{Background, End, Pair};

/// The servers' first TCP and UDP port.
const FIRST_PORT: usize = 5201;
/// Milliseconds without a byte after which iperf3 gives up.
const SILENCE_MS: &str = "15000";

/// One client and its server.
pub struct Load<'a> {
    /// Where the client is, so who opens the connections.
    pub from: End,
    /// By the addresses of which peer.
    pub peer: u32,
    /// The inner IP version.
    pub v6: bool,
    /// The client's further arguments: UDP, rate, amount, direction.
    pub arguments: &'a [&'a str],
}

/// Runs all of it at once, until the last is done.
pub fn carry(pair: &Pair, loads: &[Load]) {
    let started: Vec<_> = loads
        .iter()
        .enumerate()
        .map(|(n, load)| server(pair, load, n))
        .collect();
    for end in [End::Left, End::Right] {
        let wanted = loads.iter().filter(|load| load.from != end).count();
        wait_for("iperf3's servers", || {
            let listening = pair.side(end).run(&["ss", "-Hltn"]);
            listening.lines().filter(|line| line.contains(":52")).count() >= wanted
        });
    }
    let clients: Vec<_> = loads
        .iter()
        .enumerate()
        .map(|(n, load)| client(pair, load, n))
        .collect();
    for program in clients.into_iter().chain(started) {
        program.finish();
    }
}

fn server(pair: &Pair, load: &Load, n: usize) -> Background {
    let end = load.from.other();
    let (to, port) = (
        end.vpn(load.peer, load.v6).to_string(),
        (FIRST_PORT + n).to_string(),
    );
    let words = [
        "iperf3",
        "-s",
        "-1",
        "-B",
        &to,
        "-p",
        &port,
        "--rcv-timeout",
        SILENCE_MS,
    ];
    pair.side(end).spawn(&words)
}

fn client(pair: &Pair, load: &Load, n: usize) -> Background {
    let [from, to] = [load.from, load.from.other()].map(|end| end.vpn(load.peer, load.v6).to_string());
    let port = (FIRST_PORT + n).to_string();
    let words = [
        "iperf3",
        "-c",
        &to,
        "-B",
        &from,
        "-p",
        &port,
        "--rcv-timeout",
        SILENCE_MS,
    ];
    pair.side(load.from).spawn(&[&words[..], load.arguments].concat())
}

//! What tests of peers that come and go have in common.

#![allow(dead_code, reason = "no test uses all of it")]

use crate::daemon::{Machine, Path};
use crate::gateway::wait_for;
use serde_json::Value;
use std::net::IpAddr;

/// What a server says of a client that it has given up.
pub const EXITS: &str = "client-instance exiting";
/// What a gateway says of a peer that was silent for too long.
pub const SILENT: &str = "nothing heard for";
/// Arguments of pings that are answered soon.
pub const PINGS: [&str; 4] = ["-q", "-c20", "-i0.01", "-W2"];

/// Waits until such pings are all answered. Where there is much to do, `ping` does not wait for the last ones.
pub fn wait_pings(machine: &Machine, to: IpAddr) {
    wait_for(
        &format!("{} pings {to}, and all is answered", machine.name()),
        || {
            let pings = machine.ping(to, &PINGS);
            pings.sent > 0 && pings.received == pings.sent
        },
    );
}

/// Peers of a tunnel, as the gateway tells.
pub fn peers(machine: &Machine, interface: &str) -> Vec<Value> {
    let status = machine.status();
    let peers = status.tunnel(interface)["peers"].as_array();
    peers.unwrap_or_else(|| panic!("{status:?}")).clone()
}

/// One number of the one peer of a tunnel.
pub fn of_peer(machine: &Machine, interface: &str, field: &str) -> u64 {
    let peers = peers(machine, interface);
    let number = (peers.len() == 1).then(|| peers[0][field].as_u64()).flatten();
    number.unwrap_or_else(|| panic!("{interface}: {peers:?}"))
}

/// Lines of a gateway's log with this text; of a machine without one: none.
pub fn gateway_said(machine: &Machine, text: &str) -> usize {
    let text_of = |log: String| log.lines().filter(|line| line.contains(text)).count();
    if machine.path == Path::Own {
        return 0;
    }
    text_of(machine.gateway().stderr())
}

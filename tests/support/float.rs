//! What tests of floats have in common.

#![allow(dead_code, reason = "no test uses all of it")]

use crate::nat::Flow;
use crate::pair::{self, End, FIRST_PORT, Side};
use std::net::SocketAddr;

/// Arguments of a ping that is answered at once.
pub const ONE: [&str; 4] = ["-c1", "-W2", "-s", "100"];

/// What peer `p` of the left side sends, seen before any translation.
pub fn inside(peer: u16) -> Flow {
    let of = |end: End| SocketAddr::new(end.outer(false), FIRST_PORT + peer);
    Flow {
        src: of(End::Left),
        dst: of(End::Right),
    }
}

/// Addresses besides those that every pair has; the kernel behind answers for them.
pub fn add_addresses(side: &Side, addresses: &[&str]) {
    for address in addresses {
        let nodad = if address.contains(':') {
            &["nodad"][..]
        } else {
            &[]
        };
        side.run(&[&["ip", "address", "add", address, "dev", pair::HOST], nodad].concat());
    }
}

/// Where a gateway has a peer, by telemetry.
pub fn remote(side: &Side, peer: usize) -> String {
    let peers = side.gateway.telemetry("/ovpn/peers");
    peers["remote"][peer]
        .as_str()
        .unwrap_or_else(|| panic!("{peers}"))
        .to_owned()
}

/// Lines of a gateway's log with this text.
pub fn said(side: &Side, text: &str) -> Vec<String> {
    let log = side.gateway.stderr();
    log.lines()
        .filter(|line| line.contains(text))
        .map(str::to_owned)
        .collect()
}

/// One ping of peer 0 to the other side.
pub fn assert_ping(side: &Side) {
    side.ping(0, false, &ONE)
        .unwrap_or_else(|said| panic!("{said}{:?}", side.losses()));
}

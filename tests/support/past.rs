//! Ways to a daemon's own socket past its gateway: another interface, and the loopback one.

#![allow(dead_code, reason = "no test uses all of it")]

use crate::attack::exit_message;
use crate::daemon::{Daemon, Machine};
use crate::gateway::{Wire, mac, wait_for};
use nf_path::twin::craft::Frame;
use nf_wire::record::HeaderWord;
use std::fs;
use std::net::SocketAddr;

/// What an offloaded daemon's control channel logs of a packet of a session that is none.
pub const NO_SESSION: &str = "TLS Error";

/// Datagrams of all sockets on a server's port that were not given to whoever reads it: a filter's, or no room.
pub fn socket_drops(machine: &Machine, number: u16) -> u64 {
    let tables = machine.namespace.enter(|| {
        ["udp", "udp6"]
            .map(|file| fs::read_to_string(format!("/proc/thread-self/net/{file}")).expect("mounted"))
    });
    let local = format!(":{number:04X}");
    let lines = tables.iter().flat_map(|table| table.lines());
    let of_port = lines.filter(|line| {
        line.split_whitespace()
            .nth(1)
            .is_some_and(|a| a.ends_with(&local))
    });
    let drops = of_port.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok());
    drops.sum()
}

/// A way into a machine's kernel past the gateway: another interface, or the loopback one.
struct Past {
    wire: Wire,
    to: [u8; 6],
}

impl Past {
    fn second_interface(machine: &Machine) -> Past {
        machine.run(&[
            "ip", "link", "add", "second0", "type", "veth", "peer", "name", "second1",
        ]);
        for name in ["second0", "second1"] {
            machine.run(&["ip", "link", "set", name, "up"]);
        }
        trusting(machine, "second0");
        Past {
            wire: machine.wire("second1"),
            to: machine.namespace.enter(|| mac("second0")),
        }
    }

    fn loopback(machine: &Machine) -> Past {
        trusting(machine, "lo");
        Past {
            wire: machine.wire("lo"),
            to: [0; 6],
        }
    }

    fn send(&mut self, from: SocketAddr, to: SocketAddr, payload: &[u8]) {
        let frame = Frame::udp(from, to).macs([0; 6], self.to).payload(payload);
        self.wire.send(&frame.build());
    }
}

/// What comes in by an interface may say that it is from anywhere.
fn trusting(machine: &Machine, interface: &str) {
    machine.namespace.enter(|| {
        for which in ["all", interface] {
            fs::write(format!("/proc/sys/net/ipv4/conf/{which}/rp_filter"), "0").expect("root may");
        }
    });
}

/// The exit message, from the right address and port, past the gateway to the daemon's own socket: it never reads it. That
/// the way leads to it is seen by a control packet.
pub fn past_the_gateway(daemon: &Daemon, word: HeaderWord, from: SocketAddr, to: SocketAddr) {
    let machine = daemon.machine;
    for mut past in [Past::second_interface(machine), Past::loopback(machine)] {
        let said = daemon.said(NO_SESSION).len();
        // P_CONTROL_V1 of a session that nobody has.
        past.send(from, to, &[&[4 << 3][..], &[0x5a; 60]].concat());
        daemon.wait_said(NO_SESSION, said + 1);
        let before = socket_drops(machine, to.port());
        for id in [
            word,
            HeaderWord::data_v2(0, 0xff_ffff),
            HeaderWord::data_v2(1, word.peer_id()),
        ] {
            past.send(from, to, &exit_message(id));
        }
        wait_for("the filter", || socket_drops(machine, to.port()) == before + 3);
    }
    machine.run(&["ip", "link", "del", "second0"]);
}

//! Everything that may name a lost packet of a gateway in a namespace: its own counters, and those of the kernel.

use super::NIC;
use crate::gateway::{Gateway, Namespace, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// Frames that a NIC port's ring had no room for, so far: the kernel starts again each time it is asked.
#[derive(Default)]
pub struct RingFull(AtomicU64);

impl RingFull {
    /// The number now: net_af_packet of DPDK 22.11 asks the kernel for none of its counts.
    fn now(&self, gateway: &Gateway) -> u64 {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/ring_drops.py");
        let mut command = Command::new("/usr/bin/python3");
        let printed = run(command.arg(script).arg(gateway.pid().to_string()));
        let new: u64 = printed
            .trim()
            .parse()
            .unwrap_or_else(|e| panic!("{e}: {printed}"));
        self.0.fetch_add(new, Ordering::Relaxed) + new
    }
}

/// The gateway's drops, what its ports missed, and what the kernel could not give to these interfaces or take from them;
/// those that are not zero.
pub fn now(
    gateway: &Gateway,
    namespace: &Namespace,
    interfaces: &[&str],
    ring: &RingFull,
) -> BTreeMap<String, u64> {
    let mut losses = BTreeMap::new();
    let drops = gateway.telemetry("/ovpn/drops");
    for (reason, count) in drops.as_object().expect("an object") {
        losses.insert(
            reason.clone(),
            count.as_u64().unwrap_or_else(|| panic!("{drops}")),
        );
    }
    let ports = gateway.telemetry("/ethdev/list");
    for port in ports.as_array().expect("an array") {
        let name = gateway.telemetry(&format!("/ethdev/info,{port}"))["name"].clone();
        let stats = gateway.telemetry(&format!("/ethdev/stats,{port}"));
        for counter in ["imissed", "rx_nombuf"] {
            let count = stats[counter].as_u64().unwrap_or_else(|| panic!("{stats}"));
            losses.insert(format!("{} {counter}", name.as_str().expect("a name")), count);
        }
    }
    for interface in interfaces {
        for direction in ["rx", "tx"] {
            let count = statistic(namespace, interface, direction, "dropped");
            losses.insert(format!("{interface} {direction}_dropped"), count);
        }
    }
    losses.insert(format!("{NIC} ring full"), ring.now(gateway));
    losses.retain(|_, count| *count > 0);
    losses
}

/// A number of an interface's kernel side: "rx" or "tx", and which.
pub fn statistic(namespace: &Namespace, interface: &str, direction: &str, what: &str) -> u64 {
    let links = run(namespace
        .command("ip")
        .args(["-j", "-s", "link", "show", interface]));
    let links: Value = serde_json::from_str(&links).expect("ip -j prints JSON");
    let count = links[0]["stats64"][direction][what].as_u64();
    count.unwrap_or_else(|| panic!("{links}"))
}

/// UDP datagrams that the sockets of a namespace had no room for so far.
pub fn full_sockets(namespace: &Namespace) -> u64 {
    // Of the thread: the process itself is in another namespace.
    let [v4, v6] = namespace.enter(|| {
        ["snmp", "snmp6"]
            .map(|file| fs::read_to_string(format!("/proc/thread-self/net/{file}")).expect("mounted"))
    });
    udp_counter(&v4, "RcvbufErrors") + udp6_counter(&v6, "Udp6RcvbufErrors")
}

/// A counter of /proc/net/snmp: a line of names, and one of values.
fn udp_counter(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.starts_with("Udp: "));
    let (names, values) = (lines.next().expect("of UDP"), lines.next().expect("of UDP"));
    let mut pairs = names.split(' ').zip(values.split(' '));
    pairs
        .find(|(n, _)| *n == name)
        .and_then(|(_, value)| value.parse().ok())
        .expect("a number")
}

/// A counter of /proc/net/snmp6: a name and a value on a line.
fn udp6_counter(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|value| value.trim().parse().ok())
        .expect("a number")
}

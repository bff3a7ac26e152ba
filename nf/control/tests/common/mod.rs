//! Texts and helpers that the configuration's tests share. Each test binary uses a part of them.
#![allow(dead_code)]

pub mod keys;

use std::ffi::OsString;
use std::path::Path;

use nf_control::{Config, ConfigError};

/// The least that is a configuration.
pub const LEAST: &str = "[nic]\nport = \"net_pcap0\"\n[[tunnel]]\ninterface = \"ovpn0\"\n";

/// Every key there is, none at its default.
pub const ALL: &str = r#"
name = "gw1"
eal = ["--vdev=net_null0", "--no-huge"]
lcores = "1,3-5"
burst = 32
batch = false
lookahead = { distance = "auto", scope = "batch" }
mbufs = 8192
idle_sleep_us = 50
insecure_static_keys = true
state_file = "/tmp/gw1.ids"
[nic]
port = "0000:3b:00.0"
queues = 2
mtu = 9000
isolate = "off"
outbound_l2 = "last-heard"
[host]
kind = "virtio-user"
interface = "wan1"
[[tunnel]]
interface = "net1"
kind = "net_pcap1"
mode = "p2p"
listen = ["192.0.2.1:1194", "[2001:db8::1]:1195"]
mtu = 1400
mss = 1300
source_check = false
spread_peers = true
merge_tcp = false
next_hop = "02:00:00:00:00:0A"
keys_file = "keys.json"
[[tunnel.peer]]
id = 7
remote = "198.51.100.7:1194"
local = "192.0.2.1:1194"
addresses = ["10.8.0.2", "fd08::2"]
networks = ["10.77.0.0/24"]
keepalive = [10, 60]
[control]
socket = "/tmp/gw1.sock"
group = "openvpn"
[metrics]
listen = "[::1]:9000"
[log]
format = "json"
level = "debug"
"#;

pub fn parse_with(text: &str, environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let environment = environment
        .iter()
        .map(|(k, v)| (OsString::from(k), OsString::from(v)));
    Config::parse(text, "gw.toml", Path::new("/etc/gw"), environment)
}

pub fn parse(text: &str) -> Result<Config, ConfigError> {
    parse_with(text, &[])
}

/// The error's line; checks that it is one line.
pub fn error(text: &str) -> String {
    line(parse(text))
}

pub fn line(result: Result<Config, ConfigError>) -> String {
    let line = result.expect_err("must be refused").to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

/// Replaces one line of [`ALL`], found by its key, and expects this error.
#[track_caller]
pub fn refused(key: &str, replacement: &str, says: &str) {
    let old: Vec<&str> = ALL
        .lines()
        .filter(|l| l.starts_with(&format!("{key} = ")))
        .collect();
    let [old] = old.as_slice() else {
        panic!("{key}: {old:?}")
    };
    let line = error(&ALL.replace(&format!("\n{old}\n"), &format!("\n{replacement}\n")));
    assert!(
        line.starts_with("gw.toml: ") && line.contains(says),
        "{replacement}: {line}"
    );
}

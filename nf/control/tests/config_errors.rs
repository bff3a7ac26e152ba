//! What a configuration is refused for, and how the refusal reads.

mod common;

use common::{ALL, LEAST, error, line, parse, parse_with, refused};
use proptest::prelude::*;

#[test]
fn environment_errors() {
    for (name, value, says) in [
        (
            "OVPN_DPDK__NIC__PROT",
            "x",
            "environment variable OVPN_DPDK__NIC__PROT: names no key",
        ),
        ("OVPN_DPDK__NIC", "x", "OVPN_DPDK__NIC: names no key"),
        ("OVPN_DPDK__", "x", "OVPN_DPDK__: names no key"),
        ("OVPN_DPDK__burst", "9", "OVPN_DPDK__burst: names no key"),
        (
            "OVPN_DPDK__TUNNEL__0__MTU",
            "9",
            "OVPN_DPDK__TUNNEL__0__MTU: tunnels can be set in the file only",
        ),
        (
            "OVPN_DPDK__BURST",
            "many",
            "OVPN_DPDK__BURST: the value is not a whole number",
        ),
        (
            "OVPN_DPDK__BATCH",
            "maybe",
            "OVPN_DPDK__BATCH: the value is neither true nor false",
        ),
        (
            "OVPN_DPDK__BURST",
            "257",
            "environment variable OVPN_DPDK__BURST: burst: 257 is out of range: 1 to 256",
        ),
        (
            "OVPN_DPDK__LOG__LEVEL",
            "loud",
            "environment variable OVPN_DPDK__LOG__LEVEL: log.level: \"loud\"",
        ),
    ] {
        let line = line(parse_with(LEAST, &[(name, value)]));
        assert!(line.contains(says), "{line}");
    }
}

#[test]
fn unknown_keys() {
    for (text, says) in [
        (
            format!("bursts = 3\n{LEAST}"),
            "gw.toml:1: bursts: unknown key, expected one of `name`",
        ),
        (
            format!("{LEAST}[host]\nknd = \"tap\"\n"),
            "gw.toml:6: host.knd: unknown key, expected `kind` or `interface`",
        ),
        (
            format!("{LEAST}mtuu = 3\n"),
            "gw.toml:5: tunnel[0].mtuu: unknown key",
        ),
        (
            format!("{LEAST}[[tunnel.peer]]\nid = 1\n[[tunnel.peer]]\nidd = 1\n"),
            "gw.toml:8: tunnel[0].peer[1].idd: unknown",
        ),
        (
            format!("lookahead = {{ dist = 1 }}\n{LEAST}"),
            "gw.toml:1: lookahead.dist: unknown key",
        ),
        (format!("{LEAST}[metric]\n"), "gw.toml:5: metric: unknown key"),
        (format!("{LEAST}[NIC]\nport = \"a\"\n"), "NIC: unknown key"),
    ] {
        let line = error(&text);
        assert!(line.starts_with("gw.toml:") && line.contains(says), "{line}");
    }
}

#[test]
fn syntax_and_types_name_the_line() {
    for (text, says) in [
        ("name = \"a\"\nburst = = 3\n", "gw.toml:2: syntax error: "),
        ("burst = 1\nburst = 2\n", "gw.toml:2: syntax error: duplicate key"),
        ("\n\n[nic\n", "gw.toml:3: syntax error: "),
        (
            "name = 'a'\nburst = 'many'\n",
            "gw.toml:2: burst: invalid type: string \"many\", expected a whole number",
        ),
        ("burst = 3.5\n", "gw.toml:1: burst: invalid type: floating point"),
        (
            "batch = 1\n",
            "gw.toml:1: batch: invalid type: integer `1`, expected a boolean",
        ),
        (
            "mbufs = true\n",
            "gw.toml:1: mbufs: invalid type: boolean `true`, expected a whole number or a word",
        ),
        ("[nic]\nqueues = [1]\n", "gw.toml:2: nic.queues: invalid type"),
        (
            "eal = 3\n",
            "gw.toml:1: eal: invalid type: integer `3`, expected an array of strings",
        ),
        (
            "[tunnel]\nmtu = 3\n",
            "gw.toml:1: tunnel: invalid type: map, expected a sequence",
        ),
        (
            "[[tunnel]]\nlisten = \"192.0.2.1:1\"\n",
            "gw.toml:2: tunnel[0].listen: invalid type",
        ),
    ] {
        let line = error(text);
        assert!(line.contains(says), "{line}");
    }
}

#[test]
fn ranges_and_words() {
    refused("name", "name = 'a/b'", "name: \"a/b\" is not allowed: 1 to 32");
    refused("name", "name = ''", "name: \"\" is not allowed");
    refused("name", "name = '..'", "name: \"..\" is not allowed");
    refused("name", "name = 'a23456789012345678901234567890123'", "name: ");
    refused("eal", "eal = ['a', '--']", "eal[1]: ");
    refused("lcores", "lcores = '1,,2'", "lcores: an empty entry");
    refused("lcores", "lcores = '5-3'", "lcores: the range 5-3 is reversed");
    refused("lcores", "lcores = '1,1'", "lcores: CPU 1 is listed twice");
    refused("lcores", "lcores = '1024'", "lcores: CPU 1024 is over 1023");
    refused("lcores", "lcores = 'all'", "lcores: \"all\" is not a CPU number");
    refused("burst", "burst = 0", "burst: 0 is out of range: 1 to 256");
    refused("burst", "burst = 257", "burst: 257 is out of range: 1 to 256");
    refused(
        "lookahead",
        "lookahead = { distance = 17 }",
        "lookahead.distance: 17 is out of range: 0 to 16, or \"auto\"",
    );
    refused(
        "lookahead",
        "lookahead = { distance = -1 }",
        "lookahead.distance: -1 is out of range",
    );
    refused(
        "lookahead",
        "lookahead = { distance = 'far' }",
        "lookahead.distance: \"far\" is not allowed: 0 to 16",
    );
    refused(
        "lookahead",
        "lookahead = { scope = 'all' }",
        "lookahead.scope: \"all\" is not allowed: \"burst\" or \"batch\"",
    );
}

#[test]
fn more_ranges_and_words() {
    refused(
        "mbufs",
        "mbufs = 511",
        "mbufs: 511 is out of range: 512 to 16777216, or \"auto\"",
    );
    refused(
        "idle_sleep_us",
        "idle_sleep_us = -1",
        "idle_sleep_us: -1 is out of range: 0 to 1000000",
    );
    refused("port", "port = ''", "nic.port: a PCI address");
    refused("port", "port = 'net_pcap0,iface=x'", "nic.port: ");
    refused("queues", "queues = 0", "nic.queues: 0 is out of range: 1 to 128");
    refused(
        "isolate",
        "isolate = 'yes'",
        "nic.isolate: \"yes\" is not allowed: \"auto\" or \"on\" or \"off\"",
    );
    refused(
        "outbound_l2",
        "outbound_l2 = 'arp'",
        "nic.outbound_l2: \"arp\" is not allowed: \"kernel\" or \"last-heard\"",
    );
    refused(
        "socket",
        &format!("socket = '/{}'", "x".repeat(107)),
        "control.socket: 108 bytes",
    );
    refused("group", "group = ''", "control.group: \"\" is no group name");
    refused(
        "format",
        "format = 'xml'",
        "log.format: \"xml\" is not allowed: \"text\" or \"json\"",
    );
    refused("level", "level = 'loud'", "log.level: \"loud\" is not allowed");
    let line = error(&ALL.replace("mtu = 9000", "mtu = 575"));
    assert!(
        line.contains("gw.toml: nic.mtu: 575 is out of range: 576 to 9600"),
        "{line}"
    );
    let line = error(&ALL.replace("\"[::1]:9000\"", "'localhost:9000'"));
    assert!(
        line.contains("metrics.listen: \"localhost:9000\" is no address"),
        "{line}"
    );
}

proptest! {
    #[test]
    fn any_text_is_answered(text in ".{0,200}", at in 0..ALL.len(), cut in ".{0,3}") {
        let _ = parse(&text);
        if ALL.is_char_boundary(at) {
            // Nearly right text gets further in than random text.
            let (before, after) = ALL.split_at(at);
            if let Err(e) = parse(&format!("{before}{cut}{}", after.get(1..).unwrap_or(""))) {
                prop_assert!(!e.to_string().contains('\n'), "{}", e);
            }
        }
    }

    #[test]
    fn any_variable_is_answered(name in "[A-Z_]{0,20}", value in ".{0,20}") {
        if !value.contains('\0') {
            let _ = parse_with(LEAST, &[(&format!("OVPN_DPDK__{name}"), &value), ("OVPN_DPDK__NIC__QUEUES", &value)]);
        }
    }
}

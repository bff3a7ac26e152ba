//! Defaults, every key, layers and summary of the configuration.

mod common;

use std::collections::BTreeSet;
use std::path::PathBuf;

use nf_control::{
    AutoOr, Config, Isolate, Lcores, LogFormat, LogLevel, LookaheadScope, Mode, Mss, OutboundL2, PortKind,
};

use common::{ALL, LEAST, line, parse, parse_with};

#[test]
fn defaults() {
    let c = parse(LEAST).unwrap();
    assert_eq!(
        (c.name.as_str(), c.eal.len(), &c.lcores),
        ("gw0", 0, &Lcores::Auto)
    );
    assert_eq!(
        (c.burst, c.batch, c.mbufs, c.idle_sleep_us),
        (64, true, AutoOr::Auto, 0)
    );
    assert_eq!(
        (c.lookahead.distance, c.lookahead.scope),
        (AutoOr::Value(2), LookaheadScope::Burst)
    );
    assert_eq!(
        (c.insecure_static_keys, c.state_file),
        (false, PathBuf::from("/var/lib/ovpn-dpdk/gw0.ids"))
    );
    assert_eq!(
        (c.nic.port.as_str(), c.nic.queues, c.nic.mtu),
        ("net_pcap0", AutoOr::Auto, 1500)
    );
    assert_eq!(
        (c.nic.isolate, c.nic.outbound_l2),
        (Isolate::Auto, OutboundL2::Kernel)
    );
    assert_eq!((c.host.kind, c.host.interface.as_str()), (PortKind::Auto, "wan0"));
    assert_eq!(
        (c.control.socket, c.control.group.as_str()),
        (PathBuf::from("/run/ovpn-dpdk/gw0.sock"), "root")
    );
    assert_eq!(c.metrics.listen, Some("127.0.0.1:9877".parse().unwrap()));
    assert_eq!((c.log.format, c.log.level), (LogFormat::Text, LogLevel::Info));
    let [t] = c.tunnels.as_slice() else {
        panic!("one tunnel")
    };
    assert_eq!(
        (t.interface.as_str(), &t.kind, t.mode, t.mtu, t.mss),
        ("ovpn0", &PortKind::Auto, Mode::Mp, 1500, Mss::Auto)
    );
    assert_eq!(
        (t.source_check, t.spread_peers, t.merge_tcp, t.next_hop),
        (true, false, true, None)
    );
    assert!(t.listen.is_empty() && t.keys_file.is_none() && t.peers.is_empty());
}

#[test]
fn every_key() {
    let c = parse(ALL).unwrap();
    assert_eq!(
        (c.name.as_str(), c.lcores),
        ("gw1", Lcores::List(vec![1, 3, 4, 5]))
    );
    assert_eq!(c.eal, ["--vdev=net_null0", "--no-huge"]);
    assert_eq!(
        (c.burst, c.batch, c.mbufs, c.idle_sleep_us),
        (32, false, AutoOr::Value(8192), 50)
    );
    assert_eq!(
        (c.lookahead.distance, c.lookahead.scope),
        (AutoOr::Auto, LookaheadScope::Batch)
    );
    assert_eq!(
        (c.insecure_static_keys, c.state_file),
        (true, PathBuf::from("/tmp/gw1.ids"))
    );
    assert_eq!(
        (c.nic.port.as_str(), c.nic.queues, c.nic.mtu),
        ("0000:3b:00.0", AutoOr::Value(2), 9000)
    );
    assert_eq!(
        (c.nic.isolate, c.nic.outbound_l2),
        (Isolate::Off, OutboundL2::LastHeard)
    );
    assert_eq!(
        (c.host.kind, c.host.interface.as_str()),
        (PortKind::VirtioUser, "wan1")
    );
    assert_eq!(
        (c.control.socket, c.control.group.as_str()),
        (PathBuf::from("/tmp/gw1.sock"), "openvpn")
    );
    assert_eq!(c.metrics.listen, Some("[::1]:9000".parse().unwrap()));
    assert_eq!((c.log.format, c.log.level), (LogFormat::Json, LogLevel::Debug));
}

#[test]
fn every_key_of_a_tunnel() {
    let c = parse(ALL).unwrap();
    let [t] = c.tunnels.as_slice() else {
        panic!("one tunnel")
    };
    assert_eq!(
        (t.interface.as_str(), &t.kind),
        ("net1", &PortKind::Ethdev("net_pcap1".into()))
    );
    assert_eq!(
        (t.mode, t.mtu, t.mss, t.next_hop),
        (Mode::P2p, 1400, Mss::Value(1300), Some([2, 0, 0, 0, 0, 10]))
    );
    assert_eq!(
        (t.source_check, t.spread_peers, t.merge_tcp),
        (false, true, false)
    );
    assert_eq!(
        t.listen,
        [
            "192.0.2.1:1194".parse().unwrap(),
            "[2001:db8::1]:1195".parse().unwrap()
        ]
    );
    assert_eq!(
        t.keys_file,
        Some(PathBuf::from("/etc/gw/keys.json")),
        "relative to the configuration's folder"
    );
    let [p] = t.peers.as_slice() else {
        panic!("one peer")
    };
    assert_eq!(
        (p.id, p.remote, p.keepalive),
        (7, Some("198.51.100.7:1194".parse().unwrap()), Some((10, 60)))
    );
    assert_eq!(
        p.addresses,
        [
            "10.8.0.2".parse::<std::net::IpAddr>().unwrap(),
            "fd08::2".parse().unwrap()
        ]
    );
    assert_eq!(p.networks, ["10.77.0.0/24".parse().unwrap()]);
}

#[test]
fn other_words() {
    let c = parse(&format!(
        "{LEAST}mss = \"off\"\nkind = \"tap\"\n[host]\nkind = \"kernel\"\n[metrics]\nlisten = \"\"\n"
    ))
    .unwrap();
    assert_eq!((c.tunnels[0].mss, &c.tunnels[0].kind), (Mss::Off, &PortKind::Tap));
    assert_eq!((c.host.kind, c.metrics.listen), (PortKind::Kernel, None));
    let c = parse(&format!("name = \"a-b.c_9\"\n{LEAST}")).unwrap();
    assert_eq!(
        c.control.socket,
        PathBuf::from("/run/ovpn-dpdk/a-b.c_9.sock"),
        "the default follows the name"
    );
}

#[test]
fn environment_over_file() {
    let environment = [
        ("OVPN_DPDK__BURST", "128"),
        ("OVPN_DPDK__BATCH", "true"),
        ("OVPN_DPDK__NAME", "007"),
        ("OVPN_DPDK__LCORES", "2"),
        ("OVPN_DPDK__EAL", "--no-huge  -m 512"),
        ("OVPN_DPDK__LOOKAHEAD__DISTANCE", "4"),
        ("OVPN_DPDK__MBUFS", "auto"),
        ("OVPN_DPDK__NIC__QUEUES", "3"),
        ("OVPN_DPDK__NIC__OUTBOUND_L2", "kernel"),
        ("OVPN_DPDK__LOG__LEVEL", "trace"),
        ("OVPN_DPDK_NOT_OURS", "x"),
        ("PATH", "/bin"),
    ];
    let c = parse_with(ALL, &environment).unwrap();
    assert_eq!(
        (c.burst, c.batch, c.name.as_str(), c.lcores),
        (128, true, "007", Lcores::List(vec![2]))
    );
    assert_eq!(c.eal, ["--no-huge", "-m", "512"]);
    assert_eq!(
        (c.lookahead.distance, c.lookahead.scope),
        (AutoOr::Value(4), LookaheadScope::Batch),
        "the other stays"
    );
    assert_eq!(
        (c.mbufs, c.nic.queues, c.nic.mtu),
        (AutoOr::Auto, AutoOr::Value(3), 9000)
    );
    assert_eq!(
        (c.nic.outbound_l2, c.log.level, c.log.format),
        (OutboundL2::Kernel, LogLevel::Trace, LogFormat::Json)
    );
}

#[test]
fn files_and_static_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw.toml");
    let line = line(Config::load(&path));
    assert!(line.contains("gw.toml: cannot be read: No such file"), "{line}");
    std::fs::write(&path, format!("{LEAST}keys_file = 'k.json'\n")).unwrap();
    let c = Config::load(&path).unwrap();
    assert_eq!(c.tunnels[0].keys_file, Some(folder.path().join("k.json")));
    let line = c.check_static_keys().unwrap_err().to_string();
    assert!(
        line.contains("tunnel[0].keys_file: static keys are for tests only: they need insecure_static_keys"),
        "{line}"
    );
    std::fs::write(
        &path,
        format!("insecure_static_keys = true\n{LEAST}keys_file = 'k.json'\n"),
    )
    .unwrap();
    assert!(Config::load(&path).unwrap().check_static_keys().is_ok());
    std::fs::write(&path, b"name = \"\xff\"\n").unwrap();
    assert!(Config::load(&path).is_err());
}

#[test]
fn summary_loads_again() {
    for text in [LEAST, ALL] {
        let environment = [("OVPN_DPDK__BURST", "16")];
        let first = parse_with(text, &environment).unwrap().summary(&[]).to_string();
        let again = parse(&first)
            .unwrap_or_else(|e| panic!("{e}\n{first}"))
            .summary(&[])
            .to_string();
        let values = |s: &str| {
            s.lines()
                .filter_map(|l| l.split("  #").next())
                .map(str::trim_end)
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert_eq!(values(&first), values(&again));
        assert!(
            first.contains("burst") && first.contains("# environment"),
            "{first}"
        );
    }
    let summary = parse(ALL).unwrap().summary(&[]).to_string();
    assert!(
        !summary.contains("# default"),
        "every key is in the file:\n{summary}"
    );
    let keys = |text: &str| -> BTreeSet<String> {
        let lines = text
            .lines()
            .filter_map(|l| l.split_once('='))
            .map(|(k, _)| k.trim().to_owned());
        lines
            .filter(|k| !k.starts_with('#') && !k.starts_with("lookahead"))
            .collect()
    };
    assert_eq!(keys(&summary), keys(ALL), "every key once");
    assert!(
        parse(LEAST)
            .unwrap()
            .summary(&[])
            .to_string()
            .contains("# default")
    );
}

/// The manual names every key.
#[test]
fn manual_is_complete() {
    let manual = include_str!("../../../docs/configuration.md");
    for key in ALL
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(key, _)| key)
    {
        assert!(
            manual.contains(&format!("`{key}`")) || manual.contains(&format!("`{key}.")),
            "{key}"
        );
    }
}

/// The manual's examples are accepted.
#[test]
fn manual_examples() {
    let manual = include_str!("../../../docs/configuration.md");
    let block = |language: &str| {
        let (_, rest) = manual.split_once(&format!("```{language}\n")).expect(language);
        rest.split_once("```").expect(language).0
    };
    assert_eq!(parse(block("toml")).unwrap().tunnels.len(), 1);
    let keys = nf_control::KeysFile::parse(block("json"), "manual").unwrap();
    assert_eq!(keys.keys_per_peer(), [(0, 1)]);
}

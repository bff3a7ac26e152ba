//! Raw values to validated ones: ranges, words, and what must agree between keys.

use std::collections::HashMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path;

use crate::config::{
    AutoOr, Config, Control, Host, Isolate, Lcores, Log, LogFormat, LogLevel, Lookahead, LookaheadScope,
    Metrics, Nic, OutboundL2, PortKind,
};
use crate::cpulist;
use crate::error::ConfigError;
use crate::layers::Origins;
use crate::names;
use crate::raw::{Raw, RawControl, RawHost, RawLog, RawLookahead, RawMetrics, RawNic, Scalar};
use crate::tunnel::{self, Tunnel};

/// Longest path of a UNIX socket in bytes (`sockaddr_un`, less the final zero).
const SOCKET_PATH_MAX: usize = 107;

/// Turns "what is allowed" into an error about `key`.
pub(crate) trait At<T> {
    fn at(self, origins: &Origins, key: impl Display) -> Result<T, ConfigError>;
}

impl<T> At<T> for Result<T, String> {
    fn at(self, origins: &Origins, key: impl Display) -> Result<T, ConfigError> {
        self.map_err(|message| origins.error(&key.to_string(), message))
    }
}

/// Checks that a number lies in a range.
pub(crate) fn range<T: TryFrom<i64> + PartialOrd + Display>(
    value: i64,
    allowed: RangeInclusive<T>,
) -> Result<T, String> {
    T::try_from(value)
        .ok()
        .filter(|v| allowed.contains(v))
        .ok_or_else(|| {
            format!(
                "{value} is out of range: {} to {}",
                allowed.start(),
                allowed.end()
            )
        })
}

/// Checks a number that may also be "auto".
pub(crate) fn auto_or<T: TryFrom<i64> + PartialOrd + Display>(
    value: &Scalar,
    allowed: RangeInclusive<T>,
) -> Result<AutoOr<T>, String> {
    match value {
        Scalar::Number(n) => range(*n, allowed)
            .map(AutoOr::Value)
            .map_err(|e| format!("{e}, or \"auto\"")),
        Scalar::Word(word) if word == "auto" => Ok(AutoOr::Auto),
        Scalar::Word(word) => Err(format!(
            "{word:?} is not allowed: {} to {}, or \"auto\"",
            allowed.start(),
            allowed.end()
        )),
    }
}

/// Validates everything.
pub(crate) fn config(raw: Raw, origins: Origins, folder: &Path) -> Result<Config, ConfigError> {
    let at = &origins;
    names::instance(&raw.name).at(at, "name")?;
    let eal = raw.eal.0;
    if let Some(i) = eal
        .iter()
        .position(|arg| arg.is_empty() || arg == "--" || arg.contains('\0'))
    {
        return Err(at.error(
            &format!("eal[{i}]"),
            "empty, \"--\" or a zero byte: each entry is one EAL argument",
        ));
    }
    let state_file = match raw.state_file.as_str() {
        "" => format!("/var/lib/ovpn-dpdk/{}.ids", raw.name).into(),
        path => folder.join(path),
    };
    let mut tunnels = Vec::with_capacity(raw.tunnel.len());
    for (i, tunnel) in raw.tunnel.into_iter().enumerate() {
        tunnels.push(tunnel::check(tunnel, at, i, folder)?);
    }
    let config = Config {
        lcores: lcores(&raw.lcores).at(at, "lcores")?,
        burst: range(raw.burst, 1..=256).at(at, "burst")?,
        batch: raw.batch,
        lookahead: lookahead(&raw.lookahead, at)?,
        mbufs: auto_or(&raw.mbufs, 512..=16_777_216).at(at, "mbufs")?,
        idle_sleep_us: range(raw.idle_sleep_us, 0..=1_000_000).at(at, "idle_sleep_us")?,
        insecure_static_keys: raw.insecure_static_keys,
        state_file,
        nic: nic(raw.nic, at)?,
        host: host(raw.host, at)?,
        tunnels,
        control: control(raw.control, at, &raw.name, folder)?,
        metrics: metrics(&raw.metrics, at)?,
        log: log(&raw.log, at)?,
        name: raw.name,
        eal,
        origins,
    };
    across(&config)?;
    Ok(config)
}

fn lcores(text: &str) -> Result<Lcores, String> {
    match text {
        "auto" => Ok(Lcores::Auto),
        list => cpulist::parse(list)
            .map(Lcores::List)
            .map_err(|e| format!("{e}, or \"auto\"")),
    }
}

fn lookahead(raw: &RawLookahead, at: &Origins) -> Result<Lookahead, ConfigError> {
    let scopes = [("burst", LookaheadScope::Burst), ("batch", LookaheadScope::Batch)];
    Ok(Lookahead {
        distance: auto_or(&raw.distance, 0..=16).at(at, "lookahead.distance")?,
        scope: names::word(&raw.scope, &scopes).at(at, "lookahead.scope")?,
    })
}

fn nic(raw: RawNic, at: &Origins) -> Result<Nic, ConfigError> {
    if raw.port.is_empty() {
        return Err(at.error(
            "nic.port",
            "a PCI address such as 0000:3b:00.0 or a vdev name is needed",
        ));
    }
    names::ethdev(&raw.port).at(at, "nic.port")?;
    let isolate = [
        ("auto", Isolate::Auto),
        ("on", Isolate::On),
        ("off", Isolate::Off),
    ];
    let outbound_l2 = [
        ("kernel", OutboundL2::Kernel),
        ("last-heard", OutboundL2::LastHeard),
    ];
    Ok(Nic {
        queues: auto_or(&raw.queues, 1..=128).at(at, "nic.queues")?,
        mtu: range(raw.mtu, 576..=9600).at(at, "nic.mtu")?,
        isolate: names::word(&raw.isolate, &isolate).at(at, "nic.isolate")?,
        outbound_l2: names::word(&raw.outbound_l2, &outbound_l2).at(at, "nic.outbound_l2")?,
        port: raw.port,
    })
}

fn host(raw: RawHost, at: &Origins) -> Result<Host, ConfigError> {
    let kind = names::port_kind(&raw.kind, true).at(at, "host.kind")?;
    names::interface(&raw.interface).at(at, "host.interface")?;
    Ok(Host {
        kind,
        interface: raw.interface,
    })
}

fn control(raw: RawControl, at: &Origins, name: &str, folder: &Path) -> Result<Control, ConfigError> {
    let socket = match raw.socket.as_str() {
        "" => format!("/run/ovpn-dpdk/{name}.sock").into(),
        path => folder.join(path),
    };
    let bytes = socket.as_os_str().len();
    if bytes > SOCKET_PATH_MAX {
        return Err(at.error(
            "control.socket",
            format!("{bytes} bytes; a socket's path has at most {SOCKET_PATH_MAX}"),
        ));
    }
    if raw.group.is_empty()
        || raw
            .group
            .contains(|c: char| c == ':' || c.is_whitespace() || c.is_control())
    {
        return Err(at.error("control.group", format!("{:?} is no group name", raw.group)));
    }
    Ok(Control {
        socket,
        group: raw.group,
    })
}

fn metrics(raw: &RawMetrics, at: &Origins) -> Result<Metrics, ConfigError> {
    let listen = match raw.listen.as_str() {
        "" => None,
        text => Some(names::socket_addr(text).at(at, "metrics.listen")?),
    };
    Ok(Metrics { listen })
}

fn log(raw: &RawLog, at: &Origins) -> Result<Log, ConfigError> {
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let levels = [
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];
    Ok(Log {
        format: names::word(&raw.format, &formats).at(at, "log.format")?,
        level: names::word(&raw.level, &levels).at(at, "log.level")?,
    })
}

/// What must agree between NIC, host and tunnels.
fn across(config: &Config) -> Result<(), ConfigError> {
    let at = &config.origins;
    if config.tunnels.is_empty() {
        return Err(at.error("tunnel", "at least one [[tunnel]] is needed"));
    }
    let mut interfaces = HashMap::new();
    let mut ports = HashMap::from([(config.nic.port.as_str(), "nic.port".to_owned())]);
    // An EAL port has no kernel interface: the name is a label then, and may be left at its default.
    match &config.host.kind {
        PortKind::Ethdev(port) => unique(&mut ports, port, "host.kind".into(), at)?,
        _ => unique(
            &mut interfaces,
            config.host.interface.as_str(),
            "host.interface".into(),
            at,
        )?,
    }
    for (i, tunnel) in config.tunnels.iter().enumerate() {
        unique(
            &mut interfaces,
            tunnel.interface.as_str(),
            format!("tunnel[{i}].interface"),
            at,
        )?;
        if let PortKind::Ethdev(port) = &tunnel.kind {
            unique(&mut ports, port, format!("tunnel[{i}].kind"), at)?;
        }
    }
    listens(
        &config
            .tunnels
            .iter()
            .map(|t| t.listen.as_slice())
            .collect::<Vec<_>>(),
        at,
    )
}

fn unique<'a>(
    seen: &mut HashMap<&'a str, String>,
    name: &'a str,
    key: String,
    at: &Origins,
) -> Result<(), ConfigError> {
    match seen.get(name) {
        Some(other) => Err(at.error(&key, format!("{name:?} is the same as {other}"))),
        None => {
            seen.insert(name, key);
            Ok(())
        }
    }
}

/// Refuses listening addresses that overlap, over all tunnels. `listens` has one list per tunnel.
pub(crate) fn listens(listens: &[&[std::net::SocketAddr]], at: &Origins) -> Result<(), ConfigError> {
    let all = |i: usize| {
        listens[i]
            .iter()
            .enumerate()
            .map(move |(j, a)| (format!("tunnel[{i}].listen[{j}]"), *a))
    };
    let all: Vec<_> = (0..listens.len()).flat_map(all).collect();
    for (n, (key, addr)) in all.iter().enumerate() {
        for (other_key, other) in &all[..n] {
            let same_port = addr.port() == other.port() && addr.is_ipv4() == other.is_ipv4();
            let wildcard = addr.ip().is_unspecified() || other.ip().is_unspecified();
            if same_port && (wildcard || addr.ip() == other.ip()) {
                return Err(at.error(key, format!("{addr} overlaps {other} of {other_key}")));
            }
        }
    }
    Ok(())
}

/// The path that errors name for a tunnel.
pub(crate) fn tunnel_key(index: usize, tunnel: &Tunnel) -> String {
    format!("tunnel[{index}] ({})", tunnel.interface)
}

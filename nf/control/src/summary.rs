//! The effective configuration, as `check-config` prints it: TOML that loads again, with the origin of every value.

use std::fmt;

use crate::config::{
    AutoOr, Config, Isolate, Lcores, LogFormat, LogLevel, LookaheadScope, OutboundL2, PortKind,
};
use crate::cpulist::CpuList;
use crate::keys::KeysFile;
use crate::layers::Origin;
use crate::tunnel::{Mode, Mss, Tunnel};

/// Displays each effective setting once, in the order of the manual. Never shows key material.
#[derive(Debug)]
pub struct Summary<'a> {
    config: &'a Config,
    keys: &'a [Option<KeysFile>],
}

impl Config {
    /// The summary of this configuration. `keys` is what [`Config::load_keys`] gave, or empty.
    pub fn summary<'a>(&'a self, keys: &'a [Option<KeysFile>]) -> Summary<'a> {
        Summary { config: self, keys }
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.config;
        writeln!(f, "# {}", config.origins.file())?;
        general(config).write(f)?;
        writeln!(f, "\n[nic]")?;
        nic(config).write(f)?;
        writeln!(f, "\n[host]")?;
        let mut host = Section::new(config, "host.");
        host.text("kind", port_kind(&config.host.kind));
        host.text("interface", &config.host.interface);
        host.write(f)?;
        for (i, tunnel) in config.tunnels.iter().enumerate() {
            writeln!(f, "\n[[tunnel]]")?;
            tunnel_section(config, i, tunnel).write(f)?;
            if let Some(Some(keys)) = self.keys.get(i) {
                write_keys(f, keys)?;
            }
            for (j, _) in tunnel.peers.iter().enumerate() {
                writeln!(f, "\n[[tunnel.peer]]")?;
                peer_section(config, i, j).write(f)?;
            }
        }
        writeln!(f, "\n[control]")?;
        let mut control = Section::new(config, "control.");
        control.text("socket", config.control.socket.display());
        control.text("group", &config.control.group);
        control.write(f)?;
        writeln!(f, "\n[metrics]")?;
        let mut metrics = Section::new(config, "metrics.");
        metrics.text(
            "listen",
            config.metrics.listen.map_or(String::new(), |a| a.to_string()),
        );
        metrics.write(f)?;
        writeln!(f, "\n[log]")?;
        log(config).write(f)
    }
}

fn general(config: &Config) -> Section<'_> {
    let mut s = Section::new(config, "");
    s.text("name", &config.name);
    s.texts("eal", &config.eal);
    match &config.lcores {
        Lcores::Auto => s.text("lcores", "auto"),
        Lcores::List(cpus) => s.text("lcores", CpuList(cpus)),
    }
    s.plain("burst", config.burst);
    s.plain("batch", config.batch);
    s.auto("lookahead.distance", config.lookahead.distance);
    s.text(
        "lookahead.scope",
        match config.lookahead.scope {
            LookaheadScope::Burst => "burst",
            LookaheadScope::Batch => "batch",
        },
    );
    s.auto("mbufs", config.mbufs);
    s.plain("idle_sleep_us", config.idle_sleep_us);
    s.plain("insecure_static_keys", config.insecure_static_keys);
    s.text("state_file", config.state_file.display());
    s
}

fn nic(config: &Config) -> Section<'_> {
    let mut s = Section::new(config, "nic.");
    s.text("port", &config.nic.port);
    s.auto("queues", config.nic.queues);
    s.plain("mtu", config.nic.mtu);
    s.text(
        "isolate",
        match config.nic.isolate {
            Isolate::Auto => "auto",
            Isolate::On => "on",
            Isolate::Off => "off",
        },
    );
    s.text(
        "outbound_l2",
        match config.nic.outbound_l2 {
            OutboundL2::Kernel => "kernel",
            OutboundL2::LastHeard => "last-heard",
        },
    );
    s
}

fn log(config: &Config) -> Section<'_> {
    let mut s = Section::new(config, "log.");
    s.text(
        "format",
        match config.log.format {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        },
    );
    s.text(
        "level",
        match config.log.level {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        },
    );
    s
}

fn tunnel_section<'a>(config: &'a Config, index: usize, tunnel: &Tunnel) -> Section<'a> {
    let mut s = Section::new(config, &format!("tunnel[{index}]."));
    s.text("interface", &tunnel.interface);
    s.text("kind", port_kind(&tunnel.kind));
    s.text(
        "mode",
        match tunnel.mode {
            Mode::Mp => "mp",
            Mode::P2p => "p2p",
        },
    );
    s.texts("listen", &tunnel.listen);
    s.plain("mtu", tunnel.mtu);
    match tunnel.mss {
        Mss::Auto => s.text("mss", "auto"),
        Mss::Off => s.text("mss", "off"),
        Mss::Value(bytes) => s.plain("mss", bytes),
    }
    s.plain("source_check", tunnel.source_check);
    s.plain("spread_peers", tunnel.spread_peers);
    s.plain("merge_tcp", tunnel.merge_tcp);
    let mac = tunnel
        .next_hop
        .map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":"));
    s.text("next_hop", mac.unwrap_or_default());
    s.text(
        "keys_file",
        tunnel
            .keys_file
            .as_ref()
            .map_or(String::new(), |path| path.display().to_string()),
    );
    s
}

fn peer_section(config: &Config, tunnel: usize, index: usize) -> Section<'_> {
    let peer = &config.tunnels[tunnel].peers[index];
    let mut s = Section::new(config, &format!("tunnel[{tunnel}].peer[{index}]."));
    s.plain("id", peer.id);
    s.text("remote", peer.remote.map_or(String::new(), |a| a.to_string()));
    s.text("local", peer.local.map_or(String::new(), |a| a.to_string()));
    s.texts("addresses", &peer.addresses);
    s.texts("networks", &peer.networks);
    if let Some((interval, timeout)) = peer.keepalive {
        s.plain("keepalive", format_args!("[{interval}, {timeout}]"));
    }
    s
}

fn write_keys(f: &mut fmt::Formatter<'_>, keys: &KeysFile) -> fmt::Result {
    let peers = keys.keys_per_peer();
    writeln!(f, "# keys file: peers {}, keys {}", peers.len(), keys.keys.len())?;
    for addr in &keys.listen {
        writeln!(f, "#   listens on {addr}")?;
    }
    for (peer, count) in peers {
        writeln!(f, "#   peer {peer}: keys {count}")?;
    }
    Ok(())
}

fn port_kind(kind: &PortKind) -> &str {
    match kind {
        PortKind::Auto => "auto",
        PortKind::VirtioUser => "virtio-user",
        PortKind::Tap => "tap",
        PortKind::Kernel => "kernel",
        PortKind::Ethdev(name) => name,
    }
}

/// Rows of one table: key, value, origin; written aligned.
struct Section<'a> {
    config: &'a Config,
    prefix: String,
    rows: Vec<(String, String, Origin)>,
}

impl<'a> Section<'a> {
    fn new(config: &'a Config, prefix: &str) -> Self {
        Section {
            config,
            prefix: prefix.to_owned(),
            rows: Vec::new(),
        }
    }

    fn plain(&mut self, key: &str, value: impl fmt::Display) {
        let origin = self.config.origins.of(&format!("{}{key}", self.prefix));
        self.rows.push((key.to_owned(), value.to_string(), origin));
    }

    fn text(&mut self, key: &str, value: impl fmt::Display) {
        self.plain(key, quoted(value));
    }

    fn texts<T: fmt::Display>(&mut self, key: &str, values: &[T]) {
        self.plain(
            key,
            format_args!("[{}]", values.iter().map(quoted).collect::<Vec<_>>().join(", ")),
        );
    }

    fn auto<T: fmt::Display>(&mut self, key: &str, value: AutoOr<T>) {
        match value {
            AutoOr::Auto => self.text(key, "auto"),
            AutoOr::Value(value) => self.plain(key, value),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key_width = self
            .rows
            .iter()
            .map(|row| row.0.chars().count())
            .max()
            .unwrap_or(0);
        let value_width = self
            .rows
            .iter()
            .map(|row| row.1.chars().count())
            .max()
            .unwrap_or(0);
        for (key, value, origin) in &self.rows {
            let origin = match origin {
                Origin::Default => "default",
                Origin::File => "file",
                Origin::Environment => "environment",
            };
            writeln!(f, "{key:key_width$} = {value:value_width$}  # {origin}")?;
        }
        Ok(())
    }
}

/// A TOML string.
fn quoted(value: impl fmt::Display) -> String {
    toml::Value::String(value.to_string()).to_string()
}

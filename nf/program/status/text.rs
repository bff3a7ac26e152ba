//! A report as tables for people.

mod units;

use super::report::{KeySlotName, LcoreReport, PeerReport, Report, TunnelKind, TunnelReport};
use std::fmt::Write;
use units::{ago, bytes, clean, count, duration};

/// The tables, and at the end whether all is well: `reasons` are those why not.
pub fn text(report: &Report, reasons: &[String]) -> String {
    let mut out = format!(
        "{}: up {}, version {}, process {}\n",
        clean(&report.name),
        duration(report.uptime_s),
        clean(&report.version),
        report.pid
    );
    tunnels(&mut out, report);
    peers(&mut out, report);
    processes(&mut out, report);
    lcores(&mut out, &report.lcores);
    drops(&mut out, report);
    out.push('\n');
    if reasons.is_empty() {
        out.push_str("healthy\n");
    }
    for reason in reasons {
        let _ = writeln!(out, "not healthy: {}", clean(reason));
    }
    out
}

fn tunnels(out: &mut String, report: &Report) {
    let mut table = Table::new(&[
        "TUNNEL",
        "MODE",
        ">MTU",
        ">PEERS",
        "DRIVEN BY",
        "FAMILY",
        "LISTENS ON",
    ]);
    for tunnel in &report.tunnels {
        let mut listen = tunnel.listen.iter().map(ToString::to_string);
        table.row([
            tunnel.interface.clone(),
            tunnel.mode.clone(),
            tunnel.mtu.to_string(),
            tunnel.peers.len().to_string(),
            driver(tunnel),
            tunnel.family.clone().unwrap_or_else(|| "-".into()),
            listen.next().unwrap_or_else(|| "-".into()),
        ]);
        for address in listen {
            table.row([const { String::new() }; 6].into_iter().chain([address]));
        }
    }
    table.write(out);
}

fn driver(tunnel: &TunnelReport) -> String {
    match (&tunnel.daemon, tunnel.kind) {
        (Some(d), _) => format!("{} (process {}), {}", d.command, d.pid, duration(d.since_s)),
        (None, TunnelKind::Static) => "configuration".into(),
        (None, TunnelKind::Daemon) => "nobody".into(),
    }
}

fn peers(out: &mut String, report: &Report) {
    if report.tunnels.iter().all(|tunnel| tunnel.peers.is_empty()) {
        return;
    }
    let mut table = Table::new(&[
        "TUNNEL",
        ">PEER",
        "ENDPOINT",
        "VPN ADDRESS",
        "CIPHER",
        "KEYS",
        ">FROM PEER",
        ">TO PEER",
        ">HEARD",
    ]);
    for tunnel in &report.tunnels {
        for peer in &tunnel.peers {
            let mut addresses = peer.addresses.iter().map(ToString::to_string);
            let cipher = primary(peer).map_or("-", |key| &key.cipher);
            table.row([
                tunnel.interface.clone(),
                peer.id.to_string(),
                peer.remote
                    .map_or_else(|| "-".into(), |remote| remote.to_string()),
                addresses.next().unwrap_or_else(|| "-".into()),
                cipher.to_owned(),
                keys(peer),
                bytes(peer.vpn_rx_bytes),
                bytes(peer.vpn_tx_bytes),
                ago(peer.heard_ms_ago),
            ]);
            let mut known = peer.known_remote.map(|known| format!("(daemon: {known})"));
            // What does not fit into its one line.
            let more: Vec<String> = addresses.chain(peer.networks.iter().cloned()).collect();
            for i in 0..more.len().max(usize::from(known.is_some())) {
                let more = more.get(i).cloned().unwrap_or_default();
                table.row([
                    String::new(),
                    String::new(),
                    known.take().unwrap_or_default(),
                    more,
                ]);
            }
        }
    }
    table.write(out);
}

fn primary(peer: &PeerReport) -> Option<&super::report::KeyReport> {
    peer.keys.iter().find(|key| key.slot == KeySlotName::Primary)
}

/// Key ids with their ages; the key that seals has a star: "3* 12 s, 2 61 min".
fn keys(peer: &PeerReport) -> String {
    let all: Vec<String> = peer
        .keys
        .iter()
        .map(|key| {
            let star = if key.slot == KeySlotName::Primary { "*" } else { "" };
            format!("{}{star} ({})", key.key_id, duration(key.age_s))
        })
        .collect();
    if all.is_empty() {
        "none".into()
    } else {
        all.join(", ")
    }
}

fn processes(out: &mut String, report: &Report) {
    if report.clients.is_empty() {
        return;
    }
    let mut table = Table::new(&[">PROCESS", "COMMAND", ">USER", ">CONNECTED", "DRIVES"]);
    for client in &report.clients {
        table.row([
            client.pid.to_string(),
            client.command.clone(),
            client.uid.to_string(),
            duration(client.since_s),
            if client.tunnels.is_empty() {
                "nothing".into()
            } else {
                client.tunnels.join(", ")
            },
        ]);
    }
    table.write(out);
}

fn lcores(out: &mut String, lcores: &[LcoreReport]) {
    /// Titles, and the counters below them.
    const COLUMNS: [(&str, &str); 8] = [
        (">FROM NIC", "nic_rx"),
        (">RECORDS", "records"),
        (">AUTHENTIC", "authentic"),
        (">DELIVERED", "tunnel_tx"),
        (">FROM TUNNEL", "tunnel_rx"),
        (">SEALED", "sealed"),
        (">SENT", "records_tx"),
        (">TO HOST", "to_host"),
    ];
    let titles: Vec<&str> = [">CPU", ">BUSY"]
        .into_iter()
        .chain(COLUMNS.map(|(title, _)| title))
        .chain(["STATE"])
        .collect();
    let mut table = Table::new(&titles);
    for lcore in lcores {
        let counter = |name: &str| lcore.counters.get(name).map_or("-".into(), |n| count(*n));
        let mut row = vec![lcore.cpu.to_string(), format!("{:.1} %", lcore.busy * 100.0)];
        row.extend(COLUMNS.map(|(_, name)| counter(name)));
        row.push(if lcore.stuck { "stuck" } else { "runs" }.into());
        table.row(row);
    }
    table.write(out);
}

fn drops(out: &mut String, report: &Report) {
    if report.drops.is_empty() {
        out.push_str("\nno packet was dropped\n");
        return;
    }
    let mut table = Table::new(&["DROPPED", ">PACKETS"]);
    for (reason, packets) in &report.drops {
        table.row([reason.clone(), packets.to_string()]);
    }
    table.write(out);
}

/// Columns as wide as their widest cell.
struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A title that begins with ">" has its column aligned to the right.
    fn new(titles: &[&str]) -> Table {
        Table {
            right: titles.iter().map(|title| title.starts_with('>')).collect(),
            rows: vec![
                titles
                    .iter()
                    .map(|title| title.trim_start_matches('>').into())
                    .collect(),
            ],
        }
    }

    /// Cells that are missing at the end are empty.
    fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows
            .push(cells.into_iter().map(|cell| clean(&cell)).collect());
    }

    /// An empty line, then the table.
    fn write(&self, out: &mut String) {
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(String::len)
                .max()
        };
        let widths: Vec<usize> = (0..self.right.len())
            .map(|column| width(column).unwrap_or(0))
            .collect();
        out.push('\n');
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), right) in row.iter().zip(&widths).zip(&self.right) {
                let _ = if *right {
                    write!(line, "{cell:>width$}  ")
                } else {
                    write!(line, "{cell:<width$}  ")
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
}

#[cfg(test)]
mod tests;

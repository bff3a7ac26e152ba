//! The table of `run --stats-period`: ports, lcores, bursts, batches, drops. At most 100 columns.

use lcore::port::PortStats;
use nf_path::counters::{BUCKETS, Histogram, Totals};
use std::fmt::Write;
use std::time::Instant;

/// A port at one time.
#[derive(Clone, Debug)]
pub struct PortRow {
    /// Its part in the gateway.
    pub part: &'static str,
    /// Its name.
    pub name: String,
    /// Its driver's name.
    pub driver: String,
    /// Its counters.
    pub stats: PortStats,
}

/// A worker at one time.
#[derive(Clone, Debug)]
pub struct LcoreRow {
    /// The CPU that it runs on.
    pub cpu: usize,
    /// What it counted.
    pub totals: Totals,
}

/// Columns.
const WIDTH: usize = 100;

/// Tables in a row: each shows totals, and rates since the one before.
pub struct Table {
    gateway: String,
    start: Instant,
    last: Option<(Instant, Vec<PortRow>, Vec<LcoreRow>)>,
}

impl Table {
    /// The tables of a gateway that started at `start`.
    pub fn new(gateway: &str, start: Instant) -> Table {
        Table {
            gateway: gateway.into(),
            start,
            last: None,
        }
    }

    /// The table at `now`. `whole`: rates are over the whole run, as in the last one.
    pub fn render(
        &mut self,
        now: Instant,
        ports: Vec<PortRow>,
        lcores: Vec<LcoreRow>,
        whole: bool,
    ) -> String {
        let before = if whole { None } else { self.last.take() };
        let (then, ports_before, lcores_before) = before.unwrap_or((self.start, Vec::new(), Vec::new()));
        let (up, seconds) = (
            (now - self.start).as_secs_f64(),
            (now - then).as_secs_f64().max(1e-3),
        );
        let over = if whole {
            "the whole run".into()
        } else {
            format!("the last {seconds:.1} s")
        };
        let mut out = format!("---- {}: up {up:.1} s, rates over {over} ", self.gateway);
        let fill = WIDTH.saturating_sub(out.len());
        out.push_str(&"-".repeat(fill));
        out.push('\n');
        for (i, port) in ports.iter().enumerate() {
            let before = ports_before.get(i).map(|p| p.stats).unwrap_or_default();
            write_port(&mut out, port, &before, seconds);
        }
        for (i, lcore) in lcores.iter().enumerate() {
            let before = lcores_before.get(i).map(|l| l.totals.clone()).unwrap_or_default();
            write_lcore(&mut out, lcore, &before, seconds);
        }
        let sum = |rows: &[LcoreRow]| rows.iter().fold(Totals::default(), |sum, l| sum.plus(&l.totals));
        write_drops(&mut out, &sum(&lcores), &sum(&lcores_before), seconds);
        out.push('\n');
        self.last = Some((now, ports, lcores));
        out
    }
}

fn write_port(out: &mut String, port: &PortRow, before: &PortStats, seconds: f64) {
    let PortRow {
        part,
        name,
        driver,
        stats: s,
    } = port;
    let _ = writeln!(out, "{part:<7} {name} ({driver})");
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let mut line = |way, packets, bytes, pps: f64, bps: f64| {
        let (pps, bps) = (short(pps), short(bps * 8.0));
        let _ = writeln!(
            out,
            "  {way:<3} {packets:>16} packets {bytes:>19} bytes {pps:>12} packet/s {bps:>12} bit/s"
        );
    };
    line(
        "in",
        s.ipackets,
        s.ibytes,
        rate(s.ipackets, before.ipackets),
        rate(s.ibytes, before.ibytes),
    );
    line(
        "out",
        s.opackets,
        s.obytes,
        rate(s.opackets, before.opackets),
        rate(s.obytes, before.obytes),
    );
    let bad = [
        ("in missed", s.imissed),
        ("in errors", s.ierrors),
        ("no buffer", s.rx_nombuf),
        ("out errors", s.oerrors),
    ];
    let bad: Vec<String> = bad
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(what, n)| format!("{what} {}", short(*n as f64)))
        .collect();
    if !bad.is_empty() {
        let _ = writeln!(out, "  lost: {}", bad.join(", "));
    }
}

fn write_lcore(out: &mut String, lcore: &LcoreRow, before: &Totals, seconds: f64) {
    let (t, d) = (&lcore.totals, lcore.totals.since(before));
    let per = |n: u64| {
        if n == 0 {
            "-".into()
        } else {
            format!("{:.1}", d.busy_cycles as f64 / n as f64)
        }
    };
    // Both paths: the cycles are those of all bursts.
    let (packets, bytes) = (d.nic_rx + d.tunnel_rx, d.nic_rx_bytes + d.tunnel_rx_bytes);
    let _ = writeln!(
        out,
        "lcore   CPU {}: {} packet/s, {} bit/s, {} cycles a packet, {} cycles a byte",
        lcore.cpu,
        short(packets as f64 / seconds),
        short(bytes as f64 * 8.0 / seconds),
        per(packets),
        per(bytes),
    );
    let in_order = [
        ("packets", t.nic_rx),
        ("records", t.records),
        ("authentic", t.authentic),
        ("keepalives", t.keepalives),
        ("delivered", t.tunnel_tx),
        ("reassembled", t.reassembled),
        ("to host", t.to_host),
        ("to daemon", t.to_daemon),
        ("from tunnel", t.tunnel_rx),
        ("sealed", t.sealed),
        ("sent", t.records_tx),
        ("fragments", t.fragments_tx),
    ];
    for line in in_order.chunks(4) {
        let cells: String = line
            .iter()
            .map(|(what, n)| format!("  {what:<12} {:<9}", short(*n as f64)))
            .collect();
        let _ = writeln!(out, "{}", cells.trim_end());
    }
    let mut line = |what: &str, cells: [String; BUCKETS]| {
        let cells: String = cells[1..].iter().map(|c| format!("{c:>10}")).collect();
        let _ = writeln!(out, "  {what:<8}{cells}");
    };
    line("size", std::array::from_fn(Histogram::label));
    line("bursts", t.bursts.map(|n| short(n as f64)));
    line("batches", t.batches.map(|n| short(n as f64)));
}

fn write_drops(out: &mut String, now: &Totals, before: &Totals, seconds: f64) {
    let rates = now.since(before);
    for (reason, n) in now.nonzero_drops() {
        let rate = short(rates.dropped(reason) as f64 / seconds);
        let _ = writeln!(
            out,
            "drop    {:<18} {n:>16} packets {rate:>12} packet/s",
            reason.name()
        );
    }
}

/// A number in at most 8 characters: as it is, or with the unit of a thousand, a million, ... in front of its decimals.
fn short(n: f64) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let (mut n, mut unit) = (n, 0);
    while n >= 100_000.0 && unit + 1 < UNITS.len() {
        n /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{n:.0}"),
        _ => format!("{n:.1}{}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests;

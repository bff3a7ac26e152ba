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
        Table { gateway: gateway.into(), start, last: None }
    }

    /// The table at `now`. `whole`: rates are over the whole run, as in the last one.
    pub fn render(&mut self, now: Instant, ports: Vec<PortRow>, lcores: Vec<LcoreRow>, whole: bool) -> String {
        let before = if whole { None } else { self.last.take() };
        let (then, ports_before, lcores_before) = before.unwrap_or((self.start, Vec::new(), Vec::new()));
        let (up, seconds) = ((now - self.start).as_secs_f64(), (now - then).as_secs_f64().max(1e-3));
        let over = if whole { "the whole run".into() } else { format!("the last {seconds:.1} s") };
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
    let PortRow { part, name, driver, stats: s } = port;
    let _ = writeln!(out, "{part:<7} {name} ({driver})");
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let mut line = |way, packets, bytes, pps: f64, bps: f64| {
        let (pps, bps) = (short(pps), short(bps * 8.0));
        let _ = writeln!(out, "  {way:<3} {packets:>16} packets {bytes:>19} bytes {pps:>12} packet/s {bps:>12} bit/s");
    };
    line("in", s.ipackets, s.ibytes, rate(s.ipackets, before.ipackets), rate(s.ibytes, before.ibytes));
    line("out", s.opackets, s.obytes, rate(s.opackets, before.opackets), rate(s.obytes, before.obytes));
    let bad = [("in missed", s.imissed), ("in errors", s.ierrors), ("no buffer", s.rx_nombuf), ("out errors", s.oerrors)];
    let bad: Vec<String> =
        bad.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{what} {}", short(*n as f64))).collect();
    if !bad.is_empty() {
        let _ = writeln!(out, "  lost: {}", bad.join(", "));
    }
}

fn write_lcore(out: &mut String, lcore: &LcoreRow, before: &Totals, seconds: f64) {
    let (t, d) = (&lcore.totals, lcore.totals.since(before));
    let per = |n: u64| if n == 0 { "-".into() } else { format!("{:.1}", d.busy_cycles as f64 / n as f64) };
    let _ = writeln!(
        out,
        "lcore   CPU {}: {} packet/s, {} bit/s, {} cycles a packet, {} cycles a byte",
        lcore.cpu,
        short(d.nic_rx as f64 / seconds),
        short(d.nic_rx_bytes as f64 * 8.0 / seconds),
        per(d.nic_rx),
        per(d.nic_rx_bytes),
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
    ];
    for line in in_order.chunks(4) {
        let cells: String = line.iter().map(|(what, n)| format!("  {what:<12} {:<9}", short(*n as f64))).collect();
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
        let _ = writeln!(out, "drop    {:<18} {n:>16} packets {rate:>12} packet/s", reason.name());
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
mod tests {
    use super::*;
    use nf_path::counters::Counters;
    use nf_path::verdict::DropReason;
    use std::time::Duration;

    fn port(ipackets: u64) -> PortRow {
        let stats = PortStats { ipackets, ibytes: ipackets * 100, ..PortStats::default() };
        PortRow { part: "nic", name: "net_pcap0".into(), driver: "net_pcap".into(), stats }
    }

    fn lcore(packets: u64) -> LcoreRow {
        let c = Counters::default();
        c.nic_rx.add(packets);
        c.nic_rx_bytes.add(packets * 100);
        c.busy_cycles.add(packets * 250);
        c.bursts.add(64);
        c.batches.add(3);
        c.count(DropReason::ReplayOld, packets / 10);
        LcoreRow { cpu: 1, totals: c.totals() }
    }

    #[test]
    fn shows_totals_rates_and_the_drops_that_are_not_zero() {
        let start = Instant::now();
        let mut table = Table::new("gw0", start);
        let at = |s| start + Duration::from_secs(s);
        table.render(at(1), vec![port(1000)], vec![lcore(1000)], false);
        let text = table.render(at(3), vec![port(5000)], vec![lcore(5000)], false);
        assert!(text.contains("up 3.0 s, rates over the last 2.0 s"), "{text}");
        assert!(text.contains("nic     net_pcap0 (net_pcap)"), "{text}");
        let port: Vec<&str> = text.lines().find(|l| l.starts_with("  in ")).unwrap().split_whitespace().collect();
        assert_eq!(port, ["in", "5000", "packets", "500000", "bytes", "2000", "packet/s", "1600.0k", "bit/s"]);
        assert!(text.contains("CPU 1: 2000 packet/s, 1600.0k bit/s, 250.0 cycles a packet, 2.5 cycles a byte"), "{text}");
        let drop: Vec<&str> = text.lines().find(|l| l.starts_with("drop")).unwrap().split_whitespace().collect();
        assert_eq!(drop, ["drop", "replay_old", "500", "packets", "200", "packet/s"]);
        assert_eq!(text.lines().filter(|l| l.starts_with("drop")).count(), 1);
        assert!(!text.contains("lost:"), "{text}");
    }

    #[test]
    fn the_last_table_is_over_the_whole_run() {
        let start = Instant::now();
        let mut table = Table::new("gw0", start);
        table.render(start + Duration::from_secs(9), vec![port(9000)], vec![lcore(9000)], false);
        let text = table.render(start + Duration::from_secs(10), vec![port(10_000)], vec![lcore(10_000)], true);
        assert!(text.contains("over the whole run") && text.contains("CPU 1: 1000 packet/s"), "{text}");
    }

    #[test]
    fn histogram_columns_stand_under_their_labels() {
        let start = Instant::now();
        let text = Table::new("gw0", start).render(start, vec![], vec![lcore(10)], false);
        let line = |name: &str| text.lines().find(|l| l.trim_start().starts_with(name)).unwrap().to_owned();
        let end = |line: &str, what: &str| line.find(what).unwrap() + what.len();
        let (size, bursts, batches) = (line("size"), line("bursts"), line("batches"));
        assert_eq!(bursts.as_bytes()[end(&size, " 33-64") - 1], b'1');
        assert_eq!(batches.as_bytes()[end(&size, " 3-4") - 1], b'1');
    }

    #[test]
    fn an_idle_lcore_has_no_cycles_a_packet() {
        let start = Instant::now();
        let idle = LcoreRow { cpu: 0, totals: Totals::default() };
        let text = Table::new("gw0", start).render(start, vec![], vec![idle], false);
        assert!(text.contains("- cycles a packet, - cycles a byte"), "{text}");
    }

    #[test]
    fn every_line_fits_whatever_the_numbers() {
        let start = Instant::now();
        let mut row = port(u64::MAX / 100);
        row.name = "net_virtio_user_fifteen-bytes-x".into();
        row.stats = PortStats { imissed: 1 << 60, ierrors: 1 << 60, rx_nombuf: 1 << 60, oerrors: 1 << 60, ..row.stats };
        let c = Counters::default();
        for counter in [&c.nic_rx, &c.records, &c.authentic, &c.tunnel_tx, &c.keepalives, &c.to_host, &c.nic_rx_bytes] {
            counter.add(1 << 50);
        }
        DropReason::ALL.iter().for_each(|d| c.count(*d, 1 << 50));
        let lcore = LcoreRow { cpu: 1023, totals: c.totals() };
        let text = Table::new("a-name-of-thirty-two-characters-", start).render(start, vec![row], vec![lcore], false);
        for line in text.lines() {
            assert!(line.len() <= WIDTH, "{}: {line}", line.len());
        }
        assert_eq!(text.lines().filter(|l| l.starts_with("drop")).count(), DropReason::COUNT);
    }

    #[test]
    fn short_numbers() {
        for (n, text) in [(0.0, "0"), (99_999.0, "99999"), (100_000.0, "100.0k"), (1.6e9, "1600.0M"), (1e20, "100000.0P")] {
            assert_eq!(short(n), text);
        }
    }
}

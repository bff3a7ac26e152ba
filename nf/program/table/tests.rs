use super::*;
use nf_path::counters::Counters;
use nf_path::verdict::DropReason;
use std::time::Duration;

fn port(ipackets: u64) -> PortRow {
    let stats = PortStats {
        ipackets,
        ibytes: ipackets * 100,
        ..PortStats::default()
    };
    PortRow {
        part: "nic",
        name: "net_pcap0".into(),
        driver: "net_pcap".into(),
        stats,
    }
}

fn lcore(packets: u64) -> LcoreRow {
    let c = Counters::default();
    c.nic_rx.add(packets);
    c.nic_rx_bytes.add(packets * 100);
    c.busy_cycles.add(packets * 250);
    c.bursts.add(64);
    c.batches.add(3);
    c.count(DropReason::ReplayOld, packets / 10);
    LcoreRow {
        cpu: 1,
        totals: c.totals(),
    }
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
    let port: Vec<&str> = text
        .lines()
        .find(|l| l.starts_with("  in "))
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(
        port,
        [
            "in", "5000", "packets", "500000", "bytes", "2000", "packet/s", "1600.0k", "bit/s"
        ]
    );
    assert!(
        text.contains("CPU 1: 2000 packet/s, 1600.0k bit/s, 250.0 cycles a packet, 2.5 cycles a byte"),
        "{text}"
    );
    let drop: Vec<&str> = text
        .lines()
        .find(|l| l.starts_with("drop"))
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(drop, ["drop", "replay_old", "500", "packets", "200", "packet/s"]);
    assert_eq!(text.lines().filter(|l| l.starts_with("drop")).count(), 1);
    assert!(!text.contains("lost:"), "{text}");
}

#[test]
fn the_last_table_is_over_the_whole_run() {
    let start = Instant::now();
    let mut table = Table::new("gw0", start);
    table.render(
        start + Duration::from_secs(9),
        vec![port(9000)],
        vec![lcore(9000)],
        false,
    );
    let text = table.render(
        start + Duration::from_secs(10),
        vec![port(10_000)],
        vec![lcore(10_000)],
        true,
    );
    assert!(
        text.contains("over the whole run") && text.contains("CPU 1: 1000 packet/s"),
        "{text}"
    );
}

#[test]
fn histogram_columns_stand_under_their_labels() {
    let start = Instant::now();
    let text = Table::new("gw0", start).render(start, vec![], vec![lcore(10)], false);
    let line = |name: &str| {
        text.lines()
            .find(|l| l.trim_start().starts_with(name))
            .unwrap()
            .to_owned()
    };
    let end = |line: &str, what: &str| line.find(what).unwrap() + what.len();
    let (size, bursts, batches) = (line("size"), line("bursts"), line("batches"));
    assert_eq!(bursts.as_bytes()[end(&size, " 33-64") - 1], b'1');
    assert_eq!(batches.as_bytes()[end(&size, " 3-4") - 1], b'1');
}

#[test]
fn both_paths_count_for_the_rates() {
    let start = Instant::now();
    let c = Counters::default();
    c.nic_rx.add(100);
    c.tunnel_rx.add(300);
    c.sealed.add(299);
    c.busy_cycles.add(4000);
    let lcore = LcoreRow {
        cpu: 1,
        totals: c.totals(),
    };
    let mut table = Table::new("gw0", start);
    let text = table.render(start + Duration::from_secs(1), vec![], vec![lcore], false);
    assert!(
        text.contains("CPU 1: 400 packet/s") && text.contains("10.0 cycles a packet"),
        "{text}"
    );
    assert!(
        text.contains("  from tunnel  300        sealed       299"),
        "{text}"
    );
}

#[test]
fn an_idle_lcore_has_no_cycles_a_packet() {
    let start = Instant::now();
    let idle = LcoreRow {
        cpu: 0,
        totals: Totals::default(),
    };
    let text = Table::new("gw0", start).render(start, vec![], vec![idle], false);
    assert!(text.contains("- cycles a packet, - cycles a byte"), "{text}");
}

#[test]
fn every_line_fits_whatever_the_numbers() {
    let start = Instant::now();
    let mut row = port(u64::MAX / 100);
    row.name = "net_virtio_user_fifteen-bytes-x".into();
    row.stats = PortStats {
        imissed: 1 << 60,
        ierrors: 1 << 60,
        rx_nombuf: 1 << 60,
        oerrors: 1 << 60,
        ..row.stats
    };
    let c = Counters::default();
    for counter in [
        &c.nic_rx,
        &c.records,
        &c.authentic,
        &c.tunnel_tx,
        &c.keepalives,
        &c.to_host,
        &c.nic_rx_bytes,
    ] {
        counter.add(1 << 50);
    }
    DropReason::ALL.iter().for_each(|d| c.count(*d, 1 << 50));
    let lcore = LcoreRow {
        cpu: 1023,
        totals: c.totals(),
    };
    let text =
        Table::new("a-name-of-thirty-two-characters-", start).render(start, vec![row], vec![lcore], false);
    for line in text.lines() {
        assert!(line.len() <= WIDTH, "{}: {line}", line.len());
    }
    assert_eq!(
        text.lines().filter(|l| l.starts_with("drop")).count(),
        DropReason::COUNT
    );
}

#[test]
fn short_numbers() {
    for (n, text) in [
        (0.0, "0"),
        (99_999.0, "99999"),
        (100_000.0, "100.0k"),
        (1.6e9, "1600.0M"),
        (1e20, "100000.0P"),
    ] {
        assert_eq!(short(n), text);
    }
}

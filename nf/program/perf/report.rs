//! What was measured, as a table or as JSON.

use crate::program::cli::{Checksum, Direction};
use crate::program::exit::{self, Failure};
use crate::program::perf::cases::Case;
use crate::program::perf::rounds::Pair;
use lcore::Eal;
use nf_state::Scope;
use serde::Serialize;

/// A figure over the pairs of rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

impl Spread {
    /// Of at least one value.
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let n = values.len();
        Spread {
            min: values[0],
            median: (values[(n - 1) / 2] + values[n / 2]) / 2.0,
            max: values[n - 1],
        }
    }
}

/// One case's result. Rates count inner bytes; cycles are TSC cycles per record.
#[derive(Debug, Serialize)]
pub struct Row {
    direction: &'static str,
    /// Who computes the UDP checksum of what is sent; outbound only.
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<&'static str>,
    size: u16,
    batch: bool,
    prefetch: u8,
    scope: &'static str,
    pool_mb: u32,
    page_bytes: u64,
    cipher: &'static str,
    peers: u32,
    run: String,
    burst: u16,
    lcores: u16,
    rounds: usize,
    gbps: f64,
    gbps_min: f64,
    gbps_max: f64,
    mpps: f64,
    mpps_min: f64,
    mpps_max: f64,
    cycles_per_packet: f64,
    cycles_per_packet_min: f64,
    cycles_per_packet_max: f64,
    raw_gbps: f64,
    raw_gbps_min: f64,
    raw_gbps_max: f64,
    raw_cycles_per_packet: f64,
    raw_cycles_per_packet_min: f64,
    raw_cycles_per_packet_max: f64,
    ratio: f64,
    ratio_min: f64,
    ratio_max: f64,
    overhead_cycles: f64,
    overhead_cycles_min: f64,
    overhead_cycles_max: f64,
}

impl Row {
    /// Medians of what `pairs` measured on a machine with `hz` TSC cycles a second.
    pub fn new(case: &Case, pairs: &[Pair], hz: u64, page_bytes: u64) -> Row {
        let spread = |f: &dyn Fn(&Pair) -> f64| Spread::of(pairs.iter().map(f).collect());
        let bits = f64::from(case.size) * 8.0;
        let gbps = |cycles: f64| bits * hz as f64 / cycles / 1e9;
        let mpps = |cycles: f64| hz as f64 / cycles / 1e6;
        let path = spread(&|p| p.path);
        let raw = spread(&|p| p.raw);
        let ratio = spread(&|p| p.raw / p.path);
        let overhead = spread(&|p| p.path - p.raw);
        Row {
            direction: match case.direction {
                Direction::In => "in",
                Direction::Out => "out",
            },
            checksum: match (case.direction, case.checksum) {
                (Direction::In, _) => None,
                (Direction::Out, Checksum::Offload) => Some("offload"),
                (Direction::Out, Checksum::Software) => Some("software"),
            },
            size: case.size,
            batch: case.batch,
            prefetch: case.lookahead.distance,
            scope: if case.lookahead.scope == Scope::Burst {
                "burst"
            } else {
                "batch"
            },
            pool_mb: case.pool_mb,
            page_bytes,
            cipher: case.cipher.name(),
            peers: case.peers,
            run: case.run.to_string(),
            burst: case.burst,
            lcores: 1,
            rounds: pairs.len(),
            gbps: gbps(path.median),
            gbps_min: gbps(path.max),
            gbps_max: gbps(path.min),
            mpps: mpps(path.median),
            mpps_min: mpps(path.max),
            mpps_max: mpps(path.min),
            cycles_per_packet: path.median,
            cycles_per_packet_min: path.min,
            cycles_per_packet_max: path.max,
            raw_gbps: gbps(raw.median),
            raw_gbps_min: gbps(raw.max),
            raw_gbps_max: gbps(raw.min),
            raw_cycles_per_packet: raw.median,
            raw_cycles_per_packet_min: raw.min,
            raw_cycles_per_packet_max: raw.max,
            ratio: ratio.median,
            ratio_min: ratio.min,
            ratio_max: ratio.max,
            overhead_cycles: overhead.median,
            overhead_cycles_min: overhead.min,
            overhead_cycles_max: overhead.max,
        }
    }
}

/// The lines above the table of one direction.
pub fn head(eal: &Eal, case: &Case, rounds: u32) -> Result<(), Failure> {
    let (name, what, column) = match case.direction {
        Direction::In => ("inbound", "", "batch"),
        Direction::Out => (
            "\noutbound",
            "UDP checksum: \"offload\" asks the port for it (net_null computes none), \"software\" is computed by the path\n",
            "checksum",
        ),
    };
    exit::result(&format!(
        "{name}, one lcore, {}, {} peers, runs of {}, burst {}, {} pairs of rounds; pages of {} KB, TSC {} MHz\n\
         cycles per packet: median of the rounds; over raw: median of paired differences (min to max)\n{what}\n\
         {:>5} {:>5} {column:>8} {:>8} {:>6} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6}  over raw\n",
        case.cipher.name(),
        case.peers,
        case.run,
        case.burst,
        rounds,
        eal.page_size() / 1024,
        eal.tsc_hz() / 1_000_000,
        "pool",
        "size",
        "prefetch",
        "scope",
        "Gbit/s",
        "Mpps",
        "cycles",
        "raw",
        "rawGb/s",
        "ratio"
    ))
}

/// Prints one row.
pub fn row(row: &Row, json: bool) -> Result<(), Failure> {
    if json {
        let line = serde_json::to_string(row).expect("plain numbers and words");
        return exit::result(&format!("{line}\n"));
    }
    exit::result(&format!(
        "{:>5} {:>5} {:>8} {:>8} {:>6} {:>7.1} {:>7.2} {:>7.0} {:>7.0} {:>7.1} {:>6.2}  {:.0} ({:.0} to {:.0})\n",
        row.pool_mb,
        row.size,
        row.checksum.unwrap_or(if row.batch { "on" } else { "off" }),
        row.prefetch,
        if row.prefetch == 0 { "-" } else { row.scope },
        row.gbps,
        row.mpps,
        row.cycles_per_packet,
        row.raw_cycles_per_packet,
        row.raw_gbps,
        row.ratio,
        row.overhead_cycles,
        row.overhead_cycles_min,
        row.overhead_cycles_max,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(
            Spread::of(vec![3.0, 1.0, 2.0]),
            Spread {
                min: 1.0,
                median: 2.0,
                max: 3.0
            }
        );
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]).median, 2.5);
    }

    #[test]
    fn differences_and_ratios_are_taken_within_a_pair() {
        let pairs = [
            Pair {
                path: 200.0,
                raw: 100.0,
            },
            Pair {
                path: 400.0,
                raw: 300.0,
            },
            Pair {
                path: 1000.0,
                raw: 950.0,
            },
        ];
        let case = Case {
            direction: Direction::Out,
            checksum: Checksum::Software,
            size: 1400,
            pool_mb: 8,
            batch: true,
            lookahead: nf_state::Lookahead::default(),
            cipher: nf_state::Cipher::Aes128Gcm,
            burst: 64,
            peers: 16,
            run: crate::program::cli::RunLength::Fixed(16),
        };
        let row = Row::new(&case, &pairs, 2_000_000_000, 4096);
        assert_eq!(
            (
                row.overhead_cycles,
                row.overhead_cycles_min,
                row.overhead_cycles_max
            ),
            (100.0, 50.0, 100.0)
        );
        assert_eq!((row.direction, row.checksum), ("out", Some("software")));
        assert_eq!(row.ratio, 0.75);
        assert_eq!(row.mpps, 5.0);
        assert_eq!(row.gbps, 56.0);
    }
}

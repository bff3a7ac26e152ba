//! `perf`: the very worker that `run` runs, against IPsec-MB alone.

mod report;
mod rounds;
mod traffic;

use crate::program::cli::{Perf, RunLength, Switch};
use crate::program::eal_args::Wants;
use crate::program::exit::Failure;
use crate::program::setup::{self, LARGE_ROOM, ROOM};
use lcore::{Mempool, launch};
use nf_control::{LogFormat, LogLevel};
use nf_state::{Cipher, Lookahead, Scope};
use report::Row;
use rounds::Pools;
use traffic::Walk;

/// One measurement.
#[derive(Clone, Debug)]
pub struct Case {
    /// Inner packet's bytes.
    pub size: u16,
    /// Pool size in MB.
    pub pool_mb: u32,
    /// Batching.
    pub batch: bool,
    /// Lookahead.
    pub lookahead: Lookahead,
    /// Cipher.
    pub cipher: Cipher,
    /// Frames in one burst.
    pub burst: u16,
    /// Peers.
    pub peers: u32,
    /// How consecutive records' peers are chosen.
    pub run: RunLength,
}

const SIZES: [u16; 3] = [64, 256, 1400];
const POOLS_MB: [u32; 3] = [8, 24, 400];

/// The cases that the command asks for: pools outermost, since making one takes longest.
fn cases(command: &Perf) -> Vec<Case> {
    let whole_table = command.size.is_none() && command.pool.is_none();
    let sizes = command.size.map_or(SIZES.to_vec(), |s| vec![s]);
    let pools = command.pool.map_or(POOLS_MB.to_vec(), |p| vec![p]);
    let scope = Scope::from(command.scope);
    let chosen = |batch: Option<bool>, distance: Option<u8>, scope| {
        let batch = command
            .batch
            .map_or(batch, |b| Some(b == Switch::On))
            .unwrap_or(true);
        let distance = command
            .prefetch
            .map_or(distance, |d| Some(d.0))
            .unwrap_or(Lookahead::default().distance);
        (batch, Lookahead { distance, scope })
    };
    let mut tunings = if whole_table {
        vec![
            chosen(Some(false), Some(0), scope),
            chosen(Some(true), Some(0), scope),
            chosen(Some(false), Some(2), scope),
            chosen(Some(true), Some(2), Scope::Batch),
            chosen(Some(true), Some(2), scope),
        ]
    } else {
        vec![chosen(None, None, scope)]
    };
    tunings.dedup();
    let mut cases = Vec::new();
    for &pool_mb in &pools {
        for &size in &sizes {
            cases.extend(tunings.iter().map(|&(batch, lookahead)| Case {
                size,
                pool_mb,
                batch,
                lookahead,
                cipher: command.cipher,
                burst: command.burst,
                peers: command.peers,
                run: command.run,
            }));
        }
    }
    cases
}

/// Runs the command.
pub fn run(eal: &[String], command: &Perf) -> Result<(), Failure> {
    setup::log(LogFormat::Text, LogLevel::Warn);
    let cases = cases(command);
    let largest = cases.iter().map(|c| c.pool_mb).max().unwrap_or(0);
    let wants = Wants {
        prefix: format!("ovpn-dpdk-{}", std::process::id()),
        transient: true,
        no_huge_mb: 2 * largest + largest / 2 + 256,
        ..Wants::default()
    };
    let machine = setup::start(eal, wants, None)?;
    let (eal, rounds, json) = (machine.eal.clone(), command.rounds, command.json);
    let cpu = machine.workers[0];
    let job = launch::launch(&machine.eal, "perf", cpu, move |_lcore| {
        measure(&eal, &cases, rounds, json)
    });
    job.and_then(launch::Worker::join).map_err(Failure::machine)?
}

/// Measures all cases on the calling lcore and prints each as it is done.
fn measure(eal: &lcore::Eal, cases: &[Case], rounds: u32, json: bool) -> Result<(), Failure> {
    let mut pools: Option<(u32, Pools)> = None;
    let mut page = None;
    for case in cases {
        let made = match pools.take() {
            Some((mb, pools)) if mb == case.pool_mb => pools,
            old => {
                drop(old);
                make_pools(eal, case.pool_mb)?
            }
        };
        let (_, pools) = pools.insert((case.pool_mb, made));
        if page.is_none() {
            page = Some(eal.page_size());
            if !json {
                report::head(eal, case, rounds)?;
            }
        }
        let pairs = rounds::run(eal, case, pools, rounds)?;
        report::row(&Row::new(case, &pairs, eal.tsc_hz(), eal.page_size()), json)?;
    }
    Ok(())
}

fn make_pools(eal: &lcore::Eal, mb: u32) -> Result<Pools, Failure> {
    let pool = |name: &str, count: u32, room: u16| {
        Mempool::new(eal, name, count, 0, room, -1).map_err(Failure::machine)
    };
    // One buffer tells how large an element is.
    let element = pool("perf_probe", 1, ROOM)?.element_size();
    let count = ((u64::from(mb) << 20) / element as u64) as u32;
    let records =
        Mempool::new(eal, "perf_records", count, setup::CACHE, ROOM, -1).map_err(Failure::machine)?;
    let second = pool("perf_walk", count, ROOM)?;
    let walk = Walk::new(second);
    Ok(Pools {
        records,
        other: pool("perf_other", 1023, LARGE_ROOM)?,
        walk,
    })
}

//! `perf`: the very worker that `run` runs, against IPsec-MB alone.

mod cases;
mod check;
mod frames;
mod gateway;
mod raw;
mod report;
mod rounds;
mod traffic;
mod walk;

use crate::program::cli::Perf;
use crate::program::eal_args::Wants;
use crate::program::exit::Failure;
use crate::program::setup::{self, LARGE_ROOM, ROOM};
use cases::Case;
use lcore::{Mempool, launch};
use nf_control::{LogFormat, LogLevel};
use report::Row;
use rounds::Pools;
use walk::Walk;

/// Runs the command.
pub fn run(eal: &[String], command: &Perf) -> Result<(), Failure> {
    setup::log(LogFormat::Text, LogLevel::Warn);
    let cases = cases::all(command)?;
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
    let mut direction = None;
    for (number, case) in (0..).zip(cases) {
        let made = match pools.take() {
            Some((mb, pools)) if mb == case.pool_mb => pools,
            old => {
                drop(old);
                make_pools(eal, case.pool_mb)?
            }
        };
        let (_, pools) = pools.insert((case.pool_mb, made));
        if direction.replace(case.direction) != Some(case.direction) && !json {
            report::head(eal, case, rounds)?;
        }
        let pairs = rounds::run(eal, case, number, pools, rounds)?;
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

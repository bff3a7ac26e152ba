//! One case: pairs of rounds, the path and IPsec-MB alone, taking turns on the same lcore.

use crate::program::exit::Failure;
use crate::program::perf::cases::Case;
use crate::program::perf::check::check;
use crate::program::perf::gateway::Gateway;
use crate::program::perf::raw;
use crate::program::perf::traffic::{Frame, Traffic};
use crate::program::perf::walk::Walk;
use lcore::{Eal, Imb, Mbuf, Mempool, cycles};
use std::sync::Arc;

/// Records that a timed round has at least; a pool with fewer is filled and emptied several times.
const ROUND: usize = 40_000;

/// Cycles per record of one pair of rounds.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Through the path.
    pub path: f64,
    /// IPsec-MB alone.
    pub raw: f64,
}

/// The pools of one size.
pub struct Pools {
    /// What the frames lie in.
    pub records: Arc<Mempool>,
    /// Buffers for what the path itself allocates (reassembly, scattered packets): nothing, here.
    pub other: Arc<Mempool>,
    /// The pool that is walked.
    pub walk: Walk,
}

/// Everything that one case runs on.
pub struct Bench<'a> {
    /// The case.
    pub case: &'a Case,
    /// What is measured, or checked with.
    pub traffic: Traffic,
    /// The manager of the raw rounds, of sealing what comes in and of opening what is sent.
    pub imb: Imb,
    pools: &'a mut Pools,
}

/// Runs the `number`th case of this process on the calling lcore: `rounds` pairs, after an untimed round that checks
/// every packet that comes out.
pub fn run(
    eal: &Eal,
    case: &Case,
    number: u32,
    pools: &mut Pools,
    rounds: u32,
) -> Result<Vec<Pair>, Failure> {
    let imb = Imb::new().map_err(Failure::machine)?;
    let traffic = Traffic::new(&imb, case, number)?;
    let mut bench = Bench {
        case,
        traffic,
        imb,
        pools,
    };
    check(eal, &mut bench)?;
    let mut gateway = bench.gateway(eal, "timed", None)?;
    (0..rounds)
        .map(|_| {
            Ok(Pair {
                path: bench.path(&mut gateway)?,
                raw: bench.raw()?,
            })
        })
        .collect()
}

impl Bench<'_> {
    /// A worker for the case.
    pub fn gateway(&self, eal: &Eal, name: &str, sink: Option<&lcore::RingPort>) -> Result<Gateway, Failure> {
        Gateway::new(eal, self.case, &self.traffic, self.pools, name, sink)
    }

    /// How often the pool is filled in one round.
    fn fills(&self) -> usize {
        ROUND.div_ceil(self.pools.records.capacity() as usize)
    }

    /// Fills the pool for a round.
    fn prepare(&mut self) -> Result<(Vec<Frame>, Vec<Mbuf>), Failure> {
        let plan = self.traffic.plan(self.pools.records.capacity() as usize);
        let buffers = self.traffic.fill(&mut self.imb, &self.pools.records, &plan)?;
        Ok((plan, buffers))
    }

    /// Fills the pool for a round of the path, and brings the caches to their state.
    pub fn prepare_path(&mut self, gateway: &mut Gateway) -> Result<Vec<Frame>, Failure> {
        let (plan, buffers) = self.prepare()?;
        gateway.offer(buffers)?;
        self.pools.walk.walk();
        Ok(plan)
    }

    /// A timed round of the path: cycles per record.
    fn path(&mut self, gateway: &mut Gateway) -> Result<f64, Failure> {
        let (mut spent, mut records) = (0, 0);
        let before = gateway.delivered();
        for _ in 0..self.fills() {
            let plan = self.prepare_path(gateway)?;
            records += plan.iter().filter(|f| **f != Frame::Foreign).count();
            let start = cycles();
            while gateway.poll() > 0 {}
            spent += cycles() - start;
        }
        let delivered = gateway.delivered() - before;
        if delivered != records as u64 {
            return Err(Failure::machine(format!(
                "{delivered} of {records} records were delivered"
            )));
        }
        Ok(spent as f64 / records as f64)
    }

    /// A timed round of IPsec-MB alone: cycles per record.
    fn raw(&mut self) -> Result<f64, Failure> {
        let (mut spent, mut records) = (0, 0);
        for _ in 0..self.fills() {
            let (plan, mut buffers) = self.prepare()?;
            let (senders, walk) = (&self.traffic.senders, &mut self.pools.walk);
            let (cycles, n) = raw::round(&mut self.imb, self.case, senders, &plan, &mut buffers, || {
                walk.walk();
            })?;
            spent += cycles;
            records += n;
        }
        Ok(spent as f64 / records as f64)
    }
}

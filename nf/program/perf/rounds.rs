//! One case: pairs of rounds, the path and IPsec-MB alone, taking turns on the same lcore.

use crate::program::exit::Failure;
use crate::program::perf::Case;
use crate::program::perf::traffic::{Frame, LISTEN, PAYLOAD, Traffic, Walk};
use crate::program::setup::queues;
use lcore::mailbox::mailbox;
use lcore::reassembly::IpFrag;
use lcore::worker::{Parts, Worker};
use lcore::{Burst, Eal, Imb, Mbuf, Mempool, Port, PortConfig, RingPort, cycles, prefetch_write};
use nf_path::aead::Aead;
use nf_path::buf::Buf;
use nf_path::counters::Counters;
use nf_path::inbound::Tuning;
use nf_path::inbound::classify::Listeners;
use nf_state::Scope;
use nf_wire::record::{AAD_LEN, OVERHEAD, nonce};
use std::sync::Arc;

/// Records that a timed round opens at least; a pool with fewer is filled and emptied several times.
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
    /// What the records lie in.
    pub records: Arc<Mempool>,
    /// Buffers for what the path itself allocates (reassembly, scattered packets): nothing, here.
    pub other: Arc<Mempool>,
    /// The pool that is walked.
    pub walk: Walk,
}

/// Everything that one case runs on.
struct Bench<'a> {
    case: &'a Case,
    frames: usize,
    pools: &'a mut Pools,
    traffic: Traffic,
    worker: Worker,
    counters: Arc<Counters>,
    ring: RingPort,
    /// The manager of the raw rounds, and of sealing.
    imb: Imb,
}

/// Runs a case on the calling lcore: `rounds` pairs, after an untimed round that checks every plaintext.
pub fn run(eal: &Eal, case: &Case, pools: &mut Pools, rounds: u32) -> Result<Vec<Pair>, Failure> {
    let frames = pools.records.capacity() as usize;
    let imb = Imb::new().map_err(Failure::machine)?;
    let traffic = Traffic::new(&imb, case.cipher, case.peers, case.size, case.run)?;
    let ring = RingPort::new(eal, "perf_nic", frames as u32).map_err(Failure::machine)?;
    start(ring.port(), &pools.other)?;
    let null = |name| {
        let port = Port::create_vdev(eal, name, "no-rx=1").map_err(Failure::machine)?;
        start(&port, &pools.other)?;
        queues(&port, usize::MAX)
    };
    let mut listeners = Listeners::default();
    listeners.add(LISTEN, 0);
    let counters = Arc::new(Counters::default());
    let parts = Parts {
        nic: queues(ring.port(), usize::MAX)?,
        host: Some(null("net_null_host")?),
        tunnels: vec![null("net_null_tunnel")?],
        tables: vec![traffic.table()?],
        listeners,
        tuning: Tuning {
            batch: case.batch,
            lookahead: case.lookahead,
        },
        burst: usize::from(case.burst),
        idle_sleep: None,
        mailbox: mailbox().1,
        counters: counters.clone(),
        cycles_per_ms: eal.tsc_hz() / 1000,
    };
    let reassembly =
        IpFrag::new(eal, pools.other.clone(), pools.other.clone(), 1500).map_err(Failure::machine)?;
    let worker = Worker::new(parts, Imb::new().map_err(Failure::machine)?, reassembly);
    let mut bench = Bench {
        case,
        frames,
        pools,
        traffic,
        worker,
        counters,
        ring,
        imb,
    };
    bench.check(eal)?;
    (0..rounds)
        .map(|_| {
            Ok(Pair {
                path: bench.path()?,
                raw: bench.raw()?,
            })
        })
        .collect()
}

fn start(port: &Port, pool: &Arc<Mempool>) -> Result<(), Failure> {
    port.start(&PortConfig::default(), pool)
        .map(drop)
        .map_err(Failure::machine)
}

impl Bench<'_> {
    /// How often a pool is filled in one round.
    fn fills(&self) -> usize {
        ROUND.div_ceil(self.frames)
    }

    /// Fills the pool for a raw round.
    fn prepare(&mut self) -> Result<(Vec<Frame>, Vec<Mbuf>), Failure> {
        let plan = self.traffic.plan(self.frames);
        let buffers = self.traffic.fill(&mut self.imb, &self.pools.records, &plan)?;
        Ok((plan, buffers))
    }

    /// Fills pool and ring for a round of the path, and brings the caches to their state.
    fn prepare_ring(&mut self) -> Result<Vec<Frame>, Failure> {
        let plan = self.traffic.plan(self.frames);
        let mut buffers = self
            .traffic
            .fill(&mut self.imb, &self.pools.records, &plan)?
            .into_iter();
        loop {
            let mut burst = Burst::<256>::new();
            burst.extend(buffers.by_ref().take(256));
            if burst.is_empty() {
                break;
            }
            self.ring.fill(&mut burst);
            if !burst.is_empty() {
                return Err(Failure::machine(
                    "the ring has fewer places than the pool has buffers",
                ));
            }
        }
        self.pools.walk.walk();
        Ok(plan)
    }

    /// A timed round of the path: cycles per record.
    fn path(&mut self) -> Result<f64, Failure> {
        let (mut spent, mut records) = (0, 0);
        let before = self.counters.tunnel_tx.get();
        for _ in 0..self.fills() {
            let plan = self.prepare_ring()?;
            records += plan.iter().filter(|f| **f != Frame::Foreign).count();
            let start = cycles();
            while self.worker.poll() > 0 {}
            spent += cycles() - start;
        }
        let delivered = self.counters.tunnel_tx.get() - before;
        if delivered != records as u64 {
            return Err(Failure::machine(format!(
                "{delivered} of {records} records were delivered"
            )));
        }
        Ok(spent as f64 / records as f64)
    }

    /// A timed round of IPsec-MB alone: the same calls on the same kind of buffers, order, keys and lookahead. It is
    /// given each payload's address beforehand, so it reads no buffer descriptor.
    fn raw(&mut self) -> Result<f64, Failure> {
        let (mut spent, mut records) = (0, 0);
        for _ in 0..self.fills() {
            let (plan, mut buffers) = self.prepare()?;
            let mut raw: Vec<(&mut [u8], u32)> = buffers
                .iter_mut()
                .zip(plan)
                .filter_map(|(buf, frame)| match frame {
                    Frame::Record(peer, _) => Some((&mut buf.data_mut()[PAYLOAD..], peer)),
                    Frame::Foreign => None,
                })
                .collect();
            records += raw.len();
            self.pools.walk.walk();
            spent += self.open_all(&mut raw);
        }
        Ok(spent as f64 / records as f64)
    }

    fn open_all(&mut self, records: &mut [(&mut [u8], u32)]) -> u64 {
        let start = cycles();
        let distance = usize::from(self.case.lookahead.distance);
        for burst in records.chunks_mut(usize::from(self.case.burst)) {
            let mut end = 0;
            for i in 0..burst.len() {
                if i == end {
                    end = match self.case.lookahead.scope {
                        Scope::Burst => burst.len(),
                        Scope::Batch => i + run_length(&burst[i..]),
                    };
                    if end - i > 1 {
                        (i..end.min(i + distance)).for_each(|j| self.ask(burst, j));
                    }
                }
                if distance > 0 && i + distance < end {
                    self.ask(burst, i + distance);
                }
                let (payload, peer) = &mut burst[i];
                let key = self.traffic.senders[*peer as usize].key();
                let (header, text) = payload.split_at_mut(OVERHEAD);
                let aad = header.first_chunk::<AAD_LEN>().expect("a header's length");
                let id = [aad[4], aad[5], aad[6], aad[7]];
                let nonce = nonce(id, key.open_tail());
                std::hint::black_box(self.imb.open(key.open_key(), &nonce, aad, text));
            }
        }
        cycles() - start
    }

    #[inline]
    fn ask(&self, burst: &[(&mut [u8], u32)], i: usize) {
        let (payload, peer) = &burst[i];
        prefetch_write(&payload[OVERHEAD..]);
        if i == 0 || burst[i - 1].1 != *peer {
            let key = self.traffic.senders[*peer as usize].key();
            self.imb.prefetch(key);
            self.imb.prefetch_key(key.open_key());
        }
    }

    /// The untimed round: every record's plaintext arrives at the tunnel port, once, in order within its peer.
    fn check(&mut self, eal: &Eal) -> Result<(), Failure> {
        let mut sink = RingPort::new(eal, "perf_check", 1023).map_err(Failure::machine)?;
        start(sink.port(), &self.pools.other)?;
        let usual = self
            .worker
            .replace_tunnel_tx(0, queues(sink.port(), usize::MAX)?.tx);
        let plan = self.prepare_ring()?;
        let mut expected = vec![std::collections::VecDeque::new(); self.traffic.senders.len()];
        for frame in plan {
            if let Frame::Record(peer, id) = frame {
                expected[peer as usize].push_back(id);
            }
        }
        let (mut delivered, mut scratch) = (Burst::<256>::new(), Vec::new());
        while self.worker.poll() > 0 {
            while sink.take(&mut delivered) > 0 {
                for frame in delivered.iter() {
                    let peer = u32::from_be_bytes([0, frame.data()[9], frame.data()[10], frame.data()[11]]);
                    let id = expected
                        .get_mut(peer as usize)
                        .and_then(std::collections::VecDeque::pop_front);
                    if !id.is_some_and(|id| self.traffic.is_right(frame.data(), peer, id, &mut scratch)) {
                        return Err(Failure::machine("a delivered plaintext is wrong"));
                    }
                }
                delivered.clear();
            }
        }
        if expected.iter().any(|ids| !ids.is_empty()) {
            return Err(Failure::machine("not every record was delivered"));
        }
        self.worker.replace_tunnel_tx(0, usual);
        Ok(())
    }
}

/// How many records at the front are of one peer.
fn run_length(records: &[(&mut [u8], u32)]) -> usize {
    records.iter().take_while(|r| r.1 == records[0].1).count()
}

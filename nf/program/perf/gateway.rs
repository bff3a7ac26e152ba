//! The worker that is measured, between ports in memory.

use crate::program::cli::{Checksum, Direction};
use crate::program::exit::Failure;
use crate::program::perf::cases::Case;
use crate::program::perf::frames::{LISTEN, NIC};
use crate::program::perf::rounds::Pools;
use crate::program::perf::traffic::Traffic;
use crate::program::setup::queues;
use lcore::mailbox::mailbox;
use lcore::reassembly::IpFrag;
use lcore::steering::Steering;
use lcore::worker::{Parts, Queues, Worker};
use lcore::{Burst, Eal, Imb, Mbuf, Mempool, Port, PortConfig, RingPort};
use nf_path::counters::Counters;
use nf_path::inbound::Tuning;
use nf_path::inbound::classify::Listeners;
use nf_path::outbound::Nic;
use std::sync::Arc;

/// No record is longer: nothing is sent in fragments.
const MTU: u16 = 9000;

/// A worker of `run`, and the port that its frames wait at.
pub struct Gateway {
    worker: Worker,
    counters: Arc<Counters>,
    ring: RingPort,
    direction: Direction,
}

impl Gateway {
    /// A worker whose frames go to `sink`, or to a net_null port if there is none. `name` makes the ports' names
    /// unique.
    pub fn new(
        eal: &Eal,
        case: &Case,
        traffic: &Traffic,
        pools: &Pools,
        name: &str,
        sink: Option<&RingPort>,
    ) -> Result<Self, Failure> {
        let ring = RingPort::new(eal, &format!("perf_{name}"), pools.records.capacity())
            .map_err(Failure::machine)?;
        let input = started(ring.port(), &pools.other)?;
        let null = |kind| {
            let port = Port::create_vdev(eal, &format!("net_null_{name}_{kind}"), "no-rx=1")
                .map_err(Failure::machine)?;
            started(&port, &pools.other)
        };
        let mut output = null("out")?;
        if let Some(sink) = sink {
            output.tx = started(sink.port(), &pools.other)?.tx;
        }
        let (nic, tunnel) = match case.direction {
            Direction::In => (input, output),
            Direction::Out => (output, input),
        };
        let mut listeners = Listeners::default();
        listeners.add(LISTEN, 0);
        let counters = Arc::new(Counters::default());
        let parts = Parts {
            nic,
            host: Some(null("host")?),
            tunnels: vec![tunnel],
            tables: vec![traffic.table()?],
            listeners,
            tuning: Tuning {
                batch: case.batch,
                lookahead: case.lookahead,
            },
            burst: usize::from(case.burst),
            outer: Nic {
                mac: NIC,
                mtu: MTU,
                checksums: case.checksum == Checksum::Offload,
            },
            last_heard: false,
            steering: Steering::mesh(1).pop().expect("one for one worker"),
            pools: lcore::buffers::Pools::new(pools.other.clone(), pools.other.clone()),
            idle_sleep: None,
            mailbox: mailbox().1,
            counters: counters.clone(),
            cycles_per_ms: eal.tsc_hz() / 1000,
        };
        let reassembly =
            IpFrag::new(eal, pools.other.clone(), pools.other.clone(), 1500).map_err(Failure::machine)?;
        Ok(Gateway {
            worker: Worker::new(parts, Imb::new().map_err(Failure::machine)?, reassembly),
            counters,
            ring,
            direction: case.direction,
        })
    }

    /// Puts frames where the worker will find them.
    pub fn offer(&mut self, frames: Vec<Mbuf>) -> Result<(), Failure> {
        let mut frames = frames.into_iter();
        loop {
            let mut burst = Burst::<256>::new();
            burst.extend(frames.by_ref().take(256));
            if burst.is_empty() {
                return Ok(());
            }
            self.ring.fill(&mut burst);
            if !burst.is_empty() {
                return Err(Failure::machine(
                    "the ring has fewer places than the pool has buffers",
                ));
            }
        }
    }

    /// One turn of the worker's loop. Returns how many frames its ports had.
    #[inline]
    pub fn poll(&mut self) -> usize {
        self.worker.poll()
    }

    /// Packets that went out at the other side, so far.
    pub fn delivered(&self) -> u64 {
        match self.direction {
            Direction::In => self.counters.tunnel_tx.get(),
            Direction::Out => self.counters.records_tx.get(),
        }
    }
}

fn started(port: &Port, pool: &Arc<Mempool>) -> Result<Queues, Failure> {
    port.start(&PortConfig::default(), pool)
        .map_err(Failure::machine)?;
    queues(port, usize::MAX)
}

//! The worker of a running gateway.

use crate::program::exit::Failure;
use crate::program::run::plan::Plan;
use crate::program::run::ports::Ports;
use crate::program::setup::{Machine, Pools, queues};
use lcore::imb::Key;
use lcore::mailbox::{Message, Reply, Sender, mailbox};
use lcore::reassembly::IpFrag;
use lcore::steering::Steering;
use lcore::worker::{Parts, Worker};
use lcore::{Imb, launch};
use nf_control::Config;
use nf_path::counters::Counters;
use nf_path::inbound::classify::Listeners;
use nf_path::outbound::Nic;
use nf_wire::ether::HEADER_LEN;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Bytes over the MTU that a frame for the host may have: an Ethernet header with two VLAN tags.
const HOST_HEADER: usize = HEADER_LEN + 8;

/// How long a worker may take to read its mailbox.
const PATIENCE: Duration = Duration::from_secs(5);

/// What of one pause counts.
const COUNTED: Duration = Duration::from_millis(10);

/// How long to look without pause.
const SPIN: Duration = Duration::from_micros(20);

/// What others may know of a worker.
#[derive(Clone)]
pub struct Handle {
    /// The CPU that it runs on.
    pub cpu: usize,
    /// What it counts.
    pub counters: Arc<Counters>,
    /// Where it takes changes from.
    pub mailbox: Sender,
    /// One more than the changes that it had made when it did not make the next in time; 0: it always did.
    stuck_at: Arc<AtomicU64>,
}

/// A worker that runs.
pub struct Running {
    /// For the tables and telemetry.
    pub handle: Handle,
    stop: Arc<AtomicBool>,
    worker: launch::Worker<Result<(), lcore::Error>>,
}

impl Handle {
    /// Of a worker on this CPU.
    pub fn new(cpu: usize, counters: Arc<Counters>, mailbox: Sender) -> Handle {
        Handle {
            cpu,
            counters,
            mailbox,
            stuck_at: Arc::default(),
        }
    }

    /// Leaves a message, and waits while the mailbox is full; not again once it waited in vain.
    ///
    /// # Errors
    /// The worker does not read it.
    pub fn send_patiently(&self, mut message: Message) -> Result<(), String> {
        let mut patience = Patience::new(self);
        loop {
            message = match self.mailbox.send(message) {
                Ok(()) => return Ok(()),
                Err(back) => back,
            };
            patience.wait(self, Duration::from_millis(1))?;
        }
    }

    /// Waits until the worker has made every change that it was sent.
    ///
    /// # Errors
    /// It does not read its mailbox.
    pub fn wait_until_applied(&self) -> Result<(), String> {
        let (sent, began) = (self.mailbox.sent(), Instant::now());
        let mut patience = Patience::new(self);
        while self.mailbox.applied() < sent {
            // A worker that polls takes microseconds; one that sleeps meanwhile, or shares this CPU, wants it free.
            if began.elapsed() < SPIN {
                std::hint::spin_loop();
            } else {
                patience.wait(self, Duration::from_micros(50))?;
            }
        }
        Ok(())
    }

    /// Whether it did not make a change in time, and has made none since.
    pub fn is_stuck(&self) -> bool {
        self.stuck_at.load(Ordering::Relaxed) == self.mailbox.applied() + 1
    }

    /// Peers and keys that came back are dropped here: zeroised and freed off the fast path. What could not be done is
    /// said.
    pub fn take_replies(&self) {
        for reply in self.mailbox.replies() {
            if let Reply::Rejected(rejected) = reply {
                tracing::warn!("worker {}: {rejected}", self.cpu);
            }
        }
    }
}

/// How long a worker was waited for without its making any change.
struct Patience {
    waited: Duration,
    last: Instant,
    applied: u64,
}

impl Patience {
    fn new(worker: &Handle) -> Patience {
        Patience {
            waited: Duration::ZERO,
            last: Instant::now(),
            applied: worker.mailbox.applied(),
        }
    }

    /// Waits a little, or no more.
    fn wait(&mut self, worker: &Handle, step: Duration) -> Result<(), String> {
        if worker.is_stuck() || self.waited > PATIENCE {
            // One more than it has made, so that 0 is none.
            worker
                .stuck_at
                .store(worker.mailbox.applied() + 1, Ordering::Relaxed);
            return Err(format!("worker {}: it does not read its mailbox", worker.cpu));
        }
        // It stops reading when nobody takes its answers.
        worker.take_replies();
        std::thread::park_timeout(step);
        let (now, applied) = (Instant::now(), worker.mailbox.applied());
        // A process that was stopped meanwhile, or a machine, gave the worker no time either.
        self.waited = if applied == self.applied {
            self.waited + (now - self.last).min(COUNTED)
        } else {
            Duration::ZERO
        };
        (self.last, self.applied) = (now, applied);
        Ok(())
    }
}

/// What the worker needs to know of the tunnels, besides their queues.
pub struct Tables {
    /// In the order of the ports.
    pub tunnels: Vec<nf_path::tunnel::Tunnel<Key>>,
    /// Which datagrams are whose.
    pub listeners: Listeners,
}

/// Starts the worker on `cpu`; when this returns, it polls.
pub fn launch(
    machine: &Machine,
    config: &Config,
    plan: &Plan,
    ports: &Ports,
    pools: &Pools,
    tables: Tables,
    cpu: usize,
) -> Result<Running, Failure> {
    let (sender, inbox) = mailbox();
    let counters = Arc::new(Counters::default());
    let sleep = Duration::from_micros(config.idle_sleep_us.into());
    let longest = usize::from(config.nic.mtu) + HOST_HEADER;
    let enabled = ports.nic.enabled().map_err(Failure::machine)?;
    let mut tunnels = Vec::new();
    for (tunnel, settings) in ports.tunnels.iter().zip(&config.tunnels) {
        tunnels.push(queues(tunnel.port(), usize::from(settings.mtu) + HEADER_LEN)?);
    }
    let steering = Steering::mesh(1).pop();
    let parts = Parts {
        nic: queues(&ports.nic, longest)?,
        outer: Nic {
            mac: ports.nic.mac().map_err(Failure::machine)?,
            mtu: config.nic.mtu,
            checksums: enabled.tx_ipv4_checksum && enabled.tx_udp_checksum,
        },
        host: Some(queues(ports.host.port(), longest)?),
        tunnels,
        tables: tables.tunnels,
        listeners: tables.listeners,
        tuning: plan.tuning,
        last_heard: plan.last_heard,
        burst: usize::from(config.burst),
        idle_sleep: (!sleep.is_zero()).then_some(sleep),
        mailbox: inbox,
        steering: steering.expect("one for one worker"),
        pools: pools.clone(),
        counters: counters.clone(),
        cycles_per_ms: machine.eal.tsc_hz() / 1000,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let handle = Handle::new(cpu, counters, sender);
    let worker = poll(machine, parts, pools, config.nic.mtu, cpu, stop.clone())?;
    Ok(Running { handle, stop, worker })
}

/// The worker's thread.
fn poll(
    machine: &Machine,
    parts: Parts,
    pools: &Pools,
    mtu: u16,
    cpu: usize,
    stop: Arc<AtomicBool>,
) -> Result<launch::Worker<Result<(), lcore::Error>>, Failure> {
    let (eal, large, small) = (machine.eal.clone(), pools.large.clone(), pools.small.clone());
    let (up, is_up) = sync_channel(1);
    let worker = launch::launch(&machine.eal, &format!("worker-{cpu}"), cpu, move |_lcore| {
        let reassembly = IpFrag::new(&eal, large, small, mtu)?;
        let mut worker = Worker::new(parts, Imb::new()?, reassembly);
        let _ = up.send(());
        worker.run(&stop);
        worker.give_up_fragments();
        Ok(())
    })
    .map_err(Failure::machine)?;
    match is_up.recv() {
        Ok(()) => Ok(worker),
        // It ended before it polled: with the reason.
        Err(_) => match worker.join() {
            Ok(Err(e)) | Err(e) => Err(Failure::machine(e)),
            Ok(Ok(())) => Err(Failure::machine("the worker ended by itself")),
        },
    }
}

impl Running {
    /// Whether the worker has ended, which it does by itself only when it failed.
    pub fn has_ended(&self) -> bool {
        self.worker.is_finished()
    }

    /// Lets the worker finish its burst and end; gives what it failed with.
    pub fn stop(self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.worker.join().and_then(|done| done).map_err(Failure::machine)
    }
}

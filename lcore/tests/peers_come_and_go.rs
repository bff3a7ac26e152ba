//! Ten thousand peers are added to two workers and removed again while packets from and to them are in the rings. Every
//! packet has one end, every buffer and every key comes back, and memory is flat.

mod common;
mod rig;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use lcore::imb::Key;
use lcore::launch::launch;
use lcore::mailbox::{Message, Reply, Sender};
use lcore::steering::Steering;
use lcore::{Burst, Imb};
use nf_path::counters::Totals;
use nf_path::verdict::DropReason;
use nf_state::{KeySlot, Peer, Retired, Update};
use rig::{Ends, Options, Rig, buffer, kernels, memory, parts, tunnel_of};

/// Peers added and removed.
const PEERS: u32 = 10_000;
/// Of these, so many are there at one time.
const ALIVE: u32 = 100;
/// Ids that they use in turn.
const IDS: u32 = 200;
/// Added, and removed, between two looks at the workers.
const STEP: u32 = 50;
/// How much the resident set may grow: 200 bytes for each peer that is measured, less than a key.
const SLACK: i64 = 200 * (PEERS - WARM) as i64;
/// Peers before the first look at the memory.
const WARM: u32 = 2_000;

/// What runs on one lcore.
struct Load {
    rig: Rig,
    /// Frames to every id, and records from it.
    kernels: Vec<Vec<u8>>,
    records: Vec<Vec<u8>>,
    turn: u32,
}

impl Load {
    fn new(rig: Rig) -> Load {
        let record = |id| (1..=4).map(move |packet| rig::frame(id, packet, 100));
        Load {
            rig,
            kernels: (1..=IDS).map(|id| kernels(id, 0, 100)).collect(),
            records: (1..=IDS).flat_map(record).collect(),
            turn: 0,
        }
    }

    /// Bursts at both ports, ids in turn, of which some are no peers' at any time; as many as there are buffers for.
    fn feed(&mut self) {
        let Ends {
            small,
            nic_in,
            tunnel_in,
            ..
        } = &mut self.rig.ends;
        let (mut up, mut down) = (Burst::<64>::new(), Burst::<64>::new());
        // What one worker seals for the other's sake comes from this one's pool.
        if small.available() < small.capacity() / 2 {
            return;
        }
        for n in 0..64 {
            let turn = (self.turn + n) as usize;
            up.push(buffer(small, &self.records[turn % self.records.len()]));
            down.push(buffer(small, &self.kernels[turn / 3 % self.kernels.len()]));
        }
        self.turn = self.turn.wrapping_add(64);
        assert_eq!((nic_in.fill(&mut up), tunnel_in.fill(&mut down)), (64, 64));
    }

    fn take(&mut self) {
        self.rig.nic_out.drain();
        self.rig.tunnel_out.drain();
    }
}

/// What the two workers and the control side share.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    polls: [AtomicU64; 2],
    idle: [AtomicBool; 2],
}

fn work(rig: Rig, me: usize, shared: &Shared) -> Totals {
    let mut load = Load::new(rig);
    while !shared.stop.load(Relaxed) {
        load.feed();
        load.rig.worker.apply();
        load.rig.worker.poll();
        load.take();
        shared.polls[me].fetch_add(1, Relaxed);
    }
    // Until neither has had anything for the other for a while.
    let quiet = Duration::from_millis(100);
    let mut last = Instant::now();
    while last.elapsed() < quiet {
        load.rig.worker.apply();
        let frames = load.rig.worker.poll();
        load.take();
        shared.idle[me].store(frames == 0, Relaxed);
        if !shared.idle.iter().all(|idle| idle.load(Relaxed)) {
            last = Instant::now();
        }
    }
    load.rig.counters.totals()
}

/// The control side.
struct Control {
    senders: Vec<Sender>,
    imb: Imb,
    shared: Arc<Shared>,
    keys: Vec<Weak<KeySlot<Key>>>,
    retired: u32,
}

impl Control {
    fn send(&mut self, message: impl Fn() -> Message) {
        for sender in &self.senders {
            sender.send(message()).expect("room in the mailbox");
        }
    }

    /// Adds the next peer to both workers, with a new key.
    fn add(&mut self, n: u32) {
        let id = 1 + n % IDS;
        let key = rig::slot(&self.imb, id);
        if n.is_multiple_of(100) {
            self.keys.push(Arc::downgrade(&key));
        }
        let first = rig::peer(id, key.clone());
        let peer = || {
            let mut peer: Peer<Key> = rig::peer(id, key.clone());
            peer.endpoint = first.endpoint.clone();
            peer
        };
        self.send(|| Message::Table(0, Update::AddPeer(Box::new(peer()))));
    }

    fn remove(&mut self, n: u32) {
        self.send(|| Message::Table(0, Update::RemovePeer(1 + n % IDS)));
    }

    /// Drops what came back. Nothing may have been refused.
    fn replies(&mut self) {
        for sender in &self.senders {
            for reply in sender.replies() {
                assert!(matches!(reply, Reply::Retired(Retired::Peer(_))), "{reply:?}");
                self.retired += 1;
            }
            sender.events().for_each(drop);
        }
    }

    /// Waits until both workers applied everything and polled again.
    fn settle(&mut self) {
        let polls = || self.shared.polls.each_ref().map(|p| p.load(Relaxed));
        let (before, begun) = (polls(), Instant::now());
        let done = |now: [u64; 2]| (0..2).all(|i| now[i] > before[i] + 1);
        while !(done(polls()) && self.senders.iter().all(Sender::is_read)) {
            std::thread::yield_now();
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the workers stand still"
            );
        }
        self.replies();
    }

    fn churn(&mut self) {
        let mut before = 0;
        for step in 0..PEERS / STEP {
            if step == WARM / STEP {
                before = memory::resident();
            }
            for n in step * STEP..(step + 1) * STEP {
                self.add(n);
                if n >= ALIVE {
                    self.remove(n - ALIVE);
                }
            }
            self.settle();
        }
        memory::flat(before, SLACK, &format!("{} peers came and went", PEERS - WARM));
        (PEERS - ALIVE..PEERS).for_each(|n| self.remove(n));
        self.settle();
    }
}

/// Every frame that came has one end; what was steered counts where it ended.
fn balance(all: &Totals) {
    let drops: u64 = all.nonzero_drops().map(|(_, n)| n).sum();
    assert_eq!(
        all.nic_rx + all.tunnel_rx,
        all.tunnel_tx + all.keepalives + all.records_tx + drops,
        "{all:?}"
    );
    assert_eq!(all.sealed, all.records_tx + all.dropped(DropReason::NicFull));
    println!(
        "{} records opened, {} packets sealed, {} steered; {:?}",
        all.authentic,
        all.sealed,
        all.steered,
        all.nonzero_drops().collect::<Vec<_>>()
    );
    for reason in [
        DropReason::UnknownPeer,
        DropReason::UnknownMac,
        DropReason::ReplayDuplicate,
    ] {
        assert!(all.dropped(reason) > 1000, "{reason:?} is among what happened");
    }
    assert!(
        all.authentic > 1000 && all.sealed > 1000 && all.steered > 1000,
        "{all:?}"
    );
    assert_eq!(
        all.dropped(DropReason::BadTag),
        0,
        "no key was used for another's records"
    );
}

#[test]
fn ten_thousand_peers_come_and_go_under_load() {
    let eal = common::eal("churn");
    eal.unpin_caller().expect("the affinity of before");
    let cpus = eal.caller_affinity().cpus();
    let (shared, mut pools, mut senders) = (Arc::new(Shared::default()), vec![], vec![]);
    let workers: Vec<_> = Steering::mesh(2)
        .into_iter()
        .zip(["c0", "c1"])
        .map(|(steering, name)| {
            let o = Options {
                burst: 64,
                ..Options::new(name)
            };
            let made = parts(&eal, o, steering, tunnel_of([]));
            pools.extend([made.1.small.clone(), made.1.large.clone()]);
            senders.push(made.1.control.clone());
            (name, made)
        })
        .enumerate()
        .map(|(me, (name, made))| {
            let (on, shared) = (eal.clone(), shared.clone());
            let body = move |_| work(Rig::with(&on, made), me, &shared);
            launch(&eal, name, cpus[me % cpus.len()], body).expect("it starts")
        })
        .collect();
    let mut control = Control {
        senders,
        imb: Imb::new().expect("this CPU has AES-NI"),
        shared: shared.clone(),
        keys: vec![],
        retired: 0,
    };
    control.churn();
    shared.stop.store(true, Relaxed);
    let totals: Vec<_> = workers.into_iter().map(|w| w.join().expect("it ends")).collect();
    control.replies();
    assert_eq!(
        control.retired,
        2 * PEERS,
        "every peer came back from both workers"
    );
    let left = control.keys.iter().filter(|k| k.strong_count() > 0).count();
    assert_eq!(
        (left, control.keys.len()),
        (0, PEERS as usize / 100),
        "nobody holds a key any more"
    );
    balance(&totals[0].plus(&totals[1]));
    drop(control);
    rig::all_back(&pools);
}

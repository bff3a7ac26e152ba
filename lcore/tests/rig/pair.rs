//! Two workers, each on an lcore of its own with rings of its own, that seal for the same peers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lcore::launch::launch;
use lcore::steering::Steering;
use lcore::{Burst, Eal, Imb, cycles};
use nf_path::buf::Buf;
use nf_path::counters::Totals;
use nf_path::twin::craft::number;

use super::{Ends, Options, Rig, all_back, ids, kernels, opened, parts, peer, slot, tunnel_of};

/// What goes through two workers.
#[derive(Clone, Copy)]
pub struct Load {
    /// Names their rings.
    pub names: [&'static str; 2],
    /// Peers 1 to this many.
    pub peers: u32,
    /// Packets into each worker's tunnel port.
    pub packets: u32,
    /// Bytes of an inner packet.
    pub len: usize,
    /// Whether any worker seals for any peer.
    pub spread: bool,
    /// Most frames in one poll.
    pub burst: usize,
}

/// A frame that a NIC port sent.
#[derive(Clone, Copy)]
pub struct Sent {
    /// TSC cycles when its burst had been sent.
    pub at: u64,
    /// Packet id.
    pub id: u32,
    /// Whose it is.
    pub peer: u16,
    /// First of its burst.
    pub first: bool,
}

/// What one worker did.
pub struct Done {
    /// What its NIC port sent, in order.
    pub sent: Vec<Sent>,
    /// What it counted.
    pub totals: Totals,
    samples: Vec<Vec<u8>>,
}

/// So many packets may be on their way at once, less than a ring between workers takes.
const ON_THEIR_WAY: u64 = 700;
/// Packets to one peer in a row.
const ROW: u32 = 5;
/// One frame of so many is opened.
const SAMPLE: usize = 307;

/// Frames that went in at the tunnel ports, and those that left at the NIC ports.
#[derive(Default)]
struct Shared {
    into: AtomicU64,
    out: AtomicU64,
}

/// The number that packet `n` of a worker carries.
fn numbered(me: u8, n: u32) -> u32 {
    u32::from(me) << 31 | n
}

fn peer_of(n: u32, peers: u32) -> u32 {
    1 + (n / ROW) % peers
}

/// Kernel's frames for each peer; only the number is to be put in.
struct Source {
    me: u8,
    load: Load,
    frames: Vec<Vec<u8>>,
    next: u32,
}

impl Source {
    fn is_empty(&self) -> bool {
        self.next == self.load.packets
    }

    /// The next burst. Panics when the pool is empty.
    fn fill(&mut self, ends: &mut Ends) -> u64 {
        let mut burst = Burst::<256>::new();
        let n = (self.load.packets - self.next).min(self.load.burst as u32);
        for _ in 0..n {
            let frame = &mut self.frames[peer_of(self.next, self.load.peers) as usize - 1];
            frame[42..46].copy_from_slice(&numbered(self.me, self.next).to_be_bytes());
            burst.push(super::buffer(&ends.small, frame));
            self.next += 1;
        }
        assert_eq!(ends.tunnel_in.fill(&mut burst), n as usize);
        n.into()
    }
}

/// Feeds a worker, polls it and takes what it sent, until everything that went into both left again.
fn work(mut rig: Rig, me: u8, load: Load, shared: &Shared) -> Done {
    let frames = (1..=load.peers).map(|peer| kernels(peer, 0, load.len)).collect();
    let mut source = Source {
        me,
        load,
        frames,
        next: 0,
    };
    let (mut sent, mut samples) = (Vec::with_capacity(load.packets as usize), Vec::new());
    let all = u64::from(load.packets) * 2;
    let begun = Instant::now();
    let mut burst = Burst::<256>::new();
    while shared.out.load(Relaxed) < all {
        let waiting = shared.into.load(Relaxed).saturating_sub(shared.out.load(Relaxed));
        if !source.is_empty() && waiting < ON_THEIR_WAY {
            shared.into.fetch_add(
                u64::from((load.packets - source.next).min(load.burst as u32)),
                Relaxed,
            );
            source.fill(&mut rig.ends);
        }
        rig.worker.poll();
        let at = cycles();
        let mut first = true;
        while rig.nic_out.take(&mut burst) > 0 {
            for frame in burst.iter() {
                let (peer, id) = ids(frame.data());
                let peer = peer as u16;
                sent.push(Sent { at, id, peer, first });
                first = false;
                if sent.len() % SAMPLE == 1 {
                    samples.push(frame.data().to_vec());
                }
            }
            shared.out.fetch_add(burst.len() as u64, Relaxed);
            burst.clear();
        }
        assert!(
            begun.elapsed() < Duration::from_secs(300),
            "{} of {all} left; {:?}",
            shared.out.load(Relaxed),
            rig.drops()
        );
    }
    let totals = rig.counters.totals();
    Done {
        sent,
        totals,
        samples,
    }
}

/// Puts a load through two workers. Every packet must leave once, in the place of each sender's packets to each peer, and
/// all buffers come back.
pub fn run(eal: &Eal, load: Load) -> [Done; 2] {
    let cpus = eal.caller_affinity().cpus();
    let imb = Imb::new().expect("this CPU has AES-NI");
    let keys: Vec<_> = (1..=load.peers).map(|id| slot(&imb, id)).collect();
    let (shared, mut pools) = (Arc::new(Shared::default()), Vec::new());
    let mesh = Steering::mesh(2);
    let made: Vec<_> = mesh
        .into_iter()
        .zip(load.names)
        .map(|(steering, name)| {
            let mut table = tunnel_of((1..).zip(&keys).map(|(id, key)| peer(id, key.clone())));
            table.spread = load.spread;
            let burst = load.burst;
            let made = parts(
                eal,
                Options {
                    burst,
                    ..Options::new(name)
                },
                steering,
                table,
            );
            pools.extend([made.1.small.clone(), made.1.large.clone()]);
            made
        })
        .collect();
    let workers: Vec<_> = (0..)
        .zip(made)
        .map(|(me, made)| {
            let (on, shared) = (eal.clone(), shared.clone());
            let body = move |_| work(Rig::with(&on, made), me, load, &shared);
            launch(
                eal,
                load.names[usize::from(me)],
                cpus[usize::from(me) % cpus.len()],
                body,
            )
            .expect("it starts")
        })
        .collect();
    let mut done = workers.into_iter().map(|w| w.join().expect("it ends"));
    let done = [(); 2].map(|()| done.next().expect("two workers"));
    all_back(&pools);
    done.iter().for_each(|d| samples_are_right(d, load));
    done
}

/// Samples open to what went in, and within the packets of one worker's tunnel port to one peer they are in order (unless
/// spread, where the others' may come between).
fn samples_are_right(done: &Done, load: Load) {
    let mut last = HashMap::new();
    for frame in &done.samples {
        let (peer, id, inner) = opened(frame);
        let number = number(&inner).expect("long enough");
        let (me, n) = ((number >> 31) as u8, number & 0x7fff_ffff);
        assert_eq!(peer, peer_of(n, load.peers), "packet id {id}");
        let mut expected = kernels(peer, 0, load.len).split_off(14);
        expected[28..32].copy_from_slice(&numbered(me, n).to_be_bytes());
        assert!(inner == expected, "packet id {id} to peer {peer}");
        let before = last.insert((me, peer), n);
        assert!(
            before < Some(n),
            "packet {n} of worker {me} to peer {peer} after {before:?}"
        );
    }
}

/// What both NIC ports sent in the order of sending: by the time at which their bursts were sent, as on a link that
/// is faster than both together; with the number of the worker.
pub fn merged(done: &[Done; 2]) -> impl Iterator<Item = (u8, Sent)> {
    let mut queues = done.each_ref().map(|d| d.sent.iter().copied().peekable());
    std::iter::from_fn(move || {
        let heads = queues.each_mut().map(|q| q.peek().map_or(u64::MAX, |s| s.at));
        let from = heads[1] < heads[0];
        queues[usize::from(from)].next().map(|sent| (from.into(), sent))
    })
}

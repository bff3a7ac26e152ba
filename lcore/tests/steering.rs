//! Two workers on one thread: frames of the other's peers change workers, as they came.

mod common;
mod rig;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use lcore::launch::launch;
use lcore::steering::{RING, Steering};
use lcore::worker::Parts;
use lcore::{Eal, Imb};
use nf_path::outbound::owner;
use nf_path::verdict::DropReason;
use rig::{Ends, Options, Rig, buffer, kernels, opened, parts, put, slot};

#[test]
fn frames_change_workers() {
    let eal = common::eal("steering");
    steered(&eal);
    steer_full(&eal);
    sixteen_ids_at_once(&eal);
    nothing_is_left_behind(&eal);
}

/// Two workers on this thread.
fn two(eal: &Eal, names: [&'static str; 2]) -> [Rig; 2] {
    pair(eal, names, 256).map(|made| Rig::with(eal, made))
}

/// The parts of two workers that seal for the same peers under the same keys.
fn pair(eal: &Eal, names: [&'static str; 2], burst: usize) -> [(Parts, Ends); 2] {
    let imb = Imb::new().expect("this CPU has AES-NI");
    let keys: Vec<_> = (1..=rig::PEERS).map(|id| slot(&imb, id)).collect();
    let mut mesh = Steering::mesh(2).into_iter();
    names.map(|name| {
        let peers = (1..).zip(&keys).map(|(id, key)| rig::peer(id, key.clone()));
        let steering = mesh.next().expect("two ends");
        let o = Options {
            burst,
            ..Options::new(name)
        };
        parts(eal, o, steering, rig::tunnel_of(peers))
    })
}

fn all_back(rigs: [Rig; 2]) {
    let pools = [0, 1]
        .map(|i| [rigs[i].small.clone(), rigs[i].large.clone()])
        .concat();
    drop(rigs);
    rig::all_back(&pools);
}

fn steered(eal: &Eal) {
    let mut rigs = two(eal, ["s0", "s1"]);
    let frames: Vec<_> = (0..400).map(|n| kernels(1 + n % 4, n, 64)).collect();
    rigs[0].push_tunnel(&frames[..200]);
    rigs[1].push_tunnel(&frames[200..]);
    rigs[0].poll();
    let sent = [rigs[0].nic(), rigs[1].nic()];
    let mut seen = Vec::new();
    for (me, frames) in (0..).zip(&sent) {
        for frame in frames {
            let (peer, id, inner) = opened(frame);
            assert_eq!(owner(peer, 2), me, "each peer's packets are sealed on one lcore");
            seen.push((peer, id, nf_path::twin::craft::number(&inner)));
        }
    }
    seen.sort_unstable();
    let all = (1..=4).flat_map(|peer| (1..=100).map(move |id| (peer, id)));
    assert!(seen.iter().map(|s| (s.0, s.1)).eq(all));
    let mut numbers: Vec<_> = seen.iter().filter_map(|s| s.2).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..400));
    let others = |me| (1..=4).filter(|&peer| owner(peer, 2) != me).count() as u64 * 50;
    for (me, rig) in (0..).zip(&rigs) {
        let t = rig.counters.totals();
        assert_eq!((t.tunnel_rx, t.steered), (200, others(me)));
        assert_eq!(t.sealed, sent[usize::from(me)].len() as u64);
        assert_eq!(rig.drops(), []);
    }
    assert_eq!(others(0) + others(1), 200, "both have peers of the other's");
    all_back(rigs);
}

fn steer_full(eal: &Eal) {
    let mut rigs = two(eal, ["f0", "f1"]);
    let theirs = (1..=4).find(|&peer| owner(peer, 2) == 1).expect("one of four");
    let over = 76;
    rigs[0].push_tunnel((0..RING as u32 + over).map(|n| kernels(theirs, n, 64)));
    assert_eq!(rigs[0].drops(), [(DropReason::SteerFull, u64::from(over))]);
    assert_eq!((rigs[0].nic().len(), rigs[1].nic().len()), (0, 0));
    // Those that found room are sealed in order, and what waits at the end is given back.
    while rigs[1].worker.poll() > 0 {}
    let ids: Vec<_> = rigs[1].nic().iter().map(|f| opened(f).1).collect();
    assert!(ids.iter().copied().eq(1..=1023), "{} came out", ids.len());
    assert_eq!(
        rigs[1].drops(),
        [(DropReason::NicFull, 1)],
        "its ring has 1023 places"
    );
    rigs[0].push_tunnel((0..100).map(|n| kernels(theirs, n, 64)));
    all_back(rigs);
}

/// Somebody else takes ids of the same key all the time. Spread, those of a burst follow each other in sixteens, with
/// others between; steered, a burst's are taken at once.
fn sixteen_ids_at_once(eal: &Eal) {
    if eal.caller_affinity().cpus().len() < 2 {
        return println!("SKIP: steering: packet ids taken at the same time: one CPU only");
    }
    let imb = Imb::new().expect("this CPU has AES-NI");
    let mine = (1..=4).find(|&peer| owner(peer, 2) == 0).expect("one of four");
    for spread in [false, true] {
        let key = slot(&imb, mine);
        let mut table = rig::tunnel_of([rig::peer(mine, key.clone())]);
        table.spread = spread;
        let steering = Steering::mesh(2).remove(0);
        let name = if spread { "i1" } else { "i0" };
        let mut rig = Rig::with(eal, parts(eal, Options::new(name), steering, table));
        let (stop, begun) = (AtomicBool::new(false), Instant::now());
        let mut taken_between = false;
        let mut burst = || {
            rig.push_tunnel((0..256).map(|n| kernels(mine, n, 64)));
            let ids: Vec<_> = rig.nic().iter().map(|f| rig::ids(f).1).collect();
            assert_eq!(ids.len(), 256);
            let broken = |n: &usize| ids[*n] != ids[*n - 1] + 1;
            (1..256).filter(broken).collect::<Vec<_>>()
        };
        std::thread::scope(|s| {
            s.spawn(|| {
                // The EAL has bound this thread to the worker's CPU.
                eal.unpin_caller().expect("the affinity of before");
                while !stop.load(Relaxed) {
                    assert!(key.ids().reserve(1).is_some());
                }
            });
            let mut before = key.ids().next();
            for round in 0.. {
                let breaks = burst();
                let now = key.ids().next();
                taken_between |= now > before + 256;
                before = now;
                if spread {
                    assert!(breaks.iter().all(|n| n % 16 == 0), "{breaks:?}");
                } else {
                    assert!(breaks.is_empty(), "{breaks:?}");
                }
                let seen = if spread {
                    breaks.len() == 15
                } else {
                    taken_between && round > 200
                };
                if seen || begun.elapsed() > Duration::from_secs(30) {
                    stop.store(true, Relaxed);
                    assert!(seen, "never 15 times another's ids within a burst");
                    break;
                }
            }
        });
        rig.finish();
    }
}

/// Both workers are told to end while the first has frames for the second: they go on until all are sent.
fn nothing_is_left_behind(eal: &Eal) {
    const FRAMES: u32 = 1000;
    let made = pair(eal, ["e0", "e1"], 32);
    let theirs = (1..=4).find(|&peer| owner(peer, 2) == 1).expect("one of four");
    let small = made[0].1.small.clone();
    let pools = made
        .each_ref()
        .map(|(_, ends)| [ends.small.clone(), ends.large.clone()])
        .concat();
    let cpus = eal.caller_affinity().cpus();
    let start = Arc::new(Barrier::new(2));
    let mut me = 0;
    let workers = made.map(|mut made| {
        if me == 0 {
            put(
                &mut made.1.tunnel_in,
                (0..FRAMES).map(|n| buffer(&small, &kernels(theirs, n, 64))),
            );
        }
        let (on, start) = (eal.clone(), start.clone());
        let body = move |_| {
            let mut rig = Rig::with(&on, made);
            start.wait();
            rig.worker.run(&AtomicBool::new(true));
            (rig.drops(), rig.nic().len())
        };
        let cpu = cpus[me % cpus.len()];
        me += 1;
        launch(eal, "ending", cpu, body).expect("it starts")
    });
    let ended = workers.map(|w| w.join().expect("it ends"));
    assert_eq!(ended, [(vec![], 0), (vec![], FRAMES as usize)]);
    rig::all_back(&pools);
}

//! Workers: an lcore id and a CPU for each, and none left behind.

mod common;

use lcore::affinity::CpuSet;
use lcore::launch::{launch, lcore_id};
use lcore::{Burst, Error};

#[test]
fn workers_come_and_go() {
    let before = CpuSet::current().expect("an affinity").cpus();
    let eal = common::eal("launch");
    assert_eq!(eal.caller_affinity().cpus(), before);
    eal.unpin_caller().expect("the affinity of before");
    assert_eq!(CpuSet::current().expect("an affinity").cpus(), before);
    let inherited = std::thread::spawn(|| (CpuSet::current().expect("an affinity").cpus(), lcore_id()));
    assert_eq!(
        inherited.join().expect("it ends"),
        (before.clone(), None),
        "other threads are not pinned"
    );

    let pool = common::pool(&eal, "launch", 1023);
    let cpu = *before.last().expect("at least one CPU");
    for round in 0..200u32 {
        let pool = pool.clone();
        let work = move |lcore: lcore::launch::Lcore| {
            let mut burst = Burst::<64>::new();
            assert!(pool.alloc_bulk(&mut burst, 64));
            drop(burst);
            assert_eq!(lcore_id(), Some(lcore.id()));
            (
                lcore.id(),
                lcore.cpu(),
                CpuSet::current().expect("an affinity").cpus(),
                round,
            )
        };
        let (id, on, cpus, back) = launch(&eal, "worker", cpu, work)
            .expect("it starts")
            .join()
            .expect("it ends");
        assert_ne!(id, dpdk_sys::SHIM_LCORE_ID_ANY);
        assert!(id < dpdk_sys::RTE_MAX_LCORE && Some(id) != lcore_id(), "{id}");
        assert_eq!((on, cpus, back), (cpu, vec![cpu], round));
    }
    assert_eq!(
        pool.available(),
        pool.capacity(),
        "what ended workers' caches hold is still the pool's"
    );
    two_at_a_time(&eal, cpu);
    failures_are_errors(&eal, cpu);
}

fn two_at_a_time(eal: &lcore::Eal, cpu: usize) {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let first = launch(eal, "first", cpu, move |l| (l.id(), stopped.recv().is_err())).expect("it starts");
    let second = launch(eal, "second", cpu, |l| l.id())
        .expect("it starts")
        .join()
        .expect("it ends");
    assert!(!first.is_finished());
    drop(stop);
    let (first, _) = first.join().expect("it ends");
    assert_ne!(first, second, "two at a time have two ids");
}

fn failures_are_errors(eal: &lcore::Eal, cpu: usize) {
    let panics = launch(eal, "w3", cpu, |_| -> u8 { panic!("at the {}", "disco") }).expect("it starts");
    let error = panics.join().expect_err("a panic is an error");
    assert!(matches!(error, Error::Panic { .. }));
    assert_eq!(error.to_string(), "worker w3 panicked: at the disco");
    for nowhere in [1023, 1024, usize::MAX] {
        let error = launch(eal, "w4", nowhere, |_| ())
            .expect_err("no such CPU")
            .to_string();
        assert!(
            error.starts_with("worker w4 does not start: CPU affinity of"),
            "{error}"
        );
    }
}

//! Between receiving a burst and sending it nothing is allocated or freed on the heap.

mod common;
mod rig;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use lcore::{Mbuf, Mempool};
use nf_path::twin::craft::fragment_v4;
use nf_path::verdict::DropReason;
use rig::{Options, Rig, buffer, chain, frame, kernels, outer, record_of};

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what the thread that asks for it does; others do as they like.
struct Counting;

fn count() {
    // A thread that ends has no counter any more.
    let _ = COUNTING.try_with(|on| {
        if on.get() {
            let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
        }
    });
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's conditions are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often this thread called the allocator during `work`.
fn calls(work: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    COUNTING.set(true);
    work();
    COUNTING.set(false);
    CALLS.get() - before
}

#[test]
fn nothing_is_allocated_between_rx_and_tx() {
    assert_eq!(
        calls(|| drop(std::hint::black_box(Box::new(7)))),
        2,
        "the counter counts"
    );
    let eal = common::eal("allocation");
    let mut rig = Rig::new(
        &eal,
        Options {
            host: Some(63),
            tunnel: 511,
            nic: 511,
            nic_mtu: 1500,
            ..Options::new("alloc")
        },
    );
    let mut id = 0;
    for round in 0..20 {
        for (what, frames) in bursts(&mut id) {
            let small = rig.small.clone();
            rig.put(frames.iter().map(|f| match what {
                "segments" => chain(&small, &[&f[..60], &f[60..]]),
                _ => buffer(&small, f),
            }));
            let worker = &mut rig.worker;
            let calls = calls(|| while worker.poll() > 0 {});
            // The first round warms up.
            assert!(
                round == 0 || calls == 0,
                "round {round}, {what}: {calls} calls of the allocator"
            );
            rig.tunnel();
            rig.host();
        }
        let small = rig.small.clone();
        rig::put(&mut rig.host_in, (0..100).map(|_| buffer(&small, &[0; 60])));
        rig::put(&mut rig.tunnel_in, outbound(&small));
        let worker = &mut rig.worker;
        let calls = calls(|| while worker.poll() > 0 {});
        assert!(
            round == 0 || calls == 0,
            "round {round}, from host and tunnel: {calls} calls of the allocator"
        );
        rig.tunnel_out.drain();
        rig.nic_out.drain();
    }
    everything_was_there(&rig);
    rig.worker.give_up_fragments();
    assert!(rig.counters.totals().dropped(DropReason::FragmentTimeout) > 0);
    rig.finish();
}

/// What was looked at had all that it should have.
fn everything_was_there(rig: &Rig) {
    let t = rig.counters.totals();
    for reason in [
        DropReason::BadTag,
        DropReason::ReplayDuplicate,
        DropReason::UnknownPeer,
        DropReason::TunnelFull,
        DropReason::NicFull,
        DropReason::UnknownMac,
        DropReason::TunnelLength,
    ] {
        assert!(t.dropped(reason) > 0, "{reason:?} is among what was looked at");
    }
    assert!(
        t.sealed > 0 && t.neighbour_replies > 0 && t.kernel_noise > 0 && t.fragments_tx > 0,
        "{t:?}"
    );
    assert!(
        t.reassembled > 0 && t.keepalives > 0 && t.dropped(DropReason::HostFull) > 0,
        "{t:?}"
    );
}

/// Frames of every kind from the tunnel port, more than the NIC port takes.
fn outbound(small: &Mempool) -> Vec<Mbuf> {
    let (one, far) = (kernels(1, 1, 300), kernels(2, 1, 1480));
    let whole = (0..256).map(|n| kernels(1 + n / 64, n, 100 + n as usize));
    let rest = (0..400).map(|n| kernels(1 + n % 4, n, 60));
    let wrong = [kernels(77, 1, 60), one[..20].to_vec(), vec![0; 60]];
    let asked = (1..=4).map(rig::arp_request).chain([rig::arp_request(50)]);
    let frames = whole.chain([far]).chain(wrong).chain(asked).chain(rest);
    let mut buffers: Vec<_> = frames.map(|f| buffer(small, &f)).collect();
    buffers.extend((0..8).map(|_| chain(small, &[&one[..40], &one[40..]])));
    buffers
}

/// Bursts of every kind, with packet ids from `id` on.
fn bursts(id: &mut u32) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let mut next = || {
        *id += 1;
        *id
    };
    let one_flow: Vec<_> = (0..256).map(|_| frame(1, next(), 100)).collect();
    let again = one_flow.clone();
    let flows = (0..256)
        .map(|n| frame(1 + n % 4, next(), 64 + n as usize))
        .collect();
    let mut wrong: Vec<_> = (0..64).map(|_| frame(2, next(), 300)).collect();
    wrong.iter_mut().step_by(2).for_each(|f| f[70] ^= 1);
    let unknown = (0..64)
        .map(|_| outer(9, 0).payload(&record_of(9, 1, &[0; 40])).build())
        .collect();
    let ping = [
        0x2a, 0x18, 0x7b, 0xf3, 0x64, 0x1e, 0xb4, 0xcb, 0x07, 0xed, 0x2d, 0x0a, 0x98, 0x1f, 0xc7, 0x48,
    ];
    let keepalives = (0..8)
        .map(|_| outer(3, 0).payload(&record_of(3, next(), &ping)).build())
        .collect();
    let host = (0..100)
        .map(|_| outer(1, 0).payload(&[0x20; 90]).build())
        .collect();
    let fragments = (0..40)
        .flat_map(|_| fragment_v4(&frame(1, next(), 1400), 800))
        .collect();
    let pending = (0..20)
        .map(|_| fragment_v4(&frame(4, next(), 1400), 800).remove(0))
        .collect();
    let control = |n: u16| outer(1, u32::from(n)).payload(&[0x20; 3000]).build();
    let again_for_host = (0..10).flat_map(|n| fragment_v4(&control(n), 1400)).collect();
    let segments = (0..32).map(|_| frame(1, next(), 500)).collect();
    let too_many = (0..768).map(|_| frame(1, next(), 60)).collect();
    vec![
        ("one flow", one_flow),
        ("replayed", again),
        ("many flows", flows),
        ("wrong tags", wrong),
        ("unknown peers", unknown),
        ("keepalives", keepalives),
        ("for the host", host),
        ("fragments", fragments),
        ("pending fragments", pending),
        ("fragments for the host", again_for_host),
        ("segments", segments),
        ("more than the tunnel port takes", too_many),
    ]
}

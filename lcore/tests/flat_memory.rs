//! Every kind of drop, many times each: pools as full as at the start, and memory flat.

mod common;
mod rig;

use std::sync::{Arc, OnceLock};

use lcore::steering::{RING, Steering};
use lcore::{Eal, Imb, Mempool};
use nf_path::outbound::owner;
use nf_path::verdict::DropReason;
use nf_state::{Binding, Endpoint, PacketIds, Slot};
use rig::kinds::{self, At, Dry, GO, Kind, same};
use rig::{Options, Rig, kernels, memory, outer, parts, put, record_of};

/// The EAL starts once per process, for the long test and the short one.
fn eal() -> &'static Eal {
    static EAL: OnceLock<Eal> = OnceLock::new();
    EAL.get_or_init(|| common::eal("flat"))
}

/// How much the resident set may grow: a byte or two for each drop, less than any object has.
const SLACK: i64 = 1 << 20;

/// Puts so many of a kind through a worker. Each must have ended as said.
fn drops(rig: &mut Rig, feed: &Mempool, kind: &mut Kind, count: u32) {
    let reason = kind.reason;
    let before = rig.counters.totals();
    let pool = match kind.dry {
        Dry::Small => Some(rig.small.clone()),
        Dry::Large => Some(rig.large.clone()),
        Dry::No => None,
    };
    let held: Vec<_> = pool
        .iter()
        .flat_map(|p| std::iter::from_fn(|| p.alloc()))
        .collect();
    for go in 0..count / GO {
        let frames = (0..GO).map(|n| (kind.make)(go * GO + n, feed));
        match kind.at {
            At::Nic => put(&mut rig.nic_in, frames),
            At::Tunnel => put(&mut rig.tunnel_in, frames),
            At::Host => put(&mut rig.host_in, frames),
        }
        rig.poll();
        if matches!(reason, DropReason::FragmentTimeout | DropReason::FragmentRefused) {
            rig.worker.give_up_fragments();
        }
    }
    drop(held);
    let since = rig.counters.totals().since(&before);
    let dropped: Vec<_> = since.nonzero_drops().collect();
    let good = u32::from(reason == DropReason::ReplayDuplicate);
    let count = u64::from(count / GO * (GO - good));
    if reason == DropReason::FragmentRefused {
        let (refused, late) = (since.dropped(reason), since.dropped(DropReason::FragmentTimeout));
        assert!(refused + late == count && refused > count / 2, "{dropped:?}");
    } else {
        assert_eq!(dropped, [(reason, count)]);
    }
}

/// A worker whose rings are full, with peers that have all that may be missing.
fn full(eal: &Eal) -> Rig {
    let imb = Imb::new().expect("this CPU has AES-NI");
    let mut peers: Vec<_> = (1..=8).map(|id| rig::peer(id, rig::slot(&imb, id))).collect();
    assert!(peers[4].keys.remove(Slot::Primary).is_some());
    let spent = PacketIds::resume(PacketIds::END, PacketIds::END);
    assert!(
        peers[5]
            .keys
            .install_primary(rig::slot_with(&imb, 6, spent))
            .is_some()
    );
    peers[6].endpoint = Arc::new(Endpoint::new());
    let no_way = Binding {
        way: None,
        ..rig::binding(8)
    };
    peers[7].endpoint = Arc::new(Endpoint::bound(&no_way));
    let mut table = rig::tunnel_of(peers);
    table.source_check = true;
    let o = Options {
        tunnel: 15,
        host: Some(7),
        nic: 7,
        longest_tunnel: 14 + 300,
        longest_host: 600,
        longest_nic: 700,
        small: 255,
        large: 31,
        ..Options::new("full")
    };
    let steering = Steering::mesh(1).pop().expect("one worker");
    let mut rig = Rig::with(eal, parts(eal, o, steering, table));
    rig.push((1..=15).map(|id| rig::frame(1, id, 60)));
    rig.push((0..7).map(|_| outer(1, 0).payload(&[0x20; 40]).build()));
    rig.push_tunnel((0..7).map(|n| kernels(1, n, 60)));
    rig.push([outer(2, 0)
        .payload(&record_of(2, 5000, &nf_wire::keepalive::PING))
        .build()]);
    assert_eq!(rig.drops(), []);
    assert_eq!(
        (rig.tunnel_out.len(), rig.host_out.len(), rig.nic_out.len()),
        (15, 7, 7)
    );
    rig
}

/// The first of two workers, whose other never runs, behind a NIC whose MTU no packet can be cut to.
fn steering(eal: &Eal, other: &mut Option<Steering>) -> (Rig, [Kind; 2]) {
    let mut mesh = Steering::mesh(2);
    *other = mesh.pop();
    let imb = Imb::new().expect("this CPU has AES-NI");
    let o = Options {
        nic_mtu: 27,
        small: RING as u32 + 127,
        large: 31,
        ..Options::new("steer")
    };
    let mut rig = Rig::with(eal, parts(eal, o, mesh.remove(0), rig::tunnel(&imb)));
    let of = |lcore| (1..=4).find(|&p| owner(p, 2) == lcore).expect("one of four");
    let kind = |reason, peer| same(reason, At::Tunnel, [kernels(peer, 1, 60)]);
    rig.push_tunnel((0..RING).map(|_| kernels(of(1), 1, 60)));
    assert_eq!(
        (rig.drops(), rig.counters.totals().steered),
        (vec![], RING as u64)
    );
    let kinds = [
        kind(DropReason::Unfragmentable, of(0)),
        kind(DropReason::SteerFull, of(1)),
    ];
    (rig, kinds)
}

fn every_kind(eal: &Eal, count: u32) {
    const WARM: u32 = 5000;
    let feed = Mempool::new(eal, "feed", 1023, 0, 2176, -1).expect("a pool");
    let mut other = None;
    let mut rig = full(eal);
    let mut kinds = kinds::all();
    let (mut second, mut more) = steering(eal, &mut other);
    let mut seen: Vec<_> = kinds.iter().chain(&more).map(|k| k.reason).collect();
    seen.sort_unstable_by_key(|r| *r as u8);
    seen.dedup();
    assert!(seen.iter().eq(DropReason::ALL), "each kind there is: {seen:?}");

    let mut go = |count| {
        kinds.iter_mut().for_each(|k| drops(&mut rig, &feed, k, count));
        more.iter_mut().for_each(|k| drops(&mut second, &feed, k, count));
        assert_eq!(feed.available(), feed.capacity(), "{}", feed.name());
    };
    go(WARM);
    let before = memory::resident();
    go(count);
    memory::flat(before, SLACK, &format!("{count} drops of each kind"));
    rig.finish();
    drop(other);
    second.finish();
}

#[test]
fn a_hundred_thousand_drops_of_every_kind() {
    every_kind(eal(), 100_000);
}

#[test]
#[ignore = "ten million drops of every kind"]
fn ten_million_drops_of_every_kind() {
    every_kind(eal(), 10_000_000);
}

//! The drops that only the worker makes: each with exactly its counter, and no buffer lost.

mod common;
mod rig;

use lcore::Eal;
use nf_path::verdict::DropReason;
use rig::{Options, Rig, buffer, frame, inner, outer, put};

#[test]
fn what_a_port_does_not_take_is_counted_and_freed() {
    let eal = common::eal("drops");
    tunnel_full(&eal);
    tunnel_mtu(&eal);
    host_full(&eal);
    host_mtu(&eal);
    no_host(&eal);
    nic_full(&eal);
    nic_mtu(&eal);
    more_for_the_host_than_a_burst(&eal);
}

/// A control packet.
fn control(len: usize) -> Vec<u8> {
    outer(1, 0).payload(&vec![0x20; len]).build()
}

fn tunnel_full(eal: &Eal) {
    let mut rig = Rig::new(
        eal,
        Options {
            tunnel: 15,
            ..Options::new("tf")
        },
    );
    rig.push((1..=40).map(|id| frame(1, id, 100)));
    assert_eq!(rig.drops(), [(DropReason::TunnelFull, 25)]);
    let t = rig.counters.totals();
    assert_eq!(
        (t.nic_rx, t.records, t.authentic, t.tunnel_tx, t.tunnel_tx_bytes),
        (40, 40, 40, 15, 15 * 114)
    );
    let frames = rig.tunnel();
    let first: Vec<_> = (1..=15).map(|id| rig::delivered(1, &inner(100, id))).collect();
    assert_eq!(frames, first, "what the port took are the first ones");
    rig.push([frame(1, 41, 100)]);
    assert_eq!(
        (rig.tunnel().len(), rig.drops()),
        (1, vec![(DropReason::TunnelFull, 25)]),
        "it goes on"
    );
    rig.finish();
}

fn tunnel_mtu(eal: &Eal) {
    let mut rig = Rig::new(
        eal,
        Options {
            longest_tunnel: 14 + 1000,
            ..Options::new("tm")
        },
    );
    let lengths = [999, 1000, 1001, 60, 1400, 1000];
    rig.push((1u32..).zip(lengths).map(|(id, len)| frame(1, id, len)));
    assert_eq!(rig.drops(), [(DropReason::TunnelMtu, 2)]);
    let frames = rig.tunnel();
    assert_eq!(
        frames.iter().map(|f| f.len() - 14).collect::<Vec<_>>(),
        [999, 1000, 60, 1000]
    );
    let t = rig.counters.totals();
    assert_eq!((t.tunnel_tx, t.tunnel_tx_bytes), (4, rig::total(&frames)));
    rig.finish();
}

fn host_full(eal: &Eal) {
    let mut rig = Rig::new(
        eal,
        Options {
            host: Some(7),
            ..Options::new("hf")
        },
    );
    rig.push((0..10).map(|_| control(40)));
    assert_eq!(rig.drops(), [(DropReason::HostFull, 3)]);
    let t = rig.counters.totals();
    assert_eq!((t.to_host, t.to_daemon, t.host_tx), (10, 10, 7));
    assert_eq!(rig.host(), vec![control(40); 7], "unchanged");
    rig.finish();
}

fn host_mtu(eal: &Eal) {
    let mut rig = Rig::new(
        eal,
        Options {
            longest_host: control(40).len(),
            ..Options::new("hm")
        },
    );
    rig.push([control(41), control(40), control(500), control(39)]);
    assert_eq!(rig.drops(), [(DropReason::HostMtu, 2)]);
    assert_eq!(rig.host(), [control(40), control(39)]);
    assert_eq!(rig.counters.totals().host_tx, 2);
    rig.finish();
}

fn no_host(eal: &Eal) {
    let mut rig = Rig::new(
        eal,
        Options {
            host: None,
            ..Options::new("nh")
        },
    );
    rig.push([control(40), frame(1, 1, 100), vec![0xff; 60]]);
    assert_eq!(rig.drops(), [(DropReason::HostFull, 2)]);
    let t = rig.counters.totals();
    assert_eq!((t.to_host, t.host_tx, t.tunnel_tx), (2, 0, 1));
    rig.finish();
}

fn nic_mtu(eal: &Eal) {
    let mut rig = Rig::new(
        eal,
        Options {
            longest_nic: 64,
            ..Options::new("nm")
        },
    );
    let small = rig.small.clone();
    let frames: Vec<Vec<u8>> = (0..8u8).map(|n| vec![n; 60 + usize::from(n)]).collect();
    put(&mut rig.host_in, frames.iter().map(|f| buffer(&small, f)));
    rig.poll();
    assert_eq!(rig.drops(), [(DropReason::NicMtu, 3)]);
    let sent: Vec<_> = rig::taken(&mut rig.nic_out).iter().map(rig::bytes).collect();
    assert_eq!(sent, frames[..5], "the others go on, unchanged");
    rig.finish();
}

fn nic_full(eal: &Eal) {
    let mut rig = Rig::new(
        eal,
        Options {
            nic: 3,
            ..Options::new("nf")
        },
    );
    let small = rig.small.clone();
    let frames: Vec<Vec<u8>> = (0..8u8).map(|n| vec![n; 60 + usize::from(n)]).collect();
    put(&mut rig.host_in, frames.iter().map(|f| buffer(&small, f)));
    rig.poll();
    assert_eq!(rig.drops(), [(DropReason::NicFull, 5)]);
    let t = rig.counters.totals();
    assert_eq!((t.host_rx, t.nic_tx, t.nic_rx), (8, 3, 0));
    let sent: Vec<_> = rig::taken(&mut rig.nic_out).iter().map(rig::bytes).collect();
    assert_eq!(sent, frames[..3], "unchanged");
    rig.finish();
}

/// Fragments made again for the host port can be more than a burst holds.
fn more_for_the_host_than_a_burst(eal: &Eal) {
    let mut rig = Rig::new(
        eal,
        Options {
            large: 200,
            ..Options::new("mh")
        },
    );
    let mut frames = Vec::new();
    for id in 0..100 {
        let whole = outer(1, id).payload(&vec![0x20; 4000]).build();
        frames.extend(nf_path::twin::craft::fragment_v4(&whole, 2000));
    }
    assert_eq!(frames.len(), 300);
    // 256 fragments are 85 whole datagrams and one fragment: 255 for the host; 44 more are the other 15 datagrams.
    rig.push(&frames);
    let t = rig.counters.totals();
    assert_eq!(
        (t.fragments, t.reassembled, t.to_daemon, t.to_host),
        (300, 100, 100, 300)
    );
    assert_eq!((rig.drops(), rig.host().len()), (vec![], 300));
    let mut burst: Vec<Vec<u8>> = frames.iter().skip(2).step_by(3).cloned().collect();
    for (i, first) in frames.iter().enumerate().filter(|(i, _)| i % 3 != 2) {
        if i < 240 {
            rig.push([first]);
        }
    }
    burst.truncate(80);
    burst.extend((0..100).map(|_| control(40)));
    rig.push(&burst);
    // 80 datagrams of three fragments and 100 control packets are 340 frames for a burst of 256.
    assert_eq!(rig.drops(), [(DropReason::HostFull, 84)]);
    assert_eq!(rig.host().len(), 256);
    rig.finish();
}

//! A worker from its tunnel port to the NIC port, on rings: what is sealed, what is answered, and every drop that only the
//! worker makes, each with exactly its counter and no buffer lost.

mod common;
mod rig;

use lcore::mailbox::Message;
use lcore::{Eal, Mbuf};
use nf_path::counters::Totals;
use nf_path::verdict::DropReason;
use rig::{Options, Rig, buffer, bytes, chain, kernels, opened, put, taken};

#[test]
fn from_the_tunnel_port_to_the_nic() {
    let eal = common::eal("out");
    sealed_and_opened_again(&eal);
    answers_go_back(&eal);
    answers_without_room(&eal);
    in_fragments(&eal);
    in_segments(&eal);
    nic_full(&eal);
    nic_mtu(&eal);
    no_buffer(&eal);
    no_large_buffer(&eal);
}

fn totals(rig: &Rig) -> Totals {
    rig.counters.totals()
}

/// Through the AEAD in plain Rust, and through the inbound path of another gateway.
fn sealed_and_opened_again(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("so"));
    let mut far = Rig::new(
        eal,
        Options {
            listen: &["198.51.100.1:40000", "198.51.100.2:40000"],
            ..Options::new("sf")
        },
    );
    // More than two bursts, in runs of 1 to 7 packets.
    let peers = (0..600u32).map(|n| 1 + (n / (1 + n % 7)) % 2);
    let frames: Vec<_> = (0..)
        .zip(peers.clone())
        .map(|(n, p)| kernels(p, n, 28 + n as usize))
        .collect();
    rig.push_tunnel(&frames);
    let sent = rig.nic();
    assert_eq!((rig.drops(), sent.len()), (vec![], 600));
    let mut next = [0, 0];
    for ((n, peer), frame) in (0..).zip(peers.clone()).zip(&sent) {
        next[peer as usize - 1] += 1;
        let inner = kernels(peer, n, 28 + n as usize).split_off(14);
        assert!(
            opened(frame) == (peer, next[peer as usize - 1], inner),
            "packet {n}"
        );
    }
    let t = totals(&rig);
    assert_eq!((t.tunnel_rx, t.tunnel_rx_bytes), (600, rig::total(&frames)));
    assert_eq!(
        (t.sealed, t.records_tx, t.records_tx_bytes),
        (600, 600, rig::total(&sent))
    );
    assert_eq!((t.nic_tx, t.steered, t.fragments_tx), (0, 0, 0));

    far.push(&sent);
    let expected: Vec<_> = (0..)
        .zip(peers)
        .map(|(n, peer)| rig::delivered(peer, &kernels(peer, n, 28 + n as usize)[14..]))
        .collect();
    let mut delivered = far.tunnel();
    assert_eq!((far.drops(), delivered.len()), (vec![], 600));
    // The inbound path keeps order within a peer's records, not between peers.
    let mut expected = expected;
    expected.sort_by_key(|f| f[11]);
    delivered.sort_by_key(|f| f[11]);
    assert!(
        delivered == expected,
        "what went in at one tunnel port came out at the other"
    );
    assert_eq!(
        totals(&far).floats,
        2,
        "both peers were heard from another address"
    );
    rig.finish();
    far.finish();
}

fn answers_go_back(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("ab"));
    let nobody = rig::arp_request(50);
    rig.push_tunnel([
        &rig::arp_request(1),
        &kernels(2, 7, 60),
        &nobody,
        &rig::arp_request(4),
    ]);
    assert_eq!(rig.tunnel(), [rig::arp_reply(1), rig::arp_reply(4)]);
    let sent: Vec<_> = rig.nic().iter().map(|f| opened(f).0).collect();
    assert_eq!((sent, rig.drops()), (vec![2], vec![]));
    let t = totals(&rig);
    assert_eq!((t.tunnel_rx, t.neighbour_replies, t.kernel_noise), (4, 2, 1));
    assert_eq!(t.tunnel_tx, 0, "what is delivered, and no more");
    rig.finish();
}

fn answers_without_room(eal: &Eal) {
    let mut rig = Rig::new(
        eal,
        Options {
            tunnel: 7,
            ..Options::new("aw")
        },
    );
    rig.push_tunnel((0..300).map(|n| rig::arp_request(1 + n % 4)));
    assert_eq!(rig.drops(), [(DropReason::TunnelFull, 293)]);
    let first: Vec<_> = (0..7).map(|n| rig::arp_reply(1 + n % 4)).collect();
    assert_eq!((rig.tunnel(), totals(&rig).neighbour_replies), (first, 300));
    rig.finish();
    let mut rig = Rig::new(
        eal,
        Options {
            longest_tunnel: 41,
            ..Options::new("al")
        },
    );
    rig.push_tunnel([rig::arp_request(1)]);
    assert_eq!(rig.drops(), [(DropReason::TunnelMtu, 1)], "a reply has 42 bytes");
    rig.finish();
}

/// Fragments, more of them than a burst has places for, and opened by another gateway.
fn in_fragments(eal: &Eal) {
    let mut rig = Rig::new(
        eal,
        Options {
            nic_mtu: 1280,
            ..Options::new("fo")
        },
    );
    let mut far = Rig::new(
        eal,
        Options {
            listen: &["198.51.100.3:40000"],
            large: 255,
            ..Options::new("ff")
        },
    );
    let frames: Vec<_> = (0..200).map(|n| kernels(3, n, 1400 + n as usize)).collect();
    rig.push_tunnel(&frames);
    let sent = rig.nic();
    assert_eq!((sent.len(), rig.drops()), (400, vec![]));
    assert!(sent.iter().all(|f| f.len() <= 14 + 1280));
    let t = totals(&rig);
    assert_eq!((t.sealed, t.fragments_tx, t.records_tx), (200, 400, 400));
    assert_eq!(t.records_tx_bytes, rig::total(&sent));
    far.push(&sent);
    let expected: Vec<_> = frames.iter().map(|f| rig::delivered(3, &f[14..])).collect();
    assert!(
        far.tunnel() == expected && far.drops().is_empty(),
        "{:?}",
        far.drops()
    );
    rig.finish();
    far.finish();
}

/// Frames in segments, or with another holder, are copied before they are sealed.
fn in_segments(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("is"));
    let small = rig.small.clone();
    let frames: Vec<_> = (0..40).map(|n| kernels(1, n, 200 + n as usize)).collect();
    put(
        &mut rig.tunnel_in,
        frames
            .iter()
            .map(|f| chain(&small, &[&f[..9], &f[9..70], &f[70..]])),
    );
    rig.poll();
    let inner: Vec<_> = rig.nic().iter().map(|f| opened(f).2).collect();
    assert!(inner.iter().eq(frames.iter().map(|f| &f[14..])));
    assert_eq!(rig.drops(), []);
    rig.finish();
}

fn nic_full(eal: &Eal) {
    let mut rig = Rig::new(
        eal,
        Options {
            nic: 31,
            ..Options::new("of")
        },
    );
    rig.push_tunnel((0..600).map(|n| kernels(1 + n % 4, n, 100)));
    assert_eq!(rig.drops(), [(DropReason::NicFull, 569)]);
    let sent = rig.nic();
    let numbers: Vec<_> = sent.iter().map(|f| opened(f).2[31]).collect();
    assert!(numbers.iter().copied().eq(0..31), "the first ones: {numbers:?}");
    let t = totals(&rig);
    assert_eq!(
        (t.sealed, t.records_tx, t.records_tx_bytes),
        (600, 31, rig::total(&sent))
    );
    rig.push_tunnel([kernels(1, 9, 100)]);
    let ids: Vec<_> = rig.nic().iter().map(|f| opened(f).1).collect();
    assert_eq!(
        ids,
        [151],
        "it goes on, and the ids of what was dropped are spent"
    );
    rig.finish();
}

fn nic_mtu(eal: &Eal) {
    // 14 Ethernet, 20 IP, 8 UDP, 24 record.
    let mut rig = Rig::new(
        eal,
        Options {
            longest_nic: 66 + 500,
            ..Options::new("om")
        },
    );
    let lengths = [499, 500, 501, 60, 1400];
    rig.push_tunnel((0..).zip(lengths).map(|(n, len)| kernels(1, n, len)));
    assert_eq!(rig.drops(), [(DropReason::NicMtu, 2)]);
    let sent: Vec<_> = rig.nic().iter().map(|f| opened(f).2.len()).collect();
    assert_eq!((sent, totals(&rig).records_tx), (vec![499, 500, 60], 3));
    rig.finish();
}

/// Takes all buffers of a pool but `left`.
fn hold(pool: &lcore::Mempool, left: u32) -> Vec<Mbuf> {
    let held = (left..pool.available()).map(|_| pool.alloc().expect("it is free"));
    held.collect()
}

/// Answers, keepalives and fragments want buffers of their own; what is sealed in place does not.
fn no_buffer(eal: &Eal) {
    let mut rig = Rig::new(
        eal,
        Options {
            nic_mtu: 1280,
            small: 63,
            ..Options::new("nb")
        },
    );
    // The first frame keeps its buffer until it is sent, the others theirs until they were looked at.
    let small = rig.small.clone();
    let frames = [kernels(1, 1, 100), kernels(1, 2, 1400)];
    put(&mut rig.tunnel_in, frames.iter().map(|f| buffer(&small, f)));
    let mut held = hold(&small, 1);
    rig.poll();
    assert_eq!(rig.drops(), [(DropReason::NoBuffer, 1)], "one of two fragments");
    let numbers: Vec<_> = taken(&mut rig.nic_out)
        .iter()
        .map(|m| opened(&bytes(m)).2[31])
        .collect();
    assert_eq!(numbers, [1]);
    put(&mut rig.tunnel_in, [buffer(&small, &rig::arp_request(1))]);
    held.extend(hold(&small, 0));
    rig.poll();
    assert_eq!(
        (rig.drops(), rig.tunnel_out.len()),
        (vec![(DropReason::NoBuffer, 2)], 0)
    );
    held.extend(hold(&small, 0));
    rig.tell(Message::Ping { tunnel: 0, peer: 2 });
    assert_eq!(
        (rig.drops(), rig.nic_out.len()),
        (vec![(DropReason::NoBuffer, 3)], 0)
    );
    drop(held);
    rig.push_tunnel([rig::arp_request(1)]);
    assert_eq!(rig.tunnel(), [rig::arp_reply(1)], "it goes on");
    rig.finish();
}

fn no_large_buffer(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("nl"));
    let small = rig.small.clone();
    let frame = kernels(1, 1, 300);
    let held = hold(&rig.large, 3);
    put(
        &mut rig.tunnel_in,
        (0..10).map(|_| chain(&small, &[&frame[..30], &frame[30..]])),
    );
    rig.poll();
    assert_eq!(rig.drops(), [(DropReason::Scattered, 7)]);
    assert_eq!(rig.nic().len(), 3);
    drop(held);
    rig.finish();
}

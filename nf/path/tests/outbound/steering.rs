//! Which lcore seals for which peer.

use crate::bed::*;
use crate::far::Far;
use crate::packets::Shape;
use crate::peers::*;
use nf_path::outbound::{Lcores, owner};
use nf_path::twin::HeapBuf;
use nf_wire::ether::peer_mac;
use proptest::prelude::*;

fn shares(ids: impl Iterator<Item = u32>, lcores: u8) -> Vec<u32> {
    let mut shares = vec![0; usize::from(lcores)];
    ids.for_each(|id| shares[usize::from(owner(id, lcores))] += 1);
    shares
}

#[test]
fn a_thousand_peers_are_spread_evenly() {
    for lcores in 2..=8u8 {
        for step in [1, 2, 4, 8, 10, 256] {
            let shares = shares((0..1000).map(|i| i * step), lcores);
            let even = 1000 / u32::from(lcores);
            let range = if step == 1 {
                even * 9 / 10..=even * 11 / 10 + 1
            } else {
                even / 2..=even * 2
            };
            assert!(
                shares.iter().all(|n| range.contains(n)),
                "{lcores} lcores, ids {step} apart: {shares:?}"
            );
        }
    }
}

proptest! {
    #[test]
    fn every_peer_has_one_owner_among_the_lcores(peer in 0..0xff_ffffu32, lcores in 1..=255u8) {
        prop_assert!(owner(peer, lcores) < lcores);
    }

    #[test]
    fn any_range_of_ids_is_spread(first in 0..0xff_0000u32, lcores in 2..=8u8) {
        let shares = shares(first..first + 1000, lcores);
        let even = 1000 / u32::from(lcores);
        prop_assert!(shares.iter().all(|n| (even * 9 / 10..=even * 11 / 10 + 1).contains(n)), "{:?}", shares);
    }
}

#[test]
fn of_several_lcores_each_seals_for_its_own_and_steers_the_rest() {
    let burst = || (0..40u32).map(|n| buf(n % PEERS + 1, 60 + n as usize, n));
    let sent: Vec<_> = (0..3)
        .map(|me| {
            let lcores = Lcores { me, count: 3 };
            let mut bed = Bed::new(Setup {
                lcores,
                ..Setup::default()
            });
            let sent = bed.push(burst());
            assert_eq!(bed.totals().steered as usize, sent.steered.len());
            for (peer, _) in Far::default().open(&sent) {
                assert_eq!(owner(peer, 3), me);
            }
            for (to, frame) in &sent.steered {
                assert_eq!(*to, owner(u32::from(frame[5]), 3));
                assert_ne!(*to, me);
            }
            sent
        })
        .collect();
    assert_eq!(sent.iter().map(|s| s.nic.len()).sum::<usize>(), 40);
    // What is steered is as it came, in order.
    let wanted: Vec<_> = burst()
        .map(|b| b.to_vec())
        .filter(|f| owner(u32::from(f[5]), 3) != 0)
        .collect();
    let frames: Vec<_> = sent[0].steered.iter().map(|(_, frame)| frame.clone()).collect();
    assert_eq!(frames, wanted);
}

#[test]
fn what_is_unfinished_scattered_or_shared_is_steered_as_it_is() {
    let lcores = Lcores { me: 0, count: 2 };
    let peer = (1..=PEERS).find(|peer| owner(*peer, 2) == 1).unwrap();
    let mut frame = Shape {
        v6: false,
        tags: 0,
        options: false,
    }
    .tcp(0x10, &[7; 1500]);
    frame[..6].copy_from_slice(&peer_mac(peer));
    let mut bed = Bed::new(Setup {
        lcores,
        ..Setup::default()
    });
    bed.pool.small.set(0);
    bed.pool.large.set(0);
    let sent = bed.push([
        HeapBuf::new(&frame).unfinished_by(true, 500),
        HeapBuf::from_segments(&[&frame[..700], &frame[700..]]).unfinished_by(true, 0),
        HeapBuf::new(&frame).shared(),
    ]);
    assert_eq!(sent.steered, vec![(1, frame); 3]);
}

#[test]
fn a_spread_peer_is_sealed_for_on_every_lcore() {
    for me in 0..2 {
        let lcores = Lcores { me, count: 2 };
        let mut bed = Bed::new(Setup {
            lcores,
            spread: true,
            ..Setup::default()
        });
        let sent = bed.push((1..=PEERS).map(|peer| buf(peer, 60, 1)));
        assert_eq!((sent.nic.len(), sent.steered.len()), (PEERS as usize, 0));
    }
}

#[test]
fn in_p2p_mode_too_one_lcore_seals() {
    for me in 0..2 {
        let lcores = Lcores { me, count: 2 };
        let mut bed = Bed::p2p(
            Setup {
                lcores,
                ..Setup::default()
            },
            3,
        );
        let sent = bed.push([buf(9, 60, 1), buf(8, 60, 1)]);
        let here = owner(3, 2) == me;
        assert_eq!(
            (sent.nic.len(), sent.steered.len()),
            if here { (2, 0) } else { (0, 2) }
        );
    }
}

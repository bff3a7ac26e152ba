//! What is counted, exactly.

use crate::bed::*;
use crate::peers::*;
use nf_path::twin::HeapBuf;
use nf_path::verdict::DropReason;

/// Case A18.
#[test]
fn a_hundred_packets_of_a_thousand_bytes() {
    let mut bed = Bed::default();
    let sent = bed.at(77).push((0..100).map(|n| buf(3, 1000, n)));
    assert_eq!(sent.nic.len(), 100);
    assert_eq!(bed.peer_counters(3), [100, 102_400, 100, 100_000, 0, 77]);
    assert_eq!(bed.totals().sealed, 100);
    assert_eq!(bed.peer_counters(4), [0; 6]);
}

#[test]
fn keepalives_are_link_and_no_vpn_traffic() {
    let mut bed = Bed::default();
    bed.at(50).ping(2);
    assert_eq!(bed.peer_counters(2), [1, 40, 0, 0, 1, 50]);
    bed.at(60).push([buf(2, 100, 1)]);
    assert_eq!(bed.peer_counters(2), [2, 40 + 124, 1, 100, 1, 60]);
    assert_eq!(bed.totals().sealed, 2);
}

#[test]
fn runs_of_several_peers_are_each_their_own() {
    let mut bed = Bed::default();
    bed.push([1, 1, 2, 1, 3, 3, 3].map(|peer| buf(peer, 60 + peer as usize, 0)));
    assert_eq!(bed.peer_counters(1)[..4], [3, 3 * 85, 3, 3 * 61]);
    assert_eq!(bed.peer_counters(2)[..4], [1, 86, 1, 62]);
    assert_eq!(bed.peer_counters(3)[..4], [3, 3 * 87, 3, 3 * 63]);
}

/// Protocol: VPN traffic is counted before anything is known; link traffic also where there is no way.
#[test]
fn what_cannot_be_sent() {
    let mut bed = Bed::default();
    let all = [NO_REMOTE, NO_WAY, NO_PRIMARY, NO_IDS, NEITHER];
    bed.at(9).push(
        all.iter()
            .flat_map(|peer| [buf(*peer, 100, 1), buf(*peer, 200, 2)]),
    );
    for peer in [NO_REMOTE, NO_WAY] {
        assert_eq!(bed.peer_counters(peer), [2, 348, 2, 300, 0, 9]);
        assert_eq!(
            bed.peer(peer)
                .keys
                .get(nf_state::Slot::Primary)
                .unwrap()
                .ids()
                .next(),
            1,
            "no id is spent"
        );
    }
    for peer in [NO_PRIMARY, NO_IDS, NEITHER] {
        assert_eq!(bed.peer_counters(peer), [0, 0, 2, 300, 0, 0]);
    }
    let drops = [
        (DropReason::NoPrimary, 2),
        (DropReason::NoPacketId, 4),
        (DropReason::NoRemote, 2),
        (DropReason::NoNeighbour, 2),
    ];
    assert_eq!(bed.drops(), drops);
}

#[test]
fn keepalives_that_cannot_be_sent() {
    let mut bed = Bed::default();
    for peer in [NO_REMOTE, NO_WAY, NO_PRIMARY, NO_IDS] {
        assert_eq!(bed.at(5).ping(peer), Sent::default());
    }
    assert_eq!(bed.peer_counters(NO_WAY), [1, 40, 0, 0, 1, 5]);
    assert_eq!(bed.peer_counters(NO_REMOTE), [1, 40, 0, 0, 1, 5]);
    assert_eq!(bed.peer_counters(NO_PRIMARY), [0; 6]);
    assert_eq!(bed.peer_counters(NO_IDS), [0; 6]);
}

#[test]
fn what_a_key_has_sealed_is_known() {
    let mut bed = Bed::default();
    bed.push([buf(1, 20, 0), buf(1, 32, 1), buf(1, 33, 2)]);
    bed.ping(1);
    let key = bed.peer(1).keys.get(nf_state::Slot::Primary).unwrap().clone();
    assert_eq!(key.ids().used(), 4 + (2 + 2 + 3 + 1));
}

#[test]
fn only_what_was_refused_is_missing_from_a_run() {
    let mut bed = Bed::default();
    let long = HeapBuf::sized(
        &framed(nf_wire::ether::peer_mac(1), &packet(1, 65_500, 9)),
        128,
        66_000,
    );
    let sent = bed.push([buf(1, 100, 1), long, buf(1, 100, 2)]);
    assert_eq!(
        sent.nic.iter().map(|got| id_of(&got.frame)).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(bed.drops(), [(DropReason::Oversize, 1)]);
    assert_eq!(bed.peer_counters(1)[..4], [2, 248, 3, 65_700]);
}

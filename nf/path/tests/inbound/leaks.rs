//! A19: nothing is lost on any way out, however often it is taken.

use crate::support::*;
use nf_path::burst::{MAX_BURST, Outputs};
use nf_path::twin::HeapBuf;
use nf_path::verdict::DropReason;
use nf_state::{Slot, Update};
use nf_wire::keepalive::PING;

/// 10,000 records of each kind, full bursts of one and bursts of all.
#[test]
fn a19_every_end_gives_its_buffer_back() {
    let mut bed = Bed::default();
    bed.push([buf(1, 1, 60)]);
    let mut forged = record_of(1, 0, 2, &inner(1, 60, 2));
    forged[30] ^= 1;
    let kinds = [
        (record_of(99, 0, 2, b"x"), DropReason::UnknownPeer),
        (record_of(1, 7, 2, b"x"), DropReason::NoKey),
        (forged, DropReason::BadTag),
        (record_of(1, 0, 1, &inner(1, 60, 1)), DropReason::ReplayDuplicate),
        (record_of(1, 0, 0, &inner(1, 60, 1)), DropReason::ReplayZero),
        (record_of(1, 0, 2, b"")[..23].to_vec(), DropReason::ShortRecord),
        (vec![0x48; 3], DropReason::TooShort),
        (vec![0x30; 60], DropReason::DataV1),
    ]
    .map(|(payload, reason)| (outer(1).payload(&payload).build(), reason));
    let live = HeapBuf::live();
    for (frame, _) in &kinds {
        for _ in 0..10_000 / MAX_BURST {
            let out = bed.push((0..MAX_BURST).map(|_| HeapBuf::new(frame)));
            assert_eq!((out.delivered(), out.host.len(), HeapBuf::live()), (0, 0, live));
        }
    }
    for _ in 0..100 {
        bed.push(kinds.iter().map(|(frame, _)| HeapBuf::new(frame)));
        assert_eq!(HeapBuf::live(), live);
    }
    let each = (10_000 / MAX_BURST * MAX_BURST + 100) as u64;
    for (_, reason) in &kinds {
        assert_eq!(bed.counters.dropped(*reason), each, "{reason:?}");
    }
}

#[test]
fn a19_ports_that_take_nothing() {
    let mut bed = Bed::default();
    let live = HeapBuf::live();
    let mut out = Outputs::new(2);
    for round in 0..40u32 {
        let base = round * MAX_BURST as u32;
        bed.push_into((1..=MAX_BURST as u32).map(|i| buf(1, base + i, 60)), &mut out);
        bed.push_into((0..MAX_BURST).map(|_| control(1)), &mut out);
        assert_eq!(
            HeapBuf::live(),
            live + 2 * MAX_BURST,
            "what the first round left in the outputs"
        );
    }
    drop(out);
    assert_eq!(HeapBuf::live(), live);
    let lost = 39 * MAX_BURST as u64;
    let drops = [(DropReason::TunnelFull, lost), (DropReason::HostFull, lost)];
    assert_eq!(bed.drops(), drops);
}

/// Peers come and go under load: what is for one that is gone is counted, and nothing of it stays.
#[test]
fn a19_ten_thousand_peers_added_and_removed() {
    let mut bed = Bed::default();
    let live = HeapBuf::live();
    let (k, tail) = key(1, 0);
    for round in 0..10_000u32 {
        let gone = bed.tunnel().apply(Update::RemovePeer(1)).unwrap();
        assert!(gone.is_some());
        if round % 16 == 0 {
            let out = bed.push([buf(1, 1, 60), buf(2, round + 1, 60)]);
            assert_eq!((out.delivered(), HeapBuf::live()), (1, live));
        }
        let mut peer = nf_state::Peer::new(1, Default::default());
        drop(peer.keys.install(Slot::Primary, key_slot(CIPHER, 0, &k, tail)));
        assert!(
            bed.tunnel()
                .apply(Update::AddPeer(Box::new(peer)))
                .unwrap()
                .is_none()
        );
        if round % 16 == 0 {
            let ping = HeapBuf::new(&outer(1).payload(&record_of(1, 0, 2, &PING)).build());
            assert_eq!(bed.push([buf(1, 1, 60), ping]).delivered(), 1);
            assert_eq!((bed.peer_counters(1)[0], HeapBuf::live()), (2, live));
        }
    }
    assert_eq!(bed.drops(), [(DropReason::UnknownPeer, 625)]);
    assert_eq!(bed.tunnel().peers.len(), PEERS as usize);
}

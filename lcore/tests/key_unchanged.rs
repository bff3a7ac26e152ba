//! Keys are only read on the fast path: after many records, right and wrong, they give what they gave before.

mod common;
mod rig;

use std::sync::Arc;

use lcore::Imb;
use lcore::imb::Key;
use nf_path::aead::Aead;
use nf_state::{Addresses, KeySlot, Peer, Update};
use nf_wire::record::nonce;
use rig::{Options, PEERS, Rig, frame};

/// What the read-only part of a slot gives: every field, and both keys over texts that use all of their schedules (the
/// hash keys of long records too).
fn state(imb: &mut Imb, slot: &KeySlot<Key>) -> Vec<u8> {
    let mut all = vec![slot.key_id()];
    all.extend(slot.cipher().name().bytes());
    all.extend(slot.open_tail());
    all.extend(slot.seal_tail());
    for (key, tail) in [
        (slot.open_key(), slot.open_tail()),
        (slot.seal_key(), slot.seal_tail()),
    ] {
        for len in [0usize, 1, 16, 100, 128, 129, 1000, 2048] {
            let mut text = vec![0x77; len];
            let tag = imb.seal(key, &nonce([0xff; 4], tail), &[1; 8], &mut text);
            all.extend(tag);
            all.extend(&text);
            all.extend(imb.open(key, &nonce([0xfe; 4], tail), &[2; 8], &mut text));
            all.extend(&text);
        }
    }
    all
}

#[test]
fn keys_are_the_same_after_a_hundred_thousand_records() {
    let eal = common::eal("unchanged");
    let mut rig = Rig::new(&eal, Options::new("key"));
    let mut imb = Imb::new().expect("this CPU has AES-NI");
    // Slots that the test keeps a handle of take the place of the worker's.
    let slots: Vec<Arc<KeySlot<Key>>> = (1..=PEERS).map(|peer| rig::slot(&imb, peer)).collect();
    for (id, slot) in (1..=PEERS).zip(&slots) {
        let mut peer = Peer::new(id, Addresses::default());
        assert!(peer.keys.install_primary(slot.clone()).is_none());
        let update = lcore::mailbox::Message::Table(0, Update::AddPeer(Box::new(peer)));
        rig.control.send(update).expect("room");
    }
    rig.worker.apply();
    assert_eq!(rig.control.replies().count(), PEERS as usize);
    let before: Vec<_> = slots.iter().map(|slot| state(&mut imb, slot)).collect();
    let mut id = 0;
    while id < 100_000 {
        let mut burst: Vec<_> = (0..250)
            .map(|n| {
                id += 1;
                frame(1 + n % PEERS, id, 40 + (id % 300) as usize)
            })
            .collect();
        burst[7][80] ^= 1;
        rig.push(&burst);
        assert_eq!(rig.tunnel().len(), 249);
    }
    assert_eq!(rig.drops(), [(nf_path::verdict::DropReason::BadTag, 400)]);
    for (slot, before) in slots.iter().zip(before) {
        assert!(state(&mut imb, slot) == before, "a key changed");
        assert_eq!(Arc::strong_count(slot), 2, "the worker's and this test's");
    }
    rig.finish();
}

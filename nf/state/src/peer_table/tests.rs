use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use proptest::prelude::*;

use super::*;
use crate::{Addresses, Cipher, Direction, Lookahead, Slot};

struct Key(Arc<AtomicUsize>);

impl Drop for Key {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn key(key_id: u8, drops: &Arc<AtomicUsize>) -> Arc<KeySlot<Key>> {
    let direction = || Direction {
        key: Key(Arc::clone(drops)),
        nonce_tail: [0; 8],
    };
    KeySlot::new(Cipher::ChaCha20Poly1305, key_id, direction(), direction())
}

fn peer<K>(id: u32) -> Peer<K> {
    Peer::new(id, Addresses::default())
}

fn address(host: u8, port: u16) -> (IpAddr, u16) {
    (IpAddr::from([192, 0, 2, host]), port)
}

#[test]
fn id_zero_and_the_last_id_are_valid() {
    let mut table = PeerTable::<()>::new();
    assert!(table.is_empty() && table.get(0).is_none());
    for id in [0, 4095, 4096, 0xff_fffe] {
        assert!(table.insert(peer(id)).expect("in range").is_none());
        assert_eq!(table.get(id).map(|p| p.id), Some(id));
    }
    assert_eq!(table.len(), 4);
    assert!(
        [1, 4094, 4097, 0xff_fffd]
            .iter()
            .all(|id| table.get(*id).is_none())
    );
}

#[test]
fn undefined_and_longer_ids_are_refused_and_never_found() {
    let mut table = PeerTable::<()>::new();
    for id in [0xff_ffff, 0x100_0000, u32::MAX] {
        assert_eq!(
            table.insert(peer(id)).expect_err("out of range"),
            TableError::IdOutOfRange(id)
        );
        assert!(table.get(id).is_none() && table.get_mut(id).is_none() && table.remove(id).is_none());
    }
    assert!(table.insert(peer(0)).expect("in range").is_none());
    assert!(table.get(0x100_0000).is_none(), "an id is not cut to 24 bits");
    assert_eq!(
        TableError::IdOutOfRange(0xff_ffff).to_string(),
        "peer id 0xffffff is out of range: 0 to 0xfffffe"
    );
}

#[test]
fn an_address_finds_its_one_peer_exactly() {
    let mut table = PeerTable::<()>::new();
    assert_eq!(
        table.bind_address(1, address(1, 9)),
        Err(TableError::NoSuchPeer(1))
    );
    for id in [1, 2] {
        assert!(table.insert(peer(id)).expect("in range").is_none());
    }
    assert_eq!(table.bind_address(1, address(1, 9)), Ok(()));
    assert_eq!(table.bind_address(1, address(1, 9)), Ok(()));
    assert_eq!(table.by_address(&address(1, 9)), Some(1));
    assert_eq!(table.by_address(&address(1, 10)), None, "another port");
    assert_eq!(table.by_address(&address(2, 9)), None, "another host");
    let held = TableError::AddressHeld {
        peer: 2,
        holder: 1,
        address: address(1, 9),
    };
    assert_eq!(table.bind_address(2, address(1, 9)), Err(held));
    assert_eq!(
        held.to_string(),
        "address 192.0.2.1:9 of peer 2 is held by peer 1"
    );

    assert_eq!(table.bind_address(1, address(3, 9)), Ok(()));
    assert_eq!(table.by_address(&address(1, 9)), None, "moved away");
    assert_eq!(table.bind_address(2, address(1, 9)), Ok(()));
    table.remove(1);
    assert_eq!(table.by_address(&address(3, 9)), None, "went with its peer");
    assert!(table.insert(peer(2)).expect("in range").is_some());
    assert_eq!(
        table.by_address(&address(1, 9)),
        None,
        "a new peer of the same id starts unbound"
    );
}

#[test]
fn updates_change_the_table_and_hand_back_what_they_retire() {
    let drops = Arc::new(AtomicUsize::new(0));
    let mut table = PeerTable::new();
    let install = |slot, key_id| Update::InstallKey {
        peer: 5,
        slot,
        key: key(key_id, &drops),
    };
    assert!(
        table
            .apply(Update::AddPeer(Box::new(peer(5))))
            .expect("added")
            .is_none()
    );
    assert!(
        table
            .apply(install(Slot::Primary, 0))
            .expect("installed")
            .is_none()
    );
    assert!(
        table
            .apply(install(Slot::Secondary, 1))
            .expect("installed")
            .is_none()
    );
    assert!(table.apply(Update::SwapKeys(5)).expect("swapped").is_none());
    let keys = &table.get(5).expect("peer").keys;
    assert_eq!(keys.get(Slot::Primary).map(|k| k.key_id()), Some(1));

    let retired = table.apply(install(Slot::Secondary, 2)).expect("installed");
    assert!(matches!(&retired, Some(Retired::Key(k)) if k.key_id() == 0));
    assert_eq!(drops.load(SeqCst), 0, "the worker drops no key");
    drop(retired);
    assert_eq!(drops.load(SeqCst), 2);

    let retired = table
        .apply(Update::RemoveKey {
            peer: 5,
            slot: Slot::Secondary,
        })
        .expect("removed");
    assert!(matches!(&retired, Some(Retired::Key(k)) if k.key_id() == 2));
    let empty = Update::RemoveKey {
        peer: 5,
        slot: Slot::Secondary,
    };
    assert!(table.apply(empty).expect("an empty slot is no error").is_none());

    let bind = Update::BindAddress {
        peer: 5,
        address: address(1, 1),
    };
    assert!(table.apply(bind).expect("bound").is_none());
    assert_eq!(table.by_address(&address(1, 1)), Some(5));
    let replaced = table.apply(Update::AddPeer(Box::new(peer(5)))).expect("replaced");
    assert!(matches!(&replaced, Some(Retired::Peer(p)) if p.keys.by_key_id(1).is_some()));
    assert!(table.get(5).expect("the new one").keys.by_key_id(1).is_none());
    let removed = table.apply(Update::RemovePeer(5)).expect("removed");
    assert!(matches!(&removed, Some(Retired::Peer(p)) if p.id == 5));
    assert!(table.is_empty());
    drop((retired, replaced, removed));
    assert_eq!(drops.load(SeqCst), 6, "three keys of two directions, once each");
}

#[test]
fn rejected_updates_come_back_with_their_keys() {
    let drops = Arc::new(AtomicUsize::new(0));
    let mut table = PeerTable::new();
    let install = Update::InstallKey {
        peer: 9,
        slot: Slot::Primary,
        key: key(0, &drops),
    };
    // A key for a peer that was deleted in between.
    let rejected = table.apply(install).expect_err("no such peer");
    assert_eq!(rejected.reason, TableError::NoSuchPeer(9));
    assert_eq!(rejected.to_string(), "no peer with id 9");
    assert!(matches!(rejected.update, Update::InstallKey { peer: 9, .. }));
    assert_eq!(drops.load(SeqCst), 0);

    let mut bad = peer(0xff_ffff);
    assert!(bad.keys.install_primary(key(1, &drops)).is_none());
    let rejected = table
        .apply(Update::AddPeer(Box::new(bad)))
        .expect_err("undefined id");
    assert_eq!(rejected.reason, TableError::IdOutOfRange(0xff_ffff));
    assert!(matches!(&rejected.update, Update::AddPeer(p) if p.keys.by_key_id(1).is_some()));
    assert!(table.is_empty());

    for update in [
        Update::RemovePeer(9),
        Update::SwapKeys(9),
        Update::RemoveKey {
            peer: 9,
            slot: Slot::Primary,
        },
        Update::BindAddress {
            peer: 9,
            address: address(1, 1),
        },
    ] {
        assert_eq!(
            table.apply(update).expect_err("no such peer").reason,
            TableError::NoSuchPeer(9)
        );
    }
    for update in [Update::SetBatch(true), Update::SetLookahead(Lookahead::default())] {
        assert_eq!(
            table.apply(update).expect_err("the worker's").reason,
            TableError::NotForTable
        );
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u32),
    Remove(u32),
    Bind(u32, u8),
}

fn op() -> impl Strategy<Value = Op> {
    let id = || prop_oneof![0..8u32, 4090..4100u32, 0xff_fff8..0x100_0002u32, any::<u32>()];
    prop_oneof![
        4 => id().prop_map(Op::Insert),
        3 => id().prop_map(Op::Remove),
        3 => (id(), 0..10u8).prop_map(|(id, host)| Op::Bind(id, host)),
    ]
}

proptest! {
    #[test]
    fn same_as_a_map(ops in prop::collection::vec(op(), 1..200)) {
        let mut table = PeerTable::<()>::new();
        // Id to a mark that tells two peers of one id apart, and the host it is bound to.
        let mut map = HashMap::<u32, (u32, Option<u8>)>::new();
        for (n, op) in ops.iter().enumerate() {
            let mark = n as u32;
            match *op {
                Op::Insert(id) => {
                    let own = Addresses { v4: Some(mark.into()), v6: None };
                    match table.insert(Peer::new(id, own)) {
                        Err(error) => prop_assert!(id >= 0xff_ffff && error == TableError::IdOutOfRange(id)),
                        Ok(old) => {
                            let expected = map.insert(id, (mark, None)).map(|(mark, _)| mark);
                            prop_assert_eq!(old.and_then(|p| p.addresses.v4).map(u32::from), expected);
                        }
                    }
                }
                Op::Remove(id) => {
                    prop_assert_eq!(table.remove(id).map(|p| p.id), map.remove(&id).map(|_| id));
                }
                Op::Bind(id, host) => {
                    let free = map.iter().all(|(other, (_, held))| *other == id || *held != Some(host));
                    let bound = table.bind_address(id, address(host, 1));
                    prop_assert_eq!(bound.is_ok(), free && map.contains_key(&id));
                    if bound.is_ok() {
                        map.insert(id, (map[&id].0, Some(host)));
                    }
                }
            }
            prop_assert_eq!(table.len(), map.len());
        }
        for op in &ops {
            let (Op::Insert(id) | Op::Remove(id) | Op::Bind(id, _)) = *op;
            let found = table.get(id).and_then(|p| p.addresses.v4).map(u32::from);
            prop_assert_eq!(found, map.get(&id).map(|(mark, _)| *mark));
        }
        for host in 0..10 {
            let holder = map.iter().find(|(_, (_, held))| *held == Some(host)).map(|(id, _)| *id);
            prop_assert_eq!(table.by_address(&address(host, 1)), holder);
        }
        let mut ids: Vec<_> = table.iter().map(|p| p.id).collect();
        let mut expected: Vec<_> = map.into_keys().collect();
        ids.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(ids, expected);
    }
}

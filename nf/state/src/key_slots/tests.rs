use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use zeroize::ZeroizeOnDrop;

use super::*;

/// A key that counts its drops. No `Debug`, as an expanded key has none.
struct Key(&'static AtomicUsize);

impl Drop for Key {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn slot(key_id: u8, drops: &'static AtomicUsize) -> Arc<KeySlot<Key>> {
    let direction = |first| Direction {
        key: Key(drops),
        nonce_tail: [first, 222, 222, 222, 222, 222, 222, 222],
    };
    KeySlot::new(Cipher::Aes256Gcm, key_id, direction(1), direction(2))
}

fn key(key_id: u8) -> Arc<KeySlot<Key>> {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    slot(key_id, &DROPS)
}

fn same(a: Option<&Arc<KeySlot<Key>>>, b: &Arc<KeySlot<Key>>) -> bool {
    a.is_some_and(|a| Arc::ptr_eq(a, b))
}

const _: () = assert!(align_of::<KeySlot<u8>>() == 128);
const _: () = assert!(offset_of!(KeySlot<u8>, inbound) == 128);
const _: () = assert!(offset_of!(KeySlot<[u8; 1008]>, inbound) == 2048);
const _: () = assert!(size_of::<KeySlot<u8>>().is_multiple_of(128));

#[test]
fn parts_are_on_lines_of_their_own_in_the_arc() {
    let slot = key(1);
    let line = |address: usize| address / 128;
    let replay = std::ptr::from_ref(&slot.inbound).addr();
    let last_read_only = std::ptr::from_ref(&slot.read_only.seal).addr() + size_of::<Key>() - 1;
    assert!(line(last_read_only) < line(replay));
    assert_eq!(replay % 128, 0);
    // The strong count is in front of the value, and written whenever a key is installed or retired.
    assert_eq!(std::ptr::from_ref(&*slot).addr() % 128, 0);
}

#[test]
fn directions_are_not_mixed_up_and_the_key_id_has_three_bits() {
    let slot = key(7 + 8);
    assert_eq!((slot.key_id(), slot.cipher()), (7, Cipher::Aes256Gcm));
    assert_eq!((slot.open_tail()[0], slot.seal_tail()[0]), (1, 2));
    assert!(!std::ptr::eq(slot.open_key(), slot.seal_key()));
}

#[test]
fn debug_prints_neither_key_nor_nonce_tail() {
    let mut slots = KeySlots::new();
    assert!(slots.install_primary(key(3)).is_none());
    let text = format!("{slots:?}");
    assert!(
        text.contains("key_id: 3") && !text.contains("222") && !text.contains("tail"),
        "{text}"
    );
}

#[test]
fn keys_are_dropped_once_with_the_last_reference() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let mut slots = KeySlots::new();
    assert!(slots.install_primary(slot(0, &DROPS)).is_none());
    let retired = slots.install_primary(slot(1, &DROPS)).expect("the old key");
    assert_eq!(DROPS.load(SeqCst), 0, "installing frees nothing");
    let elsewhere = Arc::clone(&retired);
    drop(retired);
    assert_eq!(DROPS.load(SeqCst), 0, "still in use elsewhere");
    drop(elsewhere);
    assert_eq!(DROPS.load(SeqCst), 2, "both directions");
    drop(slots);
    assert_eq!(DROPS.load(SeqCst), 4);
}

#[test]
fn nonce_tails_zeroise_on_drop() {
    fn zeroises_on_drop<T: ZeroizeOnDrop>(_: &T) {}
    let slot = key(0);
    zeroises_on_drop(&slot.read_only.open_tail);
    zeroises_on_drop(&slot.read_only.seal_tail);
}

#[test]
fn both_slots_decrypt_and_the_primary_wins() {
    let (a, b, c) = (key(1), key(2), key(1));
    let mut slots = KeySlots::new();
    assert!(slots.by_key_id(1).is_none());
    assert!(slots.install_primary(Arc::clone(&a)).is_none());
    assert!(slots.install_secondary(Arc::clone(&b)).is_none());
    assert!(same(slots.by_key_id(1), &a) && same(slots.by_key_id(2), &b));
    assert!(
        (0..8).filter(|id| slots.by_key_id(*id).is_some()).eq([1, 2]),
        "no other key id finds a key"
    );

    assert!(same(slots.install_secondary(Arc::clone(&c)).as_ref(), &b));
    assert!(
        same(slots.by_key_id(1), &a),
        "the same key id in both slots: primary"
    );
    slots.swap();
    assert!(same(slots.by_key_id(1), &c));
}

#[test]
fn swap_keeps_state_and_takes_empty_slots() {
    let a = key(1);
    let mut slots = KeySlots::new();
    slots.swap();
    assert!(slots.get(Slot::Primary).is_none() && slots.get(Slot::Secondary).is_none());
    assert!(slots.install_primary(Arc::clone(&a)).is_none());
    let tag = [0; 16];
    let proof = crate::Authentic::verify(&tag, &tag, 42).expect("equal");
    assert_eq!(a.lock_replay().commit(proof, crate::Millis(0)), Ok(()));
    slots.swap();
    assert!(slots.get(Slot::Primary).is_none(), "no sending key left");
    assert!(same(slots.get(Slot::Secondary), &a));
    assert_eq!(
        slots
            .by_key_id(1)
            .expect("still decrypts")
            .lock_replay()
            .highest(),
        42
    );
}

#[test]
fn removing_empties_one_slot_and_takes_an_empty_one() {
    let (a, b) = (key(1), key(2));
    let mut slots = KeySlots::new();
    assert!(slots.install(Slot::Primary, Arc::clone(&a)).is_none());
    assert!(slots.install(Slot::Secondary, Arc::clone(&b)).is_none());
    assert!(same(slots.remove(Slot::Secondary).as_ref(), &b));
    assert!(slots.remove(Slot::Secondary).is_none());
    assert!(slots.by_key_id(2).is_none() && same(slots.by_key_id(1), &a));
    assert!(same(slots.remove(Slot::Primary).as_ref(), &a));
    assert!(slots.by_key_id(1).is_none());
}

#[test]
fn the_replay_lock_excludes_others() {
    let slot = key(0);
    let guard = slot.lock_replay();
    assert!(slot.inbound.replay.try_lock().is_none());
    drop(guard);
    assert!(slot.inbound.replay.try_lock().is_some());
}

//! That each limit of a key is told once, at its very value.

use nf_control::rekey::{Direction, KeyUse, Notice, RekeyWatch};
use nf_state::{Cipher, Millis};
use proptest::prelude::*;

const OUT: Notice = Notice::UsageHigh {
    direction: Direction::Outbound,
};
const IN: Notice = Notice::UsageHigh {
    direction: Direction::Inbound,
};

fn seen(watch: &mut RekeyWatch, next_id: u64, sealed: u64, opened: u64) -> Vec<Notice> {
    let reading = KeyUse {
        next_id,
        sealed,
        opened,
    };
    watch.observe(reading, Millis(0)).collect()
}

#[test]
fn at_the_very_value() {
    for cipher in Cipher::ALL {
        let mut watch = RekeyWatch::new(cipher);
        assert_eq!(seen(&mut watch, 1, 0, 0), []);
        assert_eq!(seen(&mut watch, 0xff00_0000, 0, 0), []);
        assert_eq!(seen(&mut watch, 0xff00_0001, 0, 0), [Notice::IdsLow]);
        assert_eq!(seen(&mut watch, 0xffff_ffff, 0, 0), []);
        assert_eq!(seen(&mut watch, 0x1_0000_0000, 0, 0), [Notice::IdsExhausted]);
        assert_eq!(seen(&mut watch, 0x1_0000_0000, 0, 0), []);
    }
}

#[test]
fn ids_are_low_half_a_minute_before_they_are_used_up() {
    let at = |watch: &mut RekeyWatch, seconds: u64, next_id: u64| -> Vec<Notice> {
        let key = KeyUse {
            next_id,
            ..KeyUse::default()
        };
        watch.observe(key, Millis(1000 * seconds)).collect()
    };
    // Ten million a second: 2^32 ids last for 429.5 seconds.
    let mut watch = RekeyWatch::new(Cipher::Aes128Gcm);
    let said = (0..429).find(|s| !at(&mut watch, *s, s * 10_000_000).is_empty());
    assert_eq!(said, Some(400));
    // A burst is no rate when nothing is left to follow.
    let mut watch = RekeyWatch::new(Cipher::Aes128Gcm);
    assert_eq!(at(&mut watch, 0, 1), []);
    assert_eq!(at(&mut watch, 1, 100_000_000), []);
    assert_eq!(at(&mut watch, 2, 100_000_000), []);
    assert_eq!(at(&mut watch, 3, 200_000_000), []);
}

#[test]
fn usage_is_of_aes_gcm() {
    for cipher in [Cipher::Aes128Gcm, Cipher::Aes192Gcm, Cipher::Aes256Gcm] {
        let mut watch = RekeyWatch::new(cipher);
        assert_eq!(seen(&mut watch, 2, 0x7_ffff_ffff, 0x7_ffff_ffff), []);
        assert_eq!(seen(&mut watch, 2, 0x7_ffff_ffff, 0x8_0000_0000), [IN]);
        assert_eq!(seen(&mut watch, 2, 0x8_0000_0000, 0x9_0000_0000), [OUT]);
        assert_eq!(seen(&mut watch, 2, u64::MAX, u64::MAX), []);
    }
    let mut watch = RekeyWatch::new(Cipher::ChaCha20Poly1305);
    assert_eq!(seen(&mut watch, 2, u64::MAX, u64::MAX), []);
}

#[test]
fn past_all_at_once() {
    let mut watch = RekeyWatch::new(Cipher::Aes256Gcm);
    let all = [Notice::IdsLow, Notice::IdsExhausted, OUT, IN];
    assert_eq!(seen(&mut watch, 1 << 32, 1 << 40, 1 << 40), all);
    assert_eq!(seen(&mut watch, 1, 0, 0), []);
    assert_eq!(seen(&mut watch, 1 << 32, 1 << 40, 1 << 40), []);
    // A notice that nobody takes was said all the same.
    let mut watch = RekeyWatch::new(Cipher::Aes256Gcm);
    drop(watch.observe(
        KeyUse {
            next_id: 1 << 32,
            sealed: 0,
            opened: 0,
        },
        Millis(0),
    ));
    assert_eq!(seen(&mut watch, 1 << 32, 0, 0), []);
}

#[test]
fn every_text_asks_for_a_new_key() {
    let texts = [Notice::IdsLow, Notice::IdsExhausted, OUT, IN].map(|n| n.to_string());
    assert!(
        texts
            .iter()
            .all(|t| t.starts_with("rekey needed: ") && !t.contains('\n')),
        "{texts:?}"
    );
    let different: std::collections::BTreeSet<_> = texts.into();
    assert_eq!(different.len(), 4);
}

proptest! {
    #[test]
    fn once_each_and_only_when_reached(
        readings in proptest::collection::vec((0..=0x1_0000_0000u64, 0..1u64 << 36, 0..1u64 << 36), 1..40),
        gcm in any::<bool>(),
    ) {
        let mut watch = RekeyWatch::new(if gcm { Cipher::Aes128Gcm } else { Cipher::ChaCha20Poly1305 });
        let mut said = Vec::new();
        for (at, &(next, sealed, opened)) in readings.iter().enumerate() {
            said.extend(seen(&mut watch, next, sealed, opened));
            let so_far = &readings[..=at];
            let mut expected = Vec::new();
            if so_far.iter().any(|r| r.0 > 0xff00_0000) { expected.push(Notice::IdsLow); }
            if so_far.iter().any(|r| r.0 > 0xffff_ffff) { expected.push(Notice::IdsExhausted); }
            if gcm && so_far.iter().any(|r| r.1 >= 1 << 35) { expected.push(OUT); }
            if gcm && so_far.iter().any(|r| r.2 >= 1 << 35) { expected.push(IN); }
            let mut sorted = said.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, expected);
        }
    }
}

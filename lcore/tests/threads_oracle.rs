//! Eight threads, each with an IPsec-MB manager of its own, all on the same expanded keys: every record is what the AEAD
//! in plain Rust makes of it.

use std::sync::{Arc, Barrier};
use std::thread;

use lcore::imb::{Imb, Key};
use nf_path::aead::Aead;
use nf_path::twin::{SoftAead, SoftKey};
use nf_state::Cipher;

fn raw(cipher: Cipher) -> Vec<u8> {
    (0..cipher.key_len()).map(|b| (b * 91 + 5) as u8).collect()
}

/// Opens and seals `records` records over all ciphers, of 0 to 200 bytes and now and then 1400.
fn run(keys: &[Key], thread: u32, records: u32) {
    let mut imb = Imb::new().expect("this CPU has AES-NI");
    let soft: Vec<SoftKey> = Cipher::ALL
        .into_iter()
        .map(|c| SoftKey::new(c, &raw(c)))
        .collect();
    for n in 0..records {
        let which = (n / 16) as usize % keys.len();
        let id = thread * records + n + 1;
        let mut nonce = [thread as u8; 12];
        nonce[..4].copy_from_slice(&id.to_be_bytes());
        let aad = id.to_le_bytes().repeat(2).try_into().expect("8 bytes");
        let len = if n % 64 == 63 {
            1400
        } else {
            (id.wrapping_mul(2_654_435_761) >> 16) as usize % 201
        };
        let plain: Vec<u8> = (0..len).map(|b| (b as u32 * 7 + id) as u8).collect();
        let mut expected = plain.clone();
        let tag = SoftAead::seal_with(&soft[which], &nonce, &aad, &mut expected);
        let mut text = expected.clone();
        assert_eq!(
            imb.open(&keys[which], &nonce, &aad, &mut text),
            tag,
            "thread {thread}, record {n}"
        );
        assert!(text == plain, "thread {thread}, record {n}");
        assert_eq!(
            imb.seal(&keys[which], &nonce, &aad, &mut text),
            tag,
            "thread {thread}, record {n}"
        );
        assert!(text == expected, "thread {thread}, record {n}");
    }
}

fn eight(records: u32) {
    let imb = Imb::new().expect("this CPU has AES-NI");
    let expand = |c: Cipher| Key::expand(&imb, c, &raw(c)).expect("a key of the right length");
    let keys: Arc<Vec<Key>> = Arc::new(Cipher::ALL.into_iter().map(expand).collect());
    let start = Arc::new(Barrier::new(8));
    let threads: Vec<_> = (0..8)
        .map(|t| {
            let (keys, start) = (keys.clone(), start.clone());
            thread::spawn(move || {
                start.wait();
                run(&keys, t, records);
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|t| t.join().expect("every record is right"));
}

#[test]
fn a_hundred_thousand_records_a_thread_are_right() {
    eight(100_000);
}

#[test]
#[ignore = "ten times as many"]
fn a_million_records_a_thread_are_right() {
    eight(1_000_000);
}

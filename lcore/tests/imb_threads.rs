//! Eight threads, each with a manager of its own, on the same keys at the same time.

use std::sync::{Arc, Barrier};
use std::thread;

use lcore::imb::{Imb, Key};
use nf_path::aead::Aead;
use nf_state::Cipher;

/// The tags of a run of records, over all ciphers; every record is opened again and compared with its plaintext.
fn run(keys: &[Key], from: u32) -> Vec<[u8; 16]> {
    let mut imb = Imb::new().expect("this CPU has AES-NI");
    let mut tags = Vec::new();
    for id in from..from + 2000 {
        let key = &keys[id as usize % keys.len()];
        let mut nonce = [9; 12];
        nonce[..4].copy_from_slice(&id.to_be_bytes());
        let plain = vec![id as u8; id as usize % 1400];
        let mut text = plain.clone();
        let tag = imb.seal(key, &nonce, &[7; 8], &mut text);
        assert_eq!(imb.open(key, &nonce, &[7; 8], &mut text), tag, "{id}");
        assert_eq!(text, plain, "{id}");
        tags.push(tag);
    }
    tags
}

#[test]
fn managers_on_many_threads_do_not_disturb_each_other() {
    let imb = Imb::new().expect("this CPU has AES-NI");
    let expand = |c: Cipher| Key::expand(&imb, c, &vec![c.key_len() as u8; c.key_len()]).expect("a key");
    let keys: Arc<Vec<Key>> = Arc::new(Cipher::ALL.into_iter().map(expand).collect());
    let start = Arc::new(Barrier::new(8));
    let threads: Vec<_> = (0..8u32)
        .map(|t| {
            let (keys, start) = (keys.clone(), start.clone());
            thread::spawn(move || {
                start.wait();
                // Two threads each run over the same ids.
                run(&keys, t / 2 * 10_000)
            })
        })
        .collect();
    let tags: Vec<_> = threads
        .into_iter()
        .map(|t| t.join().expect("no thread panics"))
        .collect();
    for (t, of_thread) in tags.iter().enumerate() {
        assert_eq!(
            of_thread,
            &run(&keys, t as u32 / 2 * 10_000),
            "thread {t} against one alone"
        );
    }
    assert_ne!(tags[0], tags[2]);
}

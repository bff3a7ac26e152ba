//! Opening one record in place, warm caches: IPsec-MB, which the program uses, and RustCrypto, the oracle of its tests.

#![allow(missing_docs)] // criterion_group! makes a public function

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use lcore::Imb;
use lcore::imb::Key;
use nf_path::aead::Aead;
use nf_path::twin::{SoftAead, SoftKey};
use nf_state::Cipher;
use std::hint::black_box;

fn aead(c: &mut Criterion) {
    let mut imb = Imb::new().expect("a CPU with AES-NI and IPsec-MB 1.3");
    let mut soft = SoftAead::new();
    let (nonce, aad) = ([7; 12], [9; 8]);
    for cipher in [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let mut group = c.benchmark_group(cipher.name());
        let bytes = vec![3; cipher.key_len()];
        let key = Key::expand(&imb, cipher, &bytes).expect("a key of the cipher's length");
        let soft_key = SoftKey::new(cipher, &bytes);
        for size in [64usize, 256, 1400] {
            let mut text = vec![5; size];
            group.throughput(Throughput::Bytes(size as u64));
            group.bench_function(BenchmarkId::new("IPsec-MB", size), |b| {
                b.iter(|| black_box(imb.open(&key, &nonce, &aad, &mut text)));
            });
            group.bench_function(BenchmarkId::new("RustCrypto", size), |b| {
                b.iter(|| black_box(soft.open(&soft_key, &nonce, &aad, &mut text)));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, aead);
criterion_main!(benches);

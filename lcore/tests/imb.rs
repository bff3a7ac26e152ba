//! IPsec-MB against published records and against RustCrypto.

use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{AeadInPlace, KeyInit};
use aes_gcm::{Aes128Gcm, Aes256Gcm, AesGcm, aes::Aes192};
use chacha20poly1305::ChaCha20Poly1305;
use lcore::imb::{Imb, Key, known_answer};
use nf_path::aead::Aead;
use nf_state::Cipher;

fn sealed_elsewhere(
    cipher: Cipher,
    key: &[u8],
    nonce: &[u8; 12],
    aad: &[u8; 8],
    text: &mut [u8],
) -> [u8; 16] {
    fn seal<A: AeadInPlace<NonceSize = U12> + KeyInit>(
        key: &[u8],
        n: &[u8; 12],
        aad: &[u8],
        text: &mut [u8],
    ) -> Vec<u8> {
        let aead = A::new_from_slice(key).expect("a key of the right length");
        aead.encrypt_in_place_detached(n.into(), aad, text)
            .expect("a short text")
            .to_vec()
    }
    let tag = match cipher {
        Cipher::Aes128Gcm => seal::<Aes128Gcm>(key, nonce, aad, text),
        Cipher::Aes192Gcm => seal::<AesGcm<Aes192, U12>>(key, nonce, aad, text),
        Cipher::Aes256Gcm => seal::<Aes256Gcm>(key, nonce, aad, text),
        Cipher::ChaCha20Poly1305 => seal::<ChaCha20Poly1305>(key, nonce, aad, text),
    };
    tag.try_into().expect("16 bytes")
}

#[test]
fn every_cipher_and_length_agrees_with_another_implementation() {
    let mut imb = Imb::new().expect("this CPU has AES-NI");
    known_answer(&mut imb).expect("the library computes correctly");
    for cipher in Cipher::ALL {
        let raw: Vec<u8> = (0..cipher.key_len()).map(|b| (b * 37 + 11) as u8).collect();
        let key = Key::expand(&imb, cipher, &raw).expect("a key of the right length");
        for len in (0..300).chain([511, 1023, 1400, 1500, 8999, 16000]) {
            let nonce: [u8; 12] = std::array::from_fn(|i| (len + i) as u8);
            let aad: [u8; 8] = std::array::from_fn(|i| (len * 3 + i) as u8);
            let plain: Vec<u8> = (0..len).map(|b| (b * 13 + len) as u8).collect();
            let mut theirs = plain.clone();
            let tag = sealed_elsewhere(cipher, &raw, &nonce, &aad, &mut theirs);
            let mut ours = plain.clone();
            imb.prefetch_key(&key);
            assert_eq!(imb.seal(&key, &nonce, &aad, &mut ours), tag, "{cipher}, {len}");
            assert_eq!(ours, theirs, "{cipher}, {len}");
            assert_eq!(imb.open(&key, &nonce, &aad, &mut ours), tag, "{cipher}, {len}");
            assert_eq!(ours, plain, "{cipher}, {len}");
        }
    }
}

#[test]
fn a_tag_depends_on_every_input() {
    let mut imb = Imb::new().expect("this CPU has AES-NI");
    for cipher in Cipher::ALL {
        let key = Key::expand(&imb, cipher, &vec![3; cipher.key_len()]).expect("a key of the right length");
        let (nonce, aad, text) = ([1; 12], [2; 8], [4; 40]);
        let right = imb.open(&key, &nonce, &aad, &mut text.clone());
        let mut other = vec![3; cipher.key_len()];
        other[0] ^= 1;
        let other = Key::expand(&imb, cipher, &other).expect("a key of the right length");
        assert_ne!(imb.open(&other, &nonce, &aad, &mut text.clone()), right);
        assert_ne!(
            imb.open(
                &key,
                &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0],
                &aad,
                &mut text.clone()
            ),
            right
        );
        assert_ne!(
            imb.open(&key, &nonce, &[2, 2, 2, 2, 2, 2, 2, 0], &mut text.clone()),
            right
        );
        assert_ne!(imb.open(&key, &nonce, &aad, &mut [4; 39]), right);
        let mut turned = text;
        turned[39] ^= 0x80;
        assert_ne!(imb.open(&key, &nonce, &aad, &mut turned), right);
        assert_eq!(imb.open(&key, &nonce, &aad, &mut text.clone()), right);
    }
}

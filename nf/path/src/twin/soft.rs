//! The AEAD of DATA_V2 in plain Rust (RustCrypto).

use std::cell::Cell;

use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{AeadInPlace, KeyInit};
use aes_gcm::{Aes128Gcm, Aes256Gcm, AesGcm};
use chacha20poly1305::ChaCha20Poly1305;
use nf_state::Cipher;
use nf_wire::record::{AAD_LEN, NONCE_LEN, TAG_LEN};

use super::trace::{Event, note};
use crate::aead::Aead;

type Aes192Gcm = AesGcm<aes::Aes192, U12>;

thread_local! {
    static NEXT_ID: Cell<u64> = const { Cell::new(1) };
}

enum Expanded {
    Aes128(Box<Aes128Gcm>),
    Aes192(Box<Aes192Gcm>),
    Aes256(Box<Aes256Gcm>),
    ChaCha20(Box<ChaCha20Poly1305>),
}

/// An expanded key of [`SoftAead`]. The AES key schedule (feature `zeroize` of crate `aes`) and the ChaCha20 key are
/// zeroised when it is dropped.
pub struct SoftKey {
    id: u64,
    cipher: Cipher,
    expanded: Expanded,
}

impl SoftKey {
    /// Expands `key`. Panics unless it has `cipher.key_len()` bytes.
    pub fn new(cipher: Cipher, key: &[u8]) -> Self {
        let wrong = "key length of the cipher";
        let expanded = match cipher {
            Cipher::Aes128Gcm => Expanded::Aes128(Box::new(Aes128Gcm::new_from_slice(key).expect(wrong))),
            Cipher::Aes192Gcm => Expanded::Aes192(Box::new(Aes192Gcm::new_from_slice(key).expect(wrong))),
            Cipher::Aes256Gcm => Expanded::Aes256(Box::new(Aes256Gcm::new_from_slice(key).expect(wrong))),
            Cipher::ChaCha20Poly1305 => {
                Expanded::ChaCha20(Box::new(ChaCha20Poly1305::new_from_slice(key).expect(wrong)))
            }
        };
        Self {
            id: NEXT_ID.replace(NEXT_ID.get() + 1),
            cipher,
            expanded,
        }
    }

    /// A number that no other key made on this thread has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The cipher that it is for.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Encrypts `text` in place and returns the tag over `aad` and the ciphertext.
    fn encrypt(&self, nonce: &[u8; NONCE_LEN], aad: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
        let nonce = nonce.into();
        let tag = match &self.expanded {
            Expanded::Aes128(c) => c.encrypt_in_place_detached(nonce, aad, text),
            Expanded::Aes192(c) => c.encrypt_in_place_detached(nonce, aad, text),
            Expanded::Aes256(c) => c.encrypt_in_place_detached(nonce, aad, text),
            Expanded::ChaCha20(c) => c.encrypt_in_place_detached(nonce, aad, text),
        };
        tag.expect("a packet is shorter than the limit of any AEAD")
            .into()
    }
}

impl std::fmt::Debug for SoftKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SoftKey {} ({})", self.id, self.cipher.name())
    }
}

/// The AEAD in plain Rust. Both ciphers are stream ciphers under a nonce: encrypting zeros gives the keystream, and
/// sealing the plaintext gives the tag that belongs to a ciphertext.
#[derive(Default)]
pub struct SoftAead {
    scratch: Vec<u8>,
}

impl SoftAead {
    /// An engine. It allocates only for the first and for ever longer texts.
    pub fn new() -> Self {
        Self {
            scratch: Vec::with_capacity(super::BUF_LEN),
        }
    }

    /// [`Aead::seal`] without an engine, and without a note of it.
    pub fn seal_with(
        key: &SoftKey,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8; AAD_LEN],
        text: &mut [u8],
    ) -> [u8; TAG_LEN] {
        key.encrypt(nonce, aad, text)
    }
}

impl Aead for SoftAead {
    type Key = SoftKey;

    fn open(
        &mut self,
        key: &SoftKey,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8; AAD_LEN],
        text: &mut [u8],
    ) -> [u8; TAG_LEN] {
        let packet_id = u32::from_be_bytes([nonce[0], nonce[1], nonce[2], nonce[3]]);
        note(Event::Open {
            key: key.id,
            packet_id,
            len: text.len(),
        });
        self.scratch.clear();
        self.scratch.resize(text.len(), 0);
        key.encrypt(nonce, aad, &mut self.scratch);
        text.iter_mut()
            .zip(&self.scratch)
            .for_each(|(byte, stream)| *byte ^= stream);
        self.scratch.copy_from_slice(text);
        key.encrypt(nonce, aad, &mut self.scratch)
    }

    fn seal(
        &mut self,
        key: &SoftKey,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8; AAD_LEN],
        text: &mut [u8],
    ) -> [u8; TAG_LEN] {
        note(Event::Seal {
            key: key.id,
            packet_id: u32::from_be_bytes([nonce[0], nonce[1], nonce[2], nonce[3]]),
            len: text.len(),
        });
        key.encrypt(nonce, aad, text)
    }

    fn prefetch_key(&self, key: &SoftKey) {
        note(Event::PrefetchKey { key: key.id });
    }
}

#[cfg(test)]
mod tests {
    use super::super::craft;
    use super::super::trace;
    use super::*;
    use nf_wire::record::{HeaderWord, OVERHEAD, nonce};
    use proptest::prelude::*;

    const PING: [u8; 16] = [
        0x2a, 0x18, 0x7b, 0xf3, 0x64, 0x1e, 0xb4, 0xcb, 0x07, 0xed, 0x2d, 0x0a, 0x98, 0x1f, 0xc7, 0x48,
    ];
    const TAIL: [u8; 8] = [0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7];

    fn counting_key(cipher: Cipher) -> Vec<u8> {
        (0..cipher.key_len() as u8).collect()
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Opens a record as the path will: computed tag and plaintext.
    fn open(key: &SoftKey, tail: &[u8; 8], record: &[u8]) -> ([u8; 16], Vec<u8>) {
        let mut text = record[OVERHEAD..].to_vec();
        let aad = record[..8].try_into().unwrap();
        let nonce = nonce(record[4..8].try_into().unwrap(), tail);
        (SoftAead::new().open(key, &nonce, aad, &mut text), text)
    }

    /// The keepalive as peer 1, key id 0, packet id 5, keys 00, 01, 02, ..., worked out with an independent library.
    #[test]
    fn seals_and_opens_the_known_records() {
        let known = [
            (
                Cipher::Aes128Gcm,
                "4800000100000005a1717296407a11b50afd59847628753051341f14f47b32bf0365041a7547fa8b",
            ),
            (
                Cipher::Aes256Gcm,
                "48000001000000051dc12c55342c36828f7a1c4c39d1d404c84633aa5eaad37902cf558f7ae07bad",
            ),
            (
                Cipher::ChaCha20Poly1305,
                "48000001000000058537386d180f752bafcc7784da3ddd610b44591c4b1b95d1382405c6e2ce5057",
            ),
        ];
        for (cipher, expected) in known {
            let key = counting_key(cipher);
            let record = craft::record(cipher, &key, &TAIL, HeaderWord::data_v2(0, 1), 5, &PING);
            assert_eq!(hex(&record), expected, "{}", cipher.name());
            let (tag, text) = open(&SoftKey::new(cipher, &key), &TAIL, &record);
            assert_eq!(
                (hex(&tag), hex(&text)),
                (hex(&record[8..24]), hex(&PING)),
                "{}",
                cipher.name()
            );
        }
    }

    /// Test case 8 of the GCM specification (McGrew and Viega): AES-192, zero key, zero nonce, one block of zeros.
    /// The tag there is without additional data, so it is asked of the cipher itself.
    #[test]
    fn aes_192_agrees_with_the_gcm_specification() {
        let key = SoftKey::new(Cipher::Aes192Gcm, &[0; 24]);
        let mut text = [0; 16];
        let tag = key.encrypt(&[0; 12], &[], &mut text);
        assert_eq!(hex(&text), "98e7247c07f0fe411c267e4384b0f600");
        assert_eq!(hex(&tag), "2ff58d80033927ab8ef4d4587514f0fb");
    }

    #[test]
    fn every_flipped_bit_changes_the_tag() {
        for cipher in Cipher::ALL {
            let key = SoftKey::new(cipher, &counting_key(cipher));
            let good = craft::record(
                cipher,
                &counting_key(cipher),
                &TAIL,
                HeaderWord::data_v2(3, 9),
                77,
                &[5; 21],
            );
            for bit in (0..64).chain(24 * 8..good.len() * 8) {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(
                    open(&key, &TAIL, &bad).0,
                    good[8..24],
                    "{} bit {bit}",
                    cipher.name()
                );
            }
        }
    }

    #[test]
    fn debug_shows_no_key_byte() {
        let key = SoftKey::new(Cipher::Aes128Gcm, &[0xee; 16]);
        assert_eq!(format!("{key:?}"), format!("SoftKey {} (AES-128-GCM)", key.id()));
        assert_eq!(key.cipher(), Cipher::Aes128Gcm);
    }

    #[test]
    fn opens_are_traced_by_packet_id() {
        let key = SoftKey::new(Cipher::Aes256Gcm, &[1; 32]);
        let mut aead = SoftAead::new();
        let ((), events) = trace::record(|| {
            aead.prefetch_key(&key);
            aead.open(&key, &nonce([0, 0, 1, 2], &TAIL), &[0; 8], &mut [0; 10]);
        });
        let id = key.id();
        assert_eq!(
            events,
            [
                Event::PrefetchKey { key: id },
                Event::Open {
                    key: id,
                    packet_id: 258,
                    len: 10
                }
            ]
        );
    }

    proptest! {
        #[test]
        fn what_was_sealed_opens(
            which in 0..4usize,
            secret in any::<[u8; 32]>(),
            tail in any::<[u8; 8]>(),
            word in any::<u32>(),
            id in any::<u32>(),
            inner in proptest::collection::vec(any::<u8>(), 0..2049),
        ) {
            let cipher = Cipher::ALL[which];
            let secret = &secret[..cipher.key_len()];
            let record = craft::record(cipher, secret, &tail, HeaderWord(word), id, &inner);
            prop_assert_eq!(record.len(), inner.len() + OVERHEAD);
            let (tag, text) = open(&SoftKey::new(cipher, secret), &tail, &record);
            prop_assert_eq!(&tag, &record[8..24]);
            prop_assert_eq!(text, inner);
        }
    }
}

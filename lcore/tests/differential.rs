//! IPsec-MB against the AEAD in plain Rust, through the open stage: every length, every buffer offset, every bit turned.

use lcore::imb::{Imb, Key};
use nf_path::aead::Aead;
use nf_path::inbound::{open, replay};
use nf_path::twin::craft::record;
use nf_path::twin::{SoftAead, SoftKey};
use nf_path::verdict::DropReason;
use nf_state::{Cipher, Direction, KeySlot, Millis, ReplayWindow};
use nf_wire::record::{HeaderWord, OVERHEAD, nonce};
use std::sync::Arc;

const TAIL: [u8; 8] = [0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7];
/// The payload of OpenVPN's keepalive message.
const PING: [u8; 16] = [
    0x2a, 0x18, 0x7b, 0xf3, 0x64, 0x1e, 0xb4, 0xcb, 0x07, 0xed, 0x2d, 0x0a, 0x98, 0x1f, 0xc7, 0x48,
];

/// Both AEADs with the same key.
struct Both {
    imb: Imb,
    soft: SoftAead,
    cipher: Cipher,
    raw: Vec<u8>,
    imb_slot: Arc<KeySlot<Key>>,
    soft_slot: Arc<KeySlot<SoftKey>>,
}

impl Both {
    fn new(cipher: Cipher, raw: Vec<u8>) -> Both {
        let imb = Imb::new().expect("this CPU has AES-NI");
        let hard = || Direction {
            key: Key::expand(&imb, cipher, &raw).expect("a key of the right length"),
            nonce_tail: TAIL,
        };
        let soft = || Direction {
            key: SoftKey::new(cipher, &raw),
            nonce_tail: TAIL,
        };
        let (imb_slot, soft_slot) = (
            KeySlot::new(cipher, 0, hard(), hard()),
            KeySlot::new(cipher, 0, soft(), soft()),
        );
        Both {
            imb,
            soft: SoftAead::new(),
            cipher,
            raw,
            imb_slot,
            soft_slot,
        }
    }

    /// Opens the record, which lies `offset` bytes behind a cache line, with both: each one's plaintext or reason.
    fn open(&mut self, record: &[u8], offset: usize) -> [Result<Vec<u8>, DropReason>; 2] {
        [
            opened(&mut self.imb, &self.imb_slot, record, offset),
            opened(&mut self.soft, &self.soft_slot, record, offset),
        ]
    }

    /// One length at one offset: sealed by either, opened by either, and nothing around the buffer touched.
    fn check(&mut self, len: usize, offset: usize, id: u32) {
        let of = format!("{}, {len} bytes at offset {offset}", self.cipher);
        let word = HeaderWord::data_v2(id as u8 & 7, id);
        let plain: Vec<u8> = (0..len).map(|b| (b * 131 + len * 7 + offset) as u8).collect();
        let sealed = record(self.cipher, &self.raw, &TAIL, word, id, &plain);
        for (who, got) in ["IPsec-MB", "soft"].into_iter().zip(self.open(&sealed, offset)) {
            assert!(got.as_deref() == Ok(&plain[..]), "{who}: {of}");
        }
        let mut field = Field::new(offset, &plain);
        let aad = sealed[..8].try_into().expect("8 bytes");
        let tag = self.imb.seal(
            self.imb_slot.seal_key(),
            &nonce(id.to_be_bytes(), &TAIL),
            aad,
            field.bytes(),
        );
        assert!(
            tag == sealed[8..24] && field.bytes() == &sealed[24..],
            "sealed: {of}"
        );
        field.check();
    }
}

/// What the open stage makes of a record; it is given in a buffer of its own.
fn opened<A: Aead>(
    aead: &mut A,
    key: &KeySlot<A::Key>,
    record: &[u8],
    offset: usize,
) -> Result<Vec<u8>, DropReason> {
    let mut field = Field::new(offset, record);
    let id = [record[4], record[5], record[6], record[7]];
    let fresh = replay::check(&ReplayWindow::new(), id, Millis(1))?;
    let sealed = open::Sealed::new(field.bytes()).ok_or(DropReason::ShortRecord)?;
    let result = open::open(aead, key, &fresh, sealed).map(|(_, plaintext)| plaintext.to_vec());
    field.check();
    result
}

/// Bytes at an offset from a cache line, with a margin on both sides that must stay as it is.
struct Field {
    memory: Vec<u8>,
    at: usize,
    len: usize,
}

const MARGIN: usize = 64;

impl Field {
    fn new(offset: usize, bytes: &[u8]) -> Field {
        let mut memory = vec![0x5a; bytes.len() + 2 * MARGIN + 64 + offset];
        let at = MARGIN + memory[MARGIN..].as_ptr().align_offset(64) + offset;
        memory[at..at + bytes.len()].copy_from_slice(bytes);
        Field {
            memory,
            at,
            len: bytes.len(),
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.at..self.at + self.len]
    }

    fn check(&self) {
        let around = self.memory[..self.at]
            .iter()
            .chain(&self.memory[self.at + self.len..]);
        assert!(
            around.into_iter().all(|b| *b == 0x5a),
            "bytes around the buffer changed"
        );
    }
}

fn both(cipher: Cipher) -> Both {
    let raw = (0..cipher.key_len()).map(|b| (b * 37 + 11) as u8);
    Both::new(cipher, raw.collect())
}

fn keys() -> impl Iterator<Item = Both> {
    Cipher::ALL.into_iter().map(both)
}

#[test]
fn every_length_at_every_offset_from_a_cache_line() {
    // A thread for each cipher, with a manager of its own.
    std::thread::scope(|scope| {
        for cipher in Cipher::ALL {
            scope.spawn(move || {
                let mut both = both(cipher);
                for len in 0..=2048 {
                    (0..64).for_each(|offset| both.check(len, offset, 1 + (len * 64 + offset) as u32));
                }
            });
        }
    });
}

#[test]
fn every_bit_of_a_record_turned_once_is_a_wrong_tag() {
    for mut both in keys() {
        // No packet id of one bit, which would be the invalid 0 when turned.
        let good = record(
            both.cipher,
            &both.raw,
            &TAIL,
            HeaderWord::data_v2(3, 0xabcdef),
            0x0102_0304,
            &[7; 76],
        );
        assert_eq!(good.len(), 100);
        assert!(
            both.open(&good, 0)
                .iter()
                .all(|got| got.as_deref() == Ok(&[7; 76][..]))
        );
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                both.open(&bad, bit % 64),
                [Err(DropReason::BadTag), Err(DropReason::BadTag)],
                "{}, bit {bit}",
                both.cipher
            );
        }
        for len in OVERHEAD..good.len() {
            assert_eq!(
                both.open(&good[..len], 0),
                [Err(DropReason::BadTag), Err(DropReason::BadTag)],
                "cut to {len}"
            );
        }
    }
}

/// The keepalive as peer 1, key id 0, packet id 5, under the key 00, 01, 02 and so on, worked out with an independent
/// library.
#[test]
fn both_open_the_known_records() {
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
    for (cipher, hex) in known {
        let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
        let record: Vec<u8> = (0..hex.len()).step_by(2).map(digits).collect();
        let mut both = Both::new(cipher, (0..cipher.key_len() as u8).collect());
        for offset in [0, 1, 24, 63] {
            assert!(
                both.open(&record, offset)
                    .iter()
                    .all(|got| got.as_deref() == Ok(&PING[..])),
                "{cipher}"
            );
        }
        let mut text = PING;
        let aad = record[..8].try_into().expect("8 bytes");
        let tag = both.imb.seal(
            both.imb_slot.seal_key(),
            &nonce([0, 0, 0, 5], &TAIL),
            aad,
            &mut text,
        );
        assert_eq!((&tag[..], &text[..]), (&record[8..24], &record[24..]), "{cipher}");
    }
}

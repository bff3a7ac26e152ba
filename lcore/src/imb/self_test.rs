//! Known answers, checked at start.

use nf_path::aead::Aead;
use nf_state::Cipher;
use nf_wire::record::{AAD_LEN, NONCE_LEN, OVERHEAD};

use super::{Imb, Key};
use crate::Error;

/// The payload of OpenVPN's keepalive message.
const PLAIN: [u8; 16] = [
    0x2a, 0x18, 0x7b, 0xf3, 0x64, 0x1e, 0xb4, 0xcb, 0x07, 0xed, 0x2d, 0x0a, 0x98, 0x1f, 0xc7, 0x48,
];
/// Nonce: packet id 5, nonce tail a0 to a7.
const NONCE: [u8; NONCE_LEN] = [0, 0, 0, 5, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7];

/// DATA_V2 records of [`PLAIN`] for peer 1, key id 0, packet id 5, under the key 00, 01, 02 and so on, computed with an
/// independent implementation.
const RECORDS: [(Cipher, [u8; 40]); 3] = [
    (
        Cipher::Aes128Gcm,
        *b"\x48\x00\x00\x01\x00\x00\x00\x05\xa1\x71\x72\x96\x40\x7a\x11\xb5\x0a\xfd\x59\x84\
           \x76\x28\x75\x30\x51\x34\x1f\x14\xf4\x7b\x32\xbf\x03\x65\x04\x1a\x75\x47\xfa\x8b",
    ),
    (
        Cipher::Aes256Gcm,
        *b"\x48\x00\x00\x01\x00\x00\x00\x05\x1d\xc1\x2c\x55\x34\x2c\x36\x82\x8f\x7a\x1c\x4c\
           \x39\xd1\xd4\x04\xc8\x46\x33\xaa\x5e\xaa\xd3\x79\x02\xcf\x55\x8f\x7a\xe0\x7b\xad",
    ),
    (
        Cipher::ChaCha20Poly1305,
        *b"\x48\x00\x00\x01\x00\x00\x00\x05\x85\x37\x38\x6d\x18\x0f\x75\x2b\xaf\xcc\x77\x84\
           \xda\x3d\xdd\x61\x0b\x44\x59\x1c\x4b\x1b\x95\xd1\x38\x24\x05\xc6\xe2\xce\x50\x57",
    ),
];

/// Opens and seals a record of known content with each cipher that has one. An error names the cipher and the step.
pub fn known_answer(imb: &mut Imb) -> Result<(), Error> {
    for (cipher, record) in &RECORDS {
        let raw: Vec<u8> = (0..cipher.key_len() as u8).collect();
        let key = Key::expand(imb, *cipher, &raw)?;
        check(imb, *cipher, &key, record)?;
    }
    Ok(())
}

fn check(imb: &mut Imb, cipher: Cipher, key: &Key, record: &[u8; 40]) -> Result<(), Error> {
    let failed = |step| {
        Err(Error::SelfTest {
            cipher: cipher.name(),
            step,
        })
    };
    let mut aad = [0; AAD_LEN];
    aad.copy_from_slice(&record[..AAD_LEN]);
    let (tag, sealed) = record[AAD_LEN..].split_at(OVERHEAD - AAD_LEN);
    let mut text = PLAIN;
    text.copy_from_slice(sealed);
    if imb.open(key, &NONCE, &aad, &mut text)[..] != *tag || text != PLAIN {
        return failed("open");
    }
    if imb.seal(key, &NONCE, &aad, &mut text)[..] != *tag || text[..] != *sealed {
        return failed("seal");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_answers_pass_and_wrong_ones_are_named() {
        let mut imb = Imb::new().expect("this CPU has AES-NI");
        known_answer(&mut imb).expect("the library computes correctly");
        for (cipher, record) in RECORDS {
            let raw: Vec<u8> = (0..cipher.key_len() as u8).collect();
            let key = Key::expand(&imb, cipher, &raw).expect("a key of the right length");
            for byte in 0..record.len() {
                let mut bad = record;
                bad[byte] ^= 1;
                let error = check(&mut imb, cipher, &key, &bad)
                    .expect_err("a record with a bit turned")
                    .to_string();
                assert!(error.contains(cipher.name()) && error.contains("open"), "{error}");
            }
        }
    }
}

//! The name under which a key's packet ids are kept.

use std::fmt;
use std::str::FromStr;

use nf_state::Cipher;
use sha2::{Digest, Sha256};

use crate::keys::KeyMaterial;

/// Keeps these digests apart from every other use of SHA-256 over a key.
const LABEL: &[u8] = b"ovpn-dpdk packet ids of a static key, version 1";

/// Names the nonces of one key in one direction: SHA-256 (FIPS 180-4) over a label, cipher, key and nonce tail.
///
/// Two keys with one fingerprint seal with the same nonces, whatever their peer and key ids are, so the peer id is no
/// part of it. The digest of a random key does not give the key away, so it may stand in a file and in [`fmt::Debug`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of a key for records that we send: pass the *encrypt* direction's key and nonce tail.
    pub fn of(cipher: Cipher, encrypt: &KeyMaterial) -> Fingerprint {
        // Every part is led by its length, so that no two lists of parts hash the same bytes.
        let mut hash = Sha256::new();
        let parts: [&[u8]; 4] = [
            LABEL,
            cipher.name().as_bytes(),
            &encrypt.key,
            &encrypt.nonce_tail[..],
        ];
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Fingerprint(hash.finalize().into())
    }
}

/// 64 lower-case hexadecimal digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Takes exactly what [`fmt::Display`] gives.
impl FromStr for Fingerprint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Fingerprint, &'static str> {
        const HOW: &str = "a key is named by 64 lower-case hexadecimal digits";
        let mut bytes = [0; 32];
        // One spelling only, so that a key cannot stand in the file twice.
        if text.bytes().any(|b| b.is_ascii_uppercase()) || hex::decode_to_slice(text, &mut bytes).is_err() {
            return Err(HOW);
        }
        Ok(Fingerprint(bytes))
    }
}

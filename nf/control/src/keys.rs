//! Keys files: static peers and their keys, in JSON. For tests, replay and benches only.
//!
//! ```json
//! { "listen": "192.0.2.1:1194",
//!   "keys": [ { "peer_id": 0, "key_id": 0, "cipher": "AES-128-GCM",
//!               "encrypt": { "key": "<hexadecimal>", "nonce_tail": "<16 digits>" },
//!               "decrypt": { "key": "<hexadecimal>", "nonce_tail": "<16 digits>" } } ] }
//! ```
//! `listen` may be an array and may be missing; an entry may have a `remote`. Entries stand in order of installation:
//! of each peer the first is the primary key, the second the secondary one.
//!
//! No message made here repeats text of the file other than addresses: a key may stand where it does not belong.

mod read;

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use nf_state::Cipher;
use zeroize::Zeroizing;

use crate::error::KeysError;

/// A keys file, validated.
#[derive(Debug)]
pub struct KeysFile {
    /// Outer addresses and UDP ports of the server. May be empty.
    pub listen: Vec<SocketAddr>,
    /// Keys in order of installation: per peer the primary one, then the secondary one.
    pub keys: Vec<StaticKey>,
    /// What the operator should hear and is no error; one line each.
    pub warnings: Vec<String>,
}

/// One key of one peer, both directions.
#[derive(Debug)]
pub struct StaticKey {
    /// Peer id, 0 to [`crate::PEER_ID_MAX`].
    pub peer_id: u32,
    /// Key id, 0 to 7.
    pub key_id: u8,
    /// Cipher of both directions.
    pub cipher: Cipher,
    /// For records that we send.
    pub encrypt: KeyMaterial,
    /// For records that we receive.
    pub decrypt: KeyMaterial,
    /// The peer's outer address and port, where it is known beforehand.
    pub remote: Option<SocketAddr>,
}

/// Key and nonce tail of one direction. Zeroised when dropped; [`fmt::Debug`] shows neither.
pub struct KeyMaterial {
    /// The cipher's key, [`Cipher::key_len`] bytes.
    pub key: Zeroizing<Vec<u8>>,
    /// The last 8 bytes of the 12-byte nonce; the packet id is the first 4.
    pub nonce_tail: Zeroizing<[u8; 8]>,
}

impl fmt::Debug for KeyMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyMaterial(..)")
    }
}

impl KeysFile {
    /// Reads and validates a keys file. The text read is zeroised.
    ///
    /// # Errors
    /// The first thing wrong, as one line (see [`KeysError`]).
    pub fn load(path: &Path) -> Result<KeysFile, KeysError> {
        let name = path.display().to_string();
        let (text, open_to_others) = read::text(path).map_err(|e| KeysError {
            file: name.clone(),
            at: String::new(),
            message: format!("cannot be read: {e}"),
        })?;
        let mut file = KeysFile::parse(&text, &name)?;
        if open_to_others {
            file.warnings.push(format!(
                "{name}: holds keys and is open to others than its owner; chmod 600 closes it"
            ));
        }
        Ok(file)
    }

    /// Validates the text of a keys file. `name` names it in errors.
    ///
    /// # Errors
    /// The first thing wrong, as one line (see [`KeysError`]).
    pub fn parse(text: &str, name: &str) -> Result<KeysFile, KeysError> {
        read::parse(text, name)
    }

    /// Peers and the number of keys of each, in order of first appearance.
    pub fn keys_per_peer(&self) -> Vec<(u32, usize)> {
        let mut index = std::collections::HashMap::new();
        let mut peers: Vec<(u32, usize)> = Vec::new();
        for key in &self.keys {
            let at = *index.entry(key.peer_id).or_insert_with(|| {
                peers.push((key.peer_id, 0));
                peers.len() - 1
            });
            peers[at].1 += 1;
        }
        peers
    }
}

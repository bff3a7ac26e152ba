//! Text to [`KeysFile`].

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::Path;

use nf_state::Cipher;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::Segment;
use zeroize::Zeroizing;

use super::{KeyMaterial, KeysFile, StaticKey};
use crate::error::{KeysError, one_line};
use crate::{PEER_ID_MAX, names};

/// Largest keys file in bytes: some 150,000 keys.
const SIZE_MAX: u64 = 64 << 20;

/// Reads the text, and whether others than the owner may open the file.
pub(super) fn text(path: &Path) -> io::Result<(Zeroizing<String>, bool)> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.len() > SIZE_MAX {
        return Err(io::Error::other(format!(
            "{} bytes; at most {SIZE_MAX} are read",
            metadata.len()
        )));
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(metadata.len() as usize + 4096));
    let mut chunk = Zeroizing::new([0; 4096]);
    loop {
        let n = file.read(&mut chunk[..])?;
        if n == 0 {
            break;
        }
        if bytes.len() + n > bytes.capacity() {
            // A pipe tells no length. Growing in place would leave a copy of key material behind.
            let mut larger = Zeroizing::new(Vec::with_capacity(2 * bytes.capacity()));
            larger.extend_from_slice(&bytes);
            bytes = larger;
        }
        bytes.extend_from_slice(&chunk[..n]);
        if bytes.len() as u64 > SIZE_MAX {
            return Err(io::Error::other(format!("more than {SIZE_MAX} bytes")));
        }
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| io::Error::other("it is no UTF-8 text"))?;
    let text = Zeroizing::new(text.to_owned());
    Ok((text, open_to_others(&metadata)))
}

#[cfg(unix)]
fn open_to_others(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn open_to_others(_: &std::fs::Metadata) -> bool {
    false
}

/// The file's shape. Strings are borrowed from the text, so that only one copy has to be zeroised.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile<'a> {
    #[serde(borrow, default)]
    listen: Listen<'a>,
    #[serde(borrow)]
    keys: Vec<RawKey<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey<'a> {
    peer_id: u32,
    key_id: u32,
    cipher: &'a str,
    #[serde(borrow)]
    encrypt: RawMaterial<'a>,
    #[serde(borrow)]
    decrypt: RawMaterial<'a>,
    #[serde(borrow, default)]
    remote: Option<&'a str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMaterial<'a> {
    key: &'a str,
    nonce_tail: &'a str,
}

/// The fields above. A path in an error shows these and indices only.
const FIELDS: [&str; 10] = [
    "listen",
    "keys",
    "peer_id",
    "key_id",
    "cipher",
    "encrypt",
    "decrypt",
    "remote",
    "key",
    "nonce_tail",
];

#[derive(Default)]
struct Listen<'a>(Vec<&'a str>);

impl<'de: 'a, 'a> Deserialize<'de> for Listen<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListenVisitor;
        impl<'de> Visitor<'de> for ListenVisitor {
            type Value = Listen<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array of strings")
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Listen<'de>, E> {
                Ok(Listen(vec![v]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Listen<'de>, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = seq.next_element()? {
                    all.push(one);
                }
                Ok(Listen(all))
            }
        }
        deserializer.deserialize_any(ListenVisitor)
    }
}

/// Parses and validates.
pub(super) fn parse(text: &str, name: &str) -> Result<KeysFile, KeysError> {
    let refuse = |at: String, message: String| KeysError {
        file: name.to_owned(),
        at,
        message,
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let raw: RawFile<'_> = serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let path = public_path(e.path());
        refuse(place(e.inner(), &path), public_message(e.inner()))
    })?;
    json.end()
        .map_err(|e| refuse(place(&e, ""), public_message(&e)))?;

    let mut listen: Vec<SocketAddr> = Vec::new();
    for (i, text) in raw.listen.0.iter().enumerate() {
        let addr = names::socket_addr(text)
            .ok()
            .filter(|addr| !addr.ip().is_multicast())
            .ok_or_else(|| refuse(format!("listen[{i}]"), ADDRESS.into()))?;
        if listen.contains(&addr) {
            return Err(refuse(format!("listen[{i}]"), format!("{addr} is listed twice")));
        }
        listen.push(addr);
    }
    let mut keys = Vec::with_capacity(raw.keys.len());
    let mut of_peer: HashMap<u32, Vec<u8>> = HashMap::new();
    for (i, raw) in raw.keys.into_iter().enumerate() {
        let at = format!("keys[{i}] (peer {})", raw.peer_id);
        let key = static_key(raw).map_err(|message| refuse(at.clone(), message))?;
        let ids = of_peer.entry(key.peer_id).or_default();
        if ids.contains(&key.key_id) {
            return Err(refuse(
                at,
                format!("key id {} of peer {} is there already", key.key_id, key.peer_id),
            ));
        }
        if ids.len() == 2 {
            return Err(refuse(
                at,
                format!(
                    "a third key of peer {}: primary and secondary are all",
                    key.peer_id
                ),
            ));
        }
        ids.push(key.key_id);
        keys.push(key);
    }
    Ok(KeysFile {
        listen,
        keys,
        warnings: Vec::new(),
    })
}

const ADDRESS: &str = "an address with a port is needed, such as 192.0.2.1:1194 or [2001:db8::1]:1194";

fn static_key(raw: RawKey<'_>) -> Result<StaticKey, String> {
    let cipher: Cipher = raw.cipher.parse().map_err(|_| {
        format!(
            "cipher: unknown; allowed: {}",
            Cipher::ALL.map(|cipher| cipher.name()).join(", ")
        )
    })?;
    if raw.peer_id > PEER_ID_MAX {
        return Err(format!("peer_id: out of range: 0 to {PEER_ID_MAX}"));
    }
    if raw.key_id > 7 {
        return Err(format!("key_id: {} is out of range: 0 to 7", raw.key_id));
    }
    let remote = raw
        .remote
        .map(|text| names::endpoint(text).map_err(|_| format!("remote: {ADDRESS}")));
    Ok(StaticKey {
        peer_id: raw.peer_id,
        key_id: raw.key_id as u8,
        cipher,
        encrypt: material(&raw.encrypt, cipher).map_err(|e| format!("encrypt.{e}"))?,
        decrypt: material(&raw.decrypt, cipher).map_err(|e| format!("decrypt.{e}"))?,
        remote: remote.transpose()?,
    })
}

fn material(raw: &RawMaterial<'_>, cipher: Cipher) -> Result<KeyMaterial, String> {
    let mut key = Zeroizing::new(vec![0; cipher.key_len()]);
    let mut nonce_tail = Zeroizing::new([0; 8]);
    hexadecimal(raw.key, &mut key).map_err(|e| format!("key: {e} ({})", cipher.name()))?;
    hexadecimal(raw.nonce_tail, &mut *nonce_tail).map_err(|e| format!("nonce_tail: {e}"))?;
    Ok(KeyMaterial { key, nonce_tail })
}

/// Decodes `text` into exactly `bytes`. Errors name lengths and positions, never digits.
fn hexadecimal(text: &str, bytes: &mut [u8]) -> Result<(), String> {
    if let Some(at) = text.chars().position(|c| !c.is_ascii_hexdigit()) {
        return Err(format!("character {} is no hexadecimal digit", at + 1));
    }
    if text.len() != 2 * bytes.len() {
        return Err(format!(
            "{} hexadecimal digits; {} are needed",
            text.len(),
            2 * bytes.len()
        ));
    }
    hex::decode_to_slice(text, bytes).map_err(|_| "not hexadecimal".into())
}

fn place(error: &serde_json::Error, path: &str) -> String {
    let place = format!("line {} column {}", error.line(), error.column());
    if path.is_empty() {
        place
    } else {
        format!("{place}: {path}")
    }
}

/// The path of an error without any name that is not ours: in a broken file a key may stand as a field's name.
fn public_path(path: &serde_path_to_error::Path) -> String {
    let mut text = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => text.push_str(&format!("[{index}]")),
            Segment::Map { key } if FIELDS.contains(&key.as_str()) => {
                text.push_str(if text.is_empty() { "" } else { "." });
                text.push_str(key);
            }
            _ => break,
        }
    }
    text
}

/// The parser's words without what they quote from the file.
fn public_message(error: &serde_json::Error) -> String {
    // Of syntax errors and early ends the words are constant.
    let message = one_line(&error.to_string());
    let message = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(words, _)| words);
    if !error.is_data() {
        return message.to_owned();
    }
    let expected = message
        .rsplit_once(", expected ")
        .map_or("", |(_, expected)| expected);
    let expected = expected.replace("a borrowed string", "a string without escapes");
    if message.starts_with("unknown field") {
        format!(
            "unknown field; allowed: {}",
            expected.trim_start_matches("one of ")
        )
    } else if message.starts_with("missing field") || message.starts_with("duplicate field") {
        message.to_owned()
    } else if expected.is_empty() {
        "wrong type or value".into()
    } else {
        format!("wrong type or value, expected {expected}")
    }
}

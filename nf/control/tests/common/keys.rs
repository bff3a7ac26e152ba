//! Made-up keys files.

use serde_json::{Value, json};

/// Hexadecimal of `n` bytes that no message contains by chance.
pub fn digits(n: usize) -> String {
    "c0ffee5eed".chars().cycle().take(2 * n).collect()
}

pub fn key(peer: u32, id: u32) -> Value {
    let half = json!({ "key": digits(16), "nonce_tail": digits(8) });
    json!({ "peer_id": peer, "key_id": id, "cipher": "AES-128-GCM", "encrypt": half, "decrypt": half })
}

pub fn file(keys: Vec<Value>) -> Value {
    json!({ "listen": "192.0.2.1:1194", "keys": keys })
}

/// Whether a text shows four digits in a row of [`digits`].
pub fn secret(text: &str) -> bool {
    let text = text.to_lowercase();
    [
        "c0ff", "0ffe", "ffee", "fee5", "ee5e", "e5ee", "5eed", "eedc", "edc0", "dc0f",
    ]
    .iter()
    .any(|part| text.contains(part))
}

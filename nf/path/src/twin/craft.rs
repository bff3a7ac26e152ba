//! Frames, inner packets and records, right or wrong in the way that a test wants.

mod field;
mod fragment;
mod frame;
mod inner;

pub use field::{Checksum, Extension};
pub use fragment::{fragment_v4, fragment_v6};
pub use frame::Frame;
pub use inner::{inner_v4, inner_v6, number};

use nf_state::Cipher;
use nf_wire::record::{HeaderWord, NONCE_TAIL_LEN, nonce};

use super::{SoftAead, SoftKey};

/// A DATA_V2 record: `inner` sealed under `key` (as many bytes as the cipher wants) and nonce tail `tail`, with this
/// header word and packet id.
pub fn record(
    cipher: Cipher,
    key: &[u8],
    tail: &[u8; NONCE_TAIL_LEN],
    word: HeaderWord,
    packet_id: u32,
    inner: &[u8],
) -> Vec<u8> {
    let id = packet_id.to_be_bytes();
    let mut aad = [0; 8];
    aad[..4].copy_from_slice(&word.0.to_be_bytes());
    aad[4..].copy_from_slice(&id);
    let mut text = inner.to_vec();
    let tag = SoftAead::seal_with(&SoftKey::new(cipher, key), &nonce(id, tail), &aad, &mut text);
    [&aad[..], &tag, &text].concat()
}

/// The Internet checksum (RFC 1071) over the parts joined, each but the last of even length. Kept apart from the code
/// under test on purpose.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum of a UDP datagram whose own checksum field is zero, never 0 (RFC 768). `source` and `destination` are
/// both 4 or both 16 bytes.
fn udp_checksum(source: &[u8], destination: &[u8], datagram: &[u8]) -> u16 {
    let len = (datagram.len() as u32).to_be_bytes();
    match checksum(&[source, destination, &len, &[0, 17], datagram]) {
        0 => 0xffff,
        sum => sum,
    }
}

//! The AEAD, as the stages see it. `lcore::imb::Imb` (IPsec-MB) is one, [`crate::twin::SoftAead`] is the other.

use nf_wire::record::{AAD_LEN, NONCE_LEN, TAG_LEN};

/// An AEAD of DATA_V2: AES-128/192/256-GCM or ChaCha20-Poly1305, 12-byte nonce, 8 bytes of additional data,
/// 16-byte tag.
pub trait Aead {
    /// An expanded key: key schedule and what belongs to it, made once on the control side, zeroised when dropped.
    type Key;

    /// Decrypts `text` in place and returns the tag **as computed** over `aad` and the ciphertext. The caller
    /// compares it with the one received (`nf_state::Authentic::verify`) and must not use `text` before that.
    fn open(
        &mut self,
        key: &Self::Key,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8; AAD_LEN],
        text: &mut [u8],
    ) -> [u8; TAG_LEN];

    /// Encrypts `text` in place and returns the tag over `aad` and the ciphertext.
    fn seal(
        &mut self,
        key: &Self::Key,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8; AAD_LEN],
        text: &mut [u8],
    ) -> [u8; TAG_LEN];

    /// Asks for the cache lines of `key` that opening or sealing a record will read. Never changes a result.
    fn prefetch_key(&self, key: &Self::Key);

    /// Asks for the cache lines that hold `what` itself, nothing it points to. Never changes a result.
    fn prefetch<T>(&self, _what: &T) {}
}

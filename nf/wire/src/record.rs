//! One DATA_V2 datagram's payload: header word, packet id, tag, ciphertext (OpenVPN's classic AEAD format).
//!
//! ```text
//!  0        4          8           24
//!  | word   | packet id | tag (16)  | ciphertext, as long as the plaintext |
//! ```

/// Bytes of the header word.
pub const WORD_LEN: usize = 4;
/// Bytes of the packet id.
pub const PACKET_ID_LEN: usize = 4;
/// Bytes of the authenticated header: word and packet id.
pub const AAD_LEN: usize = WORD_LEN + PACKET_ID_LEN;
/// Bytes of the AEAD tag.
pub const TAG_LEN: usize = 16;
/// Bytes in front of the ciphertext: what a record adds to the inner packet, and the shortest record there is.
pub const OVERHEAD: usize = AAD_LEN + TAG_LEN;
/// Bytes of the AEAD nonce.
pub const NONCE_LEN: usize = 12;
/// Bytes of the nonce that the key fixes; the packet id is the rest.
pub const NONCE_TAIL_LEN: usize = 8;

/// The peer id that says "look me up by my address".
pub const PEER_ID_UNDEFINED: u32 = 0xff_ffff;
/// Opcode of DATA_V1, the data format without a peer id.
pub const DATA_V1: u8 = 6;
/// Opcode of DATA_V2.
pub const DATA_V2: u8 = 9;

/// The first 32 bits of a record in host order: opcode (5 bits), key id (3), peer id (24).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeaderWord(pub u32);

impl HeaderWord {
    /// The word of a DATA_V2 record. `key_id` and `peer_id` are cut to their 3 and 24 bits.
    pub const fn data_v2(key_id: u8, peer_id: u32) -> Self {
        HeaderWord((DATA_V2 as u32) << 27 | ((key_id & 7) as u32) << 24 | (peer_id & 0xff_ffff))
    }

    /// Opcode, 0 to 31.
    pub const fn opcode(self) -> u8 {
        (self.0 >> 27) as u8
    }

    /// Key id, 0 to 7.
    pub const fn key_id(self) -> u8 {
        (self.0 >> 24) as u8 & 7
    }

    /// Peer id, 0 to [`PEER_ID_UNDEFINED`].
    pub const fn peer_id(self) -> u32 {
        self.0 & 0xff_ffff
    }
}

/// The AEAD nonce: packet id as on the wire, then the key's nonce tail.
#[inline]
pub fn nonce(packet_id: [u8; PACKET_ID_LEN], tail: &[u8; NONCE_TAIL_LEN]) -> [u8; NONCE_LEN] {
    let mut n = [0; NONCE_LEN];
    n[..PACKET_ID_LEN].copy_from_slice(&packet_id);
    n[PACKET_ID_LEN..].copy_from_slice(tail);
    n
}

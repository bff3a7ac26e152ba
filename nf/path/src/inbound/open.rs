//! Stage 6: the AEAD, in place. Drops: `bad_tag`.

use crate::aead::Aead;
use crate::inbound::replay::Fresh;
use crate::verdict::DropReason;
use nf_state::{Authentic, KeySlot};
use nf_wire::record::{AAD_LEN, OVERHEAD, PACKET_ID_LEN, nonce};

/// A record as it came: header word, packet id, tag; ciphertext.
#[derive(Debug)]
pub struct Sealed<'b> {
    header: &'b [u8; OVERHEAD],
    text: &'b mut [u8],
}

impl<'b> Sealed<'b> {
    /// The record that is a whole UDP payload. None when it is too short to be one.
    #[inline(always)]
    pub fn new(payload: &'b mut [u8]) -> Option<Self> {
        let (header, text) = payload.split_first_chunk_mut()?;
        Some(Sealed { header, text })
    }

    /// The packet id as on the wire.
    #[inline(always)]
    pub fn packet_id(&self) -> [u8; PACKET_ID_LEN] {
        let [_, _, _, _, a, b, c, d, ..] = *self.header;
        [a, b, c, d]
    }
}

/// Opens one record; the plaintext takes the ciphertext's place. It comes with the proof that it may be used.
#[inline]
pub fn open<'b, A: Aead>(
    aead: &mut A,
    key: &KeySlot<A::Key>,
    id: &Fresh,
    record: Sealed<'b>,
) -> Result<(Authentic, &'b mut [u8]), DropReason> {
    let Sealed { header, text } = record;
    let (aad, received) = header
        .split_first_chunk::<AAD_LEN>()
        .expect("the header holds the AAD");
    let received = received.first_chunk().expect("the header ends with the tag");
    let computed = aead.open(key.open_key(), &nonce(id.wire(), key.open_tail()), aad, text);
    let authentic = Authentic::verify(&computed, received, u32::from_be_bytes(id.wire()));
    Ok((authentic.ok_or(DropReason::BadTag)?, text))
}

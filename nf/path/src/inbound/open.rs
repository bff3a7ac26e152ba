//! Stage 6: the AEAD, in place. Drops: `bad_tag`.

use crate::aead::Aead;
use crate::inbound::replay::Fresh;
use crate::verdict::DropReason;
use nf_state::{Authentic, KeySlot};
use nf_wire::record::{AAD_LEN, OVERHEAD, nonce};

/// Opens one record: `payload` is the whole UDP payload, at least [`OVERHEAD`] bytes. The plaintext takes the
/// ciphertext's place; without the returned proof it means nothing.
#[inline]
pub fn open<A: Aead>(
    aead: &mut A,
    key: &KeySlot<A::Key>,
    id: &Fresh,
    payload: &mut [u8],
) -> Result<Authentic, DropReason> {
    let Some((header, text)) = payload.split_first_chunk_mut::<OVERHEAD>() else {
        return Err(DropReason::ShortRecord);
    };
    let (aad, received) = header
        .split_first_chunk::<AAD_LEN>()
        .expect("the header holds the AAD");
    let received = received.first_chunk().expect("the header ends with the tag");
    let computed = aead.open(key.open_key(), &nonce(id.wire(), key.open_tail()), aad, text);
    Authentic::verify(&computed, received, u32::from_be_bytes(id.wire())).ok_or(DropReason::BadTag)
}

//! Keys. The nests of both families number their members alike; only the integers' widths differ.

use nf_state::{Cipher, Slot};
use zeroize::Zeroizing;

use crate::KeyMaterial;
use crate::dco::attributes::{Attributes, Policy, invalid, refusal};
use crate::dco::policy::dco_v2::{CIPHER_KEY, NONCE_TAIL};
use crate::dco::policy::ovpn::keyconf;
use crate::dco::{Errno, NewKey, Refusal};

/// NEW_KEY, KEY_NEW. `direction`: the policy of its two nests.
pub(super) fn new(conf: &Attributes<'_>, direction: &'static Policy) -> Result<NewKey, Refusal> {
    let (peer, slot) = slot(conf)?;
    let key_id = conf.need_integer(keyconf::KEY_ID)?;
    let key_id = u8::try_from(key_id).map_err(|_| refusal(Errno::ERANGE, "KEY_ID"))?;
    let algorithm = conf.need_integer(keyconf::CIPHER_ALG)?;
    let encrypt = conf.need_nest(keyconf::ENCRYPT_DIR, direction)?;
    let decrypt = conf.need_nest(keyconf::DECRYPT_DIR, direction)?;
    let encrypt = material(&encrypt)?;
    let decrypt = material(&decrypt)?;
    let lengths = (encrypt.key.len(), decrypt.key.len());
    if lengths.0 != lengths.1 {
        let text = format!("keys of {} and {} bytes for one cipher", lengths.0, lengths.1);
        return Err(invalid(text));
    }
    Ok(NewKey {
        peer,
        slot,
        key_id,
        cipher: cipher(algorithm, lengths.0)?,
        encrypt,
        decrypt,
    })
}

/// Peer id and slot.
pub(super) fn slot(conf: &Attributes<'_>) -> Result<(u32, Slot), Refusal> {
    let peer = conf.need_integer(keyconf::PEER_ID)?;
    let slot = match conf.need_integer(keyconf::SLOT)? {
        0 => Slot::Primary,
        _ => Slot::Secondary,
    };
    Ok((peer, slot))
}

/// `enum ovpn_cipher_alg`, by which the length of the key tells one AES from the other.
fn cipher(algorithm: u32, key_len: usize) -> Result<Cipher, Refusal> {
    let none = "CIPHER_ALG: none: records are not sent in the clear";
    let candidates: &[Cipher] = match algorithm {
        0 => return Err(invalid(none)),
        1 => &[Cipher::Aes128Gcm, Cipher::Aes192Gcm, Cipher::Aes256Gcm],
        2 => &[Cipher::ChaCha20Poly1305],
        other => {
            let text = format!("CIPHER_ALG: there is no algorithm {other}");
            return Err(refusal(Errno::EOPNOTSUPP, text));
        }
    };
    let found = candidates.iter().copied().find(|c| c.key_len() == key_len);
    found.ok_or_else(|| {
        invalid(format!(
            "CIPHER_KEY: {key_len} bytes are no key of algorithm {algorithm}"
        ))
    })
}

fn material(direction: &Attributes<'_>) -> Result<KeyMaterial, Refusal> {
    let key = Zeroizing::new(direction.need(CIPHER_KEY)?.to_vec());
    let tail = direction.need(NONCE_TAIL)?;
    let mut nonce_tail = Zeroizing::new([0; 8]);
    if tail.len() != nonce_tail.len() {
        return Err(refusal(Errno::ERANGE, "NONCE_TAIL: it has 8 bytes"));
    }
    nonce_tail.copy_from_slice(tail);
    Ok(KeyMaterial { key, nonce_tail })
}

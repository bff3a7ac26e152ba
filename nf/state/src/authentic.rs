//! The proof that a record is authentic.

use nf_wire::record::TAG_LEN;
use subtle::ConstantTimeEq;

/// Proof that the tag of one record was right. [`Authentic::verify`] is the only way to get one and the only place
/// where tags are compared; [`crate::ReplayWindow::commit`] wants one and uses it up, so that an id that was
/// not authenticated cannot move a window.
///
/// ```compile_fail,E0451
/// let forged = nf_state::Authentic { packet_id: 1 };
/// ```
/// ```compile_fail,E0599
/// let proof = nf_state::Authentic::verify(&[0; 16], &[0; 16], 1).unwrap();
/// let copy = proof.clone();
/// ```
#[derive(Debug)]
#[must_use = "an authentic record must still pass the replay window"]
pub struct Authentic {
    packet_id: u32,
}

impl Authentic {
    /// Compares the tag as computed with the tag as received, in time that does not depend on where they differ.
    /// `None` when they differ. `packet_id` is the id that was part of the additional data of that computation.
    #[inline]
    pub fn verify(computed: &[u8; TAG_LEN], received: &[u8; TAG_LEN], packet_id: u32) -> Option<Authentic> {
        // As two words of 128 bits: a loop over bytes costs more, and says no more.
        let equal = u128::from_ne_bytes(*computed).ct_eq(&u128::from_ne_bytes(*received));
        bool::from(equal).then_some(Authentic { packet_id })
    }

    /// The authentic packet id.
    #[inline]
    pub fn packet_id(&self) -> u32 {
        self.packet_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_tags_give_a_proof_with_the_id() {
        let tag = std::array::from_fn(|i| i as u8 * 17);
        assert_eq!(Authentic::verify(&tag, &tag, 77).expect("equal").packet_id(), 77);
    }

    #[test]
    fn every_single_bit_counts() {
        let tag: [u8; TAG_LEN] = std::array::from_fn(|i| i as u8 ^ 0x5a);
        for bit in 0..128 {
            let mut other = tag;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(Authentic::verify(&tag, &other, 1).is_none(), "bit {bit}");
            assert!(Authentic::verify(&other, &tag, 1).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn differences_do_not_cancel() {
        let tag = [0; TAG_LEN];
        for i in 0..TAG_LEN {
            for j in 0..i {
                let mut other = tag;
                other[i] = 0x80;
                other[j] = 0x80;
                assert!(Authentic::verify(&tag, &other, 1).is_none(), "bytes {i} and {j}");
            }
        }
    }
}

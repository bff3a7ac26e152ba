//! Expanded keys.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use ipsec_mb_sys as imb;
use nf_state::Cipher;
use zeroize::Zeroize;

use super::Imb;
use crate::Error;

/// Bytes of a cache line.
const LINE: usize = 64;

/// An expanded key, made once on the control side and read by every lcore. It fits every [`Imb`] of this process, since
/// all choose the same implementation. Zeroised when dropped; its `Debug` says only the cipher.
pub struct Key {
    cipher: Cipher,
    pub(super) schedule: Schedule,
}

/// What the library reads of a key.
pub(super) enum Schedule {
    /// AES-GCM; `size` is 0, 1, 2 for 128, 192, 256 bits.
    Gcm {
        /// Index of the key size.
        size: u8,
        /// Round keys and hash keys.
        data: Secret<imb::gcm_key_data>,
    },
    /// ChaCha20-Poly1305: the key itself.
    ChaCha(Secret<[u8; 32]>),
}

/// A `T` of plain bytes in cache lines of its own, zeroised when dropped. It is never on the stack, where moves would
/// leave copies.
pub(super) struct Secret<T: Copy>(NonNull<T>);

// SAFETY: a Secret owns its memory, which nobody changes after it was made; T is plain bytes.
unsafe impl<T: Copy + Send> Send for Secret<T> {}
// SAFETY: as above.
unsafe impl<T: Copy + Sync> Sync for Secret<T> {}

impl<T: Copy> Secret<T> {
    /// Whole cache lines, so that no other data shares one.
    fn layout() -> Layout {
        let aligned = Layout::new::<T>().align_to(LINE).map(|l| l.pad_to_align());
        aligned.expect("a key schedule has a layout")
    }

    /// A zeroed `T`, filled by `fill`.
    ///
    /// # Safety
    /// Zeroed bytes, and what `fill` makes of them, are a valid `T`.
    unsafe fn new(fill: impl FnOnce(*mut T)) -> Self {
        let layout = Self::layout();
        // SAFETY: no T here has size zero.
        let at = unsafe { alloc_zeroed(layout) }.cast::<T>();
        let secret = Secret(NonNull::new(at).unwrap_or_else(|| handle_alloc_error(layout)));
        fill(secret.0.as_ptr());
        secret
    }

    #[inline(always)]
    pub(super) fn get(&self) -> &T {
        // SAFETY: valid from `new` on, and never changed.
        unsafe { self.0.as_ref() }
    }
}

impl Secret<[u8; 32]> {
    #[inline(always)]
    pub(super) fn bytes(&self) -> &[u8; 32] {
        self.get()
    }
}

impl<T: Copy> Secret<T> {
    /// Overwrites it with zeros that the compiler may not leave out.
    fn wipe(&mut self) {
        // SAFETY: `new` allocated these bytes, all initialised, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr().cast::<u8>(), Self::layout().size()) }
            .zeroize();
    }
}

impl<T: Copy> Drop for Secret<T> {
    fn drop(&mut self) {
        self.wipe();
        // SAFETY: `new` allocated it with this layout; it is freed once.
        unsafe { dealloc(self.0.as_ptr().cast(), Self::layout()) };
    }
}

impl Key {
    /// Expands a key of the cipher's length. The caller zeroises `key` itself.
    pub fn expand(with: &Imb, cipher: Cipher, key: &[u8]) -> Result<Key, Error> {
        if key.len() != cipher.key_len() {
            return Err(Error::KeyLength {
                cipher: cipher.name(),
                want: cipher.key_len(),
                got: key.len(),
            });
        }
        let size = match cipher {
            Cipher::Aes128Gcm => 0,
            Cipher::Aes192Gcm => 1,
            Cipher::Aes256Gcm => 2,
            Cipher::ChaCha20Poly1305 => {
                // SAFETY: any 32 bytes are a valid array, and `key` has 32.
                let secret =
                    unsafe { Secret::new(|to: *mut [u8; 32]| to.cast::<u8>().copy_from(key.as_ptr(), 32)) };
                return Ok(Key {
                    cipher,
                    schedule: Schedule::ChaCha(secret),
                });
            }
        };
        let expand = with.gcm[size as usize].expand;
        // SAFETY: gcm_key_data is arrays of bytes; the call reads a key of the length checked above and writes the
        // schedule.
        let data = unsafe { Secret::new(|to| expand(key.as_ptr().cast(), to)) };
        Ok(Key {
            cipher,
            schedule: Schedule::Gcm { size, data },
        })
    }

    /// The cipher that it is a key of.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Asks for the cache lines that a record reads: all 16 of an AES-GCM schedule (round keys, and hash keys for
    /// records of many blocks), the one of a ChaCha20 key.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        let (at, len) = match &self.schedule {
            Schedule::Gcm { data, .. } => (data.0.as_ptr().cast::<i8>(), size_of::<imb::gcm_key_data>()),
            Schedule::ChaCha(key) => (key.0.as_ptr().cast::<i8>(), 32),
        };
        for line in (0..len).step_by(LINE) {
            // SAFETY: a prefetch is a hint: it neither faults nor changes memory, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(line)) };
        }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key")
            .field("cipher", &self.cipher)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_wiped_whole_and_has_its_own_lines() {
        // SAFETY: any bytes are a valid array.
        let mut secret = unsafe { Secret::new(|to: *mut [u8; 100]| to.write([0xa5; 100])) };
        assert_eq!(secret.get(), &[0xa5; 100]);
        secret.wipe();
        assert_eq!(secret.get(), &[0; 100]);
        assert_eq!(secret.0.as_ptr() as usize % LINE, 0);
        assert_eq!(Secret::<imb::gcm_key_data>::layout().size(), 1024);
    }

    #[test]
    fn debug_and_errors_show_no_key() {
        let imb = Imb::new().expect("this CPU has AES-NI");
        let key = Key::expand(&imb, Cipher::Aes256Gcm, &[0xa5; 32]).expect("a key of 32 bytes");
        assert_eq!(format!("{key:?}"), "Key { cipher: Aes256Gcm, .. }");
        for cipher in Cipher::ALL {
            for len in [0, 15, 17, 23, 31, 33] {
                let error =
                    Key::expand(&imb, cipher, &vec![0xa5; len]).expect_err("a length that no cipher has");
                assert!(
                    error.to_string().contains(cipher.name()) && !error.to_string().contains("a5"),
                    "{error}"
                );
            }
        }
    }
}

//! The data ciphers, by OpenVPN's names.

use std::{fmt, str::FromStr};

/// An AEAD cipher of the data channel (`--data-ciphers` of OpenVPN). Nonce 12 bytes, tag 16 bytes for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AES-GCM with a 128-bit key (NIST SP 800-38D).
    Aes128Gcm,
    /// AES-GCM with a 192-bit key.
    Aes192Gcm,
    /// AES-GCM with a 256-bit key.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305,
}

impl Cipher {
    /// Every cipher there is.
    pub const ALL: [Cipher; 4] = [
        Cipher::Aes128Gcm,
        Cipher::Aes192Gcm,
        Cipher::Aes256Gcm,
        Cipher::ChaCha20Poly1305,
    ];

    /// Bytes of the key: 16, 24 or 32.
    pub const fn key_len(self) -> usize {
        match self {
            Cipher::Aes128Gcm => 16,
            Cipher::Aes192Gcm => 24,
            Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => 32,
        }
    }

    /// OpenVPN's name, as in `--data-ciphers`.
    pub const fn name(self) -> &'static str {
        match self {
            Cipher::Aes128Gcm => "AES-128-GCM",
            Cipher::Aes192Gcm => "AES-192-GCM",
            Cipher::Aes256Gcm => "AES-256-GCM",
            Cipher::ChaCha20Poly1305 => "CHACHA20-POLY1305",
        }
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The name is none of [`Cipher::ALL`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown cipher {0:?}: expected AES-128-GCM, AES-192-GCM, AES-256-GCM or CHACHA20-POLY1305")]
pub struct UnknownCipher(pub String);

impl FromStr for Cipher {
    type Err = UnknownCipher;

    /// Reads OpenVPN's name; upper and lower case are the same, as in OpenVPN.
    fn from_str(name: &str) -> Result<Self, UnknownCipher> {
        let found = Cipher::ALL
            .into_iter()
            .find(|c| c.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| UnknownCipher(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case_and_written_as_openvpn_does() {
        for c in Cipher::ALL {
            assert_eq!(c.name().parse(), Ok(c));
            assert_eq!(c.name().to_lowercase().parse(), Ok(c));
            assert_eq!(c.to_string(), c.name());
        }
        assert_eq!(Cipher::ALL.map(Cipher::key_len), [16, 24, 32, 32]);
    }

    #[test]
    fn other_ciphers_are_refused_by_name() {
        for bad in ["", "none", "AES-256-CBC", "AES-128-GCM "] {
            let error = bad.parse::<Cipher>().expect_err(bad).to_string();
            assert!(
                error.contains(&format!("{bad:?}")) && error.contains("CHACHA20-POLY1305"),
                "{error}"
            );
        }
    }
}

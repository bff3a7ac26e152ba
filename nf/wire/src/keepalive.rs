//! OpenVPN's in-band keepalive: one fixed inner "packet".

/// The plaintext of a keepalive. Its first nibble, 2, keeps it apart from IP.
pub const PING: [u8; 16] = [
    0x2a, 0x18, 0x7b, 0xf3, 0x64, 0x1e, 0xb4, 0xcb, 0x07, 0xed, 0x2d, 0x0a, 0x98, 0x1f, 0xc7, 0x48,
];

/// Whether `plaintext` is exactly the keepalive: all 16 bytes and none after them.
pub fn is_ping(plaintext: &[u8]) -> bool {
    plaintext == PING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_bytes_are_a_keepalive() {
        assert!(is_ping(&PING));
        assert!(!is_ping(&PING[..15]));
        assert!(!is_ping(&[&PING[..], &[0]].concat()));
        for i in 0..16 {
            let mut near = PING;
            near[i] ^= 1;
            assert!(!is_ping(&near), "byte {i}");
        }
    }
}

//! The Internet checksum (RFC 1071).

/// A number that [`fold`] makes the one's complement sum of `bytes` as big-endian 16-bit words, the last odd byte
/// padded with zero. Sums of parts may be added before folding if all parts but the last have even lengths.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    let mut chunks = bytes.chunks_exact(4);
    let mut total: u64 = 0;
    for c in &mut chunks {
        total += u64::from(u32::from_be_bytes([c[0], c[1], c[2], c[3]]));
    }
    let rest = chunks.remainder();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_be_bytes(last))
}

/// Folds a sum into 16 bits with end-around carry (RFC 1071, section 2). Zero only for a sum of zero.
#[inline]
pub fn fold(mut sum: u64) -> u16 {
    sum = (sum & 0xffff_ffff) + (sum >> 32);
    sum = (sum & 0xffff_ffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

/// Whether an IPv4 header, options included, carries a right checksum (RFC 791: the sum over it is all ones). A
/// header's length is a multiple of 4 bytes; what is over is not looked at.
#[inline(always)]
pub fn ipv4_header_ok(header: &[u8]) -> bool {
    // All ones is all ones in either byte order (RFC 1071, section 2B), so the words need no swapping.
    let words = header
        .chunks_exact(4)
        .map(|w| u64::from(u32::from_ne_bytes([w[0], w[1], w[2], w[3]])));
    fold(words.sum()) == 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        // RFC 1071, section 3: 0001 f203 f4f5 f6f7 sums to ddf2.
        assert_eq!(
            fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])),
            0xddf2
        );
    }

    #[test]
    fn agrees_with_adding_words_one_by_one() {
        let bytes: Vec<u8> = (0..1501u32).map(|i| (i * 37 + 11) as u8).collect();
        for len in 0..bytes.len() {
            let mut plain: u32 = 0;
            for pair in bytes[..len].chunks(2) {
                plain += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
                plain = (plain & 0xffff) + (plain >> 16);
            }
            assert_eq!(u32::from(fold(sum(&bytes[..len]))), plain, "length {len}");
        }
    }
}

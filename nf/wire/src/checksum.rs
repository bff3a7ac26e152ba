//! The Internet checksum (RFC 1071).

/// A number that [`fold`] makes the one's complement sum of `bytes` as big-endian 16-bit words, the last odd byte
/// padded with zero. Sums of parts may be added before folding if all parts but the last have even lengths.
///
/// Words of 64 bits are added as they lie in memory, into accumulators that do not wait for each other; only the
/// result is put into network order, as sums are right in either byte order (RFC 1071, section 2B).
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    const LANES: usize = 4;
    let word = |w: &[u8; 8]| u128::from(u64::from_ne_bytes(*w));
    let mut lanes = [0u128; LANES];
    let (chunks, mut rest) = bytes.as_chunks::<{ LANES * 8 }>();
    for chunk in chunks {
        for (lane, w) in lanes.iter_mut().zip(chunk.as_chunks().0) {
            *lane += word(w);
        }
    }
    let mut total: u128 = lanes.iter().sum();
    while let Some((w, after)) = rest.split_first_chunk() {
        total += word(w);
        rest = after;
    }
    total += u128::from(short(rest));
    // 2^64 and 2^32 are both 1 modulo 0xffff.
    let (high, low) = ((total >> 64) as u64, total as u64);
    u64::from(fold((low & 0xffff_ffff) + (low >> 32) + high).swap_bytes())
}

/// Fewer than 8 bytes as one sum in the machine's byte order.
#[inline]
fn short(mut bytes: &[u8]) -> u64 {
    let mut total = 0;
    if let Some((w, after)) = bytes.split_first_chunk() {
        total += u64::from(u32::from_ne_bytes(*w));
        bytes = after;
    }
    if let Some((w, after)) = bytes.split_first_chunk() {
        total += u64::from(u16::from_ne_bytes(*w));
        bytes = after;
    }
    total
        + bytes
            .first()
            .map_or(0, |&b| u64::from(u16::from_ne_bytes([b, 0])))
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

/// The checksum field after one 16-bit word that it covers has changed from `old_word` to `new_word` (RFC 1624,
/// equation 3). All three are numbers, not bytes in memory. It is what summing anew gives, wherever the words
/// covered are not all zero: those of IP headers, of TCP, UDP and ICMPv6 with their pseudo-headers never are. Where the
/// old field was 0xffff, which no sum over such words gives, the new one may be 0xffff for 0; receivers take both.
#[inline]
pub fn update16(old_checksum: u16, old_word: u16, new_word: u16) -> u16 {
    !fold(u64::from(!old_checksum) + u64::from(!old_word) + u64::from(new_word))
}

/// [`update16`] for UDP, whose field 0 says that there is no checksum and stays; a checksum of 0 is 0xffff (RFC 768).
#[inline]
pub fn update16_udp(old_checksum: u16, old_word: u16, new_word: u16) -> u16 {
    if old_checksum == 0 {
        return 0;
    }
    udp_field(update16(old_checksum, old_word, new_word))
}

/// A UDP checksum as it stands in the field: 0xffff for 0, which would say that there is none (RFC 768; RFC 8200,
/// section 8.1).
#[inline]
pub fn udp_field(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
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

    /// A field as its sender makes it: the inverted sum of the other words.
    fn field(words: &[u16]) -> u16 {
        !fold(words.iter().map(|&w| u64::from(w)).sum())
    }

    /// The words that have ever been trouble, and some between.
    const WORDS: [u16; 12] = [
        0, 1, 2, 0x00ff, 0x7fff, 0x8000, 0x8001, 0xaaaa, 0xfefe, 0xfffd, 0xfffe, 0xffff,
    ];

    #[test]
    fn the_example_of_rfc_1624() {
        // RFC 1624, section 4: dd2f, with 5555 becoming 3285, is 0000; the equation before gave ffff.
        assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0);
        assert_eq!(update16_udp(0xdd2f, 0x5555, 0x3285), 0xffff);
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2000))]

        #[test]
        fn updates_are_what_summing_anew_gives(others: [u16; 3], old: u16, new: u16, edge: bool) {
            // 17 is the protocol number of UDP in the pseudo-header: never all zero.
            let rest = fold(17 + others.iter().map(|&w| u64::from(w)).sum::<u64>());
            // Words that bring the sum to all ones, before or after.
            for (old, new) in [(old, new), (!rest, new), (old, !rest)]
                .into_iter()
                .chain(WORDS.into_iter().filter(|_| edge).flat_map(|a| WORDS.map(|b| (a, b))))
            {
                let (before, after) = (field(&[rest, old]), field(&[rest, new]));
                proptest::prop_assert_eq!(update16(before, old, new), after);
                let sent = |c: u16| if c == 0 { 0xffff } else { c };
                proptest::prop_assert_eq!(update16_udp(sent(before), old, new), sent(after));
                proptest::prop_assert_eq!(update16_udp(0, old, new), 0);
            }
        }
    }
}

//! The headers of one record as a template for the next: what must be equal is compared at once, nothing is parsed.

use crate::{checksum, ether, ipv4, record};

/// Bytes of a plain IPv4 record's headers: Ethernet, IPv4 without options, UDP, header word.
const LEN: usize = ether::HEADER_LEN + ipv4::HEADER_LEN + 8 + record::WORD_LEN;

/// The headers of a record in a frame that [`crate::frame::parse_plain`] takes, less what differs from record to record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Template {
    fields: Fields,
    /// Sum of the IPv4 header without total length, id and checksum, for [`checksum::fold`].
    sum: u64,
}

impl Template {
    /// The template that `frame` makes. The caller knows that `parse_plain` takes it and that it is a record; None when
    /// it is too short to be one.
    #[inline]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let head: &[u8; LEN] = frame.first_chunk()?;
        let vary: u64 = VARYING.iter().map(|&at| half(head, at)).sum();
        let ip = &head[ether::HEADER_LEN..ether::HEADER_LEN + ipv4::HEADER_LEN];
        let all: u64 = ip
            .chunks_exact(2)
            .map(|w| u64::from(u16::from_ne_bytes([w[0], w[1]])))
            .sum();
        Some(Template {
            fields: Fields::of(head),
            sum: all - vary,
        })
    }

    /// Whether a frame that follows the template has a right IPv4 header checksum.
    #[inline(always)]
    pub fn header_ok(&self, head: &[u8]) -> bool {
        let Some(head) = head.first_chunk() else {
            return false;
        };
        checksum::fold(VARYING.iter().fold(self.sum, |sum, &at| sum + half(head, at))) == 0xffff
    }

    /// The bytes of UDP payload in the frame of `frame_len` bytes that begins with `head`, if its headers are those of the
    /// template and its lengths agree. None says nothing but "not that".
    #[inline(always)]
    pub fn follows(&self, head: &[u8], frame_len: usize) -> Option<u16> {
        let head: &[u8; LEN] = head.first_chunk()?;
        let (new, old) = (Fields::of(head), &self.fields);
        let differs = u64::from(new.start ^ old.start | new.middle ^ old.middle | new.ports ^ old.ports)
            | u64::from(new.word ^ old.word)
            | (new.addresses ^ old.addresses);
        let total = usize::from(u16::from_be_bytes([head[16], head[17]]));
        let udp_len = u16::from_be_bytes([head[38], head[39]]);
        let agree =
            usize::from(udp_len) + ipv4::HEADER_LEN == total && total + ether::HEADER_LEN <= frame_len;
        (differs == 0 && agree && usize::from(udp_len) >= 8 + record::WORD_LEN).then(|| udp_len - 8)
    }
}

/// Where the 16-bit fields of the IPv4 header are that differ from record to record: total length, id, checksum.
const VARYING: [usize; 3] = [16, 18, 24];

/// A 16-bit word in whatever byte order: sums of them are right in either (RFC 1071, section 2B).
#[inline(always)]
fn half(head: &[u8; LEN], at: usize) -> u64 {
    u64::from(u16::from_ne_bytes([head[at], head[at + 1]]))
}

/// All that is compared, in the frame's byte order: not the total length, id and checksum of IPv4, nor the length and
/// checksum of UDP, nor the MAC addresses.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    /// EtherType, version, header length, type of service.
    start: u32,
    /// Flags, fragment offset, time to live, protocol.
    middle: u32,
    /// Source and destination.
    addresses: u64,
    /// Source and destination.
    ports: u32,
    /// The record's header word.
    word: u32,
}

impl Fields {
    #[inline(always)]
    fn of(head: &[u8; LEN]) -> Self {
        let four = |at: usize| head[at..].first_chunk().map_or(0, |w| u32::from_ne_bytes(*w));
        Fields {
            start: four(12),
            middle: four(20),
            addresses: head[26..].first_chunk().map_or(0, |w| u64::from_ne_bytes(*w)),
            ports: four(34),
            word: four(42),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::parse_plain;

    /// An IPv4 record of `payload` bytes of UDP payload, with padding behind it.
    fn frame(payload: usize, padding: usize) -> Vec<u8> {
        let mut f = ether::header([2; 6], [4; 6], ether::IPV4).to_vec();
        let total = (ipv4::HEADER_LEN + 8 + payload) as u16;
        f.extend([
            0x45, 0, 0, 0, 1, 2, 0x40, 0, 64, 17, 9, 9, 198, 51, 100, 7, 192, 0, 2, 1,
        ]);
        f[16..18].copy_from_slice(&total.to_be_bytes());
        f.extend([0x9c, 0x40, 0x04, 0xaa]);
        f.extend((payload as u16 + 8).to_be_bytes());
        f.extend([7, 7, 0x48, 0, 0, 1]);
        f.resize(42 + payload, 5);
        f.resize(42 + payload + padding, 0);
        f
    }

    /// What the template says is what parsing both frames and comparing them says, whichever bit of the second is
    /// other than in the first. (The reserved flag of IPv4, bit 7 of byte 20, is parsed over and is equal here.)
    #[test]
    fn says_what_parsing_and_comparing_says() {
        let first = frame(100, 0);
        let template = Template::of(&first).expect("long enough");
        let one = parse_plain(&first, first.len()).expect("plain");
        let mut followed = 0;
        for payload in [4, 24, 99, 100, 101] {
            let second = frame(payload, 3);
            for at in 0..second.len().min(50) {
                for bit in (0..8).filter(|&bit| (at, bit) != (20, 7)) {
                    let mut second = second.clone();
                    second[at] ^= 1 << bit;
                    let parsed = parse_plain(&second, second.len())
                        .filter(|two| two.outer.same(&one.outer) && second[42..46] == first[42..46])
                        .map(|two| two.payload_len);
                    assert_eq!(
                        template.follows(&second, second.len()),
                        parsed,
                        "byte {at} bit {bit}"
                    );
                    followed += usize::from(parsed.is_some());
                }
            }
        }
        assert!(followed > 100, "the test has seen followers");
    }

    #[test]
    fn checksums_are_right_where_summing_the_header_says_so() {
        let mut first = frame(100, 0);
        let template = Template::of(&first).expect("long enough");
        let mut right = 0;
        for n in 0..=0xffffu32 {
            first[24..26].copy_from_slice(&(n as u16).to_be_bytes());
            let id = (n.wrapping_mul(40_503) >> 3) as u16;
            first[18..20].copy_from_slice(&(if n < 0x8000 { 7 } else { id }).to_be_bytes());
            let ok = checksum::ipv4_header_ok(&first[14..34]);
            assert_eq!(template.header_ok(&first), ok, "{n:#x}");
            right += usize::from(ok);
        }
        assert!(right > 0 && !template.header_ok(&first[..45]));
    }

    #[test]
    fn never_reads_past_the_end() {
        let whole = frame(30, 0);
        let template = Template::of(&whole).expect("long enough");
        for len in 0..whole.len() {
            assert_eq!(template.follows(&whole[..len], len), None, "{len} bytes");
        }
        assert_eq!(template.follows(&whole, whole.len()), Some(30));
        assert!(Template::of(&whole[..45]).is_none());
    }
}

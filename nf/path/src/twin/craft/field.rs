//! Checksums and IPv6 extension headers of a frame to be.

/// What stands in a checksum field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// The right sum.
    #[default]
    Right,
    /// The right sum with its lowest bit flipped; where that would give 0, the next bit instead.
    Wrong,
    /// Zero, which over UDP means "none".
    Zero,
}

impl Checksum {
    pub(super) fn of(self, right: u16) -> [u8; 2] {
        let value = match self {
            Checksum::Right => right,
            Checksum::Wrong if right == 1 => 3,
            Checksum::Wrong => right ^ 1,
            Checksum::Zero => 0,
        };
        value.to_be_bytes()
    }
}

/// One IPv6 extension header (RFC 8200 section 4, RFC 4302). Variable parts are padded with zeros to whole units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extension {
    /// Hop-by-hop options (0), as encoded.
    HopByHop(Vec<u8>),
    /// Routing (43): type and segments left in the first two bytes, then the type's own data.
    Routing(Vec<u8>),
    /// Destination options (60), as encoded.
    Destination(Vec<u8>),
    /// Fragment (44).
    Fragment {
        /// Offset in bytes, a multiple of 8.
        offset: u16,
        /// Whether more fragments follow.
        more: bool,
        /// Identification.
        id: u32,
    },
    /// Authentication header (51): what follows the first four bytes (SPI, sequence number, ICV).
    Authentication(Vec<u8>),
}

impl Extension {
    /// Its own protocol number.
    pub fn number(&self) -> u8 {
        match self {
            Extension::HopByHop(_) => 0,
            Extension::Routing(_) => 43,
            Extension::Destination(_) => 60,
            Extension::Fragment { .. } => 44,
            Extension::Authentication(_) => 51,
        }
    }

    /// Its bytes, with the number of the header that follows.
    pub(super) fn encode(&self, next: u8) -> Vec<u8> {
        match self {
            Extension::HopByHop(body) | Extension::Routing(body) | Extension::Destination(body) => {
                let units = (2 + body.len()).div_ceil(8);
                let mut bytes = [&[next, (units - 1) as u8], &body[..]].concat();
                bytes.resize(units * 8, 0);
                bytes
            }
            Extension::Fragment { offset, more, id } => {
                assert_eq!(offset % 8, 0, "fragment offset {offset} is no multiple of 8");
                let field = (offset | u16::from(*more)).to_be_bytes();
                [&[next, 0, field[0], field[1]], &id.to_be_bytes()[..]].concat()
            }
            Extension::Authentication(body) => {
                let words = (4 + body.len()).div_ceil(4);
                let mut bytes = [&[next, (words - 2) as u8, 0, 0], &body[..]].concat();
                bytes.resize(words * 4, 0);
                bytes
            }
        }
    }
}

//! Inner packets as a kernel leaves them, and what is true of them, worked out without the code under test.

use nf_path::twin::craft::{Extension, Frame};

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

/// Adds 16-bit words one by one (RFC 1071).
pub fn words(parts: &[&[u8]]) -> u16 {
    let mut total = 0u32;
    for pair in parts.concat().chunks(2) {
        total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

pub fn be16(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

/// Bytes that depend on their place.
pub fn filler(len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

/// A frame of one of the shapes that a kernel sends.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub v6: bool,
    /// VLAN tags.
    pub tags: usize,
    /// IPv4 options, or IPv6 destination options.
    pub options: bool,
}

impl Shape {
    pub const ALL: [Shape; 12] = {
        let mut all = [Shape {
            v6: false,
            tags: 0,
            options: false,
        }; 12];
        let mut i = 0;
        while i < 12 {
            all[i] = Shape {
                v6: i % 2 == 1,
                tags: i / 2 % 3,
                options: i / 6 == 1,
            };
            i += 1;
        }
        all
    };

    /// Addresses and headers, without what is in the packet.
    pub fn frame(self) -> Frame {
        let ends = if self.v6 {
            ("[fd00::1]:4001", "[fd00::2]:4002")
        } else {
            ("10.8.0.1:4001", "10.8.0.2:4002")
        };
        let frame = Frame::udp(ends.0.parse().unwrap(), ends.1.parse().unwrap()).id(0xfffe);
        let frame = match self.tags {
            0 => frame,
            1 => frame.vlan(7),
            _ => frame.qinq(7, 8),
        };
        match (self.options, self.v6) {
            (false, _) => frame,
            (true, false) => frame.options(&[0x94, 4, 0, 0]),
            (true, true) => frame.extension(Extension::Destination(vec![1, 4, 0, 0, 0, 0])),
        }
    }

    fn pseudo(self, protocol: u8, len: usize) -> u16 {
        let l3 = self.frame().l3_offset();
        let ip = self.frame().protocol(protocol).build();
        let addresses = if self.v6 {
            &ip[l3 + 8..l3 + 40]
        } else {
            &ip[l3 + 12..l3 + 20]
        };
        words(&[addresses, &(len as u32).to_be_bytes(), &[0, 0, 0, protocol]])
    }

    /// A TCP packet with a partial checksum.
    pub fn tcp(self, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut tcp = vec![0x0f, 0xa1, 0x0f, 0xa2];
        // The sequence number runs over within a few segments.
        tcp.extend(0xffff_f000u32.to_be_bytes());
        tcp.extend(0x0102_0304u32.to_be_bytes());
        // Timestamps: 12 bytes of options.
        tcp.extend([0x80, flags, 0x12, 0x34, 0, 0, 0, 0]);
        tcp.extend([1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
        tcp.extend(payload);
        let pseudo = self.pseudo(TCP, tcp.len());
        tcp[16..18].copy_from_slice(&pseudo.to_be_bytes());
        self.frame().protocol(TCP).payload(&tcp).build()
    }

    /// A UDP packet with a partial checksum.
    pub fn udp(self, payload: &[u8]) -> Vec<u8> {
        let len = 8 + payload.len();
        let mut udp = vec![0x0f, 0xa1, 0x0f, 0xa2];
        udp.extend((len as u16).to_be_bytes());
        udp.extend(self.pseudo(UDP, len).to_be_bytes());
        udp.extend(payload);
        self.frame().protocol(UDP).payload(&udp).build()
    }
}

/// Where layer 3 begins.
pub fn l3_of(frame: &[u8]) -> usize {
    let mut l3 = 14;
    while [0x8100, 0x88a8].contains(&be16(frame, l3 - 2)) {
        l3 += 4;
    }
    l3
}

/// What a frame with a whole IP packet, and nothing behind it, turns out to hold.
#[derive(Debug, PartialEq, Eq)]
pub struct Facts {
    pub l3: usize,
    pub l4: usize,
    pub protocol: u8,
    /// Whether the IPv4 header checksum is right; true for IPv6.
    pub header_ok: bool,
    /// Whether the IP length is the frame's.
    pub length_ok: bool,
    /// Whether the checksum of TCP or UDP is right, and not 0 for UDP.
    pub sum_ok: bool,
}

impl Facts {
    pub fn of(frame: &[u8]) -> Facts {
        let l3 = l3_of(frame);
        let ip = &frame[l3..];
        let (header, addresses, protocol, len, header_ok) = if ip[0] >> 4 == 4 {
            let header = usize::from(ip[0] & 15) * 4;
            let sum = words(&[&ip[..header]]);
            (header, &ip[12..20], ip[9], be16(ip, 2), sum == 0xffff)
        } else {
            let (header, protocol) = if ip[6] == 60 { (48, ip[40]) } else { (40, ip[6]) };
            (header, &ip[8..40], protocol, 40 + be16(ip, 4), true)
        };
        let l4 = &ip[header..];
        let sum = words(&[
            addresses,
            &(l4.len() as u32).to_be_bytes(),
            &[0, 0, 0, protocol],
            l4,
        ]);
        let none = protocol == UDP && be16(l4, 6) == 0;
        Facts {
            l3,
            l4: l3 + header,
            protocol,
            header_ok,
            length_ok: len == ip.len(),
            sum_ok: sum == 0xffff && !none,
        }
    }

    /// Panics unless all is right.
    pub fn right(frame: &[u8]) -> Facts {
        let facts = Facts::of(frame);
        assert!(
            facts.header_ok && facts.length_ok && facts.sum_ok,
            "{facts:?}: {:02x?}",
            &frame[..frame.len().min(100)]
        );
        facts
    }
}

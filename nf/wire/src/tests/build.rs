//! Frames, said field by field. Every field is right unless said otherwise.

/// The part of a UDP datagram that both IP versions share.
#[derive(Clone, Debug)]
pub struct Udp {
    pub src: u16,
    pub dst: u16,
    /// The length field where it is not the true one.
    pub len: Option<u16>,
    pub checksum: u16,
    pub payload: Vec<u8>,
}

impl Default for Udp {
    fn default() -> Self {
        let payload = (0..40).map(|i| i ^ 0xa5).collect();
        Udp {
            src: 40000,
            dst: 1194,
            len: None,
            checksum: 0xbeef,
            payload,
        }
    }
}

impl Udp {
    pub fn of(payload_len: usize) -> Self {
        Udp {
            payload: vec![0x5a; payload_len],
            ..Udp::default()
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let len = self.len.unwrap_or(8 + self.payload.len() as u16);
        let mut b = Vec::new();
        for word in [self.src, self.dst, len, self.checksum] {
            b.extend(word.to_be_bytes());
        }
        b.extend(&self.payload);
        b
    }
}

/// IPv4 in Ethernet.
#[derive(Clone, Debug)]
pub struct V4 {
    /// Tag protocol id and control information, outermost first.
    pub tags: Vec<(u16, u16)>,
    pub ihl: Option<u8>,
    pub tos: u8,
    pub total: Option<u16>,
    pub id: u16,
    /// Flags and fragment offset as on the wire.
    pub fragment: u16,
    pub ttl: u8,
    pub protocol: u8,
    pub checksum: u16,
    pub src: [u8; 4],
    pub dst: [u8; 4],
    pub options: Vec<u8>,
    pub udp: Udp,
    /// What stands in place of the UDP datagram.
    pub body: Option<Vec<u8>>,
    pub trailing: Vec<u8>,
}

impl Default for V4 {
    fn default() -> Self {
        V4 {
            tags: vec![],
            ihl: None,
            tos: 0,
            total: None,
            id: 0x1234,
            fragment: 0,
            ttl: 64,
            protocol: 17,
            checksum: 0xabcd,
            src: [198, 51, 100, 7],
            dst: [192, 0, 2, 1],
            options: vec![],
            udp: Udp::default(),
            body: None,
            trailing: vec![],
        }
    }
}

impl V4 {
    /// The frame with some fields changed.
    pub fn with(change: impl FnOnce(&mut V4)) -> Vec<u8> {
        let mut fields = V4::default();
        change(&mut fields);
        fields.frame()
    }

    /// The IP packet alone.
    pub fn packet(&self) -> Vec<u8> {
        assert_eq!(self.options.len() % 4, 0);
        let body = self.body.clone().unwrap_or_else(|| self.udp.bytes());
        let header = 20 + self.options.len();
        let mut b = vec![0x40 | self.ihl.unwrap_or(header as u8 / 4), self.tos];
        for word in [
            self.total.unwrap_or((header + body.len()) as u16),
            self.id,
            self.fragment,
        ] {
            b.extend(word.to_be_bytes());
        }
        b.extend([self.ttl, self.protocol]);
        b.extend(self.checksum.to_be_bytes());
        b.extend(self.src.iter().chain(&self.dst).chain(&self.options).chain(&body));
        b
    }

    pub fn frame(&self) -> Vec<u8> {
        ethernet(&self.tags, 0x0800, &self.packet(), &self.trailing)
    }
}

/// An IPv6 extension header: its number, and its bytes with the next header left zero.
#[derive(Clone, Debug)]
pub struct Extension(pub u8, pub Vec<u8>);

/// An extension header of `units` times 8 bytes whose length field is in those units.
pub fn extension(number: u8, units: u8) -> Extension {
    let mut bytes = vec![0; usize::from(units) * 8];
    bytes[1] = units - 1;
    // PadN over the rest, as in an options header: type 1, then the length. Segments left stays zero.
    bytes[2] = 1;
    Extension(number, bytes)
}

/// An authentication header of `words` times 4 bytes (RFC 4302).
pub fn authentication(words: u8) -> Extension {
    let mut bytes = vec![0x11; usize::from(words) * 4];
    bytes[1] = words - 2;
    Extension(51, bytes)
}

/// A fragment header: data at this many bytes, whether more follow.
pub fn fragment_header(offset: u16, more: bool) -> Extension {
    let field = (offset | u16::from(more)).to_be_bytes();
    Extension(44, vec![0, 0, field[0], field[1], 0xde, 0xad, 0xbe, 0xef])
}

/// IPv6 in Ethernet.
#[derive(Clone, Debug)]
pub struct V6 {
    pub tags: Vec<(u16, u16)>,
    pub traffic_class: u8,
    pub flow_label: u32,
    pub len: Option<u16>,
    pub hop_limit: u8,
    pub src: [u8; 16],
    pub dst: [u8; 16],
    pub extensions: Vec<Extension>,
    /// The last next header.
    pub protocol: u8,
    pub udp: Udp,
    pub body: Option<Vec<u8>>,
    pub trailing: Vec<u8>,
}

impl Default for V6 {
    fn default() -> Self {
        let address = |last| [0x20, 1, 0xd, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, last];
        V6 {
            tags: vec![],
            traffic_class: 0,
            flow_label: 0,
            len: None,
            hop_limit: 64,
            src: address(0x71),
            dst: address(0x01),
            extensions: vec![],
            protocol: 17,
            udp: Udp::default(),
            body: None,
            trailing: vec![],
        }
    }
}

impl V6 {
    /// The frame with some fields changed.
    pub fn with(change: impl FnOnce(&mut V6)) -> Vec<u8> {
        let mut fields = V6::default();
        change(&mut fields);
        fields.frame()
    }

    pub fn packet(&self) -> Vec<u8> {
        let mut body = self.body.clone().unwrap_or_else(|| self.udp.bytes());
        let mut next = self.protocol;
        for Extension(number, bytes) in self.extensions.iter().rev() {
            let mut header = bytes.clone();
            header[0] = next;
            header.extend(body);
            (next, body) = (*number, header);
        }
        let class = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label;
        let mut b = class.to_be_bytes().to_vec();
        b.extend(self.len.unwrap_or(body.len() as u16).to_be_bytes());
        b.extend([next, self.hop_limit]);
        b.extend(self.src.iter().chain(&self.dst).chain(&body));
        b
    }

    pub fn frame(&self) -> Vec<u8> {
        ethernet(&self.tags, 0x86dd, &self.packet(), &self.trailing)
    }
}

/// An Ethernet frame around `packet`.
pub fn ethernet(tags: &[(u16, u16)], ether_type: u16, packet: &[u8], trailing: &[u8]) -> Vec<u8> {
    let mut b = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for (tpid, tci) in tags {
        b.extend(tpid.to_be_bytes());
        b.extend(tci.to_be_bytes());
    }
    b.extend(ether_type.to_be_bytes());
    b.extend(packet);
    b.extend(trailing);
    b
}

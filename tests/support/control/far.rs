//! Everything beyond the NIC: datagrams frame by frame, and the records in them under keys of either IP version and any
//! cipher.

use super::{FAR, NIC};
use crate::gateway::{PATIENCE, Wire, mac};
use nf_path::aead::Aead;
use nf_path::twin::craft::{self, Frame};
use nf_path::twin::{SoftAead, SoftKey};
use nf_state::Cipher;
use nf_wire::record::{HeaderWord, nonce};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Key and nonce tail of one direction.
#[derive(Clone)]
pub struct Material {
    /// The key, as long as the cipher wants it.
    pub key: Vec<u8>,
    /// The nonce tail.
    pub tail: [u8; 8],
}

/// A key as the gateway has it.
#[derive(Clone)]
pub struct Key {
    /// Key id.
    pub id: u8,
    /// Cipher.
    pub cipher: Cipher,
    /// What the gateway seals under.
    pub encrypt: Material,
    /// What it opens under.
    pub decrypt: Material,
    /// The last packet id that was used under `decrypt`.
    pub last: u32,
}

impl Key {
    /// A new one for AES-256-GCM.
    pub fn random(id: u8) -> Key {
        Key::of(id, Cipher::Aes256Gcm)
    }

    /// A new one.
    pub fn of(id: u8, cipher: Cipher) -> Key {
        let len = match cipher {
            Cipher::Aes128Gcm => 16,
            Cipher::Aes192Gcm => 24,
            _ => 32,
        };
        let material = || Material {
            key: (0..len).map(|_| fastrand::u8(..)).collect(),
            tail: std::array::from_fn(|_| fastrand::u8(..)),
        };
        let (encrypt, decrypt) = (material(), material());
        Key {
            id,
            cipher,
            encrypt,
            decrypt,
            last: 0,
        }
    }

    /// A record of a peer with the next packet id.
    pub fn seal(&mut self, peer: u32, inner: &[u8]) -> Vec<u8> {
        self.last += 1;
        self.seal_as(peer, self.last, inner)
    }

    /// A record with this packet id.
    pub fn seal_as(&self, peer: u32, id: u32, inner: &[u8]) -> Vec<u8> {
        let Material { key, tail } = &self.decrypt;
        craft::record(
            self.cipher,
            key,
            tail,
            HeaderWord::data_v2(self.id, peer),
            id,
            inner,
        )
    }

    /// The inner packet of a record from the gateway; None: it does not open.
    pub fn open(&self, record: &Record) -> Option<Vec<u8>> {
        let bytes = &record.bytes;
        let mut inner = bytes.get(24..)?.to_vec();
        let secret = SoftKey::new(self.cipher, &self.encrypt.key);
        let aad = bytes[..8].try_into().expect("eight bytes");
        let id: [u8; 4] = bytes[4..8].try_into().expect("four bytes");
        let tag = SoftAead::new().open(&secret, &nonce(id, &self.encrypt.tail), aad, &mut inner);
        (record.key() == self.id && tag[..] == bytes[8..24]).then_some(inner)
    }

    /// Both keys in hexadecimal, of which nothing may be said anywhere.
    pub fn secrets(&self) -> Vec<String> {
        let both = [&self.encrypt, &self.decrypt];
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        both.iter().flat_map(|m| [hex(&m.key), hex(&m.tail)]).collect()
    }
}

/// A record from the gateway, sealed.
#[derive(Clone, Debug)]
pub struct Record {
    /// Whence it came.
    pub from: SocketAddr,
    /// Where it was sent to.
    pub to: SocketAddr,
    /// All of it.
    pub bytes: Vec<u8>,
}

impl Record {
    fn word(&self) -> HeaderWord {
        HeaderWord(u32::from_be_bytes(
            self.bytes[..4].try_into().expect("four bytes"),
        ))
    }

    /// Peer id.
    pub fn peer(&self) -> u32 {
        self.word().peer_id()
    }

    /// Key id.
    pub fn key(&self) -> u8 {
        self.word().key_id()
    }

    /// Packet id.
    pub fn id(&self) -> u32 {
        u32::from_be_bytes(self.bytes[4..8].try_into().expect("four bytes"))
    }
}

/// Everything beyond the NIC.
pub struct Far {
    wire: Wire,
    mac: [u8; 6],
    nic: [u8; 6],
}

impl Far {
    /// From now on.
    pub fn new() -> Far {
        Far {
            wire: Wire::of(FAR),
            mac: mac(FAR),
            nic: mac(NIC),
        }
    }

    /// Sends a datagram.
    pub fn send(&mut self, from: SocketAddr, to: SocketAddr, payload: &[u8]) {
        let frame = Frame::udp(from, to).macs(self.mac, self.nic).payload(payload);
        self.wire.send(&frame.build());
    }

    /// The next record from the gateway, if there is one.
    pub fn next(&mut self) -> Option<Record> {
        while let Some(frame) = self.wire.next() {
            if frame.get(6..12) != Some(&self.nic) {
                continue;
            }
            if let Some(record) = datagram(&frame).filter(|r| r.bytes.len() >= 24 && r.bytes[0] >> 3 == 9) {
                return Some(record);
            }
        }
        None
    }

    /// Waits for a record that opens with this key and is as wanted; others are passed over.
    #[track_caller]
    pub fn expect(&mut self, key: &Key, wanted: impl Fn(&Record, &[u8]) -> bool) -> Record {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            match self.next() {
                Some(record) if key.open(&record).is_some_and(|inner| wanted(&record, &inner)) => {
                    return record;
                }
                Some(_) => {}
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        panic!("no such record under key {}", key.id);
    }

    /// All records that have come by now.
    pub fn all(&mut self) -> Vec<Record> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// The UDP datagram in a frame without options or extension headers.
fn datagram(frame: &[u8]) -> Option<Record> {
    let ip = |at: usize, len: usize| match frame.get(at..at + len)? {
        bytes if len == 4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        bytes => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    };
    let (from, to, udp) = match (frame.get(12..15)?, frame.get(23)?, frame.get(20)?) {
        ([8, 0, 0x45], 17, _) => (ip(26, 4)?, ip(30, 4)?, 34),
        ([0x86, 0xdd, first], _, 17) if first >> 4 == 6 => (ip(22, 16)?, ip(38, 16)?, 54),
        _ => return None,
    };
    let number = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
    let len = usize::from(number(udp + 4)?);
    Some(Record {
        from: SocketAddr::new(from, number(udp)?),
        to: SocketAddr::new(to, number(udp + 2)?),
        bytes: frame.get(udp + 8..udp + len)?.to_vec(),
    })
}

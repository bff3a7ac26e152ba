//! Everything beyond the NIC: records of every peer, sealed and opened frame by frame.

#![allow(dead_code, reason = "no test uses all of it")]

use super::{FAR, LISTEN, NIC, OWN, PORTS, Peer, vpn};
use crate::gateway::{PATIENCE, Wire, mac, wait_for};
use nf_path::aead::Aead;
use nf_path::twin::craft::{self, Frame};
use nf_path::twin::{SoftAead, SoftKey};
use nf_state::Cipher;
use nf_wire::record::{HeaderWord, nonce};
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// A record from the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Whose.
    pub peer: u32,
    /// Under which of the peer's keys.
    pub key: u8,
    /// Packet id.
    pub id: u32,
    /// Whence it came.
    pub from: SocketAddr,
    /// Where it was sent to.
    pub to: SocketAddr,
    /// The inner packet.
    pub inner: Vec<u8>,
}

/// Everything beyond the NIC.
pub struct Far {
    wire: Wire,
    mac: [u8; 6],
    nic: [u8; 6],
    next: HashMap<[u8; 16], u32>,
    /// The first ones of a datagram that is not whole yet.
    fragments: Vec<u8>,
}

impl Far {
    /// From now on.
    pub fn new() -> Far {
        Far {
            wire: Wire::of(FAR),
            mac: mac(FAR),
            nic: mac(NIC),
            next: HashMap::new(),
            fragments: Vec::new(),
        }
    }

    /// A record of a peer under one of its keys, with the next packet id.
    pub fn seal(&mut self, peer: &Peer, key: usize, inner: &[u8]) -> Vec<u8> {
        let key = &peer.keys[key];
        let next = self.next.entry(key.decrypt.key).or_insert(0);
        *next += 1;
        let super::Material { key: secret, tail } = &key.decrypt;
        let word = HeaderWord::data_v2(key.id, peer.id);
        craft::record(Cipher::Aes128Gcm, secret, tail, word, *next, inner)
    }

    /// Sends a UDP payload from an address to one of the gateway's.
    pub fn send_from(&mut self, from: SocketAddr, to: SocketAddr, payload: &[u8]) {
        let frame = Frame::udp(from, to)
            .macs(self.mac, self.nic)
            .payload(payload)
            .build();
        for fragment in craft::fragment_v4(&frame, 1500) {
            self.wire.send(&fragment);
        }
    }

    /// Sends an inner packet of a peer, from where it is configured to be.
    pub fn send(&mut self, peer: &Peer, inner: &[u8]) {
        let record = self.seal(peer, 0, inner);
        self.send_from(peer.remote, LISTEN.parse().expect("an address"), &record);
    }

    /// Sends a whole frame.
    pub fn send_frame(&mut self, frame: &[u8]) {
        self.wire.send(frame);
    }

    /// The next record that the gateway sent, opened; None: there is none yet. One that does not open is a failure.
    pub fn next(&mut self, peers: &[Peer]) -> Option<Opened> {
        while let Some(frame) = self.wire.next() {
            // IPv4 and UDP of the gateway's; DATA_V2.
            let ours = frame.get(6..12) == Some(&self.nic) && frame[12..14] == [8, 0] && frame[23] == 17;
            let Some(frame) = Some(frame).filter(|_| ours).and_then(|f| self.whole(f)) else {
                continue;
            };
            if frame[14] == 0x45 && frame.get(42).is_some_and(|b| b >> 3 == 9) {
                return Some(open(&frame, peers));
            }
        }
        None
    }

    /// Waits until a packet to this peer leaves the gateway; all that left so far.
    pub fn connected(&mut self, peers: &[Peer], peer: u32) -> Vec<Opened> {
        let socket = UdpSocket::bind((OWN, 0)).expect("ovpn0 has the address");
        let mut all = Vec::new();
        wait_for("a packet to leave", || {
            socket.send_to(b"are you there", (vpn(peer), 9)).expect("a route");
            all.extend(self.all(peers, Duration::from_millis(30)));
            all.iter().any(|r: &Opened| r.peer == peer)
        });
        all
    }

    /// A datagram of which all fragments came, in order; others at once.
    fn whole(&mut self, frame: Vec<u8>) -> Option<Vec<u8>> {
        if frame.len() < 34 || frame[12..15] != [8, 0, 0x45] || (frame[20] & 0x3f, frame[21]) == (0, 0) {
            return Some(frame);
        }
        let len = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let offset = usize::from(u16::from_be_bytes([frame[20] & 0x1f, frame[21]])) * 8;
        if offset == 0 {
            self.fragments = frame[..14 + len].to_vec();
            return None;
        }
        assert_eq!(self.fragments.len(), 34 + offset, "in order, and none is missing");
        assert_eq!(self.fragments[18..20], frame[18..20], "of one datagram");
        self.fragments.extend(&frame[34..14 + len]);
        let total = (self.fragments.len() - 14) as u16;
        self.fragments[16..18].copy_from_slice(&total.to_be_bytes());
        (frame[20] & 0x20 == 0).then(|| std::mem::take(&mut self.fragments))
    }

    /// All records until none came for so long.
    pub fn all(&mut self, peers: &[Peer], silence: Duration) -> Vec<Opened> {
        let (mut all, mut last) = (Vec::new(), Instant::now());
        while last.elapsed() < silence {
            match self.next(peers) {
                Some(record) => {
                    all.push(record);
                    last = Instant::now();
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        all
    }

    /// Waits for so many records.
    pub fn take(&mut self, peers: &[Peer], n: usize) -> Vec<Opened> {
        let mut taken = Vec::new();
        let until = Instant::now() + PATIENCE;
        while taken.len() < n {
            match self.next(peers) {
                Some(record) => taken.push(record),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
            assert!(Instant::now() < until, "{} of {n} records came", taken.len());
        }
        taken
    }
}

/// Sends numbered packets of 1000 bytes from the gateway's kernel to a peer, one each 200 microseconds.
pub fn send_numbered(socket: &UdpSocket, peer: u32, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let mut payload = [0; 1000 - 28];
        payload[..4].copy_from_slice(&number.to_be_bytes());
        socket.send_to(&payload, (vpn(peer), PORTS.0)).expect("a route");
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn open(frame: &[u8], peers: &[Peer]) -> Opened {
    let address = |at: usize, port: usize| {
        let ip: [u8; 4] = frame[at..at + 4].try_into().expect("four bytes");
        SocketAddr::from((ip, u16::from_be_bytes([frame[port], frame[port + 1]])))
    };
    let len = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let record = &frame[42..14 + len];
    let word = HeaderWord(u32::from_be_bytes(record[..4].try_into().expect("four bytes")));
    let known = peers.iter().filter(|p| p.id == word.peer_id());
    let mut keys = known.flat_map(|p| &p.keys).filter(|k| k.id == word.key_id());
    let id: [u8; 4] = record[4..8].try_into().expect("four bytes");
    let mut inner = Vec::new();
    let opens = keys.any(|key| {
        let secret = SoftKey::new(Cipher::Aes128Gcm, &key.encrypt.key);
        inner = record[24..].to_vec();
        let aad = record[..8].try_into().expect("eight bytes");
        let nonce = nonce(id, &key.encrypt.tail);
        SoftAead::new().open(&secret, &nonce, aad, &mut inner)[..] == record[8..24]
    });
    let id = u32::from_be_bytes(id);
    assert!(
        opens,
        "peer {}, key {}, packet id {id:#x} does not open",
        word.peer_id(),
        word.key_id()
    );
    Opened {
        peer: word.peer_id(),
        key: word.key_id(),
        id,
        from: address(26, 34),
        to: address(30, 36),
        inner,
    }
}

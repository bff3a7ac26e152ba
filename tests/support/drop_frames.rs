//! Frames that a gateway drops, of each kind that the kernel's side of its ports can send: see `settings` of the test for what
//! peers there have to be.

use crate::life::{LISTEN, OWN, Peer, vpn};
use nf_path::twin::craft::{self, Checksum, Frame, inner_v4};
use nf_state::Cipher;
use nf_wire::record::HeaderWord;
use std::net::{Ipv4Addr, SocketAddr};

/// What frames from the NIC are dropped for; a fragment may end as the one or the other of its two reasons.
pub const INBOUND: [&str; 21] = [
    "unknown_peer",
    "unknown_address",
    "no_key",
    "bad_tag",
    "replay_zero",
    "replay_old",
    "replay_duplicate",
    "too_short",
    "data_v1",
    "short_record",
    "ip_length",
    "udp_length",
    "ip_checksum",
    "udp_checksum",
    "not_ip",
    "empty",
    "bad_source",
    "tunnel_mtu",
    "host_mtu",
    "fragment_timeout",
    "fragment_refused",
];
/// What frames from the tunnel are dropped for.
pub const OUTBOUND: [&str; 10] = [
    "unknown_mac",
    "broadcast",
    "multicast",
    "not_ip_frame",
    "tunnel_length",
    "own_outer",
    "no_primary",
    "no_remote",
    "no_neighbour",
    "no_packet_id",
];
/// What frames from the host are dropped for.
pub const HOST: [&str; 1] = ["nic_mtu"];
/// What fragments are dropped for.
pub const FRAGMENTS: [&str; 2] = ["fragment_timeout", "fragment_refused"];

/// A peer without a key.
pub const NO_PRIMARY: u32 = 1;
/// A peer without an outer address that could be sent to.
pub const NO_REMOTE: u32 = 2;
/// A peer whose next hop does not answer.
pub const NO_NEIGHBOUR: u32 = 3;
/// A peer whose key has no packet ids left.
pub const NO_PACKET_ID: u32 = 4;

/// Makes frames that end as a reason says.
pub struct Maker {
    peer: Peer,
    /// Packet id of the last record that was authentic.
    id: u32,
    /// The last such record.
    last: Vec<u8>,
    /// Datagrams of which the first fragment came.
    alone: u16,
    /// First fragments of datagrams of which it came twice.
    twice: u16,
    /// Of the tunnel interface.
    tunnel: [u8; 6],
}

impl Maker {
    /// For records of this peer, which is where it is configured to be, and frames from the tunnel interface with this
    /// MAC address.
    pub fn new(peer: Peer, tunnel: [u8; 6]) -> Maker {
        Maker {
            peer,
            id: 100_000,
            last: Vec::new(),
            alone: 0,
            twice: 1,
            tunnel,
        }
    }

    fn seal(&self, word: HeaderWord, id: u32, inner: &[u8]) -> Vec<u8> {
        let key = &self.peer.keys[0].decrypt;
        craft::record(Cipher::Aes128Gcm, &key.key, &key.tail, word, id, inner)
    }

    /// The next authentic record.
    pub fn authentic(&mut self, inner: &[u8]) -> Vec<u8> {
        self.id += 1;
        self.last = self.seal(self.word(), self.id, inner);
        self.last.clone()
    }

    fn word(&self) -> HeaderWord {
        HeaderWord::data_v2(0, self.peer.id)
    }

    pub fn good(&self, len: usize) -> Vec<u8> {
        inner_v4(vpn(0), OWN, len, self.id)
    }

    /// UDP to the listening address.
    pub fn udp(&self, payload: &[u8]) -> Frame {
        let to: SocketAddr = LISTEN.parse().expect("an address");
        let macs = ([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]);
        Frame::udp(self.peer.remote, to)
            .macs(macs.0, macs.1)
            .payload(payload)
    }

    /// From the NIC.
    pub fn inbound(&mut self, reason: &str, n: usize) -> Vec<u8> {
        let (word, never) = (self.word(), 0x7000_0000 + n as u32);
        let record = match reason {
            "unknown_peer" => self.seal(HeaderWord::data_v2(0, 0x777), never, &[0x45; 60]),
            "no_key" => self.seal(HeaderWord::data_v2(5, word.peer_id()), never, &[0x45; 60]),
            "bad_tag" => {
                let mut record = self.seal(word, never, &self.good(60 + n % 1000));
                record[8 + n % 16] ^= 1;
                record
            }
            "replay_zero" => self.seal(word, 0, &self.good(60)),
            "replay_old" => self.seal(word, 1 + n as u32 % 1000, &self.good(60)),
            "replay_duplicate" => self.last.clone(),
            "too_short" => vec![0x48; n % 4],
            "data_v1" => vec![6 << 3; 60],
            "short_record" => self.last[..4 + n % 20].to_vec(),
            "not_ip" => self.authentic(&[0x15; 60]),
            "empty" => self.authentic(&[]),
            "bad_source" => self.authentic(&inner_v4(Ipv4Addr::new(10, 9, 9, 9), OWN, 60, 1)),
            "tunnel_mtu" => self.authentic(&self.good(1401)),
            _ => self.last.clone(),
        };
        let udp = self.udp(&record);
        match reason {
            // From where no peer is.
            "unknown_address" => {
                let record = self.seal(HeaderWord::data_v2(0, 0xff_ffff), never, &[0x45; 60]);
                self.udp(&record).ports(9, 1194).build()
            }
            "ip_length" => udp.ip_len(1999).build(),
            "udp_length" => udp.udp_len(1999).build(),
            "ip_checksum" => udp.ip_checksum(Checksum::Wrong).build(),
            "udp_checksum" => udp.udp_checksum(Checksum::Wrong).build(),
            "host_mtu" => {
                let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5][..], &[0; 1586]].concat();
                frame.truncate(1530 + n % 70);
                frame
            }
            // The first one alone; the first one twice: both go at once.
            "fragment_timeout" => {
                self.alone += 1;
                self.first_fragment(self.alone)
            }
            "fragment_refused" => {
                self.twice += 1;
                self.first_fragment(0x8000 | (self.twice / 2))
            }
            _ => udp.build(),
        }
    }

    fn first_fragment(&self, datagram: u16) -> Vec<u8> {
        self.udp(&[0x48; 64]).id(datagram).fragment(0, true).build()
    }

    /// From the kernel's side of the tunnel.
    pub fn outbound(&self, reason: &str, n: usize) -> Vec<u8> {
        let of = |peer: u32| [&[2, 0x6f, 0x76, 0][..], &peer.to_be_bytes()[2..]].concat();
        let plain = inner_v4(OWN, vpn(0), 40 + n % 1300, n as u32);
        let (to, kind, packet) = match reason {
            "unknown_mac" => (of(0x777), 0x0800, plain),
            "broadcast" => (
                vec![0xff; 6],
                0x0800,
                inner_v4(OWN, Ipv4Addr::new(10, 8, 255, 255), 60, 1),
            ),
            "multicast" => (
                vec![1, 0, 0x5e, 0, 0, 5],
                0x0800,
                inner_v4(OWN, Ipv4Addr::new(224, 0, 0, 5), 60, 1),
            ),
            "not_ip_frame" => (of(0), 0x88b5, plain),
            "tunnel_length" => (of(0), 0x0800, plain[..30].to_vec()),
            "own_outer" => (of(0), 0x0800, self.to_own_remote()),
            "no_primary" => (of(NO_PRIMARY), 0x0800, plain),
            "no_remote" => (of(NO_REMOTE), 0x0800, plain),
            "no_neighbour" => (of(NO_NEIGHBOUR), 0x0800, plain),
            "no_packet_id" => (of(NO_PACKET_ID), 0x0800, plain),
            other => panic!("{other}"),
        };
        [&to[..], &self.tunnel, &u16::to_be_bytes(kind), &packet].concat()
    }

    /// An inner packet to the outer address and port of the peer.
    fn to_own_remote(&self) -> Vec<u8> {
        Frame::udp(([10, 8, 0, 1], 9).into(), self.peer.remote)
            .payload(&[0; 40])
            .build()[14..]
            .to_vec()
    }

    /// From the kernel's side of the NIC: longer than a frame with two tags.
    pub fn host(&self, n: usize) -> Vec<u8> {
        let head = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
        [&head[..], &vec![0; 1509 + n % 90]].concat()
    }
}

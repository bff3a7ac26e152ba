//! Datagrams that no peer sent: forged, replayed and malformed ones, of which each has to end as its kind says.

#![allow(dead_code, reason = "no test uses all of it")]

use crate::daemon::{Daemon, HOST, Machine, port};
use crate::gateway::{Gateway, mac};
use nf_path::twin::craft::{Checksum, Frame, fragment_v6};
use nf_wire::record::HeaderWord;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The payload of OpenVPN's own message by which a peer says that it leaves, behind the header of a record: the magic of
/// occ.h's messages and OCC_EXIT, in place of tag and ciphertext.
const EXIT: [u8; 17] = [
    0x28, 0x7f, 0x34, 0x6b, 0xd4, 0xef, 0x7a, 0x81, 0x2d, 0x56, 0xb8, 0xd3, 0xaf, 0xc5, 0x45, 0x9c, 6,
];
/// Where the UDP payload begins in a frame over IPv4.
const PAYLOAD: usize = 42;

/// What is sent, in turn, and where it is counted: the first words of names of drop reasons, or a counter.
pub const KINDS: [(&str, &str); 16] = [
    ("forged", "bad_tag"),
    ("exit", "bad_tag"),
    ("replayed", "replay"),
    ("unknown peer", "unknown_peer"),
    ("undefined peer", "unknown_address"),
    ("other key", "no_key"),
    ("short record", "short_record"),
    ("a few bytes", "too_short"),
    ("old format", "data_v1"),
    ("IP length", "ip_length"),
    ("UDP length", "udp_length"),
    ("IP checksum", "ip_checksum"),
    ("first fragment", "fragment_"),
    ("fragment twice", "fragment_"),
    ("in fragments", "fragment_"),
    ("control", "to_daemon"),
];

/// Somebody who has seen all that a client sent, and can send from its address.
pub struct Attacker {
    /// The client over IPv4, and the one over IPv6.
    addresses: [SocketAddr; 2],
    macs: [[u8; 6]; 2],
    word: HeaderWord,
    /// What the first one sent.
    seen: Vec<Vec<u8>>,
}

/// The server's address and port.
fn server(v6: bool) -> SocketAddr {
    let text = if v6 { "2001:db8::1" } else { "192.0.2.1" };
    SocketAddr::new(text.parse().expect("an address"), port(0))
}

/// A client's outer address and port, and the first word of its records with the key of its first handshake, as the gateway of
/// its server knows them: the daemon's status file has IPv6 addresses without ports.
pub fn known(machine: &Machine, client: &Daemon) -> (SocketAddr, HeaderWord) {
    let status = machine.status();
    let peer = status.peer("ovpn0", &client.vpn(false).to_string());
    let remote = peer["remote"].as_str().unwrap_or_else(|| panic!("{peer}"));
    let id = peer["id"].as_u64().unwrap_or_else(|| panic!("{peer}"));
    let remote = remote.parse().unwrap_or_else(|e| panic!("{e}: {remote}"));
    (remote, HeaderWord::data_v2(0, id as u32))
}

/// A record's bytes with OpenVPN's message for "I leave" where ciphertext should be.
pub fn exit_message(word: HeaderWord) -> Vec<u8> {
    [&word.0.to_be_bytes()[..], &[0xff, 0xff, 0xff, 0xf0], &EXIT].concat()
}

/// Whether a frame is a record over IPv4 from this address.
pub fn is_record_of(frame: &[u8], source: SocketAddr) -> bool {
    let from = match source {
        SocketAddr::V4(v4) => [&v4.ip().octets()[..], &[192, 0, 2, 1], &v4.port().to_be_bytes()].concat(),
        SocketAddr::V6(_) => return false,
    };
    frame.len() > PAYLOAD && frame[26..36] == from && frame[PAYLOAD] >> 3 == 9
}

/// A datagram from a client's address to the server's.
pub fn datagram(from: &Machine, source: SocketAddr, to: &Machine) -> Frame {
    let mac = |machine: &Machine| machine.namespace.enter(|| mac(HOST));
    Frame::udp(source, server(source.is_ipv6())).macs(mac(from), mac(to))
}

impl Attacker {
    /// On these two clients of the server, with records that the first one sent.
    pub fn new(server: &Machine, clients: [&Daemon; 2], seen: Vec<Vec<u8>>) -> Attacker {
        let mac = |machine: &Machine| machine.namespace.enter(|| mac(HOST));
        assert!(
            seen.iter().any(|frame| frame.len() > PAYLOAD + 60),
            "no record of a packet"
        );
        let known = clients.map(|client| known(server, client));
        Attacker {
            addresses: known.map(|(address, _)| address),
            macs: [mac(clients[0].machine), mac(server)],
            word: known[0].1,
            seen,
        }
    }

    fn udp(&self, v6: bool, payload: &[u8]) -> Frame {
        let [source, destination] = self.macs;
        Frame::udp(self.addresses[usize::from(v6)], server(v6))
            .macs(source, destination)
            .payload(payload)
    }

    /// A record that somebody sent, with this first word, and a packet id that nobody has used.
    fn record(&self, word: HeaderWord, n: usize) -> Vec<u8> {
        let mut record = self.seen[n % self.seen.len()][PAYLOAD..].to_vec();
        record[..4].copy_from_slice(&word.0.to_be_bytes());
        record[4..8].copy_from_slice(&(0x7000_0000 + n as u32).to_be_bytes());
        record
    }

    /// The frames of the `n`th one of a kind.
    pub fn frames(&self, kind: &str, n: usize) -> Vec<Vec<u8>> {
        let (word, peer) = (self.word, self.word.peer_id());
        let forged = self.record(word, n);
        let whole = |payload: &[u8]| self.udp(false, payload);
        let frame = match kind {
            "forged" if n.is_multiple_of(2) => whole(&forged),
            "forged" => {
                // One bit of what was sent, not of its first word; packet ids stay clear of the window's.
                let mut record = forged;
                let at = 5 + n % (record.len() - 5);
                record[at] ^= 1 << (n % 8);
                whole(&record)
            }
            "exit" => whole(&exit_message(word)),
            "replayed" => return vec![self.seen[n % self.seen.len()].clone()],
            "unknown peer" => whole(&self.record(HeaderWord::data_v2(0, 0x777 + n as u32 % 1000), n)),
            // Where nobody is.
            "undefined peer" => whole(&self.record(HeaderWord::data_v2(0, 0xff_ffff), n)).ports(9, port(0)),
            "other key" => whole(&self.record(HeaderWord::data_v2(1 + n as u8 % 7, peer), n)),
            "short record" => whole(&forged[..4 + n % 20]),
            "a few bytes" => whole(&forged[..n % 4]),
            "old format" => {
                whole(&[&[(6 << 3) | (n as u8 % 8)], &forged[..n % forged.len()], &[0; 3]].concat())
            }
            "IP length" => whole(&forged).ip_len([0, 19, 1999, 65535][n % 4]),
            "UDP length" => whole(&forged).udp_len([0, 7, 1999, 65535][n % 4]),
            "IP checksum" => whole(&forged).ip_checksum(Checksum::Wrong),
            "first fragment" => return self.in_fragments(&forged, 3 * n)[..1].to_vec(),
            "fragment twice" => {
                let first = self.in_fragments(&forged, 3 * n + 1).swap_remove(0);
                return vec![first.clone(), first];
            }
            "in fragments" => return self.in_fragments(&forged, 3 * n + 2),
            "control" => whole(&garbage(n)),
            other => panic!("{other}"),
        };
        vec![frame.build()]
    }

    /// Over IPv6: the kernel puts IPv4 fragments together before a NIC port of its packet sockets sees them.
    fn in_fragments(&self, record: &[u8], id: usize) -> Vec<Vec<u8>> {
        let mut long = record.to_vec();
        long.resize(200, 0x55);
        let frames = fragment_v6(&self.udp(true, &long).build(), 40 + 8 + 104, id as u32);
        assert_eq!(frames.len(), 2);
        frames
    }
}

/// What is neither DATA_V1 nor DATA_V2, and of every other opcode: the daemon's.
fn garbage(n: usize) -> Vec<u8> {
    let opcodes = (0..32).filter(|opcode| ![6, 9].contains(opcode));
    let opcodes: Vec<u8> = opcodes.collect();
    let len = 3 + fastrand::usize(..600);
    let tail = std::iter::repeat_with(|| fastrand::u8(..)).take(len);
    let first = (opcodes[n % opcodes.len()] << 3) | (n as u8 % 8);
    [first].into_iter().chain(tail).collect()
}

/// Counts by where a kind is counted: what names of drop reasons begin with, and `to_daemon`.
pub fn fold(drops: &BTreeMap<String, u64>) -> BTreeMap<&'static str, u64> {
    let mut folded = BTreeMap::new();
    for (reason, count) in drops {
        let found = KINDS.iter().find(|(_, place)| reason.starts_with(place));
        if let Some((_, place)) = found {
            *folded.entry(*place).or_default() += count;
        }
    }
    folded
}

/// Counters of drops, and of what went to the daemon.
pub type Counts = BTreeMap<String, u64>;

/// Now.
pub fn counts(gateway: &Gateway) -> Counts {
    let drops = gateway.telemetry("/ovpn/drops");
    let drops = drops.as_object().expect("an object");
    let mut counts: Counts = drops
        .iter()
        .map(|(name, n)| (name.clone(), n.as_u64().expect("a number")))
        .collect();
    let lcores = gateway.telemetry("/ovpn/lcores");
    for name in ["to_daemon", "fragments", "reassembled"] {
        counts.insert(name.into(), lcores[name][0].as_u64().expect("a number"));
    }
    counts
}

/// What they are more, without those that are not.
pub fn grown(before: &Counts, now: &Counts) -> Counts {
    let pairs = now.iter().map(|(name, n)| (name.clone(), n - before[name]));
    pairs.filter(|(_, n)| *n > 0).collect()
}

/// Frames of the attack that the gateway has taken so far, if no fragment is counted as dropped before it has come.
pub fn taken(grown: &Counts) -> u64 {
    let of = |name: &str| grown.get(name).copied().unwrap_or_default();
    let folded = fold(grown);
    let dropped: u64 = folded
        .iter()
        .filter(|(place, _)| **place != "fragment_")
        .map(|(_, n)| n)
        .sum();
    dropped + of("fragments") - of("reassembled")
}

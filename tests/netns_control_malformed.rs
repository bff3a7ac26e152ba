//! What is malformed, over the control socket: it is answered, or the connection ends, and nothing else comes of it. Keys are
//! in no log and no answer.

#[path = "support/control.rs"]
mod control;
#[path = "support/gateway.rs"]
mod gateway;

use control::golden;
use control::message::{kind, message, seq, set_seq, u16_at};
use control::{Bed, Client, Family, Got, Key, New, TUNNELS, get_key, link_delete, link_new};
use gateway::{in_namespace, wait_for};
use ovpn_dco_protocol::{AGAIN, GENERIC, ROUTE, STATUS};
use std::collections::HashMap;
use std::net::UdpSocket;
use std::os::fd::AsFd;

/// A peer where the bed expects it, with a key.
#[track_caller]
fn peer(client: &mut Client, id: u32, socket: &UdpSocket) -> Key {
    client.new_peer(&New::of(id), socket).done();
    let key = Key::random(0);
    let request = client.family.new_key(client.index, id, 0, &key);
    client.ask(&request, &[]).done();
    key
}

/// What is sent on a connection of a client that drives an interface, and what came of it.
struct Spoiler<'b> {
    bed: &'b Bed,
    /// None while another one is being made.
    client: Option<Client>,
    cookie: u32,
    answers: HashMap<u16, u32>,
    closed: u32,
}

impl Spoiler<'_> {
    /// Sends it. It has to be answered, or the connection to end, if it asks for an answer; another packet is answered then.
    fn send(&mut self, protocol: u32, bytes: &[u8], must_answer: bool) {
        self.cookie += 1;
        let mut cookie = Family::Ovpn.dump(0x7777_7777);
        set_seq(&mut cookie, self.cookie);
        let udp = [self.bed.udp.as_fd()];
        let fds = if protocol == GENERIC { &udp[..] } else { &[] };
        let client = self.client.as_ref().expect("there is one");
        let socket = match protocol {
            GENERIC => &client.generic,
            _ => &client.lifeline,
        };
        let mut answers = 0;
        let again = message(AGAIN, 1, &cookie);
        let alive = socket.send(bytes, fds) && socket.send(&again, &[]);
        let ended = loop {
            match socket.receive(gateway::PATIENCE) {
                Got::Packet(packet, _) if packet == cookie => break false,
                Got::Packet(packet, _) => {
                    *self.answers.entry(kind(&packet)).or_default() += 1;
                    // Notifications are no answer.
                    answers += u32::from(seq(&packet) != 0 || kind(&packet) < 16);
                }
                Got::End => break true,
                Got::Nothing => panic!("no answer to {bytes:02x?}"),
            }
        };
        assert!(alive || ended);
        assert!(!must_answer || ended || answers > 0, "no answer to {bytes:02x?}");
        if ended {
            self.closed += 1;
            self.client = None;
            self.client = Some(spoiler(self.bed));
        }
    }
}

/// A client of many peers, whichever family a message is of.
fn spoiler(bed: &Bed) -> Client {
    let mut client = bed.client(Family::Ovpn);
    wait_for("the interface", || {
        client.link(&link_new(TUNNELS[0], "ovpn", Some(1))).code() == 0
    });
    client
}

/// The daemons' messages about `tun0`, with their protocols.
fn messages(bed: &Bed) -> Vec<(u32, Vec<u8>)> {
    let lines = golden::lines();
    let all = lines.iter().filter(|l| l.dir != "to_daemon").map(|line| {
        let mut bytes = line.bytes.clone();
        if line.what.starts_with("RTM") {
            bytes[20..24].copy_from_slice(&bed.index[0].to_ne_bytes());
            (ROUTE, bytes)
        } else {
            if kind(&bytes) != 16 {
                assert!(control::message::put(
                    &mut bytes,
                    20,
                    &[1],
                    &bed.index[0].to_ne_bytes()
                ));
            }
            (GENERIC, bytes)
        }
    });
    all.collect()
}

/// 10,000 of them; the gateway's memory after 2000, in kilobytes.
fn mutations(spoiler: &mut Spoiler, messages: &[(u32, Vec<u8>)], random: &mut fastrand::Rng) -> usize {
    let mut warm = 0;
    for n in 0..10_000 {
        let (protocol, bytes) = &messages[random.usize(..messages.len())];
        let mut bytes = bytes.clone();
        for _ in 0..1 + random.usize(..4) {
            let at = random.usize(..bytes.len());
            bytes[at] = match random.u8(..4) {
                0 => 0,
                1 => 0xff,
                2 => bytes[at] ^ 1 << random.u8(..8),
                _ => random.u8(..),
            };
        }
        // Below 16 are netlink's own messages and the socket's, not all of which are answered.
        let asks = u16_at(&bytes, 6) & 4 != 0 && kind(&bytes) >= 16;
        spoiler.send(*protocol, &bytes, asks);
        if n == 2000 {
            warm = spoiler.bed.resources().0;
        }
    }
    warm
}

#[test]
fn malformed() {
    in_namespace("malformed", || {
        let mut bed = Bed::start();
        let messages = messages(&bed);
        assert!(messages.len() > 50, "{}", messages.len());
        let (_, open) = bed.resources();
        let seed = fastrand::u64(..);
        println!("\nseed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut spoiler = Spoiler {
            client: Some(spoiler(&bed)),
            bed: &bed,
            cookie: 0,
            answers: HashMap::new(),
            closed: 0,
        };
        // Cut off at every byte, with the length as it was and as it is.
        for (protocol, bytes) in &messages {
            for len in 1..bytes.len() {
                let mut cut = bytes[..len].to_vec();
                spoiler.send(*protocol, &cut, true);
                if let Some(length) = cut.get_mut(..4) {
                    length.copy_from_slice(&(len as u32).to_ne_bytes());
                    spoiler.send(*protocol, &cut, len > 16);
                }
            }
        }
        let warm = mutations(&mut spoiler, &messages, &mut random);
        let (after, _) = bed.resources();
        println!(
            "answers by type: {:?}, {} closed",
            spoiler.answers, spoiler.closed
        );
        assert!(spoiler.answers[&2] > 1000 && spoiler.closed > 0);
        assert!(after < warm + (16 << 10), "{warm} KiB, then {after} KiB");
        drop(spoiler);
        wait_for("all to be closed", || bed.resources().1 <= open);
        // As if nothing had been.
        let mut client = bed.client(Family::DcoV2);
        wait_for("the interface", || {
            client.link(&link_new(TUNNELS[0], "ovpn-dco", Some(1))).code() == 0
        });
        bed.up(TUNNELS[0], &["10.8.0.1/16"]);
        let mut key = peer(&mut client, 1, &bed.udp);
        let inside = bed.inside();
        bed.carries_in(&inside, 1, &mut key);
        bed.carries_out(&inside, 1, &key);
        bed.end();
    });
}

/// Neither the log nor a packet has a part of a key.
fn nobody_knows(secrets: &[Key], log: &str, told: &[Vec<u8>]) {
    for key in secrets {
        let both = [&key.encrypt, &key.decrypt];
        for bytes in both.iter().flat_map(|m| [&m.key[..], &m.tail]) {
            // Four bytes in any way in which they could be written.
            for part in bytes.windows(4) {
                let hex: Vec<String> = part.iter().map(|b| format!("{b:02x}")).collect();
                let short: Vec<String> = part.iter().map(|b| format!("{b:x}")).collect();
                let decimal: Vec<String> = part.iter().map(|b| b.to_string()).collect();
                for text in [hex.concat(), hex.join(" "), short.join(", "), decimal.join(", ")] {
                    // Too short to mean anything, such as "0, 1, 2, 3".
                    assert!(text.len() < 8 || !log.contains(&text), "{text}: {log}");
                }
            }
            for packet in told {
                assert!(
                    packet.windows(8).all(|w| !bytes.windows(8).any(|b| b == w)),
                    "{packet:02x?}"
                );
            }
        }
    }
}

/// Keys that are refused, for every reason there is; the answers.
fn refused(client: &mut Client, secrets: &mut Vec<Key>) -> Vec<Vec<u8>> {
    let (family, mut told) = (client.family, Vec::new());
    let good = Key::random(9);
    let mut short = Key::random(2);
    short.encrypt.key.truncate(31);
    let mut long = Key::random(3);
    long.decrypt.key.extend([7; 60]);
    let other = Key::random(4);
    for (peer, slot, key) in [(1, 0, good), (1, 1, short), (1, 1, long), (77, 0, other)] {
        let request = family.new_key(client.index, peer, slot, &key);
        told.push(client.ask(&request, &[]).last);
        // And cut off, on connections of their own.
        for len in [request.len() - 3, request.len() - 40, 60] {
            let socket = client.open(GENERIC);
            assert!(socket.send(&request[..len], &[]));
            if let Got::Packet(answer, _) = socket.receive(gateway::PATIENCE) {
                told.push(answer);
            }
        }
        secrets.push(key);
    }
    told
}

#[test]
fn keys_are_told_to_nobody() {
    in_namespace("keys_are_told_to_nobody", || {
        let mut bed = Bed::start_with("[log]\nlevel = \"trace\"");
        let mut secrets = Vec::new();
        let mut told = Vec::new();
        for family in Family::BOTH {
            let mut client = bed.server(family);
            let mut key = peer(&mut client, 1, &bed.udp);
            let inside = bed.inside();
            bed.carries_in(&inside, 1, &mut key);
            bed.carries_out(&inside, 1, &key);
            secrets.push(key);
            told.extend(refused(&mut client, &mut secrets));
            let replies = client.ask(&family.get_peer(client.index, 1), &[]).done();
            told.extend(replies);
            if family == Family::Ovpn {
                told.extend(client.ask(&get_key(client.index, 1, 0), &[]).done());
            }
            assert!(client.generic.send(&message(STATUS, 1, &[]), &[]));
            let mut last = 0;
            while last != 3 {
                let (packet, _) = client.generic.packet();
                last = kind(&packet);
                told.push(packet);
            }
            client.link(&link_delete(client.index)).done();
        }
        let log = bed.gateway.stderr().to_lowercase();
        assert!(
            log.contains("key 0") && log.contains("refused"),
            "it is the log: {log}"
        );
        nobody_knows(&secrets, &log, &told);
        bed.end();
    });
}

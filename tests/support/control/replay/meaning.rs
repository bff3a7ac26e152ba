//! What a recorded message is about: changed to be of this test, and kept in mind.

use super::super::message::{GENERIC, attributes, find, put, u32_at};
use super::super::{Family, Key, Material};
use super::{Made, Replay};
use nf_state::Cipher;
use std::net::{IpAddr, SocketAddr};

impl Replay {
    /// Type of the nest, and of the peer id in it.
    pub(super) fn id_path(&self, bytes: &[u8]) -> [u16; 2] {
        let nest = attributes(bytes, GENERIC)[1].0;
        let id = if (self.client.family, nest) == (Family::DcoV2, 4) {
            2
        } else {
            1
        };
        [nest, id]
    }

    /// The scope id is that of the test's interface. With a peer: its id, and as NEW_PEER an address and port of its own.
    pub(super) fn patch(&self, bytes: &mut [u8], peer: Option<u32>) {
        let (dco, scope) = (self.client.family == Family::DcoV2, self.scope.to_ne_bytes());
        let nested = attributes(bytes, GENERIC).len() > 1;
        let is_new = bytes[16] == 1;
        let value = |bytes: &[u8], path: &[u16]| find(bytes, GENERIC, path).map(<[u8]>::to_vec);
        if is_new {
            if let Some(mut remote) = value(bytes, &[2, 2]).filter(|r| r.len() == 28 && r[24..] != [0; 4]) {
                remote[24..].copy_from_slice(&scope);
                put(bytes, GENERIC, &[2, 2], &remote);
            }
            if !dco && value(bytes, &[2, 4]).is_some_and(|s| s != [0; 4]) {
                put(bytes, GENERIC, &[2, 4], &scope);
            }
        }
        let Some(peer) = peer.filter(|_| nested) else {
            return;
        };
        let path = self.id_path(bytes);
        assert!(put(bytes, GENERIC, &path, &peer.to_ne_bytes()));
        if is_new {
            for id in if dco { [4, 5] } else { [8, 9] } {
                if let Some(mut vpn) = value(bytes, &[2, id]) {
                    *vpn.last_mut().expect("an address") += peer as u8;
                    put(bytes, GENERIC, &[2, id], &vpn);
                }
            }
            let port = if dco { 2 } else { 5 };
            let mut with_port = value(bytes, &[2, port]).expect("a port");
            with_port[if dco { 3 } else { 1 }] ^= peer as u8;
            put(bytes, GENERIC, &[2, port], &with_port);
        }
    }

    /// What an accepted message means.
    pub(super) fn keep(&mut self, what: &str, bytes: &[u8]) {
        let family = self.client.family;
        let dco = family == Family::DcoV2;
        let command = what.split([' ', ',']).next().expect("a word");
        if command == "GET_PEER" {
            return;
        }
        let path = self.id_path(bytes);
        let nest = path[0];
        let value = |path: &[u16]| find(bytes, GENERIC, path);
        let peer = u32_at(value(&path).expect("its id"), 0);
        if command == "NEW_PEER" {
            return self.keep_peer(peer, bytes);
        }
        if command == "DEL_PEER" {
            self.peers.remove(&peer);
            return;
        }
        let made = self.peers.get_mut(&peer).expect("made before");
        let slot = usize::from(value(&[nest, 2]).map_or(0, |s| s[0]));
        match command {
            "SET_PEER" => {
                let [interval, timeout] = if dco { [2, 3] } else { [13, 14] };
                let number = |id| u32_at(value(&[nest, id]).expect("both"), 0);
                made.timers = (number(interval), number(timeout));
            }
            "NEW_KEY" => {
                let material = |id| Material {
                    key: value(&[nest, id, 1]).expect("a key").to_vec(),
                    tail: value(&[nest, id, 2])
                        .expect("a tail")
                        .try_into()
                        .expect("eight bytes"),
                };
                let (encrypt, decrypt) = (material(5), material(6));
                let cipher = match (value(&[nest, 4]).expect("an algorithm")[0], encrypt.key.len()) {
                    (2, 32) => Cipher::ChaCha20Poly1305,
                    (1, 16) => Cipher::Aes128Gcm,
                    (1, 24) => Cipher::Aes192Gcm,
                    (1, 32) => Cipher::Aes256Gcm,
                    other => panic!("{other:?}"),
                };
                let id = value(&[nest, 3]).expect("its id")[0];
                made.slots[slot] = Some(Key {
                    id,
                    cipher,
                    encrypt,
                    decrypt,
                    last: 0,
                });
            }
            "SWAP_KEYS" => made.slots.swap(0, 1),
            "DEL_KEY" => made.slots[slot] = None,
            other => panic!("{other}"),
        }
    }

    fn keep_peer(&mut self, peer: u32, bytes: &[u8]) {
        let ip = |value: &[u8]| match value.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(value).expect("four bytes")),
            _ => IpAddr::from(<[u8; 16]>::try_from(value).expect("sixteen bytes")),
        };
        let dco = self.client.family == Family::DcoV2;
        let value = |id| find(bytes, GENERIC, &[2, id]).map(ip);
        let remote = self.remote(bytes).expect("UDP");
        let given = if dco { value(6) } else { value(10).or(value(11)) };
        let own = match (remote, self.plan.client) {
            (SocketAddr::V6(v6), _) if v6.ip().is_unicast_link_local() => "fe80::1",
            (SocketAddr::V6(_), false) => "fd99::1",
            (SocketAddr::V6(_), true) => "fd99::2",
            (SocketAddr::V4(_), false) => "192.168.99.1",
            (SocketAddr::V4(_), true) => "192.168.99.3",
        };
        let socket = if remote.is_ipv4() {
            self.sockets.first()
        } else {
            self.sockets.last()
        };
        let vpn = if dco {
            [value(4), value(5)]
        } else {
            [value(8), value(9)]
        };
        self.bed.neighbour(&remote.ip().to_string());
        let made = Made {
            remote,
            local: given.unwrap_or_else(|| own.parse().expect("an address")),
            port: socket.and_then(|s| s.local_addr().ok()).expect("bound").port(),
            vpn: vpn.into_iter().flatten().collect(),
            timers: (0, 0),
            slots: [None, None],
            counts: [[0; 2]; 2],
        };
        if self.plan.client {
            self.peers.clear();
        }
        self.peers.insert(peer, made);
    }
}

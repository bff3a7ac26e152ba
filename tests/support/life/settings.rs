//! What a gateway is configured to be: peers, keys, files.

#![allow(dead_code, reason = "no test uses all of it")]

use super::{LISTEN, NIC, vpn};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// AES-128-GCM key and nonce tail of one direction.
#[derive(Clone)]
pub struct Material {
    /// The key.
    pub key: [u8; 16],
    /// The nonce tail.
    pub tail: [u8; 8],
}

impl Material {
    fn random() -> Material {
        Material {
            key: std::array::from_fn(|_| fastrand::u8(..)),
            tail: std::array::from_fn(|_| fastrand::u8(..)),
        }
    }

    fn json(&self) -> Value {
        let hexadecimal = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        json!({ "key": hexadecimal(&self.key), "nonce_tail": hexadecimal(&self.tail) })
    }
}

/// A static key, as the gateway has it.
#[derive(Clone)]
pub struct StaticKey {
    /// Key id.
    pub id: u8,
    /// What the gateway seals under.
    pub encrypt: Material,
    /// What it opens under.
    pub decrypt: Material,
}

impl StaticKey {
    /// A new one.
    pub fn random(id: u8) -> StaticKey {
        StaticKey {
            id,
            encrypt: Material::random(),
            decrypt: Material::random(),
        }
    }
}

/// A peer, as configured.
#[derive(Clone)]
pub struct Peer {
    /// Peer id.
    pub id: u32,
    /// Its keys, the primary one first.
    pub keys: Vec<StaticKey>,
    /// Where it is.
    pub remote: SocketAddr,
    /// Its VPN addresses.
    pub addresses: Vec<String>,
    /// More lines of `[[tunnel.peer]]`.
    pub more: String,
}

impl Peer {
    /// A peer with one new key.
    pub fn new(id: u32) -> Peer {
        Peer {
            id,
            keys: vec![StaticKey::random(0)],
            remote: SocketAddr::from(([192, 0, 2, 2], 4000 + id as u16)),
            addresses: vec![vpn(id).to_string()],
            more: String::new(),
        }
    }

    fn toml(&self) -> String {
        let Peer {
            id,
            remote,
            addresses,
            more,
            ..
        } = self;
        format!("[[tunnel.peer]]\nid = {id}\nremote = \"{remote}\"\naddresses = {addresses:?}\n{more}\n")
    }
}

/// What a gateway is configured to be.
#[derive(Clone)]
pub struct Settings {
    /// The NIC port: an EAL argument, and the port's name.
    pub port: [String; 2],
    /// More lines of the top level; the state file is added.
    pub general: String,
    /// More lines of `[nic]`.
    pub nic: String,
    /// Where it listens.
    pub listen: Vec<String>,
    /// More lines of `[[tunnel]]`.
    pub tunnel: String,
    /// The peers.
    pub peers: Vec<Peer>,
    /// The state file; relative to the configuration unless it begins with `/`.
    pub state_file: String,
}

impl Settings {
    /// With so many peers, from peer id 0 on.
    pub fn with_peers(n: u32) -> Settings {
        let vdev = format!("--vdev=net_af_packet0,iface={NIC},blocksz=65536,framesz=2048,framecnt=4096");
        Settings {
            port: [vdev, "net_af_packet0".into()],
            general: String::new(),
            nic: String::new(),
            listen: vec![LISTEN.into()],
            tunnel: String::new(),
            peers: (0..n).map(Peer::new).collect(),
            state_file: "ids".into(),
        }
    }

    /// The configuration, but for the name.
    pub fn config(&self) -> String {
        let Settings {
            port: [vdev, port],
            general,
            nic,
            listen,
            tunnel,
            peers,
            state_file,
        } = self;
        let peers: String = peers.iter().map(Peer::toml).collect();
        format!(
            "eal = [\"{vdev}\"]\n\
             idle_sleep_us = 50\ninsecure_static_keys = true\nstate_file = \"{state_file}\"\n{general}\n\
             [nic]\nport = \"{port}\"\n{nic}\n[host]\nkind = \"tap\"\ninterface = \"wan0\"\n\
             [[tunnel]]\nkind = \"tap\"\ninterface = \"ovpn0\"\nlisten = {listen:?}\nkeys_file = \"keys.json\"\n\
             {tunnel}\n{peers}"
        )
    }

    /// The keys file.
    pub fn keys(&self) -> String {
        let of_peer = |p: &Peer| {
            let id = p.id;
            let entry = move |k: &StaticKey| json!({ "peer_id": id, "key_id": k.id, "cipher": "AES-128-GCM", "encrypt": k.encrypt.json(), "decrypt": k.decrypt.json() });
            p.keys.iter().map(entry).collect::<Vec<_>>()
        };
        json!({ "keys": self.peers.iter().flat_map(of_peer).collect::<Vec<_>>() }).to_string()
    }
}

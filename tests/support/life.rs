//! One gateway between a veth pair and the kernel, with the test as everything beyond: it seals and opens the records
//! of every peer itself, frame by frame.
//!
//! In one namespace: `far0` (the test) - `nic0` (NIC port by net_af_packet), `wan0` (host port, 192.0.2.1) and `ovpn0`
//! (tunnel port, 10.8.0.1). Peer `p` has the outer address 192.0.2.2, port 4000 + `p`, and the VPN address that
//! [`vpn`] gives.

#![allow(dead_code, reason = "no test uses all of it")]

use crate::gateway::{Gateway, PATIENCE, Wire, ip, mac, wait_for};
use nf_path::aead::Aead;
use nf_path::twin::craft::{self, Frame};
use nf_path::twin::{SoftAead, SoftKey};
use nf_state::Cipher;
use nf_wire::record::{HeaderWord, nonce};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The interface that the NIC port reads.
pub const NIC: &str = "nic0";
/// Its other end.
pub const FAR: &str = "far0";
/// Where the gateway listens, unless said otherwise.
pub const LISTEN: &str = "192.0.2.1:1194";
/// The gateway's own VPN address.
pub const OWN: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);
/// UDP ports of the packets that [`craft::inner_v4`] makes: source and destination.
pub const PORTS: (u16, u16) = (0x0fa1, 0x0fa2);

/// The VPN address of a peer.
pub fn vpn(peer: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(OWN.to_bits() + 9 + peer)
}

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
        Settings {
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
            general,
            nic,
            listen,
            tunnel,
            peers,
            state_file,
        } = self;
        let peers: String = peers.iter().map(Peer::toml).collect();
        format!(
            "eal = [\"--vdev=net_af_packet0,iface={NIC},blocksz=65536,framesz=2048,framecnt=4096\"]\n\
             idle_sleep_us = 50\ninsecure_static_keys = true\nstate_file = \"{state_file}\"\n{general}\n\
             [nic]\nport = \"net_af_packet0\"\n{nic}\n[host]\nkind = \"tap\"\ninterface = \"wan0\"\n\
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
        let Material { key: secret, tail } = &key.decrypt;
        let word = HeaderWord::data_v2(key.id, peer.id);
        craft::record(Cipher::Aes128Gcm, secret, tail, word, *next, inner)
    }

    /// Sends a UDP payload from an address to one of the gateway's.
    pub fn send_from(&mut self, from: SocketAddr, to: SocketAddr, payload: &[u8]) {
        let frame = Frame::udp(from, to).macs(self.mac, self.nic).payload(payload).build();
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
            let Some(frame) = self.whole(frame).filter(|_| ours) else {
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

/// A gateway that runs, and all that is beyond it.
pub struct Bed {
    /// The gateway.
    pub gateway: Gateway,
    /// What is beyond.
    pub far: Far,
    /// As configured.
    pub settings: Settings,
}

impl Bed {
    /// Makes the interfaces, starts the gateway and gives it its addresses.
    pub fn start(settings: Settings) -> Bed {
        veth();
        Bed::start_on(settings)
    }

    /// The same, where the veth pair is there already.
    pub fn start_on(settings: Settings) -> Bed {
        let gateway = Gateway::spawn_in(None, &settings.config(), &settings.keys(), &[]).ready();
        set_addresses();
        Bed {
            gateway,
            far: Far::new(),
            settings,
        }
    }

    /// A socket that sends from and receives at the gateway's VPN address and the port where peers' packets go.
    pub fn socket(&self) -> UdpSocket {
        let socket = UdpSocket::bind((OWN, PORTS.1)).expect("ovpn0 has the address");
        socket.set_nonblocking(true).expect("a socket");
        socket
    }

    /// Waits until a packet to this peer leaves; all that left so far.
    pub fn connected(&mut self, peer: u32) -> Vec<Opened> {
        self.far.connected(&self.settings.peers, peer)
    }

    /// Sends so many numbered packets of 1000 bytes to a peer, at a rate that nothing drops.
    pub fn send(&self, socket: &UdpSocket, peer: u32, n: u32) {
        send_numbered(socket, peer, 0..n);
    }

    /// Writes the files anew, sends SIGHUP and gives the log line about it.
    pub fn reload(&self) -> String {
        let name = &self.gateway.name;
        let text = format!("name = \"{name}\"\n{}", self.settings.config());
        self.reload_with(&text, &self.settings.keys())
    }

    /// The same with these texts.
    pub fn reload_with(&self, config: &str, keys: &str) -> String {
        let folder = self.gateway.folder.path();
        fs::write(folder.join("gw.toml"), config).expect("our own folder");
        fs::write(folder.join("keys.json"), keys).expect("our own folder");
        let before = self.said("SIGHUP:").len();
        self.gateway.signal("HUP");
        wait_for("a word on SIGHUP", || self.said("SIGHUP:").len() > before);
        self.said("SIGHUP:").pop().expect("waited for")
    }

    /// The log lines with this text in them.
    pub fn said(&self, text: &str) -> Vec<String> {
        let log = self.gateway.stderr();
        log.lines().filter(|l| l.contains(text)).map(String::from).collect()
    }

    /// SIGTERM: it ends in order and leaves nothing.
    pub fn end(self) {
        let name = self.gateway.terminate();
        crate::gateway::no_files_left(&name);
        for interface in ["wan0", "ovpn0"] {
            assert!(!crate::gateway::interface_exists(interface), "{interface} is left");
        }
    }
}

/// The veth pair, both ends up and without addresses.
pub fn veth() {
    ip(&["link", "add", NIC, "type", "veth", "peer", "name", FAR]);
    for end in [NIC, FAR] {
        ip(&["link", "set", end, "txqueuelen", "20000", "up"]);
    }
}

/// The addresses of the gateway's interfaces, and the way to everything beyond.
pub fn set_addresses() {
    ip(&["address", "add", "192.0.2.1/24", "dev", "wan0"]);
    ip(&["address", "add", "10.8.0.1/16", "dev", "ovpn0"]);
    let far: Vec<String> = mac(FAR).iter().map(|b| format!("{b:02x}")).collect();
    let far = far.join(":");
    ip(&["neighbour", "replace", "192.0.2.2", "lladdr", &far, "dev", "wan0", "nud", "permanent"]);
}

/// `run` as a bare process, for what [`Gateway`] does not do: a name that was used before, an end that is a failure.
pub struct Process {
    child: Child,
    folder: TempDir,
}

impl Process {
    /// Starts it with this name.
    pub fn start(name: &str, settings: &Settings) -> Process {
        Process::start_with(&format!("name = \"{name}\"\n{}", settings.config()), &settings.keys())
    }

    /// Starts it with these files.
    pub fn start_with(config: &str, keys: &str) -> Process {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("gw.toml"), config).expect("a new folder");
        fs::write(path("keys.json"), keys).expect("a new folder");
        let file = |name: &str| fs::File::create(path(name)).expect("a new folder");
        let child = Command::new(env!("CARGO_BIN_EXE_ovpn-dpdk"))
            .args(["run", "--config"])
            .arg(path("gw.toml"))
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .expect("the program starts");
        Process { child, folder }
    }

    /// What it logged.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.folder.path().join("err")).expect("its log")
    }

    /// Waits until packets flow.
    pub fn ready(mut self) -> Process {
        let out = self.folder.path().join("out");
        wait_for("ready", || {
            let ended = self.child.try_wait().expect("a child");
            assert!(ended.is_none(), "{}", self.stderr());
            fs::read_to_string(&out).is_ok_and(|out| out.contains("ready"))
        });
        self
    }

    /// Waits for its end: exit code, and the one line on stderr that is no log line.
    pub fn failed(mut self) -> (i32, String) {
        let mut status = None;
        wait_for("its end", || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        let text = self.stderr();
        let is_log = |l: &&str| l.starts_with("20") && l.as_bytes().get(10) == Some(&b'T');
        let lines: Vec<_> = text.lines().filter(|l| !is_log(l)).collect();
        assert_eq!(lines.len(), 1, "one line: {text}");
        let code = status.and_then(|s| s.code()).expect("no signal ended it");
        (code, lines[0].to_owned())
    }

    /// A signal, and its exit code after it.
    pub fn end(mut self, signal: &str) -> Option<i32> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.expect("kill is there").success());
        self.child.wait().expect("a child").code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

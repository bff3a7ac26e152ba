//! One gateway between a veth pair and the kernel, with the test as everything beyond: it seals and opens the records
//! of every peer itself, frame by frame.
//!
//! In one namespace: `far0` (the test) - `nic0` (NIC port by net_af_packet), `wan0` (host port, 192.0.2.1) and `ovpn0`
//! (tunnel port, 10.8.0.1). Peer `p` has the outer address 192.0.2.2, port 4000 + `p`, and the VPN address that
//! [`vpn`] gives.

#![allow(dead_code, unused_imports, reason = "no test uses all of it")]

#[path = "life/far.rs"]
mod far;
#[path = "life/process.rs"]
mod process;
#[path = "life/settings.rs"]
mod settings;

use crate::gateway::{Gateway, ip, mac, wait_for};
pub use far::{Far, Opened, send_numbered};
pub use process::Process;
pub use settings::{Material, Peer, Settings, StaticKey};
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};

/// The interface that the NIC port reads.
pub const NIC: &str = "nic0";
/// Its other end.
pub const FAR: &str = "far0";
/// Where the gateway listens, unless said otherwise.
pub const LISTEN: &str = "192.0.2.1:1194";
/// The gateway's own VPN address.
pub const OWN: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);
/// UDP ports of the packets that `craft::inner_v4` makes: source and destination.
pub const PORTS: (u16, u16) = (0x0fa1, 0x0fa2);

/// The VPN address of a peer.
pub fn vpn(peer: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(OWN.to_bits() + 9 + peer)
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
        log.lines()
            .filter(|l| l.contains(text))
            .map(String::from)
            .collect()
    }

    /// SIGTERM: it ends in order and leaves nothing.
    pub fn end(self) {
        let name = self.gateway.terminate();
        crate::gateway::no_files_left(&name);
        for interface in ["wan0", "ovpn0"] {
            assert!(
                !crate::gateway::interface_exists(interface),
                "{interface} is left"
            );
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
    ip(&[
        "neighbour",
        "replace",
        "192.0.2.2",
        "lladdr",
        &far,
        "dev",
        "wan0",
        "nud",
        "permanent",
    ]);
}

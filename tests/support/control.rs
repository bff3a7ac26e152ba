//! A gateway that is driven over its control socket by the test itself, as a daemon would, and what is beyond it.
//!
//! In one namespace: `far0` (the test) - `nic0` (NIC port by net_af_packet), `wan0` (host port, 192.0.2.1) and the tunnel
//! ports `tun0` and `tun1`. Messages are put together from bytes by hand, and records are sealed and opened with software
//! ciphers: nothing of the codec under test has a part in it.

#![allow(dead_code, unused_imports, reason = "no test uses all of it")]

#[path = "control/client.rs"]
mod client;
#[path = "control/commands.rs"]
mod commands;
#[path = "control/far.rs"]
mod far;
#[path = "control/golden.rs"]
pub mod golden;
#[path = "control/message.rs"]
pub mod message;
#[path = "control/replay.rs"]
pub mod replay;
#[path = "control/reply.rs"]
mod reply;
#[path = "control/request.rs"]
mod request;

use crate::gateway::{Gateway, ip, mac, wait_for};
pub use client::{Answer, Client, Got, Socket};
pub use commands::{each_family, refused_record};
pub use far::{Far, Key, Material, Record};
use nf_path::twin::craft::{inner_v4, number};
pub use reply::{Peer, Told, shape};
pub use request::{Family, New, get_key, link_delete, link_get, link_new};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use tempfile::TempDir;

/// Interfaces: NIC, the other end of it, host port.
pub const NIC: &str = "nic0";
/// The other end of [`NIC`].
pub const FAR: &str = "far0";
/// The host port.
pub const HOST: &str = "wan0";
/// The tunnel ports, as the recorded daemons name theirs.
pub const TUNNELS: [&str; 2] = ["tun0", "tun1"];
/// Where the test's daemon listens.
pub const LISTEN: &str = "192.0.2.1:1194";
/// The gateway's own VPN address.
pub const OWN: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);
/// UDP ports of the packets that `craft::inner_v4` makes: source and destination.
pub const PORTS: (u16, u16) = (0x0fa1, 0x0fa2);

/// The VPN address of a peer.
pub fn vpn(peer: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(OWN.to_bits() + 9 + peer)
}

/// The outer address of a peer.
pub fn remote(peer: u32) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 2], 4000 + peer as u16))
}

/// Where the test's daemon listens.
pub fn listen() -> SocketAddr {
    LISTEN.parse().expect("an address")
}

/// The index of an interface.
pub fn index_of(interface: &str) -> u32 {
    let text = fs::read_to_string(format!("/sys/class/net/{interface}/ifindex")).expect("it is there");
    text.trim().parse().expect("a number")
}

/// A gateway that runs, and all that is around it.
pub struct Bed {
    /// The gateway.
    pub gateway: Gateway,
    /// What is beyond.
    pub far: Far,
    /// The socket of the daemon that the test plays.
    pub udp: UdpSocket,
    /// Indices of the tunnel interfaces.
    pub index: [u32; 2],
    folder: TempDir,
}

impl Bed {
    /// A gateway without a peer, with its outer addresses.
    pub fn start() -> Bed {
        Bed::start_with("")
    }

    /// The same with more lines of `[control]`.
    pub fn start_with(control: &str) -> Bed {
        let bed = Bed::bare(control, LISTEN);
        ip(&["address", "add", "192.0.2.1/24", "dev", HOST]);
        bed.neighbour("192.0.2.2");
        bed
    }

    /// A gateway whose host port has no address yet. The daemon's socket is not bound if `listen` is empty.
    pub fn bare(control: &str, listen: &str) -> Bed {
        ip(&["link", "add", NIC, "type", "veth", "peer", "name", FAR]);
        for end in [NIC, FAR] {
            ip(&["link", "set", end, "txqueuelen", "20000", "up"]);
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        // As the default folder is: who may connect is the socket's own matter.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.path(), open).expect("a new folder");
        let [first, second] = TUNNELS;
        let text = format!(
            "eal = [\"--vdev=net_af_packet0,iface={NIC},blocksz=65536,framesz=2048,framecnt=4096\"]\nidle_sleep_us = 50\n\
             [nic]\nport = \"net_af_packet0\"\n[host]\nkind = \"tap\"\ninterface = \"{HOST}\"\n\
             [[tunnel]]\nkind = \"tap\"\ninterface = \"{first}\"\n[[tunnel]]\nkind = \"tap\"\ninterface = \"{second}\"\n\
             [control]\nsocket = \"{}\"\n{control}\n",
            folder.path().join("control.sock").display()
        );
        let gateway = Gateway::spawn_in(None, &text, "{}", &[]).ready();
        let at = if listen.is_empty() { "0.0.0.0:0" } else { listen };
        // The address may be given to the interface later.
        let port = at.parse::<SocketAddr>().expect("an address").port();
        Bed {
            far: Far::new(),
            udp: UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).expect("a free port"),
            index: TUNNELS.map(index_of),
            gateway,
            folder,
        }
    }

    /// The path of the control socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    /// A client that has connected, and drives nothing yet.
    pub fn client(&self, family: Family) -> Client {
        Client::connect(&self.socket(), family, self.index[0])
    }

    /// A client that drives `tun0` and has subscribed, the interface being up with its addresses.
    pub fn server(&self, family: Family) -> Client {
        let mut client = self.client(family);
        client.drive(TUNNELS[0], 1);
        self.up(TUNNELS[0], &["10.8.0.1/16"]);
        client
    }

    /// What a daemon does to its interface.
    pub fn up(&self, interface: &str, addresses: &[&str]) {
        ip(&["link", "set", interface, "up"]);
        for address in addresses {
            ip(&["address", "add", address, "dev", interface]);
        }
    }

    /// Has the kernel find somebody beyond the NIC.
    pub fn neighbour(&self, address: &str) {
        let far: Vec<String> = mac(FAR).iter().map(|b| format!("{b:02x}")).collect();
        let far = far.join(":");
        let words = ["neighbour", "replace", address, "lladdr", &far, "dev", HOST];
        ip(&[&words[..], &["nud", "permanent"]].concat());
    }

    /// A socket that sends from and receives at the gateway's VPN address and the port where peers' packets go.
    pub fn inside(&self) -> UdpSocket {
        inside(OWN.into())
    }

    /// Sends an inner packet of a peer from where it is, and waits until it comes out of the tunnel interface.
    #[track_caller]
    pub fn carries_in(&mut self, inside: &UdpSocket, peer: u32, key: &mut Key) {
        let n = fastrand::u32(..);
        let record = key.seal(peer, &inner_v4(vpn(peer), OWN, 100, n));
        self.far.send(remote(peer), listen(), &record);
        self.assert_arrives(inside, n);
    }

    /// Waits for a numbered packet out of the tunnel interface; what the gateway says if it does not come.
    #[track_caller]
    pub fn assert_arrives(&self, inside: &UdpSocket, n: u32) {
        match arrives(inside) {
            Ok(number) => assert_eq!(number, n),
            Err(e) => panic!(
                "nothing came out of the tunnel: {e}; {} {}\n{}",
                self.gateway.telemetry("/ovpn/drops"),
                self.gateway.telemetry("/ovpn/lcores"),
                self.gateway.stderr()
            ),
        }
    }

    /// Sends a packet to a peer, and waits for its record, which has to open with this key.
    pub fn carries_out(&mut self, inside: &UdpSocket, peer: u32, key: &Key) -> Record {
        let n: u32 = fastrand::u32(..);
        inside
            .send_to(&n.to_be_bytes(), (vpn(peer), PORTS.0))
            .expect("a route");
        self.far.expect(key, |record, inner| {
            record.to == remote(peer) && number(inner) == Some(n)
        })
    }

    /// Waits until a counter of the drops has this value.
    pub fn wait_dropped(&self, reason: &str, n: u64) {
        wait_for(&format!("{n} dropped for {reason}"), || {
            self.gateway.dropped(reason) >= n
        });
        assert_eq!(self.gateway.dropped(reason), n, "{reason}");
    }

    /// The log lines with this text in them.
    pub fn said(&self, text: &str) -> Vec<String> {
        let log = self.gateway.stderr();
        log.lines()
            .filter(|l| l.contains(text))
            .map(String::from)
            .collect()
    }

    /// Kilobytes of memory, and open files, of the gateway.
    pub fn resources(&self) -> (usize, usize) {
        let process = format!("/proc/{}", self.gateway.pid());
        let status = fs::read_to_string(format!("{process}/status")).expect("it runs");
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("VmRSS");
        let kilobytes = line.split_whitespace().nth(1).and_then(|n| n.parse().ok());
        let open = fs::read_dir(format!("{process}/fd")).expect("it runs").count();
        (kilobytes.expect("a number"), open)
    }

    /// SIGTERM: it ends in order and leaves nothing; it has not panicked.
    pub fn end(mut self) {
        let log = self.gateway.stderr();
        assert!(!log.contains("panicked"), "{log}");
        self.gateway.signal("TERM");
        let status = self.gateway.wait(crate::gateway::PATIENCE);
        assert_eq!(status.code(), Some(0), "{}", self.gateway.stderr());
        crate::gateway::no_files_left(&self.gateway.name);
        assert!(
            !self.folder.path().join("control.sock").exists(),
            "the socket is left"
        );
    }
}

/// A socket at the gateway's VPN address, and the port where peers' packets go.
pub fn inside(own: IpAddr) -> UdpSocket {
    let socket = UdpSocket::bind((own, PORTS.1)).expect("the interface has the address");
    socket
        .set_read_timeout(Some(crate::gateway::PATIENCE))
        .expect("a socket");
    socket
}

/// The number in the next packet at such a socket.
#[track_caller]
pub fn arrived(inside: &UdpSocket) -> u32 {
    arrives(inside).unwrap_or_else(|e| panic!("nothing came out of the tunnel: {e}"))
}

/// The same, or why there is none.
pub fn arrives(inside: &UdpSocket) -> std::io::Result<u32> {
    let mut bytes = [0; 2048];
    inside.recv_from(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes[..4].try_into().expect("four bytes")))
}

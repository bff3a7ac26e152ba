//! What a gateway says of itself.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What `ovpn-dpdk status --json` answered.
#[derive(Debug)]
pub struct Status {
    /// Its exit status.
    pub code: Option<i32>,
    /// The document; null if what it printed is none.
    pub report: Value,
    /// What it printed on standard error.
    pub said: String,
}

impl Status {
    /// Asks the gateway behind that socket.
    pub fn ask(socket: &Path) -> Status {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ovpn-dpdk"));
        let out = command
            .args(["status", "--json", "--socket"])
            .arg(socket)
            .output();
        let out = out.expect("the program starts");
        Status {
            code: out.status.code(),
            report: serde_json::from_slice(&out.stdout).unwrap_or(Value::Null),
            said: String::from_utf8_lossy(&out.stderr).into_owned(),
        }
    }

    /// The tunnel with that interface.
    pub fn tunnel(&self, interface: &str) -> &Value {
        let mut tunnels = self.report["tunnels"].as_array().into_iter().flatten();
        let tunnel = tunnels.find(|tunnel| tunnel["interface"] == interface);
        tunnel.unwrap_or_else(|| panic!("no tunnel {interface}: {self:?}"))
    }

    /// The peer of that tunnel with that VPN address.
    pub fn peer(&self, interface: &str, address: &str) -> &Value {
        let mut peers = self.tunnel(interface)["peers"].as_array().into_iter().flatten();
        let has = |peer: &Value| {
            let mut addresses = peer["addresses"].as_array().into_iter().flatten();
            addresses.any(|one| one == address)
        };
        let peer = peers.find(|peer| has(peer));
        peer.unwrap_or_else(|| panic!("no peer of {interface} has {address}: {self:?}"))
    }

    /// Asserts that the process drives the tunnel, as far as the gateway can tell.
    pub fn assert_drives(&self, pid: u32, interface: &str) {
        let driver = &self.tunnel(interface)["daemon"]["pid"];
        assert_eq!(driver.as_u64(), Some(pid.into()), "{self:?}");
    }
}

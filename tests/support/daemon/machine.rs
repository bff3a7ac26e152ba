//! A machine: a network namespace, with a gateway in it or without.

use super::{Path, Pings, Pki, Status};
use crate::gateway::{Background, Gateway, Namespace, Wire, remove_files, run, wait_for};
use crate::pair::NIC;
use crate::pair::losses::{self, RingFull};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::IpAddr;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock, RwLock, RwLockReadGuard};
use tempfile::TempDir;

/// The interface with a machine's outer addresses: the end of a veth, or the kernel's side of the gateway's host port.
pub const HOST: &str = "wan0";
/// The server's outer addresses.
pub const SERVER: (&str, &str) = ("192.0.2.1", "2001:db8::1");

/// A machine.
pub struct Machine {
    /// Where its data channel is: if [`Path::Offload`], there is a gateway.
    pub path: Path,
    name: String,
    /// The gateway while there is one. Before the namespace, so that it ends first.
    gateway: RwLock<Option<Gateway>>,
    /// The name of each gateway here, since the first.
    gateway_name: OnceLock<String>,
    /// Where all of it is.
    pub namespace: Namespace,
    /// The gateway's configuration, but for the name.
    configuration: String,
    /// Where the control socket is.
    folder: TempDir,
    addresses: Vec<String>,
    tunnels: Vec<String>,
    ring_full: RingFull,
    pub(super) pki: Arc<Pki>,
}

/// A gateway that runs, for as long as this is held.
pub struct Running<'m>(RwLockReadGuard<'m, Option<Gateway>>);

/// What a machine is made of.
pub(super) struct Parts {
    pub name: String,
    pub path: Path,
    pub namespace: Namespace,
    /// The gateway's configuration, but for the name and the control socket.
    pub configuration: String,
    /// More lines of `[control]`.
    pub control: String,
    /// Outer addresses with their prefix lengths.
    pub addresses: Vec<String>,
    pub tunnels: Vec<String>,
    pub pki: Arc<Pki>,
}

impl Machine {
    /// A machine whose gateway, if any, does not run yet, and which has no addresses.
    pub(super) fn new(parts: Parts) -> Machine {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // As the default folder is: who may connect is the socket's own matter.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("a new folder");
        let socket = folder.path().join("control.sock");
        let control = format!(
            "[control]\nsocket = \"{}\"\n{}\n",
            socket.display(),
            parts.control
        );
        Machine {
            path: parts.path,
            name: parts.name,
            gateway: RwLock::new(None),
            gateway_name: OnceLock::new(),
            namespace: parts.namespace,
            configuration: parts.configuration + &control,
            folder,
            addresses: parts.addresses,
            tunnels: parts.tunnels,
            ring_full: RingFull::default(),
            pki: parts.pki,
        }
    }

    /// `server`, or `client0` and so on.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path of the gateway's control socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    /// Starts the gateway, and gives the machine its addresses once that is ready. Without a gateway: only the latter.
    pub fn start_gateway(&self) {
        let started = self.spawn_gateway();
        self.ready(started);
    }

    /// Starts the gateway, which may not be ready yet.
    pub fn spawn_gateway(&self) -> Option<Gateway> {
        if self.path == Path::Own {
            return None;
        }
        let (inside, configuration) = (Some(&self.namespace), &self.configuration);
        let gateway = match self.gateway_name.get() {
            None => Gateway::spawn_in(inside, configuration, "{}", &[]),
            Some(name) => Gateway::spawn_as(name.clone(), inside, configuration, "{}", &[]),
        };
        self.gateway_name.get_or_init(|| gateway.name.clone());
        Some(gateway)
    }

    /// Waits for a gateway just started, and gives the machine its addresses.
    pub(super) fn ready(&self, gateway: Option<Gateway>) {
        *self.gateway.write().unwrap_or_else(|e| e.into_inner()) = gateway.map(Gateway::ready);
        self.run(&["ip", "link", "set", HOST, "up"]);
        for address in &self.addresses {
            self.add_address(address);
        }
    }

    /// SIGTERM to the gateway: it ends within two seconds with status 0, and leaves no file.
    pub fn stop_gateway(&self) {
        let gateway = self.gateway.write().unwrap_or_else(|e| e.into_inner()).take();
        crate::gateway::no_files_left(&gateway.expect("it ran").terminate());
        assert!(!self.socket().exists(), "the control socket is left");
    }

    /// SIGKILL to the gateway.
    pub fn kill_gateway(&self) {
        drop(self.gateway.write().unwrap_or_else(|e| e.into_inner()).take());
    }

    /// The gateway, which has to run. Not to be held while it is stopped or started.
    pub fn gateway(&self) -> Running<'_> {
        Running(self.gateway.read().unwrap_or_else(|e| e.into_inner()))
    }

    /// The end of a test that passed: see [`Machine::stop_gateway`]. Of the gateway no interface is left.
    pub(super) fn end(&self) {
        if self.gateway.read().unwrap_or_else(|e| e.into_inner()).is_some() {
            self.stop_gateway();
            let left = self.run(&["ip", "-o", "link"]);
            let made = self.tunnels.iter().map(String::as_str).chain([HOST]);
            let there: Vec<_> = made.filter(|name| left.contains(&format!(" {name}:"))).collect();
            assert!(there.is_empty(), "{there:?} are left: {left}");
        }
    }

    /// Asks the gateway how it is, by `ovpn-dpdk status`.
    pub fn status(&self) -> Status {
        Status::ask(&self.socket())
    }

    /// A program to be run in the namespace.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = self.namespace.command(words[0]);
        command.args(&words[1..]);
        command
    }

    /// Runs a program in the namespace that has to succeed; what it printed.
    pub fn run(&self, words: &[&str]) -> String {
        run(&mut self.command(words))
    }

    /// Starts a program in the namespace.
    pub fn spawn(&self, words: &[&str]) -> Background {
        Background::start(&mut self.command(words))
    }

    /// Frames to and from an interface of the namespace, one by one.
    pub fn wire(&self, interface: &str) -> Wire {
        self.namespace.enter(|| Wire::of(interface))
    }

    /// Pings an address (`arguments` as ping's: `-c`, `-i`, `-s`, `-W`, `-I`), and counts.
    pub fn ping(&self, to: IpAddr, arguments: &[&str]) -> Pings {
        Pings::run(self, to, arguments)
    }

    /// Waits until an address answers.
    pub fn wait_ping(&self, to: IpAddr) {
        let mut last = String::new();
        let answered = || {
            let pings = self.ping(to, &["-c1", "-W1"]);
            last = pings.text;
            pings.received > 0
        };
        wait_for(&format!("{} pings {to}", self.name), answered);
    }

    /// Interfaces that are made from now on have no IPv6 until they get an address: no frames of the kernel's own.
    pub fn no_ipv6_at_first(&self) {
        self.namespace.enter(|| {
            fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").expect("root may");
        });
    }

    /// One more outer address, with the prefix length.
    pub fn add_address(&self, address: &str) {
        let nodad = if address.contains(':') {
            &["nodad"][..]
        } else {
            &[]
        };
        self.run(&[&["ip", "address", "add", address, "dev", HOST], nodad].concat());
    }

    /// One outer address less; the others stay.
    pub fn remove_address(&self, address: &str) {
        self.run(&["ip", "address", "del", address, "dev", HOST]);
    }

    /// The first outer address of that version becomes another (with the prefix length), without a moment that has none.
    pub fn move_to(&self, address: &str) {
        let first = self.address_of(HOST, address.contains(':'));
        let length = address.split_once('/').expect("a prefix length").1;
        self.add_address(address);
        self.remove_address(&format!("{first}/{length}"));
    }

    /// The first address of an interface, not a link-local one, once there is one.
    pub fn address_of(&self, interface: &str, v6: bool) -> IpAddr {
        let mut found = None;
        wait_for(&format!("an address of {interface}"), || {
            found = self
                .addresses_of(interface)
                .into_iter()
                .find(|address| address.is_ipv6() == v6);
            found.is_some()
        });
        found.expect("waited for")
    }

    /// The addresses of an interface, without link-local ones; none where there is no such interface.
    pub fn addresses_of(&self, interface: &str) -> Vec<IpAddr> {
        let mut command = self.command(&["ip", "-j", "address", "show", "dev", interface, "scope", "global"]);
        let out = command.output().expect("ip was there before");
        let links: Value = serde_json::from_slice(&out.stdout).unwrap_or(Value::Null);
        let entries = links[0]["addr_info"].as_array().cloned().unwrap_or_default();
        let texts = entries.iter().filter_map(|entry| entry["local"].as_str());
        texts.map(|text| text.parse().expect("an address")).collect()
    }

    /// Everything that may name a packet lost by the gateway, now: see [`losses::now`].
    pub fn losses(&self) -> BTreeMap<String, u64> {
        let tunnels = self.tunnels.iter().map(String::as_str);
        let interfaces: Vec<&str> = tunnels.chain([NIC]).collect();
        losses::now(&self.gateway(), &self.namespace, &interfaces, &self.ring_full)
    }

    /// Datagrams that sockets here had no room for so far, and packets that a daemon with its own data path was too slow to
    /// read: what a machine with much to do loses, whatever is between.
    pub fn queue_drops(&self) -> u64 {
        let sockets = losses::full_sockets(&self.namespace);
        let there = |name: &&String| !self.addresses_of(name).is_empty();
        let own = self
            .tunnels
            .iter()
            .filter(|_| self.path == Path::Own)
            .filter(there);
        sockets + own.map(|name| self.statistic(name, "tx", "dropped")).sum::<u64>()
    }

    /// A number of an interface's kernel side: "rx" or "tx", and which ("packets", "bytes", "dropped").
    pub fn statistic(&self, interface: &str, direction: &str, what: &str) -> u64 {
        losses::statistic(&self.namespace, interface, direction, what)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(Some(gateway)) = self.gateway.get_mut()
        {
            eprintln!("the gateway of {} logged:\n{}", self.name, gateway.stderr());
        }
        if let (Ok(None), Some(name)) = (self.gateway.get_mut(), self.gateway_name.get()) {
            remove_files(name);
        }
    }
}

impl Deref for Running<'_> {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        self.0.as_ref().expect("the gateway runs")
    }
}

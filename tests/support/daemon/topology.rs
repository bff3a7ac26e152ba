//! The machines of a test and what joins them: a bridge in a namespace of its own.
//!
//! The server's machine has 192.0.2.1 and 2001:db8::1 outside, client `i`'s 192.0.2.(10+i) and 2001:db8::(a+i), all on
//! [`HOST`]. A machine with a gateway has the end of its veth as that gateway's NIC ([`NIC`]).

use super::machine::{HOST, Machine, Parts, SERVER};
use super::{Flow, Iperf, Path, Pki, Transfer};
use crate::gateway::{Namespace, can_make_interfaces, run, skip};
use crate::pair::NIC;
use crate::pair::relay::{Change, Relay};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Arc;

/// The bridge.
const BRIDGE: &str = "bridge0";
/// The interfaces of the relay, to the clients and to the server.
const BETWEEN: [&str; 2] = ["left0", "right0"];

/// What a [`Net`] is made of.
pub struct Plan<'a> {
    /// Where the server's data channel is.
    pub server: Path,
    /// The clients, and where the data channel of each is.
    pub clients: &'a [Path],
    /// Tunnels of the server's gateway: `ovpn0`, `ovpn1` and so on.
    pub tunnels: u8,
    /// Largest IP packet on the wire.
    pub mtu: u16,
    /// More lines of the top level of each gateway's configuration.
    pub general: &'a str,
    /// More lines of each gateway's `[nic]`.
    pub nic: &'a str,
    /// More lines of each gateway's `[control]`.
    pub control: &'a str,
    /// More lines of each gateway's `[[tunnel]]`, or whole tables.
    pub tunnel: &'a str,
    /// What frames between the clients (left) and the server (right) pass through, instead of only a bridge.
    pub relay: Option<Arc<Change>>,
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Plan {
            server: Path::Offload,
            clients: &[Path::Own],
            tunnels: 1,
            mtu: 1500,
            general: "",
            nic: "",
            control: "",
            tunnel: "",
            relay: None,
        }
    }
}

/// The machines.
pub struct Net {
    /// Between the clients and the server, if anything but the bridge. First, so that it ends before the interfaces go.
    relay: Option<(Relay, Namespace)>,
    /// The server's machine.
    pub server: Machine,
    /// The clients' machines.
    pub clients: Vec<Machine>,
    /// Where the bridge is.
    pub middle: Namespace,
}

impl Net {
    /// Runs a test with these machines, or prints why this one cannot. Gateways are ready, without any daemon; after a test
    /// that passed they end in good order.
    pub fn test(name: &str, plan: &Plan, body: impl FnOnce(&Net)) {
        let made = can_make_interfaces().and_then(|()| Namespace::new("middle"));
        let middle = match made {
            Ok(namespace) => namespace,
            Err(why) => return skip(name, &why),
        };
        let net = Net::start(middle, plan);
        body(&net);
        for machine in net.clients.iter().chain([&net.server]) {
            machine.end();
        }
    }

    fn start(middle: Namespace, plan: &Plan) -> Net {
        quiet(&middle);
        let make = format!("link add {BRIDGE} type bridge stp_state 0 mcast_snooping 0");
        run(middle.command("ip").args(make.split(' ')));
        run(middle
            .command("ip")
            .args(["link", "set", BRIDGE, "mtu", &plan.mtu.to_string(), "up"]));
        let pki = Arc::new(Pki::new());
        let server = machine(plan, plan.server.chosen(), None, &pki);
        let clients = plan.clients.iter().enumerate();
        let clients: Vec<_> = clients
            .map(|(i, path)| machine(plan, path.chosen(), Some(i), &pki))
            .collect();
        let relay = plan.relay.clone().map(|change| {
            let line = Namespace::new("line").expect("one was made before");
            quiet(&line);
            veth([(&line, BETWEEN[0]), (&middle, "p-server")], plan.mtu);
            veth(
                [(&server.namespace, end(server.path)), (&line, BETWEEN[1])],
                plan.mtu,
            );
            (Relay::start(&line, BETWEEN, change), line)
        });
        if relay.is_none() {
            veth(
                [(&server.namespace, end(server.path)), (&middle, "p-server")],
                plan.mtu,
            );
        }
        plug(&middle, "p-server");
        for (machine, i) in clients.iter().zip(0..) {
            let port = format!("p-client{i}");
            veth(
                [(&machine.namespace, end(machine.path)), (&middle, &port)],
                plan.mtu,
            );
            plug(&middle, &port);
        }
        // All at once: each gateway takes its time to set up memory.
        let machines = || [&server].into_iter().chain(&clients);
        let started: Vec<_> = machines().map(Machine::spawn_gateway).collect();
        for (machine, gateway) in machines().zip(started) {
            machine.ready(gateway);
        }
        Net {
            relay,
            server,
            clients,
            middle,
        }
    }

    /// What each gateway lost so far, by the machine's name: see [`Machine::losses`].
    pub fn losses(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let all = self.clients.iter().chain([&self.server]);
        let with_gateway = all.filter(|machine| machine.path == Path::Offload);
        with_gateway
            .map(|machine| (machine.name().to_owned(), machine.losses()))
            .collect()
    }

    /// Runs UDP flows that lose nothing, and of which each receives so many bytes. What a socket or a daemon's own data path
    /// was too slow for is no loss of ours: see [`Machine::queue_drops`].
    pub fn lossless(&self, flows: &[Flow], least: u64) -> Vec<Transfer> {
        self.lossless_but(flows, least, &[]).0
    }

    /// Like [`Net::lossless`], but what the gateways drop for one of these reasons may be missing. How many that were.
    pub fn lossless_but(&self, flows: &[Flow], least: u64, excused: &[&str]) -> (Vec<Transfer>, u64) {
        let slow = || {
            self.clients
                .iter()
                .chain([&self.server])
                .map(Machine::queue_drops)
                .sum::<u64>()
        };
        let (slow_before, before) = (slow(), self.losses());
        let transfers = Iperf::all(flows);
        let (slow, after) = (slow() - slow_before, self.losses());
        let of = |losses: &BTreeMap<String, BTreeMap<String, u64>>| {
            let counts = losses.values().flatten();
            let counts = counts.filter(|(reason, _)| excused.contains(&reason.as_str()));
            counts.map(|(_, count)| *count).sum::<u64>()
        };
        let dropped = of(&after) - of(&before);
        let lost: u64 = transfers.iter().map(|one| one.lost).sum();
        let ends: Vec<_> = transfers.iter().map(|one| &one.report["end"]["sum"]).collect();
        if lost > 0 {
            println!("{lost} lost, {slow} in queues; gateways before: {before:?}, after: {after:?}");
        }
        assert!(
            lost <= slow + dropped,
            "{lost} lost, {slow} in queues, {dropped} for {excused:?}: {ends:?}"
        );
        for transfer in &transfers {
            let room = slow * transfer.received / transfer.packets.max(1);
            assert!(
                transfer.received + room >= least,
                "{} bytes of {least}: {ends:?}",
                transfer.received
            );
        }
        (transfers, dropped)
    }

    /// Where the server's frames arrive first: for captures of what it sends, and of what is sent to it.
    pub fn server_port(&self) -> (&Namespace, &'static str) {
        match &self.relay {
            Some((_, line)) => (line, BETWEEN[1]),
            None => (&self.middle, "p-server"),
        }
    }
}

/// The machine of the server, or of client `i`, without interfaces.
fn machine(plan: &Plan, path: Path, client: Option<usize>, pki: &Arc<Pki>) -> Machine {
    let name = client.map_or("server".to_owned(), |i| format!("client{i}"));
    let namespace = Namespace::new(&name).expect("one was made before");
    run(namespace.command("ip").args(["link", "set", "lo", "up"]));
    namespace.enter(|| {
        // An address that goes takes no other with it.
        fs::write("/proc/sys/net/ipv4/conf/all/promote_secondaries", "1").expect("root may");
    });
    let addresses = match client {
        None => vec![format!("{}/24", SERVER.0), format!("{}/64", SERVER.1)],
        Some(i) => vec![
            format!("192.0.2.{}/24", 10 + i),
            format!("2001:db8::{:x}/64", 10 + i),
        ],
    };
    let tunnels: Vec<_> = (0..if client.is_none() { plan.tunnels } else { 1 })
        .map(|n| format!("ovpn{n}"))
        .collect();
    Machine::new(Parts {
        name,
        path,
        namespace,
        configuration: configuration(plan, &tunnels, client),
        control: plan.control.to_owned(),
        addresses,
        tunnels,
        pki: pki.clone(),
    })
}

/// A gateway's configuration, but for the name and `[control]`.
fn configuration(plan: &Plan, tunnels: &[String], client: Option<usize>) -> String {
    let Plan {
        mtu,
        general,
        nic,
        tunnel,
        ..
    } = plan;
    // A frame of the ring holds its own header and the packet; a block is a power of two of pages that frames divide.
    let frame = if *mtu <= 1900 { 2048 } else { 16384 };
    let vdev = format!("net_af_packet0,iface={NIC},blocksz=65536,framesz={frame},framecnt=4096");
    // The server's on CPU 0, a client's on the other one.
    let cpu = u8::from(client.is_some());
    let tunnels = tunnels
        .iter()
        .map(|name| format!("[[tunnel]]\nkind = \"tap\"\ninterface = \"{name}\"\n{tunnel}\n"));
    format!(
        "eal = [\"--vdev={vdev}\"]\nlcores = \"{cpu}\"\nidle_sleep_us = 50\n{general}\n\
         [nic]\nport = \"net_af_packet0\"\nmtu = {mtu}\n{nic}\n\
         [host]\nkind = \"tap\"\ninterface = \"{HOST}\"\n[metrics]\nlisten = \"\"\n{}",
        tunnels.collect::<String>()
    )
}

/// The name of the veth's end on a machine.
fn end(path: Path) -> &'static str {
    match path {
        Path::Own => HOST,
        Path::Offload => NIC,
    }
}

/// No frames of a namespace's own.
fn quiet(namespace: &Namespace) {
    namespace.enter(|| {
        for which in ["all", "default"] {
            fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1").expect("root may");
        }
    });
}

/// An interface becomes a port of the bridge.
fn plug(middle: &Namespace, interface: &str) {
    run(middle
        .command("ip")
        .args(["link", "set", interface, "master", BRIDGE]));
}

/// A veth pair without segmentation offload; a NIC of a gateway is without IPv6 of the kernel's own.
fn veth(ends: [(&Namespace, &str); 2], mtu: u16) {
    let [(here, one), (there, two)] = ends;
    let words = format!(
        "link add {one} netns {} type veth peer name {two} netns {}",
        here.name(),
        there.name()
    );
    run(Command::new("ip").args(words.split(' ')));
    for (namespace, name) in ends {
        if name == NIC {
            namespace.enter(|| {
                fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").expect("root may");
            });
        }
        run(namespace
            .command("ethtool")
            .args(["-K", name, "tso", "off", "gso", "off"]));
        run(namespace
            .command("ip")
            .args(["link", "set", name, "mtu", &mtu.to_string(), "up"]));
    }
}

//! Two gateways, each in a network namespace with one CPU, joined by a veth pair that both read through net_af_packet.
//!
//! Peer `p` of the one is peer `p` of the other, with a UDP port of its own on both sides. The left side holds the VPN
//! addresses 10.8.0.(10+p) and fd08::a`p`, the right one 10.8.0.(20+p) and fd08::b`p`; each has a route that chooses
//! the source address which belongs to the same peer.

#![allow(dead_code, unused_imports, reason = "no test uses all of it")]

#[path = "losses.rs"]
pub mod losses;
#[path = "pair/plan.rs"]
mod plan;
#[path = "relay.rs"]
pub mod relay;

pub use crate::gateway::Background;
use crate::gateway::{Gateway, Namespace, PATIENCE, Wire, can_make_interfaces, no_files_left, run, skip};
use losses::RingFull;
use plan::configuration;
pub use plan::{End, FIRST_PORT, Plan, keys};
use relay::Relay;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The interface that a gateway's NIC port reads; the other side's is its veth peer.
pub const NIC: &str = "nic0";
/// The relay's interfaces, to the left side and to the right one.
const BETWEEN: [&str; 2] = ["left0", "right0"];
/// The kernel's side of a gateway's host port.
pub const HOST: &str = "wan0";
/// The kernel's side of a gateway's tunnel port.
pub const TUNNEL: &str = "ovpn0";
/// One of the two: a namespace and the gateway in it.
pub struct Side {
    /// Which one.
    pub end: End,
    /// The gateway. Before the namespace, so that it ends first.
    pub gateway: Gateway,
    /// Where all of it is.
    pub namespace: Namespace,
    ring_full: RingFull,
}

/// Two gateways and what joins them; all of it goes away when dropped.
pub struct Pair {
    /// What is between, if not one veth pair: the relay, and the namespace that it is in. First, so that it ends before
    /// the interfaces go.
    middle: Option<(Relay, Namespace)>,
    /// With CPU 0.
    pub left: Side,
    /// With CPU 1.
    pub right: Side,
    /// Whether IPv6 is outside.
    pub outer_v6: bool,
    /// Peers.
    pub peers: u32,
    /// Largest IP packet on the veth.
    pub nic_mtu: u16,
}

impl Pair {
    /// Runs a test with a pair, or prints why this machine cannot. Both are ready, with addresses on all interfaces.
    pub fn test(name: &str, plan: &Plan, body: impl FnOnce(&mut Pair)) {
        Pair::test_and_after(name, plan, body, |_| ());
    }

    /// Like [`Pair::test`]; `after` gets the namespaces of the left and the right side once both gateways have ended.
    pub fn test_and_after(
        name: &str,
        plan: &Plan,
        body: impl FnOnce(&mut Pair),
        after: impl FnOnce(&[Namespace; 2]),
    ) {
        let made =
            can_make_interfaces().and_then(|()| Ok([Namespace::new("left")?, Namespace::new("right")?]));
        let namespaces = match made {
            Ok(namespaces) => namespaces,
            Err(why) => return skip(name, &why),
        };
        let mut pair = Pair::start(namespaces, plan);
        body(&mut pair);
        after(&pair.end());
    }

    fn start(namespaces: [Namespace; 2], plan: &Plan) -> Pair {
        let middle = join(&namespaces, plan);
        let [left_keys, right_keys] = plan.keys.clone().unwrap_or_else(|| keys(plan));
        let config = |end| configuration(plan, end);
        let [left, right] = namespaces;
        // Both at once: each takes its time to set up memory.
        let one = Gateway::spawn_in(Some(&left), &config(End::Left), &left_keys, &[]);
        let two = Gateway::spawn_in(Some(&right), &config(End::Right), &right_keys, &[]);
        let side = |end, gateway: Gateway, namespace| {
            let side = Side {
                end,
                gateway: gateway.ready(),
                namespace,
                ring_full: RingFull::default(),
            };
            side.set_addresses(plan.peers);
            side
        };
        Pair {
            left: side(End::Left, one, left),
            right: side(End::Right, two, right),
            outer_v6: plan.outer_v6,
            peers: plan.peers,
            nic_mtu: plan.nic_mtu,
            middle,
        }
    }

    /// A side.
    pub fn side(&self, end: End) -> &Side {
        match end {
            End::Left => &self.left,
            End::Right => &self.right,
        }
    }

    /// Where the frames that a side sends arrive: the interface that is the veth peer of its NIC.
    pub fn far_end(&self, end: End) -> (&Namespace, &'static str) {
        match &self.middle {
            None => (&self.side(end.other()).namespace, NIC),
            Some((_, middle)) => (middle, BETWEEN[end.index()]),
        }
    }

    /// Waits until an echo request of each peer of the left side is answered, in both families.
    pub fn connected(&self) {
        let until = Instant::now() + PATIENCE;
        for (peer, v6) in (0..self.peers).flat_map(|peer| [(peer, false), (peer, true)]) {
            while let Err(said) = self.left.ping(peer, v6, &["-c1", "-W1"]) {
                let [left, right] = [&self.left, &self.right];
                assert!(
                    Instant::now() < until,
                    "peer {peer} does not answer: {said}left {:?}\n{}right {:?}\n{}",
                    left.losses(),
                    left.gateway.stderr(),
                    right.losses(),
                    right.gateway.stderr()
                );
            }
        }
    }

    /// SIGTERM to both: each ends within two seconds with status 0, and leaves no interface and no file. What is left
    /// are the namespaces.
    pub fn end(self) -> [Namespace; 2] {
        drop(self.middle);
        [self.left, self.right].map(|side| {
            let Side {
                gateway, namespace, ..
            } = side;
            let name = gateway.terminate();
            no_files_left(&name);
            let left = run(namespace.command("ip").args(["-o", "link"]));
            assert!(!left.contains(HOST) && !left.contains(TUNNEL), "{left}");
            let undo = Path::new("/run/ovpn-dpdk").join(format!("{name}.undo"));
            assert!(!undo.exists(), "{} is left", undo.display());
            namespace
        })
    }
}

impl Side {
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

    /// Pings the other side's address of a peer, from the one that belongs to it here. The error is what was printed.
    pub fn ping(&self, peer: u32, v6: bool, arguments: &[&str]) -> Result<String, String> {
        let (from, to) = (
            self.end.vpn(peer, v6).to_string(),
            self.end.other().vpn(peer, v6).to_string(),
        );
        let mut command = self.command(&["ping", "-n", "-I", &from]);
        let out = command
            .args(arguments)
            .arg(&to)
            .output()
            .expect("ip was there before");
        let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        if out.status.success() { Ok(said) } else { Err(said) }
    }

    /// Everything that may name a lost packet, now: see [`losses::now`].
    pub fn losses(&self) -> BTreeMap<String, u64> {
        losses::now(&self.gateway, &self.namespace, &[TUNNEL, NIC], &self.ring_full)
    }

    /// A number of an interface's kernel side: "rx" or "tx", and which.
    pub fn statistic(&self, interface: &str, direction: &str, what: &str) -> u64 {
        losses::statistic(&self.namespace, interface, direction, what)
    }

    /// Addresses of the interfaces, and routes that choose the source address which belongs to the peer.
    fn set_addresses(&self, peers: u32) {
        let set = |words: &str| {
            self.run(&[&["ip"], &words.split(' ').collect::<Vec<_>>()[..]].concat());
        };
        let other = self.end.other();
        for interface in [HOST, TUNNEL] {
            set(&format!("link set {interface} up"));
        }
        set(&format!("address add {}/24 dev {HOST}", self.end.outer(false)));
        set(&format!(
            "address add {}/64 dev {HOST} nodad",
            self.end.outer(true)
        ));
        for peer in 0..peers {
            let (v4, v6) = (self.end.vpn(peer, false), self.end.vpn(peer, true));
            set(&format!("address add {v4}/32 dev {TUNNEL}"));
            set(&format!("address add {v6}/128 dev {TUNNEL} nodad"));
            set(&format!(
                "route add {}/32 dev {TUNNEL} src {v4}",
                other.vpn(peer, false)
            ));
            set(&format!(
                "route add {}/128 dev {TUNNEL} src {v6}",
                other.vpn(peer, true)
            ));
        }
    }
}

/// The veth pair, or two with a relay between.
fn join(namespaces: &[Namespace; 2], plan: &Plan) -> Option<(Relay, Namespace)> {
    let [left, right] = namespaces;
    let Some(change) = &plan.relay else {
        veth([(left, NIC), (right, NIC)], plan.nic_mtu);
        return None;
    };
    let middle = Namespace::new("middle").expect("two were made before");
    veth([(left, NIC), (&middle, BETWEEN[0])], plan.nic_mtu);
    veth([(&middle, BETWEEN[1]), (right, NIC)], plan.nic_mtu);
    let relay = Relay::start(&middle, BETWEEN, change.clone());
    Some((relay, middle))
}

/// A veth pair: no addresses, no IPv6 of the kernel's own, no segmentation offload; all else at its defaults.
fn veth(ends: [(&Namespace, &str); 2], mtu: u16) {
    let [(here, one), (there, two)] = ends;
    let words = format!(
        "link add {one} netns {} type veth peer name {two} netns {}",
        here.name(),
        there.name()
    );
    run(Command::new("ip").args(words.split(' ')));
    for (namespace, name) in ends {
        namespace.enter(|| {
            fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").expect("root may");
        });
        run(namespace
            .command("ethtool")
            .args(["-K", name, "tso", "off", "gso", "off"]));
        run(namespace.command("ip").args(["link", "set", "lo", "up"]));
        run(namespace
            .command("ip")
            .args(["link", "set", name, "mtu", &mtu.to_string(), "up"]));
    }
}

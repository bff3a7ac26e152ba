//! Frames longer than a place of net_af_packet's ring arrive cut: they are counted, the log says so once, and all else goes
//! on.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/pair.rs"]
mod pair;

use gateway::{Namespace, mac, run, wait_for};
use pair::{End, NIC, Pair, Plan};
use std::time::Duration;

/// Sends datagrams to the left side's listening address, from an address that no peer has: arguments are how many, their
/// bytes, and the bytes of each segment of a super-frame (0: none, all is one datagram). Each begins like a record of peer 0.
const SENDER: &str = r#"
import socket, sys, time
count, size, segment = map(int, sys.argv[1:])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("192.0.2.9", 5000))
SOL_UDP, UDP_SEGMENT = 17, 103
if segment:
    s.setsockopt(SOL_UDP, UDP_SEGMENT, segment)
piece = segment or size
record = bytes([0x48, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff]) + bytes(piece - 8)
for _ in range(count):
    s.sendto((record * (size // piece)), ("192.0.2.1", 1194))
    time.sleep(0.002)
"#;

/// Frames of each kind.
const COUNT: u64 = 20;
/// How the line begins.
const LINE: &str = "nic0: frames arrive cut, or malformed (ip_length)";

/// Someone else on the left side's network.
struct Stranger<'p> {
    pair: &'p Pair,
    namespace: &'p Namespace,
    interface: &'static str,
}

impl<'p> Stranger<'p> {
    fn new(pair: &'p Pair) -> Self {
        let (namespace, interface) = pair.far_end(End::Left);
        let bytes = pair.left.namespace.enter(|| mac(NIC));
        let left: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let stranger = Stranger {
            pair,
            namespace,
            interface,
        };
        for words in [
            format!("address add 192.0.2.9/32 dev {interface}"),
            format!("route add 192.0.2.1/32 dev {interface} src 192.0.2.9"),
            format!(
                "neighbour add 192.0.2.1 lladdr {} dev {interface} nud permanent",
                left.join(":")
            ),
        ] {
            run(namespace.command("ip").args(words.split(' ')));
        }
        stranger
    }

    /// Sends, and waits until the left side has counted what it refused: how often as `ip_length`.
    fn send(&self, bytes: usize, segment: usize) -> u64 {
        let gateway = &self.pair.left.gateway;
        let counted = || ["ip_length", "bad_tag"].map(|reason| gateway.dropped(reason));
        let before = counted();
        let arguments = [COUNT, bytes as u64, segment as u64].map(|n| n.to_string());
        let mut python = self.namespace.command("/usr/bin/python3");
        run(python.args(["-c", SENDER]).args(arguments));
        let mut grown = [0, 0];
        wait_for("all of them to be counted", || {
            let now = counted();
            grown = [now[0] - before[0], now[1] - before[1]];
            grown.iter().sum::<u64>() >= COUNT
        });
        grown[0]
    }

    fn offload(&self, state: &str) {
        let words = format!(
            "-K {} tso {state} gso {state} tx-udp-segmentation {state}",
            self.interface
        );
        run(self.namespace.command("ethtool").args(words.split(' ')));
    }

    /// How often the left side said that frames arrive cut.
    fn lines(&self) -> usize {
        let log = self.pair.left.gateway.stderr();
        log.lines().filter(|l| l.contains(LINE)).count()
    }

    /// What arrives cut is all counted and is said once, however long it goes on; traffic passes before and after.
    fn assert_cut(&self, bytes: usize, segment: usize) {
        assert_eq!(self.lines(), 0);
        assert_eq!(self.send(bytes, segment), COUNT);
        wait_for("a word on it", || self.lines() == 1);
        let log = self.pair.left.gateway.stderr();
        let line = log.lines().find(|l| l.contains(LINE)).expect("seen above");
        for part in ["at most 1982 bytes", "segmentation offload", "MTU"] {
            assert!(line.contains(part), "{line}");
        }
        assert_eq!(self.send(bytes, segment), COUNT);
        // More than one round of the control side.
        std::thread::sleep(Duration::from_millis(2200));
        assert_eq!(self.lines(), 1);
        self.pair.connected();
    }
}

fn plan() -> Plan<'static> {
    Plan {
        peers: 1,
        ..Plan::default()
    }
}

#[test]
fn super_frames_that_arrive_cut_are_counted_and_said_once() {
    Pair::test(
        "super_frames_that_arrive_cut_are_counted_and_said_once",
        &plan(),
        |pair| {
            pair.connected();
            let stranger = Stranger::new(pair);
            // Three datagrams each, cut by the sender's kernel: all arrive whole.
            stranger.offload("off");
            assert_eq!(stranger.send(4200, 1400), 0);
            std::thread::sleep(Duration::from_millis(1200));
            stranger.offload("on");
            stranger.assert_cut(4200, 1400);
        },
    );
}

#[test]
fn frames_of_a_larger_mtu_that_arrive_cut_are_counted_and_said_once() {
    Pair::test(
        "frames_of_a_larger_mtu_that_arrive_cut_are_counted_and_said_once",
        &plan(),
        |pair| {
            pair.connected();
            let stranger = Stranger::new(pair);
            for (namespace, interface) in [
                (&pair.left.namespace, NIC),
                (stranger.namespace, stranger.interface),
            ] {
                run(namespace
                    .command("ip")
                    .args(["link", "set", interface, "mtu", "9000"]));
            }
            // The longest that is whole: 1982 bytes less the Ethernet, IP and UDP headers.
            assert_eq!(stranger.send(1982 - 42, 0), 0);
            std::thread::sleep(Duration::from_millis(1200));
            stranger.assert_cut(4000 - 28, 0);
        },
    );
}

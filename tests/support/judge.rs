//! Judges what went through a pair of gateways, by captures at both tunnel interfaces and between the gateways.
//!
//! Nothing here uses the program's own code: packets are taken apart with etherparse, and records are opened by
//! `peer.py` with Python's `cryptography`.

#![allow(dead_code, reason = "no test uses all of it")]

#[path = "judge/inner.rs"]
pub mod inner;
#[path = "judge/outer.rs"]
pub mod outer;
#[path = "judge/packet.rs"]
pub mod packet;
#[path = "pcap.rs"]
mod pcap_file;
#[path = "judge/recorder.rs"]
pub mod recorder;

use crate::gateway::{Namespace, mac};
use crate::pair::{End, FIRST_PORT, NIC, Pair, TUNNEL};
use inner::{Crossing, Tap};
use outer::{Gateway, Outer, Rules};
use recorder::Recorder;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Drops of frames that were never on their way to a peer, so that they explain no missing packet.
const NEVER_TO_A_PEER: [&str; 6] = [
    "multicast",
    "broadcast",
    "unknown_mac",
    "not_ip_frame",
    "tunnel_short",
    "no_outbound",
];

/// Captures that run, and the counters from before.
pub struct Judge {
    taps: [Recorder; 2],
    nics: [Recorder; 2],
    before: [BTreeMap<String, u64>; 2],
    rules: Rules,
}

/// What was seen.
pub struct Verdict {
    /// Inner packets from the left to the right side, and from the right to the left.
    pub crossings: [Crossing; 2],
    /// What was between the gateways.
    pub outer: Outer,
    /// By how much each counter of a lost packet grew, those that did; per side.
    pub losses: [BTreeMap<String, u64>; 2],
    /// The frames that left the gateways: those of the left one, then those of the right one.
    pub wire: Vec<Vec<u8>>,
}

impl Judge {
    /// From now on. Nothing should be on its way.
    pub fn start(pair: &Pair) -> Judge {
        // A frame that net_af_packet sends passes no capture on its own interface (PACKET_QDISC_BYPASS).
        Judge::start_at(pair, [End::Left, End::Right].map(|end| pair.far_end(end)))
    }

    /// From now on, with a relay that makes the one side's frames look different to the other: they are judged as
    /// `end` sends and receives them.
    pub fn start_as_seen_by(pair: &Pair, end: End) -> Judge {
        Judge::start_at(pair, [pair.far_end(end); 2])
    }

    /// `wires`: where the frames of the left side and those of the right one are captured.
    fn start_at(pair: &Pair, wires: [(&Namespace, &str); 2]) -> Judge {
        let sides = [&pair.left, &pair.right];
        let gateway = |end: End| {
            let side = pair.side(end);
            Gateway {
                address: end.outer(pair.outer_v6),
                mac: side.namespace.enter(|| mac(NIC)),
                ports: (0..pair.peers).map(|peer| FIRST_PORT + peer as u16).collect(),
            }
        };
        Judge {
            rules: Rules {
                gateways: [gateway(End::Left), gateway(End::Right)],
                mtu: pair.nic_mtu.into(),
                peers: pair.peers,
                ids_in_order: true,
            },
            before: sides.map(|side| side.losses()),
            taps: sides.map(|side| Recorder::start(&side.namespace, TUNNEL)),
            nics: wires.map(|(namespace, interface)| Recorder::start(namespace, interface)),
        }
    }

    /// Several lcores seal for one peer: ids may come out of order, but never twice.
    pub fn ids_in_any_order(mut self) -> Judge {
        self.rules.ids_in_order = false;
        self
    }

    /// Waits until nothing moves any more, and judges. Panics if a capture lost a frame, or if a rule for what is between
    /// the gateways or for what came out was broken; packets that are missing are the caller's to judge.
    pub fn finish(self, pair: &Pair) -> Verdict {
        self.settle();
        let sides = [&pair.left, &pair.right];
        let macs = sides.map(|side| side.namespace.enter(|| mac(TUNNEL)));
        let taps = self.taps.map(Recorder::stop);
        let mut wire = Vec::new();
        for (nic, gateway) in self.nics.into_iter().zip(&self.rules.gateways) {
            // What else passes there came from the other side.
            wire.extend(
                nic.stop()
                    .into_iter()
                    .filter(|frame| frame.get(6..12) == Some(&gateway.mac)),
            );
        }
        let [mut left, mut right] = [0, 1].map(|i| Tap::sort(&taps[i], macs[i]));
        let (there, back) = (std::mem::take(&mut left.sent), std::mem::take(&mut right.sent));
        let crossings = [inner::compare(&there, right), inner::compare(&back, left)];
        let losses = [0, 1].map(|i| grown(&self.before[i], &sides[i].losses()));
        let verdict = Verdict {
            crossings,
            outer: outer::check(&wire, &self.rules),
            losses,
            wire,
        };
        verdict.assert_rules();
        verdict
    }

    /// Until no capture grew for a third of a second.
    fn settle(&self) {
        let (until, mut last) = (Instant::now() + Duration::from_secs(15), (0, Instant::now()));
        while last.1.elapsed() < Duration::from_millis(333) {
            let seen = self.taps.iter().chain(&self.nics).map(Recorder::seen).sum();
            if seen != last.0 {
                last = (seen, Instant::now());
            }
            assert!(Instant::now() < until, "traffic does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Verdict {
    /// Every packet that went in came out, and neither gateway counts a loss of one.
    pub fn assert_nothing_missing(&self) {
        for crossing in &self.crossings {
            assert!(crossing.missing.is_empty(), "{self}");
        }
        assert_eq!(self.explaining(), 0, "losses are counted: {self}");
    }

    /// What is missing stands under named counters.
    pub fn assert_explained(&self) {
        let missing: usize = self.crossings.iter().map(|c| c.missing.len()).sum();
        assert!(missing as u64 <= self.explaining(), "no counter names it: {self}");
    }

    /// By how much the counters grew that name a packet which was on its way to or from a peer.
    pub fn explaining(&self) -> u64 {
        let all = self.losses.iter().flatten();
        all.filter(|(name, _)| !NEVER_TO_A_PEER.contains(&name.as_str()))
            .map(|(_, count)| count)
            .sum()
    }

    /// `peer.py` opens every record that was between the gateways; what it printed.
    pub fn assert_opened(&self, pair: &Pair) -> Value {
        let folder = pair.left.gateway.folder.path();
        let capture = folder.join("wire.pcap");
        pcap_file::write(&capture, &self.wire);
        let opened = open(&folder.join("keys.json"), &capture);
        assert_eq!(
            opened["records"],
            self.outer.records.iter().sum::<usize>(),
            "{opened}"
        );
        assert_eq!(opened["failures"], 0, "{opened}");
        assert_eq!(opened["duplicates"], 0, "{opened}");
        opened
    }

    /// [`Verdict::assert_opened`], and what it finds in the records is what came out: for when nothing was lost. Keepalives
    /// are allowed besides.
    pub fn assert_opened_by_others(&self, pair: &Pair) {
        let opened = self.assert_opened(pair);
        for (direction, crossing) in ["encrypt", "decrypt"].iter().zip(&self.crossings) {
            for peer in 0..pair.peers {
                let (mut digest, mut packets) = (Sha256::new(), 0u64);
                for packet in crossing.received.iter().filter(|p| p.peer == peer) {
                    digest.update((packet.bytes.len() as u32).to_be_bytes());
                    digest.update(&packet.bytes);
                    packets += 1;
                }
                let inner = &opened["inner"][direction][peer.to_string()];
                if packets == 0 {
                    assert!(inner.is_null(), "{direction}, peer {peer}: {opened}");
                    continue;
                }
                let digest: String = digest.finalize().iter().map(|b| format!("{b:02x}")).collect();
                assert_eq!(inner["packets"], packets, "{direction}, peer {peer}: {opened}");
                assert_eq!(inner["sha256"], *digest, "{direction}, peer {peer}");
            }
        }
    }

    /// What holds whatever was lost.
    fn assert_rules(&self) {
        for crossing in &self.crossings {
            assert!(crossing.faults.is_empty(), "{self}");
        }
        assert!(self.outer.faults.is_empty(), "{self}");
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, crossing) in ["left to right", "right to left"].iter().zip(&self.crossings) {
            writeln!(f, "{name}: {crossing}")?;
        }
        writeln!(f, "between: {}", self.outer)?;
        writeln!(
            f,
            "losses counted: left {:?}, right {:?}",
            self.losses[0], self.losses[1]
        )
    }
}

/// The counters that grew.
fn grown(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grown = after.iter().map(|(name, count)| {
        let old = before.get(name).copied().unwrap_or(0);
        assert!(*count >= old, "{name} went back from {old} to {count}");
        (name.clone(), count - old)
    });
    grown.filter(|(_, count)| *count > 0).collect()
}

/// What `peer.py` finds in a capture, with a keys file.
pub fn open(keys: &Path, capture: &Path) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/peer.py");
    // Debian's own Python, which has Debian's own python3-cryptography.
    let mut command = Command::new("/usr/bin/python3");
    let printed = crate::gateway::run(command.arg(script).arg(keys).arg(capture));
    serde_json::from_str(&printed).unwrap_or_else(|e| panic!("{e}: {printed}"))
}

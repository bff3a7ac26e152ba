//! Inner packets: what went in at one tunnel interface against what came out at the other.

use super::packet::{Frame, ICMP, ICMPV6, Ip, TCP, UDP};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// First bytes of a peer's address on a tunnel interface; the peer id follows.
const PEER: [u8; 3] = [0x02, 0x6f, 0x76];
/// How many of a kind are shown.
const SHOWN: usize = 5;

/// An inner packet and the peer whose address its frame had.
pub struct Inner {
    /// By the destination of what was sent, the source of what was received.
    pub peer: u32,
    /// The IP packet, without padding.
    pub bytes: Vec<u8>,
}

/// A capture at a tunnel interface.
#[derive(Default)]
pub struct Tap {
    /// What the kernel sent to a peer.
    pub sent: Vec<Inner>,
    /// What the gateway delivered.
    pub received: Vec<Inner>,
    /// What is wrong with what the gateway delivered.
    pub faults: Vec<String>,
}

impl Tap {
    /// Tells what the kernel sent from what the gateway delivered; `own` is the interface's address. Group addresses, the
    /// kernel's own discovery and what is not IP are left out: none of it is for a peer.
    pub fn sort(frames: &[Vec<u8>], own: [u8; 6]) -> Tap {
        let mut tap = Tap::default();
        for (i, bytes) in frames.iter().enumerate() {
            let Some(frame) = Frame::parse(bytes) else {
                tap.faults.push(format!("frame {i}: {} bytes", bytes.len()));
                continue;
            };
            let of_peer = |mac: [u8; 6]| u32::from_be_bytes([0, mac[3], mac[4], mac[5]]);
            if !frame.is_ip() || frame.dst[0] & 1 == 1 {
                continue;
            }
            let ip = Ip::parse(frame.payload);
            if frame.src == own {
                // The kernel's own mistakes, and those of a test on purpose, are not ours to judge.
                if let Some(ip) = ip.ok().filter(|ip| !ip.is_kernels_own()) {
                    tap.sent.push(Inner {
                        peer: of_peer(frame.dst),
                        bytes: ip.bytes.to_vec(),
                    });
                }
                continue;
            }
            match ip {
                Ok(ip) if ip.is_kernels_own() => {}
                Ok(ip) => {
                    if frame.src[..3] != PEER || frame.dst != own {
                        let (src, dst) = (frame.src, frame.dst);
                        tap.faults
                            .push(format!("frame {i}: from {src:02x?} to {dst:02x?}"));
                    }
                    tap.received.push(Inner {
                        peer: of_peer(frame.src),
                        bytes: ip.bytes.to_vec(),
                    });
                }
                Err(why) => tap.faults.push(format!("frame {i}: {why}")),
            }
        }
        tap
    }
}

/// What happened to the packets of one direction. Numbers are places in what was sent or received.
#[derive(Default)]
pub struct Crossing {
    /// Packets that went in.
    pub sent: usize,
    /// Packets that came out.
    pub received: Vec<Inner>,
    /// Flows that went in.
    pub flows: usize,
    /// What went in and did not come out.
    pub missing: Vec<String>,
    /// What should not be: what came out and had not gone in, twice, or late in its flow, or with a wrong checksum.
    pub faults: Vec<String>,
}

/// Addresses, protocol, ports or ICMP type and identifier; whether it is a fragment.
type Flow = (IpAddr, IpAddr, u8, [u8; 4], bool);

fn flow(ip: &Ip) -> Flow {
    let word = |range: std::ops::Range<usize>| ip.payload.get(range).map_or([0; 2], |b| [b[0], b[1]]);
    let words = match ip.protocol {
        _ if ip.fragment.is_some() => [[0; 2]; 2],
        TCP | UDP => [word(0..2), word(2..4)],
        ICMP | ICMPV6 => [word(0..2), word(4..6)],
        _ => [[0; 2]; 2],
    };
    let words = [words[0][0], words[0][1], words[1][0], words[1][1]];
    (ip.src, ip.dst, ip.protocol, words, ip.fragment.is_some())
}

/// One flow of what went in.
#[derive(Default)]
struct Sent {
    /// Places of equal packets, by their normal form, that did not come out yet.
    waiting: HashMap<Vec<u8>, VecDeque<usize>>,
    /// One past the last place that came out.
    next: usize,
}

/// Compares what went in with what came out.
pub fn compare(sent: &[Inner], received: Tap) -> Crossing {
    let mut crossing = Crossing {
        sent: sent.len(),
        faults: received.faults,
        ..Crossing::default()
    };
    let mut flows: HashMap<Flow, Sent> = HashMap::new();
    for (place, inner) in sent.iter().enumerate() {
        let ip = Ip::parse(&inner.bytes).expect("sorted before");
        let flow = flows.entry(flow(&ip)).or_default();
        flow.waiting.entry(ip.normal_form()).or_default().push_back(place);
    }
    crossing.flows = flows.len();
    for (i, inner) in received.received.iter().enumerate() {
        let ip = Ip::parse(&inner.bytes).expect("sorted before");
        let mut fault = |what: &str| {
            crossing
                .faults
                .push(format!("packet {i}: {what}: {}", describe(&ip)))
        };
        if !ip.header_right || ip.checksum_right() == Some(false) {
            fault("wrong checksum");
        }
        let flow = flows.entry(flow(&ip)).or_default();
        let Some(places) = flow.waiting.get_mut(&ip.normal_form()) else {
            fault("it did not go in");
            continue;
        };
        // Of equal packets the first that is in order; else one was late.
        let in_order = places.iter().position(|place| *place >= flow.next);
        let Some(place) = places.remove(in_order.unwrap_or(0)) else {
            fault("it came out before");
            continue;
        };
        if in_order.is_none() {
            fault("it is late in its flow");
        }
        flow.next = flow.next.max(place + 1);
        let original = Ip::parse(&sent[place].bytes).expect("sorted before");
        if ip.mss() > original.mss() {
            fault("its MSS grew");
        }
    }
    let mut missing: Vec<usize> = flows
        .values()
        .flat_map(|flow| flow.waiting.values().flatten().copied())
        .collect();
    missing.sort_unstable();
    let said = missing.iter().map(|place| {
        let ip = Ip::parse(&sent[*place].bytes).expect("sorted before");
        format!("packet {place}: {}", describe(&ip))
    });
    crossing.missing = said.collect();
    crossing.received = received.received;
    crossing
}

fn describe(ip: &Ip) -> String {
    let (src, dst, protocol, words, _) = flow(ip);
    let len = ip.bytes.len();
    match ip.fragment {
        Some(f) => format!("{src} > {dst}, protocol {protocol}, {len} bytes, {f:?}"),
        None => format!("{src} > {dst}, protocol {protocol}, {len} bytes, {words:02x?}"),
    }
}

/// The first of them, and how many there are.
pub fn first(all: &[String]) -> String {
    let shown = all[..all.len().min(SHOWN)].join("\n    ");
    if all.is_empty() {
        "0".to_owned()
    } else {
        format!("{}\n    {shown}", all.len())
    }
}

impl std::fmt::Display for Crossing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} packets of {} flows in, {} out; missing {}; faults {}",
            self.sent,
            self.flows,
            self.received.len(),
            first(&self.missing),
            first(&self.faults)
        )
    }
}

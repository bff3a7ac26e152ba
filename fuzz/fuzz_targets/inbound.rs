//! Frames of the NIC through the inbound path, and of the host port through translation, whatever they hold: no panic, every
//! frame has one end that is counted, and no buffer is left (the bed sees to both when it goes).
//!
//! The first byte of an input says how the path is set up; then come frames: length (two bytes, little-endian),
//! [flags](Frame), bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nf_path::buf::{Buf, Verdict};
use nf_path::burst::{Frames, MAX_BURST};
use nf_path::inbound::classify::Listeners;
use nf_path::translate::{Translation, Translations};
use nf_path::tunnel::MssClamp;
use nf_path::twin::{BUF_LEN, HEADROOM, HeapBuf};
use nf_state::{Event, Routes, Way};
use nf_wire::ether::Tags;

#[path = "../../nf/path/tests/support/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "the bed is for the tests of the path as well"
)]
mod support;
use support::*;

/// Where it is listened besides the bed's own addresses: where the captures in tests/captures go.
const CAPTURED: [&str; 2] = ["192.168.90.1:1194", "[fd90::1]:1194"];
/// Known, current and local address of peers that have floated: some of the captures', some of the bed's. The third is
/// where the second was.
const FLOATED: [[&str; 3]; 6] = [
    ["203.0.113.9:4000", "192.168.90.11:40336", CAPTURED[0]],
    ["[2001:db8:9::9]:4000", "[fd90::11]:37113", CAPTURED[1]],
    ["198.51.100.1:40001", "203.0.113.9:4001", LISTEN_V4],
    ["203.0.113.9:4001", "198.51.100.2:40002", LISTEN_V4],
    ["203.0.113.9:4003", "198.51.100.2:40002", LISTEN_PORT],
    ["[2001:db8:1::9]:1", "[2001:db8:1::1]:40001", LISTEN_V6],
];

/// Batching is on.
const BATCH: u8 = 1;
/// There are two large buffers and no more.
const FEW_LARGE: u8 = 2;
/// Inner sources are checked.
const SOURCES: u8 = 4;
/// The host port takes no more than Ethernet's 1514 bytes.
const CUT: u8 = 8;
/// The MSS of inner connections is clamped.
const CLAMP: u8 = 16;
/// There is another table of translations after the first burst.
const SWAP: u8 = 32;
/// Nobody has floated.
const NONE: u8 = 64;

/// One frame of the input.
struct Frame<'i> {
    /// Bits 0 and 1: from the NIC as it is, with the rest of the bytes in a record over IPv4, over IPv6, or from the
    /// host port. Bit 2: somebody else sees it. Bit 3: in two segments. Bits 4 and 5: verdict on layer 4. Bit 6: a bad
    /// one on layer 3; from the host port: an unfinished checksum. Bit 7: the last one of its burst.
    flags: u8,
    bytes: &'i [u8],
}

impl<'i> Frame<'i> {
    fn next(input: &mut &'i [u8]) -> Option<Self> {
        let (head, rest) = input.split_first_chunk::<3>()?;
        let len = usize::from(u16::from_le_bytes([head[0], head[1]])) % (BUF_LEN - HEADROOM + 1);
        let (bytes, rest) = rest.split_at(len.min(rest.len()));
        *input = rest;
        Some(Frame {
            flags: head[2],
            bytes,
        })
    }

    fn is_from_host(&self) -> bool {
        self.flags & 3 == 3
    }

    fn build(&self) -> HeapBuf {
        match (self.flags & 3, self.bytes) {
            (kind @ (1 | 2), [peer, key_id, id, plaintext @ ..]) => {
                let peer = u32::from(*peer) % (PEERS + 2);
                let record = record_of(peer, *key_id % 3, (*id).into(), plaintext);
                let outer = if kind == 1 { outer(peer) } else { outer_v6(peer) };
                let frame = outer.payload(&record).build();
                self.buffer(&frame[..frame.len().min(BUF_LEN - HEADROOM)])
            }
            _ => self.buffer(self.bytes),
        }
    }

    fn buffer(&self, bytes: &[u8]) -> HeapBuf {
        let buf = if self.flags & 8 == 0 {
            HeapBuf::new(bytes)
        } else {
            let at = usize::from(self.bytes.last().copied().unwrap_or(0)).min(bytes.len());
            HeapBuf::from_segments(&[&bytes[..at], &bytes[at..]])
        };
        let buf = if self.flags & 4 == 0 { buf } else { buf.shared() };
        let verdicts = [Verdict::Unknown, Verdict::Good, Verdict::Bad, Verdict::None];
        let l4 = verdicts[usize::from(self.flags >> 4 & 3)];
        match (self.is_from_host(), self.flags & 64 != 0) {
            (true, unfinished) => buf.unfinished_by(unfinished, 0),
            (false, true) => buf.checksums(Verdict::Bad, l4),
            (false, false) => buf.checksums(Verdict::Unknown, l4),
        }
    }
}

fn bed(setup: u8) -> Bed {
    let mut sources = Routes::new();
    for peer in 1..PEERS {
        let prefix = format!("{}/32", address_of(peer)).parse().unwrap();
        sources.insert(prefix, peer).unwrap();
    }
    let mut bed = Bed::new(Setup {
        batch: setup & BATCH != 0,
        sources: (setup & SOURCES != 0).then_some(sources),
        ..Setup::default()
    });
    let mut listeners = Listeners::default();
    let own = [LISTEN_V4, LISTEN_PORT, LISTEN_V6, LISTEN_OTHER, LISTEN_OTHER_V6];
    for (address, tunnel) in own
        .into_iter()
        .zip([0, 0, 0, 1, 1])
        .chain(CAPTURED.map(|a| (a, 0)))
    {
        assert!(listeners.add(address.parse().unwrap(), tunnel));
    }
    bed.inbound().listen(Box::new(listeners));
    if setup & FEW_LARGE != 0 {
        bed.ledger.limit_large(2);
    }
    if setup & CUT != 0 {
        bed.inbound().cut_for_host(1514);
    }
    if setup & CLAMP != 0 {
        bed.tunnel().mss = Some(MssClamp { max: [[1300; 2]; 2] });
    }
    if setup & NONE == 0 {
        bed.inbound().translate(Box::new(table()));
    }
    bed
}

fn table() -> Translations {
    Translations::new((0u8..).zip(FLOATED).map(|(n, addresses)| {
        let [known, current, local] = addresses.map(|address| address.parse().unwrap());
        let tags = Tags {
            count: n % 3,
            tci: [7, 8],
            service: n & 1,
        };
        Translation {
            tunnel: 0,
            peer: n.into(),
            known,
            current,
            local,
            way: (n > 0).then_some(Way { dst: [2; 6], tags }),
        }
    }))
}

/// What the host port gave leaves in the same number of frames, each as long as it was.
fn to_nic(bed: &mut Bed, mut frames: Frames<HeapBuf>) {
    let lens = |frames: &Frames<HeapBuf>| frames.iter().map(HeapBuf::packet_len).collect::<Vec<_>>();
    let before = lens(&frames);
    bed.inbound().translate_out(&mut frames);
    assert_eq!(lens(&frames), before);
}

fuzz_target!(|input: &[u8]| {
    let Some((&setup, mut rest)) = input.split_first() else {
        return;
    };
    let mut bed = bed(setup);
    let (mut tables, mut ended, mut millis) = (1, 0, 0);
    while !rest.is_empty() {
        let (mut nic, mut host) = (Vec::new(), Frames::new());
        while let Some(frame) = Frame::next(&mut rest) {
            if frame.is_from_host() {
                host.push(frame.build());
            } else {
                nic.push(frame.build());
            }
            if frame.flags & 128 != 0 || nic.len().max(host.len()) == MAX_BURST {
                break;
            }
        }
        if nic.is_empty() && host.is_empty() {
            break;
        }
        millis += 700;
        let out = bed.at(millis).push(nic);
        assert!(out.delivered() <= MAX_BURST);
        bed.expire();
        to_nic(&mut bed, host);
        let session =
            |(_, event): &(u8, Event)| matches!(event, Event::NewSession { .. } | Event::OldAddress { .. });
        ended += bed.events().iter().filter(|event| session(event)).count();
        assert!(ended <= tables * FLOATED.len(), "each ends once");
        if setup & SWAP != 0 && tables == 1 {
            bed.inbound().translate(Box::new(table()));
            tables += 1;
        }
    }
});

//! From frames to batches and back, without any crypto: parse, classify, batch, look up, and an AEAD that does nothing,
//! so that every record ends as `bad_tag`. Per burst of 64 heap buffers, whose making is part of the figure; the
//! difference between the lines is what flows cost.

#![allow(missing_docs)] // criterion_group! makes a public function

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use nf_path::aead::Aead;
use nf_path::burst::{Frames, Now, Outputs};
use nf_path::context::Context;
use nf_path::counters::Counters;
use nf_path::fragments::{Fragments, Reassembly};
use nf_path::inbound::classify::Listeners;
use nf_path::inbound::{Inbound, Tuning};
use nf_path::tunnel::Tunnel;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::Frame;
use nf_state::{Addresses, Cipher, Direction, KeySlot, Lookahead, Peer, PeerTable};
use nf_wire::frame::Fragment;
use nf_wire::record::{AAD_LEN, HeaderWord, NONCE_LEN, TAG_LEN};
use std::net::SocketAddr;
use std::sync::Arc;

/// Opens nothing; the tag never matches.
struct NoAead;

impl Aead for NoAead {
    type Key = ();
    fn seal(&mut self, _: &(), _: &[u8; NONCE_LEN], _: &[u8; AAD_LEN], _: &mut [u8]) -> [u8; TAG_LEN] {
        [0; TAG_LEN]
    }

    fn open(&mut self, _: &(), _: &[u8; NONCE_LEN], _: &[u8; AAD_LEN], _: &mut [u8]) -> [u8; TAG_LEN] {
        [0xff; TAG_LEN]
    }
    fn prefetch_key(&self, _: &()) {}
}

/// There are no fragments here.
struct NoFragments;

impl Fragments<HeapBuf> for NoFragments {
    fn reassemble(&mut self, _: HeapBuf, _: &Fragment, _: Now) -> Reassembly<HeapBuf> {
        Reassembly::Refused(1)
    }
    fn expire(&mut self, _: Now) -> u32 {
        0
    }
    fn refragment(&mut self, _: HeapBuf, _: &mut dyn FnMut(HeapBuf)) -> bool {
        false
    }
    fn linearise(&mut self, scattered: HeapBuf) -> Result<HeapBuf, HeapBuf> {
        Err(scattered)
    }
}

const LISTEN: &str = "192.0.2.1:1194";

fn path(batch: bool) -> (Inbound<HeapBuf, NoFragments>, Context<NoAead>) {
    let mut listeners = Listeners::default();
    listeners.add(LISTEN.parse().unwrap(), 0);
    let mut peers = PeerTable::new();
    for id in 0..64 {
        let mut peer = Peer::new(id, Addresses::default());
        let none = || Direction {
            key: (),
            nonce_tail: [0; 8],
        };
        let _ = peer
            .keys
            .install_primary(KeySlot::new(Cipher::Aes128Gcm, 0, none(), none()));
        peers.insert(peer).unwrap();
    }
    let mut tunnel = Tunnel::new([0; 6]);
    tunnel.peers = peers;
    let tuning = Tuning {
        batch,
        lookahead: Lookahead::default(),
    };
    let counters = Arc::new(Counters::default());
    let context = Context::new(vec![tunnel], NoAead, counters.clone());
    (Inbound::new(listeners, tuning, NoFragments, counters), context)
}

fn frame(flow: u32, id: u32) -> Vec<u8> {
    let source = SocketAddr::from(([198, 51, 100, flow as u8], 40_000));
    let mut payload = [0; 100];
    payload[..4].copy_from_slice(&HeaderWord::data_v2(0, flow).0.to_be_bytes());
    payload[4..8].copy_from_slice(&id.to_be_bytes());
    Frame::udp(source, LISTEN.parse().unwrap())
        .payload(&payload)
        .build()
}

fn batch(c: &mut Criterion) {
    let mut group = c.benchmark_group("batch");
    for (name, flows, on) in [
        ("1 flow, on", 1, true),
        ("1 flow, off", 1, false),
        ("4 flows in turns, on", 4, true),
        ("64 flows, on", 64, true),
        ("64 flows, off", 64, false),
    ] {
        let frames: Vec<Vec<u8>> = (0..64u32).map(|i| frame(i % flows, i + 1)).collect();
        let ((mut path, mut context), mut out) = (path(on), Outputs::new(1));
        let make = || {
            frames
                .iter()
                .map(|f| HeapBuf::new(f))
                .collect::<Frames<HeapBuf>>()
        };
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                make,
                |rx| path.process(&mut context, rx, Now::default(), &mut out),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, batch);
criterion_main!(benches);

//! Nothing is allocated between the first and the last stage.

use allocation_counter::measure;
use nf_path::aead::Aead;
use nf_path::burst::{Frames, MAX_BURST, Outputs};
use nf_path::context::Context;
use nf_path::counters::Counters;
use nf_path::inbound::classify::Listeners;
use nf_path::inbound::{Inbound, Tuning};
use nf_path::translate::{Translation, Translations};
use nf_path::tunnel::Tunnel;
use nf_path::twin::craft::Frame;
use nf_path::twin::{HeapBuf, SoftAead, SoftKey};
use nf_path::verdict::DropReason;
use nf_state::{Lookahead, Scope};
use nf_wire::keepalive::PING;
use std::sync::Arc;

#[allow(dead_code, unused_imports, reason = "the bed is for the other tests")]
mod support;
use support::*;

/// [`SoftAead`] with one allocation per record.
struct Wasteful(SoftAead);

impl Aead for Wasteful {
    type Key = SoftKey;

    fn seal(&mut self, key: &SoftKey, nonce: &[u8; 12], aad: &[u8; 8], text: &mut [u8]) -> [u8; 16] {
        self.0.seal(key, nonce, aad, text)
    }

    fn open(&mut self, key: &SoftKey, nonce: &[u8; 12], aad: &[u8; 8], text: &mut [u8]) -> [u8; 16] {
        std::hint::black_box(Box::new(*nonce));
        self.0.open(key, nonce, aad, text)
    }

    fn prefetch_key(&self, key: &SoftKey) {
        self.0.prefetch_key(key);
    }
}

/// Records of every kind, control packets and foreign frames: a full burst from packet id `base` on. All peers have
/// moved to another port than in a burst of another `base`.
fn burst(base: u32) -> Frames<HeapBuf> {
    let mut frames = Frames::new();
    let outer = |peer: u32| outer(peer).ports((base + peer) as u16, 1194);
    let frame = |peer, id, len| {
        outer(peer)
            .payload(&record_of(peer, 0, id, &inner(peer, len, id)))
            .build()
    };
    let buf = |peer, id, len| HeapBuf::new(&frame(peer, id, len));
    for i in 0..MAX_BURST as u32 {
        let (peer, id) = (i / 4 % 8 + 1, base + i);
        let payload = |payload: &[u8]| HeapBuf::new(&outer(peer).payload(payload).build());
        frames.push(match i % 16 {
            3 => payload(&record_of(peer, 0, id, &PING)),
            5 => payload(&record_of(peer, 7, id, b"no key")),
            7 => payload(&record_of(99, 0, id, b"no peer")),
            9 => payload(&record_of(peer, 0, id, b"no ip")),
            11 => control(peer),
            13 => {
                let mut forged = frame(peer, id, 100);
                forged[100] ^= 1;
                HeapBuf::new(&forged)
            }
            _ => buf(peer, id, if i % 7 == 0 { 1400 } else { 100 }),
        });
    }
    frames
}

/// Allocations in one warm burst.
fn allocations<A: Aead<Key = SoftKey>>(aead: A, batch: bool) -> u64 {
    let mut listeners = Listeners::default();
    listeners.add(LISTEN_V4.parse().unwrap(), 0);
    let mut tunnel: Tunnel<SoftKey> = Tunnel::new(INTERFACE);
    tunnel.peers = peers();
    let tuning = Tuning {
        batch,
        lookahead: Lookahead {
            distance: 2,
            scope: Scope::Burst,
        },
    };
    let counters = Arc::new(Counters::default());
    let fragments = TwinFragments::new(Default::default());
    let mut inbound = Inbound::new(listeners, tuning, fragments, counters.clone());
    let mut context = Context::new(vec![tunnel], aead, counters.clone());
    let mut out = Outputs::new(1);
    inbound.process(&mut context, &mut burst(1), Default::default(), &mut out);
    let (warm, mut second) = (out.tunnels[0].len(), burst(1000));
    out.tunnels[0].clear();
    out.host.clear();
    let info = measure(|| inbound.process(&mut context, &mut second, Default::default(), &mut out));
    assert!(warm > 100 && out.tunnels[0].len() == warm && out.host.len() == 16);
    assert_eq!(counters.dropped(DropReason::BadTag), 32);
    assert_eq!((counters.floats.get(), context.events.len()), (16, 16));
    info.count_total
}

#[test]
fn a_burst_allocates_nothing() {
    assert_eq!(allocations(SoftAead::new(), true), 0);
    assert_eq!(allocations(SoftAead::new(), false), 0);
}

/// Nor where control packets are translated, either way, and where that ends.
#[test]
fn translation_allocates_nothing() {
    let mut listeners = Listeners::default();
    listeners.add(LISTEN_V4.parse().unwrap(), 0);
    let tuning = Tuning {
        batch: true,
        lookahead: Lookahead {
            distance: 2,
            scope: Scope::Burst,
        },
    };
    let counters = Arc::new(Counters::default());
    let fragments = TwinFragments::new(Default::default());
    let mut inbound = Inbound::new(listeners, tuning, fragments, counters.clone());
    let tunnel: Tunnel<SoftKey> = Tunnel::new(INTERFACE);
    let mut context = Context::new(vec![tunnel], SoftAead::new(), counters.clone());
    let table = (1..=PEERS).map(|peer| Translation {
        tunnel: 0,
        peer,
        known: ([203, 0, 113, peer as u8], 5000).into(),
        current: ([198, 51, 100, peer as u8], 40000 + peer as u16).into(),
        local: LISTEN_V4.parse().unwrap(),
        way: None,
    });
    inbound.translate(Box::new(Translations::new(table)));
    let to_known = |peer: u32| {
        let known = ([203, 0, 113, peer as u8], 5000).into();
        HeapBuf::new(
            &Frame::udp(LISTEN_V4.parse().unwrap(), known)
                .payload(&[0x28; 9])
                .build(),
        )
    };
    let opens = |peer| HeapBuf::new(&outer(peer).payload(&[7 << 3; 20]).build());
    let mut received: Frames<HeapBuf> = (1..=PEERS).flat_map(|p| [control(p), opens(p)]).collect();
    let mut sent: Frames<HeapBuf> = (1..=PEERS).map(to_known).collect();
    let mut out = Outputs::new(1);
    let info = measure(|| {
        inbound.translate_out(&mut sent);
        inbound.process(&mut context, &mut received, Default::default(), &mut out);
    });
    let peers = u64::from(PEERS);
    assert_eq!(
        (counters.translated_rx.get(), counters.translated_tx.get()),
        (peers, peers)
    );
    assert_eq!((context.events.len(), info.count_total), (PEERS as usize, 0));
}

#[test]
fn an_allocation_would_be_seen() {
    let records = allocations(Wasteful(SoftAead::new()), true);
    assert!(records > 100, "{records} allocations");
}

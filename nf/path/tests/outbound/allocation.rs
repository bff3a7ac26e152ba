//! Nothing is allocated between the first and the last stage.

use crate::bed::*;
use crate::packets::{Shape, filler};
use crate::peers::*;
use allocation_counter::measure;
use nf_path::outbound::Sink;
use nf_path::tunnel::MssClamp;
use nf_path::twin::HeapBuf;
use nf_wire::ether::peer_mac;

/// Keeps what it gets, in room made before.
struct Kept(Vec<HeapBuf>);

impl Sink<HeapBuf> for Kept {
    fn nic(&mut self, frame: HeapBuf) {
        assert!(self.0.len() < self.0.capacity());
        self.0.push(frame);
    }

    fn tunnel(&mut self, frame: HeapBuf) {
        self.nic(frame);
    }

    fn steer(&mut self, _: u8, frame: HeapBuf) {
        self.nic(frame);
    }
}

/// Packets to all kinds of peers, with and without faults; nothing that needs a new buffer, which the twin allocates.
fn burst() -> Vec<HeapBuf> {
    let frame = |n: u32| {
        let peer = n / 3 % PEERS + 1;
        match n % 32 {
            3 => HeapBuf::new(&[0; 20]),
            5 => buf(77, 100, n),
            7 => buf(NO_WAY, 100, n),
            9 => buf(NO_IDS, 100, n),
            11 => HeapBuf::new(&framed([0xff; 6], &packet(1, 100, n))),
            13 => {
                let mut frame = Shape {
                    v6: false,
                    tags: 0,
                    options: false,
                }
                .tcp(0x18, &filler(300));
                frame[..6].copy_from_slice(&peer_mac(peer));
                HeapBuf::new(&frame).unfinished_by(true, 0)
            }
            _ => buf(peer, if n.is_multiple_of(7) { 1400 } else { 100 }, n),
        }
    };
    (0..256).map(frame).collect()
}

#[test]
fn a_burst_allocates_nothing() {
    let mss = Some(MssClamp { max: [[1400; 2]; 2] });
    let mut bed = Bed::new(Setup {
        mss,
        ..Setup::default()
    });
    for checked in [false, true] {
        let mut rx: nf_path::burst::Frames<HeapBuf> = burst().into_iter().collect();
        let mut kept = Kept(Vec::with_capacity(256));
        let frames = rx.len();
        let info = measure(|| bed.push_frames(&mut rx, &mut kept));
        assert!(
            kept.0.len() > 200 && frames == 256,
            "{} of {frames}",
            kept.0.len()
        );
        assert!(
            !checked || info.count_total == 0,
            "{} allocations",
            info.count_total
        );
    }
}

#[test]
fn an_allocation_would_be_seen() {
    let mut bed = Bed::default();
    let mut rx: nf_path::burst::Frames<HeapBuf> = burst().into_iter().collect();
    let mut sent = Sent::default();
    let info = measure(|| bed.push_frames(&mut rx, &mut sent));
    assert!(info.count_total > 200, "{} allocations", info.count_total);
}

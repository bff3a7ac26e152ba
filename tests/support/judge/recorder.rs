//! A capture that keeps every frame of an interface, or says that it did not.

use crate::gateway::Namespace;
use pcap::{Active, Capture};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of the ring that the kernel writes to; what a test sends while nobody reads has to fit.
const RING: i32 = 192 << 20;
/// After so many milliseconds the kernel hands over a block of the ring that is not full.
const BLOCK_MS: i32 = 20;

/// Frames in both directions, as the kernel's side of the interface sees them, kept in memory.
pub struct Recorder {
    thread: JoinHandle<(Vec<Vec<u8>>, u32)>,
    end: Arc<AtomicBool>,
    seen: Arc<AtomicUsize>,
    interface: String,
}

impl Recorder {
    /// From now on.
    pub fn start(namespace: &Namespace, interface: &str) -> Recorder {
        let capture = namespace.enter(|| {
            Capture::from_device(interface)
                .and_then(|c| {
                    c.snaplen(65_535)
                        .buffer_size(RING)
                        .timeout(BLOCK_MS)
                        .promisc(true)
                        .open()
                })
                .and_then(Capture::setnonblock)
                .unwrap_or_else(|e| panic!("{interface}: {e}"))
        });
        let (end, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (ended, count) = (end.clone(), seen.clone());
        let thread = std::thread::spawn(move || record(capture, &ended, &count));
        Recorder {
            thread,
            end,
            seen,
            interface: interface.to_owned(),
        }
    }

    /// How many frames there were so far.
    pub fn seen(&self) -> usize {
        self.seen.load(Ordering::Relaxed)
    }

    /// The frames up to now, in order. Panics if the kernel dropped one.
    pub fn stop(self) -> Vec<Vec<u8>> {
        self.end.store(true, Ordering::Relaxed);
        let (frames, dropped) = self.thread.join().expect("the recorder's thread");
        assert_eq!(
            dropped, 0,
            "cannot judge: the capture at {} lost frames",
            self.interface
        );
        frames
    }
}

/// Until told to end and nothing came for some blocks' time, or for two seconds more.
fn record(mut capture: Capture<Active>, end: &AtomicBool, count: &AtomicUsize) -> (Vec<Vec<u8>>, u32) {
    let (mut frames, mut last, mut told) = (Vec::new(), Instant::now(), None);
    loop {
        match capture.next_packet() {
            Ok(packet) => {
                assert_eq!(
                    packet.header.caplen, packet.header.len,
                    "cannot judge: a frame was cut"
                );
                frames.push(packet.data.to_vec());
                count.store(frames.len(), Ordering::Relaxed);
                last = Instant::now();
            }
            Err(pcap::Error::TimeoutExpired | pcap::Error::NoMorePackets) => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(e) => panic!("cannot judge: {e}"),
        }
        if end.load(Ordering::Relaxed) {
            let told = *told.get_or_insert_with(Instant::now);
            let quiet = last.max(told).elapsed() > Duration::from_millis(5 * BLOCK_MS as u64);
            if quiet || told.elapsed() > Duration::from_secs(2) {
                let dropped = capture.stats().expect("statistics").dropped;
                return (frames, dropped);
            }
        }
    }
}

//! Something between two gateways: every frame passes through a function that may change, hold back, double or add.

use crate::gateway::Namespace;
use crate::pair::End;
use pcap::{Active, Capture, Direction};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What becomes of a frame that came from one end: frames, each with the end that it goes to.
pub type Change = dyn Fn(End, Vec<u8>) -> Vec<(End, Vec<u8>)> + Send + Sync;

/// Bytes of the ring of each interface, divided into places of the snapshot length.
const RING: i32 = 64 << 20;
/// Longest frame that passes.
const SNAPLEN: i32 = 9600;

/// The thread that passes frames on; it ends when this is dropped.
pub struct Relay {
    thread: Option<JoinHandle<()>>,
    end: Arc<AtomicBool>,
}

impl Relay {
    /// Between these interfaces of the namespace, the one to the left side and the one to the right.
    pub fn start(namespace: &Namespace, interfaces: [&str; 2], change: Arc<Change>) -> Relay {
        let mut captures = interfaces.map(|interface| namespace.enter(|| open(interface)));
        let end = Arc::new(AtomicBool::new(false));
        let ended = end.clone();
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let moved = [End::Left, End::Right].map(|from| pass(&mut captures, from, &*change));
                if moved == [false, false] {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
        Relay {
            thread: Some(thread),
            end,
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) && !std::thread::panicking() {
            panic!("the relay failed: see above");
        }
    }
}

fn open(interface: &str) -> Capture<Active> {
    let capture = Capture::from_device(interface)
        .and_then(|c| {
            c.snaplen(SNAPLEN)
                .buffer_size(RING)
                .immediate_mode(true)
                .promisc(true)
                .open()
        })
        .and_then(Capture::setnonblock)
        .and_then(|c| c.direction(Direction::In).map(|()| c));
    capture.unwrap_or_else(|e| panic!("{interface}: {e}"))
}

/// Passes on what came from one end, at most a burst of it. Whether there was anything.
fn pass(captures: &mut [Capture<Active>; 2], from: End, change: &Change) -> bool {
    for n in 0..64 {
        let frame = match captures[from.index()].next_packet() {
            Ok(packet) => packet.data.to_vec(),
            Err(pcap::Error::TimeoutExpired | pcap::Error::NoMorePackets) => return n > 0,
            Err(e) => panic!("the relay: {e}"),
        };
        for (to, frame) in change(from, frame) {
            let until = Instant::now() + Duration::from_secs(1);
            while let Err(e) = captures[to.index()].sendpacket(&*frame) {
                assert!(Instant::now() < until, "the relay to {to:?}: {e}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    true
}

/// The left side sees UDP in a VLAN, the right side sees none: what a switch does with an access port. All else, so ARP,
/// passes unchanged, since the kernel may know no VLANs.
pub fn vlan(id: u16) -> Arc<Change> {
    Arc::new(move |from, mut frame| {
        let tagged = frame[12..14] == [0x81, 0x00];
        match from {
            End::Left if tagged => drop(frame.drain(12..16)),
            End::Right if !tagged && is_udp(&frame) => {
                let [high, low] = id.to_be_bytes();
                frame.splice(12..12, [0x81, 0x00, high, low]);
            }
            _ => {}
        }
        vec![(from.other(), frame)]
    })
}

/// Whether an untagged frame holds UDP, or the fragment of some.
pub fn is_udp(frame: &[u8]) -> bool {
    match frame[12..14] {
        [0x08, 0x00] => frame.get(23) == Some(&17),
        [0x86, 0xdd] => {
            frame.get(20) == Some(&17) || (frame.get(20) == Some(&44) && frame.get(54) == Some(&17))
        }
        _ => false,
    }
}

//! A flood takes every buffer; when they are back, traffic passes again, packet by packet.

mod common;
mod rig;

use std::path::Path;
use std::sync::Arc;

use lcore::buffers::Pools;
use lcore::mailbox::mailbox;
use lcore::reassembly::IpFrag;
use lcore::steering::Steering;
use lcore::worker::{Parts, Queues, Worker};
use lcore::{Eal, Imb, Mempool, Port, PortConfig, RingPort};
use nf_path::counters::Counters;
use nf_path::outbound::Nic;
use rig::{delivered, frame, inner};

/// Buffers: as few as a full burst and what waits at the tunnel port.
const BUFFERS: u32 = 255;
/// Records in the capture, many times what there are buffers for.
const RECORDS: u32 = 2000;

/// A capture of records 1 to [`RECORDS`].
fn capture(path: &Path) {
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let mut out = words(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, 1]);
    for id in 1..=RECORDS {
        let frame = frame(1, id, 200);
        out.extend(words(&[1, 0, frame.len() as u32, frame.len() as u32]));
        out.extend(frame);
    }
    std::fs::write(path, out).expect("a folder that can be written to");
}

/// A worker between a capture and a ring that nobody empties.
struct Dry {
    worker: Worker,
    counters: Arc<Counters>,
    small: Arc<Mempool>,
    nic: Port,
    tunnel: RingPort,
}

impl Dry {
    fn new(eal: &Eal, file: &Path, small: Arc<Mempool>, large: Arc<Mempool>) -> Dry {
        let nic = Port::create_vdev(eal, "net_pcap0", &format!("rx_pcap={}", file.display()))
            .expect("net_pcap is there");
        let tunnel = RingPort::new(eal, "tunnel", BUFFERS).expect("a ring");
        // What is sent to the tunnel port stays in its ring: the worker receives from this one.
        let idle = Port::create_vdev(eal, "net_null0", "no-rx=1").expect("net_null is there");
        for port in [&nic, tunnel.port(), &idle] {
            port.start(&PortConfig::default(), &small).expect("it starts");
        }
        let queues = |from: &Port, to: &Port| Queues {
            rx: from.rx_queue(0).expect("queue 0"),
            tx: to.tx_queue(0).expect("queue 0"),
            longest: usize::MAX,
        };
        let imb = Imb::new().expect("this CPU has AES-NI");
        let counters = Arc::new(Counters::default());
        let parts = Parts {
            nic: queues(&nic, &nic),
            outer: Nic {
                mac: rig::NIC,
                mtu: 1500,
                checksums: false,
            },
            host: None,
            tunnels: vec![queues(&idle, tunnel.port())],
            tables: vec![rig::tunnel(&imb)],
            listeners: rig::listeners(&rig::LISTEN),
            tuning: rig::tuning(true),
            last_heard: false,
            burst: 32,
            idle_sleep: None,
            mailbox: mailbox().1,
            steering: Steering::mesh(1).pop().expect("one worker"),
            pools: Pools::new(small.clone(), large.clone()),
            counters: counters.clone(),
            cycles_per_ms: eal.tsc_hz() / 1000,
        };
        let fragments = IpFrag::new(eal, large, small.clone(), 1500).expect("a table");
        Dry {
            worker: Worker::new(parts, imb, fragments),
            counters,
            small,
            nic,
            tunnel,
        }
    }

    /// Frames of the capture that found no buffer, and so are lost.
    fn lost(&self) -> u64 {
        self.nic.stats().expect("counters").rx_nombuf
    }

    /// Nobody empties the ring, until there is no buffer left to receive into.
    fn flood(&mut self) {
        while self.worker.poll() > 0 {}
        assert_eq!((self.small.available(), self.tunnel.len() as u32), (0, BUFFERS));
        for _ in 0..100 {
            assert_eq!(self.worker.poll(), 0, "no buffer, no frame");
        }
        assert!(self.lost() >= 100, "{} frames found no buffer", self.lost());
        let flood: Vec<_> = rig::taken(&mut self.tunnel).iter().map(rig::bytes).collect();
        assert!(
            flood
                == (1..=BUFFERS)
                    .map(|id| delivered(1, &inner(200, id)))
                    .collect::<Vec<_>>()
        );
        assert_eq!(self.small.available(), BUFFERS);
    }

    /// One buffer at a time: each frame passes on its own, and it is the capture's next.
    fn trickle(&mut self) {
        for _ in 0..50 {
            let next = self.counters.totals().nic_rx + self.lost() + 1;
            let held: Vec<_> =
                std::iter::from_fn(|| (self.small.available() > 1).then(|| self.small.alloc())).collect();
            assert_eq!(self.worker.poll(), 1, "a lone frame leaves within one poll");
            let sent = rig::taken(&mut self.tunnel);
            let sent: Vec<_> = sent.iter().map(rig::bytes).collect();
            assert_eq!(sent, [delivered(1, &inner(200, next as u32))]);
            drop(held);
        }
    }

    /// At full rate to the end of the capture.
    fn rest(&mut self) {
        while self.worker.poll() > 0 {
            self.tunnel.drain();
        }
        let t = self.counters.totals();
        assert_eq!(
            t.nic_rx + self.lost(),
            u64::from(RECORDS),
            "every frame came or found no buffer"
        );
        assert!(t.nic_rx > u64::from(RECORDS) / 2, "most of them came");
        assert_eq!(
            (t.tunnel_tx, t.nonzero_drops().count()),
            (t.nic_rx, 0),
            "and every one that came left"
        );
    }
}

#[test]
fn traffic_passes_again_after_the_pool_ran_dry() {
    let eal = common::eal("dry");
    let file = std::env::temp_dir().join(format!("dry-{}.pcap", std::process::id()));
    capture(&file);
    let pool = |name, count, room| Mempool::new(&eal, name, count, 0, room, -1).expect("a pool");
    let (small, large) = (pool("small", BUFFERS, 2176), pool("large", 7, rig::LARGE_ROOM));
    let mut dry = Dry::new(&eal, &file, small.clone(), large.clone());
    dry.flood();
    dry.trickle();
    dry.rest();
    drop(dry);
    std::fs::remove_file(file).expect("it was written");
    for pool in [small, large] {
        assert_eq!(
            pool.available(),
            pool.capacity(),
            "{}: as full as at the start",
            pool.name()
        );
    }
}

//! A flood takes every buffer; when they are back, traffic passes again, packet by packet.

mod common;
mod rig;

use std::sync::Arc;

use lcore::mailbox::mailbox;
use lcore::reassembly::IpFrag;
use lcore::worker::{Parts, Queues, Worker};
use lcore::{Imb, Mempool, Port, PortConfig, RingPort};
use nf_path::counters::Counters;
use nf_path::inbound::Tuning;
use nf_state::Lookahead;
use rig::{delivered, frame, inner};

/// Buffers: as few as a full burst and what waits at the tunnel port.
const BUFFERS: u32 = 255;
/// Records in the capture, many times what there are buffers for.
const RECORDS: u32 = 2000;

/// A capture of records 1 to [`RECORDS`].
fn capture(path: &std::path::Path) {
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let mut out = words(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, 1]);
    for id in 1..=RECORDS {
        let frame = frame(1, id, 200);
        out.extend(words(&[1, 0, frame.len() as u32, frame.len() as u32]));
        out.extend(frame);
    }
    std::fs::write(path, out).expect("a folder that can be written to");
}

#[test]
fn traffic_passes_again_after_the_pool_ran_dry() {
    let eal = common::eal("dry");
    let file = std::env::temp_dir().join(format!("dry-{}.pcap", std::process::id()));
    capture(&file);
    let pool = |name, count, room| Mempool::new(&eal, name, count, 0, room, -1).expect("a pool");
    let (small, large) = (pool("small", BUFFERS, 2176), pool("large", 7, rig::LARGE_ROOM));
    let nic = Port::create_vdev(&eal, "net_pcap0", &format!("rx_pcap={}", file.display())).expect("net_pcap is there");
    nic.start(&PortConfig::default(), &small).expect("it starts");
    let mut tunnel = RingPort::new(&eal, "tunnel", BUFFERS).expect("a ring");
    tunnel.port().start(&PortConfig::default(), &small).expect("it starts");
    let queues = |port: &Port| Queues {
        rx: port.rx_queue(0).expect("queue 0"),
        tx: port.tx_queue(0).expect("queue 0"),
        longest: usize::MAX,
    };
    // The tunnel port's own queue is not the worker's to read: what it sends stays in the ring.
    let idle = Port::create_vdev(&eal, "net_null0", "no-rx=1").expect("net_null is there");
    idle.start(&PortConfig::default(), &small).expect("it starts");
    let to_tunnel =
        Queues { rx: idle.rx_queue(0).expect("queue 0"), tx: tunnel.port().tx_queue(0).expect("queue 0"), longest: usize::MAX };
    let imb = Imb::new().expect("this CPU has AES-NI");
    let counters = Arc::new(Counters::default());
    let parts = Parts {
        nic: queues(&nic),
        host: None,
        tunnels: vec![to_tunnel],
        tables: vec![rig::tunnel(&imb)],
        listeners: rig::listeners(),
        tuning: Tuning { batch: true, lookahead: Lookahead::default() },
        burst: 32,
        idle_sleep: None,
        mailbox: mailbox().1,
        counters: counters.clone(),
        cycles_per_ms: eal.tsc_hz() / 1000,
    };
    let fragments = IpFrag::new(&eal, large.clone(), small.clone(), 1500).expect("a table");
    let mut worker = Worker::new(parts, imb, fragments);

    // The flood: nobody empties the ring, until there is no buffer left to receive into.
    while worker.poll() > 0 {}
    assert_eq!((small.available(), tunnel.len() as u32), (0, BUFFERS));
    for _ in 0..100 {
        assert_eq!(worker.poll(), 0, "no buffer, no frame");
    }
    let lost = nic.stats().expect("counters").rx_nombuf;
    assert!(lost >= 100, "{lost} frames found no buffer");
    let flood: Vec<_> = rig::taken(&mut tunnel).iter().map(rig::bytes).collect();
    assert!(flood == (1..=BUFFERS).map(|id| delivered(1, &inner(200, id))).collect::<Vec<_>>());
    assert_eq!(small.available(), BUFFERS);

    // One buffer at a time: each frame passes on its own, and the next is the capture's next.
    let mut next = BUFFERS + lost as u32 + 1;
    for _ in 0..50 {
        let held: Vec<_> = std::iter::from_fn(|| (small.available() > 1).then(|| small.alloc())).collect();
        assert_eq!(worker.poll(), 1, "a lone frame leaves within one poll");
        let sent = rig::taken(&mut tunnel);
        assert_eq!(sent.iter().map(rig::bytes).collect::<Vec<_>>(), [delivered(1, &inner(200, next))]);
        drop((sent, held));
        // The burst of 32 found no second buffer, which cost one more frame.
        let now = nic.stats().expect("counters").rx_nombuf;
        next = counters.totals().nic_rx as u32 + now as u32 + 1;
    }
    // And at full rate to the end of the capture.
    let mut total = counters.totals().nic_rx;
    while worker.poll() > 0 {
        total = counters.totals().nic_rx;
        tunnel.drain();
    }
    let lost = nic.stats().expect("counters").rx_nombuf;
    assert_eq!(total + lost, u64::from(RECORDS), "every frame came or found no buffer");
    assert_eq!(counters.totals().tunnel_tx, total, "and every one that came left");
    assert_eq!(counters.totals().nonzero_drops().count(), 0);
    drop((worker, tunnel, nic, idle));
    std::fs::remove_file(file).expect("it was written");
    for pool in [small, large] {
        assert_eq!(pool.available(), pool.capacity(), "{}: as full as at the start", pool.name());
    }
}

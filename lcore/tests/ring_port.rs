//! A round trip through net_ring, byte for byte, and what happens when the ring is full.

mod common;

use lcore::{Burst, PortConfig, RingPort};
use nf_path::buf::{Buf, Layout};

#[test]
fn what_a_ring_takes_comes_back_and_the_rest_stays() {
    let eal = common::eal("ring");
    let pool = common::pool(&eal, "ring", 1023);
    let mut ring = RingPort::new(&eal, "loop0", 127).expect("a ring");
    ring.port()
        .start(&PortConfig::default(), &pool)
        .expect("it starts");
    let mut rx = ring.port().rx_queue(0).expect("queue 0");
    let mut tx = ring.port().tx_queue(0).expect("queue 0");

    let mut burst = Burst::<200>::new();
    assert!(pool.alloc_bulk(&mut burst, 200));
    for (i, m) in burst.iter_mut().enumerate() {
        let bytes: Vec<u8> = (0..60 + i).map(|b| (b * 7 + i) as u8).collect();
        assert!(m.extend_from_slice(&bytes));
        m.narrow(14, 40);
        m.restate(Layout {
            l2_len: 14,
            l3_len: 20,
            packet_type: 0x11,
        });
    }
    assert_eq!(tx.send(&mut burst), 127, "the ring's places");
    assert_eq!(burst.len(), 73, "the rest stays");
    let front: Vec<u8> = burst[0].data().to_vec();
    assert_eq!(front[0], (14 * 7 + 127) as u8, "in order");
    assert_eq!(tx.send(&mut burst), 0, "nothing loops on a full ring");
    assert_eq!(ring.len(), 127);

    let mut back = Burst::<256>::new();
    assert_eq!(rx.recv(&mut back, 100), 100);
    assert_eq!(ring.fill(&mut burst), 73, "from the program's side");
    assert!(burst.is_empty());
    assert_eq!(rx.recv(&mut back, 256), 100);
    for (i, m) in back.iter().enumerate() {
        let bytes: Vec<u8> = (14..54).map(|b: usize| (b * 7 + i) as u8).collect();
        assert_eq!(m.data(), bytes, "packet {i}");
        assert_eq!((m.packet_len(), m.headroom()), (40, 128 + 14));
    }
    assert_eq!(pool.available(), 823);
    assert_eq!(ring.fill(&mut back), 127);
    assert_eq!(back.len(), 73);
    assert_eq!(ring.take(&mut back), 127);
    assert_eq!((back.len(), ring.drain()), (200, 0));
    assert_eq!(tx.send(&mut back), 127);
    assert_eq!(ring.drain(), 127);
    drop(back);
    assert!(ring.is_empty());
    assert_eq!(
        pool.available(),
        pool.capacity(),
        "as full at the end as at the start"
    );
    drop((rx, tx));
    goes_with_all_it_holds(&eal, &pool, ring);
}

fn goes_with_all_it_holds(eal: &lcore::Eal, pool: &lcore::Mempool, mut ring: RingPort) {
    let mut burst = Burst::<8>::new();
    assert!(pool.alloc_bulk(&mut burst, 8));
    assert_eq!(ring.fill(&mut burst), 8);
    drop(ring);
    assert_eq!(
        pool.available(),
        pool.capacity(),
        "a ring that goes gives back what it held"
    );
    let again = RingPort::new(eal, "loop0", 127).expect("its name is free again");
    assert!(RingPort::new(eal, "loop0", 127).is_err(), "taken");
    drop((again, burst));
}

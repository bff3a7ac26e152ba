//! Bursts through net_null: every buffer comes back, in order of taking and dropping.

mod common;

use lcore::{Burst, Error, Port, PortConfig, RxQueue, TxQueue};
use nf_path::buf::Buf;

#[test]
fn bursts_through_net_null_give_every_buffer_back() {
    let eal = common::eal("null");
    assert!(!eal.hugepages());
    assert!(eal.page_size() >= 4096 && eal.tsc_hz() > 1_000_000);
    assert!(matches!(lcore::Eal::init(&[]), Err(Error::EalTwice)));
    let pool = common::pool(&eal, "null", 2047);
    assert_eq!((pool.available(), pool.capacity()), (2047, 2047));
    let port = Port::create_vdev(&eal, "net_null0", "size=100").expect("net_null is there");
    assert!(matches!(
        Port::by_name(&eal, "net_null0"),
        Err(Error::PortTaken(_))
    ));
    assert!(port.rx_queue(0).is_err(), "not started");
    let off = port
        .start(
            &PortConfig {
                rx_queues: 1,
                ..PortConfig::default()
            },
            &pool,
        )
        .expect("it starts");
    assert!(
        off.iter().any(|line| line.contains("checksum")),
        "net_null has no checksum offload: {off:?}"
    );
    assert_eq!(port.driver().expect("a driver"), "net_null");
    let mut rx = port.rx_queue(0).expect("queue 0");
    let mut tx = port.tx_queue(0).expect("queue 0");
    assert!(matches!(port.rx_queue(0), Err(Error::QueueTaken { .. })));
    assert!(matches!(port.tx_queue(7), Err(Error::NoQueue { count: 1, .. })));

    let mut burst = Burst::<64>::new();
    bursts(&port, &mut rx, &mut tx, &mut burst);
    assert_eq!(rx.recv(&mut burst, 5), 5);
    drop(burst);
    let stats = port.stats().expect("counters");
    assert_eq!((stats.ipackets, stats.opackets), (500 * 64 + 5, 167 * 64));
    assert_eq!(
        pool.available(),
        pool.capacity(),
        "as full at the end as at the start"
    );
    bulk_allocation(&pool);

    drop((rx, port));
    assert!(
        matches!(Port::by_name(&eal, "net_null0"), Err(Error::PortTaken(_))),
        "a queue keeps it open"
    );
    drop(tx);
    assert!(
        matches!(Port::by_name(&eal, "net_null0"), Err(Error::NoPort(_))),
        "closed and removed"
    );
    drop(Port::create_vdev(&eal, "net_null0", "").expect("its name is free again"));
    let error = Port::create_vdev(&eal, "net_nosuch0", "")
        .expect_err("no such driver")
        .to_string();
    assert!(error.contains("net_nosuch0") && !error.contains('\n'), "{error}");
}

fn bursts(port: &Port, rx: &mut RxQueue, tx: &mut TxQueue, burst: &mut Burst<64>) {
    for round in 0..500 {
        assert_eq!(rx.recv(burst, 32), 32);
        assert_eq!(rx.recv(burst, usize::MAX), 32, "as many as there are places");
        assert_eq!(rx.recv(burst, 32), 0, "no place left");
        assert!(
            burst
                .iter()
                .all(|m| m.packet_len() == 100 && m.segments() == 1 && m.is_private())
        );
        assert_eq!(burst.iter().filter(|m| m.port() == port.id()).count(), 64);
        match round % 3 {
            0 => assert_eq!(tx.send(burst), 64),
            1 => burst.clear(),
            _ => drop(burst.take()),
        }
        assert!(burst.is_empty());
    }
}

fn bulk_allocation(pool: &lcore::Mempool) {
    let mut all = Burst::<2048>::new();
    assert!(!pool.alloc_bulk(&mut all, 2048) && all.is_empty(), "all or none");
    assert!(
        !pool.alloc_bulk(&mut Burst::<4>::new(), 5),
        "no more than there are places"
    );
    assert!(pool.alloc_bulk(&mut all, 1000));
    assert_eq!(pool.available(), 1047);
    drop(all);
    assert_eq!(pool.available(), 2047);
}

use super::*;
use nf_wire::frame::{Parsed, parse};
use std::sync::atomic::AtomicBool;

fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn way(last: u8) -> Way {
    Way {
        dst: [2, 0, 0, 0, 0, last],
        tags: Tags {
            count: 2,
            tci: [0x6001, 0x0fff],
            service: 1,
        },
    }
}

/// The outer facts of a datagram from `remote` to `local`.
fn outer(remote: SocketAddr, local: SocketAddr) -> Outer {
    let mut frame = vec![0; 12];
    let udp = |f: &mut Vec<u8>| {
        f.extend(remote.port().to_be_bytes());
        f.extend(local.port().to_be_bytes());
        f.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    };
    match (remote.ip(), local.ip()) {
        (IpAddr::V4(r), IpAddr::V4(l)) => {
            frame.extend([8, 0, 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0]);
            frame.extend(r.octets());
            frame.extend(l.octets());
        }
        (IpAddr::V6(r), IpAddr::V6(l)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 12, 17, 64]);
            frame.extend(r.octets());
            frame.extend(l.octets());
        }
        _ => panic!("one family"),
    }
    udp(&mut frame);
    match parse(&frame, frame.len()) {
        Parsed::Udp(udp) => udp.outer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_set_is_read() {
    assert_eq!(Endpoint::new().read(), None);
    for (remote, local) in [
        ("192.0.2.1:1194", "198.51.100.9:65535"),
        ("[2001:db8::1]:1", "[fe80::2]:2"),
    ] {
        for way in [None, Some(way(7)), Some(Way::default())] {
            let binding = Binding {
                remote: socket(remote),
                local: socket(local),
                way,
            };
            assert_eq!(Endpoint::bound(&binding).read(), Some(binding));
        }
    }
}

#[test]
fn a_datagram_is_held_only_with_all_of_remote_and_local_the_same() {
    let (a, b) = (socket("192.0.2.1:1194"), socket("198.51.100.9:4"));
    let endpoint = Endpoint::bound(&Binding {
        remote: a,
        local: b,
        way: Some(way(1)),
    });
    assert!(endpoint.holds(&outer(a, b)));
    assert!(!endpoint.holds(&outer(b, a)));
    for (remote, local) in [
        ("192.0.2.2:1194", "198.51.100.9:4"),
        ("192.0.2.1:1195", "198.51.100.9:4"),
        ("192.0.2.1:1194", "198.51.100.8:4"),
        ("192.0.2.1:1194", "198.51.100.9:5"),
        // The same bits in the other family.
        ("[::c000:201]:1194", "[::c633:6409]:4"),
    ] {
        assert!(
            !endpoint.holds(&outer(socket(remote), socket(local))),
            "{remote} {local}"
        );
    }
    assert!(!Endpoint::new().holds(&outer(a, b)));
}

#[test]
fn a_remote_without_a_way_is_to_be_learned_from() {
    let (a, b) = (socket("192.0.2.1:1194"), socket("198.51.100.9:4"));
    let endpoint = Endpoint::bound(&Binding {
        remote: a,
        local: b,
        way: None,
    });
    assert!(!endpoint.holds(&outer(a, b)));
    assert_eq!(endpoint.move_to(&outer(a, b), way(3), 1), Moved::Local);
    assert!(endpoint.holds(&outer(a, b)));
    assert!(endpoint.set_way(a, b, None));
    assert!(!endpoint.holds(&outer(a, b)));
}

#[test]
fn a_move_tells_remote_from_local() {
    let endpoint = Endpoint::new();
    let (a, b, c) = (
        socket("192.0.2.1:1"),
        socket("192.0.2.1:2"),
        socket("198.51.100.9:4"),
    );
    let d = socket("198.51.100.10:4");
    assert_eq!(endpoint.move_to(&outer(a, c), way(1), 5), Moved::Remote);
    assert_eq!(endpoint.move_to(&outer(a, c), way(1), 5), Moved::No);
    assert_eq!(endpoint.move_to(&outer(b, c), way(1), 5), Moved::Remote);
    assert_eq!(endpoint.move_to(&outer(b, d), way(1), 5), Moved::Local);
    assert_eq!(endpoint.move_to(&outer(b, d), way(2), 5), Moved::Local);
    let read = endpoint.read().unwrap();
    assert_eq!((read.remote, read.local, read.way), (b, d, Some(way(2))));
    assert!(endpoint.is_way(&way(2)) && !endpoint.is_way(&way(1)));
}

#[test]
fn an_older_key_does_not_move_it_back() {
    let endpoint = Endpoint::new();
    let (a, b, c) = (
        socket("192.0.2.1:1"),
        socket("192.0.2.1:2"),
        socket("198.51.100.9:4"),
    );
    assert_eq!(endpoint.move_to(&outer(a, c), way(1), 5), Moved::Remote);
    assert_eq!(endpoint.move_to(&outer(b, c), way(1), 6), Moved::Remote);
    assert_eq!(endpoint.move_to(&outer(a, c), way(1), 5), Moved::No);
    assert_eq!(endpoint.read().unwrap().remote, b);
}

#[test]
fn a_way_is_set_for_the_remote_that_it_was_looked_up_for() {
    let (a, b, c) = (
        socket("192.0.2.1:1"),
        socket("192.0.2.1:2"),
        socket("198.51.100.9:4"),
    );
    let endpoint = Endpoint::new();
    assert!(!endpoint.set_way(a, c, Some(way(1))));
    endpoint.move_to(&outer(a, c), way(1), 1);
    assert!(endpoint.set_way(a, c, Some(way(2))));
    assert!(!endpoint.set_way(b, c, Some(way(3))));
    assert_eq!(endpoint.read().unwrap().way, Some(way(2)));
    assert!(endpoint.set_way(a, c, None));
    assert_eq!(endpoint.read().unwrap().way, None);
}

#[test]
fn a_held_address_is_news_once() {
    let endpoint = Endpoint::new();
    let (a, b, c) = (
        socket("192.0.2.1:1"),
        socket("192.0.2.1:2"),
        socket("198.51.100.9:4"),
    );
    assert!(endpoint.note_held(&outer(a, c)));
    assert!(!endpoint.note_held(&outer(a, c)));
    assert!(endpoint.note_held(&outer(b, c)));
}

#[test]
fn readers_never_see_half_a_write() {
    let endpoint = Endpoint::new();
    let binding = |i: u16| {
        let ip = IpAddr::V6(Ipv6Addr::new(i, i, i, i, i, i, i, i));
        Binding {
            remote: SocketAddr::new(ip, i),
            local: SocketAddr::new(ip, i),
            way: Some(Way {
                dst: [i as u8; 6],
                tags: Tags {
                    count: 1,
                    tci: [i, i],
                    service: 0,
                },
            }),
        }
    };
    endpoint.set(&binding(1));
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let readers = [(); 2].map(|()| {
            s.spawn(|| {
                let mut reads = 0u64;
                while !stop.load(Relaxed) || reads == 0 {
                    let seen = endpoint.read().expect("bound");
                    assert_eq!(seen, binding(seen.remote.port()));
                    reads += 1;
                }
            })
        });
        for i in 0..200_000u32 {
            endpoint.set(&binding(1 + (i % 60_000) as u16));
        }
        stop.store(true, Relaxed);
        readers.into_iter().for_each(|r| r.join().unwrap());
    });
}

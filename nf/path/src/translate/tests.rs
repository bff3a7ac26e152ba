use super::*;
use nf_wire::frame::{Parsed, parse};

const OPEN: u8 = 7;
const CONTROL: u8 = 4;
const LOCAL: &str = "192.0.2.1:1194";

fn translation(peer: u32, known: &str, current: &str, local: &str) -> Translation {
    Translation {
        tunnel: 3,
        peer,
        known: known.parse().unwrap(),
        current: current.parse().unwrap(),
        local: local.parse().unwrap(),
        way: None,
    }
}

/// What the headers of a datagram say.
fn outer(from: &str, to: &str) -> Outer {
    let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let mut frame = vec![0; 12];
    match (from, to) {
        (SocketAddr::V4(a), SocketAddr::V4(b)) => {
            frame.extend([8, 0, 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0]);
            frame.extend([a.ip().octets(), b.ip().octets()].concat());
        }
        (SocketAddr::V6(a), SocketAddr::V6(b)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 12, 17, 64]);
            frame.extend([a.ip().octets(), b.ip().octets()].concat());
        }
        _ => panic!("addresses of two families"),
    }
    frame.extend([from.port().to_be_bytes(), to.port().to_be_bytes()].concat());
    frame.extend([0, 12, 0, 0, 0, 0, 0, 0]);
    match parse(&frame, frame.len()) {
        Parsed::Udp(udp) => udp.outer,
        other => panic!("{other:?}"),
    }
}

/// A table whose events are kept.
struct Table(Translations, Vec<(u8, Event)>);

impl Table {
    fn new(all: &[Translation]) -> Self {
        Table(Translations::new(all.iter().copied()), Vec::new())
    }

    fn incoming(&mut self, from: &str, to: &str, opcode: u8) -> Option<String> {
        let Table(table, events) = self;
        let tell = |tunnel, event| {
            events.push((tunnel, event));
            true
        };
        let known = table.incoming(&outer(from, to), opcode, tell);
        known.map(|address| address.to_string())
    }

    fn outgoing(&self, from: &str, to: &str) -> Option<u32> {
        self.0.outgoing(&outer(from, to)).map(|t| t.peer)
    }
}

const KNOWN: &str = "198.51.100.1:5000";
const CURRENT: &str = "203.0.113.1:6000";

fn opened(peer: u32) -> (u8, Event) {
    (3, Event::NewSession { peer })
}

fn old(peer: u32, remote: &str) -> (u8, Event) {
    let remote = remote.parse().unwrap();
    (3, Event::OldAddress { peer, remote })
}

#[test]
fn only_the_exact_flows_are_translated() {
    let mut table = Table::new(&[translation(1, KNOWN, CURRENT, LOCAL)]);
    assert_eq!(table.incoming(CURRENT, LOCAL, CONTROL).as_deref(), Some(KNOWN));
    assert_eq!(table.outgoing(LOCAL, KNOWN), Some(1));
    for (from, to) in [
        ("203.0.113.1:6001", LOCAL),
        ("203.0.113.2:6000", LOCAL),
        (CURRENT, "192.0.2.1:1195"),
        (CURRENT, "192.0.2.2:1194"),
        (LOCAL, CURRENT),
        ("[::203.0.113.1]:6000", "[::192.0.2.1]:1194"),
    ] {
        assert_eq!(table.incoming(from, to, CONTROL), None, "{from} {to}");
    }
    for (from, to) in [
        (LOCAL, CURRENT),
        (KNOWN, LOCAL),
        (LOCAL, "198.51.100.1:5001"),
        ("192.0.2.1:1195", KNOWN),
        ("[::192.0.2.1]:1194", "[::198.51.100.1]:5000"),
    ] {
        assert_eq!(table.outgoing(from, to), None, "{from} {to}");
    }
    assert_eq!(table.1, []);
}

#[test]
fn a_session_that_is_opened_ends_it_once() {
    for opcode in [7, 10] {
        let mut table = Table::new(&[translation(1, KNOWN, CURRENT, LOCAL)]);
        for opcode in [opcode, CONTROL, opcode] {
            assert_eq!(table.incoming(CURRENT, LOCAL, opcode), None);
        }
        assert_eq!(table.incoming(KNOWN, LOCAL, CONTROL), None);
        assert_eq!((table.outgoing(LOCAL, KNOWN), table.1), (None, vec![opened(1)]));
    }
    let mut table = Table::new(&[translation(1, KNOWN, CURRENT, LOCAL)]);
    for opcode in (0..32).filter(|o| ![7, 10].contains(o)) {
        assert!(table.incoming(CURRENT, LOCAL, opcode).is_some(), "{opcode}");
    }
    assert_eq!(table.1, []);
}

#[test]
fn anything_from_the_known_address_ends_it_once() {
    for opcode in [OPEN, CONTROL] {
        let mut table = Table::new(&[translation(1, KNOWN, CURRENT, LOCAL)]);
        for _ in 0..3 {
            assert_eq!(table.incoming(KNOWN, LOCAL, opcode), None);
        }
        assert_eq!(table.incoming(CURRENT, LOCAL, CONTROL), None);
        assert_eq!(
            (table.outgoing(LOCAL, KNOWN), table.1),
            (None, vec![old(1, KNOWN)])
        );
    }
}

#[test]
fn what_could_not_be_told_is_told_later() {
    let mut table = Translations::new([translation(1, KNOWN, CURRENT, LOCAL)]);
    let (from_current, from_known) = (outer(CURRENT, LOCAL), outer(KNOWN, LOCAL));
    for full in [true, true, false, false] {
        let mut told = Vec::new();
        let heard = table.incoming(&from_current, OPEN, |_, event| {
            told.push(event);
            !full
        });
        assert_eq!(heard, None, "it has ended all the same");
        assert_eq!(table.incoming(&from_known, CONTROL, |_, _| false), None);
        assert!(told.iter().all(|event| *event == Event::NewSession { peer: 1 }));
    }
    let heard = table.incoming(&from_known, CONTROL, |_, _| panic!("told twice"));
    assert_eq!(heard, None);
}

/// One peer has moved to where another was before it moved on.
#[test]
fn a_chain_of_peers() {
    let (a, b, c) = ("198.51.100.1:1", "198.51.100.1:2", "198.51.100.1:3");
    let chain = [translation(1, a, b, LOCAL), translation(2, b, c, LOCAL)];
    let mut table = Table::new(&chain);
    assert_eq!(table.incoming(b, LOCAL, CONTROL).as_deref(), Some(a));
    assert_eq!(table.incoming(c, LOCAL, CONTROL).as_deref(), Some(b));
    assert_eq!(
        (table.outgoing(LOCAL, a), table.outgoing(LOCAL, b)),
        (Some(1), Some(2))
    );
    assert_eq!(table.1, []);
    // A new client there is neither of them, and what the daemon answers must reach it.
    assert_eq!(table.incoming(b, LOCAL, OPEN), None);
    assert_eq!(table.outgoing(LOCAL, b), None);
    assert_eq!(table.1, [opened(1), old(2, b)]);
}

#[test]
fn peers_at_one_address_are_told_apart_by_ours() {
    let other = "192.0.2.1:1195";
    let mut table = Table::new(&[
        translation(1, KNOWN, CURRENT, LOCAL),
        translation(2, "198.51.100.2:5000", CURRENT, other),
    ]);
    assert_eq!(table.incoming(CURRENT, LOCAL, CONTROL).as_deref(), Some(KNOWN));
    assert_eq!(
        table.incoming(CURRENT, other, CONTROL).as_deref(),
        Some("198.51.100.2:5000")
    );
    assert_eq!(table.incoming(CURRENT, other, OPEN), None);
    assert_eq!(
        table.incoming(CURRENT, LOCAL, CONTROL).as_deref(),
        Some(KNOWN),
        "still"
    );
    assert_eq!(table.1, [opened(2)]);
}

#[test]
fn what_cannot_be_translated_is_left_out() {
    let v6 = "[2001:db8::1]:1194";
    let none = [
        translation(1, KNOWN, "[2001:db8::7]:6000", LOCAL),
        translation(1, "[2001:db8::7]:6000", CURRENT, v6),
        translation(1, KNOWN, CURRENT, v6),
        translation(1, KNOWN, KNOWN, LOCAL),
    ];
    assert!(none.iter().all(|t| Translations::new([*t]).is_empty()));
    let mut table = Table::new(&[
        translation(1, KNOWN, CURRENT, LOCAL),
        translation(2, "198.51.100.2:1", CURRENT, LOCAL),
        translation(3, KNOWN, "203.0.113.3:1", LOCAL),
        // Its address is that of one that is left out itself.
        translation(4, "198.51.100.2:1", "203.0.113.4:1", LOCAL),
    ]);
    assert_eq!(table.0.len(), 2);
    assert_eq!(table.outgoing(LOCAL, KNOWN), Some(1));
    assert_eq!(
        table.incoming("203.0.113.4:1", LOCAL, CONTROL).as_deref(),
        Some("198.51.100.2:1")
    );
    assert_eq!(table.incoming("203.0.113.3:1", LOCAL, CONTROL), None);
}

#[test]
fn ten_thousand_are_all_found() {
    let at = |net: u8, n: u32| format!("10.{net}.{}.{}:{}", n / 251, n % 251, n % 7 + 1);
    let all: Vec<_> = (0..10_000)
        .map(|n| translation(n, &at(1, n), &at(2, n * 7919 % 10_000), LOCAL))
        .collect();
    let mut table = Table::new(&all);
    assert_eq!(table.0.len(), all.len());
    for t in &all {
        let (known, current) = (t.known.to_string(), t.current.to_string());
        assert_eq!(table.incoming(&current, LOCAL, CONTROL), Some(known.clone()));
        assert_eq!(table.outgoing(LOCAL, &known), Some(t.peer));
    }
}

#[test]
fn fragments_are_told_by_their_addresses() {
    let mut table = Table::new(&[
        translation(1, "198.51.100.1:1", CURRENT, LOCAL),
        translation(2, "198.51.100.1:2", "203.0.113.1:6001", LOCAL),
    ]);
    let may = |table: &Table, from, to| table.0.may_be_outgoing(&outer(from, to));
    assert!(may(&table, "192.0.2.1:0", "198.51.100.1:0"));
    assert!(!may(&table, "192.0.2.1:0", "198.51.100.2:0"));
    assert!(!may(&table, "192.0.2.2:0", "198.51.100.1:0"));
    assert!(!may(&table, "[::192.0.2.1]:0", "[::198.51.100.1]:0"));
    assert_eq!(table.incoming(CURRENT, LOCAL, OPEN), None);
    assert!(
        may(&table, "192.0.2.1:0", "198.51.100.1:0"),
        "the other is in use"
    );
    assert_eq!(table.incoming("203.0.113.1:6001", LOCAL, OPEN), None);
    assert!(!may(&table, "192.0.2.1:0", "198.51.100.1:0"));
}

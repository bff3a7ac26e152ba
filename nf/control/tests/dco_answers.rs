//! Answers that no recording has, and requests with attributes that neither daemon sends.

mod dco;

use dco::requests::{KEY, TAIL, direction, key_new, new_peer, peer_new, peer_set, set_peer, sockaddr_in6};
use dco::{DCO_V2, OVPN, attr, generic, integer, split, u32_attr};
use nf_control::dco::{
    self as codec, Command, Errno, Family, Header, KeyState, NewPeer, Notification, PeerState, Refusal,
    SetPeer, decode, reply,
};
use nf_state::{Cipher, Slot};
use ovpn_dco_protocol::{GENERIC, STATUS};
use std::net::SocketAddr;

const TO: Header = Header {
    len: 40,
    kind: 0x26,
    flags: 5,
    seq: 7,
    pid: 99,
    interface: 3,
};

#[track_caller]
fn command(packet: &[u8]) -> Command {
    match decode(packet, Some(GENERIC)).expect("understood").message {
        codec::Message::Peer(request) => request.command,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn new(sent: &dco::requests::Sent) -> NewPeer {
    match command(&sent.bytes()) {
        Command::NewPeer(new) => new,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn set(sent: &dco::requests::Sent) -> SetPeer {
    match command(&sent.bytes()) {
        Command::SetPeer(set) => set,
        other => panic!("{other:?}"),
    }
}

fn state() -> PeerState {
    PeerState {
        id: 8,
        tx_id: 9,
        remote: Some("192.0.2.9:1194".parse().unwrap()),
        local: Some("192.0.2.1:1195".parse().unwrap()),
        vpn_v4: Some([10, 8, 0, 2].into()),
        vpn_v6: Some([0xfd; 16].into()),
        interval: 10,
        timeout: 60,
        vpn_rx: [1, 100],
        vpn_tx: [2, 200],
        link_rx: [3, 1 << 40],
        link_tx: [(7 << 32) + 4, 400],
    }
}

/// The nest of an answer, after its header was compared.
#[track_caller]
fn nest_of(packet: &[u8], command: u8, flags: u16) -> Vec<(u16, Vec<u8>)> {
    let len = packet.len() as u32;
    assert_eq!(packet[..4], len.to_ne_bytes());
    assert_eq!(packet[6..8], flags.to_ne_bytes());
    assert_eq!(packet[8..16], [7, 0, 0, 0, 99, 0, 0, 0]);
    assert_eq!(packet[16..20], [command, 1, 0, 0]);
    let top = split(&packet[20..]);
    split(&top.last().unwrap().1)
}

#[test]
fn the_long_answer_of_dco_v2() {
    let packet = reply::peer(Family::DcoV2, &TO, &state(), false);
    assert_eq!(split(&packet[20..])[0], (1, vec![3, 0, 0, 0]));
    let nest = nest_of(&packet, 7, 0);
    let widths: Vec<(u16, usize)> = nest.iter().map(|(id, v)| (*id, v.len())).collect();
    let expected = [
        (1, 4),
        (2, 16),
        (3, 4),
        (4, 16),
        (5, 4),
        (6, 2),
        (7, 4),
        (8, 4),
        (9, 8),
        (10, 8),
        (11, 4),
        (12, 4),
        (13, 8),
        (14, 8),
        (15, 4),
        (16, 4),
    ];
    assert_eq!(widths, expected);
    assert_eq!(nest[1].1, dco::requests::sockaddr_in());
    assert_eq!(nest[5].1, 1195_u16.to_be_bytes());
    let numbers: Vec<u64> = nest[6..].iter().map(|(_, v)| integer(v)).collect();
    // Packets have 32 bits in this family.
    assert_eq!(numbers, [10, 60, 100, 200, 1, 2, 1 << 40, 400, 3, 4]);
    let v6 = PeerState {
        remote: Some("[fd99::2]:1194".parse().unwrap()),
        local: Some("[fd99::1]:1195".parse().unwrap()),
        ..state()
    };
    let nest = nest_of(&reply::peer(Family::DcoV2, &TO, &v6, true), 7, 2);
    assert_eq!(nest[1].1, sockaddr_in6("fd99::2", 0));
    assert_eq!((nest[4].0, nest[4].1.len()), (5, 16));
}

#[test]
fn the_long_answer_of_ovpn() {
    let packet = reply::peer(Family::Ovpn, &TO, &state(), true);
    assert_eq!(split(&packet[20..]).len(), 1, "no IFINDEX");
    let nest = nest_of(&packet, 3, 2);
    let widths: Vec<(u16, usize)> = nest.iter().map(|(id, v)| (*id, v.len())).collect();
    // Eight bytes only where four are not enough, and neither socket nor its namespace (SOCKET_NETNSID, 7).
    let expected = [
        (1, 4),
        (2, 4),
        (5, 2),
        (8, 4),
        (9, 16),
        (10, 4),
        (12, 2),
        (13, 4),
        (14, 4),
        (16, 4),
        (17, 4),
        (18, 4),
        (19, 4),
        (20, 8),
        (21, 4),
        (22, 4),
        (23, 8),
        (24, 4),
    ];
    assert_eq!(widths, expected);
    assert_eq!(nest[6].1, 1195_u16.to_be_bytes());
    let numbers: Vec<u64> = nest[9..].iter().map(|(_, v)| integer(v)).collect();
    assert_eq!(numbers, [100, 200, 1, 2, 1 << 40, 400, 3, (7 << 32) + 4, 9]);
    let v6 = PeerState {
        local: Some("[fd99::1]:1195".parse().unwrap()),
        ..state()
    };
    let nest = nest_of(&reply::peer(Family::Ovpn, &TO, &v6, false), 3, 0);
    assert_eq!((nest[5].0, nest[5].1.len()), (11, 16));
}

#[test]
fn keys_are_told_of_without_their_bytes() {
    for (slot, n) in [(Slot::Primary, 0), (Slot::Secondary, 1)] {
        let sent = generic(
            OVPN,
            5,
            7,
            &[u32_attr(1, 3), dco::nest(3, &[u32_attr(1, 8), u32_attr(2, n)])],
        );
        let asked = command(&sent);
        assert!(
            matches!(&asked, Command::GetKey { peer: 8, slot: s } if *s == slot),
            "{asked:?}"
        );
        for (cipher, algorithm) in [(Cipher::Aes192Gcm, 1), (Cipher::ChaCha20Poly1305, 2)] {
            let key_id = 5;
            let peer = 8;
            let packet = reply::key(
                &TO,
                &KeyState {
                    peer,
                    slot,
                    key_id,
                    cipher,
                },
            );
            let nest = nest_of(&packet, 7, 0);
            let numbers: Vec<(u16, u64, usize)> =
                nest.iter().map(|(id, v)| (*id, integer(v), v.len())).collect();
            assert_eq!(
                numbers,
                [(1, 8, 4), (2, n.into(), 4), (3, 5, 4), (4, algorithm, 4)]
            );
        }
    }
}

#[test]
fn everything_a_peer_can_have() {
    let expected = NewPeer {
        id: 8,
        tx_id: Some(9),
        remote: Some("192.0.2.9:1194".parse().unwrap()),
        local: Some([192, 0, 2, 1].into()),
        vpn_v4: Some([10, 8, 0, 2].into()),
        vpn_v6: Some([0xfd; 16].into()),
        interval: Some(10),
        timeout: Some(60),
        socket: 7,
    };
    assert_eq!(new(&peer_new()), expected);
    let of_dco_v2 = NewPeer {
        tx_id: None,
        interval: None,
        timeout: None,
        ..expected
    };
    assert_eq!(new(&new_peer()), of_dco_v2);
    let changed = set(&peer_set());
    assert_eq!(
        (changed.id, changed.tx_id, changed.local),
        (8, Some(9), Some([192, 0, 2, 1].into()))
    );
    assert_eq!((changed.interval, changed.timeout), (Some(10), Some(60)));
    assert_eq!(changed.remote, Some("192.0.2.9:1194".parse().unwrap()));
    assert_eq!(
        (changed.vpn_v4, changed.vpn_v6),
        (Some([10, 8, 0, 2].into()), Some([0xfd; 16].into()))
    );
    // By itself an id changes nothing.
    let nothing = dco::requests::Sent {
        members: vec![u32_attr(1, 8)],
        ..peer_set()
    };
    assert_eq!(set(&nothing).remote, None);
    // One time alone does nothing in `ovpn-dco-v2`.
    for id in [2, 3] {
        let one = set(&set_peer().without(id));
        assert_eq!((one.interval, one.timeout), (None, None));
    }
}

#[test]
fn mapped_and_unspecified_addresses() {
    let mapped = "::ffff:192.0.2.9";
    let plain: Option<SocketAddr> = Some("192.0.2.9:1194".parse().unwrap());
    let octets = mapped.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let by_ovpn = peer_new()
        .without(2)
        .with(3, attr(3, &octets))
        .with(4, u32_attr(4, 2));
    assert_eq!(new(&by_ovpn).remote, plain);
    let by_dco_v2 = new_peer().with(2, attr(2, &sockaddr_in6(mapped, 0)));
    assert_eq!(new(&by_dco_v2).remote, plain);
    let local = by_dco_v2.with(6, attr(6, &octets));
    assert_eq!(new(&local).local, Some([192, 0, 2, 9].into()));
    for unspecified in [
        new_peer().with(6, attr(6, &[0; 4])),
        peer_new().with(10, attr(10, &[0; 4])),
    ] {
        assert_eq!(new(&unspecified).local, None);
    }
    let scoped = peer_new()
        .without(2)
        .without(10)
        .with(3, attr(3, &[0xfe; 16]))
        .with(4, u32_attr(4, 2));
    assert!(matches!(new(&scoped).remote, Some(SocketAddr::V6(v6)) if v6.scope_id() == 2));
}

#[test]
fn the_last_of_two_counts() {
    let mut twice = peer_new();
    twice.members.push(u32_attr(1, 5));
    assert_eq!(new(&twice).id, 5);
    let mut twice = key_new(DCO_V2);
    twice.members.push(direction(5, &[1; 32], &TAIL));
    match command(&twice.bytes()) {
        Command::NewKey(key) => assert_eq!((key.encrypt.key[0], key.decrypt.key[..] == KEY), (1, true)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn refusals() {
    let long = Refusal {
        errno: Errno::EBUSY,
        text: "\u{e4}".repeat(40_000),
    };
    let packet = reply::error(&TO, &long);
    assert_eq!(packet[4..8], [2, 0, 0, 3], "NLMSG_ERROR, CAPPED | ACK_TLVS");
    assert_eq!(packet[16..20], (-16_i32).to_ne_bytes());
    assert_eq!(
        packet[20..36],
        [40, 0, 0, 0, 0x26, 0, 5, 0, 7, 0, 0, 0, 99, 0, 0, 0]
    );
    let told = split(&packet[36..]);
    assert_eq!((told.len(), told[0].0, told[0].1.len()), (1, 1, 513));
    assert!(std::str::from_utf8(&told[0].1).is_ok_and(|t| t.ends_with("\u{e4}\0")));
    let none = Refusal {
        text: String::new(),
        ..long.clone()
    };
    assert_eq!(reply::error(&TO, &none).len(), 36);
    let cut = Refusal {
        text: "one\0two".into(),
        ..long
    };
    assert_eq!(split(&reply::error(&TO, &cut)[36..])[0].1, b"one\0");
}

#[test]
fn what_is_sent_beside_netlink() {
    assert_eq!(
        reply::noop(&TO),
        [16, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 99, 0, 0, 0]
    );
    let part = reply::status(&TO, b"{}");
    assert_eq!(
        part,
        [
            &[18, 0, 0, 0, STATUS as u8, 0, 2, 0, 7, 0, 0, 0, 99, 0, 0, 0][..],
            b"{}"
        ]
        .concat()
    );
    for family in Family::ALL {
        assert_eq!(codec::family_of_group(codec::group(family)), Some(family));
    }
    assert_eq!(codec::family_of_group(0), None);
    let remote = "192.0.2.9:1".parse().unwrap();
    let float = Notification::PeerFloated { peer: 1, remote };
    let swap = Notification::KeySwap { peer: 1, key_id: 1 };
    for what in [float, swap] {
        assert_eq!(codec::notification(Family::DcoV2, 3, &what), None);
        assert!(codec::notification(Family::Ovpn, 3, &what).is_some());
    }
}

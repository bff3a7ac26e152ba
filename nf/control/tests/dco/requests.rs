//! Good requests with every attribute, to be spoilt.

use super::{DCO_V2, OVPN, REQUEST, attr, generic, nest, u16_attr, u32_attr};

/// A key that is easily found again.
pub const KEY: [u8; 32] = [0xa5; 32];
pub const TAIL: [u8; 8] = [0x5a; 8];

/// One command: family, command, type of its nest, members of the nest.
#[derive(Clone)]
pub struct Sent {
    pub family: u16,
    pub command: u8,
    pub nest: u16,
    pub members: Vec<Vec<u8>>,
}

impl Sent {
    /// As a message about interface 3.
    pub fn bytes(&self) -> Vec<u8> {
        generic(
            self.family,
            REQUEST,
            self.command,
            &[u32_attr(1, 3), nest(self.nest, &self.members)],
        )
    }

    /// Without the members of a type.
    pub fn without(&self, id: u16) -> Sent {
        let mut sent = self.clone();
        sent.members
            .retain(|m| u16::from_ne_bytes([m[2], m[3]]) & 0x3fff != id);
        sent
    }

    /// With another member of a type.
    pub fn with(&self, id: u16, member: Vec<u8>) -> Sent {
        let mut sent = self.without(id);
        sent.members.push(member);
        sent
    }
}

fn sent(family: u16, command: u8, nest: u16, members: Vec<Vec<u8>>) -> Sent {
    Sent {
        family,
        command,
        nest,
        members,
    }
}

/// `struct sockaddr_in` of 192.0.2.9:1194.
pub fn sockaddr_in() -> Vec<u8> {
    let mut bytes = vec![2, 0, 0x04, 0xaa, 192, 0, 2, 9];
    bytes.resize(16, 0);
    bytes
}

/// `struct sockaddr_in6` of that address and port 1194.
pub fn sockaddr_in6(ip: &str, scope: u32) -> Vec<u8> {
    let ip: std::net::Ipv6Addr = ip.parse().expect("an IPv6 address");
    let mut bytes = vec![10, 0, 0x04, 0xaa, 0, 0, 0, 0];
    bytes.extend(ip.octets());
    bytes.extend(scope.to_ne_bytes());
    bytes
}

/// PEER_NEW of `ovpn`.
pub fn peer_new() -> Sent {
    let members = vec![
        u32_attr(1, 8),
        attr(2, &[192, 0, 2, 9]),
        attr(5, &[0x04, 0xaa]),
        u32_attr(6, 7),
        attr(8, &[10, 8, 0, 2]),
        attr(9, &[0xfd; 16]),
        attr(10, &[192, 0, 2, 1]),
        u32_attr(13, 10),
        u32_attr(14, 60),
        u32_attr(24, 9),
    ];
    sent(OVPN, 1, 2, members)
}

/// PEER_SET of `ovpn`.
pub fn peer_set() -> Sent {
    let new = peer_new().without(6);
    Sent { command: 2, ..new }
}

/// NEW_PEER of `ovpn-dco-v2`.
pub fn new_peer() -> Sent {
    let members = vec![
        u32_attr(1, 8),
        attr(2, &sockaddr_in()),
        u32_attr(3, 7),
        attr(4, &[10, 8, 0, 2]),
        attr(5, &[0xfd; 16]),
        attr(6, &[192, 0, 2, 1]),
    ];
    sent(DCO_V2, 1, 2, members)
}

/// SET_PEER of `ovpn-dco-v2`.
pub fn set_peer() -> Sent {
    sent(
        DCO_V2,
        2,
        3,
        vec![u32_attr(1, 8), u32_attr(2, 10), u32_attr(3, 60)],
    )
}

/// The nest of one direction of a key.
pub fn direction(id: u16, key: &[u8], tail: &[u8]) -> Vec<u8> {
    nest(id, &[attr(1, key), attr(2, tail)])
}

/// NEW_KEY, KEY_NEW: AES-256-GCM, key id 3, into the secondary slot of peer 8.
pub fn key_new(family: u16) -> Sent {
    let mut members = match family {
        OVPN => vec![u32_attr(1, 8), u32_attr(2, 1), u32_attr(3, 3), u32_attr(4, 1)],
        _ => vec![u32_attr(1, 8), attr(2, &[1]), attr(3, &[3]), u16_attr(4, 1)],
    };
    members.push(direction(5, &KEY, &TAIL));
    members.push(direction(6, &KEY, &TAIL));
    match family {
        OVPN => sent(OVPN, 6, 3, members),
        _ => sent(DCO_V2, 4, 5, members),
    }
}

/// The other commands, which name a peer or a peer and a slot: command, nest, type of the peer id, type and width of the
/// slot if there is one.
pub fn short() -> Vec<(Sent, u16, Option<u16>)> {
    let of_ovpn = |command, nest, slot: bool| {
        let mut members = vec![u32_attr(1, 8)];
        if slot {
            members.push(u32_attr(2, 1));
        }
        (sent(OVPN, command, nest, members), 1, slot.then_some(2))
    };
    let of_dco_v2 = |command, nest, slot: bool| {
        let mut members = vec![u32_attr(1, 8)];
        if slot {
            members.push(attr(2, &[1]));
        }
        (sent(DCO_V2, command, nest, members), 1, slot.then_some(2))
    };
    vec![
        of_ovpn(3, 2, false),
        of_ovpn(4, 2, false),
        of_ovpn(7, 3, true),
        of_ovpn(8, 3, false),
        of_ovpn(10, 3, true),
        of_dco_v2(5, 6, false),
        of_dco_v2(6, 7, true),
        of_dco_v2(7, 8, false),
        (sent(DCO_V2, 3, 4, vec![u32_attr(2, 8)]), 2, None),
    ]
}

/// All commands.
pub fn all() -> Vec<Sent> {
    let long = [
        peer_new(),
        peer_set(),
        new_peer(),
        set_peer(),
        key_new(OVPN),
        key_new(DCO_V2),
    ];
    long.into_iter().chain(short().into_iter().map(|s| s.0)).collect()
}

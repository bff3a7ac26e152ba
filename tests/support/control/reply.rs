//! Answers and notifications, taken apart.

use super::message::{GENERIC, attributes, find, kind, u16_at, u32_at};
use super::request::Family;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// A peer as GET_PEER tells of it. Packets first, then bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Peer id.
    pub id: u32,
    /// Id that it knows us by; only `ovpn` says it.
    pub tx_id: Option<u32>,
    /// Where it is.
    pub remote: Option<SocketAddr>,
    /// Our address and port towards it.
    pub local: Option<SocketAddr>,
    /// VPN addresses.
    pub vpn: Vec<IpAddr>,
    /// Keepalive interval and timeout.
    pub timers: (u32, u32),
    /// Inner packets received.
    pub vpn_rx: [u64; 2],
    /// Inner packets sent.
    pub vpn_tx: [u64; 2],
    /// Datagrams received.
    pub link_rx: [u64; 2],
    /// Datagrams sent.
    pub link_tx: [u64; 2],
}

fn ip(bytes: &[u8]) -> IpAddr {
    match <[u8; 4]>::try_from(bytes) {
        Ok(v4) => v4.into(),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(bytes).expect("four or sixteen bytes")),
    }
}

fn port(bytes: &[u8]) -> u16 {
    u16::from_be_bytes(bytes.try_into().expect("two bytes"))
}

/// `uint`: four bytes if it fits, else eight.
fn uint(bytes: &[u8]) -> u64 {
    match bytes.len() {
        4 => u32_at(bytes, 0).into(),
        8 => {
            let value = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
            assert!(value > u32::MAX.into(), "{value} in eight bytes");
            value
        }
        n => panic!("{n} bytes"),
    }
}

fn u64_of(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
}

fn u32_of(bytes: &[u8]) -> u32 {
    u32::from_ne_bytes(bytes.try_into().expect("four bytes"))
}

fn sockaddr(bytes: &[u8]) -> SocketAddr {
    match (u16_at(bytes, 0), bytes.len()) {
        (2, 16) => SocketAddr::new(ip(&bytes[4..8]), port(&bytes[2..4])),
        (10, 28) => {
            let address: [u8; 16] = bytes[8..24].try_into().expect("sixteen bytes");
            let (ip, port) = (Ipv6Addr::from(address), port(&bytes[2..4]));
            SocketAddrV6::new(ip, port, 0, u32_at(bytes, 24)).into()
        }
        other => panic!("a sockaddr of {other:?}"),
    }
}

impl Peer {
    /// Of an answer to GET_PEER. Every attribute has to have the width that the family gives it.
    pub fn of(family: Family, message: &[u8]) -> Peer {
        assert_eq!(kind(message), family.id());
        let top: BTreeMap<u16, &[u8]> = attributes(message, GENERIC)
            .into_iter()
            .map(|(id, _, value)| (id, value))
            .collect();
        match family {
            Family::DcoV2 => {
                assert_eq!(
                    (message[16], top.len()),
                    (7, 2),
                    "GET_PEER with IFINDEX and one nest"
                );
                Peer::of_dco_v2(top[&8])
            }
            Family::Ovpn => {
                assert_eq!(
                    (message[16], top.len()),
                    (3, 1),
                    "PEER_GET with nothing but the nest"
                );
                Peer::of_ovpn(top[&2])
            }
        }
    }

    fn of_dco_v2(nest: &[u8]) -> Peer {
        let mut peer = Peer::default();
        let (mut local, mut local_port) = (None, 0);
        for (id, _, value) in attributes(nest, 0) {
            match id {
                // What aligns a number of eight bytes.
                0 => assert!(value.is_empty()),
                1 => peer.id = u32_of(value),
                2 => peer.remote = Some(sockaddr(value)),
                3 | 4 => peer.vpn.push(ip(value)),
                5 => local = Some(ip(value)),
                6 => local_port = port(value),
                7 => peer.timers.0 = u32_of(value),
                8 => peer.timers.1 = u32_of(value),
                9 => peer.vpn_rx[1] = u64_of(value),
                10 => peer.vpn_tx[1] = u64_of(value),
                11 => peer.vpn_rx[0] = u32_of(value).into(),
                12 => peer.vpn_tx[0] = u32_of(value).into(),
                13 => peer.link_rx[1] = u64_of(value),
                14 => peer.link_tx[1] = u64_of(value),
                15 => peer.link_rx[0] = u32_of(value).into(),
                16 => peer.link_tx[0] = u32_of(value).into(),
                other => panic!("attribute {other}"),
            }
        }
        peer.local = local.map(|ip| SocketAddr::new(ip, local_port));
        peer
    }

    fn of_ovpn(nest: &[u8]) -> Peer {
        let mut peer = Peer::default();
        let (mut remote, mut scope, mut remote_port) = (None, None, 0);
        let (mut local, mut local_port) = (None, 0);
        for (id, _, value) in attributes(nest, 0) {
            match id {
                1 => peer.id = u32_of(value),
                2 | 3 => remote = Some(ip(value)),
                4 => scope = Some(u32_of(value)),
                5 => remote_port = port(value),
                8 | 9 => peer.vpn.push(ip(value)),
                10 | 11 => local = Some(ip(value)),
                12 => local_port = port(value),
                13 => peer.timers.0 = u32_of(value),
                14 => peer.timers.1 = u32_of(value),
                16 => peer.vpn_rx[1] = uint(value),
                17 => peer.vpn_tx[1] = uint(value),
                18 => peer.vpn_rx[0] = uint(value),
                19 => peer.vpn_tx[0] = uint(value),
                20 => peer.link_rx[1] = uint(value),
                21 => peer.link_tx[1] = uint(value),
                22 => peer.link_rx[0] = uint(value),
                23 => peer.link_tx[0] = uint(value),
                24 => peer.tx_id = Some(u32_of(value)),
                other => panic!("attribute {other}"),
            }
        }
        peer.remote = remote.map(|ip| with_scope(SocketAddr::new(ip, remote_port), scope));
        peer.local = local.map(|ip| SocketAddr::new(ip, local_port));
        peer
    }
}

/// An IPv6 address comes with its scope id, an IPv4 one without.
fn with_scope(mut address: SocketAddr, scope: Option<u32>) -> SocketAddr {
    assert_eq!(address.is_ipv6(), scope.is_some(), "{address}");
    if let SocketAddr::V6(v6) = &mut address {
        v6.set_scope_id(scope.unwrap_or(0));
    }
    address
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// DEL_PEER, PEER_DEL_NTF: peer and reason.
    Deleted(u32, u32),
    /// PEER_FLOAT_NTF.
    Floated(u32, SocketAddr),
    /// KEY_SWAP_NTF: peer and key id.
    KeySwap(u32, u16),
}

/// Reasons of a peer's end.
pub const TEARDOWN: u32 = 0;
/// Nothing was heard.
pub const EXPIRED: u32 = 2;

impl Told {
    /// Of a message about the interface of this index.
    pub fn of(family: Family, index: u32, message: &[u8]) -> Told {
        assert_eq!(kind(message), family.id(), "{message:?}");
        assert_eq!(find(message, GENERIC, &[1]).map(u32_of), Some(index));
        let value = |path: &[u16]| find(message, GENERIC, path);
        let need = |path: &[u16]| value(path).unwrap_or_else(|| panic!("no {path:?}: {message:?}"));
        match (family, message[16]) {
            (Family::DcoV2, 3) => {
                let [reason] = need(&[4, 1]) else {
                    panic!("a reason of one byte")
                };
                Told::Deleted(u32_of(need(&[4, 2])), (*reason).into())
            }
            (Family::Ovpn, 5) => Told::Deleted(u32_of(need(&[2, 1])), u32_of(need(&[2, 15]))),
            (Family::Ovpn, 11) => {
                let address = ip(value(&[2, 2]).unwrap_or_else(|| need(&[2, 3])));
                let address = SocketAddr::new(address, port(need(&[2, 5])));
                let scope = value(&[2, 4]).map(u32_of);
                Told::Floated(u32_of(need(&[2, 1])), with_scope(address, scope))
            }
            (Family::Ovpn, 9) => Told::KeySwap(u32_of(need(&[3, 1])), u16_at(need(&[3, 3]), 0)),
            other => panic!("{other:?} is no notification"),
        }
    }
}

/// The attributes of a message from a place on: path, and length of the value; where it is no nest.
pub fn shape(message: &[u8], from: usize, nests: &[u16]) -> Vec<(Vec<u16>, usize)> {
    let mut all = Vec::new();
    for (id, at, value) in attributes(message, from) {
        if nests.contains(&id) && u16_at(message, at - 2) & 0x8000 != 0 {
            let inner = shape(&message[..at + value.len()], at, &[1, 5, 6]);
            all.extend(
                inner
                    .into_iter()
                    .map(|(path, len)| ([&[id][..], &path].concat(), len)),
            );
        } else {
            all.push((vec![id], value.len()));
        }
    }
    all
}

/// Where the nest of a NEW_PEER or of an answer says that a peer is.
pub fn remote(family: Family, nest: &[u8]) -> Option<SocketAddr> {
    let value = |id| attributes(nest, 0).into_iter().find(|a| a.0 == id).map(|a| a.2);
    match family {
        Family::DcoV2 => value(2).map(sockaddr),
        Family::Ovpn => {
            let address = ip(value(2).or(value(3))?);
            let address = SocketAddr::new(address, port(value(5)?));
            Some(with_scope(address, value(4).map(u32_of)))
        }
    }
}

//! The commands of both families, from bytes.

use super::far::Key;
use super::message::{DUMP, REQUEST, attr, generic, message, nest, u32_attr};
use nf_state::Cipher;
use std::net::{IpAddr, SocketAddr};

/// A generic-netlink family of data channel offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Of OpenVPN 2.6.
    DcoV2,
    /// Of OpenVPN 2.7.
    Ovpn,
}

/// A peer to be made or changed.
#[derive(Clone, Debug, Default)]
pub struct New {
    /// Peer id.
    pub id: u32,
    /// Id that it knows us by; family `ovpn`.
    pub tx_id: Option<u32>,
    /// Where it is.
    pub remote: Option<SocketAddr>,
    /// Our address towards it.
    pub local: Option<IpAddr>,
    /// VPN addresses.
    pub vpn: Vec<IpAddr>,
    /// Keepalive interval and timeout in seconds; with NEW only in family `ovpn`.
    pub timers: Option<(u32, u32)>,
}

impl New {
    /// Nothing of it but which.
    pub fn id(id: u32) -> New {
        New { id, ..New::default() }
    }

    /// With these VPN addresses instead.
    pub fn vpn(mut self, vpn: &[IpAddr]) -> New {
        self.vpn = vpn.to_vec();
        self
    }

    /// At this address.
    pub fn at(mut self, remote: SocketAddr) -> New {
        self.remote = Some(remote);
        self
    }

    /// Where the bed expects it, with its VPN address.
    pub fn of(id: u32) -> New {
        New {
            id,
            remote: Some(super::remote(id)),
            vpn: vec![super::vpn(id).into()],
            ..New::default()
        }
    }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// `struct sockaddr_in` or `struct sockaddr_in6`.
fn sockaddr(address: SocketAddr) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    match address {
        SocketAddr::V4(v4) => [&2u16.to_ne_bytes()[..], &port, &v4.ip().octets(), &[0; 8]].concat(),
        SocketAddr::V6(v6) => [
            &10u16.to_ne_bytes()[..],
            &port,
            &[0; 4],
            &v6.ip().octets(),
            &v6.scope_id().to_ne_bytes(),
        ]
        .concat(),
    }
}

impl Family {
    /// Both.
    pub const BOTH: [Family; 2] = [Family::DcoV2, Family::Ovpn];

    /// Its message type.
    pub fn id(self) -> u16 {
        match self {
            Family::DcoV2 => 0x25,
            Family::Ovpn => 0x26,
        }
    }

    /// Its multicast group.
    pub fn group(self) -> u32 {
        match self {
            Family::DcoV2 => 0x11,
            Family::Ovpn => 0x12,
        }
    }

    /// IFLA_INFO_KIND of its interfaces.
    pub fn link_kind(self) -> &'static str {
        match self {
            Family::DcoV2 => "ovpn-dco",
            Family::Ovpn => "ovpn",
        }
    }

    /// A command about an interface, with one nest.
    pub fn command(self, index: u32, command: u8, nest_id: u16, members: &[Vec<u8>]) -> Vec<u8> {
        generic(
            self.id(),
            REQUEST,
            command,
            &[u32_attr(1, index), nest(nest_id, members)],
        )
    }

    fn peer_members(self, new: &New) -> Vec<Vec<u8>> {
        let mut members = vec![u32_attr(1, new.id)];
        match self {
            Family::DcoV2 => {
                members.extend(new.remote.map(|r| attr(2, &sockaddr(r))));
                members.extend(
                    new.vpn
                        .iter()
                        .map(|ip| attr(if ip.is_ipv4() { 4 } else { 5 }, &octets(*ip))),
                );
                members.extend(new.local.map(|ip| attr(6, &octets(ip))));
            }
            Family::Ovpn => {
                if let Some(remote) = new.remote {
                    members.push(attr(if remote.is_ipv4() { 2 } else { 3 }, &octets(remote.ip())));
                    if let SocketAddr::V6(v6) = remote {
                        members.push(u32_attr(4, v6.scope_id()));
                    }
                    members.push(attr(5, &remote.port().to_be_bytes()));
                }
                members.extend(
                    new.vpn
                        .iter()
                        .map(|ip| attr(if ip.is_ipv4() { 8 } else { 9 }, &octets(*ip))),
                );
                let local = new.local;
                members.extend(local.map(|ip| attr(if ip.is_ipv4() { 10 } else { 11 }, &octets(ip))));
                if let Some((interval, timeout)) = new.timers {
                    members.extend([u32_attr(13, interval), u32_attr(14, timeout)]);
                }
                members.extend(new.tx_id.map(|id| u32_attr(24, id)));
            }
        }
        members
    }

    /// NEW_PEER; the descriptor goes beside it.
    pub fn new_peer(self, index: u32, new: &New) -> Vec<u8> {
        let mut members = self.peer_members(new);
        match self {
            Family::DcoV2 => members.push(u32_attr(3, 7)),
            Family::Ovpn => members.push(u32_attr(6, 7)),
        }
        self.command(index, 1, 2, &members)
    }

    /// SET_PEER. `ovpn-dco-v2` has nothing but the timers.
    pub fn set_peer(self, index: u32, set: &New) -> Vec<u8> {
        match (self, set.timers) {
            (Family::Ovpn, _) => self.command(index, 2, 2, &self.peer_members(set)),
            (Family::DcoV2, timers) => {
                let mut members = vec![u32_attr(1, set.id)];
                if let Some((interval, timeout)) = timers {
                    members.extend([u32_attr(2, interval), u32_attr(3, timeout)]);
                }
                self.command(index, 2, 3, &members)
            }
        }
    }

    /// SET_PEER of the timers.
    pub fn timers(self, index: u32, peer: u32, interval: u32, timeout: u32) -> Vec<u8> {
        let timers = Some((interval, timeout));
        let set = New {
            id: peer,
            timers,
            ..New::default()
        };
        self.set_peer(index, &set)
    }

    /// DEL_PEER.
    pub fn del_peer(self, index: u32, peer: u32) -> Vec<u8> {
        match self {
            Family::DcoV2 => self.command(index, 3, 4, &[u32_attr(2, peer)]),
            Family::Ovpn => self.command(index, 4, 2, &[u32_attr(1, peer)]),
        }
    }

    /// GET_PEER of one.
    pub fn get_peer(self, index: u32, peer: u32) -> Vec<u8> {
        match self {
            Family::DcoV2 => self.command(index, 7, 8, &[u32_attr(1, peer)]),
            Family::Ovpn => self.command(index, 3, 2, &[u32_attr(1, peer)]),
        }
    }

    /// GET_PEER of all.
    pub fn dump(self, index: u32) -> Vec<u8> {
        let command = if self == Family::DcoV2 { 7 } else { 3 };
        generic(self.id(), REQUEST | DUMP, command, &[u32_attr(1, index)])
    }

    /// A slot's attribute.
    fn slot(self, slot: u8) -> Vec<u8> {
        match self {
            Family::DcoV2 => attr(2, &[slot]),
            Family::Ovpn => u32_attr(2, slot.into()),
        }
    }

    /// NEW_KEY into a slot: 0 primary, 1 secondary.
    pub fn new_key(self, index: u32, peer: u32, slot: u8, key: &Key) -> Vec<u8> {
        let algorithm = if key.cipher == Cipher::ChaCha20Poly1305 {
            2
        } else {
            1
        };
        let mut members = vec![u32_attr(1, peer), self.slot(slot)];
        match self {
            Family::DcoV2 => members.extend([attr(3, &[key.id]), attr(4, &(algorithm as u16).to_ne_bytes())]),
            Family::Ovpn => members.extend([u32_attr(3, key.id.into()), u32_attr(4, algorithm)]),
        }
        for (id, material) in [(5, &key.encrypt), (6, &key.decrypt)] {
            members.push(nest(id, &[attr(1, &material.key), attr(2, &material.tail)]));
        }
        match self {
            Family::DcoV2 => self.command(index, 4, 5, &members),
            Family::Ovpn => self.command(index, 6, 3, &members),
        }
    }

    /// SWAP_KEYS.
    pub fn swap_keys(self, index: u32, peer: u32) -> Vec<u8> {
        match self {
            Family::DcoV2 => self.command(index, 5, 6, &[u32_attr(1, peer)]),
            Family::Ovpn => self.command(index, 8, 3, &[u32_attr(1, peer)]),
        }
    }

    /// DEL_KEY.
    pub fn del_key(self, index: u32, peer: u32, slot: u8) -> Vec<u8> {
        let members = [u32_attr(1, peer), self.slot(slot)];
        match self {
            Family::DcoV2 => self.command(index, 6, 7, &members),
            Family::Ovpn => self.command(index, 10, 3, &members),
        }
    }
}

/// KEY_GET of `ovpn`.
pub fn get_key(index: u32, peer: u32, slot: u8) -> Vec<u8> {
    let members = [u32_attr(1, peer), u32_attr(2, slot.into())];
    Family::Ovpn.command(index, 7, 3, &members)
}

/// `struct ifinfomsg` about an interface index, of AF_PACKET as the daemons have it.
fn ifinfomsg(index: u32) -> Vec<u8> {
    [&17u16.to_ne_bytes()[..], &[0; 2], &index.to_ne_bytes(), &[0; 8]].concat()
}

/// RTM_NEWLINK, to be created. In it nests have no flag.
pub fn link_new(name: &str, kind: &str, mode: Option<u8>) -> Vec<u8> {
    let text = |id, text: &str| attr(id, &[text.as_bytes(), &[0]].concat());
    let data = mode.map(|mode| attr(2, &attr(1, &[mode]))).unwrap_or_default();
    let info = attr(18, &[text(1, kind), data].concat());
    let payload = [ifinfomsg(0), text(3, name), info].concat();
    // NLM_F_EXCL | NLM_F_CREATE.
    message(16, REQUEST | 0x600, &payload)
}

/// RTM_DELLINK.
pub fn link_delete(index: u32) -> Vec<u8> {
    message(17, REQUEST, &ifinfomsg(index))
}

/// RTM_GETLINK, which asks for no acknowledgement.
pub fn link_get(index: u32) -> Vec<u8> {
    message(18, 1, &ifinfomsg(index))
}

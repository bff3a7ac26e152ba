//! What clients are told unasked.

use std::net::SocketAddr;

use netlink_packet_core::NetlinkHeader;

use super::encode::{Attributes, generic};
use super::families::VERSION;
use super::policy::{dco_v2, ovpn};
use super::{Family, Notification};

/// A notification to the group `peers` of a family, as a whole message; `None`: that family has none of the kind.
/// `interface`: index of the tunnel interface. As in netlink, sequence number and port id are 0.
///
/// `ovpn-dco-v2`: OVPN_CMD_DEL_PEER, whose reason has one byte. `ovpn`: OVPN_CMD_PEER_DEL_NTF, OVPN_CMD_PEER_FLOAT_NTF and
/// OVPN_CMD_KEY_SWAP_NTF, whose key id has two bytes where every other has four.
#[must_use]
pub fn notification(family: Family, interface: u32, what: &Notification) -> Option<Vec<u8>> {
    let (command, attributes) = match family {
        Family::DcoV2 => of_dco_v2(interface, what)?,
        Family::Ovpn => of_ovpn(interface, what),
    };
    let mut header = NetlinkHeader::default();
    header.message_type = family.id();
    Some(generic(header, command, VERSION, &attributes))
}

fn of_dco_v2(interface: u32, what: &Notification) -> Option<(u8, Attributes)> {
    use dco_v2::{DEL_PEER, IFINDEX, command, del_peer};
    let Notification::PeerDeleted { peer, reason } = what else {
        return None;
    };
    let nest = Attributes::new()
        .bytes(del_peer::REASON, &[*reason as u8])
        .u32(del_peer::PEER_ID, *peer);
    let all = Attributes::new().u32(IFINDEX, interface).nest(DEL_PEER, nest);
    Some((command::DEL_PEER, all))
}

fn of_ovpn(interface: u32, what: &Notification) -> (u8, Attributes) {
    use ovpn::{IFINDEX, KEYCONF, PEER, command, keyconf, peer as p};
    let (command, nest, inner) = match *what {
        Notification::PeerDeleted { peer, reason } => {
            let inner = Attributes::new()
                .u32(p::DEL_REASON, reason as u32)
                .u32(p::ID, peer);
            (command::PEER_DEL_NTF, PEER, inner)
        }
        Notification::PeerFloated { peer, remote } => {
            let inner = put_remote(Attributes::new().u32(p::ID, peer), remote);
            (command::PEER_FLOAT_NTF, PEER, inner)
        }
        Notification::KeySwap { peer, key_id } => {
            let inner = Attributes::new()
                .u32(keyconf::PEER_ID, peer)
                .u16(keyconf::KEY_ID, key_id.into());
            (command::KEY_SWAP_NTF, KEYCONF, inner)
        }
    };
    (
        command,
        Attributes::new().u32(IFINDEX, interface).nest(nest, inner),
    )
}

/// A remote address and port in the nest PEER of `ovpn`. The scope id goes with every IPv6 address, also as 0.
pub(super) fn put_remote(nest: Attributes, remote: SocketAddr) -> Attributes {
    use ovpn::peer as p;
    let nest = match remote {
        SocketAddr::V4(v4) => nest.bytes(p::REMOTE_IPV4, &v4.ip().octets()),
        SocketAddr::V6(v6) => nest
            .bytes(p::REMOTE_IPV6, &v6.ip().octets())
            .u32(p::REMOTE_IPV6_SCOPE_ID, v6.scope_id()),
    };
    nest.bytes(p::REMOTE_PORT, &remote.port().to_be_bytes())
}

//! Family `ovpn-dco-v2`: enum values of `ovpn_dco_linux.h`.
//!
//! The module does not validate the top level strictly: an attribute that a command has no use for is passed over there.
//! Its nests are read by `nla_parse_nested`, which refuses an unknown attribute (EINVAL). Beyond the module, a peer id has
//! to fit into a record's 24 bits and a key id into its 3.

use super::{Kind, NONCE_TAIL as NONCE_TAIL_KIND, PEER_ID, rule};
use crate::dco::attributes::{Policy, Rule};

/// Commands: `OVPN_CMD_*`.
pub(in crate::dco) mod command {
    pub(in crate::dco) const NEW_PEER: u8 = 1;
    pub(in crate::dco) const SET_PEER: u8 = 2;
    pub(in crate::dco) const DEL_PEER: u8 = 3;
    pub(in crate::dco) const NEW_KEY: u8 = 4;
    pub(in crate::dco) const SWAP_KEYS: u8 = 5;
    pub(in crate::dco) const DEL_KEY: u8 = 6;
    pub(in crate::dco) const GET_PEER: u8 = 7;
}

/// `OVPN_ATTR_*`: not in the order of the commands.
pub(in crate::dco) const IFINDEX: u16 = 1;
pub(in crate::dco) const NEW_PEER: u16 = 2;
pub(in crate::dco) const SET_PEER: u16 = 3;
pub(in crate::dco) const DEL_PEER: u16 = 4;
pub(in crate::dco) const NEW_KEY: u16 = 5;
pub(in crate::dco) const SWAP_KEYS: u16 = 6;
pub(in crate::dco) const DEL_KEY: u16 = 7;
pub(in crate::dco) const GET_PEER: u16 = 8;

/// The peer id in every nest but DEL_PEER.
pub(in crate::dco) const ID: u16 = 1;

/// `OVPN_NEW_PEER_ATTR_*`.
pub(in crate::dco) mod new_peer {
    pub(in crate::dco) const SOCKADDR_REMOTE: u16 = 2;
    pub(in crate::dco) const SOCKET: u16 = 3;
    pub(in crate::dco) const IPV4: u16 = 4;
    pub(in crate::dco) const IPV6: u16 = 5;
    pub(in crate::dco) const LOCAL_IP: u16 = 6;
}

/// `OVPN_SET_PEER_ATTR_*`.
pub(in crate::dco) mod set_peer {
    pub(in crate::dco) const KEEPALIVE_INTERVAL: u16 = 2;
    pub(in crate::dco) const KEEPALIVE_TIMEOUT: u16 = 3;
}

/// `OVPN_DEL_PEER_ATTR_*`.
pub(in crate::dco) mod del_peer {
    pub(in crate::dco) const REASON: u16 = 1;
    pub(in crate::dco) const PEER_ID: u16 = 2;
}

/// `OVPN_NEW_KEY_ATTR_*`, and of these `OVPN_DEL_KEY_ATTR_*` the first two.
pub(in crate::dco) mod key {
    pub(in crate::dco) const SLOT: u16 = 2;
    pub(in crate::dco) const KEY_ID: u16 = 3;
    pub(in crate::dco) const CIPHER_ALG: u16 = 4;
    pub(in crate::dco) const ENCRYPT_KEY: u16 = 5;
    pub(in crate::dco) const DECRYPT_KEY: u16 = 6;
}

/// `OVPN_KEY_DIR_ATTR_*`.
pub(in crate::dco) const CIPHER_KEY: u16 = 1;
pub(in crate::dco) const NONCE_TAIL: u16 = 2;

/// `OVPN_GET_PEER_RESP_ATTR_*`.
pub(in crate::dco) mod get_peer {
    pub(in crate::dco) const SOCKADDR_REMOTE: u16 = 2;
    pub(in crate::dco) const IPV4: u16 = 3;
    pub(in crate::dco) const IPV6: u16 = 4;
    pub(in crate::dco) const LOCAL_IP: u16 = 5;
    pub(in crate::dco) const LOCAL_PORT: u16 = 6;
    pub(in crate::dco) const KEEPALIVE_INTERVAL: u16 = 7;
    pub(in crate::dco) const KEEPALIVE_TIMEOUT: u16 = 8;
    pub(in crate::dco) const VPN_RX_BYTES: u16 = 9;
    pub(in crate::dco) const VPN_TX_BYTES: u16 = 10;
    pub(in crate::dco) const VPN_RX_PACKETS: u16 = 11;
    pub(in crate::dco) const VPN_TX_PACKETS: u16 = 12;
    pub(in crate::dco) const LINK_RX_BYTES: u16 = 13;
    pub(in crate::dco) const LINK_TX_BYTES: u16 = 14;
    pub(in crate::dco) const LINK_RX_PACKETS: u16 = 15;
    pub(in crate::dco) const LINK_TX_PACKETS: u16 = 16;
}

const fn nest(rules: &'static [Rule]) -> Policy {
    Policy {
        rules,
        ignores_others: false,
        flagged: true,
    }
}

/// The top level of every command.
pub(in crate::dco) static TOP: Policy = Policy {
    rules: &[
        rule(IFINDEX, "IFINDEX", Kind::U32(u32::MAX)),
        rule(NEW_PEER, "NEW_PEER", Kind::Nest),
        rule(SET_PEER, "SET_PEER", Kind::Nest),
        rule(DEL_PEER, "DEL_PEER", Kind::Nest),
        rule(NEW_KEY, "NEW_KEY", Kind::Nest),
        rule(SWAP_KEYS, "SWAP_KEYS", Kind::Nest),
        rule(DEL_KEY, "DEL_KEY", Kind::Nest),
        rule(GET_PEER, "GET_PEER", Kind::Nest),
    ],
    ignores_others: true,
    flagged: true,
};

/// NEW_PEER.
pub(in crate::dco) static NEW: Policy = nest(&[
    rule(ID, "PEER_ID", PEER_ID),
    // At least `struct sockaddr`.
    rule(
        new_peer::SOCKADDR_REMOTE,
        "SOCKADDR_REMOTE",
        Kind::Bytes(16, usize::MAX),
    ),
    rule(new_peer::SOCKET, "SOCKET", Kind::U32(u32::MAX)),
    rule(new_peer::IPV4, "IPV4", Kind::Ipv4),
    rule(new_peer::IPV6, "IPV6", Kind::Bytes(16, 16)),
    rule(new_peer::LOCAL_IP, "LOCAL_IP", Kind::Bytes(4, 16)),
]);

/// SET_PEER.
pub(in crate::dco) static SET: Policy = nest(&[
    rule(ID, "PEER_ID", PEER_ID),
    rule(
        set_peer::KEEPALIVE_INTERVAL,
        "KEEPALIVE_INTERVAL",
        Kind::U32(u32::MAX),
    ),
    rule(
        set_peer::KEEPALIVE_TIMEOUT,
        "KEEPALIVE_TIMEOUT",
        Kind::U32(u32::MAX),
    ),
]);

/// DEL_PEER. The reason is the notification's.
pub(in crate::dco) static DEL: Policy = nest(&[
    rule(del_peer::REASON, "REASON", Kind::U8(4)),
    rule(del_peer::PEER_ID, "PEER_ID", PEER_ID),
]);

/// GET_PEER and SWAP_KEYS.
pub(in crate::dco) static ID_ONLY: Policy = nest(&[rule(ID, "PEER_ID", PEER_ID)]);

/// NEW_KEY.
pub(in crate::dco) static KEY_NEW: Policy = nest(&[
    rule(ID, "PEER_ID", PEER_ID),
    rule(key::SLOT, "KEY_SLOT", Kind::U8(1)),
    rule(key::KEY_ID, "KEY_ID", Kind::U8(7)),
    rule(key::CIPHER_ALG, "CIPHER_ALG", Kind::U16),
    rule(key::ENCRYPT_KEY, "ENCRYPT_KEY", Kind::Nest),
    rule(key::DECRYPT_KEY, "DECRYPT_KEY", Kind::Nest),
]);

/// DEL_KEY.
pub(in crate::dco) static KEY_SLOT: Policy = nest(&[
    rule(ID, "PEER_ID", PEER_ID),
    rule(key::SLOT, "KEY_SLOT", Kind::U8(1)),
]);

/// ENCRYPT_KEY and DECRYPT_KEY.
pub(in crate::dco) static KEY_DIR: Policy = nest(&[
    rule(CIPHER_KEY, "CIPHER_KEY", Kind::Bytes(0, 255)),
    rule(NONCE_TAIL, "NONCE_TAIL", NONCE_TAIL_KIND),
]);

//! Family `ovpn`: enum values of `include/uapi/linux/ovpn.h`, allowed values of Linux's
//! `Documentation/netlink/specs/ovpn.yaml`.
//!
//! The kernel validates this family strictly (NL_VALIDATE_STRICT): an attribute that a command does not have is EINVAL.

use super::{Kind, NONCE_TAIL, PEER_ID, rule};
use crate::dco::attributes::{Policy, Rule};

/// Commands: `OVPN_CMD_*`. The notifications among them are in [`crate::dco::notification`].
pub(in crate::dco) mod command {
    pub(in crate::dco) const PEER_NEW: u8 = 1;
    pub(in crate::dco) const PEER_SET: u8 = 2;
    pub(in crate::dco) const PEER_GET: u8 = 3;
    pub(in crate::dco) const PEER_DEL: u8 = 4;
    pub(in crate::dco) const PEER_DEL_NTF: u8 = 5;
    pub(in crate::dco) const KEY_NEW: u8 = 6;
    pub(in crate::dco) const KEY_GET: u8 = 7;
    pub(in crate::dco) const KEY_SWAP: u8 = 8;
    pub(in crate::dco) const KEY_SWAP_NTF: u8 = 9;
    pub(in crate::dco) const KEY_DEL: u8 = 10;
    pub(in crate::dco) const PEER_FLOAT_NTF: u8 = 11;
}

/// `OVPN_A_*`.
pub(in crate::dco) const IFINDEX: u16 = 1;
pub(in crate::dco) const PEER: u16 = 2;
pub(in crate::dco) const KEYCONF: u16 = 3;

/// `OVPN_A_PEER_*`.
pub(in crate::dco) mod peer {
    pub(in crate::dco) const ID: u16 = 1;
    pub(in crate::dco) const REMOTE_IPV4: u16 = 2;
    pub(in crate::dco) const REMOTE_IPV6: u16 = 3;
    pub(in crate::dco) const REMOTE_IPV6_SCOPE_ID: u16 = 4;
    pub(in crate::dco) const REMOTE_PORT: u16 = 5;
    pub(in crate::dco) const SOCKET: u16 = 6;
    pub(in crate::dco) const VPN_IPV4: u16 = 8;
    pub(in crate::dco) const VPN_IPV6: u16 = 9;
    pub(in crate::dco) const LOCAL_IPV4: u16 = 10;
    pub(in crate::dco) const LOCAL_IPV6: u16 = 11;
    pub(in crate::dco) const LOCAL_PORT: u16 = 12;
    pub(in crate::dco) const KEEPALIVE_INTERVAL: u16 = 13;
    pub(in crate::dco) const KEEPALIVE_TIMEOUT: u16 = 14;
    pub(in crate::dco) const DEL_REASON: u16 = 15;
    pub(in crate::dco) const VPN_RX_BYTES: u16 = 16;
    pub(in crate::dco) const VPN_TX_BYTES: u16 = 17;
    pub(in crate::dco) const VPN_RX_PACKETS: u16 = 18;
    pub(in crate::dco) const VPN_TX_PACKETS: u16 = 19;
    pub(in crate::dco) const LINK_RX_BYTES: u16 = 20;
    pub(in crate::dco) const LINK_TX_BYTES: u16 = 21;
    pub(in crate::dco) const LINK_RX_PACKETS: u16 = 22;
    pub(in crate::dco) const LINK_TX_PACKETS: u16 = 23;
    pub(in crate::dco) const TX_ID: u16 = 24;
}

/// `OVPN_A_KEYCONF_*`.
pub(in crate::dco) mod keyconf {
    pub(in crate::dco) const PEER_ID: u16 = 1;
    pub(in crate::dco) const SLOT: u16 = 2;
    pub(in crate::dco) const KEY_ID: u16 = 3;
    pub(in crate::dco) const CIPHER_ALG: u16 = 4;
    pub(in crate::dco) const ENCRYPT_DIR: u16 = 5;
    pub(in crate::dco) const DECRYPT_DIR: u16 = 6;
}

/// The longest keepalive time in seconds: a day.
const KEEPALIVE: Kind = Kind::U32(86_400);

const fn strict(rules: &'static [Rule]) -> Policy {
    Policy {
        rules,
        ignores_others: false,
        flagged: true,
    }
}

/// A command about a peer.
pub(in crate::dco) static ABOUT_PEER: Policy = strict(&[
    rule(IFINDEX, "IFINDEX", Kind::U32(u32::MAX)),
    rule(PEER, "PEER", Kind::Nest),
]);

/// A command about all peers.
pub(in crate::dco) static ABOUT_ALL: Policy = strict(&[rule(IFINDEX, "IFINDEX", Kind::U32(u32::MAX))]);

/// A command about keys.
pub(in crate::dco) static ABOUT_KEY: Policy = strict(&[
    rule(IFINDEX, "IFINDEX", Kind::U32(u32::MAX)),
    rule(KEYCONF, "KEYCONF", Kind::Nest),
]);

/// PEER in PEER_NEW.
pub(in crate::dco) static NEW: Policy = strict(&[
    rule(peer::ID, "ID", PEER_ID),
    rule(peer::REMOTE_IPV4, "REMOTE_IPV4", Kind::Ipv4),
    rule(peer::REMOTE_IPV6, "REMOTE_IPV6", Kind::Bytes(16, 16)),
    rule(
        peer::REMOTE_IPV6_SCOPE_ID,
        "REMOTE_IPV6_SCOPE_ID",
        Kind::U32(u32::MAX),
    ),
    rule(peer::REMOTE_PORT, "REMOTE_PORT", Kind::Port),
    rule(peer::SOCKET, "SOCKET", Kind::U32(u32::MAX)),
    rule(peer::VPN_IPV4, "VPN_IPV4", Kind::Ipv4),
    rule(peer::VPN_IPV6, "VPN_IPV6", Kind::Bytes(16, 16)),
    rule(peer::LOCAL_IPV4, "LOCAL_IPV4", Kind::Ipv4),
    rule(peer::LOCAL_IPV6, "LOCAL_IPV6", Kind::Bytes(16, 16)),
    rule(peer::KEEPALIVE_INTERVAL, "KEEPALIVE_INTERVAL", KEEPALIVE),
    rule(peer::KEEPALIVE_TIMEOUT, "KEEPALIVE_TIMEOUT", KEEPALIVE),
    rule(peer::TX_ID, "TX_ID", PEER_ID),
]);

/// PEER in PEER_SET: as in PEER_NEW, but the socket stays what it is.
pub(in crate::dco) static SET: Policy = strict(&[
    rule(peer::ID, "ID", PEER_ID),
    rule(peer::REMOTE_IPV4, "REMOTE_IPV4", Kind::Ipv4),
    rule(peer::REMOTE_IPV6, "REMOTE_IPV6", Kind::Bytes(16, 16)),
    rule(
        peer::REMOTE_IPV6_SCOPE_ID,
        "REMOTE_IPV6_SCOPE_ID",
        Kind::U32(u32::MAX),
    ),
    rule(peer::REMOTE_PORT, "REMOTE_PORT", Kind::Port),
    rule(peer::VPN_IPV4, "VPN_IPV4", Kind::Ipv4),
    rule(peer::VPN_IPV6, "VPN_IPV6", Kind::Bytes(16, 16)),
    rule(peer::LOCAL_IPV4, "LOCAL_IPV4", Kind::Ipv4),
    rule(peer::LOCAL_IPV6, "LOCAL_IPV6", Kind::Bytes(16, 16)),
    rule(peer::KEEPALIVE_INTERVAL, "KEEPALIVE_INTERVAL", KEEPALIVE),
    rule(peer::KEEPALIVE_TIMEOUT, "KEEPALIVE_TIMEOUT", KEEPALIVE),
    rule(peer::TX_ID, "TX_ID", PEER_ID),
]);

/// PEER in PEER_GET and PEER_DEL.
pub(in crate::dco) static ID_ONLY: Policy = strict(&[rule(peer::ID, "ID", PEER_ID)]);

/// KEYCONF in KEY_NEW. What algorithms there are is no matter of range: a missing one is EOPNOTSUPP.
pub(in crate::dco) static KEY_NEW: Policy = strict(&[
    rule(keyconf::PEER_ID, "PEER_ID", PEER_ID),
    rule(keyconf::SLOT, "SLOT", Kind::U32(1)),
    rule(keyconf::KEY_ID, "KEY_ID", Kind::U32(7)),
    rule(keyconf::CIPHER_ALG, "CIPHER_ALG", Kind::U32(u32::MAX)),
    rule(keyconf::ENCRYPT_DIR, "ENCRYPT_DIR", Kind::Nest),
    rule(keyconf::DECRYPT_DIR, "DECRYPT_DIR", Kind::Nest),
]);

/// KEYCONF in KEY_GET and KEY_DEL.
pub(in crate::dco) static KEY_SLOT: Policy = strict(&[
    rule(keyconf::PEER_ID, "PEER_ID", PEER_ID),
    rule(keyconf::SLOT, "SLOT", Kind::U32(1)),
]);

/// KEYCONF in KEY_SWAP.
pub(in crate::dco) static KEY_SWAP: Policy = strict(&[rule(keyconf::PEER_ID, "PEER_ID", PEER_ID)]);

/// ENCRYPT_DIR and DECRYPT_DIR (`OVPN_A_KEYDIR_*`, numbered as in the other family).
pub(in crate::dco) static KEY_DIR: Policy = strict(&[
    rule(super::dco_v2::CIPHER_KEY, "CIPHER_KEY", Kind::Bytes(0, 256)),
    rule(super::dco_v2::NONCE_TAIL, "NONCE_TAIL", NONCE_TAIL),
]);

//! Answers to requests, each a complete message. `to` is the request's header.

use std::net::{IpAddr, SocketAddr};

use netlink_packet_core::{
    Emitable, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_MULTIPART, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP,
    NetlinkHeader,
};
use nf_state::{Cipher, Slot};
use ovpn_dco_protocol::{HEADER_LEN, STATUS};

use super::decode::CONTROLLER;
use super::decode::controller::{FAMILY_ID, FAMILY_NAME, NAME};
use super::decode::peer::{AF_INET, AF_INET6};
use super::encode::{Attributes, answer, generic, message};
use super::families::{GROUP_NAME, VERSION};
use super::notification::put_remote;
use super::policy::{dco_v2, ovpn};
use super::{Family, Header, KeyState, PeerState, Refusal, group};

/// Bytes of an error's text that are sent at most: an attribute has room for 64 KiB, a log line has not.
const TEXT_MAX: usize = 512;

/// NLMSGERR_ATTR_MSG of linux/netlink.h.
const ERROR_TEXT: u16 = 1;

/// CTRL_CMD_NEWFAMILY and its attributes (linux/genetlink.h), and the controller's version and highest attribute in Linux 6.
const NEW_FAMILY: u8 = 1;
const CONTROLLER_VERSION: u8 = 2;
const CONTROLLER_MAX: u32 = 10;
const CTRL_VERSION: u16 = 3;
const CTRL_HDRSIZE: u16 = 4;
const CTRL_MAXATTR: u16 = 5;
const CTRL_MCAST_GROUPS: u16 = 7;
const GROUP_NAME_ATTRIBUTE: u16 = 1;
const GROUP_ID: u16 = 2;

/// The request is done: NLMSG_ERROR with 0 and the request's header, without its payload (NLM_F_CAPPED).
#[must_use]
pub fn ack(to: &Header) -> Vec<u8> {
    message(answer(to, NLMSG_ERROR, NLM_F_CAPPED), &[&[0; 4], &original(to)])
}

/// The request is refused: NLMSG_ERROR with the error number, negative, the request's header without its payload, and the
/// text as NLMSGERR_ATTR_MSG, if there is any.
#[must_use]
pub fn error(to: &Header, refusal: &Refusal) -> Vec<u8> {
    let code = refusal.errno.0.wrapping_neg().to_ne_bytes();
    // A NUL would end it.
    let text = refusal.text.split('\0').next().unwrap_or_default();
    let end = (0..=TEXT_MAX.min(text.len()))
        .rev()
        .find(|i| text.is_char_boundary(*i));
    let text = &text[..end.unwrap_or(0)];
    let (flags, text) = match text.is_empty() {
        true => (NLM_F_CAPPED, Vec::new()),
        false => {
            let text = Attributes::new().text(ERROR_TEXT, text).emit();
            (NLM_F_CAPPED | NLM_F_ACK_TLVS, text)
        }
    };
    message(answer(to, NLMSG_ERROR, flags), &[&code, &original(to), &text])
}

/// The end of an answer of several messages (NLMSG_DONE with 0).
#[must_use]
pub fn done(to: &Header) -> Vec<u8> {
    message(answer(to, NLMSG_DONE, NLM_F_MULTIPART), &[&[0; 4]])
}

/// The kernel is to be asked (NLMSG_NOOP).
#[must_use]
pub fn noop(to: &Header) -> Vec<u8> {
    message(answer(to, NLMSG_NOOP, 0), &[])
}

/// CTRL_CMD_NEWFAMILY about the controller itself.
#[must_use]
pub fn controller(to: &Header) -> Vec<u8> {
    let attributes = about(NAME, CONTROLLER, CONTROLLER_VERSION, CONTROLLER_MAX);
    generic(
        answer(to, CONTROLLER, 0),
        NEW_FAMILY,
        CONTROLLER_VERSION,
        &attributes,
    )
}

/// CTRL_CMD_NEWFAMILY about a family, with its multicast group.
#[must_use]
pub fn family(to: &Header, family: Family) -> Vec<u8> {
    let one = Attributes::new()
        .text(GROUP_NAME_ATTRIBUTE, GROUP_NAME)
        .u32(GROUP_ID, group(family));
    let attributes = about(family.name(), family.id(), VERSION, family.max_attribute())
        .nest(CTRL_MCAST_GROUPS, Attributes::new().nest(1, one));
    generic(
        answer(to, CONTROLLER, 0),
        NEW_FAMILY,
        CONTROLLER_VERSION,
        &attributes,
    )
}

fn about(name: &str, id: u16, version: u8, max_attribute: u32) -> Attributes {
    Attributes::new()
        .text(FAMILY_NAME, name)
        .u16(FAMILY_ID, id)
        .u32(CTRL_VERSION, version.into())
        .u32(CTRL_HDRSIZE, 0)
        .u32(CTRL_MAXATTR, max_attribute)
}

/// A peer, in answer to GET_PEER (PEER_GET) about one, or with `multi` about all of them.
#[must_use]
pub fn peer(family: Family, to: &Header, state: &PeerState, multi: bool) -> Vec<u8> {
    let flags = if multi { NLM_F_MULTIPART } else { 0 };
    let (command, attributes) = match family {
        Family::DcoV2 => {
            let interface = Attributes::new().u32(dco_v2::IFINDEX, to.interface);
            (
                dco_v2::command::GET_PEER,
                interface.nest(dco_v2::GET_PEER, peer_of_dco_v2(state)),
            )
        }
        // Without an interface, as the kernel's.
        Family::Ovpn => (
            ovpn::command::PEER_GET,
            Attributes::new().nest(ovpn::PEER, peer_of_ovpn(state)),
        ),
    };
    generic(answer(to, family.id(), flags), command, VERSION, &attributes)
}

/// OVPN_GET_PEER_RESP_ATTR_*.
fn peer_of_dco_v2(state: &PeerState) -> Attributes {
    use dco_v2::get_peer as a;
    // Its packet counters have 32 bits, and wrap.
    let low = |packets: u64| packets as u32;
    let ([vpn_rx, vpn_rx_bytes], [vpn_tx, vpn_tx_bytes]) = (state.vpn_rx, state.vpn_tx);
    let ([link_rx, link_rx_bytes], [link_tx, link_tx_bytes]) = (state.link_rx, state.link_tx);
    Attributes::new()
        .u32(dco_v2::ID, state.id)
        .maybe(a::SOCKADDR_REMOTE, state.remote.map(sockaddr))
        .maybe(a::IPV4, state.vpn_v4.map(|ip| ip.octets()))
        .maybe(a::IPV6, state.vpn_v6.map(|ip| ip.octets()))
        .maybe(a::LOCAL_IP, state.local.map(|l| octets(l.ip())))
        .maybe(a::LOCAL_PORT, state.local.map(|l| l.port().to_be_bytes()))
        .u32(a::KEEPALIVE_INTERVAL, state.interval)
        .u32(a::KEEPALIVE_TIMEOUT, state.timeout)
        .u64(a::VPN_RX_BYTES, vpn_rx_bytes)
        .u64(a::VPN_TX_BYTES, vpn_tx_bytes)
        .u32(a::VPN_RX_PACKETS, low(vpn_rx))
        .u32(a::VPN_TX_PACKETS, low(vpn_tx))
        .u64(a::LINK_RX_BYTES, link_rx_bytes)
        .u64(a::LINK_TX_BYTES, link_tx_bytes)
        .u32(a::LINK_RX_PACKETS, low(link_rx))
        .u32(a::LINK_TX_PACKETS, low(link_tx))
}

/// OVPN_A_PEER_*.
fn peer_of_ovpn(state: &PeerState) -> Attributes {
    use ovpn::peer as a;
    let ([vpn_rx, vpn_rx_bytes], [vpn_tx, vpn_tx_bytes]) = (state.vpn_rx, state.vpn_tx);
    let ([link_rx, link_rx_bytes], [link_tx, link_tx_bytes]) = (state.link_rx, state.link_tx);
    let mut nest = Attributes::new().u32(a::ID, state.id);
    if let Some(remote) = state.remote {
        nest = put_remote(nest, remote);
    }
    nest = nest
        .maybe(a::VPN_IPV4, state.vpn_v4.map(|ip| ip.octets()))
        .maybe(a::VPN_IPV6, state.vpn_v6.map(|ip| ip.octets()));
    if let Some(local) = state.local {
        let id = if local.is_ipv4() {
            a::LOCAL_IPV4
        } else {
            a::LOCAL_IPV6
        };
        nest = nest
            .bytes(id, &octets(local.ip()))
            .bytes(a::LOCAL_PORT, &local.port().to_be_bytes());
    }
    nest.u32(a::KEEPALIVE_INTERVAL, state.interval)
        .u32(a::KEEPALIVE_TIMEOUT, state.timeout)
        .uint(a::VPN_RX_BYTES, vpn_rx_bytes)
        .uint(a::VPN_TX_BYTES, vpn_tx_bytes)
        .uint(a::VPN_RX_PACKETS, vpn_rx)
        .uint(a::VPN_TX_PACKETS, vpn_tx)
        .uint(a::LINK_RX_BYTES, link_rx_bytes)
        .uint(a::LINK_TX_BYTES, link_tx_bytes)
        .uint(a::LINK_RX_PACKETS, link_rx)
        .uint(a::LINK_TX_PACKETS, link_tx)
        .u32(a::TX_ID, state.tx_id)
}

/// A key but for its bytes, in answer to KEY_GET of `ovpn`.
#[must_use]
pub fn key(to: &Header, state: &KeyState) -> Vec<u8> {
    use ovpn::keyconf as a;
    let slot = match state.slot {
        Slot::Primary => 0,
        Slot::Secondary => 1,
    };
    let algorithm = match state.cipher {
        Cipher::Aes128Gcm | Cipher::Aes192Gcm | Cipher::Aes256Gcm => 1,
        Cipher::ChaCha20Poly1305 => 2,
    };
    let nest = Attributes::new()
        .u32(a::PEER_ID, state.peer)
        .u32(a::SLOT, slot)
        .u32(a::KEY_ID, state.key_id.into())
        .u32(a::CIPHER_ALG, algorithm);
    let attributes = Attributes::new().nest(ovpn::KEYCONF, nest);
    generic(
        answer(to, Family::Ovpn.id(), 0),
        ovpn::command::KEY_GET,
        VERSION,
        &attributes,
    )
}

/// A part of the document that answers `ovpn_dco_protocol::STATUS`; with the header it has to stay within
/// `ovpn_dco_protocol::MAX_PACKET`.
#[must_use]
pub fn status(to: &Header, chunk: &[u8]) -> Vec<u8> {
    message(answer(to, STATUS, NLM_F_MULTIPART), &[chunk])
}

/// `struct nlmsghdr` of the request.
fn original(to: &Header) -> [u8; HEADER_LEN] {
    let mut header = NetlinkHeader::default();
    header.length = to.len;
    header.message_type = to.kind;
    header.flags = to.flags;
    header.sequence_number = to.seq;
    header.port_number = to.pid;
    let mut bytes = [0; HEADER_LEN];
    header.emit(&mut bytes);
    bytes
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// `struct sockaddr_in` (16 bytes) or `struct sockaddr_in6` (28 bytes).
fn sockaddr(address: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(28);
    let family = if address.is_ipv4() { AF_INET } else { AF_INET6 };
    bytes.extend_from_slice(&family.to_ne_bytes());
    bytes.extend_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            bytes.extend_from_slice(&v4.ip().octets());
            bytes.extend_from_slice(&[0; 8]);
        }
        SocketAddr::V6(v6) => {
            bytes.extend_from_slice(&v6.flowinfo().to_ne_bytes());
            bytes.extend_from_slice(&v6.ip().octets());
            bytes.extend_from_slice(&v6.scope_id().to_ne_bytes());
        }
    }
    bytes
}

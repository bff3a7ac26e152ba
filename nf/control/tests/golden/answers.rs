//! Answers and notifications that the daemons took: ours from the same values are the same bytes, or differ as said here.

use crate::dco::golden::Line;
use crate::dco::{integer, split};
use nf_control::dco::{
    self as codec, DelReason, Errno, Family, Header, Notification, PeerState, Refusal, reply,
};
use ovpn_dco_protocol::ROUTE;
use std::net::{IpAddr, SocketAddr};

/// Where `struct genlmsghdr` has the family's version.
const VERSION_AT: usize = 17;

/// Compares one line with ours.
pub fn taken(line: &Line) {
    match line.number("/nlmsg_type") {
        2 => assert_eq!(refusal_or_ack(line), line.hex, "{}", line.name),
        3 => assert_eq!(reply::done(&answered(line)), line.hex, "{}", line.name),
        16 if line.decoded.get("genl").is_some() => family(line),
        // What an interface that is there answers RTM_GETLINK: of ours no daemon is told so, see
        // `reply::error`. That it is taken for no request is what is left to be seen.
        16 => {
            let (_, refusal) = codec::decode(&line.hex, Some(ROUTE)).expect_err(&line.name);
            assert_eq!(refusal.errno, Errno::EINVAL, "{}", line.name);
        }
        _ if line.what.starts_with("notification") => notification(line),
        _ => peer(line),
    }
}

/// Header of the request that a line answers, as far as the answer tells.
fn answered(line: &Line) -> Header {
    Header {
        seq: line.number("/nlmsg_seq") as u32,
        pid: line.number("/nlmsg_pid") as u32,
        interface: line.decoded["attrs"]["IFINDEX"].as_u64().unwrap_or(0) as u32,
        ..Header::default()
    }
}

fn refusal_or_ack(line: &Line) -> Vec<u8> {
    let header = Header {
        len: line.number("/orig/nlmsg_len") as u32,
        kind: line.number("/orig/nlmsg_type") as u16,
        flags: line.number("/orig/nlmsg_flags") as u16,
        seq: line.number("/orig/nlmsg_seq") as u32,
        pid: line.number("/orig/nlmsg_pid") as u32,
        interface: 0,
    };
    let text = line.decoded.pointer("/ext_ack/MSG").and_then(|t| t.as_str());
    match line.number("/error") {
        0 => reply::ack(&header),
        code => {
            let errno = Errno(-code as i32);
            let text = text.unwrap_or_default().to_owned();
            reply::error(&header, &Refusal { errno, text })
        }
    }
}

fn family(line: &Line) {
    let to = answered(line);
    let ours = match line.decoded["attrs"]["FAMILY_NAME"].as_str() {
        Some("ovpn") => reply::family(&to, Family::Ovpn),
        Some("ovpn-dco-v2") => reply::family(&to, Family::DcoV2),
        Some("nlctrl") => reply::controller(&to),
        other => panic!("{}: {other:?}", line.name),
    };
    let (mut ours, mut theirs) = (ours, line.hex.clone());
    if line.decoded["attrs"]["FAMILY_NAME"] == "ovpn" {
        // Each family has a group of its own here, so that a daemon hears only what it understands; and the highest
        // attribute of `ovpn` is 3, where the recording counted commands. The widths are the same.
        for (at, value) in [(60, 11), (88, 0x11)] {
            assert_eq!(theirs[at..at + 4], [value, 0, 0, 0], "{}", line.name);
        }
        assert_eq!(ours[60], 3);
        assert_eq!(ours[88], codec::group(Family::Ovpn) as u8);
        for at in [60, 88] {
            ours[at] = 0;
            theirs[at] = 0;
        }
    }
    assert_eq!(ours, theirs, "{}", line.name);
}

/// Byte for byte but for the version, which the kernel takes from the family (`genlmsg_put`) and the recording left 0.
fn notification(line: &Line) {
    let attrs = &line.decoded["attrs"];
    let number = |pointer: &str| attrs.pointer(pointer).and_then(|n| n.as_u64()).map(|n| n as u32);
    let need = |pointer: &str| number(pointer).unwrap_or_else(|| panic!("{}: {pointer}", line.name));
    let what = if line.what.contains("FLOAT") {
        let peer = &attrs["PEER"];
        let remote = remote(line, peer).expect(&line.name);
        let peer = need("/PEER/ID");
        Notification::PeerFloated { peer, remote }
    } else if line.what.contains("KEY_SWAP") {
        let key_id = need("/KEYCONF/KEY_ID") as u8;
        let peer = need("/KEYCONF/PEER_ID");
        Notification::KeySwap { peer, key_id }
    } else {
        let peer = number("/PEER/ID")
            .or(number("/DEL_PEER/PEER_ID"))
            .expect(&line.name);
        let reason = match number("/PEER/DEL_REASON").or(number("/DEL_PEER/REASON")) {
            Some(0) => DelReason::Teardown,
            Some(1) => DelReason::Userspace,
            Some(2) => DelReason::Expired,
            Some(3) => DelReason::TransportError,
            Some(4) => DelReason::TransportDisconnect,
            other => panic!("{}: {other:?}", line.name),
        };
        Notification::PeerDeleted { peer, reason }
    };
    let family = line.family().expect(&line.name);
    let mut ours = codec::notification(family, need("/IFINDEX"), &what).expect(&line.name);
    assert_eq!((ours[VERSION_AT], line.hex[VERSION_AT]), (1, 0), "{}", line.name);
    ours[VERSION_AT] = 0;
    assert_eq!(ours, line.hex, "{}", line.name);
}

fn remote(line: &Line, nest: &serde_json::Value) -> Option<SocketAddr> {
    let port = nest["REMOTE_PORT"].as_u64()? as u16;
    let ip = nest.get("REMOTE_IPV4").or(nest.get("REMOTE_IPV6"));
    let ip: IpAddr = ip?.as_str()?.parse().expect(&line.name);
    let mut remote = SocketAddr::new(ip, port);
    if let SocketAddr::V6(v6) = &mut remote {
        v6.set_scope_id(nest["REMOTE_IPV6_SCOPE_ID"].as_u64()? as u32);
    }
    Some(remote)
}

/// Attributes that ours has beyond the recording's, which told only what those daemons read.
fn more(family: Family) -> &'static [u16] {
    match family {
        // Addresses, ports, keepalive times, and counters of packets.
        Family::DcoV2 => &[2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16],
        // The id that the peer knows us by, which OpenVPN 2.7.6 passes over.
        Family::Ovpn => &[24],
    }
}

/// The same header, the same attributes in the same order with the same bytes, and some more.
fn peer(line: &Line) {
    let family = line.family().expect(&line.name);
    let ours = reply::peer(family, &answered(line), &state(line), line.what.contains("dump"));
    // Length and version apart: see above.
    assert_eq!(ours[4..VERSION_AT], line.hex[4..VERSION_AT], "{}", line.name);
    assert_eq!(ours[18..20], line.hex[18..20], "{}", line.name);
    assert_eq!(
        ours.len(),
        u32::from_le_bytes(ours[..4].try_into().unwrap()) as usize
    );
    let (mut top, theirs) = (split(&ours[20..]), split(&line.hex[20..]));
    let nest = top.last_mut().expect(&line.name);
    let their_nest = theirs.last().expect(&line.name);
    let members: Vec<_> = split(&nest.1);
    let (added, members): (Vec<_>, Vec<_>) = members.into_iter().partition(|m| more(family).contains(&m.0));
    assert!(!added.is_empty(), "{}", line.name);
    let same_width = theirs_as_ours(family, split(&their_nest.1));
    assert_eq!(members, same_width, "{}", line.name);
    let (id, their_id) = (nest.0, their_nest.0);
    assert_eq!(id, their_id, "{}", line.name);
    assert_eq!(top[..top.len() - 1], theirs[..theirs.len() - 1], "{}", line.name);
}

/// Counters of `ovpn` have four bytes where they fit (`nla_put_uint`); one of the recordings had eight throughout.
fn theirs_as_ours(family: Family, members: Vec<(u16, Vec<u8>)>) -> Vec<(u16, Vec<u8>)> {
    let narrow = |(id, value): (u16, Vec<u8>)| match id {
        16..=23 if family == Family::Ovpn && value.len() == 8 => {
            let value = u32::try_from(integer(&value)).expect("fits");
            (id, value.to_le_bytes().to_vec())
        }
        _ => (id, value),
    };
    members.into_iter().map(narrow).collect()
}

fn state(line: &Line) -> PeerState {
    let attrs = &line.decoded["attrs"];
    let nest = attrs.get("PEER").or(attrs.get("GET_PEER")).expect(&line.name);
    let number = |name: &str| nest[name].as_u64();
    let pair = |name: &str| {
        let packets = number(&format!("{name}_PACKETS")).unwrap_or(0);
        [packets, number(&format!("{name}_BYTES")).expect(name)]
    };
    let ip = |name: &str| nest[name].as_str().map(|ip| ip.parse::<IpAddr>().expect(name));
    PeerState {
        id: number("ID").or(number("PEER_ID")).expect(&line.name) as u32,
        tx_id: 5,
        remote: remote(line, nest),
        local: None,
        vpn_v4: ip("VPN_IPV4").map(|ip| match ip {
            IpAddr::V4(v4) => v4,
            IpAddr::V6(v6) => panic!("{v6}"),
        }),
        vpn_v6: ip("VPN_IPV6").map(|ip| match ip {
            IpAddr::V6(v6) => v6,
            IpAddr::V4(v4) => panic!("{v4}"),
        }),
        interval: number("KEEPALIVE_INTERVAL").unwrap_or(0) as u32,
        timeout: number("KEEPALIVE_TIMEOUT").unwrap_or(0) as u32,
        vpn_rx: pair("VPN_RX"),
        vpn_tx: pair("VPN_TX"),
        link_rx: pair("LINK_RX"),
        link_tx: pair("LINK_TX"),
    }
}

//! Peers.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::PEER_ID_MAX;
use crate::dco::attributes::{Attributes, invalid, refusal};
use crate::dco::policy::{dco_v2, ovpn};
use crate::dco::{Errno, NewPeer, Refusal, SetPeer};

/// AF_INET and AF_INET6 of Linux.
pub(in crate::dco) const AF_INET: u16 = 2;
pub(in crate::dco) const AF_INET6: u16 = 10;

/// NEW_PEER of `ovpn-dco-v2`.
pub(super) fn new_dco_v2(new: &Attributes<'_>) -> Result<NewPeer, Refusal> {
    use dco_v2::new_peer as a;
    let remote = new.bytes(a::SOCKADDR_REMOTE).map(sockaddr).transpose()?;
    let local = match new.bytes(a::LOCAL_IP).map(<[u8]>::len) {
        None => None,
        Some(4) => new.ipv4(a::LOCAL_IP).map(IpAddr::from),
        Some(16) => new.ipv6(a::LOCAL_IP).map(IpAddr::from),
        Some(len) => return Err(invalid(format!("LOCAL_IP: {len} bytes; an address has 4 or 16"))),
    };
    Ok(NewPeer {
        id: id(new, dco_v2::ID)?,
        tx_id: None,
        remote,
        local: local_of(local, remote)?,
        vpn_v4: new.ipv4(a::IPV4),
        vpn_v6: new.ipv6(a::IPV6),
        interval: None,
        timeout: None,
        socket: new.need_integer(a::SOCKET)?,
    })
}

/// SET_PEER of `ovpn-dco-v2`, which does something only if it has both times.
pub(super) fn set_dco_v2(set: &Attributes<'_>) -> Result<SetPeer, Refusal> {
    use dco_v2::set_peer as a;
    let times = set
        .integer(a::KEEPALIVE_INTERVAL)
        .zip(set.integer(a::KEEPALIVE_TIMEOUT));
    Ok(SetPeer {
        id: set.need_integer(dco_v2::ID)?,
        tx_id: None,
        remote: None,
        local: None,
        vpn_v4: None,
        vpn_v6: None,
        interval: times.map(|t| t.0),
        timeout: times.map(|t| t.1),
    })
}

/// PEER_NEW of `ovpn`.
pub(super) fn new_ovpn(new: &Attributes<'_>) -> Result<NewPeer, Refusal> {
    use ovpn::peer as a;
    let id = id(new, a::ID)?;
    let socket = new.need_integer(a::SOCKET)?;
    let (remote, local) = endpoints(new)?;
    let (interval, timeout) = keepalive(new)?;
    Ok(NewPeer {
        id,
        tx_id: new.integer(a::TX_ID),
        remote,
        local,
        vpn_v4: new.ipv4(a::VPN_IPV4),
        vpn_v6: new.ipv6(a::VPN_IPV6),
        interval,
        timeout,
        socket,
    })
}

/// PEER_SET of `ovpn`.
pub(super) fn set_ovpn(set: &Attributes<'_>) -> Result<SetPeer, Refusal> {
    use ovpn::peer as a;
    let id = set.need_integer(a::ID)?;
    let (remote, local) = endpoints(set)?;
    let (interval, timeout) = keepalive(set)?;
    Ok(SetPeer {
        id,
        tx_id: set.integer(a::TX_ID),
        remote,
        local,
        vpn_v4: set.ipv4(a::VPN_IPV4),
        vpn_v6: set.ipv6(a::VPN_IPV6),
        interval,
        timeout,
    })
}

/// The id of a peer to be made.
fn id(new: &Attributes<'_>, attribute: u16) -> Result<u32, Refusal> {
    match new.need_integer(attribute)? {
        id if id <= PEER_ID_MAX => Ok(id),
        id => Err(refusal(
            Errno::ERANGE,
            format!("peer id {id:#x} means that a record has none"),
        )),
    }
}

/// Remote and local address of a peer of `ovpn`.
fn endpoints(peer: &Attributes<'_>) -> Result<(Option<SocketAddr>, Option<IpAddr>), Refusal> {
    use ovpn::peer as a;
    let ip = one_of(
        peer,
        (a::REMOTE_IPV4, a::REMOTE_IPV6),
        "both REMOTE_IPV4 and REMOTE_IPV6",
    )?;
    let scope = peer.integer(a::REMOTE_IPV6_SCOPE_ID);
    if scope.is_some() && !matches!(ip, Some(IpAddr::V6(_))) {
        return Err(invalid("REMOTE_IPV6_SCOPE_ID without REMOTE_IPV6"));
    }
    let remote = match (ip, peer.port(a::REMOTE_PORT)) {
        (None, None) => None,
        (Some(IpAddr::V4(ip)), Some(port)) => Some(SocketAddr::from((ip, port))),
        (Some(IpAddr::V6(ip)), Some(port)) => Some(plain(ip, port, scope.unwrap_or(0))),
        (Some(_), None) => return Err(invalid("an address without REMOTE_PORT")),
        (None, Some(_)) => return Err(invalid("REMOTE_PORT without an address")),
    };
    let local = one_of(
        peer,
        (a::LOCAL_IPV4, a::LOCAL_IPV6),
        "both LOCAL_IPV4 and LOCAL_IPV6",
    )?;
    Ok((remote, local_of(local, remote)?))
}

/// The address of either family.
fn one_of(peer: &Attributes<'_>, (v4, v6): (u16, u16), both: &str) -> Result<Option<IpAddr>, Refusal> {
    match (peer.ipv4(v4), peer.ipv6(v6)) {
        (Some(_), Some(_)) => Err(invalid(both)),
        (Some(v4), None) => Ok(Some(v4.into())),
        (None, v6) => Ok(v6.map(IpAddr::from)),
    }
}

/// Our address towards a remote one, which is of the same family. The unspecified one says as much as none.
fn local_of(local: Option<IpAddr>, remote: Option<SocketAddr>) -> Result<Option<IpAddr>, Refusal> {
    let Some(local) = local.map(|ip| ip.to_canonical()) else {
        return Ok(None);
    };
    match remote {
        None => Err(invalid("a local address without a remote one")),
        Some(_) if local.is_unspecified() => Ok(None),
        Some(remote) if remote.is_ipv4() == local.is_ipv4() => Ok(Some(local)),
        Some(_) => Err(invalid("local and remote address are of different families")),
    }
}

/// An IPv6 address and port; an IPv4-mapped one (RFC 4291, 2.5.5.2) as what it is on the wire.
fn plain(ip: Ipv6Addr, port: u16, scope: u32) -> SocketAddr {
    match ip.to_ipv4_mapped() {
        Some(v4) => SocketAddr::from((v4, port)),
        None => SocketAddrV6::new(ip, port, 0, scope).into(),
    }
}

/// `struct sockaddr_in` or `struct sockaddr_in6` (ip(7), ipv6(7)). The flow label is not used.
fn sockaddr(bytes: &[u8]) -> Result<SocketAddr, Refusal> {
    let wrong = |what: &str| invalid(format!("SOCKADDR_REMOTE: {what}"));
    let [f0, f1, p0, p1, rest @ ..] = bytes else {
        return Err(wrong("shorter than any address"));
    };
    let family = u16::from_ne_bytes([*f0, *f1]);
    let port = u16::from_be_bytes([*p0, *p1]);
    if port == 0 {
        return Err(wrong("no port is 0"));
    }
    match (family, rest) {
        (AF_INET, [a, b, c, d, _padding @ ..]) if bytes.len() == 16 => {
            Ok(SocketAddr::from(([*a, *b, *c, *d], port)))
        }
        (AF_INET6, [_, _, _, _, rest @ ..]) if bytes.len() == 28 => {
            let (ip, scope) = rest.split_at(16);
            let ip = <[u8; 16]>::try_from(ip).map_err(|_| wrong("its address"))?;
            let scope = <[u8; 4]>::try_from(scope).map_err(|_| wrong("its scope id"))?;
            Ok(plain(ip.into(), port, u32::from_ne_bytes(scope)))
        }
        _ => Err(wrong(&format!(
            "{} bytes of address family {family} are neither sockaddr_in nor sockaddr_in6",
            bytes.len()
        ))),
    }
}

/// Interval and timeout, of which `ovpn` wants both or neither.
fn keepalive(peer: &Attributes<'_>) -> Result<(Option<u32>, Option<u32>), Refusal> {
    use ovpn::peer as a;
    let times = (
        peer.integer(a::KEEPALIVE_INTERVAL),
        peer.integer(a::KEEPALIVE_TIMEOUT),
    );
    match times {
        (Some(_), None) => Err(invalid("KEEPALIVE_INTERVAL without KEEPALIVE_TIMEOUT")),
        (None, Some(_)) => Err(invalid("KEEPALIVE_TIMEOUT without KEEPALIVE_INTERVAL")),
        both => Ok(both),
    }
}

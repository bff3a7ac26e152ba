//! What of a peer depends on the tunnel's mode: its VPN addresses. In a tunnel of many peers they say which one a packet is
//! for; where there is one peer, it is for that one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::attributes::invalid;
use super::{NewPeer, Refusal, SetPeer};
use crate::Mode;

impl NewPeer {
    /// Whether the peer can be one of a tunnel of that mode.
    ///
    /// # Errors
    /// EINVAL: no VPN address where peers are told apart by it, any where they are not, or one that no packet can be for: the
    /// unspecified and the loopback one, multicast, broadcast, IPv4-mapped and IPv4-compatible ones (RFC 1122 3.2.1.3,
    /// RFC 4291 2.5).
    pub fn check(&self, mode: Mode) -> Result<(), Refusal> {
        let given = given(self.vpn_v4, self.vpn_v6);
        check(self.id, mode, &given)?;
        match (mode, given.as_slice()) {
            (Mode::Mp, []) => Err(without(self.id)),
            (_, given) => match given.iter().find(|ip| ip.is_unspecified()) {
                Some(ip) => Err(invalid(format!("peer {}: {ip} is no VPN address", self.id))),
                None => Ok(()),
            },
        }
    }
}

impl SetPeer {
    /// Whether the peer can be changed so in a tunnel of that mode. `now`: the VPN addresses that it has.
    ///
    /// # Errors
    /// As [`NewPeer::check`], but that the unspecified address clears: EINVAL if neither would be left.
    pub fn check(&self, mode: Mode, now: (Option<Ipv4Addr>, Option<Ipv6Addr>)) -> Result<(), Refusal> {
        let wanted = given(self.vpn_v4, self.vpn_v6);
        check(self.id, mode, &wanted)?;
        let after = given(self.vpn_v4.or(now.0), self.vpn_v6.or(now.1));
        match !wanted.is_empty() && after.iter().all(IpAddr::is_unspecified) {
            true => Err(without(self.id)),
            false => Ok(()),
        }
    }
}

fn given(v4: Option<Ipv4Addr>, v6: Option<Ipv6Addr>) -> Vec<IpAddr> {
    v4.map(IpAddr::from)
        .into_iter()
        .chain(v6.map(IpAddr::from))
        .collect()
}

fn without(id: u32) -> Refusal {
    invalid(format!(
        "peer {id}: without a VPN address nothing can be sent to it in a tunnel of many peers"
    ))
}

fn check(id: u32, mode: Mode, given: &[IpAddr]) -> Result<(), Refusal> {
    match (mode, given) {
        (Mode::P2p, [ip, ..]) => Err(invalid(format!(
            "peer {id}: VPN address {ip} in a tunnel of one peer, which gets everything"
        ))),
        (_, given) => match given.iter().find(|ip| !ip.is_unspecified() && !is_host(**ip)) {
            Some(ip) => Err(invalid(format!("peer {id}: {ip} is no VPN address"))),
            None => Ok(()),
        },
    }
}

/// Whether an address is one that a host can have.
fn is_host(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_multicast() && !v4.is_broadcast(),
        // `to_ipv4` also takes ::1 for an IPv4-compatible address, which is as well.
        IpAddr::V6(v6) => !v6.is_multicast() && v6.to_ipv4().is_none(),
    }
}

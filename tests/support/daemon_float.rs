//! What tests of daemons' clients that move have in common.

#![allow(dead_code, reason = "no test uses all of it")]

use crate::daemon::{Daemon, Machine, Net, Options, Path, client, server, server_address};
use crate::gateway::{Wire, wait_for};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a daemon says of each handshake that succeeded, the first one included.
pub const DONE: &str = "Control Channel: TLS";
/// The client's port, which it keeps.
pub const PORT: u16 = 5000;

/// Client 0's outer address at first, and its next one, with their prefix lengths.
pub fn addresses(v6: bool) -> [&'static str; 2] {
    if v6 {
        ["2001:db8::a/64", "2001:db8::50/64"]
    } else {
        ["192.0.2.10/24", "192.0.2.50/24"]
    }
}

/// With the client's port.
pub fn endpoint(address: &str) -> SocketAddr {
    let (address, _) = address.split_once('/').expect("a prefix length");
    SocketAddr::new(address.parse().expect("an address"), PORT)
}

/// A client at that port.
pub fn at_port(machine: &Machine, v6: bool, port: u16) -> Options<'_> {
    let options = client(machine, 0)
        .without("nobind")
        .set("lport", &port.to_string())
        .set("reneg-sec", "0");
    if v6 { options.over_ipv6(0) } else { options }
}

pub fn serve(machine: &Machine, v6: bool, reneg: u64) -> Options<'_> {
    let proto = if v6 { "udp6" } else { "udp4" };
    server(machine, 0)
        .proto(proto)
        .set("reneg-sec", &format!("{reneg} {reneg}"))
}

/// Where the gateway has the peer with that VPN address, and where it takes the daemon to have it, if elsewhere.
pub fn whereabouts(machine: &Machine, vpn: IpAddr) -> [Option<SocketAddr>; 2] {
    let status = machine.status();
    let peer = status.peer("ovpn0", &vpn.to_string());
    ["remote", "known_remote"].map(|field| {
        peer[field]
            .as_str()
            .map(|text| text.parse().expect("an endpoint"))
    })
}

/// Waits until the gateway has found the peer there, while the daemon knows it where it was.
pub fn wait_floated(machine: &Machine, vpn: IpAddr, known: SocketAddr, current: SocketAddr) {
    if machine.path == Path::Own {
        return;
    }
    let mut last = [None; 2];
    wait_for(&format!("{vpn} at {current}, known at {known}"), || {
        last = whereabouts(machine, vpn);
        last == [Some(current), Some(known)]
    });
}

/// Waits until pings between the server and a client are all answered. Where there is much to do, `ping` does not wait for
/// the last ones.
pub fn wait_pings(net: &Net, daemon: &Daemon) {
    for v6 in [false, true] {
        for (machine, to) in [
            (daemon.machine, server_address(0, v6)),
            (&net.server, daemon.vpn(v6)),
        ] {
            wait_for(
                &format!("{} pings {to}, and all is answered", machine.name()),
                || {
                    let pings = machine.ping(to, &["-q", "-c20", "-i0.01", "-W2"]);
                    pings.sent > 0 && pings.received == pings.sent
                },
            );
        }
    }
}

/// Records between the server and one of two addresses and ports, in the order of the wire.
#[derive(Debug, Default)]
pub struct Seen {
    /// To the old one, since the client began to move.
    pub switch: u64,
    /// From the new one.
    pub moved: u64,
    /// To the old one after the first from the new one.
    pub late: u64,
    /// To the new one.
    pub followed: u64,
}

/// Source and destination of a frame with a record.
fn record(frame: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (source, destination): (IpAddr, IpAddr) = match packet.net? {
        NetSlice::Ipv4(ip) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ),
        NetSlice::Ipv6(ip) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ),
        _ => return None,
    };
    let Some(TransportSlice::Udp(udp)) = packet.transport else {
        return None;
    };
    (*udp.payload().first()? >> 3 == 9).then_some((
        SocketAddr::new(source, udp.source_port()),
        SocketAddr::new(destination, udp.destination_port()),
    ))
}

/// Counts records until it is told to end.
pub fn watch(mut wire: Wire, [old, new]: [SocketAddr; 2], moving: &AtomicBool, ended: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    while !ended.load(Ordering::Relaxed) {
        while let Some(frame) = wire.next() {
            let Some((source, destination)) = record(&frame) else {
                continue;
            };
            seen.moved += u64::from(source == new);
            seen.followed += u64::from(destination == new);
            if destination == old {
                seen.switch += u64::from(moving.load(Ordering::Relaxed));
                seen.late += u64::from(seen.moved > 0);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    seen
}

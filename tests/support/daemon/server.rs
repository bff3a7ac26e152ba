//! Servers.

use super::{Machine, Options};

/// Server number `n` of that machine, with the interface `ovpn<n>`, port 1194+n, and addresses in 10.8+n.0.0/24 and
/// fd08+n::/64: [`server_address`] is its own. Clients get the others in the order in which they come.
///
/// Pings every second, and a peer that is silent for eight seconds is gone (the client gives up after four): `keepalive 1 4`.
pub fn server(machine: &Machine, n: u8) -> Options<'_> {
    let identity = machine.pki.server("server");
    Options::new(machine, &format!("ovpn{n}"))
        .set("server", &format!("10.{}.0.0 255.255.255.0", 8 + n))
        .set("server-ipv6", &format!("fd{:02x}::/64", 8 + n))
        .set("topology", "subnet")
        .set("port", &port(n).to_string())
        .set("ca", &identity.authority.display().to_string())
        .set("cert", &identity.certificate.display().to_string())
        .set("key", &identity.key.display().to_string())
        .set("dh", "none")
        .set("keepalive", "1 4")
}

/// The UDP port of server number `n`.
pub fn port(n: u8) -> u16 {
    1194 + u16::from(n)
}

/// The VPN address of server number `n`.
pub fn server_address(n: u8, v6: bool) -> std::net::IpAddr {
    if v6 {
        std::net::Ipv6Addr::new(0xfd00 + 8 + u16::from(n), 0, 0, 0, 0, 0, 0, 1).into()
    } else {
        std::net::Ipv4Addr::new(10, 8 + n, 0, 1).into()
    }
}

//! Clients.

use super::{Machine, Options, SERVER, port};

/// A client on that machine of server number `n` of the server's machine, over IPv4, with the interface `ovpn0` and the
/// common name of the machine (`client0` and so on). It tries again after a second.
pub fn client(machine: &Machine, n: u8) -> Options<'_> {
    let options = Options::new(machine, "ovpn0")
        .set("client", "")
        .set("nobind", "")
        .set("remote", &format!("{} {}", SERVER.0, port(n)))
        .set("remote-cert-tls", "server")
        .set("connect-retry", "1 1");
    options.identity(machine.name())
}

impl Options<'_> {
    /// A client with this common name.
    pub fn identity(self, name: &str) -> Self {
        let identity = self.machine().pki.client(name);
        self.set("ca", &identity.authority.display().to_string())
            .set("cert", &identity.certificate.display().to_string())
            .set("key", &identity.key.display().to_string())
    }

    /// A client that reaches server number `n` over IPv6.
    pub fn over_ipv6(self, n: u8) -> Self {
        self.proto("udp6")
            .set("remote", &format!("{} {}", SERVER.1, port(n)))
    }
}

//! Where the tunnels listen, and where their peers are sent to from.

use crate::program::exit::Failure;
use nf_control::{Config, KeysFile, Tunnel as TunnelConfig};
use nf_path::inbound::classify::{Listeners, MAX_LISTENERS};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// A UDP socket of a daemon, by what it is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Socket {
    /// Address and port.
    pub address: SocketAddr,
    /// Whether an IPv6 wildcard leaves IPv4 out (IPV6_V6ONLY).
    pub v6_only: bool,
}

impl Socket {
    /// The addresses that it hears: those of both IP versions, for a wildcard that means both.
    fn addresses(self) -> impl Iterator<Item = SocketAddr> {
        let both = matches!(self.address.ip(), IpAddr::V6(a) if a.is_unspecified()) && !self.v6_only;
        let v4 = both.then(|| SocketAddr::from(([0, 0, 0, 0], self.address.port())));
        let own = SocketAddr::new(self.address.ip().to_canonical(), self.address.port());
        [own].into_iter().chain(v4)
    }
}

/// Where the tunnels listen: the static ones by configuration, the others where their daemons' sockets do.
#[derive(Clone, Debug, Default)]
pub struct Listen {
    fixed: Vec<(SocketAddr, u8)>,
    /// How many peers use each.
    sockets: BTreeMap<(u8, Socket), u32>,
}

impl Listen {
    /// What configuration and keys files say.
    pub fn new(
        config: &Config,
        keys: &[Option<KeysFile>],
        warnings: &mut Vec<String>,
    ) -> Result<Listen, Failure> {
        let mut all: Vec<(SocketAddr, u8)> = Vec::new();
        for (i, (tunnel, keys)) in config.tunnels.iter().zip(keys).enumerate() {
            let listen = listen(tunnel, keys.as_ref());
            let is_static = keys.is_some() || !tunnel.peers.is_empty();
            if listen.is_empty() && is_static {
                warnings.push(format!(
                    "tunnel[{i}].listen: {} listens nowhere",
                    tunnel.interface
                ));
            }
            for address in listen {
                all.push((*address, i as u8));
            }
        }
        let listen = Listen {
            fixed: all,
            sockets: BTreeMap::new(),
        };
        listen.listeners(&[]).map_err(Failure::usage)?;
        Ok(listen)
    }

    /// Whether another says the same of the static tunnels.
    pub fn is_configured_as(&self, other: &Listen) -> bool {
        self.fixed == other.fixed
    }

    /// Takes over the daemons' sockets of another.
    pub fn keep_sockets(&mut self, other: &Listen) {
        self.sockets.clone_from(&other.sockets);
    }

    /// Another tunnel that listens where this socket would: two sockets can do so only in different network namespaces.
    pub fn taken(&self, tunnel: u8, socket: Socket) -> Option<(SocketAddr, u8)> {
        let wild = |a: SocketAddr| a.ip().is_unspecified();
        let same = |a: SocketAddr, b: SocketAddr| {
            let version = a.is_ipv4() == b.is_ipv4();
            version && a.port() == b.port() && (a.ip() == b.ip() || wild(a) || wild(b))
        };
        self.all()
            .filter(|(_, t)| *t != tunnel)
            .find(|(other, _)| socket.addresses().any(|own| same(own, *other)))
    }

    /// One more peer uses a daemon's socket. Whether it is the first.
    pub fn attach(&mut self, tunnel: u8, socket: Socket) -> bool {
        let peers = self.sockets.entry((tunnel, socket)).or_default();
        *peers += 1;
        *peers == 1
    }

    /// One peer less uses a daemon's socket. Whether it was the last.
    pub fn detach(&mut self, tunnel: u8, socket: Socket) -> bool {
        let Some(peers) = self.sockets.get_mut(&(tunnel, socket)) else {
            return false;
        };
        *peers -= 1;
        let last = *peers == 0;
        if last {
            self.sockets.remove(&(tunnel, socket));
        }
        last
    }

    /// All addresses and ports of a tunnel, as configured or as its daemon's socket has them.
    pub fn of(&self, tunnel: u8) -> impl Iterator<Item = SocketAddr> + '_ {
        self.all().filter(move |(_, t)| *t == tunnel).map(|(a, _)| a)
    }

    fn all(&self) -> impl Iterator<Item = (SocketAddr, u8)> + '_ {
        let of_sockets = self.sockets.keys();
        let of_sockets = of_sockets.flat_map(|(t, socket)| socket.addresses().map(|a| (a, *t)));
        self.fixed.iter().copied().chain(of_sockets)
    }

    /// Whether some address is a wildcard, so that the addresses of the host interface matter.
    pub fn has_wildcard(&self) -> bool {
        self.all().any(|(a, _)| a.ip().is_unspecified())
    }

    /// The addresses for the workers. A wildcard means the host interface's `own` addresses of its family.
    ///
    /// # Errors
    /// More than a worker can hold.
    pub fn listeners(&self, own: &[IpAddr]) -> Result<Listeners, String> {
        let mut listeners = Listeners::default();
        for (address, tunnel) in self.expanded(own) {
            if !listeners.add(address, tunnel) {
                return Err(format!(
                    "tunnel[{tunnel}].listen: {address} is one too many: at most {MAX_LISTENERS} listening addresses in all"
                ));
            }
        }
        Ok(listeners)
    }

    /// Whether a tunnel listens at this address and port.
    pub fn holds(&self, tunnel: u8, local: SocketAddr, own: &[IpAddr]) -> bool {
        self.expanded(own).any(|(a, t)| t == tunnel && a == local)
    }

    /// The address and port from which a remote is contacted first: one of its IP version, `preferred` by the kernel if
    /// that is one, else the first. A link-local one is for link-local remotes only.
    pub fn local_for(
        &self,
        tunnel: u8,
        remote: SocketAddr,
        own: &[IpAddr],
        preferred: Option<IpAddr>,
    ) -> Option<SocketAddr> {
        let link_local = |ip: IpAddr| matches!(ip, IpAddr::V6(a) if a.is_unicast_link_local());
        let fits = |(a, t): &(SocketAddr, u8)| {
            *t == tunnel && a.is_ipv4() == remote.is_ipv4() && link_local(a.ip()) == link_local(remote.ip())
        };
        let mut all = self.expanded(own).filter(fits).map(|(a, _)| a);
        let first = all.next();
        let best = first.into_iter().chain(all).find(|a| Some(a.ip()) == preferred);
        best.or(first)
    }

    /// Named addresses first: they win over a wildcard with the same port.
    fn expanded(&self, own: &[IpAddr]) -> impl Iterator<Item = (SocketAddr, u8)> {
        let (wild, named): (Vec<_>, Vec<_>) = self.all().partition(|(a, _)| a.ip().is_unspecified());
        let of_wild = wild.into_iter().flat_map(|(address, tunnel)| {
            let meant: Vec<_> = own
                .iter()
                .filter(|ip| ip.is_ipv4() == address.is_ipv4())
                .map(|ip| (SocketAddr::new(*ip, address.port()), tunnel))
                .collect();
            meant
        });
        named.into_iter().chain(of_wild)
    }
}

/// Where a tunnel listens: the keys file's word has the configuration's laid over it already.
fn listen<'a>(tunnel: &'a TunnelConfig, keys: Option<&'a KeysFile>) -> &'a [SocketAddr] {
    keys.map_or(&tunnel.listen, |k| &k.listen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn listen(text: &str) -> Listen {
        let text = format!("[nic]\nport = \"net_null0\"\n{text}");
        let config = Config::parse(&text, "gw.toml", Path::new(""), []).expect("the text is valid");
        let keys: Vec<_> = config.tunnels.iter().map(|_| None).collect();
        Listen::new(&config, &keys, &mut Vec::new()).expect("few addresses")
    }

    #[test]
    fn a_local_address_is_the_kernels_choice_and_link_local_only_for_its_like() {
        let text = "[[tunnel]]\ninterface = \"t0\"\nlisten = [\"[::]:1\", \"0.0.0.0:1\"]\n";
        let listen = listen(text);
        let own = ["fe80::1", "2001:db8::1", "192.0.2.1", "192.0.2.2"].map(|a| a.parse().unwrap());
        let local = |remote: &str, preferred: Option<&str>| {
            let preferred = preferred.map(|p| p.parse().unwrap());
            let local = listen.local_for(0, remote.parse().unwrap(), &own, preferred);
            local.map(|l| l.ip().to_string())
        };
        assert_eq!(local("[2001:db8::9]:5", None).as_deref(), Some("2001:db8::1"));
        assert_eq!(local("[fe80::9]:5", None).as_deref(), Some("fe80::1"));
        assert_eq!(local("198.51.100.1:5", None).as_deref(), Some("192.0.2.1"));
        assert_eq!(
            local("198.51.100.1:5", Some("192.0.2.2")).as_deref(),
            Some("192.0.2.2")
        );
        assert_eq!(
            local("198.51.100.1:5", Some("203.0.113.1")).as_deref(),
            Some("192.0.2.1")
        );
        assert!(listen.holds(0, "192.0.2.2:1".parse().unwrap(), &own));
        assert!(!listen.holds(0, "192.0.2.3:1".parse().unwrap(), &own));
    }

    #[test]
    fn a_wildcard_means_the_host_interfaces_addresses() {
        let text = "[[tunnel]]\ninterface = \"t0\"\nlisten = [\"0.0.0.0:1194\", \"192.0.2.9:5\"]\n\
                    [[tunnel]]\ninterface = \"t1\"\nlisten = [\"[::]:1195\"]";
        let listen = listen(text);
        let own = ["192.0.2.1", "2001:db8::1"].map(|a| a.parse().unwrap());
        let all: Vec<_> = listen.expanded(&own).map(|(a, t)| (a.to_string(), t)).collect();
        let expected = [
            ("192.0.2.9:5", 0),
            ("192.0.2.1:1194", 0),
            ("[2001:db8::1]:1195", 1),
        ];
        assert_eq!(all, expected.map(|(a, t)| (a.to_owned(), t)));
        assert!(listen.has_wildcard());
        let local = |tunnel, remote: &str| listen.local_for(tunnel, remote.parse().unwrap(), &own, None);
        assert_eq!(
            local(1, "[2001:db8::7]:9"),
            Some("[2001:db8::1]:1195".parse().unwrap())
        );
        assert_eq!(local(0, "[2001:db8::7]:9"), None);
    }
}

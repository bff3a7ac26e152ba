//! The kernel's tables that the gateway follows: routes, permanent neighbours and MTU of the tunnel interfaces,
//! addresses, routes and neighbours of the host interface.

use super::{Control, lock, routes};
use crate::program::run::plan;
use crate::program::run::registry::PeerRef;
use lcore::mailbox::Message;
use nf_kernel::Change;
use nf_path::tunnel::Mode;
use nf_state::Update;
use nf_wire::ether::{HEADER_LEN, peer_mac};
use std::net::IpAddr;

/// What has to be read anew from the kernel.
#[derive(Default)]
pub(super) struct Stale {
    /// By tunnel: routes.
    routes: Vec<bool>,
    /// By tunnel: permanent neighbours.
    neighbours: Vec<bool>,
    /// By tunnel: the MTU.
    mtu: Vec<bool>,
    ways: bool,
    listeners: bool,
    /// Neighbours of the host interface.
    hops: Vec<(u32, IpAddr)>,
}

impl Control<'_> {
    pub(super) fn kernel_changes(&mut self) -> Stale {
        let mut stale = Stale::none(self.tunnels.len());
        for change in self.kernel.changes() {
            match change {
                Change::LinkChanged(link) => {
                    if let Some(tunnel) = self.tunnel_of(link.index) {
                        stale.tunnel(tunnel);
                        stale.mtu[tunnel] |= u32::from(self.tunnels[tunnel].mtu) != link.mtu;
                    }
                    stale.ways |= self.host == Some(link.index);
                }
                Change::Address { address, .. } => {
                    if let Some(tunnel) = self.tunnel_of(address.index) {
                        stale.tunnel(tunnel);
                    }
                    if self.host == Some(address.index) {
                        (stale.ways, stale.listeners) = (true, true);
                    }
                }
                Change::RouteAdded(route) | Change::RouteRemoved(route) => {
                    if let Some(tunnel) = self.tunnel_of(route.index) {
                        stale.routes[tunnel] = true;
                    }
                    stale.ways |= self.host == Some(route.index);
                }
                Change::RouteReplaced { .. } => {
                    stale.routes.fill(true);
                    stale.ways = true;
                }
                Change::Neighbour(n) => stale.hops.push((n.index, n.address)),
                Change::NeighbourRemoved { index, address } => stale.hops.push((index, address)),
                Change::LinkRemoved { .. } => {}
                Change::Overrun => {
                    tracing::debug!("rtnetlink: changes were lost; all is read anew");
                    return Stale {
                        mtu: vec![true; self.tunnels.len()],
                        ..Stale::all(self.tunnels.len())
                    };
                }
            }
        }
        stale
    }

    fn tunnel_of(&self, index: u32) -> Option<usize> {
        self.tunnels.iter().position(|t| t.index == Some(index))
    }

    /// Brings up to date what is stale. What fails is said and comes again with the next change.
    pub(super) fn refresh(&mut self, stale: Stale) {
        for tunnel in 0..self.tunnels.len() {
            if stale.mtu[tunnel] {
                self.refresh_mtu(tunnel);
            }
            if stale.neighbours[tunnel] {
                self.put_neighbours(tunnel);
            }
            if stale.routes[tunnel] {
                self.refresh_routes(tunnel);
            }
        }
        if stale.listeners {
            self.refresh_listeners();
        }
        self.translations.stale |= !self.translations.is_empty() && (stale.ways || !stale.hops.is_empty());
        let registry = self.registry.clone();
        let registry = lock(&registry);
        if stale.ways {
            self.ways.resolve_all(&mut self.kernel.netlink, &registry);
        }
        let hops = stale
            .hops
            .iter()
            .flat_map(|&(index, address)| self.ways.by_hop(index, address));
        for peer in hops.collect::<Vec<_>>() {
            self.ways.resolve(&mut self.kernel.netlink, &registry, peer);
        }
    }

    /// The peers' VPN addresses as permanent neighbours: the kernel needs not ask for them, and its table of learned ones
    /// is small. Setting a link down flushes them.
    pub(super) fn put_neighbours(&mut self, tunnel: usize) {
        let side = &self.tunnels[tunnel];
        let (Some(index), Mode::Mp) = (side.index, side.mode) else {
            return;
        };
        let registry = lock(&self.registry);
        let peers = registry.tunnels[tunnel].peers.values();
        let neighbours: Vec<_> = peers
            .flat_map(|e| e.addresses.iter().map(|a| (*a, peer_mac(e.id))))
            .collect();
        match self.kernel.netlink.link_by_index(index) {
            Ok(Some(link)) if link.up => {}
            _ => return,
        }
        if let Err(e) = self.kernel.netlink.put_neighbours(index, &neighbours) {
            tracing::warn!("{}: {e}", registry.tunnels[tunnel].interface);
        }
    }

    /// The VPN addresses of one peer as permanent neighbours.
    pub(super) fn put_neighbours_of(&mut self, peer: PeerRef) {
        let side = &self.tunnels[usize::from(peer.0)];
        let (Some(index), Mode::Mp) = (side.index, side.mode) else {
            return;
        };
        let registry = lock(&self.registry);
        let Some(entry) = registry.get(peer) else { return };
        let mac = peer_mac(entry.id);
        let neighbours: Vec<_> = entry.addresses.iter().map(|a| (*a, mac)).collect();
        // Where the link is down they are put once it is up.
        if let Err(e) = self.kernel.netlink.put_neighbours(index, &neighbours) {
            tracing::debug!("{}: {e}", registry.name(peer));
        }
    }

    /// Reads the kernel's routes of a tunnel interface anew.
    pub(super) fn refresh_routes(&mut self, tunnel: usize) {
        self.tunnels[tunnel].routes = match self.tunnels[tunnel].index.map(|i| self.kernel.netlink.routes(i))
        {
            Some(Ok(routes)) => routes,
            Some(Err(e)) => return tracing::warn!("{e}"),
            None => Vec::new(),
        };
        self.apply_routes(tunnel);
    }

    /// Makes the workers' tables what a new peer and routes say. Only where the kernel has routes `via` one of its addresses are
    /// all looked at: which of several holds depends on the others.
    pub(super) fn apply_routes_of(&mut self, (tunnel, id): PeerRef) {
        let routes = &self.tunnels[usize::from(tunnel)].routes;
        let mut registry = lock(&self.registry);
        let Some(entry) = registry.get((tunnel, id)) else {
            return;
        };
        let via = |route: &nf_kernel::Route| route.gateway.is_some_and(|g| entry.addresses.contains(&g));
        if routes.iter().any(via) {
            drop(registry);
            return self.apply_routes(usize::from(tunnel));
        }
        let prefixes: Vec<_> = entry.prefixes().collect();
        let now = &mut registry.tunnels[usize::from(tunnel)].routes;
        for prefix in prefixes {
            now.insert(prefix, id);
            self.update(tunnel, |_| Update::AddRoute { peer: id, prefix });
        }
    }

    /// Makes the workers' tables what peers and routes say now.
    pub(super) fn apply_routes(&mut self, tunnel: usize) {
        let registry = self.registry.clone();
        let mut registry = lock(&registry);
        let peers = &mut registry.tunnels[tunnel];
        let wanted = routes::wanted(peers, &self.tunnels[tunnel].routes);
        for step in routes::steps(&peers.routes, &wanted) {
            let interface = &peers.interface;
            match step {
                routes::Step::Add(prefix, peer) => {
                    tracing::debug!("{interface}: {prefix} is peer {peer}'s");
                    self.update(tunnel as u8, |_| Update::AddRoute { peer, prefix });
                }
                routes::Step::Remove(prefix, peer) => {
                    tracing::debug!("{interface}: {prefix} is no longer peer {peer}'s");
                    self.update(tunnel as u8, |_| Update::RemoveRoute { peer, prefix });
                }
            }
        }
        peers.routes = wanted;
    }

    /// Follows a tunnel interface's MTU that somebody changed.
    fn refresh_mtu(&mut self, tunnel: usize) {
        let port = &self.ports.tunnels[tunnel];
        let name = port.interface().unwrap_or_default().to_owned();
        match port.mirror_mtu() {
            Ok(mtu) if mtu == self.tunnels[tunnel].mtu => {}
            Ok(mtu) => {
                tracing::info!("{name}: its MTU is {mtu} now");
                self.tunnels[tunnel].mtu = mtu;
                let longest = usize::from(mtu) + HEADER_LEN;
                let settings = &self.reloading.config.tunnels[tunnel];
                let clamp = plan::mss(settings, mtu, self.reloading.config.nic.mtu);
                let tunnel = tunnel as u8;
                self.send(|_| Message::Longest { tunnel, longest });
                self.send(|_| Message::Mss { tunnel, clamp });
            }
            Err(e) => tracing::warn!("{name}: its MTU cannot be followed: {e}"),
        }
    }

    fn refresh_listeners(&mut self) {
        if !self.listen.has_wildcard() {
            return;
        }
        let own = self.host_addresses();
        match self.listen.listeners(&own) {
            Ok(listeners) => self.send(|_| Message::Listen(Box::new(listeners.clone()))),
            Err(e) => tracing::error!("{e}"),
        }
        self.bind_locals(&own);
    }

    pub(super) fn host_addresses(&mut self) -> Vec<IpAddr> {
        let Some(host) = self.host else { return Vec::new() };
        match self.kernel.netlink.addresses(host) {
            Ok(addresses) => addresses.into_iter().map(|a| a.address).collect(),
            Err(e) => {
                tracing::warn!("{e}");
                Vec::new()
            }
        }
    }
}

impl Stale {
    pub(super) fn none(tunnels: usize) -> Stale {
        Stale {
            routes: vec![false; tunnels],
            neighbours: vec![false; tunnels],
            mtu: vec![false; tunnels],
            ..Stale::default()
        }
    }

    pub(super) fn all(tunnels: usize) -> Stale {
        Stale {
            routes: vec![true; tunnels],
            neighbours: vec![true; tunnels],
            mtu: vec![false; tunnels],
            ways: true,
            listeners: true,
            hops: Vec::new(),
        }
    }

    /// Everything of one tunnel interface: the kernel does not tell what went with an address or a link.
    fn tunnel(&mut self, tunnel: usize) {
        (self.routes[tunnel], self.neighbours[tunnel]) = (true, true);
    }
}

//! Peers as daemons make, change and remove them.

use super::query::state;
use super::refusal;
use super::socket::socket;
use crate::program::run::control::{Control, lock};
use crate::program::run::registry::{Driven, Entry, HeldKeys, PeerRef, Registry};
use crate::program::statics::StaticPeer;
use lcore::socket::{ClientId, Fds};
use nf_control::Mode as ConfigMode;
use nf_control::dco::{DelReason, Errno, Family, NewPeer, Notification, Refusal, SetPeer};
use nf_path::tunnel::Mode;
use nf_state::Binding;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::MutexGuard;

impl Control<'_> {
    pub(super) fn new_peer(
        &mut self,
        from: ClientId,
        family: Family,
        tunnel: u8,
        new: &NewPeer,
        fds: Fds,
    ) -> Result<(), Refusal> {
        new.check(self.mode(tunnel))?;
        let socket = socket(new, fds)?;
        let Some(remote) = new.remote.map(unscoped) else {
            return Err(refusal(Errno::EINVAL, format!("peer {}: no remote", new.id)));
        };
        self.attach(tunnel, socket)?;
        if let Err(refusal) = self.make_room(family, tunnel, new) {
            self.detach(&[(tunnel, socket)]);
            return Err(refusal);
        }
        self.check_route(tunnel, new.id, remote);
        let own = self.own_addresses();
        let local = match new.local {
            Some(ip) => Some(SocketAddr::new(ip, socket.address.port())),
            None => {
                let preferred = self.preferred_source(remote.ip());
                self.listen.local_for(tunnel, remote, &own, preferred)
            }
        };
        let spec = StaticPeer {
            id: new.id,
            keys: Vec::new(),
            remote: Some(remote),
            local,
            addresses: addresses(new.vpn_v4, new.vpn_v6),
            networks: Vec::new(),
            keepalive: Some((new.interval.unwrap_or(0), new.timeout.unwrap_or(0))),
        };
        let mut entry = Entry::new(&spec, HeldKeys::default(), local, self.workers.len());
        entry.tx_id = new.tx_id.unwrap_or(new.id);
        entry.driven = Some(Driven {
            connection: from,
            family,
            socket,
            known: remote,
            moved: None,
            translate: true,
        });
        let peer = (tunnel, new.id);
        let registry = self.registry.clone();
        let mut registry = lock(&registry);
        registry.tunnels[usize::from(tunnel)].gone.remove(&new.id);
        tracing::info!("{}: at {remote}", registry.name(peer));
        self.add(&mut registry, peer, entry);
        drop(registry);
        self.bind(peer);
        self.put_neighbours_of(peer);
        self.apply_routes_of(peer);
        Ok(())
    }

    /// A line when the kernel would not send to a peer by the host interface: its control packets go another way then, and
    /// its records none.
    fn check_route(&mut self, tunnel: u8, peer: u32, remote: SocketAddr) {
        let Some(host) = self.host else { return };
        match self.kernel.netlink.route_to(remote.ip(), None) {
            Ok(Some(route)) if route.oif == host && !route.local => {}
            _ => tracing::warn!(
                "peer {peer} of {}: the kernel does not reach {remote} by the host interface: its records can only go the way that they come",
                self.interface(tunnel)
            ),
        }
    }

    /// Makes room for a new peer: in P2P it takes the place of the one before; in MP its id must be free, and an address that
    /// another has is taken from it, or not, by family.
    fn make_room(&mut self, family: Family, tunnel: u8, new: &NewPeer) -> Result<(), Refusal> {
        let registry = self.registry.clone();
        let mut registry = lock(&registry);
        if self.tunnels[usize::from(tunnel)].mode == Mode::P2p {
            let before: Vec<PeerRef> = registry.tunnels[usize::from(tunnel)]
                .peers
                .keys()
                .map(|id| (tunnel, *id))
                .collect();
            registry.tunnels[usize::from(tunnel)].gone.clear();
            self.remove_all(&mut registry, &before);
            for (_, peer) in before {
                // A client that comes back under the same id would take the news for that of the new one.
                if peer != new.id {
                    let reason = DelReason::Teardown;
                    self.notify(tunnel, &Notification::PeerDeleted { peer, reason });
                }
            }
            return Ok(());
        }
        if registry.get((tunnel, new.id)).is_some() {
            let text = format!("{} is there already", registry.name((tunnel, new.id)));
            return Err(refusal(Errno::EEXIST, text));
        }
        self.take_addresses(
            &mut registry,
            family,
            (tunnel, new.id),
            &addresses(new.vpn_v4, new.vpn_v6),
        )
    }

    /// VPN addresses that a peer is to have and another one has. The kernel's `ovpn` refuses that; of `ovpn-dco-v2` the
    /// newest has it, so that a client that comes back before its former instance is gone is reached.
    fn take_addresses(
        &mut self,
        registry: &mut Registry,
        family: Family,
        (tunnel, id): PeerRef,
        wanted: &[IpAddr],
    ) -> Result<(), Refusal> {
        for address in wanted {
            let peers = &mut registry.tunnels[usize::from(tunnel)];
            let Some(holder) = peers.by_vpn_address(*address).filter(|holder| *holder != id) else {
                continue;
            };
            if family == Family::Ovpn {
                let text = format!("peer {id}: {address} is the VPN address of peer {holder}");
                return Err(refusal(Errno::EADDRINUSE, text));
            }
            tracing::warn!(
                "{}: {address} goes from peer {holder} to peer {id}",
                peers.interface
            );
            if let Some(entry) = peers.peers.get_mut(&holder) {
                entry.addresses.retain(|a| a != address);
            }
            self.publish(registry, (tunnel, holder));
        }
        Ok(())
    }

    pub(super) fn set_peer(&mut self, tunnel: u8, set: &SetPeer) -> Result<(), Refusal> {
        let peer = (tunnel, set.id);
        if self.is_gone(peer) {
            return Ok(());
        }
        let registry = self.registry.clone();
        let mut registry = lock(&registry);
        let name = registry.name(peer);
        let Some(entry) = registry.get(peer) else {
            return Err(no_such(&name));
        };
        let state = state(entry, None);
        set.check(self.mode(tunnel), (state.vpn_v4, state.vpn_v6))?;
        let SetPeer {
            tx_id: None,
            remote: None,
            local: None,
            vpn_v4: None,
            vpn_v6: None,
            ..
        } = set
        else {
            return self.move_peer(registry, peer, set);
        };
        self.set_timers(&mut registry, peer, set);
        Ok(())
    }

    /// Timers as they are to be; those of which nothing is said stay.
    fn set_timers(&mut self, registry: &mut Registry, peer: PeerRef, set: &SetPeer) {
        let now = self.now();
        if let Some(entry) = registry.get_mut(peer)
            && (set.interval.is_some() || set.timeout.is_some())
        {
            let (interval, timeout) = entry.keepalive.unwrap_or_default();
            entry.keepalive = Some((set.interval.unwrap_or(interval), set.timeout.unwrap_or(timeout)));
            match entry.timers() {
                Some(keepalive) => self.timers.insert(peer, keepalive, now),
                None => self.timers.remove(peer),
            }
        }
    }

    /// Another address, outside or inside, or another id.
    fn move_peer(
        &mut self,
        mut registry: MutexGuard<'_, Registry>,
        peer: PeerRef,
        set: &SetPeer,
    ) -> Result<(), Refusal> {
        let Some(entry) = registry.get(peer) else {
            return Ok(());
        };
        let state = state(entry, None);
        let family = entry.driven.as_ref().map_or(Family::Ovpn, |d| d.family);
        let cleared = |a: &IpAddr| a.is_unspecified();
        let wanted = addresses(set.vpn_v4.or(state.vpn_v4), set.vpn_v6.or(state.vpn_v6));
        let wanted: Vec<IpAddr> = wanted.into_iter().filter(|a| !cleared(a)).collect();
        self.take_addresses(&mut registry, family, peer, &wanted)?;
        let lost = self.change_peer(&mut registry, peer, set, &wanted);
        self.set_timers(&mut registry, peer, set);
        drop(registry);
        let tunnel = usize::from(peer.0);
        if let Some(index) = self.tunnels[tunnel].index
            && let Err(e) = self.kernel.netlink.remove_neighbours(index, &lost)
        {
            tracing::debug!("{e}");
        }
        self.bind(peer);
        self.put_neighbours_of(peer);
        self.apply_routes(tunnel);
        self.translations.stale = true;
        Ok(())
    }

    /// Changes what is said of a peer. Returns the VPN addresses that it has no longer.
    fn change_peer(
        &mut self,
        registry: &mut Registry,
        peer: PeerRef,
        set: &SetPeer,
        wanted: &[IpAddr],
    ) -> Vec<IpAddr> {
        let own = self.own_addresses();
        let preferred = set.remote.and_then(|remote| self.preferred_source(remote.ip()));
        let Some(entry) = registry.get_mut(peer) else {
            return Vec::new();
        };
        let before = entry.endpoint.read();
        let wanted_remote = set.remote.map(unscoped);
        if let Some(remote) = wanted_remote.or(before.map(|b| b.remote)) {
            let port = entry.driven.as_ref().map_or(0, |d| d.socket.address.port());
            let local = match (set.local, set.remote, before) {
                (Some(ip), ..) => Some(SocketAddr::new(ip, port)),
                (None, None, Some(b)) => Some(b.local),
                _ => self.listen.local_for(peer.0, remote, &own, preferred),
            };
            if let Some(local) = local.filter(|_| set.remote.is_some() || set.local.is_some()) {
                // To the same remote it goes the same way.
                let way = before.filter(|b| b.remote == remote).and_then(|b| b.way);
                entry.endpoint.set(&Binding { remote, local, way });
            }
            entry.remote = Some(remote);
            if let (Some(driven), Some(remote)) = (&mut entry.driven, wanted_remote) {
                driven.known = remote;
            }
        }
        let lost = entry
            .addresses
            .iter()
            .copied()
            .filter(|a| !wanted.contains(a))
            .collect();
        entry.addresses = wanted.to_vec();
        entry.tx_id = set.tx_id.unwrap_or(entry.tx_id);
        self.publish(registry, peer);
        lost
    }

    pub(super) fn del_peer(&mut self, peer: PeerRef) -> Result<(), Refusal> {
        let registry = self.registry.clone();
        let mut registry = lock(&registry);
        let was_gone = registry.tunnels[usize::from(peer.0)]
            .gone
            .remove(&peer.1)
            .is_some();
        let name = registry.name(peer);
        if registry.get(peer).is_none() {
            return if was_gone { Ok(()) } else { Err(no_such(&name)) };
        }
        tracing::info!("{name}: removed by the daemon");
        self.remove_all(&mut registry, &[peer]);
        Ok(())
    }

    /// Whether a peer is gone by itself, and the daemon has not said that it knows: what it asks of it then is done, for
    /// an error would end the daemon.
    pub(super) fn is_gone(&self, (tunnel, id): PeerRef) -> bool {
        lock(&self.registry).tunnels[usize::from(tunnel)]
            .gone
            .contains_key(&id)
    }

    fn mode(&self, tunnel: u8) -> ConfigMode {
        match self.tunnels[usize::from(tunnel)].mode {
            Mode::Mp => ConfigMode::Mp,
            Mode::P2p => ConfigMode::P2p,
        }
    }
}

pub(super) fn no_such(name: &str) -> Refusal {
    refusal(Errno::ENOENT, format!("there is no {name}"))
}

/// A remote address as records have it: the interface is the host one, whatever its scope id.
fn unscoped(mut remote: SocketAddr) -> SocketAddr {
    if let SocketAddr::V6(v6) = &mut remote {
        v6.set_scope_id(0);
    }
    remote
}

fn addresses(v4: Option<Ipv4Addr>, v6: Option<Ipv6Addr>) -> Vec<IpAddr> {
    v4.map(IpAddr::from)
        .into_iter()
        .chain(v6.map(IpAddr::from))
        .collect()
}

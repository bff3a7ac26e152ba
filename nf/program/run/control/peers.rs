//! Peers that move, are to be pinged, or are gone.

use super::{Control, daemon, lock};
use crate::program::run::registry::{PeerRef, Registry};
use lcore::mailbox::{EVENTS, Message};
use nf_control::dco::{DelReason, Notification};
use nf_control::timers::Action;
use nf_path::tunnel::Mode;
use nf_state::{Binding, Event, IpNet, Update};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

/// Lines about floats in one round; what is more is summed up.
const LINES: usize = 32;

impl Control<'_> {
    /// What the workers report: at most as much as one mailbox holds, so that peers that move all the time keep nothing
    /// else waiting.
    pub(super) fn take_events(&mut self) {
        let workers = self.workers.clone();
        let events: Vec<_> = workers
            .iter()
            .flat_map(|w| w.mailbox.events().take(EVENTS))
            .collect();
        let registry = self.registry.clone();
        let registry = lock(&registry);
        let (mut moved, mut held, mut ended) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (i, (tunnel, event)) in events.iter().enumerate() {
            match event {
                Event::Float { peer, remote, local } => {
                    let peer = (*tunnel, *peer);
                    moved.insert(peer, *remote);
                    if i < LINES {
                        tracing::info!(
                            "{}: its address is {remote} now, ours {local}",
                            registry.name(peer)
                        );
                    }
                }
                Event::FloatHeld { peer, remote, holder } => {
                    if i < LINES {
                        tracing::warn!(
                            "{}: heard from {remote}, which is the address of peer {holder}: not taken over while that peer has it",
                            registry.name((*tunnel, *peer))
                        );
                    }
                    held.insert((*tunnel, *peer), *remote);
                }
                Event::NewSession { .. } | Event::OldAddress { .. } => ended.push((*tunnel, *event)),
            }
        }
        if events.len() > LINES {
            tracing::info!("and {} more peers that moved or would have", events.len() - LINES);
        }
        // What was reported of a peer before another one came under its id is not that one's.
        moved.retain(|peer, remote| {
            let now = registry.get(*peer).and_then(|e| e.endpoint.read());
            now.is_some_and(|binding| binding.remote == *remote)
        });
        held.retain(|peer, _| registry.get(*peer).is_some());
        drop(registry);
        // Where a peer would go, a daemon may make room, or not.
        for ((tunnel, peer), remote) in moved.iter().chain(&held) {
            let (peer, remote) = (*peer, daemon::scoped(*remote, self.host));
            self.notify(*tunnel, &Notification::PeerFloated { peer, remote });
        }
        for (tunnel, event) in ended {
            self.end_translation(tunnel, event);
        }
        for peer in moved.into_keys() {
            self.bind(peer);
        }
    }

    /// Peers whose address is another one than the workers' tables have: events may be lost, endpoints are not.
    pub(super) fn bind_moved(&mut self) {
        let registry = self.registry.clone();
        let moved: Vec<PeerRef> = lock(&registry)
            .iter()
            .filter(|(_, e)| e.endpoint.read().map(|b| b.remote) != e.bound)
            .map(|(peer, _)| peer)
            .collect();
        for peer in moved {
            self.bind(peer);
        }
    }

    /// Binds a peer to where its endpoint is, in the workers' tables, and looks up the way there.
    pub(super) fn bind(&mut self, (tunnel, id): PeerRef) {
        let registry = self.registry.clone();
        let mut registry = lock(&registry);
        let Some(binding) = registry.get((tunnel, id)).map(|e| e.endpoint.read()) else {
            return;
        };
        // The workers have an address once. It is tried again as long as another peer has it.
        let peers = &registry.tunnels[usize::from(tunnel)].peers;
        let held = |b: &Binding| peers.values().any(|e| e.id != id && e.bound == Some(b.remote));
        let binding = binding.filter(|b| !held(b));
        let Some(entry) = registry.get_mut((tunnel, id)) else {
            return;
        };
        if let Some(binding) = binding
            && entry.bound != Some(binding.remote)
        {
            entry.bound = Some(binding.remote);
            let address = (binding.remote.ip(), binding.remote.port());
            self.update(tunnel, |_| Update::BindAddress { peer: id, address });
            if let Some(driven) = &mut entry.driven {
                let away = driven.known != binding.remote;
                // Where the daemon believes it to be, nothing is in the way of the next time.
                driven.translate |= !away;
                driven.moved = away.then(Instant::now);
                self.translations.stale |= away || !self.translations.is_empty();
            }
        }
        self.ways
            .resolve(&mut self.kernel.netlink, &registry, (tunnel, id));
    }

    /// Binds peers to an address of ours: those whose remote is configured and that could not be sent to for want of one,
    /// and those that were contacted at one where nobody listens any more.
    pub(super) fn bind_locals(&mut self, own: &[IpAddr]) {
        let registry = self.registry.clone();
        let registry = lock(&registry);
        let mut changed = Vec::new();
        for (peer, entry) in registry.iter() {
            let binding = entry.endpoint.read();
            if binding.is_some_and(|b| self.listen.holds(peer.0, b.local, own)) {
                continue;
            }
            let Some(remote) = binding.map(|b| b.remote).or(entry.remote) else {
                continue;
            };
            let preferred = self.preferred_source(remote.ip());
            let local = entry.local.filter(|l| self.listen.holds(peer.0, *l, own));
            let Some(local) = local.or_else(|| self.listen.local_for(peer.0, remote, own, preferred)) else {
                continue;
            };
            let way = binding.and_then(|b| b.way);
            entry.endpoint.set(&Binding { remote, local, way });
            changed.push(peer);
        }
        drop(registry);
        for peer in changed {
            self.bind(peer);
        }
    }

    /// The source address that the kernel would take on the host interface.
    pub(super) fn preferred_source(&mut self, remote: IpAddr) -> Option<IpAddr> {
        self.kernel.source_to(self.host?, remote)
    }

    /// Keepalives that are due, and peers that are gone.
    pub(super) fn run_timers(&mut self) {
        let registry = self.registry.clone();
        let mut registry = lock(&registry);
        let totals = |peer| registry.get(peer).map(|e| e.totals()).unwrap_or_default();
        let due = self
            .timers
            .poll(self.now(), |p| totals(p).last_sent, |p| totals(p).last_recv);
        let mut gone = Vec::new();
        for action in due {
            match action {
                Action::Ping(peer) => drop(self.pings.insert(peer)),
                Action::Expire(peer) => gone.push(peer),
            }
        }
        for &(tunnel, peer) in &gone {
            let name = registry.name((tunnel, peer));
            let peers = &mut registry.tunnels[usize::from(tunnel)];
            let Some(entry) = peers.peers.get(&peer) else {
                continue;
            };
            let seconds = entry.keepalive.map_or(0, |k| k.1);
            tracing::warn!("{name}: nothing heard for {seconds} s: removed");
            if entry.driven.is_some() {
                peers.gone.insert(peer, daemon::state(entry, self.host));
            }
        }
        self.remove_all(&mut registry, &gone);
        for &(tunnel, peer) in &gone {
            let reason = DelReason::Expired;
            self.notify(tunnel, &Notification::PeerDeleted { peer, reason });
        }
        drop(registry);
        for tunnel in 0..self.tunnels.len() {
            if gone.iter().any(|(t, _)| usize::from(*t) == tunnel) {
                self.apply_routes(tunnel);
            }
        }
        self.ping();
    }

    /// Asks the workers for the keepalives that are due, as many as they have room for.
    fn ping(&mut self) {
        while let Some((tunnel, peer)) = self.pings.first().copied() {
            let owner = nf_path::outbound::owner(peer, self.workers.len() as u8);
            let worker = &self.workers[usize::from(owner)];
            if worker.mailbox.send(Message::Ping { tunnel, peer }).is_err() {
                return;
            }
            self.pings.pop_first();
        }
    }

    /// Takes peers out of the workers' tables, the kernel's and the registry. Their keys send nothing more at once; the
    /// state file is written once for all.
    pub(super) fn remove_all(&mut self, registry: &mut Registry, gone: &[PeerRef]) {
        if gone.is_empty() {
            return;
        }
        let mut sockets = Vec::new();
        for &(tunnel, id) in gone {
            self.timers.remove((tunnel, id));
            let peers = &mut registry.tunnels[usize::from(tunnel)];
            let Some(entry) = peers.peers.remove(&id) else {
                continue;
            };
            self.keys.stop(entry.keys.iter());
            sockets.extend(entry.driven.as_ref().map(|d| (tunnel, d.socket)));
            let side = &self.tunnels[usize::from(tunnel)];
            if let (Some(index), Mode::Mp) = (side.index, side.mode)
                && let Err(e) = self.kernel.netlink.remove_neighbours(index, &entry.addresses)
            {
                tracing::debug!("{e}");
            }
        }
        for (tunnel, peers) in (0u8..).zip(&mut registry.tunnels) {
            let lost: Vec<(IpNet, u32)> = peers
                .routes
                .iter()
                .filter(|(_, id)| !peers.peers.contains_key(id))
                .map(|(prefix, id)| (*prefix, *id))
                .collect();
            for (prefix, peer) in lost {
                peers.routes.remove(&prefix);
                self.update(tunnel, |_| Update::RemoveRoute { peer, prefix });
            }
        }
        for &(tunnel, id) in gone {
            self.update(tunnel, |_| Update::RemovePeer(id));
            self.ways
                .resolve(&mut self.kernel.netlink, registry, (tunnel, id));
        }
        self.keys.settle();
        self.detach(&sockets);
        self.translations.stale |= !self.translations.is_empty();
    }
}

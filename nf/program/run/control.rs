//! The control side while packets flow: events of the workers, timers, the kernel's tables, packet ids.

mod mirror;
mod reload;
mod routes;
mod ways;

use crate::program::run::gateway::Handle;
use crate::program::run::kernel::Kernel;
use crate::program::run::keys::Keys;
use crate::program::run::plan::Listen;
use crate::program::run::ports::Ports;
use crate::program::run::registry::{PeerRef, Registry};
use lcore::imb::Key;
use lcore::mailbox::{Message, Reply};
use mirror::Stale;
use nf_control::timers::{Action, PeerTimers};
use nf_path::tunnel::Mode;
use nf_state::{Event, Millis, Update};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use ways::Ways;

/// How often what is not usable yet is asked for again, and keys are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// One tunnel's part in the kernel.
pub struct TunnelSide {
    /// Index of the interface; None: the port has none.
    pub index: Option<u32>,
    /// One peer or many.
    pub mode: Mode,
    /// The MTU in force, in bytes.
    pub mtu: u16,
}

/// The control side.
pub struct Control<'g> {
    /// Shared with telemetry.
    pub registry: Arc<Mutex<Registry>>,
    workers: Vec<Handle>,
    keys: Keys,
    kernel: Kernel,
    ports: &'g Ports,
    tunnels: Vec<TunnelSide>,
    host: Option<u32>,
    listen: Listen,
    timers: PeerTimers<PeerRef>,
    ways: Ways,
    cycles_per_ms: u64,
    next: Instant,
    reloading: Source,
}

/// What a control side is made of.
pub struct Parts<'g> {
    /// All peers.
    pub registry: Registry,
    /// The workers.
    pub workers: Vec<Handle>,
    /// Makes and retires keys.
    pub keys: Keys,
    /// The kernel.
    pub kernel: Kernel,
    /// The ports.
    pub ports: &'g Ports,
    /// The tunnels, in order.
    pub tunnels: Vec<TunnelSide>,
    /// Index of the host interface.
    pub host: Option<u32>,
    /// Whether layer 2 is the kernel's business.
    pub kernel_l2: bool,
    /// Where the gateway listens.
    pub listen: Listen,
    /// TSC cycles in a millisecond.
    pub cycles_per_ms: u64,
    /// What SIGHUP reads again.
    pub source: Source,
}

pub use reload::Source;

impl<'g> Control<'g> {
    /// Takes over once the workers poll: timers start, neighbours, routes and ways are as they should be when this returns.
    pub fn new(parts: Parts<'g>) -> Control<'g> {
        let tunnels = parts.tunnels.len();
        let mut control = Control {
            registry: Arc::new(Mutex::new(parts.registry)),
            workers: parts.workers,
            keys: parts.keys,
            kernel: parts.kernel,
            ports: parts.ports,
            tunnels: parts.tunnels,
            ways: Ways::new(parts.host.filter(|_| parts.kernel_l2)),
            host: parts.host,
            listen: parts.listen,
            timers: PeerTimers::new(),
            cycles_per_ms: parts.cycles_per_ms,
            next: Instant::now() + EVERY,
            reloading: parts.source,
        };
        let registry = control.registry.clone();
        let registry = lock(&registry);
        let now = control.now();
        for (peer, entry) in registry.iter() {
            if let Some(keepalive) = entry.timers() {
                control.timers.insert(peer, keepalive, now);
            }
        }
        drop(registry);
        control.refresh(Stale::all(tunnels));
        control
    }

    /// What is due now. To be called every few milliseconds to a tenth of a second.
    pub fn tick(&mut self) {
        self.take_replies();
        self.take_events();
        let stale = self.kernel_changes();
        self.refresh(stale);
        self.run_timers();
        let registry = self.registry.clone();
        self.keys.top_up(lock(&registry).keys());
        if Instant::now() >= self.next {
            self.next = Instant::now() + EVERY;
            self.look_at_keys();
            let registry = lock(&registry);
            for peer in self.ways.unresolved(&registry) {
                self.ways.resolve(&mut self.kernel.netlink, &registry, peer);
            }
        }
    }

    /// After the workers have ended: no key is used any more, and the kernel is as it was.
    pub fn end(mut self) {
        self.take_replies();
        let registry = lock(&self.registry);
        self.keys.retire(registry.keys());
    }

    fn now(&self) -> Millis {
        Millis(lcore::cycles() / self.cycles_per_ms)
    }

    /// Peers and keys that came back are dropped here: zeroised and freed off the fast path.
    fn take_replies(&self) {
        for worker in &self.workers {
            for reply in worker.mailbox.replies() {
                if let Reply::Rejected(rejected) = reply {
                    tracing::warn!("worker {}: {rejected}", worker.cpu);
                }
            }
        }
    }

    fn take_events(&mut self) {
        let workers = self.workers.clone();
        for (tunnel, event) in workers.iter().flat_map(|w| w.mailbox.events()) {
            self.event(tunnel, event);
        }
    }

    fn event(&mut self, tunnel: u8, event: Event) {
        let registry = self.registry.clone();
        let mut registry = lock(&registry);
        match event {
            Event::Float { peer, remote, local } => {
                let named = (tunnel, peer);
                tracing::info!(
                    "{}: its address is {remote} now, ours {local}",
                    registry.name(named)
                );
                let Some(entry) = registry.get_mut(named) else {
                    return;
                };
                entry.heard = entry
                    .endpoint
                    .read()
                    .filter(|b| b.remote == remote)
                    .and_then(|b| b.way);
                let address = (remote.ip(), remote.port());
                self.send(|_| Message::Table(tunnel, Update::BindAddress { peer, address }));
                self.ways.resolve(&mut self.kernel.netlink, &registry, named);
            }
            Event::FloatHeld { peer, remote, holder } => tracing::warn!(
                "{}: heard from {remote}, which is the address of peer {holder}: not taken over while that peer has it",
                registry.name((tunnel, peer))
            ),
        }
    }

    /// Keepalives that are due, and peers that are gone.
    fn run_timers(&mut self) {
        let registry = self.registry.clone();
        let registry = lock(&registry);
        let totals = |peer| registry.get(peer).map(|e| e.totals()).unwrap_or_default();
        let due = self
            .timers
            .poll(self.now(), |p| totals(p).last_sent, |p| totals(p).last_recv);
        let silent: Vec<_> = due
            .iter()
            .filter_map(|action| match action {
                Action::Expire(peer) => Some(*peer),
                Action::Ping(_) => None,
            })
            .collect();
        for action in due {
            if let Action::Ping((tunnel, peer)) = action {
                let owner = nf_path::outbound::owner(peer, self.workers.len() as u8);
                let worker = &self.workers[usize::from(owner)];
                // A full mailbox: the timer comes back after another interval.
                let _ = worker.mailbox.send(Message::Ping { tunnel, peer });
            }
        }
        drop(registry);
        for peer in silent {
            self.expire(peer);
        }
    }

    fn expire(&mut self, peer: PeerRef) {
        let registry = self.registry.clone();
        let mut registry = lock(&registry);
        let seconds = registry.get(peer).and_then(|e| e.keepalive).map_or(0, |k| k.1);
        tracing::warn!("{}: nothing heard for {seconds} s: removed", registry.name(peer));
        self.remove(&mut registry, peer);
    }

    /// Takes a peer out of the workers' tables, the kernel's and the registry.
    fn remove(&mut self, registry: &mut Registry, (tunnel, id): PeerRef) {
        self.timers.remove((tunnel, id));
        let side = &self.tunnels[usize::from(tunnel)];
        let Some(entry) = registry.tunnels[usize::from(tunnel)].peers.remove(&id) else {
            return;
        };
        registry.tunnels[usize::from(tunnel)]
            .routes
            .retain(|_, peer| *peer != id);
        self.keys.retire(entry.keys.iter());
        self.send(|_| Message::Table(tunnel, Update::RemovePeer(id)));
        if let (Some(index), Mode::Mp) = (side.index, side.mode)
            && let Err(e) = self.kernel.netlink.remove_neighbours(index, &entry.addresses)
        {
            tracing::debug!("{e}");
        }
        self.ways
            .resolve(&mut self.kernel.netlink, registry, (tunnel, id));
    }

    /// A line for each limit that a key has come to.
    fn look_at_keys(&self) {
        let mut registry = lock(&self.registry);
        for tunnel in &mut registry.tunnels {
            for entry in tunnel.peers.values_mut() {
                for key in &mut entry.keys {
                    for notice in key.notices() {
                        let (peer, id) = (entry.id, key.slot.key_id());
                        tracing::warn!("peer {peer} of {}, key {id}: {notice}", tunnel.interface);
                    }
                }
            }
        }
    }

    /// Sends a message to every worker, and waits for those whose mailbox is full.
    fn send(&self, message: impl Fn(usize) -> Message) {
        for (i, worker) in self.workers.iter().enumerate() {
            if let Err(e) = worker.send_patiently(message(i)) {
                tracing::error!("{e}");
            }
        }
    }

    /// Sends an update that each worker needs a value of its own of.
    fn update(&self, tunnel: u8, update: impl Fn(usize) -> Update<Key>) {
        self.send(|worker| Message::Table(tunnel, update(worker)));
    }
}

/// The registry. A thread that panicked with it left whole entries behind.
pub fn lock(registry: &Mutex<Registry>) -> MutexGuard<'_, Registry> {
    registry.lock().unwrap_or_else(|e| e.into_inner())
}

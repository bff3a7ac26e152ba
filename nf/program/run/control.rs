//! The control side while packets flow: events of the workers, timers, the kernel's tables, packet ids.

mod daemon;
mod mirror;
mod peers;
mod reload;
mod routes;
mod ways;

use crate::program::run::gateway::Handle;
use crate::program::run::kernel::Kernel;
use crate::program::run::keys::Keys;
use crate::program::run::listen::Listen;
use crate::program::run::nic::AfPacket;
use crate::program::run::notify;
use crate::program::run::ports::Ports;
use crate::program::run::registry::{PeerRef, Registry};
use daemon::address::Addresses;
use lcore::imb::Key;
use lcore::mailbox::Message;
use mirror::Stale;
use nf_control::dco::Notification;
use nf_control::rekey::Notice;
use nf_control::timers::PeerTimers;
use nf_kernel::Route;
use nf_path::tunnel::Mode;
use nf_path::verdict::DropReason;
use nf_state::{Millis, Slot, Update};
use std::collections::BTreeSet;
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
    /// The daemon that drives it; None: nobody, or it is static.
    pub claim: Option<Claim>,
    /// The kernel's routes of the interface, as read last.
    pub routes: Vec<Route>,
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
    clients: Clients,
    /// How the host port's datagrams keep the address that a daemon knows a floated peer by.
    translations: Addresses,
    host: Option<u32>,
    listen: Listen,
    timers: PeerTimers<PeerRef>,
    /// Keepalives that are due and that no mailbox had room for.
    pings: BTreeSet<PeerRef>,
    ways: Ways,
    cycles_per_ms: u64,
    started: Instant,
    /// What the service manager was told last.
    told: String,
    next: Instant,
    /// The interface that frames may arrive cut from, until that was said.
    may_cut: Option<AfPacket>,
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
    /// The interface behind the NIC port, if its frames may arrive cut.
    pub af_packet: Option<AfPacket>,
    /// What SIGHUP reads again.
    pub source: Source,
    /// The control socket.
    pub clients: Clients,
}

pub use daemon::{Claim, Clients};
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
            clients: parts.clients,
            translations: Addresses::default(),
            ways: Ways::new(parts.host.filter(|_| parts.kernel_l2)),
            host: parts.host,
            listen: parts.listen,
            timers: PeerTimers::new(),
            pings: BTreeSet::new(),
            cycles_per_ms: parts.cycles_per_ms,
            started: Instant::now(),
            told: String::new(),
            next: Instant::now() + EVERY,
            may_cut: parts.af_packet,
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
        self.translate();
        let registry = self.registry.clone();
        self.keys.top_up(lock(&registry).keys());
        if Instant::now() >= self.next {
            self.next = Instant::now() + EVERY;
            self.look_at_keys();
            self.look_for_cut_frames();
            self.bind_moved();
            self.keep_stand_ins();
            self.tell_manager();
            let registry = lock(&registry);
            for peer in self.ways.unresolved(&registry) {
                self.ways.resolve(&mut self.kernel.netlink, &registry, peer);
            }
            self.translations.stale |= !self.translations.is_empty();
        }
    }

    /// After the workers have ended: no key is used any more, and the kernel is as it was.
    pub fn end(self) {
        self.take_replies();
    }

    /// Whether a tunnel has static peers or keys, so that no daemon can drive it.
    fn is_static(&self, tunnel: u8) -> bool {
        let settings = &self.reloading.config.tunnels[usize::from(tunnel)];
        settings.keys_file.is_some() || !settings.peers.is_empty()
    }

    fn now(&self) -> Millis {
        Millis(lcore::cycles() / self.cycles_per_ms)
    }

    /// Peers and keys that came back are dropped here: zeroised and freed off the fast path.
    fn take_replies(&self) {
        self.workers.iter().for_each(Handle::take_replies);
    }

    /// The line that `systemctl status` shows, when it has changed.
    fn tell_manager(&mut self) {
        let registry = lock(&self.registry);
        let peers = registry.iter().count();
        let driven = self.tunnels.iter().filter(|t| t.claim.is_some()).count();
        let daemons = (0..self.tunnels.len() as u8)
            .filter(|t| !self.is_static(*t))
            .count();
        drop(registry);
        let line = format!("{driven} of {daemons} tunnels for daemons driven, {peers} peers");
        if line != self.told {
            notify::status(&line);
            self.told = line;
        }
    }

    /// A line for each limit that a key has come to, and word to a daemon that can renew it.
    fn look_at_keys(&self) {
        let now = self.now();
        let mut registry = lock(&self.registry);
        let mut used_up = BTreeSet::new();
        for (index, tunnel) in (0u8..).zip(&mut registry.tunnels) {
            for entry in tunnel.peers.values_mut() {
                let primary = entry.keys.get(Slot::Primary).map(|key| key.slot.serial());
                for key in entry.keys.iter_mut() {
                    for notice in key.notices(now) {
                        let (peer, key_id) = (entry.id, key.slot.key_id());
                        tracing::warn!("peer {peer} of {}, key {key_id}: {notice}", tunnel.interface);
                        // A daemon is told once of a key, and only while it can still do something.
                        if primary == Some(key.slot.serial()) && key.tell() && notice != Notice::IdsExhausted
                        {
                            used_up.insert((index, peer, key_id));
                        }
                    }
                }
            }
        }
        for (tunnel, peer, key_id) in used_up {
            self.notify(tunnel, &Notification::KeySwap { peer, key_id });
        }
    }

    /// A line, once, when frames may have been cut on their way in.
    fn look_for_cut_frames(&mut self) {
        let dropped = |w: &Handle| w.counters.dropped(DropReason::IpLength) > 0;
        if let Some(nic) = self.may_cut.take_if(|_| self.workers.iter().any(dropped)) {
            tracing::warn!("{}", nic.cut());
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

    /// Waits until every worker has made every change. That one does not is said.
    fn wait_until_applied(&self) -> Result<(), String> {
        let all = self.workers.iter().map(Handle::wait_until_applied);
        let failed = all
            .filter_map(Result::err)
            .inspect(|why| tracing::error!("{why}"));
        failed.collect::<Vec<_>>().pop().map_or(Ok(()), Err)
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

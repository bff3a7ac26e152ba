//! The worker: the only loop. It polls its queues, takes what came through the paths, and sends what comes out.

mod control;
mod send;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nf_path::burst::{Frames, MAX_BURST, Now, Outputs};
use nf_path::context::Context;
use nf_path::counters::Counters;
use nf_path::inbound::classify::Listeners;
use nf_path::inbound::{Inbound, Tuning};
use nf_path::outbound::reserve::SPREAD_IDS;
use nf_path::outbound::{Lcores, Nic, Outbound};
use nf_path::tunnel::Tunnel;
use nf_path::verdict::DropReason;
use nf_state::Millis;

use self::send::{Outgoing, discard, send};
use crate::buffers::Pools;
use crate::imb::Key;
use crate::mailbox::Mailbox;
use crate::reassembly::IpFrag;
use crate::steering::Steering;
use crate::{Burst, Imb, Mbuf, RxQueue, TxQueue, cycles};

/// Both queues of one port that one worker owns.
#[derive(Debug)]
pub struct Queues {
    /// Where frames come from.
    pub rx: RxQueue,
    /// Where frames go.
    pub tx: TxQueue,
    /// Longest frame that the port takes, in bytes from the Ethernet header on. Longer ones are dropped before
    /// they are offered: a driver stops the burst at one.
    pub longest: usize,
}

/// All that a worker needs and that can be made before its thread runs.
pub struct Parts {
    /// The NIC port's queues.
    pub nic: Queues,
    /// What our frames need to know of the NIC port.
    pub outer: Nic,
    /// The host port's queues; None: frames that are not ours are counted as `host_full`.
    pub host: Option<Queues>,
    /// The tunnel ports' queues, in the order of `tables`.
    pub tunnels: Vec<Queues>,
    /// The tunnels' tables.
    pub tables: Vec<Tunnel<Key>>,
    /// Which datagrams are whose.
    pub listeners: Listeners,
    /// Batching and lookahead.
    pub tuning: Tuning,
    /// Whether a peer is answered the way it was last heard, on layer 2.
    pub last_heard: bool,
    /// Most frames in one poll of a port, 1 to 256.
    pub burst: usize,
    /// How long to sleep when no port had a frame; None: poll on.
    pub idle_sleep: Option<Duration>,
    /// Changes from the control side.
    pub mailbox: Mailbox,
    /// The rings to and from the other workers.
    pub steering: Steering,
    /// Where buffers for frames of our own come from.
    pub pools: Pools,
    /// What this worker counts.
    pub counters: Arc<Counters>,
    /// TSC cycles in a millisecond.
    pub cycles_per_ms: u64,
}

/// How often reassembly is asked for what is too old, in milliseconds.
const EXPIRE_EVERY_MS: u64 = 100;
/// How long a worker that is to end goes on while there are frames.
const DRAIN_MS: u64 = 200;

/// One worker. Neither it nor its paths leave the thread that made it.
pub struct Worker {
    nic: Queues,
    host: Option<Queues>,
    tunnels: Vec<Queues>,
    inbound: Inbound<Mbuf, IpFrag>,
    outbound: Outbound<Mbuf, Pools>,
    context: Context<Imb>,
    mailbox: Mailbox,
    steering: Steering,
    counters: Arc<Counters>,
    received: Burst,
    out: Outputs<Mbuf>,
    records: Box<Frames<Mbuf>>,
    burst: usize,
    idle_sleep: Option<Duration>,
    cycles_per_ms: u64,
    next_expiry: Millis,
}

impl Worker {
    /// A worker on the calling thread, with that thread's IPsec-MB manager and reassembly table.
    pub fn new(parts: Parts, imb: Imb, reassembly: IpFrag) -> Worker {
        let Parts { counters, tuning, .. } = parts;
        let lcores = Lcores {
            me: parts.steering.me(),
            count: parts.steering.count(),
        };
        let mut context = Context::new(parts.tables, imb, counters.clone());
        context.last_heard = parts.last_heard;
        let mut inbound = Inbound::new(parts.listeners, tuning, reassembly, counters.clone());
        if let Some(host) = &parts.host {
            inbound.cut_for_host(host.longest);
        }
        Worker {
            inbound,
            outbound: Outbound::new(
                parts.outer,
                lcores,
                tuning.lookahead,
                parts.pools,
                counters.clone(),
            ),
            context,
            out: Outputs::new(parts.tunnels.len()),
            nic: parts.nic,
            host: parts.host,
            tunnels: parts.tunnels,
            mailbox: parts.mailbox,
            steering: parts.steering,
            counters,
            received: Burst::new(),
            records: Box::default(),
            burst: parts.burst,
            idle_sleep: parts.idle_sleep,
            cycles_per_ms: parts.cycles_per_ms,
            next_expiry: Millis(0),
        }
    }

    /// Polls until `stop` is set, and then as long as there are frames, for a fifth of a second at most; one of several
    /// workers for all of that time.
    pub fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.apply();
            let frames = self.poll();
            if let (0, Some(sleep)) = (frames, self.idle_sleep) {
                std::thread::park_timeout(sleep);
            }
        }
        let end = cycles() + DRAIN_MS * self.cycles_per_ms;
        // One of several may be given frames by the others as long as those go on.
        let alone = self.steering.count() < 2;
        while (self.poll() > 0 || !alone) && cycles() < end {}
        // What the others steer here after this has nobody to seal it.
        let left = self
            .steering
            .from()
            .iter()
            .map(|ring| std::iter::from_fn(|| ring.pop()).count());
        self.counters
            .count(DropReason::SteerFull, left.sum::<usize>() as u64);
    }

    /// One poll of every port. Returns how many frames they had.
    #[inline]
    pub fn poll(&mut self) -> usize {
        let start = cycles();
        let inbound = self.nic.rx.recv(&mut self.received, self.burst);
        if inbound > 0 {
            self.inbound(start, inbound);
        }
        let now = self.now(start);
        if now.millis >= self.next_expiry {
            self.next_expiry = Millis(now.millis.0 + EXPIRE_EVERY_MS);
            self.inbound.expire_fragments(now);
        }
        let outbound = self.poll_tunnels(now) + self.poll_steered(now);
        let frames = inbound + outbound + self.poll_host();
        if frames > 0 {
            self.counters.busy_cycles.add(cycles() - start);
        }
        frames
    }

    /// Gives up every datagram that is still incomplete, as at the end of a capture.
    pub fn give_up_fragments(&mut self) {
        let end = cycles() + self.cycles_per_ms * (crate::reassembly::TIMEOUT_MS + 1);
        self.inbound.expire_fragments(self.now(end));
    }

    fn now(&self, cycles: u64) -> Now {
        Now {
            millis: Millis(cycles / self.cycles_per_ms),
            cycles,
        }
    }

    /// The burst from the NIC: through the path and out.
    #[inline]
    fn inbound(&mut self, start: u64, frames: usize) {
        let now = self.now(start);
        let c = &*self.counters;
        c.bursts.add(frames);
        let (received, out) = (&mut self.received, &mut self.out);
        self.inbound.process(&mut self.context, received, now, out);
        for (queues, frames) in self.tunnels.iter_mut().zip(&mut self.out.tunnels) {
            let (sent, bytes) = send(queues, frames, c, DropReason::TunnelMtu, DropReason::TunnelFull);
            c.tunnel_tx.add(sent);
            c.tunnel_tx_bytes.add(bytes);
        }
        if !self.out.host.is_empty() {
            match &mut self.host {
                Some(queues) => {
                    let (too_long, full) = (DropReason::HostMtu, DropReason::HostFull);
                    let (sent, _) = send(queues, &mut self.out.host, c, too_long, full);
                    c.host_tx.add(sent);
                }
                None => discard(&mut self.out.host, c, DropReason::HostFull),
            }
        }
        if !self.context.events.is_empty() {
            self.report_events();
        }
    }

    /// Frames from the host port leave at the NIC, unchanged but for what is translated.
    fn poll_host(&mut self) -> usize {
        let Some(host) = &mut self.host else { return 0 };
        let frames = host.rx.recv(&mut self.received, self.burst);
        if frames > 0 {
            self.counters.host_rx.add(frames as u64);
            self.inbound.translate_out(&mut self.received);
            let (too_long, full) = (DropReason::NicMtu, DropReason::NicFull);
            let (sent, _) = send(&mut self.nic, &mut self.received, &self.counters, too_long, full);
            self.counters.nic_tx.add(sent);
        }
        frames
    }

    /// Frames from the tunnel ports are sealed and leave at the NIC.
    #[inline]
    fn poll_tunnels(&mut self, now: Now) -> usize {
        let mut frames = 0;
        for tunnel in 0..self.tunnels.len() {
            let received = self.tunnels[tunnel].rx.recv(&mut self.received, self.burst);
            if received > 0 {
                frames += received;
                let bytes = self.outbound(tunnel, now);
                self.counters.tunnel_rx.add(received as u64);
                self.counters.tunnel_rx_bytes.add(bytes);
            }
        }
        frames
    }

    /// Frames that other workers received and this one seals.
    #[inline]
    fn poll_steered(&mut self, now: Now) -> usize {
        let mut frames = 0;
        for ring in 0..self.steering.from().len() {
            let mut of = None;
            for _ in 0..self.burst {
                let Some((tunnel, frame)) = self.steering.from()[ring].pop() else {
                    break;
                };
                if let Some(other) = of.replace(tunnel)
                    && other != tunnel
                {
                    self.outbound(other.into(), now);
                }
                self.received.push(frame);
                frames += 1;
            }
            if let Some(tunnel) = of {
                self.outbound(tunnel.into(), now);
            }
        }
        frames
    }

    /// What was received of one tunnel: through the outbound path and out. Returns how many bytes it had.
    #[inline]
    fn outbound(&mut self, tunnel: usize, now: Now) -> u64 {
        let at_most = self.at_most(tunnel);
        let mut outgoing = Outgoing {
            nic: &mut self.nic,
            records: &mut self.records,
            tunnel: tunnel as u8,
            back: &mut self.tunnels[tunnel],
            answers: &mut self.out.tunnels[tunnel],
            at_most,
            steering: &self.steering,
            counters: &self.counters,
        };
        let (context, received) = (&mut self.context, &mut self.received);
        let bytes = self
            .outbound
            .process(context, tunnel as u8, received, now, &mut outgoing);
        outgoing.flush();
        bytes
    }

    /// How many frames of a tunnel may wait to be sent.
    #[inline]
    fn at_most(&self, tunnel: usize) -> usize {
        if self.context.tunnels[tunnel].spread && self.steering.count() > 1 {
            SPREAD_IDS as usize
        } else {
            MAX_BURST
        }
    }
}

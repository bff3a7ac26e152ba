//! The worker: the only loop. It polls its queues, takes what came through the path, and sends what comes out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrayvec::ArrayVec;
use nf_path::buf::Buf;
use nf_path::burst::{Frames, Now, Outputs};
use nf_path::counters::Counters;
use nf_path::inbound::classify::Listeners;
use nf_path::inbound::{Inbound, Tuning, Tunnel};
use nf_path::verdict::DropReason;
use nf_state::{Millis, TableError, Update};

use crate::imb::Key;
use crate::mailbox::{Mailbox, Message, Reply};
use crate::reassembly::IpFrag;
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
    /// Most frames in one poll of a port, 1 to 256.
    pub burst: usize,
    /// How long to sleep when no port had a frame; None: poll on.
    pub idle_sleep: Option<Duration>,
    /// Changes from the control side.
    pub mailbox: Mailbox,
    /// What this worker counts.
    pub counters: Arc<Counters>,
    /// TSC cycles in a millisecond.
    pub cycles_per_ms: u64,
}

/// How often reassembly is asked for what is too old, in milliseconds.
const EXPIRE_EVERY_MS: u64 = 100;

/// One worker. Neither it nor its path leaves the thread that made it.
pub struct Worker {
    nic: Queues,
    host: Option<Queues>,
    tunnels: Vec<Queues>,
    path: Inbound<Mbuf, Imb, IpFrag>,
    mailbox: Mailbox,
    counters: Arc<Counters>,
    received: Burst,
    out: Outputs<Mbuf>,
    burst: usize,
    idle_sleep: Option<Duration>,
    cycles_per_ms: u64,
    next_expiry: Millis,
}

impl Worker {
    /// A worker on the calling thread, with that thread's IPsec-MB manager and reassembly table.
    pub fn new(parts: Parts, imb: Imb, reassembly: IpFrag) -> Worker {
        let Parts {
            nic,
            host,
            tunnels,
            tables,
            listeners,
            tuning,
            burst,
            idle_sleep,
            mailbox,
            counters,
            ..
        } = parts;
        let path = Inbound::new(listeners, tables, tuning, imb, reassembly, counters.clone());
        Worker {
            out: Outputs::new(tunnels.len()),
            nic,
            host,
            tunnels,
            path,
            mailbox,
            counters,
            received: Burst::new(),
            burst,
            idle_sleep,
            cycles_per_ms: parts.cycles_per_ms,
            next_expiry: Millis(0),
        }
    }

    /// Polls until `stop` is set.
    pub fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.apply();
            let frames = self.poll();
            if let (0, Some(sleep)) = (frames, self.idle_sleep) {
                std::thread::sleep(sleep);
            }
        }
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
            self.path.expire_fragments(now);
        }
        inbound + self.poll_host() + self.poll_tunnels()
    }

    /// Sends what is for tunnel `index` to another queue from now on, and gives the former one back. Panics when there
    /// is no such tunnel.
    pub fn replace_tunnel_tx(&mut self, index: usize, tx: TxQueue) -> TxQueue {
        std::mem::replace(&mut self.tunnels[index].tx, tx)
    }

    /// Gives up every datagram that is still incomplete, as at the end of a capture.
    pub fn give_up_fragments(&mut self) {
        let end = cycles() + self.cycles_per_ms * (crate::reassembly::TIMEOUT_MS + 1);
        self.path.expire_fragments(self.now(end));
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
        self.path.process(&mut self.received, now, &mut self.out);
        for (queues, frames) in self.tunnels.iter_mut().zip(&mut self.out.tunnels) {
            let (sent, bytes) = send(queues, frames, c, DropReason::TunnelMtu, DropReason::TunnelFull);
            c.tunnel_tx.add(sent as u64);
            c.tunnel_tx_bytes.add(bytes as u64);
        }
        if !self.out.host.is_empty() {
            match &mut self.host {
                Some(queues) => {
                    let (sent, _) = send(
                        queues,
                        &mut self.out.host,
                        c,
                        DropReason::HostMtu,
                        DropReason::HostFull,
                    );
                    c.host_tx.add(sent as u64);
                }
                None => discard(&mut self.out.host, c, DropReason::HostFull),
            }
        }
        c.busy_cycles.add(cycles() - start);
    }

    /// Frames from the host port leave at the NIC, unchanged.
    fn poll_host(&mut self) -> usize {
        let Some(host) = &mut self.host else { return 0 };
        let frames = host.rx.recv(&mut self.received, self.burst);
        if frames > 0 {
            self.counters.host_rx.add(frames as u64);
            let (too_long, full) = (DropReason::NicMtu, DropReason::NicFull);
            let (sent, _) = send(&mut self.nic, &mut self.received, &self.counters, too_long, full);
            self.counters.nic_tx.add(sent as u64);
        }
        frames
    }

    /// Frames from the tunnel ports have nowhere to go as long as there is no outbound path.
    fn poll_tunnels(&mut self) -> usize {
        let mut frames = 0;
        for tunnel in &mut self.tunnels {
            frames += tunnel.rx.recv(&mut self.received, self.burst);
            self.counters.tunnel_rx.add(self.received.len() as u64);
            discard(&mut self.received, &self.counters, DropReason::NoOutbound);
        }
        frames
    }

    /// Applies what the control side sent. Between bursts, so no packet is in mid-batch.
    pub fn apply(&mut self) {
        while let Some(message) = self.mailbox.next() {
            match message {
                Message::Tune(tuning) => self.path.tune(tuning),
                Message::Table(tunnel, update) => self.update(usize::from(tunnel), update),
            }
        }
    }

    fn update(&mut self, tunnel: usize, update: Update<Key>) {
        let removed = match &update {
            Update::RemovePeer(id) => Some(*id),
            _ => None,
        };
        let Some(tunnel) = self.path.tunnels_mut().get_mut(tunnel) else {
            let rejected = nf_state::Rejected {
                reason: TableError::NotForTable,
                update,
            };
            return self.mailbox.reply(Reply::Rejected(rejected));
        };
        match tunnel.peers.apply(update) {
            Ok(retired) => {
                if let (Some(id), Some(sources)) = (removed, &mut tunnel.sources) {
                    sources.remove_peer(id);
                }
                if let Some(retired) = retired {
                    self.mailbox.reply(Reply::Retired(retired));
                }
            }
            Err(rejected) => self.mailbox.reply(Reply::Rejected(rejected)),
        }
    }
}

/// Offers `frames` to the port once. What is too long for it or what it does not take is counted and freed. Returns
/// how many frames it took, and how many bytes they had.
#[inline]
fn send(
    queues: &mut Queues,
    frames: &mut Frames<Mbuf>,
    counters: &Counters,
    too_long: DropReason,
    full: DropReason,
) -> (usize, usize) {
    let sum = |frames: &Frames<Mbuf>| {
        frames.iter().fold((0, 0), |(bytes, longest), f| {
            (bytes + f.packet_len(), f.packet_len().max(longest))
        })
    };
    let (mut bytes, longest) = sum(frames);
    if longest > queues.longest {
        let before = frames.len();
        frames.retain(|f| f.packet_len() <= queues.longest);
        counters.count(too_long, (before - frames.len()) as u64);
        bytes = sum(frames).0;
    }
    let sent = queues.tx.send(frames);
    if !frames.is_empty() {
        bytes -= sum(frames).0;
        discard(frames, counters, full);
    }
    (sent, bytes)
}

/// Counts and frees what is left of a burst.
#[inline]
fn discard<const N: usize>(frames: &mut ArrayVec<Mbuf, N>, counters: &Counters, reason: DropReason) {
    if !frames.is_empty() {
        counters.count(reason, frames.len() as u64);
        crate::burst::free(frames);
    }
}

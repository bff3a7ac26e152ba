//! The worker and the rings around it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use lcore::buffers::Pools;
use lcore::imb::Key;
use lcore::mailbox::{Message, Sender, mailbox};
use lcore::reassembly::IpFrag;
use lcore::steering::Steering;
use lcore::worker::{Parts, Queues, Worker};
use lcore::{Eal, Imb, Mbuf, Mempool, PortConfig, RingPort};
use nf_path::counters::Counters;
use nf_path::outbound::Nic;
use nf_path::tunnel::Tunnel;
use nf_path::verdict::DropReason;

use super::{HOST_MTU, LARGE_ROOM, LISTEN, NIC, buffer, bytes, listeners, put, taken, tuning, tunnel};

/// How a rig is made.
#[derive(Clone, Copy)]
pub struct Options {
    /// Names its rings; no two rigs of a process may have the same.
    pub name: &'static str,
    /// Places in the tunnel port's ring.
    pub tunnel: u32,
    /// Places in the host port's ring; None: no host port.
    pub host: Option<u32>,
    /// Places in the ring that the NIC sends to.
    pub nic: u32,
    /// Longest frame of the tunnel port.
    pub longest_tunnel: usize,
    /// Longest frame of the host port.
    pub longest_host: usize,
    /// Longest frame that the NIC port takes.
    pub longest_nic: usize,
    /// Longest IP packet that leaves at the NIC in one piece.
    pub nic_mtu: u16,
    /// The listening addresses.
    pub listen: &'static [&'static str],
    /// Whether records are batched.
    pub batch: bool,
    /// Most frames in one poll.
    pub burst: usize,
    /// Ordinary buffers.
    pub small: u32,
    /// Large buffers.
    pub large: u32,
}

impl Options {
    /// Room for everything.
    pub const fn new(name: &'static str) -> Options {
        Options {
            name,
            tunnel: 1023,
            host: Some(1023),
            nic: 1023,
            longest_tunnel: usize::MAX,
            longest_host: usize::MAX,
            longest_nic: usize::MAX,
            nic_mtu: 9000,
            listen: &LISTEN,
            batch: true,
            burst: 256,
            small: 4095,
            large: 127,
        }
    }
}

/// The rings that a worker receives from and sends to, and what else of it the test has.
pub struct Ends {
    /// What it counts.
    pub counters: Arc<Counters>,
    /// The other end of its mailbox.
    pub control: Sender,
    /// What the NIC receives.
    pub nic_in: RingPort,
    /// What the NIC sent.
    pub nic_out: RingPort,
    /// What the tunnel port receives.
    pub tunnel_in: RingPort,
    /// What the tunnel port sent.
    pub tunnel_out: RingPort,
    /// What the host port receives.
    pub host_in: RingPort,
    /// What the host port sent.
    pub host_out: RingPort,
    /// Ordinary buffers.
    pub small: Arc<Mempool>,
    /// Large buffers.
    pub large: Arc<Mempool>,
}

/// What a worker is made of, and its ends: both may move to the thread that it is to run on.
pub fn parts(eal: &Eal, o: Options, steering: Steering, table: Tunnel<Key>) -> (Parts, Ends) {
    let pool = |what: &str, count, room| {
        Mempool::new(eal, &format!("{}_{what}", o.name), count, 0, room, -1).expect("a pool fits into 256 MB")
    };
    let (small, large) = (pool("small", o.small, 2176), pool("large", o.large, LARGE_ROOM));
    let ring = |what: &str, places| {
        let ring = RingPort::new(eal, &format!("{}_{what}", o.name), places).expect("a ring");
        ring.port()
            .start(&PortConfig::default(), &small)
            .expect("it starts");
        ring
    };
    let (nic_in, nic_out) = (ring("ni", 4095), ring("no", o.nic));
    let (tunnel_in, tunnel_out) = (ring("ti", 4095), ring("to", o.tunnel));
    let (host_in, host_out) = (ring("hi", 1023), ring("ho", o.host.unwrap_or(1)));
    let queues = |from: &RingPort, to: &RingPort, longest| Queues {
        rx: from.port().rx_queue(0).expect("queue 0"),
        tx: to.port().tx_queue(0).expect("queue 0"),
        longest,
    };
    let counters = Arc::new(Counters::default());
    let (control, mailbox) = mailbox();
    let parts = Parts {
        nic: queues(&nic_in, &nic_out, o.longest_nic),
        outer: Nic {
            mac: NIC,
            mtu: o.nic_mtu,
            checksums: false,
        },
        host: o.host.map(|_| queues(&host_in, &host_out, o.longest_host)),
        tunnels: vec![queues(&tunnel_in, &tunnel_out, o.longest_tunnel)],
        tables: vec![table],
        listeners: listeners(o.listen),
        tuning: tuning(o.batch),
        last_heard: false,
        burst: o.burst,
        idle_sleep: None,
        mailbox,
        steering,
        pools: Pools::new(small.clone(), large.clone()),
        counters: counters.clone(),
        cycles_per_ms: eal.tsc_hz() / 1000,
    };
    let ends = Ends {
        counters,
        control,
        nic_in,
        nic_out,
        tunnel_in,
        tunnel_out,
        host_in,
        host_out,
        small,
        large,
    };
    (parts, ends)
}

/// A worker on the calling thread. Each of its ports receives from one ring and sends to another.
pub struct Rig {
    /// The worker.
    pub worker: Worker,
    /// Its rings, and what else of it the test has.
    pub ends: Ends,
}

impl Deref for Rig {
    type Target = Ends;

    fn deref(&self) -> &Ends {
        &self.ends
    }
}

impl DerefMut for Rig {
    fn deref_mut(&mut self) -> &mut Ends {
        &mut self.ends
    }
}

impl Rig {
    /// Makes pools, rings and the only worker.
    pub fn new(eal: &Eal, o: Options) -> Rig {
        let imb = Imb::new().expect("this CPU has AES-NI");
        let steering = Steering::mesh(1).pop().expect("one worker");
        Rig::with(eal, parts(eal, o, steering, tunnel(&imb)))
    }

    /// The worker of these parts, on the calling thread.
    pub fn with(eal: &Eal, (parts, ends): (Parts, Ends)) -> Rig {
        let fragments = IpFrag::new(eal, ends.large.clone(), ends.small.clone(), HOST_MTU).expect("a table");
        let worker = Worker::new(parts, Imb::new().expect("this CPU has AES-NI"), fragments);
        Rig { worker, ends }
    }

    /// Puts buffers in at the NIC.
    pub fn put(&mut self, buffers: impl IntoIterator<Item = Mbuf>) {
        put(&mut self.nic_in, buffers);
    }

    /// Puts copies of frames in at the NIC, and polls until the worker has taken all.
    pub fn push<F: AsRef<[u8]>>(&mut self, frames: impl IntoIterator<Item = F>) {
        let small = self.small.clone();
        self.put(frames.into_iter().map(|frame| buffer(&small, frame.as_ref())));
        self.poll();
    }

    /// Puts copies of frames in at the tunnel port, and polls until the worker has taken all.
    pub fn push_tunnel<F: AsRef<[u8]>>(&mut self, frames: impl IntoIterator<Item = F>) {
        let small = self.small.clone();
        let frames = frames.into_iter().map(|frame| buffer(&small, frame.as_ref()));
        put(&mut self.tunnel_in, frames);
        self.poll();
    }

    /// What the NIC port sent since the last call.
    pub fn nic(&mut self) -> Vec<Vec<u8>> {
        taken(&mut self.nic_out).iter().map(bytes).collect()
    }

    /// Sends a message to the worker, which applies it.
    pub fn tell(&mut self, message: Message) {
        self.control.send(message).expect("room in the mailbox");
        self.worker.apply();
    }

    /// Polls until no port has a frame.
    pub fn poll(&mut self) {
        while self.worker.poll() > 0 {}
    }

    /// What the tunnel port sent since the last call.
    pub fn tunnel(&mut self) -> Vec<Vec<u8>> {
        taken(&mut self.tunnel_out).iter().map(bytes).collect()
    }

    /// What the host port sent since the last call.
    pub fn host(&mut self) -> Vec<Vec<u8>> {
        taken(&mut self.host_out).iter().map(bytes).collect()
    }

    /// The drops that were counted.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        self.counters.totals().nonzero_drops().collect()
    }

    /// Ends the worker; both pools must be as full as at the start.
    pub fn finish(self) {
        let pools = [self.small.clone(), self.large.clone()];
        drop(self);
        all_back(&pools);
    }
}

/// Pools must be as full as at the start.
pub fn all_back(pools: &[Arc<Mempool>]) {
    for pool in pools {
        assert_eq!(
            pool.available(),
            pool.capacity(),
            "{}: as full as at the start",
            pool.name()
        );
    }
}

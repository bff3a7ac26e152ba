//! A bed for the outbound path. It checks its books when it goes: every frame that went in has one end, and no buffer is
//! left.

use crate::peers::*;
use nf_path::buf::{Buf, Layout};
use nf_path::buffers::Buffers;
use nf_path::burst::{Frames, Now};
use nf_path::context::Context;
use nf_path::counters::{Counters, Totals};
use nf_path::outbound::{Lcores, Nic, Outbound, Sink};
use nf_path::tunnel::{Mode, MssClamp, Tunnel};
use nf_path::twin::{HEADROOM, HeapBuf, SoftAead, SoftKey};
use nf_path::verdict::DropReason;
use nf_state::{Lookahead, Millis, Peer};
use nf_wire::ether;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// How many buffers are free.
#[derive(Clone)]
pub struct Pool {
    /// Of 2 KB.
    pub small: Rc<Cell<usize>>,
    /// Of 9 KB.
    pub large: Rc<Cell<usize>>,
}

impl Default for Pool {
    fn default() -> Self {
        let many = || Rc::new(Cell::new(usize::MAX));
        Pool {
            small: many(),
            large: many(),
        }
    }
}

fn take(free: &Cell<usize>) -> Option<()> {
    free.set(free.get().checked_sub(1)?);
    Some(())
}

impl Buffers<HeapBuf> for Pool {
    fn small(&mut self) -> Option<HeapBuf> {
        take(&self.small).map(|()| HeapBuf::new(&[]))
    }

    fn linearise(&mut self, scattered: HeapBuf) -> Result<HeapBuf, HeapBuf> {
        const LARGE: usize = 9216;
        if scattered.packet_len() > LARGE || take(&self.large).is_none() {
            return Err(scattered);
        }
        Ok(HeapBuf::sized(&scattered.to_vec(), HEADROOM, HEADROOM + LARGE))
    }
}

/// How a bed is made.
#[derive(Clone, Copy)]
pub struct Setup {
    pub lcores: Lcores,
    pub lookahead: Lookahead,
    pub mtu: u16,
    pub checksums: bool,
    pub mode: Mode,
    pub spread: bool,
    pub mss: Option<MssClamp>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            lcores: Lcores { me: 0, count: 1 },
            lookahead: Lookahead::default(),
            mtu: 9000,
            checksums: false,
            mode: Mode::Mp,
            spread: false,
            mss: None,
        }
    }
}

/// A frame that left, and what was said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    pub frame: Vec<u8>,
    pub layout: Option<Layout>,
    pub offloaded: bool,
}

impl From<HeapBuf> for Got {
    fn from(buf: HeapBuf) -> Self {
        Got {
            frame: buf.to_vec(),
            layout: buf.layout(),
            offloaded: buf.is_offloaded(),
        }
    }
}

/// What left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub nic: Vec<Got>,
    pub tunnel: Vec<Got>,
    pub steered: Vec<(u8, Vec<u8>)>,
}

impl Sink<HeapBuf> for Sent {
    fn nic(&mut self, frame: HeapBuf) {
        assert_eq!(frame.segments(), 1);
        self.nic.push(frame.into());
    }

    fn tunnel(&mut self, frame: HeapBuf) {
        self.tunnel.push(frame.into());
    }

    fn steer(&mut self, lcore: u8, frame: HeapBuf) {
        self.steered.push((lcore, frame.to_vec()));
    }
}

/// Where the record begins in a frame that goes to a peer.
pub fn record_at(frame: &[u8]) -> usize {
    let (ether_type, l3, _) = ether::layer3(frame).unwrap();
    l3 + 8 + if ether_type == ether::IPV4 { 20 } else { 40 }
}

/// The packet id of the record in a frame.
pub fn id_of(frame: &[u8]) -> u32 {
    let id = &frame[record_at(frame) + 4..][..4];
    u32::from_be_bytes(id.try_into().unwrap())
}

/// The path under test with its books.
pub struct Bed {
    outbound: Option<Outbound<HeapBuf, Pool>>,
    pub context: Context<SoftAead>,
    pub pool: Pool,
    now: Now,
    live: usize,
    frames: u64,
    fresh: u64,
}

impl Default for Bed {
    fn default() -> Self {
        Bed::new(Setup::default())
    }
}

impl Bed {
    pub fn new(setup: Setup) -> Self {
        let live = HeapBuf::live();
        let mut tunnel = Tunnel::new(INTERFACE);
        tunnel.peers = table(true);
        for peer in 1..=PEERS {
            tunnel
                .routes
                .insert(std::net::IpAddr::from(address(peer)).into(), peer)
                .unwrap();
        }
        (tunnel.mode, tunnel.spread, tunnel.mss) = (setup.mode, setup.spread, setup.mss);
        let (counters, pool) = (Arc::new(Counters::default()), Pool::default());
        let nic = Nic {
            mac: NIC,
            mtu: setup.mtu,
            checksums: setup.checksums,
        };
        let outbound = Outbound::new(nic, setup.lcores, setup.lookahead, pool.clone(), counters.clone());
        Bed {
            outbound: Some(outbound),
            context: Context::new(vec![tunnel], SoftAead::new(), counters),
            pool,
            now: Now::default(),
            live,
            frames: 0,
            fresh: 0,
        }
    }

    /// A bed in P2P mode in which `peer` is the one peer.
    pub fn p2p(setup: Setup, peer: u32) -> Self {
        let mut bed = Bed::new(Setup {
            mode: Mode::P2p,
            ..setup
        });
        let mut all = table(true);
        for id in all
            .iter()
            .map(|p| p.id)
            .filter(|id| *id != peer)
            .collect::<Vec<_>>()
        {
            all.remove(id);
        }
        bed.tunnel().peers = all;
        bed
    }

    pub fn outbound(&mut self) -> &mut Outbound<HeapBuf, Pool> {
        self.outbound.as_mut().expect("there until the bed goes")
    }

    pub fn tunnel(&mut self) -> &mut Tunnel<SoftKey> {
        &mut self.context.tunnels[0]
    }

    /// Sets the clock, in milliseconds.
    pub fn at(&mut self, millis: u64) -> &mut Self {
        self.now.millis = Millis(millis);
        self
    }

    /// One burst through the path.
    pub fn push(&mut self, frames: impl IntoIterator<Item = HeapBuf>) -> Sent {
        let mut sent = Sent::default();
        self.push_into(frames, &mut sent);
        sent
    }

    pub fn push_into<S: Sink<HeapBuf>>(&mut self, frames: impl IntoIterator<Item = HeapBuf>, sink: &mut S) {
        self.push_frames(&mut frames.into_iter().collect(), sink);
    }

    pub fn push_frames<S: Sink<HeapBuf>>(&mut self, rx: &mut Frames<HeapBuf>, sink: &mut S) {
        self.frames += rx.len() as u64;
        let outbound = self.outbound.as_mut().expect("there until the bed goes");
        outbound.process(&mut self.context, 0, rx, self.now, sink);
        assert!(rx.is_empty(), "the path takes all frames");
    }

    /// A keepalive.
    pub fn ping(&mut self, peer: u32) -> Sent {
        let mut sent = Sent::default();
        let outbound = self.outbound.as_mut().expect("there until the bed goes");
        outbound.ping(&mut self.context, 0, peer, self.now, &mut sent);
        self.frames += u64::from(self.context.tunnels[0].peers.get(peer).is_some());
        sent
    }

    /// `more` packets came of what went in: the segments of super-frames but the first of each.
    pub fn made(&mut self, more: u64) {
        self.fresh += more;
    }

    pub fn totals(&self) -> Totals {
        self.context.counters.totals()
    }

    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        self.totals().nonzero_drops().collect()
    }

    pub fn peer(&mut self, id: u32) -> &mut Peer<SoftKey> {
        self.tunnel().peers.get_mut(id).expect("a peer of the bed")
    }

    /// Link packets and bytes, VPN packets and bytes, keepalives, last sent, of a peer.
    pub fn peer_counters(&mut self, id: u32) -> [u64; 6] {
        let c = &self.peer(id).counters;
        [
            &c.link_tx_packets,
            &c.link_tx_bytes,
            &c.vpn_tx_packets,
            &c.vpn_tx_bytes,
            &c.keepalives_tx,
            &c.last_sent_ms,
        ]
        .map(|counter| counter.get())
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let t = self.totals();
        let after: u64 = [DropReason::Unfragmentable].map(|r| t.dropped(r)).iter().sum();
        let dropped = t.drops.iter().sum::<u64>() - after;
        let ends = t.sealed + t.steered + t.kernel_noise + t.neighbour_replies + dropped;
        assert_eq!(self.frames + self.fresh, ends, "every frame has one end: {t:?}");
        self.outbound = None;
        assert_eq!(HeapBuf::live(), self.live, "buffers that live on");
    }
}

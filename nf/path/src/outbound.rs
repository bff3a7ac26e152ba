//! From the tunnel port to the NIC. The stages, in order:
//!
//! 1. [`parse`]: an inner IP packet whose lengths are true
//! 2. [`route`]: the destination MAC address names the peer; frames of other lcores' peers are steered
//!    (what the kernel asks is answered: [`answer`]; what it left undone is done: [`finish`])
//! 3. `work`: consecutive packets to one peer are a run
//! 4. [`prepare`]: counters, primary key, endpoint and outer headers, once for each run; room for them in each buffer
//! 5. [`reserve`]: packet ids, once for each run
//! 6. [`seal`]: MSS clamp and AEAD, in place, with lookahead over the burst
//! 7. [`encap`]: outer headers and checksums
//! 8. [`emit`]: to the NIC port, in fragments where the packet is too long ([`fragment`])
//!
//! Stages 1 to 3 are done for the whole burst, then stage 4, then stages 5 to 8.

pub mod answer;
pub mod emit;
pub mod encap;
pub mod finish;
pub mod fragment;
pub mod parse;
pub mod prepare;
pub mod reserve;
pub mod route;
pub mod seal;
mod sort;
mod work;

use crate::aead::Aead;
use crate::buf::Buf;
use crate::buffers::Buffers;
use crate::burst::{Frames, MAX_BURST, Now};
use crate::context::Context;
use crate::counters::Counters;
use crate::inbound::Tuning;
use crate::verdict::DropReason;
use nf_state::Lookahead;
use nf_wire::ether::Mac;
use nf_wire::keepalive::PING;
use std::sync::Arc;
use work::{Runs, Work};

pub use route::owner;

/// The most segments that one super-frame is cut into: 64 KB in steps of 64 bytes.
pub const MAX_SEGMENTS: usize = 1024;

/// The NIC port, as far as sending goes.
#[derive(Clone, Copy, Debug)]
pub struct Nic {
    /// Its MAC address, which is the source of every frame.
    pub mac: Mac,
    /// The longest IP packet that it sends, in bytes.
    pub mtu: u16,
    /// Whether it computes IPv4 header and UDP checksums on request (`RTE_ETH_TX_OFFLOAD_IPV4_CKSUM` and
    /// `RTE_ETH_TX_OFFLOAD_UDP_CKSUM`).
    pub checksums: bool,
}

/// Which of the lcores this is.
#[derive(Clone, Copy, Debug)]
pub struct Lcores {
    /// Its number, from 0.
    pub me: u8,
    /// How many there are.
    pub count: u8,
}

/// Where the frames of the outbound path go. The worker collects them, sends them in bursts and counts what ports and
/// rings did not take.
pub trait Sink<B> {
    /// To the NIC port.
    fn nic(&mut self, frame: B);
    /// Back to the tunnel port that the burst came from.
    fn tunnel(&mut self, frame: B);
    /// To the lcore that seals for the frame's peer, as it came.
    fn steer(&mut self, lcore: u8, frame: B);
}

/// The outbound path of one lcore.
pub struct Outbound<B: Buf, P> {
    nic: Nic,
    lcores: Lcores,
    lookahead: Lookahead,
    buffers: P,
    counters: Arc<Counters>,
    /// Inner packets, run after run.
    slots: Box<[Option<B>; MAX_BURST]>,
    /// Segments of a super-frame, empty between frames. Never grows.
    segments: Vec<B>,
    /// The id of the last outer packet: its lower half for IPv4, whole for fragments of IPv6.
    ip_id: u32,
}

impl<B: Buf, P: Buffers<B>> Outbound<B, P> {
    /// The path. `counters` are the context's.
    pub fn new(nic: Nic, lcores: Lcores, lookahead: Lookahead, buffers: P, counters: Arc<Counters>) -> Self {
        Outbound {
            nic,
            lcores,
            lookahead,
            buffers,
            counters,
            slots: Box::new([const { None }; MAX_BURST]),
            segments: Vec::with_capacity(MAX_SEGMENTS),
            // Apart from one lcore to the next, since a peer may get packets from all.
            ip_id: u32::from(lcores.me).wrapping_mul(0x1000_1000),
        }
    }

    /// Takes all frames of `rx`, which come from the port of this tunnel (an index into [`Context::tunnels`]) or were
    /// steered here, through the path. When it returns, `rx` is empty and every frame was given to `sink` or was freed
    /// and counted. Returns the bytes of the frames that came, which are not counted here ([`Counters::tunnel_rx_bytes`]):
    /// steered ones were counted where they came from.
    pub fn process<A: Aead, S: Sink<B>>(
        &mut self,
        cx: &mut Context<A>,
        tunnel: u8,
        rx: &mut Frames<B>,
        now: Now,
        sink: &mut S,
    ) -> u64 {
        let tunnel = &cx.tunnels[usize::from(tunnel)];
        let mut runs = Runs::new_const();
        let mut work = Work::new(self, tunnel, &mut cx.aead, now, sink, &mut runs);
        work.sort(rx);
        work.flush();
        work.count();
        work.tally.bytes
    }

    /// Sends a keepalive to a peer through the same stages; nothing when there is no such peer. It is sealed here,
    /// whichever lcore's the peer is.
    pub fn ping<A: Aead, S: Sink<B>>(
        &mut self,
        cx: &mut Context<A>,
        tunnel: u8,
        peer: u32,
        now: Now,
        sink: &mut S,
    ) {
        let tunnel = &cx.tunnels[usize::from(tunnel)];
        let Some(peer) = tunnel.peers.get(peer) else {
            return;
        };
        let ping = self
            .buffers
            .small()
            .and_then(|mut buf| buf.append(&PING).then_some(buf));
        let Some(ping) = ping else {
            self.counters.count(DropReason::NoBuffer, 1);
            return;
        };
        let mut runs = Runs::new_const();
        let mut work = Work::new(self, tunnel, &mut cx.aead, now, sink, &mut runs);
        work.ping(peer, ping);
        work.flush();
        work.count();
    }

    /// Changes the lookahead. Between bursts only.
    pub fn tune(&mut self, tuning: Tuning) {
        self.lookahead = tuning.lookahead;
    }
}

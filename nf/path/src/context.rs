//! What both directions of one lcore share.

use crate::aead::Aead;
use crate::counters::Counters;
use crate::tunnel::Tunnel;
use arrayvec::ArrayVec;
use nf_state::Event;
use std::sync::Arc;

/// How many events may wait until the worker passes them on, which it does after every burst.
pub const MAX_EVENTS: usize = 64;

/// What both directions of one lcore share. It belongs to that lcore alone and is changed between bursts.
pub struct Context<A: Aead> {
    /// The tunnels, in the order in which listeners and outputs name them.
    pub tunnels: Vec<Tunnel<A::Key>>,
    /// The AEAD.
    pub aead: A,
    /// What this lcore counts.
    pub counters: Arc<Counters>,
    /// What the control side is to be told, with the index of the tunnel. The worker empties it.
    pub events: ArrayVec<(u8, Event), MAX_EVENTS>,
    /// Whether a peer is answered the way it was last heard, on layer 2, instead of by the kernel's tables.
    pub last_heard: bool,
}

impl<A: Aead> Context<A> {
    /// A context with these tunnels, in which layer 2 is the kernel's business.
    pub fn new(tunnels: Vec<Tunnel<A::Key>>, aead: A, counters: Arc<Counters>) -> Self {
        Context {
            tunnels,
            aead,
            counters,
            events: ArrayVec::new(),
            last_heard: false,
        }
    }
}

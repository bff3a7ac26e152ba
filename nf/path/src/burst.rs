//! Bursts: the frames that one poll of a port gave, and what becomes of them.

use arrayvec::ArrayVec;
use nf_state::Millis;

/// The most frames in one burst.
pub const MAX_BURST: usize = 256;
/// The most tunnels that one lcore serves.
pub const MAX_TUNNELS: usize = 16;

/// The frames of one burst, owned. Those left in it when it goes are freed.
pub type Frames<B> = ArrayVec<B, MAX_BURST>;

/// When a burst was received.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// Monotonic milliseconds, for the replay window and last-heard times.
    pub millis: Millis,
    /// Time-stamp counter, for reassembly.
    pub cycles: u64,
}

/// Where the frames of one burst go. The caller sends them and counts what the ports did not take.
#[derive(Debug)]
pub struct Outputs<B> {
    /// For each tunnel port, in the order of the tunnels: inner packets with an Ethernet header in front.
    pub tunnels: ArrayVec<Frames<B>, MAX_TUNNELS>,
    /// For the host port: what is not ours, unchanged.
    pub host: Frames<B>,
}

impl<B> Outputs<B> {
    /// Empty outputs for `tunnels` tunnel ports.
    pub fn new(tunnels: usize) -> Self {
        Outputs {
            tunnels: (0..tunnels).map(|_| Frames::new()).collect(),
            host: Frames::new(),
        }
    }
}

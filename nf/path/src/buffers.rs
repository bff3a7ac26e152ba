//! Where new buffers come from.

/// Buffers for packets that the path makes itself: answers, segments, fragments, copies.
pub trait Buffers<B> {
    /// An empty buffer with headroom and room for an ordinary packet (2 KB). None when none is free.
    fn small(&mut self) -> Option<B>;

    /// Copies a packet, whatever its segments and whoever shares them, into one large buffer with headroom; gives it
    /// back when it does not fit or none is free.
    fn linearise(&mut self, scattered: B) -> Result<B, B>;
}

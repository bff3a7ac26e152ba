//! Packets in pieces: fragments of a datagram, and packets scattered over several segments.

use crate::burst::Now;
use nf_wire::frame::Fragment;

/// What became of a fragment that was handed to [`Fragments::reassemble`].
#[derive(Debug)]
pub enum Reassembly<B> {
    /// It waits for the others.
    Pending,
    /// It was the last one: the whole frame, in one segment.
    Whole(B),
    /// It completed a datagram of this many fragments that no large buffer could take.
    TooLarge(u32),
    /// Its datagram was given up with all that had come of it: this many fragments.
    Refused(u32),
}

/// Reassembly and linearisation, with buffers of the same kind.
pub trait Fragments<B> {
    /// Takes a fragment; `at` says where its parts are.
    fn reassemble(&mut self, fragment: B, at: &Fragment, now: Now) -> Reassembly<B>;

    /// Gives up datagrams that are older than the time limit: how many fragments were freed.
    fn expire(&mut self, now: Now) -> u32;

    /// Fragments a reassembled frame again, for the host port. `sink` is given each fragment; returns false when no
    /// buffer was free or the frame cannot be fragmented, in which case it is freed.
    fn refragment(&mut self, whole: B, sink: &mut dyn FnMut(B)) -> bool;

    /// Copies a scattered packet into one large buffer; gives it back when it does not fit or none is free.
    fn linearise(&mut self, scattered: B) -> Result<B, B>;
}

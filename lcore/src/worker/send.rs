//! Sending in bursts, where nothing is lost silently.

use arrayvec::ArrayVec;
use nf_path::buf::Buf;
use nf_path::burst::Frames;
use nf_path::counters::Counters;
use nf_path::outbound::Sink;
use nf_path::verdict::DropReason;

use super::Queues;
use crate::Mbuf;
use crate::steering::Steering;

/// Offers `frames` to the port once. What is too long for it or what it does not take is counted and freed. Returns
/// how many frames it took, and how many bytes they had.
#[inline]
pub(super) fn send(
    queues: &mut Queues,
    frames: &mut Frames<Mbuf>,
    counters: &Counters,
    too_long: DropReason,
    full: DropReason,
) -> (u64, u64) {
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
    (sent as u64, bytes as u64)
}

/// Counts and frees what is left of a burst.
#[inline]
pub(super) fn discard<const N: usize>(
    frames: &mut ArrayVec<Mbuf, N>,
    counters: &Counters,
    reason: DropReason,
) {
    if !frames.is_empty() {
        counters.count(reason, frames.len() as u64);
        crate::burst::free(frames);
    }
}

/// Takes what the outbound path gives away: collects frames and sends them in bursts.
pub(super) struct Outgoing<'w> {
    /// The NIC port.
    pub nic: &'w mut Queues,
    /// Frames for it.
    pub records: &'w mut Frames<Mbuf>,
    /// The tunnel port that the burst came from, by index.
    pub tunnel: u8,
    /// Its queues.
    pub back: &'w mut Queues,
    /// Answers for it.
    pub answers: &'w mut Frames<Mbuf>,
    /// Frames are sent at the latest when there are so many: few where several workers seal for one peer, so that what one
    /// has reserved ids for does not stay behind what others send.
    pub at_most: usize,
    /// The other workers.
    pub steering: &'w Steering,
    /// What the worker counts.
    pub counters: &'w Counters,
}

impl Outgoing<'_> {
    /// Sends what was collected.
    pub(super) fn flush(&mut self) {
        self.flush_records();
        self.flush_answers();
    }

    #[inline]
    fn flush_records(&mut self) {
        if !self.records.is_empty() {
            let (too_long, full) = (DropReason::NicMtu, DropReason::NicFull);
            let (sent, bytes) = send(self.nic, self.records, self.counters, too_long, full);
            self.counters.records_tx.add(sent);
            self.counters.records_tx_bytes.add(bytes);
        }
    }

    #[inline]
    fn flush_answers(&mut self) {
        if !self.answers.is_empty() {
            let (too_long, full) = (DropReason::TunnelMtu, DropReason::TunnelFull);
            send(self.back, self.answers, self.counters, too_long, full);
        }
    }
}

impl Sink<Mbuf> for Outgoing<'_> {
    #[inline]
    fn nic(&mut self, frame: Mbuf) {
        self.records.push(frame);
        if self.records.len() >= self.at_most {
            self.flush_records();
        }
    }

    fn tunnel(&mut self, frame: Mbuf) {
        if self.answers.is_full() {
            self.flush_answers();
        }
        self.answers.push(frame);
    }

    #[inline]
    fn steer(&mut self, lcore: u8, frame: Mbuf) {
        if self.steering.give(lcore, self.tunnel, frame).is_err() {
            self.counters.count(DropReason::SteerFull, 1);
        }
    }
}

//! Stages 1 to 3 over one burst: every frame is parsed, routed, and put where it belongs. Drops, beside those of its
//! stages: `scattered`, `oversize`, `no_buffer`.

use super::answer::{Answer, answer};
use super::finish::finish;
use super::parse::{self, Packet};
use super::route::To;
use super::work::Work;
use super::{MAX_SEGMENTS, Sink};
use crate::aead::Aead;
use crate::buf::{Buf, Unfinished};
use crate::buffers::Buffers;
use crate::burst::Frames;
use crate::verdict::DropReason;
use nf_state::Peer;
use nf_wire::ether;

/// How many frames ahead a buffer's first lines are asked for.
const AHEAD: usize = 12;

const FINISHED: Unfinished = Unfinished {
    checksum: false,
    segment: 0,
};

impl<'t, B: Buf, P: Buffers<B>, A: Aead, S: Sink<B>> Work<'_, 't, B, P, A, S> {
    /// Empties `rx`: packets to be sealed here are in runs.
    pub(super) fn sort(&mut self, rx: &mut Frames<B>) {
        rx.iter().take(AHEAD).for_each(B::prefetch);
        // So that they can be taken one by one from the end.
        rx.reverse();
        while let Some(buf) = rx.pop() {
            if let Some(later) = rx.len().checked_sub(AHEAD).and_then(|i| rx.get(i)) {
                later.prefetch();
            }
            self.tally.bytes += buf.packet_len() as u64;
            if buf.segments() == 1 && buf.is_private() && buf.unfinished() == FINISHED {
                self.frame(buf);
            } else {
                self.special(buf);
            }
        }
    }

    /// One finished frame in a buffer of its own.
    #[inline(always)]
    fn frame(&mut self, buf: B) {
        match parse::parse(buf.data()) {
            Ok(packet) if !packet.may_be_kernels => match self.router.route(buf.data()) {
                Ok(to) => self.place(to, buf, packet),
                Err(_) => self.other(buf),
            },
            _ => self.other(buf),
        }
    }

    #[inline(always)]
    fn place(&mut self, to: To<'t, A::Key>, mut buf: B, packet: Packet) {
        match to {
            To::Peer(peer) => {
                buf.narrow(ether::HEADER_LEN, packet.len);
                self.push(peer, buf, packet.len, 1);
            }
            To::Lcore(lcore) => self.steer(lcore, buf),
        }
    }

    fn steer(&mut self, lcore: u8, frame: B) {
        self.path.counters.steered.add(1);
        self.sink.steer(lcore, frame);
    }

    #[cold]
    fn refuse(&mut self, reason: DropReason) {
        self.path.counters.count(reason, 1);
    }

    /// What is not a plain packet to a peer: the kernel's questions, group addresses, frames that are no good.
    #[cold]
    #[inline(never)]
    fn other(&mut self, buf: B) {
        let parsed = parse::parse(buf.data());
        let routed = self.router.route(buf.data());
        let to_group = match routed {
            Err(reason @ (DropReason::Broadcast | DropReason::Multicast)) => Some(reason),
            _ => None,
        };
        let may_be_kernels = match parsed {
            Ok(packet) => packet.may_be_kernels || to_group.is_some(),
            Err(reason) => reason == DropReason::NotIpFrame,
        };
        if may_be_kernels && self.is_kernels(&buf) {
            return;
        }
        match (to_group, parsed, routed) {
            (Some(reason), ..) | (_, Err(reason), _) | (_, _, Err(reason)) => self.refuse(reason),
            (None, Ok(packet), Ok(to)) => self.place(to, buf, packet),
        }
    }

    /// Whether a frame is of the kernel's own neighbour discovery; then it is answered or counted, and done with.
    fn is_kernels(&mut self, buf: &B) -> bool {
        match answer(buf.data(), self.tunnel, &mut self.path.buffers) {
            Answer::Reply(reply) => {
                self.path.counters.neighbour_replies.add(1);
                self.sink.tunnel(reply);
            }
            Answer::Noise => self.path.counters.kernel_noise.add(1),
            Answer::Malformed => self.refuse(DropReason::TunnelLength),
            Answer::NoBuffer => self.refuse(DropReason::NoBuffer),
            Answer::NotNeighbour => return false,
        }
        true
    }

    /// A frame that its sender did not finish, that is in several segments, or that somebody else sees as well. It is
    /// steered as it is; else it is finished or copied into one buffer, and then like any other.
    #[cold]
    #[inline(never)]
    fn special(&mut self, buf: B) {
        match self.router.route(buf.data()) {
            Ok(To::Lcore(lcore)) => self.steer(lcore, buf),
            Ok(To::Peer(peer)) if buf.unfinished() != FINISHED => self.finish(peer, buf),
            // A copy might not say any more what is left undone.
            Err(reason) if buf.unfinished() != FINISHED => self.refuse(reason),
            _ if buf.segments() == 1 && buf.is_private() => self.frame(buf),
            _ => match self.path.buffers.linearise(buf) {
                Ok(buf) => self.frame(buf),
                Err(_) => self.refuse(DropReason::Scattered),
            },
        }
    }

    /// Does what the sender left undone. The segments of a TCP super-frame take its place.
    fn finish(&mut self, peer: &'t Peer<A::Key>, buf: B) {
        // Taken out, so that nothing is borrowed while they go on; nothing is allocated.
        let mut segments = core::mem::take(&mut self.path.segments);
        let mut over = 0;
        let done = finish(buf, &mut self.path.buffers, &self.path.counters, &mut |segment| {
            if segments.len() < MAX_SEGMENTS {
                segments.push(segment);
            } else {
                over += 1;
            }
        });
        if let Err(reason) = done {
            self.refuse(reason);
        }
        if over > 0 {
            self.path.counters.count(DropReason::Oversize, over);
        }
        let mut frames = 1;
        for mut segment in segments.drain(..) {
            match parse::parse(segment.data()) {
                Ok(packet) => {
                    segment.narrow(ether::HEADER_LEN, packet.len);
                    self.push(peer, segment, packet.len, frames);
                    frames = 0;
                }
                Err(reason) => self.refuse(reason),
            }
        }
        self.path.segments = segments;
    }
}

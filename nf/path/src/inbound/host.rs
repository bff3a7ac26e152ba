//! Frames for the host port: as they came, but for checksums that their sender left partial, for datagrams that were
//! reassembled, and for those that are translated (`daemon`). Drops: `host_full`, `host_mtu`, `scattered`.

use super::Inbound;
use super::classify::Class;
use crate::buf::{Buf, Verdict};
use crate::burst::Outputs;
use crate::fragments::Fragments;
use crate::verdict::DropReason;
use nf_wire::frame::Outer;
use nf_wire::{ether, inner, partial};

impl<B: Buf, F: Fragments<B>> Inbound<B, F> {
    /// Hands the frame in `slot` to the host port.
    pub(super) fn pass_to_host(&mut self, slot: usize, out: &mut Outputs<B>) {
        if let Some(buf) = self.slots[slot].take() {
            let buf = self.finished(buf);
            self.give_to_host(buf, out);
        }
    }

    /// Hands the frame in `slot`, a datagram for the daemon, to the host port.
    pub(super) fn pass_to_daemon(&mut self, slot: usize, outer: &Outer, out: &mut Outputs<B>) {
        self.counters.to_daemon.add(1);
        if self.translations.is_empty() {
            return self.pass_to_host(slot, out);
        }
        if let Some(buf) = self.slots[slot].take() {
            let buf = self.finished(buf);
            let buf = self.incoming(buf, outer);
            self.give_to_host(buf, out);
        }
    }

    fn give_to_host(&mut self, buf: B, out: &mut Outputs<B>) {
        if buf.packet_len() > self.host_longest {
            return self.cut(buf, out);
        }
        self.counters.to_host.add(1);
        if out.host.try_push(buf).is_err() {
            self.counters.count(DropReason::HostFull, 1);
        }
    }

    /// Completes a partial TCP or UDP checksum: a sender on the same machine left it to its interface, which handed the
    /// frame on as it was (veth does, without a mark), and the kernel would drop the frame. A frame that somebody else
    /// sees is copied for that. One that cannot be copied, or lies in several segments, stays as it is.
    fn finished(&mut self, buf: B) -> B {
        // A port that looks at checksums, and calls one wrong, saw the frame as it was on a wire.
        if buf.segments() != 1 || buf.rx_checksums().l4 == Verdict::Bad {
            return buf;
        }
        let Some((ether::IPV4 | ether::IPV6, l3, _)) = ether::layer3(buf.data()) else {
            return buf;
        };
        if partial::looks_partial(buf.data(), l3) {
            self.complete(buf, l3)
        } else {
            buf
        }
    }

    #[cold]
    fn complete(&mut self, buf: B, l3: usize) -> B {
        let mut buf = match self.own(buf) {
            Ok(buf) => buf,
            Err(shared) => return shared,
        };
        if partial::complete(buf.data_mut(), l3) {
            self.counters.checksums_completed.add(1);
        }
        buf
    }

    /// A reassembled datagram that is not for us leaves for the host port in fragments, as it came.
    pub(super) fn fragment_again(&mut self, mut whole: B, class: Class, out: &mut Outputs<B>) {
        if let Class::Daemon(outer) = class {
            self.counters.to_daemon.add(1);
            if !self.translations.is_empty() {
                whole = self.incoming(whole, &outer);
            }
        }
        if !self.fragments_of(whole, out) {
            self.counters.count(DropReason::Scattered, 1);
        }
    }

    /// A frame that is too long for the host port. No link brought it in one piece: a driver had the kernel reassemble
    /// it (net_af_packet does, for IPv4), whatever its DF says.
    #[cold]
    fn cut(&mut self, buf: B, out: &mut Outputs<B>) {
        let frame = buf.data();
        // What the driver itself has cut short is of no use.
        let whole_v4 = ether::layer3(frame)
            .is_some_and(|(kind, l3, _)| kind == ether::IPV4 && inner::version_and_len(&frame[l3..]).is_ok());
        if !whole_v4 || !self.fragments_of(buf, out) {
            self.counters.count(DropReason::HostMtu, 1);
        }
    }

    /// Hands a datagram to the host port in fragments. False when none was made of it.
    fn fragments_of(&mut self, whole: B, out: &mut Outputs<B>) -> bool {
        let (counters, host) = (&self.counters, &mut out.host);
        self.fragments.refragment(whole, &mut |fragment| {
            counters.to_host.add(1);
            if host.try_push(fragment).is_err() {
                counters.count(DropReason::HostFull, 1);
            }
        })
    }
}

//! Stages 1 to 3 over one burst: every frame is parsed, classified, and put where it belongs.

use super::batch::Facts;
use super::classify::{Class, classify, record};
use super::follow::Run;
use super::{Inbound, parse};
use crate::buf::Buf;
use crate::burst::{Frames, Now, Outputs};
use crate::fragments::{Fragments, Reassembly};
use crate::verdict::DropReason;
use nf_wire::frame::{Datagram, Fragment, Outer, Parsed};

/// How many frames ahead a buffer's first lines are asked for.
const AHEAD: usize = 12;

impl<B: Buf, F: Fragments<B>> Inbound<B, F> {
    /// Empties `rx`: records are left in their slots with their facts beside them, and in batches.
    pub(super) fn sort(&mut self, rx: &mut Frames<B>, now: Now, out: &mut Outputs<B>) {
        let frames = rx.len();
        rx.iter().take(AHEAD).for_each(B::prefetch);
        for (slot, buf) in self.slots.iter_mut().zip(rx.drain(..)) {
            *slot = Some(buf);
        }
        let (mut bytes, mut records) = (0, 0);
        let mut run = Run::default();
        for slot in 0..frames {
            if let Some(later) = self.slots[..frames].get(slot + AHEAD).and_then(Option::as_ref) {
                later.prefetch();
            }
            let Some(buf) = &self.slots[slot] else { continue };
            bytes += buf.packet_len() as u64;
            if buf.segments() != 1 {
                self.scattered(slot, now, out);
                continue;
            }
            // Records of a flow come in runs: most have the headers of the one before.
            if let Some(payload_len) = run.follows(buf)
                && self.builder.continues(run.number, payload_len)
            {
                self.builder.append(slot as u16, payload_len);
                records += 1;
                continue;
            }
            let plain = parse::plain(buf);
            match plain.as_ref().and_then(|udp| record(buf, udp, &self.listeners)) {
                Some(facts) if facts.joins => {
                    self.facts[slot] = facts;
                    records += 1;
                    let batches = self.builder.batches().len();
                    self.builder.add(slot as u16, &self.facts, &self.slots[..]);
                    if self.builder.batches().len() > batches {
                        run = Run::begin(buf, batches + 1);
                    }
                }
                _ => self.other(slot, plain, now, out),
            }
        }
        self.counters.records.add(records);
        self.counters.nic_rx.add(frames as u64);
        self.counters.nic_rx_bytes.add(bytes);
    }

    /// Any frame but the common record.
    #[inline(never)]
    fn other(&mut self, slot: usize, plain: Option<Datagram>, now: Now, out: &mut Outputs<B>) {
        let Some(buf) = &self.slots[slot] else { return };
        let parsed = plain.map_or_else(|| parse::parse(buf), Parsed::Udp);
        let class = classify(buf, parsed, &self.listeners);
        if matches!(class, Class::Record(_)) && !buf.is_private() {
            // It is opened in place, which whoever else holds the buffer would see.
            return self.scattered(slot, now, out);
        }
        self.place(slot, class, now, out);
    }

    /// Puts one classified frame where it belongs.
    fn place(&mut self, slot: usize, class: Class, now: Now, out: &mut Outputs<B>) {
        match class {
            Class::Record(facts) => {
                self.facts[slot] = facts;
                self.counters.records.add(1);
                self.builder.add(slot as u16, &self.facts, &self.slots[..]);
            }
            Class::Host => self.pass_to_host(slot, out),
            Class::Daemon(outer) => {
                self.builder.interrupt(&outer, &self.facts);
                self.pass_to_daemon(slot, &outer, out);
            }
            Class::Drop(reason, outer) => self.refuse(slot, reason, &outer),
            Class::Fragment(at) => self.fragment(slot, &at, now, out),
        }
    }

    #[cold]
    fn refuse(&mut self, slot: usize, reason: DropReason, outer: &Outer) {
        self.builder.interrupt(outer, &self.facts);
        self.counters.count(reason, 1);
        self.slots[slot] = None;
    }

    /// A packet in several segments, or one that somebody else sees: copied into one buffer, then judged like any
    /// other, but it joins no batch.
    #[cold]
    fn scattered(&mut self, slot: usize, now: Now, out: &mut Outputs<B>) {
        let Some(buf) = self.slots[slot].take() else {
            return;
        };
        let (buf, whole) = match self.fragments.linearise(buf) {
            Ok(buf) => (buf, true),
            Err(buf) => (buf, false),
        };
        let class = alone(classify(&buf, parse::parse(&buf), &self.listeners));
        self.slots[slot] = Some(buf);
        match class {
            Class::Record(Facts { outer, .. }) | Class::Fragment(Fragment { outer, .. }) if !whole => {
                self.refuse(slot, DropReason::Scattered, &outer);
            }
            class => self.place(slot, class, now, out),
        }
    }

    /// A fragment to a listening address. The whole datagram takes the place of its last fragment.
    #[cold]
    fn fragment(&mut self, slot: usize, at: &Fragment, now: Now, out: &mut Outputs<B>) {
        self.builder.interrupt_addresses(&at.outer, &self.facts);
        self.counters.fragments.add(1);
        let Some(buf) = self.slots[slot].take() else {
            return;
        };
        match self.fragments.reassemble(buf, at, now) {
            Reassembly::Pending => {}
            Reassembly::TooLarge(fragments) => {
                self.counters.count(DropReason::Scattered, u64::from(fragments))
            }
            Reassembly::Refused(fragments) => self
                .counters
                .count(DropReason::FragmentRefused, u64::from(fragments)),
            Reassembly::Whole(whole) => {
                self.counters.reassembled.add(1);
                let class = alone(classify(&whole, parse::parse(&whole), &self.listeners));
                match class {
                    Class::Record(_) | Class::Drop(..) => {
                        self.slots[slot] = Some(whole);
                        self.place(slot, class, now, out);
                    }
                    Class::Daemon(_) | Class::Host | Class::Fragment(_) => {
                        self.fragment_again(whole, class, out)
                    }
                }
            }
        }
    }
}

/// Marks a record as one that joins no batch.
fn alone(class: Class) -> Class {
    match class {
        Class::Record(facts) => Class::Record(Facts {
            joins: false,
            ..facts
        }),
        other => other,
    }
}

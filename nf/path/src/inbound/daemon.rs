//! The daemon's datagrams of peers that have floated without its knowing: translated on the way to the host port, and
//! on the way from there to the NIC ([`crate::translate`]). Drops: none; what cannot be translated goes on as it is.

use super::Inbound;
use super::float::Events;
use crate::buf::{Buf, Layout};
use crate::burst::Frames;
use crate::fragments::Fragments;
use crate::translate::{End, Translations, is_translatable, set_address, set_way};
use nf_wire::frame::{self, Datagram, Outer, Parsed};
use nf_wire::record::HeaderWord;
use nf_wire::{ipv4, ipv6, partial};

impl<B: Buf, F: Fragments<B>> Inbound<B, F> {
    /// Translates by another table from the next burst on, and gives the one that was in force before.
    pub fn translate(&mut self, mut table: Box<Translations>) -> Box<Translations> {
        core::mem::swap(&mut self.translations, &mut table);
        table
    }

    /// Translates what the kernel sends, on its way from the host port to the NIC: the rest stays as it is, and the order
    /// too. `frames` are as the host port gave them. What is to be translated is finished
    /// ([`Buf::unfinished`]) on the way, in one segment, and nobody else's.
    #[inline]
    pub fn translate_out(&mut self, frames: &mut Frames<B>) {
        if !self.translations.is_empty() {
            self.translate_all(frames);
        }
    }

    #[cold]
    fn translate_all(&mut self, frames: &mut Frames<B>) {
        for at in 0..frames.len() {
            let buf = &frames[at];
            match frame::parse(buf.data(), buf.packet_len()) {
                Parsed::Udp(udp) if self.translations.outgoing(&udp.outer).is_some() => {
                    let last = frames.len() - 1;
                    let buf = frames.swap_remove(at);
                    frames.push(self.outgoing(buf, &udp));
                    frames.swap(at, last);
                }
                Parsed::Fragment(f) if self.translations.may_be_outgoing(&f.outer) => {
                    self.counters.untranslated.add(1);
                }
                _ => {}
            }
        }
    }

    fn outgoing(&mut self, buf: B, udp: &Datagram) -> B {
        let mut buf = match self.own(buf) {
            Ok(buf) => buf,
            Err(buf) => return self.untranslated(buf),
        };
        if buf.unfinished().segment != 0 || !is_translatable(buf.data(), udp) {
            return self.untranslated(buf);
        }
        let l3 = usize::from(udp.l3);
        if buf.unfinished().checksum || partial::looks_partial(buf.data(), l3) {
            partial::complete(buf.data_mut(), l3);
            self.counters.checksums_completed.add(1);
            let l3_len = if udp.outer.is_v6() {
                ipv6::HEADER_LEN
            } else {
                ipv4::HEADER_LEN
            };
            buf.restate(Layout {
                l2_len: udp.l3 as u8,
                l3_len: l3_len as u16,
                packet_type: 0,
            });
        }
        let Some(translation) = self.translations.outgoing(&udp.outer) else {
            return buf;
        };
        if !set_address(buf.data_mut(), udp, End::Destination, translation.current) {
            return self.untranslated(buf);
        }
        if let Some(way) = &translation.way {
            set_way(buf.data_mut(), way);
        }
        self.counters.translated_tx.add(1);
        buf
    }

    /// A datagram for the daemon, from the source that it knows. Its checksum is not partial.
    #[cold]
    pub(super) fn incoming(&mut self, buf: B, outer: &Outer) -> B {
        let Parsed::Udp(udp) = frame::parse(buf.data(), buf.packet_len()) else {
            return buf;
        };
        let word = buf
            .data()
            .get(usize::from(udp.payload)..)
            .and_then(<[u8]>::first_chunk);
        let Some(word) = word else { return buf };
        let opcode = HeaderWord(u32::from_be_bytes(*word)).opcode();
        let told = &mut self.told;
        let known = self.translations.incoming(outer, opcode, |tunnel, event| {
            told.try_push((tunnel, event)).is_ok()
        });
        let Some(known) = known else { return buf };
        let mut buf = match self.own(buf) {
            Ok(buf) => buf,
            Err(buf) => return self.untranslated(buf),
        };
        let done = is_translatable(buf.data(), &udp) && set_address(buf.data_mut(), &udp, End::Source, known);
        if !done {
            return self.untranslated(buf);
        }
        self.counters.translated_rx.add(1);
        buf
    }

    fn untranslated(&mut self, buf: B) -> B {
        self.counters.untranslated.add(1);
        buf
    }

    /// The buffer, or a copy of it, in one segment that nobody else sees. Given back when no buffer is free for a copy.
    pub(super) fn own(&mut self, buf: B) -> Result<B, B> {
        if buf.segments() == 1 && buf.is_private() {
            return Ok(buf);
        }
        self.fragments.linearise(buf)
    }

    /// Passes on what the control side is to be told, as far as there is room.
    #[cold]
    pub(super) fn tell(&mut self, events: &mut Events) {
        let count = self.told.len().min(events.remaining_capacity());
        events.extend(self.told.drain(..count));
    }
}

//! Stage 2: whose frame is it? Drops: `ip_length`, `udp_length`, `ip_checksum`, `udp_checksum`, `too_short`,
//! `data_v1`.

use crate::buf::{Buf, Verdict};
use crate::inbound::batch::Facts;
use crate::verdict::DropReason;
use arrayvec::ArrayVec;
use core::net::SocketAddr;
use nf_wire::frame::{Datagram, Endpoint, Fragment, Lie, Outer, Parsed};
use nf_wire::record::{DATA_V1, DATA_V2, HeaderWord, WORD_LEN};
use nf_wire::{checksum, ipv4};

/// The most listening addresses of one lcore.
pub const MAX_LISTENERS: usize = 64;

/// The listening addresses and the tunnel (by index) that each belongs to.
#[derive(Clone, Debug, Default)]
pub struct Listeners(ArrayVec<(Endpoint, u8), MAX_LISTENERS>);

impl Listeners {
    /// Adds an address and port. False when there is no room.
    pub fn add(&mut self, address: SocketAddr, tunnel: u8) -> bool {
        self.0
            .try_push((Endpoint::new(address.ip(), address.port()), tunnel))
            .is_ok()
    }

    /// The tunnel that listens where this datagram goes.
    #[inline(always)]
    pub fn tunnel(&self, outer: &Outer) -> Option<u8> {
        let to = outer.endpoint();
        self.0.iter().find(|(e, _)| *e == to).map(|(_, t)| *t)
    }

    /// Whether any port of the destination address is listened on: all that a fragment tells.
    pub fn address(&self, outer: &Outer) -> bool {
        let to = outer.endpoint();
        self.0.iter().any(|(e, _)| e.same_address(&to))
    }
}

/// What is to become of a frame.
#[derive(Debug)]
pub enum Class {
    /// A DATA_V2 datagram to a listening address.
    Record(Facts),
    /// UDP to a listening address that is the daemon's: the host port's, and later records must not overtake it.
    Daemon(Outer),
    /// Not ours: the host port's.
    Host,
    /// A fragment to a listening address.
    Fragment(Fragment),
    /// Ours, and no good. Later records of the flow must not join earlier ones.
    Drop(DropReason, Outer),
}

/// The common case: a DATA_V2 datagram to a listening address whose checksums are right. None says nothing but "not
/// that": [`classify`] says what it is.
#[inline(always)]
pub fn record<B: Buf>(buf: &B, udp: &Datagram, listeners: &Listeners) -> Option<Facts> {
    let tunnel = listeners.tunnel(&udp.outer)?;
    let word = word(buf, udp)?;
    let ours = word.opcode() == DATA_V2 && checksums(buf, udp).is_ok();
    ours.then(|| Facts::new(buf, udp, word, tunnel))
}

/// Classifies one frame.
#[inline]
pub fn classify<B: Buf>(buf: &B, parsed: Parsed, listeners: &Listeners) -> Class {
    match parsed {
        Parsed::Udp(udp) => match listeners.tunnel(&udp.outer) {
            Some(tunnel) => datagram(buf, &udp, tunnel),
            None => Class::Host,
        },
        Parsed::Fragment(f) if listeners.address(&f.outer) => Class::Fragment(f),
        Parsed::Broken(lie, outer) if listeners.tunnel(&outer).is_some() => Class::Drop(
            if lie == Lie::Ip {
                DropReason::IpLength
            } else {
                DropReason::UdpLength
            },
            outer,
        ),
        _ => Class::Host,
    }
}

/// A datagram to a listening address.
fn datagram<B: Buf>(buf: &B, udp: &Datagram, tunnel: u8) -> Class {
    if usize::from(udp.payload_len) < WORD_LEN {
        return Class::Drop(DropReason::TooShort, udp.outer);
    }
    let Some(word) = word(buf, udp) else {
        return Class::Drop(DropReason::Scattered, udp.outer);
    };
    match word.opcode() {
        DATA_V2 => match checksums(buf, udp) {
            Ok(()) => Class::Record(Facts::new(buf, udp, word, tunnel)),
            Err(reason) => Class::Drop(reason, udp.outer),
        },
        DATA_V1 => Class::Drop(DropReason::DataV1, udp.outer),
        _ => Class::Daemon(udp.outer),
    }
}

/// The first 32 bits of the payload, where it has as many and they lie in the first segment.
#[inline(always)]
fn word<B: Buf>(buf: &B, udp: &Datagram) -> Option<HeaderWord> {
    if usize::from(udp.payload_len) < WORD_LEN {
        return None;
    }
    let word = buf.data().get(usize::from(udp.payload)..)?.first_chunk()?;
    Some(HeaderWord(u32::from_be_bytes(*word)))
}

/// The outer checksums of a record: the port's verdict where it has one, else the IPv4 header's in software. The
/// UDP checksum is not verified in software, since the tag covers what matters.
#[inline(always)]
fn checksums<B: Buf>(buf: &B, udp: &Datagram) -> Result<(), DropReason> {
    let seen = buf.rx_checksums();
    if !udp.outer.is_v6() {
        let right = match seen.ip {
            Verdict::Good => true,
            Verdict::Bad => false,
            Verdict::Unknown | Verdict::None => header_ok(buf.data(), udp),
        };
        if !right {
            return Err(DropReason::IpChecksum);
        }
    }
    // Zero over IPv4 means that the sender computed none, whatever a port makes of it.
    if seen.l4 == Verdict::Bad && (udp.outer.is_v6() || !udp.no_checksum) {
        return Err(DropReason::UdpChecksum);
    }
    Ok(())
}

#[inline(always)]
fn header_ok(frame: &[u8], udp: &Datagram) -> bool {
    let l3 = usize::from(udp.l3);
    if udp.outer.options_len() == 0 {
        // A fixed length, so that the sum is unrolled.
        return frame
            .get(l3..)
            .and_then(|h| h.first_chunk::<{ ipv4::HEADER_LEN }>())
            .is_some_and(|h| checksum::ipv4_header_ok(h));
    }
    frame
        .get(l3..usize::from(udp.l4))
        .is_some_and(checksum::ipv4_header_ok)
}

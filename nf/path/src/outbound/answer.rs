//! Address resolution on a tunnel interface: the kernel asks who has a peer's inner address, and gets the MAC
//! address by which the peer is named there. Whatever else the kernel says by itself on such an interface is
//! for no peer.
//!
//! Nothing is dropped here; the caller counts what [`Answer`] says.

use nf_wire::ether::{self, IPV6, Mac};
use nf_wire::neighbour::{
    ADVERTISEMENT_LEN, ARP, ARP_REPLY_LEN, Solicitation, advertisement, arp_reply, classify_noise,
};

use crate::buf::Buf;
use crate::buffers::Buffers;
use crate::tunnel::{Mode, Tunnel};

/// What a frame from a tunnel interface is, as far as address resolution goes.
#[derive(Debug)]
pub enum Answer<B> {
    /// It asks for a peer's address: the frame to send back to the interface.
    Reply(B),
    /// The kernel's own talk, with nothing to answer: questions for addresses that are no peer's, probes and
    /// announcements, router discovery, multicast listener reports.
    Noise,
    /// Something else.
    NotNeighbour,
    /// An ARP packet or a Neighbour Solicitation that breaks the rules (RFC 826; RFC 4861, section 7.1.1).
    Malformed,
    /// It would have been answered, but no buffer was free.
    NoBuffer,
}

/// Answers the untagged Ethernet frame that came from a tunnel's interface. An ARP request or Neighbour
/// Solicitation for an address inside a peer's networks gets [`ether::peer_mac`] of the peer with the longest
/// prefix. Probes and announcements get none (RFC 5227, section 1.1; RFC 4862, section 5.4), and in
/// [`Mode::P2p`], where destinations are not looked at, nothing does.
pub fn answer<B: Buf, P: Buffers<B>, K>(frame: &[u8], tunnel: &Tunnel<K>, buffers: &mut P) -> Answer<B> {
    if !may_be_neighbour(frame) {
        return Answer::NotNeighbour;
    }
    if tunnel.mode == Mode::P2p {
        return unanswered(frame);
    }
    match Solicitation::parse(frame) {
        Solicitation::Arp(request) => {
            let mut reply = [0; ARP_REPLY_LEN];
            let peer = tunnel.routes.lookup_v4(request.target.octets());
            send(peer, buffers, |mac| {
                arp_reply(&mut reply, &request, mac).then_some(&reply[..])
            })
        }
        Solicitation::Ndp(asked) => {
            let mut reply = [0; ADVERTISEMENT_LEN];
            let peer = tunnel.routes.lookup_v6(asked.target.octets());
            send(peer, buffers, |mac| {
                advertisement(&mut reply, &asked, mac).then_some(&reply[..])
            })
        }
        Solicitation::NotOne => unanswered(frame),
        Solicitation::Malformed => Answer::Malformed,
    }
}

/// A few loads that let through ARP, ICMPv6 and what has hop-by-hop options.
#[inline(always)]
fn may_be_neighbour(frame: &[u8]) -> bool {
    const NEXT_HEADER: usize = ether::HEADER_LEN + 6;
    const HOP_BY_HOP: u8 = 0;
    const ICMPV6: u8 = 58;
    match frame.get(12..14) {
        Some(t) if t == ARP.to_be_bytes() => true,
        Some(t) if t == IPV6.to_be_bytes() => matches!(frame.get(NEXT_HEADER), Some(&(HOP_BY_HOP | ICMPV6))),
        _ => false,
    }
}

fn unanswered<B>(frame: &[u8]) -> Answer<B> {
    if classify_noise(frame) {
        Answer::Noise
    } else {
        Answer::NotNeighbour
    }
}

/// The reply that `write` makes of the peer's MAC address, in a buffer; noise when there is no peer or nothing
/// is written.
fn send<'r, B: Buf>(
    peer: Option<u32>,
    buffers: &mut impl Buffers<B>,
    write: impl FnOnce(Mac) -> Option<&'r [u8]>,
) -> Answer<B> {
    let Some(reply) = peer.and_then(|id| write(ether::peer_mac(id))) else {
        return Answer::Noise;
    };
    let made = buffers
        .small()
        .and_then(|mut buffer| buffer.append(reply).then_some(buffer));
    made.map_or(Answer::NoBuffer, Answer::Reply)
}

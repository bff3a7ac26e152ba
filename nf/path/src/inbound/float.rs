//! Stage 10: the endpoint follows its peer (`ovpn_peer_endpoints_update` of the Linux `ovpn` driver is asked for the
//! same after each packet). Drops: none.
//!
//! Only an authentic record with a packet id above the highest seen says where a peer is: forged ones never do, and late
//! ones may have been long on their way from where it was. All records of a batch are of one flow, so it is looked at
//! once for each batch, and further only if that flow is not the one that the peer is bound to.

use crate::buf::Buf;
use crate::context::MAX_EVENTS;
use crate::counters::Counters;
use arrayvec::ArrayVec;
use core::net::SocketAddr;
use nf_state::{Event, Moved, PeerTable, ReplayWindow, Way};
use nf_wire::ether;
use nf_wire::frame::Outer;

use super::lookup::Found;

/// Events that wait, with the index of the tunnel.
pub(super) type Events = ArrayVec<(u8, Event), MAX_EVENTS>;

/// Watches a batch that came from elsewhere for the records that say so.
pub(super) struct Watch {
    highest: u32,
    /// The way that the record being opened came.
    current: Option<Way>,
    /// The way of the last one that raised the highest packet id.
    proven: Option<Way>,
}

impl Watch {
    /// None, as a rule: the batch comes from where the peer is. `first` is the first record's buffer; a peer that is
    /// answered the way it was `last_heard` has moved also when only that is another one.
    #[inline(always)]
    pub(super) fn begin<B: Buf, K>(
        found: &Found<'_, K>,
        first: Option<&B>,
        last_heard: bool,
        window: &ReplayWindow,
    ) -> Option<Self> {
        let here = found.here
            && (!last_heard
                || first
                    .and_then(|buf| way(buf.data()))
                    .is_none_or(|way| found.peer.endpoint.is_way(&way)));
        (!here).then(|| Watch {
            highest: window.highest(),
            current: None,
            proven: None,
        })
    }

    /// Before a record is opened and its headers are gone: `frame` is its frame, `window` has seen those before it.
    #[cold]
    pub(super) fn next(&mut self, frame: &[u8], window: &ReplayWindow) {
        self.look(window);
        self.current = way(frame);
    }

    /// The way of the last record that raised the highest packet id; None when none did.
    #[cold]
    pub(super) fn end(mut self, window: &ReplayWindow) -> Option<Way> {
        self.look(window);
        self.proven
    }

    fn look(&mut self, window: &ReplayWindow) {
        if window.highest() > self.highest {
            self.highest = window.highest();
            self.proven = self.current;
        }
    }
}

/// The way back to where a frame came from.
#[inline]
fn way(frame: &[u8]) -> Option<Way> {
    let (_, _, tags) = ether::layer3(frame)?;
    let dst = *frame.get(6..)?.first_chunk()?;
    Some(Way { dst, tags })
}

/// Binds the batch's peer to where the batch came from, unless another peer holds that.
#[cold]
#[inline(never)]
pub(super) fn follow<K>(
    found: &Found<'_, K>,
    outer: &Outer,
    way: Way,
    peers: &PeerTable<K>,
    counters: &Counters,
    events: &mut Events,
) {
    let (peer, endpoint) = (found.peer.id, &found.peer.endpoint);
    let remote = SocketAddr::new(outer.src(), outer.src_port());
    let holder = peers.by_address(&(remote.ip(), remote.port()));
    if let Some(holder) = holder.filter(|holder| *holder != peer) {
        counters.floats_held.add(1);
        // While there is no room it is not noted either, so that a later record tells.
        if !events.is_full() && endpoint.note_held(outer) {
            let event = Event::FloatHeld { peer, remote, holder };
            events.push((found.tunnel, event));
        }
    } else if endpoint.move_to(outer, way, found.key.serial()) == Moved::Remote {
        counters.floats.add(1);
        let local = SocketAddr::new(outer.dst(), outer.dst_port());
        let event = Event::Float { peer, remote, local };
        if events.try_push((found.tunnel, event)).is_err() {
            counters.events_lost.add(1);
        }
    }
}

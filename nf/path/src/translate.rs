//! Whose control packets are translated between the host port and the NIC.
//!
//! The daemon of family `ovpn-dco-v2` is not told when a peer's endpoint moves, and goes on sending control packets to
//! the address that it knows, from which alone it takes the peer's. While the peer is elsewhere, its datagrams that are
//! not DATA_V2 get the known address as their source on the way to the host port, and the daemon's get the current one
//! as their destination on the way to the NIC. That ends when somebody else is at either address.

mod rewrite;
#[cfg(test)]
mod tests;

pub(crate) use rewrite::{End, is_translatable, set_address, set_way};

use core::net::SocketAddr;
use nf_state::{Event, Way};
use nf_wire::frame::Outer;

/// Opcodes by which a client opens a session (OpenVPN's `P_CONTROL_HARD_RESET_CLIENT_V2` and `_V3`).
const HARD_RESET_CLIENT: [u8; 2] = [7, 10];

/// One peer that is not where the daemon thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The tunnel, by index.
    pub tunnel: u8,
    /// Peer id.
    pub peer: u32,
    /// Address and port where the daemon thinks that the peer is.
    pub known: SocketAddr,
    /// Address and port where it is.
    pub current: SocketAddr,
    /// Our address and port, to which and from which the daemon's datagrams go.
    pub local: SocketAddr,
    /// The way to the current address; None: layer 2 of what the kernel sends is left as it is.
    pub way: Option<Way>,
}

impl Translation {
    fn is_possible(&self) -> bool {
        let v4 = self.known.is_ipv4();
        let one_version = self.current.is_ipv4() == v4 && self.local.is_ipv4() == v4;
        one_version && key(self.known, self.local) != key(self.current, self.local)
    }
}

/// A remote and a local address and port in words that compare quickly, as [`Outer::flow_words`] of what comes from the
/// remote.
type Key = [u64; 5];

fn key(remote: SocketAddr, local: SocketAddr) -> Key {
    let words = |address: SocketAddr| match address {
        SocketAddr::V4(a) => [0, u64::from(u32::from(*a.ip()))],
        SocketAddr::V6(a) => {
            let bits = u128::from(*a.ip());
            [(bits >> 64) as u64, bits as u64]
        }
    };
    let version = if remote.is_ipv4() { 4 } else { 6 };
    let ([a, b], [c, d]) = (words(remote), words(local));
    let ports = u64::from(remote.port()) << 16 | u64::from(local.port());
    [a, b, c, d, version << 32 | ports]
}

/// The key of a datagram that goes to the remote.
fn key_out(outer: &Outer) -> Key {
    let [a, b, c, d, e] = outer.flow_words();
    let (version, src_port, dst_port) = (e >> 32, e >> 16 & 0xffff, e & 0xffff);
    [c, d, a, b, version << 32 | dst_port << 16 | src_port]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InUse,
    /// Somebody else is at one of the addresses, which the control side is still to be told.
    Ended(Event),
    Told,
}

#[derive(Debug)]
struct Entry {
    translation: Translation,
    state: State,
}

/// What is translated: a whole table, which the control side makes and one worker uses.
///
/// Two peers at one current address are told apart by the local port. An entry ends for the worker at the first sign of
/// somebody else at either address; the next table begins anew.
#[derive(Debug, Default)]
pub struct Translations {
    entries: Vec<Entry>,
    /// Indices of entries, sorted by the key of the current address.
    by_current: Vec<(Key, u32)>,
    /// The same, by the key of the known one.
    by_known: Vec<(Key, u32)>,
}

impl Translations {
    /// A table. Left out is what cannot be translated: addresses of two IP versions, or a current address that is the
    /// known one; and of several that have the current or the known address in common (and the local one), all but
    /// the first.
    pub fn new(all: impl IntoIterator<Item = Translation>) -> Self {
        let mut candidates: Vec<(Translation, bool)> = all
            .into_iter()
            .filter(Translation::is_possible)
            .map(|translation| (translation, true))
            .collect();
        drop_repeated(&mut candidates, |t| key(t.current, t.local));
        drop_repeated(&mut candidates, |t| key(t.known, t.local));
        let entries: Vec<Entry> = candidates
            .into_iter()
            .filter(|(_, kept)| *kept)
            .map(|(translation, _)| Entry {
                translation,
                state: State::InUse,
            })
            .collect();
        let sorted = |key: fn(&Translation) -> Key| {
            let keys = entries.iter().map(|entry| key(&entry.translation));
            let mut sorted: Vec<(Key, u32)> = keys.zip(0..).collect();
            sorted.sort_unstable();
            sorted
        };
        Translations {
            by_current: sorted(|t| key(t.current, t.local)),
            by_known: sorted(|t| key(t.known, t.local)),
            entries,
        }
    }

    /// Whether nothing is translated.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many peers' datagrams are translated, those that have ended included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The address that a control packet with this opcode, which came to a listening address, gets as its source; None:
    /// its own. `tell` is given what the control side is to know, with the tunnel: once for each entry, or again as
    /// long as it returns false.
    pub(crate) fn incoming(
        &mut self,
        outer: &Outer,
        opcode: u8,
        mut tell: impl FnMut(u8, Event) -> bool,
    ) -> Option<SocketAddr> {
        let key = outer.flow_words();
        if let Some(entry) = find(&self.by_current, &key).and_then(|at| self.entries.get_mut(at)) {
            if entry.state == State::InUse && !HARD_RESET_CLIENT.contains(&opcode) {
                return Some(entry.translation.known);
            }
            let peer = entry.translation.peer;
            entry.end(Event::NewSession { peer }, &mut tell);
        }
        // Where one peer is now, another may have been before. What is the former's says nothing of the latter; anything
        // else is somebody's who is there instead of it.
        if let Some(entry) = find(&self.by_known, &key).and_then(|at| self.entries.get_mut(at)) {
            let Translation { peer, known, .. } = entry.translation;
            entry.end(Event::OldAddress { peer, remote: known }, &mut tell);
        }
        None
    }

    /// The translation of a datagram that the kernel sends, if there is one.
    pub(crate) fn outgoing(&self, outer: &Outer) -> Option<&Translation> {
        let entry = &self.entries[find(&self.by_known, &key_out(outer))?];
        (entry.state == State::InUse).then_some(&entry.translation)
    }

    /// Whether a fragment that the kernel sends, which tells no ports, may be of a datagram that is translated.
    pub(crate) fn may_be_outgoing(&self, outer: &Outer) -> bool {
        let [a, b, c, d, e] = key_out(outer);
        let addresses = |key: &Key| (key[0], key[1], key[2], key[3], key[4] >> 32);
        let wanted = (a, b, c, d, e >> 32);
        let from = self.by_known.partition_point(|(key, _)| addresses(key) < wanted);
        self.by_known[from..]
            .iter()
            .take_while(|(key, _)| addresses(key) == wanted)
            .any(|(_, at)| self.entries[*at as usize].state == State::InUse)
    }
}

impl Entry {
    /// Nothing is translated from now on, for the first reason that is given.
    #[cold]
    fn end(&mut self, event: Event, tell: &mut impl FnMut(u8, Event) -> bool) {
        if self.state == State::InUse {
            self.state = State::Ended(event);
        }
        if let State::Ended(event) = self.state
            && tell(self.translation.tunnel, event)
        {
            self.state = State::Told;
        }
    }
}

fn find(sorted: &[(Key, u32)], key: &Key) -> Option<usize> {
    let at = sorted.binary_search_by(|(other, _)| other.cmp(key)).ok()?;
    Some(sorted[at].1 as usize)
}

/// Of those kept that have a key in common, keeps the first.
fn drop_repeated(all: &mut [(Translation, bool)], key: fn(&Translation) -> Key) {
    let mut keys: Vec<(Key, usize)> = (0..)
        .zip(all.iter())
        .filter(|(_, (_, kept))| *kept)
        .map(|(at, (translation, _))| (key(translation), at))
        .collect();
    keys.sort_unstable();
    for pair in keys.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        all[pair[1].1].1 = false;
    }
}

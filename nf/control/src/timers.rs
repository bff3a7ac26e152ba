//! Keepalive and expiry of many peers by a monotonic clock.
//!
//! Sending and receiving only note the time; nothing is re-armed per packet. A deadline that comes is checked against
//! the time noted last, and moved if that is younger. So a poll costs what is due, whatever the number of peers.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Duration;

use nf_state::Millis;

/// OpenVPN's `--ping` and `--ping-restart`: two timers that do not depend on each other. Zero is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keepalive {
    /// A keepalive is due when nothing was sent for so long. Counted in milliseconds, a part of one as a whole one.
    pub interval: Duration,
    /// The peer is gone when nothing authentic was heard for so long. Counted as `interval` is.
    pub timeout: Duration,
}

/// What has to be done for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action<K> {
    /// The peer is gone: nothing was heard from it for the time-out. Its timers are off already.
    Expire(K),
    /// Send it a keepalive.
    Ping(K),
}

/// One of a peer's timers.
#[derive(Clone, Copy)]
struct Timer {
    /// Milliseconds of silence, not 0.
    period: u64,
    /// When to look again; never later than what is really due.
    at: Millis,
}

impl Timer {
    fn armed(period: Duration, now: Millis) -> Option<Timer> {
        let period = u64::try_from(period.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        (period > 0).then(|| Timer {
            period,
            at: after(now, period),
        })
    }

    /// When it was due, if it was; moved to when it may be due otherwise. `last` says when it last started anew.
    fn due(&mut self, now: Millis, last: impl FnOnce() -> Millis) -> Option<Millis> {
        if self.at > now {
            return None;
        }
        // Never back: a time noted before the timer was set, or before the last keepalive was asked for, is older.
        self.at = self.at.max(after(last(), self.period));
        (self.at <= now).then_some(self.at)
    }
}

#[derive(Clone, Copy)]
struct Timers {
    ping: Option<Timer>,
    expiry: Option<Timer>,
}

impl Timers {
    /// The earlier one; `None` when both are off.
    fn next(&self) -> Option<Millis> {
        let at = |timer: &Option<Timer>| timer.as_ref().map(|t| t.at);
        at(&self.ping).into_iter().chain(at(&self.expiry)).min()
    }
}

/// The timers of all peers. `K` names a peer.
pub struct PeerTimers<K> {
    peers: HashMap<K, Timers>,
    /// Per peer with a timer, when to look at it again: [`Timers::next`].
    queue: BTreeSet<(Millis, K)>,
}

impl<K: Copy + Ord + Hash> PeerTimers<K> {
    /// Without peers.
    pub fn new() -> PeerTimers<K> {
        PeerTimers {
            peers: HashMap::new(),
            queue: BTreeSet::new(),
        }
    }

    /// Sets a peer's timers, in place of those it had. Both start anew: it counts as sent to and heard at `now`.
    pub fn insert(&mut self, peer: K, keepalive: Keepalive, now: Millis) {
        self.remove(peer);
        self.arm(
            peer,
            Timers {
                ping: Timer::armed(keepalive.interval, now),
                expiry: Timer::armed(keepalive.timeout, now),
            },
        );
    }

    /// Forgets a peer. One that is not there is fine.
    pub fn remove(&mut self, peer: K) {
        if let Some(at) = self.peers.remove(&peer).and_then(|timers| timers.next()) {
            self.queue.remove(&(at, peer));
        }
    }

    /// When to poll next at the latest; `None` when no timer is on. An earlier poll is harmless.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.queue.first().map(|&(at, _)| at)
    }

    /// What is due at `now`, in the order in which it became due.
    ///
    /// `last_sent` says when a peer was last sent an encrypted packet, a keepalive included, `last_recv` when an
    /// authentic record that is no replay was last heard from it (data or not); [`Millis`] of the clock of `now`, 0 for
    /// never. They are asked for peers with a deadline only.
    ///
    /// Expiry goes first: a peer that expires is sent no keepalive, and yields nothing ever after. A keepalive that was
    /// asked for is asked for again an interval later, whether it could be sent or not, unless something else was sent.
    pub fn poll(
        &mut self,
        now: Millis,
        last_sent: impl Fn(K) -> Millis,
        last_recv: impl Fn(K) -> Millis,
    ) -> Vec<Action<K>> {
        let mut due = Vec::new();
        let mut again = Vec::new();
        while let Some(&(at, peer)) = self.queue.first()
            && at <= now
        {
            self.queue.pop_first();
            let Some(mut timers) = self.peers.remove(&peer) else {
                continue;
            };
            if let Some(since) = timers
                .expiry
                .as_mut()
                .and_then(|t| t.due(now, || last_recv(peer)))
            {
                due.push((since, Action::Expire(peer)));
                continue;
            }
            if let Some(ping) = timers.ping.as_mut()
                && let Some(since) = ping.due(now, || last_sent(peer))
            {
                due.push((since, Action::Ping(peer)));
                ping.at = after(now, ping.period);
            }
            again.push((peer, timers));
        }
        for (peer, timers) in again {
            self.arm(peer, timers);
        }
        due.sort_unstable();
        due.into_iter().map(|(_, action)| action).collect()
    }

    fn arm(&mut self, peer: K, timers: Timers) {
        if let Some(at) = timers.next() {
            self.queue.insert((at, peer));
            self.peers.insert(peer, timers);
        }
    }
}

impl<K: Copy + Ord + Hash> Default for PeerTimers<K> {
    fn default() -> PeerTimers<K> {
        PeerTimers::new()
    }
}

fn after(time: Millis, milliseconds: u64) -> Millis {
    Millis(time.0.saturating_add(milliseconds))
}

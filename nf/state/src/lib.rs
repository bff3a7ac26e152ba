//! What the data plane remembers between two packets: replay windows, key slots, peers and their counters, routes.
//!
//! A [`PeerTable`] and a [`Routes`] belong to one lcore and are changed by it alone, between two bursts, when it applies
//! an [`Update`] from the control side. Only key slots, endpoints and counters are shared: a [`KeySlot`] has its replay
//! window under a lock and its packet ids in one atomic, an [`Endpoint`] is a sequence lock, and a [`PeerCounters`] block
//! has one writer per line.
//!
//! Longest-prefix matching is `prefix-trie`'s: it is kept up to date, covers IPv4 and IPv6 with one interface
//! over `ipnet` types, has no allocation on look-up, and its answers are tested here against a linear search.
#![forbid(unsafe_code)]

mod authentic;
mod cipher;
mod counter;
mod endpoint;
mod event;
mod key_slots;
mod packet_id;
mod peer;
mod peer_table;
mod replay;
mod routes;
mod update;

pub use authentic::Authentic;
pub use cipher::{Cipher, UnknownCipher};
pub use counter::Counter;
pub use endpoint::{Binding, Endpoint, Moved, Way};
pub use event::Event;
pub use ipnet::{IpNet, Ipv4Net, Ipv6Net};
pub use key_slots::{Direction, KeySlot, KeySlots, Slot};
pub use packet_id::{PacketIds, Reserved};
pub use peer::{Addresses, Peer, PeerCounters};
pub use peer_table::{PeerTable, TableError};
pub use replay::{Replay, ReplayWindow};
pub use routes::{Conflict, Routes};
pub use update::{Lookahead, LookaheadTooFar, Rejected, Retired, Scope, Update};

/// Milliseconds of a monotonic clock, from an origin that all lcores share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

//! The way to each peer's remote on layer 2, by the kernel's route and neighbour tables of the host interface.
//!
//! The kernel makes no neighbour entry by itself, since our records do not pass it: one is asked for when a remote
//! appears or changes, and again as long as its entry is not usable. Meanwhile the way that the peer was last heard
//! serves, if there is one.

use crate::program::run::registry::{PeerRef, Registry};
use nf_kernel::{NeighbourState, Netlink};
use nf_state::Way;
use nf_wire::ether::Tags;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// What is known of the way to one peer.
struct Known {
    remote: SocketAddr,
    hop: Option<IpAddr>,
    usable: bool,
    /// The way that was given to the workers last.
    given: Option<Way>,
    /// Whether the way in use is the kernel's, and not one that a record has taught.
    kernels: bool,
}

/// The ways to all peers.
pub struct Ways {
    /// Index of the host interface; None: there is no kernel to ask, and peers are answered the way they were heard.
    host: Option<u32>,
    known: HashMap<PeerRef, Known>,
}

impl Ways {
    /// Without any known.
    pub fn new(host: Option<u32>) -> Ways {
        Ways {
            host,
            known: HashMap::new(),
        }
    }

    /// Looks up the way to a peer's present remote and gives it to the workers.
    pub fn resolve(&mut self, netlink: &mut Netlink, registry: &Registry, peer: PeerRef) {
        let Some(host) = self.host else { return };
        let Some(entry) = registry.get(peer) else {
            if let Some(hop) = self.known.remove(&peer).and_then(|k| k.hop) {
                self.release(netlink, peer, hop);
            }
            return;
        };
        let Some(binding) = entry.endpoint.read() else {
            return;
        };
        let hop = next_hop(netlink, host, binding.remote.ip());
        let neighbour = hop.and_then(|hop| match netlink.neighbour(host, hop) {
            Ok(neighbour) => neighbour,
            Err(e) => {
                tracing::debug!("{}: {e}", registry.name(peer));
                None
            }
        });
        let mac = neighbour.as_ref().and_then(|n| n.usable());
        let gone = hop.is_none() || neighbour.is_some_and(|n| n.state == NeighbourState::Failed);
        if let (None, Some(hop)) = (mac, hop)
            && let Err(e) = netlink.ask(host, hop)
        {
            tracing::debug!("{}: {e}", registry.name(peer));
        }
        let before = self
            .known
            .get(&peer)
            .and_then(|k| k.hop)
            .filter(|b| Some(*b) != hop);
        if let Some(before) = before {
            self.release(netlink, peer, before);
        }
        // What the kernel had is taken back once it gives up, not while it asks again: the next record teaches the way
        // that it came. What a record has taught stays until the kernel knows better.
        let was_the_kernels = self
            .known
            .get(&peer)
            .is_some_and(|k| k.kernels && k.remote == binding.remote);
        let taken_back = was_the_kernels && gone;
        if mac.is_some() || taken_back {
            entry
                .endpoint
                .set_way(binding.remote, binding.local, mac.map(untagged));
        }
        let known = Known {
            remote: binding.remote,
            hop,
            usable: mac.is_some(),
            given: mac.map(untagged),
            kernels: mac.is_some() || (was_the_kernels && !taken_back),
        };
        self.known.insert(peer, known);
    }

    /// No longer keeps the kernel resolving a neighbour, unless another peer is reached by it.
    fn release(&self, netlink: &mut Netlink, peer: PeerRef, hop: IpAddr) {
        let shared = self.known.iter().any(|(p, k)| *p != peer && k.hop == Some(hop));
        if let (Some(host), false) = (self.host, shared)
            && let Err(e) = netlink.release(host, hop)
        {
            tracing::debug!("{hop}: {e}");
        }
    }

    /// Looks up the way to all peers.
    pub fn resolve_all(&mut self, netlink: &mut Netlink, registry: &Registry) {
        for (peer, _) in registry.iter() {
            self.resolve(netlink, registry, peer);
        }
    }

    /// Peers whose way is not known, whose remote has changed unheard, or whose way a record has changed since: that of one
    /// to another address of ours does.
    pub fn unresolved(&self, registry: &Registry) -> Vec<PeerRef> {
        if self.host.is_none() {
            return Vec::new();
        }
        let unresolved = registry.iter().filter(|(peer, entry)| {
            let Some(binding) = entry.endpoint.read() else {
                return false;
            };
            let known = self.known.get(peer);
            known.is_none_or(|k| !k.usable || (k.remote, k.given) != (binding.remote, binding.way))
        });
        unresolved.map(|(peer, _)| peer).collect()
    }

    /// Peers that are reached by this neighbour of the host interface.
    pub fn by_hop(&self, index: u32, address: IpAddr) -> Vec<PeerRef> {
        if self.host != Some(index) {
            return Vec::new();
        }
        let by_hop = self.known.iter().filter(|(_, k)| k.hop == Some(address));
        by_hop.map(|(peer, _)| *peer).collect()
    }
}

/// The neighbour through which the host interface reaches an address; None when it does not.
fn next_hop(netlink: &mut Netlink, host: u32, remote: IpAddr) -> Option<IpAddr> {
    match netlink.route_to(remote, Some(host)) {
        Ok(Some(route)) if route.oif == host && !route.local => Some(route.gateway.unwrap_or(remote)),
        Ok(_) => None,
        Err(e) => {
            tracing::debug!("no route to {remote}: {e}");
            None
        }
    }
}

fn untagged(dst: [u8; 6]) -> Way {
    Way {
        dst,
        tags: Tags::default(),
    }
}

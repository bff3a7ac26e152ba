//! What daemons ask of their peers.

use super::keys::word;
use super::peers::no_such;
use super::{Replies, refusal};
use crate::program::run::control::{Control, lock};
use crate::program::run::registry::{Entry, PeerRef};
use lcore::socket::ClientId;
use nf_control::dco::{Errno, Family, Header, KeyState, PeerState, Refusal, Request, reply};
use nf_state::Slot;
use std::net::{SocketAddr, SocketAddrV6};

impl Control<'_> {
    pub(super) fn get_peer(
        &self,
        header: &Header,
        family: Family,
        peer: PeerRef,
    ) -> Result<Replies, Refusal> {
        let registry = lock(&self.registry);
        let last = registry.tunnels[usize::from(peer.0)].gone.get(&peer.1);
        let now = registry.get(peer).map(|entry| state(entry, self.host));
        let state = now.or_else(|| last.cloned());
        let state = state.ok_or_else(|| no_such(&registry.name(peer)))?;
        Ok(vec![reply::peer(family, header, &state, false)])
    }

    pub(super) fn get_key(&self, header: &Header, peer: PeerRef, slot: Slot) -> Result<Replies, Refusal> {
        let registry = lock(&self.registry);
        let name = registry.name(peer);
        let entry = registry.get(peer).ok_or_else(|| no_such(&name))?;
        let key = entry
            .keys
            .get(slot)
            .ok_or_else(|| refusal(Errno::ENOENT, format!("{name}: its {} slot is empty", word(slot))))?;
        let state = KeyState {
            peer: peer.1,
            slot,
            key_id: key.slot.key_id(),
            cipher: key.slot.cipher(),
        };
        Ok(vec![reply::key(header, &state)])
    }

    /// All peers of a tunnel: a message each, and the end of them instead of an acknowledgement.
    pub(super) fn dump(&mut self, from: ClientId, header: &Header, request: &Request) {
        let tunnel = match self.tunnel_by_index(request.interface) {
            Ok(tunnel) => tunnel,
            Err(refusal) => return self.refuse(from, header, &refusal),
        };
        let registry = lock(&self.registry);
        for entry in registry.tunnels[usize::from(tunnel)].peers.values() {
            let packet = reply::peer(request.family, header, &state(entry, self.host), true);
            self.clients.send(from, packet);
        }
        self.clients.send(from, reply::done(header));
    }
}

/// An address as a daemon uses it: a link-local one is of the host interface (RFC 4007, 6), which records do not say.
pub fn scoped(address: SocketAddr, host: Option<u32>) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => {
            SocketAddrV6::new(*v6.ip(), v6.port(), 0, host.unwrap_or(0)).into()
        }
        other => other,
    }
}

/// A peer as GET_PEER tells of it. `host`: index of the host interface.
pub fn state(entry: &Entry, host: Option<u32>) -> PeerState {
    let totals = entry.totals();
    let binding = entry.endpoint.read();
    let of = crate::program::statics::first_of_each_family(&entry.addresses);
    let (interval, timeout) = entry.keepalive.unwrap_or_default();
    PeerState {
        id: entry.id,
        tx_id: entry.tx_id,
        remote: binding
            .map(|b| b.remote)
            .or(entry.remote)
            .map(|r| scoped(r, host)),
        local: binding.map(|b| b.local),
        vpn_v4: of.v4,
        vpn_v6: of.v6,
        interval,
        timeout,
        vpn_rx: totals.vpn_rx,
        vpn_tx: totals.vpn_tx,
        link_rx: totals.link_rx,
        link_tx: totals.link_tx,
    }
}

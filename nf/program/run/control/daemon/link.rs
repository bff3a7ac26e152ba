//! The tunnel interface's life as a daemon sees it: it asks for one, and has ours.

use super::clients::{Claim, mode};
use super::refusal;
use crate::program::run::control::{Control, lock};
use crate::program::run::registry::PeerRef;
use lcore::mailbox::Message;
use lcore::socket::ClientId;
use nf_control::Mode;
use nf_control::dco::{DelReason, Errno, LinkRequest, Notification, Refusal};
use std::time::Instant;

impl Control<'_> {
    /// A request about an interface; false: the kernel is to be asked.
    pub(super) fn link(&mut self, from: ClientId, request: &LinkRequest) -> Result<bool, Refusal> {
        match request {
            LinkRequest::New { name, kind, mode } => match self.tunnel_named(name) {
                Some(tunnel) => self.claim(from, tunnel, *mode).map(|()| true),
                None => {
                    // With plain `--dev tun` a daemon tries 256 of them.
                    if self.clients.asks_for_foreign(from) {
                        tracing::info!(
                            "{}: asks for the interface {name} (kind {kind}), which is no [[tunnel]] here: left to the kernel, and so are others",
                            self.clients.name(from)
                        );
                    }
                    Ok(false)
                }
            },
            LinkRequest::Delete { index, name } => {
                let by_index = index.and_then(|i| self.tunnel_by_index(i).ok());
                let by_name = name.as_deref().and_then(|name| self.tunnel_named(name));
                match by_index.or(by_name) {
                    Some(tunnel) => self.delete(from, tunnel).map(|()| true),
                    None => Ok(false),
                }
            }
            LinkRequest::Get { name } => self.look_up(self.tunnel_named(name)),
            LinkRequest::GetIndex(index) => self.look_up(self.tunnel_by_index(*index).ok()),
        }
    }

    /// Whatever kind a tunnel's interface was said to be, one daemon or the other would not take it; that it is not there yet
    /// suits all.
    fn look_up(&self, tunnel: Option<u8>) -> Result<bool, Refusal> {
        tunnel.map_or(Ok(false), |tunnel| {
            let text = format!("{} is there once it is asked for", self.interface(tunnel));
            Err(refusal(Errno::ENODEV, text))
        })
    }

    fn tunnel_named(&self, name: &str) -> Option<u8> {
        let registry = lock(&self.registry);
        let found = registry.tunnels.iter().position(|t| t.interface == name);
        found.map(|t| t as u8)
    }

    /// Gives a tunnel to a client.
    fn claim(&mut self, from: ClientId, tunnel: u8, wanted: Option<Mode>) -> Result<(), Refusal> {
        let interface = self.interface(tunnel);
        let wanted =
            wanted.ok_or_else(|| refusal(Errno::EINVAL, format!("{interface}: a mode that is none")))?;
        let Some(client) = self.clients.client(from) else {
            return Ok(());
        };
        if self.is_static(tunnel) {
            let text = format!("{interface} has static peers, so no daemon can drive it");
            return Err(refusal(Errno::EBUSY, text));
        }
        let Some(index) = self.tunnels[usize::from(tunnel)].index else {
            let text = format!("{interface} is a port without an interface, so no daemon can drive it");
            return Err(refusal(Errno::EOPNOTSUPP, text));
        };
        match &self.tunnels[usize::from(tunnel)].claim {
            Some(claim) if claim.client != client => {
                let text = format!("{interface} is driven by {} already", claim.who);
                return Err(refusal(Errno::EBUSY, text));
            }
            // It starts anew without having deleted it.
            Some(_) => self.release(tunnel),
            None => {}
        }
        let mode = mode(wanted);
        self.kernel
            .netlink
            .set_noarp(index, wanted == Mode::P2p)
            .map_err(|e| refusal(Errno::EIO, e.to_string()))?;
        self.send(|_| Message::Mode { tunnel, mode });
        let who = self.clients.name(from);
        let many = if wanted == Mode::Mp {
            "many peers"
        } else {
            "one peer"
        };
        tracing::info!("{interface}: {who} drives it, for {many}");
        let side = &mut self.tunnels[usize::from(tunnel)];
        side.mode = mode;
        side.claim = Some(Claim {
            client,
            who,
            since: Instant::now(),
            family: None,
        });
        // Who is told of an error goes its own way.
        self.applied()
            .inspect_err(|_| self.tunnels[usize::from(tunnel)].claim = None)
    }

    fn delete(&mut self, from: ClientId, tunnel: u8) -> Result<(), Refusal> {
        if self.claimed_by(tunnel) != self.clients.client(from) {
            let text = format!("{} is not driven by this process", self.interface(tunnel));
            return Err(refusal(Errno::EPERM, text));
        }
        tracing::info!(
            "{}: {} gives it up",
            self.interface(tunnel),
            self.clients.name(from)
        );
        self.release(tunnel);
        self.applied()
    }

    /// Ends a claim: the peers go, and the interface is down and without addresses.
    pub(super) fn release(&mut self, tunnel: u8) {
        let registry = self.registry.clone();
        let mut registry = lock(&registry);
        let peers = &mut registry.tunnels[usize::from(tunnel)];
        let left: Vec<PeerRef> = peers.peers.keys().map(|id| (tunnel, *id)).collect();
        peers.gone.clear();
        for (_, id) in &left {
            let what = Notification::PeerDeleted {
                peer: *id,
                reason: DelReason::Teardown,
            };
            self.notify(tunnel, &what);
        }
        self.remove_all(&mut registry, &left);
        drop(registry);
        let side = &mut self.tunnels[usize::from(tunnel)];
        side.claim = None;
        let Some(index) = side.index else { return };
        let down = self.kernel.netlink.set_up(index, false);
        let flushed = self.kernel.netlink.flush_addresses(index).map(drop);
        for e in [down, flushed].into_iter().filter_map(Result::err) {
            tracing::warn!("{}: {e}", self.interface(tunnel));
        }
    }
}

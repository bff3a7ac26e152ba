//! The daemons: what they ask by the control socket, and what they are told.
//!
//! Each request is applied by every worker before it is answered, and answered before the next one of that daemon is
//! read.

pub mod address;
mod clients;
mod keys;
mod link;
mod notify;
mod peers;
mod query;
mod report;
mod socket;

pub use clients::{Claim, Clients};
pub use query::{scoped, state};

use super::{Control, lock};
use crate::program::exit::Failure;
use crate::program::run::registry::PeerRef;
use lcore::socket::{ClientId, Fds, Incoming};
use nf_control::dco::{self, Command, Errno, Family, Header, Message, Refusal, Request, reply};
use std::time::Instant;

/// NLM_F_ACK of linux/netlink.h.
const ACK: u16 = 4;

/// What a request is answered by, before the acknowledgement.
type Replies = Vec<Vec<u8>>;

impl Control<'_> {
    /// Answers what has come in by the control socket, not beyond `until`; whether there may be more.
    pub fn serve(&mut self, until: Instant) -> bool {
        while Instant::now() < until {
            let Some(incoming) = self.clients.next() else {
                return false;
            };
            match incoming {
                Incoming::Connected { client, credentials } => self.clients.connected(client, credentials),
                Incoming::Packet { client, bytes, fds } => self.packet(client, &bytes, fds),
                Incoming::Gone { client } => self.gone(client),
            }
        }
        true
    }

    fn packet(&mut self, from: ClientId, bytes: &[u8], fds: Fds) {
        let Some(protocol) = self.clients.protocol(from) else {
            return;
        };
        match dco::decode(bytes, protocol) {
            Ok(incoming) => self.message(from, incoming, fds),
            Err((Some(header), refusal)) => self.refuse(from, &header, &refusal),
            Err((None, refusal)) => {
                tracing::warn!("{}: {}: disconnected", self.clients.name(from), refusal.text);
                self.clients.close(from);
            }
        }
    }

    fn message(&mut self, from: ClientId, incoming: dco::Incoming, fds: Fds) {
        let header = incoming.header;
        let done = match incoming.message {
            Message::Hello { version, protocol } => {
                return self.clients.hello(from, &header, version, protocol);
            }
            Message::Open { protocol } => return self.clients.open(from, &header, protocol),
            Message::Subscribe { group } => return self.clients.subscribe(from, group),
            Message::Again(message) => return self.clients.send(from, message),
            Message::Status => return self.send_report(from, &header),
            Message::GetController => Ok(vec![reply::controller(&header)]),
            Message::GetFamily(family) => Ok(vec![reply::family(&header, family)]),
            Message::Pass => return self.clients.send(from, reply::noop(&header)),
            Message::Link(request) => match self.link(from, &request) {
                // Whether or not it asked for that: whoever waits does so for one of the three.
                Ok(true) => return self.clients.send(from, reply::ack(&header)),
                Ok(false) => return self.clients.send(from, reply::noop(&header)),
                // An interface that is asked for whether or not it is there is no mistake.
                Err(refusal) if refusal.errno == Errno::ENODEV => {
                    return self.clients.send(from, reply::error(&header, &refusal));
                }
                Err(refusal) => Err(refusal),
            },
            Message::Peer(request) => match request.command {
                Command::DumpPeers => return self.dump(from, &header, &request),
                _ => self.request(from, &header, request, fds),
            },
        };
        match done {
            Ok(replies) => {
                for reply in replies {
                    self.clients.send(from, reply);
                }
                if header.flags & ACK != 0 {
                    self.clients.send(from, reply::ack(&header));
                }
            }
            Err(refusal) => self.refuse(from, &header, &refusal),
        }
    }

    fn refuse(&self, from: ClientId, header: &Header, refusal: &Refusal) {
        tracing::warn!("{}: refused: {}", self.clients.name(from), refusal.text);
        self.clients.send(from, reply::error(header, refusal));
    }

    /// One command about peers or keys. When it returns, every worker has applied it.
    fn request(
        &mut self,
        from: ClientId,
        header: &Header,
        request: Request,
        fds: Fds,
    ) -> Result<Replies, Refusal> {
        let tunnel = self.tunnel_by_index(request.interface)?;
        let family = request.family;
        match request.command {
            Command::GetPeer(id) => return self.get_peer(header, family, (tunnel, id)),
            Command::GetKey { peer, slot } => return self.get_key(header, (tunnel, peer), slot),
            _ => self.check_claim(from, tunnel, family)?,
        }
        match request.command {
            Command::NewPeer(new) => self.new_peer(from, family, tunnel, &new, fds)?,
            Command::SetPeer(set) => self.set_peer(tunnel, &set)?,
            Command::DelPeer(id) => self.del_peer((tunnel, id))?,
            Command::NewKey(new) => self.new_key(tunnel, &new)?,
            Command::SwapKeys(id) => self.swap_keys((tunnel, id))?,
            Command::DelKey { peer, slot } => self.del_key((tunnel, peer), slot)?,
            Command::GetPeer(_) | Command::GetKey { .. } | Command::DumpPeers => {}
        }
        self.translate();
        self.applied()?;
        Ok(Vec::new())
    }

    /// The tunnel whose interface has this index.
    fn tunnel_by_index(&self, index: u32) -> Result<u8, Refusal> {
        let found = self.tunnels.iter().position(|t| t.index == Some(index));
        found.map(|t| t as u8).ok_or_else(|| {
            refusal(
                Errno::ENODEV,
                format!("interface index {index} is none of the tunnels'"),
            )
        })
    }

    /// Changes are for whoever has claimed the tunnel; what it speaks is noted.
    fn check_claim(&mut self, from: ClientId, tunnel: u8, family: Family) -> Result<(), Refusal> {
        let interface = self.interface(tunnel);
        let client = self.clients.client(from);
        match &mut self.tunnels[usize::from(tunnel)].claim {
            Some(claim) if Some(claim.client) == client => {
                claim.family = Some(family);
                Ok(())
            }
            Some(claim) => Err(refusal(
                Errno::EBUSY,
                format!("{interface} is driven by {}", claim.who),
            )),
            None => Err(refusal(
                Errno::EBUSY,
                format!("{interface} was not asked for by this process (RTM_NEWLINK)"),
            )),
        }
    }

    /// A connection has ended: its peers go with it, and with a client's last one its interface.
    fn gone(&mut self, connection: ClientId) {
        let name = self.clients.name(connection);
        let last_of = self.clients.gone(connection);
        let registry = self.registry.clone();
        let mut registry = lock(&registry);
        let left: Vec<PeerRef> = registry
            .iter()
            .filter(|(_, e)| e.driven.as_ref().is_some_and(|d| d.connection == connection))
            .map(|(peer, _)| peer)
            .collect();
        if !left.is_empty() {
            tracing::warn!("{name} is gone: its {} peers go with it", left.len());
        }
        self.remove_all(&mut registry, &left);
        for tunnel in left.iter().map(|(tunnel, _)| *tunnel) {
            registry.tunnels[usize::from(tunnel)].gone.clear();
        }
        drop(registry);
        let Some(client) = last_of else { return };
        for tunnel in 0..self.tunnels.len() as u8 {
            if self.claimed_by(tunnel) == Some(client) {
                tracing::info!("{}: {name} is gone, nobody drives it", self.interface(tunnel));
                self.release(tunnel);
            }
        }
    }

    /// That every worker has made every change, as an answer.
    fn applied(&self) -> Result<(), Refusal> {
        self.wait_until_applied().map_err(|why| refusal(Errno::EIO, why))
    }

    fn claimed_by(&self, tunnel: u8) -> Option<ClientId> {
        let claim = self.tunnels[usize::from(tunnel)].claim.as_ref();
        claim.map(|claim| claim.client)
    }

    /// The name of a tunnel's interface.
    fn interface(&self, tunnel: u8) -> String {
        lock(&self.registry).tunnels[usize::from(tunnel)]
            .interface
            .clone()
    }
}

fn refusal(errno: Errno, text: impl Into<String>) -> Refusal {
    Refusal {
        errno,
        text: text.into(),
    }
}

/// A machine's failure as an answer.
fn failed(failure: Failure) -> Refusal {
    let (Failure::Usage(why) | Failure::Machine(why)) = failure;
    refusal(Errno::EIO, why)
}

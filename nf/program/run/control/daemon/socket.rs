//! The daemons' UDP sockets: where they listen, we do.

use super::refusal;
use crate::program::run::control::Control;
use crate::program::run::listen::Socket;
use lcore::mailbox::Message;
use lcore::socket::{Fds, Protocol, Transport};
use nf_control::dco::{Errno, NewPeer, Refusal};
use std::net::IpAddr;
use std::os::fd::AsFd;

/// ENOBUFS of errno(3).
const NO_ROOM: Errno = Errno(105);

impl Control<'_> {
    /// One peer more on a socket.
    pub(super) fn attach(&mut self, tunnel: u8, socket: Socket) -> Result<(), Refusal> {
        if let Some((address, other)) = self.listen.taken(tunnel, socket) {
            let text = format!("{} listens at {address} already", self.interface(other));
            return Err(refusal(Errno::EADDRINUSE, text));
        }
        if !self.listen.attach(tunnel, socket) {
            return Ok(());
        }
        let own = self.own_addresses();
        match self.listen.listeners(&own) {
            Ok(listeners) => self.send(|_| Message::Listen(Box::new(listeners.clone()))),
            Err(why) => {
                self.listen.detach(tunnel, socket);
                return Err(refusal(NO_ROOM, why));
            }
        }
        tracing::info!(
            "{}: listens where its daemon does, {}",
            self.interface(tunnel),
            socket.address
        );
        Ok(())
    }

    /// One peer less on each of these sockets.
    pub(in crate::program::run::control) fn detach(&mut self, sockets: &[(u8, Socket)]) {
        let mut last = false;
        for (tunnel, socket) in sockets {
            last |= self.listen.detach(*tunnel, *socket);
        }
        if last {
            let own = self.own_addresses();
            match self.listen.listeners(&own) {
                Ok(listeners) => self.send(|_| Message::Listen(Box::new(listeners.clone()))),
                Err(e) => tracing::error!("{e}"),
            }
        }
    }

    /// The host interface's addresses, where they matter.
    pub(super) fn own_addresses(&mut self) -> Vec<IpAddr> {
        match self.listen.has_wildcard() {
            true => self.host_addresses(),
            false => Vec::new(),
        }
    }
}

/// What the daemon's socket is. Its descriptor is closed when this returns, so that the port is the daemon's alone.
pub(super) fn socket(new: &NewPeer, mut fds: Fds) -> Result<Socket, Refusal> {
    let (Some(fd), true) = (fds.pop(), fds.is_empty()) else {
        let text = format!("peer {}: its socket {} is no open descriptor", new.id, new.socket);
        return Err(refusal(Errno::ENOTSOCK, text));
    };
    let transport =
        lcore::socket::describe(fd.as_fd()).map_err(|e| refusal(Errno::ENOTSOCK, e.to_string()))?;
    let Transport {
        protocol,
        local,
        v6_only,
        mark,
    } = transport;
    if mark != 0 {
        tracing::warn!(
            "peer {}: its socket has the mark {mark}, which the gateway does not route by",
            new.id
        );
    }
    match protocol {
        Protocol::Udp => Ok(Socket {
            address: local,
            v6_only,
        }),
        Protocol::Tcp => Err(refusal(
            Errno::EOPNOTSUPP,
            format!(
                "peer {}: it comes by TCP, which stays with the daemon: give it --disable-dco there",
                new.id
            ),
        )),
        Protocol::Other => Err(refusal(
            Errno::ENOTSOCK,
            format!("peer {}: its socket is neither UDP nor TCP", new.id),
        )),
    }
}

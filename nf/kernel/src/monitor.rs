//! What changes in the kernel's tables by itself.

use crate::route::Decoded;
use crate::socket::{Channel, Message, messages};
use crate::{Address, Error, Link, Neighbour, Route};
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_REPLACE, NetlinkPayload};
use netlink_packet_route::route::{RouteFlags, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The receive buffer that a monitor asks for, in bytes: some thousand changes, as when all neighbours of a tunnel
/// interface are put back at once (768 bytes each).
pub const ROOM: usize = 8 << 20;
/// Datagrams that one call of [`Monitor::changes`] reads, so that a flood cannot hold its caller.
const DATAGRAMS: usize = 8192;

/// A change in the kernel's tables.
///
/// The kernel does not tell all: when an interface goes down or loses an address, its neighbours (permanent ones too)
/// and IPv4 routes vanish without a message each. So whoever mirrors those reads them anew, and puts permanent
/// neighbours back, after each [`LinkChanged`](Change::LinkChanged) and [`Address`](Change::Address) of the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The interface is new, or something about it is: it is like this now. Comes more than once for one change.
    LinkChanged(Link),
    /// The interface is gone, with all that belonged to it.
    LinkRemoved {
        /// Its index.
        index: u32,
    },
    /// There is such a route now. May name one that was known.
    RouteAdded(Route),
    /// There is no such route any more.
    RouteRemoved(Route),
    /// All routes of this destination, table and metric are gone, whatever their interface: the kernel replaced them, and
    /// tells no removals. What is there instead follows as [`RouteAdded`](Change::RouteAdded), if it is a unicast route.
    RouteReplaced {
        /// Where they led.
        destination: IpNet,
        /// The table that they were in.
        table: u32,
        /// Their metric.
        metric: u32,
    },
    /// The neighbour is new, or like this now.
    Neighbour(Neighbour),
    /// The kernel has forgotten the neighbour.
    NeighbourRemoved {
        /// Index of its interface.
        index: u32,
        /// Its IP address.
        address: IpAddr,
    },
    /// The interface got or lost an address. Got comes again when the address's flags change.
    Address {
        /// Which.
        address: Address,
        /// Got, not lost.
        added: bool,
    },
    /// Changes were lost: the kernel had more to tell than the receive buffer held, or told what cannot be decoded. All
    /// that is mirrored has to be read anew, after the changes that follow in the same answer.
    Overrun,
}

/// A subscription to the changes of links, addresses, routes and neighbours of IPv4 and IPv6, in the network namespace
/// that the thread was in when it was opened.
pub struct Monitor {
    channel: Channel,
}

impl Monitor {
    /// Subscribes. What changes from now on is told; read the tables after this, not before.
    ///
    /// # Errors
    /// [`Error::Io`] if the kernel gives no socket.
    pub fn open() -> Result<Monitor, Error> {
        Monitor::with_room(ROOM)
    }

    /// Like [`open`](Monitor::open), with a receive buffer of about `room` bytes in place of [`ROOM`].
    ///
    /// # Errors
    /// As there.
    pub fn with_room(room: usize) -> Result<Monitor, Error> {
        let what = "watch rtnetlink";
        let channel = Channel::open(what, Some(room))?;
        for group in [
            libc::RTNLGRP_LINK,
            libc::RTNLGRP_NEIGH,
            libc::RTNLGRP_IPV4_IFADDR,
            libc::RTNLGRP_IPV6_IFADDR,
            libc::RTNLGRP_IPV4_ROUTE,
            libc::RTNLGRP_IPV6_ROUTE,
        ] {
            channel.join(group).map_err(|e| Error::io(what, e))?;
        }
        Ok(Monitor { channel })
    }

    /// The changes that were told since the last call, in order; does not wait. What more there is after some thousand is
    /// left for the next call.
    ///
    /// # Errors
    /// [`Error::Io`] if the socket fails; lost changes are no error but a [`Change::Overrun`].
    pub fn changes(&mut self) -> Result<Vec<Change>, Error> {
        let mut changes = Vec::new();
        for _ in 0..DATAGRAMS {
            match self.channel.receive() {
                Ok(Some(datagram)) => {
                    messages(datagram).for_each(|(_, message)| decode(message, &mut changes));
                }
                Ok(None) => break,
                Err(e) if lost(&e) => overrun(&mut changes),
                Err(e) => return Err(Error::io("watch rtnetlink", e)),
            }
        }
        Ok(changes)
    }

    /// Waits until there are changes, at most for `timeout`. True if there are.
    ///
    /// # Errors
    /// [`Error::Io`] if the socket fails.
    pub fn wait(&self, timeout: Duration) -> Result<bool, Error> {
        self.channel
            .wait(Instant::now() + timeout)
            .map_err(|e| Error::io("watch rtnetlink", e))
    }
}

impl AsFd for Monitor {
    /// Readable when there are changes.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

fn lost(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ENOBUFS | libc::EMSGSIZE))
}

fn overrun(changes: &mut Vec<Change>) {
    if changes.last() != Some(&Change::Overrun) {
        changes.push(Change::Overrun);
    }
}

/// Adds the changes that a message tells of.
fn decode(message: Result<Message, String>, changes: &mut Vec<Change>) {
    let (header, inner) = match message {
        Ok(Message {
            header,
            payload: NetlinkPayload::InnerMessage(inner),
            ..
        }) => (header, inner),
        Ok(Message {
            payload: NetlinkPayload::Noop,
            ..
        }) => return,
        _ => return overrun(changes),
    };
    match &inner {
        RouteNetlinkMessage::NewLink(link) => changes.extend(Link::decode(link).map(Change::LinkChanged)),
        // Of another family: a port has left its bridge.
        RouteNetlinkMessage::DelLink(link) if link.header.interface_family == AddressFamily::Unspec => {
            changes.push(Change::LinkRemoved {
                index: link.header.index,
            });
        }
        RouteNetlinkMessage::NewAddress(message) => {
            changes.extend(Address::decode(message).map(|address| Change::Address { address, added: true }));
        }
        RouteNetlinkMessage::DelAddress(message) => {
            changes.extend(Address::decode(message).map(|address| Change::Address {
                address,
                added: false,
            }));
        }
        RouteNetlinkMessage::NewNeighbour(message) => {
            changes.extend(Neighbour::decode(message).map(Change::Neighbour));
        }
        RouteNetlinkMessage::DelNeighbour(message) => {
            let gone = Neighbour::decode(message);
            changes.extend(gone.map(|n| Change::NeighbourRemoved {
                index: n.index,
                address: n.address,
            }));
        }
        RouteNetlinkMessage::NewRoute(message) => {
            decode_route(message, true, header.flags & NLM_F_REPLACE != 0, changes);
        }
        RouteNetlinkMessage::DelRoute(message) => decode_route(message, false, false, changes),
        _ => {}
    }
}

/// Adds what a route that came or went, perhaps in place of another, amounts to.
fn decode_route(message: &RouteMessage, added: bool, replaces: bool, changes: &mut Vec<Change>) {
    // A clone is the kernel's note of one destination, such as a path MTU.
    if message.header.flags.contains(RouteFlags::Cloned) {
        return;
    }
    let Some(decoded) = Decoded::new(message) else {
        return;
    };
    if replaces {
        let Decoded {
            destination,
            table,
            metric,
            ..
        } = decoded;
        changes.push(Change::RouteReplaced {
            destination,
            table,
            metric,
        });
    }
    let change = if added {
        Change::RouteAdded
    } else {
        Change::RouteRemoved
    };
    changes.extend(decoded.routes().map(change));
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::NetlinkHeader;
    use netlink_packet_route::link::LinkMessage;
    use netlink_packet_route::neighbour::{NeighbourFlags, NeighbourMessage};

    fn told(inner: RouteNetlinkMessage) -> Vec<Change> {
        let mut changes = Vec::new();
        let payload = NetlinkPayload::InnerMessage(inner);
        decode(Ok(Message::new(NetlinkHeader::default(), payload)), &mut changes);
        changes
    }

    #[test]
    fn what_bridges_tell_of_their_ports_is_nothing() {
        let mut link = LinkMessage::default();
        link.header.index = 4;
        assert_eq!(
            told(RouteNetlinkMessage::DelLink(link.clone())),
            [Change::LinkRemoved { index: 4 }]
        );
        link.header.interface_family = AddressFamily::Bridge;
        assert_eq!(told(RouteNetlinkMessage::DelLink(link.clone())), []);
        assert_eq!(told(RouteNetlinkMessage::NewLink(link)), []);
        let mut entry = NeighbourMessage::default();
        entry.header.family = AddressFamily::Bridge;
        entry.header.flags = NeighbourFlags::Own;
        assert_eq!(told(RouteNetlinkMessage::NewNeighbour(entry)), []);
    }

    #[test]
    fn what_cannot_be_decoded_counts_as_lost_once() {
        let mut changes = Vec::new();
        decode(Err("odd".to_owned()), &mut changes);
        decode(Err("odd".to_owned()), &mut changes);
        assert_eq!(changes, [Change::Overrun]);
    }
}

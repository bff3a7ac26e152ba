//! A socket of `NETLINK_ROUTE` that never blocks for longer than it was told to, and the messages in what it reads.

use crate::Error;
use netlink_packet_core::{
    NLM_F_ACK_TLVS, NLM_F_CAPPED, NetlinkBuffer, NetlinkMessage, NlasIterator, parse_string,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The kernel puts at most 32 KiB into one datagram of a dump; a message about one link with many virtual functions
/// can be longer.
const DATAGRAM: usize = 256 * 1024;
/// Length of struct nlmsghdr (netlink(7)).
const HEADER: usize = 16;
/// Text of an extended acknowledgement (enum nlmsgerr_attrs in linux/netlink.h).
const NLMSGERR_ATTR_MSG: u16 = 1;

/// One message as rtnetlink(7) defines it.
pub(crate) type Message = NetlinkMessage<RouteNetlinkMessage>;

/// A bound, non-blocking socket and the buffer for what it reads.
pub(crate) struct Channel {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Channel {
    /// Opens and binds one. `room` is the receive buffer asked for, in bytes; the kernel may give less.
    pub(crate) fn open(what: &str, room: Option<usize>) -> Result<Channel, Error> {
        let fail = |e: io::Error| Error::io(what, e);
        let mut socket = Socket::new(NETLINK_ROUTE).map_err(fail)?;
        socket.bind_auto().map_err(fail)?;
        socket.set_non_blocking(true).map_err(fail)?;
        // Conveniences of newer kernels: shorter acknowledgements, words in them (4.12), filtered dumps (4.20). All
        // callers get along without.
        let _ = socket.set_cap_ack(true);
        let _ = socket.set_ext_ack(true);
        let _ = socket.set_netlink_get_strict_chk(true);
        if let Some(bytes) = room
            && sockopt::set_socket_recv_buffer_size_force(&socket, bytes).is_err()
        {
            // Without CAP_NET_ADMIN: as much as net.core.rmem_max allows.
            sockopt::set_socket_recv_buffer_size(&socket, bytes).map_err(|e| Error::io(what, e))?;
        }
        Ok(Channel {
            socket,
            buffer: Vec::with_capacity(DATAGRAM),
        })
    }

    /// Joins a multicast group, one of `RTNLGRP_*`.
    pub(crate) fn join(&self, group: u32) -> io::Result<()> {
        self.socket.add_membership(group)
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let sent = self.socket.send_to(bytes, &SocketAddr::new(0, 0), 0)?;
        if sent == bytes.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }

    /// Reads the next datagram that is from the kernel. `None` if there is none now.
    ///
    /// # Errors
    /// `ENOBUFS` once after the kernel had to drop datagrams to this socket; `EMSGSIZE` for a datagram over
    /// [`DATAGRAM`] bytes, which is then gone.
    pub(crate) fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            self.buffer.clear();
            let (length, from) = match self.socket.recv_from(&mut self.buffer, libc::MSG_TRUNC) {
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) => return Err(e),
            };
            // Any process may send to a netlink socket; only the kernel has port 0.
            if from.port_number() != 0 {
                continue;
            }
            if length > self.buffer.len() {
                return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
            }
            return Ok(Some(&self.buffer));
        }
    }

    /// Waits until there is something to read, or an error to be told of, or `until` has passed: then false.
    pub(crate) fn wait(&self, until: Instant) -> io::Result<bool> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut fds, Some(&timespec(left))) {
                Ok(n) => return Ok(n > 0),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// One message of a datagram: the sequence number of its header, then the message, or why it cannot be decoded.
pub(crate) type Part = (u32, Result<Message, String>);

/// The messages of one datagram in order. Ends early at a header that lies about its length: as an error with sequence
/// number 0.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Part> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let header = NetlinkBuffer::new_checked(bytes).map(|b| (b.length() as usize, b.sequence_number()));
        let (length, sequence) = match header {
            Ok((length, sequence)) if (HEADER..=bytes.len()).contains(&length) => (length, sequence),
            Ok((length, _)) => {
                let reason = format!("a message of {length} bytes in {} bytes", bytes.len());
                bytes = &[];
                return Some((0, Err(reason)));
            }
            Err(e) => {
                bytes = &[];
                return Some((0, Err(e.to_string())));
            }
        };
        let message = Message::deserialize(&bytes[..length]).map_err(|e| e.to_string());
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((sequence, message))
    })
}

/// The kernel's words in a refusal: `rest` is what follows the error number of an `NLMSG_ERROR` with these header
/// flags. Empty if there are none.
pub(crate) fn words(flags: u16, rest: &[u8]) -> String {
    if flags & NLM_F_ACK_TLVS == 0 {
        return String::new();
    }
    // First the header of the request; unless capped, all of the request.
    let skip = match rest.first_chunk() {
        Some(length) if flags & NLM_F_CAPPED == 0 => {
            (u32::from_ne_bytes(*length) as usize).next_multiple_of(4)
        }
        _ => HEADER,
    };
    NlasIterator::new(rest.get(skip..).unwrap_or(&[]))
        .map_while(Result::ok)
        .find(|nla| nla.kind() == NLMSGERR_ATTR_MSG)
        .and_then(|nla| parse_string(nla.value()).ok())
        .unwrap_or_default()
}

/// Appends a message to `bytes`, padded as NLMSG_ALIGN pads.
pub(crate) fn emit(bytes: &mut Vec<u8>, mut message: Message) {
    message.finalize();
    let (start, length) = (bytes.len(), message.buffer_len());
    bytes.resize(start + length.next_multiple_of(4), 0);
    message.serialize(&mut bytes[start..start + length]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::{NetlinkHeader, NetlinkPayload};
    use netlink_packet_route::link::{LinkAttribute, LinkMessage};
    use netlink_packet_route::route::{RouteAttribute, RouteMessage};
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn two() -> Vec<u8> {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName("veth12".to_owned()));
        let mut route = RouteMessage::default();
        route
            .attributes
            .push(RouteAttribute::Destination(Ipv4Addr::LOCALHOST.into()));
        let mut bytes = Vec::new();
        for (n, inner) in [
            RouteNetlinkMessage::NewLink(link),
            RouteNetlinkMessage::NewRoute(route),
        ]
        .into_iter()
        .enumerate()
        {
            let mut header = NetlinkHeader::default();
            header.sequence_number = 7 + n as u32;
            emit(
                &mut bytes,
                Message::new(header, NetlinkPayload::InnerMessage(inner)),
            );
        }
        bytes
    }

    #[test]
    fn messages_in_a_row() {
        let parts: Vec<Part> = messages(&two()).collect();
        let [(7, Ok(link)), (8, Ok(route))] = &parts[..] else {
            panic!("{parts:?}")
        };
        assert!(matches!(
            link.payload,
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(_))
        ));
        assert!(matches!(
            route.payload,
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(_))
        ));
    }

    #[test]
    fn a_length_that_lies_ends_the_datagram() {
        for length in [0u32, 15, 4096] {
            let mut bytes = two();
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            let parts: Vec<Part> = messages(&bytes).collect();
            assert!(matches!(parts[..], [(0, Err(_))]), "{parts:?}");
        }
    }

    #[test]
    fn words_of_a_refusal() {
        let request = [[20u8, 0, 0, 0], [0; 4], [0; 4], [0; 4], [0; 4]].concat();
        let tlv = [&[9u8, 0, 1, 0][..], b"oops\0\0\0\0"].concat();
        let capped = [&request[..16], &tlv].concat();
        let whole = [&request[..], &tlv].concat();
        assert_eq!(words(NLM_F_ACK_TLVS | NLM_F_CAPPED, &capped), "oops");
        assert_eq!(words(NLM_F_ACK_TLVS, &whole), "oops");
        assert_eq!(words(0, &whole), "");
        assert_eq!(words(NLM_F_ACK_TLVS, &[0xff; 6]), "");
    }

    proptest! {
        #[test]
        fn odd_datagrams_do_not_panic(
            changes in proptest::collection::vec((0usize..1000, any::<u8>()), 0..6),
            kind in 16u16..56,
            cut in 0usize..8,
        ) {
            let mut bytes = two();
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            for (at, value) in changes {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            let end = bytes.len() - cut;
            prop_assert!(messages(&bytes[..end]).count() <= 8);
        }
    }
}

//! The control socket of ovpn-dpdk: what a client and the gateway say to each other around netlink messages.
//!
//! The socket is AF_UNIX, SOCK_SEQPACKET; one packet is one netlink message, `struct nlmsghdr` first, host byte order, no
//! padding after `nlmsg_len`. A connection carries one netlink protocol, which [`HELLO`] says before anything else: a
//! message type of rtnetlink (RTM_NEWLINK, 16) and one of generic netlink (GENL_ID_CTRL, 16) look alike.
//!
//! Besides the messages of that protocol there are those below, in the range that netlink reserves for control messages
//! (below NLMSG_MIN_TYPE, 16) and leaves unused. Connections that come from one another by [`OPEN`] are one client: what
//! one of them owns, all may change. A client's peers go with the connection that made them, its interface with
//! its last connection.
//!
//! An rtnetlink message that is none of the gateway's business is answered by NLMSG_NOOP: the kernel is to be asked.
#![no_std]
#![forbid(unsafe_code)]

/// Version of what this page says.
pub const VERSION: u32 = 1;

/// Environment variable with the path of the socket. Without it the preload library does nothing.
pub const SOCKET_VARIABLE: &str = "OVPN_DCO_SOCKET";

/// Bytes of `struct nlmsghdr`: length u32, type u16, flags u16, sequence u32, port id u32.
pub const HEADER_LEN: usize = 16;

/// The longest packet in either direction, in bytes.
pub const MAX_PACKET: usize = 65_536;

/// Message type of a client's first packet: [`VERSION`] u32, netlink protocol u32 ([`ROUTE`] or [`GENERIC`]). Answered by
/// NLMSG_ERROR: 0, or -EPROTONOSUPPORT and the connection ends.
pub const HELLO: u16 = 8;

/// Message type, netlink protocol u32: another connection is wanted. The header's port id is the asking process's id, or 0:
/// it may be another one by now than the one that connected. Answered by NLMSG_ERROR 0 with the new connection's
/// descriptor (SCM_RIGHTS) or by an error without. The new one needs no [`HELLO`].
pub const OPEN: u16 = 9;

/// Message type, multicast group u32: notifications of that group from now on. Not answered.
pub const SUBSCRIBE: u16 = 10;

/// Message type, a whole netlink message: the gateway sends that message back. A client that reads a notification while
/// it waits for an answer gets it again after the answer this way.
pub const AGAIN: u16 = 11;

/// Message type, nothing: how the gateway is. Answered by packets of this type with NLM_F_MULTI whose payloads are, one
/// after the other, a JSON document, and by NLMSG_DONE.
pub const STATUS: u16 = 12;

/// NETLINK_ROUTE.
pub const ROUTE: u32 = 0;

/// NETLINK_GENERIC.
pub const GENERIC: u32 = 16;

//! What a socket that a client handed over is.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{SocketType, getsockname, ipproto, sockopt};

use super::{Error, options};

/// What carries an OpenVPN connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// A UDP socket.
    Udp,
    /// A TCP socket.
    Tcp,
    /// Any other, as SCTP or a raw socket.
    Other,
}

/// A socket, as its options tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Its type and protocol (`SO_TYPE`, `SO_PROTOCOL`).
    pub protocol: Protocol,
    /// What it is bound to (getsockname(2)); a wildcard address and port 0 if it is not.
    pub local: SocketAddr,
    /// Whether an IPv6 socket leaves IPv4 out (`IPV6_V6ONLY`, ipv6(7)); false for IPv4.
    pub v6_only: bool,
    /// The mark of its packets (`SO_MARK`, socket(7)), 0 if none.
    pub mark: u32,
}

/// What a socket is. Nothing is read from it, sent with it, or set.
///
/// # Errors
/// [`Error::NotSocket`] for another kind of file, [`Error::Family`] for a socket that is not of IP, [`Error::Describe`] if the
/// kernel does not answer.
pub fn describe(fd: BorrowedFd<'_>) -> Result<Transport, Error> {
    let fail = |e: Errno| match e {
        Errno::NOTSOCK => Error::NotSocket,
        e => Error::Describe(e.into()),
    };
    let local = SocketAddr::try_from(getsockname(fd).map_err(fail)?).map_err(|_| Error::Family)?;
    let kind = sockopt::socket_type(fd).map_err(fail)?;
    let protocol = match (kind, sockopt::socket_protocol(fd).map_err(fail)?) {
        (SocketType::DGRAM, Some(ipproto::UDP)) => Protocol::Udp,
        (SocketType::STREAM, Some(ipproto::TCP)) => Protocol::Tcp,
        _ => Protocol::Other,
    };
    let v6_only = local.is_ipv6() && sockopt::ipv6_v6only(fd).map_err(fail)?;
    let mark = options::mark(fd).map_err(Error::Describe)?;
    Ok(Transport {
        protocol,
        local,
        v6_only,
        mark,
    })
}

//! What can go wrong with the control socket.

use std::io;
use std::path::PathBuf;

/// An error of the control socket. Each message is one line: what, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The socket cannot be made there.
    #[error("control socket {path}: {what}: {source}")]
    Listen {
        /// Where it was to be.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// Another process listens there.
    #[error("control socket {0}: another process answers there; stop it, or choose another path")]
    Busy(PathBuf),
    /// There is something else at that path, which is left alone.
    #[error("control socket {0}: what is there is no socket; remove it, or choose another path")]
    Occupied(PathBuf),
    /// Its thread does not start.
    #[error("the control socket's thread does not start: {0}")]
    Thread(String),
    /// The client is gone, or never was.
    #[error("no such client of the control socket")]
    NoClient,
    /// There are as many connections as there may be.
    #[error(
        "the control socket has {} connections already, the most it may have",
        super::CONNECTIONS
    )]
    Full,
    /// No further connection could be made.
    #[error("a further connection of the control socket: {0}")]
    Pair(io::Error),
    /// A file descriptor that is no socket (ENOTSOCK).
    #[error("not a socket")]
    NotSocket,
    /// A socket that is neither of IPv4 nor of IPv6.
    #[error("a socket that is neither of IPv4 nor of IPv6")]
    Family,
    /// The kernel does not say what a socket is.
    #[error("what a socket is cannot be told: {0}")]
    Describe(io::Error),
}

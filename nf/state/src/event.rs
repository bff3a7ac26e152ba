//! What a worker tells the control side unasked.

use std::net::SocketAddr;

/// Something about a peer that the control side should know of. Nothing else is lost with one that is lost: endpoints
/// can be read at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An authentic record came from a new remote, and the peer's endpoint has moved there (`OVPN_CMD_PEER_FLOAT_NTF`).
    Float {
        /// Peer id.
        peer: u32,
        /// The new remote.
        remote: SocketAddr,
        /// The address and port that it contacted.
        local: SocketAddr,
    },
    /// An authentic record came from a remote that another peer is bound to, so the endpoint has not moved.
    FloatHeld {
        /// Peer id.
        peer: u32,
        /// The remote.
        remote: SocketAddr,
        /// The peer that holds it.
        holder: u32,
    },
    /// A client opens a session from where a peer is that has floated without the daemon's knowing: its control packets
    /// are no longer translated.
    NewSession {
        /// Peer id.
        peer: u32,
    },
    /// Somebody is where the daemon thinks that such a peer is: the same.
    OldAddress {
        /// Peer id.
        peer: u32,
        /// The address and port.
        remote: SocketAddr,
    },
}

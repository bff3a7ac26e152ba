//! What the messages of both families say, in one vocabulary.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nf_state::{Cipher, Slot};

use crate::KeyMaterial;

/// A generic-netlink family of data channel offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// `ovpn-dco-v2`, of the out-of-tree module and OpenVPN 2.6.
    DcoV2,
    /// `ovpn`, of Linux 6.16 and OpenVPN 2.7.
    Ovpn,
}

/// `struct nlmsghdr` of a request, and what else of the request its answer repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the message, as it says itself.
    pub len: u32,
    /// Message type: a family's id, or what netlink reserves.
    pub kind: u16,
    /// NLM_F_*.
    pub flags: u16,
    /// Sequence number, repeated in the answer.
    pub seq: u32,
    /// Port id of the client, repeated in the answer.
    pub pid: u32,
    /// Interface index that a family's command names, else 0: a peer that `ovpn-dco-v2` is answered with has it.
    pub interface: u32,
}

/// One packet of a client, understood.
#[derive(Debug)]
pub struct Incoming {
    /// Its header, which the answer needs.
    pub header: Header,
    /// What it says.
    pub message: Message,
}

/// What a packet says.
#[derive(Debug)]
pub enum Message {
    /// The client's first packet (`ovpn_dco_protocol::HELLO`).
    Hello {
        /// Version of the socket's protocol.
        version: u32,
        /// Netlink protocol of this connection.
        protocol: u32,
    },
    /// Another connection is wanted, of this netlink protocol (`ovpn_dco_protocol::OPEN`).
    Open {
        /// Netlink protocol of the new connection.
        protocol: u32,
    },
    /// Notifications of a multicast group are wanted (`ovpn_dco_protocol::SUBSCRIBE`).
    Subscribe {
        /// The group's number.
        group: u32,
    },
    /// To be sent back (`ovpn_dco_protocol::AGAIN`).
    Again(Vec<u8>),
    /// How the gateway is (`ovpn_dco_protocol::STATUS`).
    Status,
    /// CTRL_CMD_GETFAMILY for `nlctrl`.
    GetController,
    /// CTRL_CMD_GETFAMILY for a family of ours.
    GetFamily(Family),
    /// A command of a family.
    Peer(Request),
    /// An rtnetlink message about an interface.
    Link(LinkRequest),
    /// An rtnetlink message of another kind: the kernel's.
    Pass,
}

/// A command of a family.
#[derive(Debug)]
pub struct Request {
    /// Which family.
    pub family: Family,
    /// Index of the tunnel interface.
    pub interface: u32,
    /// The command.
    pub command: Command,
}

/// The commands of both families (`OVPN_CMD_*`).
#[derive(Debug)]
pub enum Command {
    /// Adds a peer.
    NewPeer(NewPeer),
    /// Changes a peer.
    SetPeer(SetPeer),
    /// Removes a peer, by id.
    DelPeer(u32),
    /// One peer, by id.
    GetPeer(u32),
    /// All peers of the interface.
    DumpPeers,
    /// Puts a key into a slot.
    NewKey(NewKey),
    /// What is in a slot, but for the key itself. Family `ovpn` only.
    GetKey {
        /// Peer id.
        peer: u32,
        /// Which slot.
        slot: Slot,
    },
    /// Exchanges the slots of a peer, by id.
    SwapKeys(u32),
    /// Empties a slot.
    DelKey {
        /// Peer id.
        peer: u32,
        /// Which slot.
        slot: Slot,
    },
}

/// A new peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPeer {
    /// Peer id, 0 to [`crate::PEER_ID_MAX`].
    pub id: u32,
    /// Id that it knows us by, in the records that it gets; `None`: the same.
    pub tx_id: Option<u32>,
    /// Its address and port; an IPv4-mapped address is an IPv4 one here. `None`: not UDP.
    pub remote: Option<SocketAddr>,
    /// Our address towards it.
    pub local: Option<IpAddr>,
    /// VPN address.
    pub vpn_v4: Option<Ipv4Addr>,
    /// VPN address.
    pub vpn_v6: Option<Ipv6Addr>,
    /// Seconds between keepalives; 0 is off.
    pub interval: Option<u32>,
    /// Seconds until it counts as gone; 0 is off.
    pub timeout: Option<u32>,
    /// Number of the daemon's socket in the daemon; the descriptor itself comes beside the message.
    pub socket: u32,
}

/// What of a peer is to be changed; `None` stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPeer {
    /// Peer id.
    pub id: u32,
    /// Id that it knows us by.
    pub tx_id: Option<u32>,
    /// Its address and port.
    pub remote: Option<SocketAddr>,
    /// Our address towards it.
    pub local: Option<IpAddr>,
    /// VPN address; 0.0.0.0 clears it.
    pub vpn_v4: Option<Ipv4Addr>,
    /// VPN address; :: clears it.
    pub vpn_v6: Option<Ipv6Addr>,
    /// Seconds between keepalives; 0 is off.
    pub interval: Option<u32>,
    /// Seconds until it counts as gone; 0 is off.
    pub timeout: Option<u32>,
}

/// A key for a slot. Zeroised when dropped.
#[derive(Debug)]
pub struct NewKey {
    /// Peer id.
    pub peer: u32,
    /// Where it goes.
    pub slot: Slot,
    /// Key id, 0 to 7.
    pub key_id: u8,
    /// Cipher, by algorithm and length of the key.
    pub cipher: Cipher,
    /// For records that we send.
    pub encrypt: KeyMaterial,
    /// For records that we receive.
    pub decrypt: KeyMaterial,
}

/// An rtnetlink message about an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkRequest {
    /// RTM_NEWLINK with NLM_F_CREATE.
    New {
        /// IFLA_IFNAME.
        name: String,
        /// IFLA_INFO_KIND.
        kind: String,
        /// IFLA_OVPN_MODE; P2P when it is not there. `None`: out of range.
        mode: Option<crate::Mode>,
    },
    /// RTM_DELLINK, by index, by name, or both.
    Delete {
        /// `ifi_index`.
        index: Option<u32>,
        /// IFLA_IFNAME.
        name: Option<String>,
    },
    /// RTM_GETLINK, by name.
    Get {
        /// IFLA_IFNAME.
        name: String,
    },
    /// RTM_GETLINK, by `ifi_index`, as the daemons ask.
    GetIndex(u32),
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What the client is told.
    pub errno: Errno,
    /// The reason in words, for the log and the extended acknowledgement; no key material.
    pub text: String,
}

/// An error number of Linux, positive.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

#[allow(missing_docs, reason = "errno(3) has them")]
impl Errno {
    pub const EPERM: Errno = Errno(1);
    pub const ENOENT: Errno = Errno(2);
    pub const EIO: Errno = Errno(5);
    pub const EBUSY: Errno = Errno(16);
    pub const EEXIST: Errno = Errno(17);
    pub const ENODEV: Errno = Errno(19);
    pub const EINVAL: Errno = Errno(22);
    pub const ERANGE: Errno = Errno(34);
    pub const ENOTSOCK: Errno = Errno(88);
    pub const EPROTONOSUPPORT: Errno = Errno(93);
    pub const EOPNOTSUPP: Errno = Errno(95);
    pub const EADDRINUSE: Errno = Errno(98);
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "errno {}", self.0)
    }
}

/// A peer as GET_PEER tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerState {
    /// Peer id.
    pub id: u32,
    /// Id that it knows us by.
    pub tx_id: u32,
    /// Where it is now.
    pub remote: Option<SocketAddr>,
    /// Our address and port towards it.
    pub local: Option<SocketAddr>,
    /// VPN address.
    pub vpn_v4: Option<Ipv4Addr>,
    /// VPN address.
    pub vpn_v6: Option<Ipv6Addr>,
    /// Seconds between keepalives.
    pub interval: u32,
    /// Seconds until it counts as gone.
    pub timeout: u32,
    /// Inner packets received, and their bytes.
    pub vpn_rx: [u64; 2],
    /// Inner packets sent, and their bytes.
    pub vpn_tx: [u64; 2],
    /// Datagrams received, and the bytes of their UDP payload.
    pub link_rx: [u64; 2],
    /// Datagrams sent, and the bytes of their UDP payload.
    pub link_tx: [u64; 2],
}

/// A key as GET_KEY tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// Peer id.
    pub peer: u32,
    /// Where it is.
    pub slot: Slot,
    /// Key id, 0 to 7.
    pub key_id: u8,
    /// Its cipher.
    pub cipher: Cipher,
}

/// Why a peer is gone (`enum ovpn_del_peer_reason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelReason {
    /// The interface is gone, or another peer took its place.
    Teardown = 0,
    /// The daemon asked for it.
    Userspace = 1,
    /// Nothing was heard for too long.
    Expired = 2,
    /// The transport failed.
    TransportError = 3,
    /// The socket was closed.
    TransportDisconnect = 4,
}

/// What a client is told unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// A peer is gone.
    PeerDeleted {
        /// Peer id.
        peer: u32,
        /// Why.
        reason: DelReason,
    },
    /// A peer is heard from another address. Family `ovpn` only.
    PeerFloated {
        /// Peer id.
        peer: u32,
        /// The address.
        remote: SocketAddr,
    },
    /// A key is nearly used up. Family `ovpn` only.
    KeySwap {
        /// Peer id.
        peer: u32,
        /// Key id, 0 to 7.
        key_id: u8,
    },
}

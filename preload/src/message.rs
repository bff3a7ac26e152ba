//! What has to be read in the netlink messages that pass by, as bytes: no system call, nothing unsafe.

use ovpn_dco_protocol::HEADER_LEN;

/// Bytes of `struct nlmsghdr` and `struct genlmsghdr` together.
pub const GENERIC_HEADER_LEN: usize = HEADER_LEN + 4;

const NOOP: u16 = 1;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const MIN_TYPE: u16 = 16;
const F_MULTI: u16 = 2;
const F_ACK: u16 = 4;
const F_DUMP: u16 = 0x300;
const F_CREATE: u16 = 0x400;
const NEW_LINK: u16 = 16;
const DEL_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const CONTROLLER: u16 = 16;
const NEW_FAMILY: u8 = 1;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// OVPN_CMD_NEW_PEER and OVPN_CMD_PEER_NEW.
const NEW_PEER: u8 = 1;
/// OVPN_ATTR_NEW_PEER and OVPN_A_PEER.
const PEER_NEST: u16 = 2;

/// `struct nlmsghdr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the message, header included.
    pub len: u32,
    /// Message type.
    pub kind: u16,
    /// NLM_F_*.
    pub flags: u16,
    /// Sequence number.
    pub seq: u32,
    /// Port id.
    pub pid: u32,
}

impl Header {
    /// The header at the start of `bytes`. None: fewer than 16 bytes.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        Some(Header {
            len: u32_at(bytes, 0)?,
            kind: u16_at(bytes, 4)?,
            flags: u16_at(bytes, 6)?,
            seq: u32_at(bytes, 8)?,
            pid: u32_at(bytes, 12)?,
        })
    }

    /// The header as 16 bytes, host byte order.
    pub fn bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&self.len.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.seq.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.pid.to_ne_bytes());
        bytes
    }

    /// Whether this request is always answered: it asks for an acknowledgement, or for a dump.
    pub fn wants_answer(&self) -> bool {
        self.flags & F_ACK != 0 || self.flags & F_DUMP == F_DUMP
    }

    /// Whether this ends the answer to the request with sequence number `seq`: NLMSG_ERROR (an acknowledgement is one)
    /// or NLMSG_DONE.
    pub fn ends(&self, seq: u32) -> bool {
        self.seq == seq && matches!(self.kind, ERROR | DONE)
    }

    /// Whether this is a notification rather than an answer: those have sequence number 0.
    pub fn is_notification(&self) -> bool {
        self.seq == 0 && self.kind >= MIN_TYPE
    }

    /// Whether this is the gateway's "ask the kernel".
    pub fn is_noop(&self) -> bool {
        self.kind == NOOP
    }

    /// Whether the rtnetlink message with this header may be the gateway's business: one interface made, removed or
    /// asked for. RTM_NEWLINK without NLM_F_CREATE changes an interface that is there, which is the kernel's business,
    /// and so is a dump of all.
    pub fn is_for_gateway(&self) -> bool {
        match self.kind {
            NEW_LINK => self.flags & F_CREATE != 0,
            DEL_LINK => true,
            GET_LINK => self.flags & F_DUMP != F_DUMP,
            _ => false,
        }
    }

    /// Whether `answer` is the last message of the answer to this rtnetlink request.
    pub fn is_answered_by(&self, answer: &Header) -> bool {
        answer.is_noop() || answer.ends(self.seq) || (!self.wants_answer() && answer.flags & F_MULTI == 0)
    }
}

/// A generic-netlink family of data channel offload, and with it where a message has what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `ovpn-dco-v2`.
    DcoV2,
    /// `ovpn`.
    Ovpn,
}

/// The family and its id, when `message` is the controller's answer to CTRL_CMD_GETFAMILY for one that is known here.
pub fn family(message: &[u8]) -> Option<(Family, u16)> {
    let header = Header::parse(message)?;
    if header.kind != CONTROLLER || message.get(HEADER_LEN) != Some(&NEW_FAMILY) {
        return None;
    }
    let body = message.get(GENERIC_HEADER_LEN..)?;
    let family = match attribute(body, FAMILY_NAME)? {
        b"ovpn-dco-v2\0" => Family::DcoV2,
        b"ovpn\0" => Family::Ovpn,
        _ => return None,
    };
    Some((family, u16_at(attribute(body, FAMILY_ID)?, 0)?))
}

/// Whether a message that starts with `start`, of a family and at least [`GENERIC_HEADER_LEN`] bytes, makes a peer.
pub fn is_new_peer(start: &[u8]) -> bool {
    start.get(HEADER_LEN) == Some(&NEW_PEER)
}

/// The descriptor that a NEW_PEER (PEER_NEW) of `family` names: OVPN_NEW_PEER_ATTR_SOCKET, OVPN_A_PEER_SOCKET.
pub fn new_peer_socket(message: &[u8], family: Family) -> Option<i32> {
    let socket = match family {
        Family::DcoV2 => 3,
        Family::Ovpn => 6,
    };
    let nest = attribute(message.get(GENERIC_HEADER_LEN..)?, PEER_NEST)?;
    i32::try_from(u32_at(attribute(nest, socket)?, 0)?).ok()
}

/// The payload of the first attribute of that type among the attributes in `bytes`.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    /// NLA_F_NESTED and NLA_F_NET_BYTEORDER are the two bits above.
    const TYPE_MASK: u16 = 0x3fff;
    loop {
        let len = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & TYPE_MASK;
        let payload = bytes.get(4..len)?;
        if kind == wanted {
            return Some(payload);
        }
        bytes = bytes.get(len.next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

//! Bytes to [`Incoming`].

pub(super) mod controller;
mod key;
mod link;
pub(super) mod peer;
mod private;
mod request;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer};
use ovpn_dco_protocol::{GENERIC, HEADER_LEN, MAX_PACKET, ROUTE};

use super::attributes::{invalid, refusal};
use super::{Errno, Family, Header, Incoming, Message, Refusal};

/// NLMSG_MIN_TYPE of linux/netlink.h: types below are netlink's own, and the control socket's.
const MIN_TYPE: u16 = 16;

/// GENL_ID_CTRL of linux/genetlink.h.
pub(super) const CONTROLLER: u16 = 16;

/// Understands one packet of a client, which is one netlink message (linux/netlink.h). `protocol`: the netlink protocol that the
/// connection was made for, `None` before its HELLO, which is then the only message allowed.
///
/// Attributes are validated as the kernel's policies do. Values that depend on the tunnel's mode are left to
/// [`super::NewPeer::check`] and [`super::SetPeer::check`], those that depend on what is there to the caller.
///
/// # Errors
/// Why it is refused, and the header that the answer needs; no header: the packet has not even got one. No error shows bytes
/// of a key.
pub fn decode(packet: &[u8], protocol: Option<u32>) -> Result<Incoming, (Option<Header>, Refusal)> {
    let Some(mut header) = header(packet) else {
        let text = format!("{} bytes are no netlink message: its header has 16", packet.len());
        return Err((None, invalid(text)));
    };
    let decoded = payload(packet, &header).and_then(|payload| message(&header, payload, protocol));
    match decoded {
        Ok(message) => {
            if let Message::Peer(request) = &message {
                header.interface = request.interface;
            }
            Ok(Incoming { header, message })
        }
        Err(refusal) => Err((Some(header), refusal)),
    }
}

fn header(packet: &[u8]) -> Option<Header> {
    if packet.len() < HEADER_LEN {
        return None;
    }
    let buffer = NetlinkBuffer::new(packet);
    Some(Header {
        len: buffer.length(),
        kind: buffer.message_type(),
        flags: buffer.flags(),
        seq: buffer.sequence_number(),
        pid: buffer.port_number(),
        interface: 0,
    })
}

/// What follows the header: all of the packet but for the padding to 4 bytes that may stand at its end.
fn payload<'a>(packet: &'a [u8], header: &Header) -> Result<&'a [u8], Refusal> {
    let (is, says) = (packet.len(), header.len as usize);
    if is > MAX_PACKET {
        return Err(invalid(format!(
            "a packet of {is} bytes; at most {MAX_PACKET} are read"
        )));
    }
    if says < HEADER_LEN || says > is || is - says > 3 {
        let text = format!("nlmsg_len is {says} in a packet of {is} bytes, which holds one message");
        return Err(invalid(text));
    }
    Ok(&packet[HEADER_LEN..says])
}

fn message(header: &Header, payload: &[u8], protocol: Option<u32>) -> Result<Message, Refusal> {
    if header.kind < MIN_TYPE {
        return private::message(header.kind, payload, protocol);
    }
    let Some(protocol) = protocol else {
        return Err(refusal(
            Errno::EPROTONOSUPPORT,
            format!("message type {} before HELLO", header.kind),
        ));
    };
    if header.flags & NLM_F_REQUEST == 0 {
        return Err(invalid(format!(
            "message type {}: NLM_F_REQUEST is missing",
            header.kind
        )));
    }
    match protocol {
        ROUTE => link::message(header, payload),
        GENERIC => generic(header, payload),
        other => Err(refusal(
            Errno::EPROTONOSUPPORT,
            format!("netlink protocol {other}"),
        )),
    }
}

/// `struct genlmsghdr` of linux/genetlink.h, and the attributes that follow it.
struct Generic<'a> {
    command: u8,
    dump: bool,
    reserved: u16,
    attributes: &'a [u8],
}

fn generic(header: &Header, payload: &[u8]) -> Result<Message, Refusal> {
    let [command, _version, r0, r1, attributes @ ..] = payload else {
        let text = format!(
            "{} bytes after the header; a generic netlink header has 4",
            payload.len()
        );
        return Err(invalid(text));
    };
    let generic = Generic {
        command: *command,
        // NLM_F_DUMP is two flags, of which each alone means something else.
        dump: header.flags & NLM_F_DUMP == NLM_F_DUMP,
        reserved: u16::from_ne_bytes([*r0, *r1]),
        attributes,
    };
    if header.kind == CONTROLLER {
        return controller::message(&generic);
    }
    match Family::of_id(header.kind) {
        Some(family) => request::request(family, &generic).map(Message::Peer),
        None => Err(refusal(
            Errno::ENOENT,
            format!("no generic netlink family has the id {}", header.kind),
        )),
    }
}

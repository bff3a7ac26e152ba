//! What the control socket adds to netlink: the message types of `ovpn_dco_protocol`.

use netlink_packet_core::{NetlinkBuffer, parse_u32};
use ovpn_dco_protocol::{AGAIN, GENERIC, HEADER_LEN, HELLO, OPEN, ROUTE, STATUS, SUBSCRIBE};

use crate::dco::attributes::{invalid, refusal};
use crate::dco::{Errno, Message, Refusal};

/// A message with a type below NLMSG_MIN_TYPE.
pub(super) fn message(kind: u16, payload: &[u8], protocol: Option<u32>) -> Result<Message, Refusal> {
    if kind == HELLO {
        let [version, protocol_wanted] = words("HELLO", payload)?;
        return match protocol {
            None => Ok(Message::Hello {
                version,
                protocol: protocol_wanted,
            }),
            Some(_) => Err(invalid("HELLO is said already")),
        };
    }
    if protocol.is_none() {
        return Err(refusal(
            Errno::EPROTONOSUPPORT,
            format!("message type {kind} before HELLO"),
        ));
    }
    match kind {
        OPEN => match words("OPEN", payload)? {
            [protocol @ (ROUTE | GENERIC)] => Ok(Message::Open { protocol }),
            [other] => Err(refusal(
                Errno::EPROTONOSUPPORT,
                format!("OPEN: netlink protocol {other}"),
            )),
        },
        SUBSCRIBE => words("SUBSCRIBE", payload).map(|[group]| Message::Subscribe { group }),
        AGAIN => again(payload),
        STATUS if payload.is_empty() => Ok(Message::Status),
        STATUS => Err(invalid(format!(
            "STATUS: {} bytes instead of none",
            payload.len()
        ))),
        other => Err(invalid(format!(
            "message type {other} is none that a client sends"
        ))),
    }
}

/// A payload of that many u32 and nothing else.
fn words<const N: usize>(name: &str, payload: &[u8]) -> Result<[u32; N], Refusal> {
    let mut words = [0; N];
    let (chunks, rest) = payload.as_chunks::<4>();
    if chunks.len() != N || !rest.is_empty() {
        let text = format!("{name}: {} bytes instead of {}", payload.len(), 4 * N);
        return Err(invalid(text));
    }
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = parse_u32(chunk).unwrap_or_default();
    }
    Ok(words)
}

/// One whole message, of which only the length is looked at: it goes back to where it came from.
fn again(payload: &[u8]) -> Result<Message, Refusal> {
    if payload.len() < HEADER_LEN || NetlinkBuffer::new(payload).length() as usize != payload.len() {
        return Err(invalid(format!(
            "AGAIN: its {} bytes are not one message",
            payload.len()
        )));
    }
    Ok(Message::Again(payload.to_vec()))
}

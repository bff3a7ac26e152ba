//! Netlink messages put together and taken apart by hand.

/// NLM_F_REQUEST | NLM_F_ACK.
pub const REQUEST: u16 = 5;
/// NLM_F_DUMP.
pub const DUMP: u16 = 0x300;
/// NLM_F_MULTI.
pub const MULTI: u16 = 2;
/// NLA_F_NESTED.
pub const NESTED: u16 = 0x8000;
/// NLMSG_ERROR and NLMSG_DONE, NLMSG_NOOP.
pub const ERROR: u16 = 2;
/// NLMSG_DONE.
pub const DONE: u16 = 3;
/// NLMSG_NOOP.
pub const NOOP: u16 = 1;
/// Bytes of `struct nlmsghdr`.
pub const HEADER: usize = 16;
/// Where the attributes of a generic-netlink message begin.
pub const GENERIC: usize = 20;
/// Where those of a message about an interface begin.
pub const LINK: usize = 32;

/// An attribute with its padding.
pub fn attr(id: u16, value: &[u8]) -> Vec<u8> {
    let len = value.len() as u16 + 4;
    let mut bytes = [&len.to_ne_bytes()[..], &id.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An attribute of 32 bits.
pub fn u32_attr(id: u16, value: u32) -> Vec<u8> {
    attr(id, &value.to_ne_bytes())
}

/// A nest.
pub fn nest(id: u16, members: &[Vec<u8>]) -> Vec<u8> {
    attr(id | NESTED, &members.concat())
}

/// A whole message, with sequence number and port id 0.
pub fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let len = (HEADER + payload.len()) as u32;
    [
        &len.to_ne_bytes()[..],
        &kind.to_ne_bytes(),
        &flags.to_ne_bytes(),
        &[0; 8],
        payload,
    ]
    .concat()
}

/// A message of generic netlink.
pub fn generic(family: u16, flags: u16, command: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
    let payload = [&[command, 0, 0, 0], &attributes.concat()[..]].concat();
    message(family, flags, &payload)
}

/// 16 bits at a place.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

/// 32 bits at a place.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Message type.
pub fn kind(message: &[u8]) -> u16 {
    u16_at(message, 4)
}

/// Sequence number.
pub fn seq(message: &[u8]) -> u32 {
    u32_at(message, 8)
}

/// Gives a message a sequence number.
pub fn set_seq(message: &mut [u8], seq: u32) {
    message[8..12].copy_from_slice(&seq.to_ne_bytes());
}

/// The attributes from a place on: type without flags, place of the value, value. Panics at one that is malformed.
pub fn attributes(bytes: &[u8], mut at: usize) -> Vec<(u16, usize, &[u8])> {
    let mut all = Vec::new();
    while at < bytes.len() {
        let len = usize::from(u16_at(bytes, at));
        assert!(
            len >= 4 && at + len <= bytes.len(),
            "an attribute of {len} bytes at {at}"
        );
        all.push((u16_at(bytes, at + 2) & 0x3fff, at + 4, &bytes[at + 4..at + len]));
        at += len.next_multiple_of(4);
    }
    all
}

/// An attribute's value, by types from the outside in; `from`: where the outermost ones begin.
pub fn find<'m>(message: &'m [u8], from: usize, path: &[u16]) -> Option<&'m [u8]> {
    let (first, rest) = path.split_first()?;
    let (_, at, value) = attributes(message, from).into_iter().find(|a| a.0 == *first)?;
    match rest {
        [] => Some(value),
        rest => find(&message[..at + value.len()], at, rest),
    }
}

/// Writes over an attribute's value, which keeps its length; false: it is not there.
pub fn put(message: &mut [u8], from: usize, path: &[u16], value: &[u8]) -> bool {
    let Some(found) = find(message, from, path) else {
        return false;
    };
    assert_eq!(found.len(), value.len(), "attribute {path:?}");
    let at = found.as_ptr() as usize - message.as_ptr() as usize;
    message[at..at + value.len()].copy_from_slice(value);
    true
}

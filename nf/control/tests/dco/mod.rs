//! Netlink messages put together and taken apart by hand: the code under test has no part in it.
#![allow(dead_code, reason = "each test file uses some of it")]

pub mod golden;
pub mod requests;

/// NLM_F_REQUEST | NLM_F_ACK.
pub const REQUEST: u16 = 5;
/// NLM_F_DUMP.
pub const DUMP: u16 = 0x300;
/// NLA_F_NESTED.
pub const NESTED: u16 = 0x8000;
/// Message types of the two families.
pub const DCO_V2: u16 = 0x25;
pub const OVPN: u16 = 0x26;

/// An attribute with its padding.
pub fn attr(id: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
    bytes.extend(id.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

pub fn u32_attr(id: u16, value: u32) -> Vec<u8> {
    attr(id, &value.to_ne_bytes())
}

pub fn u16_attr(id: u16, value: u16) -> Vec<u8> {
    attr(id, &value.to_ne_bytes())
}

pub fn nest(id: u16, members: &[Vec<u8>]) -> Vec<u8> {
    attr(id | NESTED, &members.concat())
}

/// A message with sequence number 7 and port id 99.
pub fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = ((payload.len() + 16) as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(7_u32.to_ne_bytes());
    bytes.extend(99_u32.to_ne_bytes());
    bytes.extend(payload);
    bytes
}

/// A message of generic netlink.
pub fn generic(kind: u16, flags: u16, command: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
    let payload = [&[command, 0, 0, 0][..], &attributes.concat()].concat();
    message(kind, flags, &payload)
}

/// The attributes of one level: type with flags, value.
pub fn split(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let len = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        all.push((u16::from_ne_bytes([bytes[2], bytes[3]]), bytes[4..len].to_vec()));
        bytes = &bytes[len.next_multiple_of(4).min(bytes.len())..];
    }
    all
}

/// Host-order integer of 1, 2, 4 or 8 bytes.
pub fn integer(value: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..value.len()].copy_from_slice(value);
    u64::from_le_bytes(bytes)
}

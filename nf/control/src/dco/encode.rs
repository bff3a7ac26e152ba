//! Netlink messages, written.

use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED, NetlinkHeader};
use ovpn_dco_protocol::HEADER_LEN;

use super::Header;

/// Attributes of one level, in the order in which they are put.
#[derive(Default)]
pub(super) struct Attributes(Vec<DefaultNla>);

impl Attributes {
    /// None yet.
    pub(super) fn new() -> Attributes {
        Attributes::default()
    }

    /// With one more, of these bytes.
    pub(super) fn bytes(mut self, id: u16, value: &[u8]) -> Attributes {
        self.0.push(DefaultNla::new(id, value.to_vec()));
        self
    }

    /// With one more, if there is one.
    pub(super) fn maybe(self, id: u16, value: Option<impl AsRef<[u8]>>) -> Attributes {
        match value {
            Some(value) => self.bytes(id, value.as_ref()),
            None => self,
        }
    }

    /// With one more of two bytes, host order.
    pub(super) fn u16(self, id: u16, value: u16) -> Attributes {
        self.bytes(id, &value.to_ne_bytes())
    }

    /// With one more of four bytes, host order.
    pub(super) fn u32(self, id: u16, value: u32) -> Attributes {
        self.bytes(id, &value.to_ne_bytes())
    }

    /// With one more of eight bytes, host order. It is not aligned to eight by a pad attribute: the kernel's
    /// `nla_put_u64_64bit` does that only on machines that cannot read across.
    pub(super) fn u64(self, id: u16, value: u64) -> Attributes {
        self.bytes(id, &value.to_ne_bytes())
    }

    /// With one more of four bytes if they are enough and eight if not (`nla_put_uint`).
    pub(super) fn uint(self, id: u16, value: u64) -> Attributes {
        match u32::try_from(value) {
            Ok(value) => self.u32(id, value),
            Err(_) => self.u64(id, value),
        }
    }

    /// With a string and its NUL.
    pub(super) fn text(self, id: u16, value: &str) -> Attributes {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(id, &bytes)
    }

    /// With a nest, flagged as one.
    pub(super) fn nest(self, id: u16, inner: Attributes) -> Attributes {
        let inner = inner.emit();
        self.bytes(id | NLA_F_NESTED, &inner)
    }

    /// As bytes, each padded to four.
    pub(super) fn emit(&self) -> Vec<u8> {
        let all = self.0.as_slice();
        let mut bytes = vec![0; all.buffer_len()];
        all.emit(&mut bytes);
        bytes
    }
}

/// Header of a message in answer to a request.
pub(super) fn answer(to: &Header, kind: u16, flags: u16) -> NetlinkHeader {
    let mut header = NetlinkHeader::default();
    header.message_type = kind;
    header.flags = flags;
    header.sequence_number = to.seq;
    header.port_number = to.pid;
    header
}

/// A whole message. Its length is worked out.
pub(super) fn message(mut header: NetlinkHeader, payload: &[&[u8]]) -> Vec<u8> {
    let len = HEADER_LEN + payload.iter().map(|p| p.len()).sum::<usize>();
    header.length = u32::try_from(len).unwrap_or(u32::MAX);
    let mut bytes = vec![0; HEADER_LEN];
    header.emit(&mut bytes);
    payload.iter().for_each(|p| bytes.extend_from_slice(p));
    bytes
}

/// A whole message of generic netlink (`struct genlmsghdr`).
pub(super) fn generic(header: NetlinkHeader, command: u8, version: u8, attributes: &Attributes) -> Vec<u8> {
    message(header, &[&[command, version, 0, 0], &attributes.emit()])
}

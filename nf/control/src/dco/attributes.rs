//! Attributes (`struct nlattr`), read against a policy as the kernel's `nla_parse` does: an attribute that comes twice counts
//! by its last appearance; an integer of the wrong width is EINVAL, a string of bytes of the wrong length and a value out
//! of its range ERANGE.

use std::net::{Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{NlaBuffer, NlasIterator, parse_u8, parse_u16, parse_u32};

use super::{Errno, Refusal};

/// What may stand at one level of a message.
pub(super) struct Policy {
    /// The attributes.
    pub(super) rules: &'static [Rule],
    /// Whether an attribute that is not among them is passed over instead of refused.
    pub(super) ignores_others: bool,
    /// Whether NLA_F_NESTED has to stand on nests, and on nothing else. rtnetlink is older than the flag.
    pub(super) flagged: bool,
}

/// One attribute.
pub(super) struct Rule {
    /// Its type, 1 to 31.
    pub(super) id: u16,
    /// Its name, for errors.
    pub(super) name: &'static str,
    /// What it holds.
    pub(super) kind: Kind,
}

/// What an attribute holds.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// One byte up to this.
    U8(u8),
    /// Two bytes, host order.
    U16,
    /// Four bytes, host order, up to this.
    U32(u32),
    /// Two bytes in network order that are not 0.
    Port,
    /// Four bytes.
    Ipv4,
    /// So many bytes, from and to.
    Bytes(usize, usize),
    /// Further attributes.
    Nest,
}

/// Room for attribute types: one more than the highest in any policy.
const TYPES: usize = 32;

/// The attributes of one level, each within its policy.
pub(super) struct Attributes<'a> {
    rules: &'static [Rule],
    values: [Option<&'a [u8]>; TYPES],
}

/// A refusal with EINVAL.
pub(super) fn invalid(text: impl Into<String>) -> Refusal {
    refusal(Errno::EINVAL, text)
}

/// A refusal.
pub(super) fn refusal(errno: Errno, text: impl Into<String>) -> Refusal {
    Refusal {
        errno,
        text: text.into(),
    }
}

impl<'a> Attributes<'a> {
    /// Reads one level.
    ///
    /// # Errors
    /// The first thing that the policy does not allow.
    pub(super) fn read(bytes: &'a [u8], policy: &'static Policy) -> Result<Attributes<'a>, Refusal> {
        let mut values = [None; TYPES];
        for next in NlasIterator::new(bytes) {
            // The crate's words would do, but name neither place nor attribute.
            let attribute =
                next.map_err(|_| invalid("an attribute is cut off, or shorter than its header"))?;
            let id = attribute.kind();
            match policy.rules.iter().find(|r| r.id == id) {
                Some(rule) => {
                    let value = value(&attribute);
                    rule.check(&attribute, value, policy.flagged)?;
                    values[usize::from(id)] = Some(value);
                }
                None if policy.ignores_others => {}
                None => return Err(invalid(format!("attribute {id} is unknown or not allowed here"))),
            }
        }
        let rules = policy.rules;
        Ok(Attributes { rules, values })
    }

    /// The bytes of an attribute, if it is there.
    pub(super) fn bytes(&self, id: u16) -> Option<&'a [u8]> {
        self.values.get(usize::from(id)).copied().flatten()
    }

    /// The bytes of an attribute that has to be there.
    pub(super) fn need(&self, id: u16) -> Result<&'a [u8], Refusal> {
        self.bytes(id).ok_or_else(|| {
            let rule = self.rules.iter().find(|r| r.id == id);
            invalid(format!("{} is missing", rule.map_or("an attribute", |r| r.name)))
        })
    }

    /// What is in a nest that has to be there. Errors inside name it.
    pub(super) fn need_nest(&self, id: u16, policy: &'static Policy) -> Result<Attributes<'a>, Refusal> {
        let rule = self.rules.iter().find(|r| r.id == id);
        let bytes = self.need(id)?;
        Attributes::read(bytes, policy).map_err(|e| within(rule.map_or("nest", |r| r.name), e))
    }

    /// An integer of one, two or four bytes, host order.
    pub(super) fn integer(&self, id: u16) -> Option<u32> {
        let bytes = self.bytes(id)?;
        match bytes.len() {
            1 => parse_u8(bytes).ok().map(u32::from),
            2 => parse_u16(bytes).ok().map(u32::from),
            _ => parse_u32(bytes).ok(),
        }
    }

    /// An integer that has to be there.
    pub(super) fn need_integer(&self, id: u16) -> Result<u32, Refusal> {
        self.need(id)?;
        self.integer(id)
            .ok_or_else(|| invalid(format!("attribute {id} is no integer")))
    }

    /// A port.
    pub(super) fn port(&self, id: u16) -> Option<u16> {
        self.bytes(id)?.try_into().ok().map(u16::from_be_bytes)
    }

    /// An IPv4 address.
    pub(super) fn ipv4(&self, id: u16) -> Option<Ipv4Addr> {
        <[u8; 4]>::try_from(self.bytes(id)?).ok().map(Ipv4Addr::from)
    }

    /// An IPv6 address.
    pub(super) fn ipv6(&self, id: u16) -> Option<Ipv6Addr> {
        <[u8; 16]>::try_from(self.bytes(id)?).ok().map(Ipv6Addr::from)
    }
}

/// Says where an error was.
pub(super) fn within(place: &str, e: Refusal) -> Refusal {
    refusal(e.errno, format!("{place}: {}", e.text))
}

/// The value without the padding, with the lifetime of the message.
fn value<'a>(attribute: &NlaBuffer<&'a [u8]>) -> &'a [u8] {
    let whole = attribute.into_inner();
    &whole[netlink_packet_core::NLA_HEADER_SIZE..usize::from(attribute.length())]
}

impl Rule {
    fn check(&self, attribute: &NlaBuffer<&[u8]>, value: &[u8], flagged: bool) -> Result<(), Refusal> {
        let Rule { name, kind, .. } = self;
        if flagged && attribute.nested_flag() != matches!(kind, Kind::Nest) {
            let is = if attribute.nested_flag() {
                "is set"
            } else {
                "is missing"
            };
            return Err(invalid(format!("{name}: NLA_F_NESTED {is}")));
        }
        let is = value.len();
        let wide = |bytes: usize| match is == bytes {
            true => Ok(()),
            false => Err(invalid(format!("{name}: {is} bytes instead of {bytes}"))),
        };
        let range = |text: String| Err(refusal(Errno::ERANGE, format!("{name}: {text}")));
        match *kind {
            Kind::U8(max) => {
                wide(1)?;
                match value[0] {
                    v if v > max => range(format!("{v} is more than {max}")),
                    _ => Ok(()),
                }
            }
            Kind::U16 => wide(2),
            Kind::U32(max) => {
                wide(4)?;
                match parse_u32(value) {
                    Ok(v) if v > max => range(format!("{v} is more than {max}")),
                    _ => Ok(()),
                }
            }
            Kind::Port => {
                wide(2)?;
                match value {
                    [0, 0] => range("no port is 0".into()),
                    _ => Ok(()),
                }
            }
            Kind::Ipv4 => wide(4),
            Kind::Bytes(from, to) if is < from || is > to => match from == to {
                true => range(format!("{is} bytes instead of {from}")),
                false => range(format!("{is} bytes; {from} to {to} are allowed")),
            },
            Kind::Bytes(..) | Kind::Nest => Ok(()),
        }
    }
}

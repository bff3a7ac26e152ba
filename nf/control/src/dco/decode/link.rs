//! rtnetlink messages about an interface (rtnetlink(7), linux/if_link.h). All that is none of the gateway's business is
//! [`Message::Pass`].

use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, parse_i32};

use super::controller::text;
use crate::Mode;
use crate::dco::attributes::{Attributes, Kind, Policy, Rule, invalid, within};
use crate::dco::{Family, Header, LinkRequest, Message, Refusal};

const NEW_LINK: u16 = 16;
const DEL_LINK: u16 = 17;
const GET_LINK: u16 = 18;

/// Bytes of `struct ifinfomsg`.
const IFINFOMSG_LEN: usize = 16;

const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_OVPN_MODE: u16 = 1;

const fn rule(id: u16, name: &'static str, kind: Kind) -> Rule {
    Rule { id, name, kind }
}

/// rtnetlink passes over what it does not know, and wants no NLA_F_NESTED.
const fn lenient(rules: &'static [Rule]) -> Policy {
    Policy {
        rules,
        ignores_others: true,
        flagged: false,
    }
}

static LINK: Policy = lenient(&[
    // IFNAMSIZ with the NUL.
    rule(IFLA_IFNAME, "IFLA_IFNAME", Kind::Bytes(1, 16)),
    rule(IFLA_LINKINFO, "IFLA_LINKINFO", Kind::Nest),
]);

static INFO: Policy = lenient(&[
    rule(IFLA_INFO_KIND, "IFLA_INFO_KIND", Kind::Bytes(1, 64)),
    rule(IFLA_INFO_DATA, "IFLA_INFO_DATA", Kind::Nest),
]);

/// What is out of range is said by [`LinkRequest::New`]: only the kind tells whether it matters here.
static DATA: Policy = lenient(&[rule(IFLA_OVPN_MODE, "IFLA_OVPN_MODE", Kind::U8(u8::MAX))]);

pub(super) fn message(header: &Header, payload: &[u8]) -> Result<Message, Refusal> {
    let name = match header.kind {
        NEW_LINK if header.flags & NLM_F_CREATE != 0 => "RTM_NEWLINK",
        DEL_LINK => "RTM_DELLINK",
        GET_LINK if header.flags & NLM_F_DUMP != NLM_F_DUMP => "RTM_GETLINK",
        _ => return Ok(Message::Pass),
    };
    link(header.kind, payload)
        .map(|link| link.map_or(Message::Pass, Message::Link))
        .map_err(|e| within(name, e))
}

fn link(kind: u16, payload: &[u8]) -> Result<Option<LinkRequest>, Refusal> {
    let Some((info, attributes)) = payload.split_at_checked(IFINFOMSG_LEN) else {
        let text = format!(
            "{} bytes after the header; struct ifinfomsg has 16",
            payload.len()
        );
        return Err(invalid(text));
    };
    let index = parse_i32(&info[4..8]).ok().and_then(|i| u32::try_from(i).ok());
    let index = index.filter(|i| *i != 0);
    let attributes = Attributes::read(attributes, &LINK)?;
    let name = match attributes.bytes(IFLA_IFNAME) {
        Some(bytes) => Some(string("IFLA_IFNAME", bytes)?),
        None => None,
    };
    // As in the kernel, an index goes before a name.
    Ok(match (kind, index, name) {
        (NEW_LINK, _, Some(name)) => new(name, &attributes)?,
        (DEL_LINK, None, None) => None,
        (DEL_LINK, index, name) => Some(LinkRequest::Delete { index, name }),
        (GET_LINK, Some(index), _) => Some(LinkRequest::GetIndex(index)),
        (GET_LINK, None, Some(name)) => Some(LinkRequest::Get { name }),
        _ => None,
    })
}

/// An interface to be made; `None`: of a kind that is none of the families'.
fn new(name: String, attributes: &Attributes<'_>) -> Result<Option<LinkRequest>, Refusal> {
    if attributes.bytes(IFLA_LINKINFO).is_none() {
        return Ok(None);
    }
    let info = attributes.need_nest(IFLA_LINKINFO, &INFO)?;
    let Some(kind) = info.bytes(IFLA_INFO_KIND) else {
        return Ok(None);
    };
    // The kernel takes a kind without its NUL, as iproute2 sends it.
    let kind = text(kind).unwrap_or_else(|| String::from_utf8_lossy(kind).into_owned());
    if !Family::ALL.iter().any(|f| f.link_kind() == kind) {
        return Ok(None);
    }
    let mode = match info.bytes(IFLA_INFO_DATA) {
        Some(_) => info.need_nest(IFLA_INFO_DATA, &DATA)?.integer(IFLA_OVPN_MODE),
        None => None,
    };
    let mode = match mode {
        None | Some(0) => Some(Mode::P2p),
        Some(1) => Some(Mode::Mp),
        Some(_) => None,
    };
    Ok(Some(LinkRequest::New { name, kind, mode }))
}

fn string(name: &str, bytes: &[u8]) -> Result<String, Refusal> {
    text(bytes).ok_or_else(|| invalid(format!("{name}: no NUL at its end")))
}

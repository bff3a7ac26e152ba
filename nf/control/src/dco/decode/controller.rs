//! The generic netlink controller, of which daemons ask for a family by name (CTRL_CMD_GETFAMILY of linux/genetlink.h).

use super::{CONTROLLER, Generic};
use crate::dco::attributes::{Attributes, Kind, Policy, Rule, invalid, refusal};
use crate::dco::{Errno, Family, Message, Refusal};

/// CTRL_CMD_GETFAMILY.
const GET_FAMILY: u8 = 3;

/// CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME.
pub(in crate::dco) const FAMILY_ID: u16 = 1;
pub(in crate::dco) const FAMILY_NAME: u16 = 2;

/// The controller's own name.
pub(in crate::dco) const NAME: &str = "nlctrl";

/// The controller is older than strict validation: other attributes are passed over.
static POLICY: Policy = Policy {
    rules: &[
        Rule {
            id: FAMILY_ID,
            name: "FAMILY_ID",
            kind: Kind::U16,
        },
        Rule {
            id: FAMILY_NAME,
            name: "FAMILY_NAME",
            // GENL_NAMSIZ with the NUL.
            kind: Kind::Bytes(1, 16),
        },
    ],
    ignores_others: true,
    flagged: false,
};

pub(super) fn message(generic: &Generic<'_>) -> Result<Message, Refusal> {
    if generic.command != GET_FAMILY || generic.dump {
        let dump = if generic.dump { " as a dump" } else { "" };
        return Err(refusal(
            Errno::EOPNOTSUPP,
            format!("generic netlink controller: command {}{dump}", generic.command),
        ));
    }
    let attributes = Attributes::read(generic.attributes, &POLICY)
        .map_err(|e| crate::dco::attributes::within("GETFAMILY", e))?;
    // As in the kernel, a name goes before an id.
    if let Some(bytes) = attributes.bytes(FAMILY_NAME) {
        let name = text(bytes).ok_or_else(|| invalid("GETFAMILY: FAMILY_NAME: no NUL at its end"))?;
        return match (name == NAME, Family::of_name(&name)) {
            (true, _) => Ok(Message::GetController),
            (_, Some(family)) => Ok(Message::GetFamily(family)),
            _ => Err(refusal(
                Errno::ENOENT,
                format!("no generic netlink family {name:?}"),
            )),
        };
    }
    let id = attributes.integer(FAMILY_ID);
    let id = id.ok_or_else(|| invalid("GETFAMILY: neither FAMILY_NAME nor FAMILY_ID"))?;
    match u16::try_from(id).ok() {
        Some(CONTROLLER) => Ok(Message::GetController),
        id => id.and_then(Family::of_id).map(Message::GetFamily).ok_or_else(|| {
            let id = id.unwrap_or_default();
            refusal(
                Errno::ENOENT,
                format!("no generic netlink family has the id {id}"),
            )
        }),
    }
}

/// Text up to the NUL that has to be there. Bytes that are no UTF-8 stay visible as such: no name of ours has any.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|b| *b == 0)?;
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

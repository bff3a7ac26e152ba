//! What the two families are called and numbered.

use super::Family;

/// Version of both families (`struct genl_family`): the one that every message of theirs carries.
pub(super) const VERSION: u8 = 1;

/// Name of the one multicast group that each family has.
pub(super) const GROUP_NAME: &str = "peers";

impl Family {
    /// Both.
    pub const ALL: [Family; 2] = [Family::DcoV2, Family::Ovpn];

    /// Its id here: the type of its messages. A kernel gives out ids as families register.
    #[must_use]
    pub const fn id(self) -> u16 {
        match self {
            Family::DcoV2 => 0x25,
            Family::Ovpn => 0x26,
        }
    }

    /// Its name, as CTRL_CMD_GETFAMILY is asked for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Family::DcoV2 => "ovpn-dco-v2",
            Family::Ovpn => "ovpn",
        }
    }

    /// Kind of the interfaces that it drives (IFLA_INFO_KIND).
    #[must_use]
    pub const fn link_kind(self) -> &'static str {
        match self {
            Family::DcoV2 => "ovpn-dco",
            Family::Ovpn => "ovpn",
        }
    }

    /// The highest attribute at the top level of its messages (CTRL_ATTR_MAXATTR).
    pub(super) const fn max_attribute(self) -> u32 {
        match self {
            // OVPN_ATTR_GET_PEER.
            Family::DcoV2 => 8,
            // OVPN_A_KEYCONF.
            Family::Ovpn => 3,
        }
    }

    /// The family whose messages have this type.
    pub(super) fn of_id(id: u16) -> Option<Family> {
        Family::ALL.into_iter().find(|f| f.id() == id)
    }

    /// The family of that name.
    pub(super) fn of_name(name: &str) -> Option<Family> {
        Family::ALL.into_iter().find(|f| f.name() == name)
    }
}

/// Number of a family's multicast group `peers`.
#[must_use]
pub const fn group(family: Family) -> u32 {
    match family {
        Family::DcoV2 => 0x11,
        Family::Ovpn => 0x12,
    }
}

/// The family whose group has this number; `None`: a group of nobody's.
#[must_use]
pub fn family_of_group(number: u32) -> Option<Family> {
    Family::ALL.into_iter().find(|f| group(*f) == number)
}

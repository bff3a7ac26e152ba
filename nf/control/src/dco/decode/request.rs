//! The commands of both families.

use super::{Generic, key, peer};
use crate::dco::attributes::{Attributes, Policy, invalid, refusal, within};
use crate::dco::policy::{dco_v2, ovpn};
use crate::dco::{Command, Errno, Family, Refusal, Request};

pub(super) fn request(family: Family, generic: &Generic<'_>) -> Result<Request, Refusal> {
    let (name, dumps) = name(family, generic.command).ok_or_else(|| {
        refusal(
            Errno::EOPNOTSUPP,
            format!(
                "{}: command {} is none that is asked for",
                family.name(),
                generic.command
            ),
        )
    })?;
    let (interface, command) = match generic.dump {
        true if !dumps => Err(refusal(Errno::EOPNOTSUPP, "there is no dump of it")),
        _ if family == Family::Ovpn && generic.reserved != 0 => Err(invalid(
            "the reserved bytes of the generic netlink header are not 0",
        )),
        _ => match family {
            Family::DcoV2 => of_dco_v2(generic),
            Family::Ovpn => of_ovpn(generic),
        },
    }
    .map_err(|e| within(name, e))?;
    Ok(Request {
        family,
        interface,
        command,
    })
}

/// A command's name, and whether it is one for dumps.
fn name(family: Family, command: u8) -> Option<(&'static str, bool)> {
    Some(match (family, command) {
        (Family::DcoV2, dco_v2::command::NEW_PEER) => ("NEW_PEER", false),
        (Family::DcoV2, dco_v2::command::SET_PEER) => ("SET_PEER", false),
        (Family::DcoV2, dco_v2::command::DEL_PEER) => ("DEL_PEER", false),
        (Family::DcoV2, dco_v2::command::NEW_KEY) => ("NEW_KEY", false),
        (Family::DcoV2, dco_v2::command::SWAP_KEYS) => ("SWAP_KEYS", false),
        (Family::DcoV2, dco_v2::command::DEL_KEY) => ("DEL_KEY", false),
        (Family::DcoV2, dco_v2::command::GET_PEER) => ("GET_PEER", true),
        (Family::Ovpn, ovpn::command::PEER_NEW) => ("PEER_NEW", false),
        (Family::Ovpn, ovpn::command::PEER_SET) => ("PEER_SET", false),
        (Family::Ovpn, ovpn::command::PEER_GET) => ("PEER_GET", true),
        (Family::Ovpn, ovpn::command::PEER_DEL) => ("PEER_DEL", false),
        (Family::Ovpn, ovpn::command::KEY_NEW) => ("KEY_NEW", false),
        (Family::Ovpn, ovpn::command::KEY_GET) => ("KEY_GET", false),
        (Family::Ovpn, ovpn::command::KEY_SWAP) => ("KEY_SWAP", false),
        (Family::Ovpn, ovpn::command::KEY_DEL) => ("KEY_DEL", false),
        _ => return None,
    })
}

/// Interface and command of `ovpn-dco-v2`.
fn of_dco_v2(generic: &Generic<'_>) -> Result<(u32, Command), Refusal> {
    use dco_v2::{ID, ID_ONLY, command as c};
    let top = Attributes::read(generic.attributes, &dco_v2::TOP)?;
    let interface = top.need_integer(dco_v2::IFINDEX)?;
    let nest = |id: u16, policy: &'static Policy| top.need_nest(id, policy);
    let command = match generic.command {
        c::NEW_PEER => Command::NewPeer(peer::new_dco_v2(&nest(dco_v2::NEW_PEER, &dco_v2::NEW)?)?),
        c::SET_PEER => Command::SetPeer(peer::set_dco_v2(&nest(dco_v2::SET_PEER, &dco_v2::SET)?)?),
        c::DEL_PEER => {
            let del = nest(dco_v2::DEL_PEER, &dco_v2::DEL)?;
            Command::DelPeer(del.need_integer(dco_v2::del_peer::PEER_ID)?)
        }
        c::NEW_KEY => {
            let new = nest(dco_v2::NEW_KEY, &dco_v2::KEY_NEW)?;
            Command::NewKey(key::new(&new, &dco_v2::KEY_DIR)?)
        }
        c::SWAP_KEYS => Command::SwapKeys(nest(dco_v2::SWAP_KEYS, &ID_ONLY)?.need_integer(ID)?),
        c::DEL_KEY => {
            let (peer, slot) = key::slot(&nest(dco_v2::DEL_KEY, &dco_v2::KEY_SLOT)?)?;
            Command::DelKey { peer, slot }
        }
        _ if generic.dump => Command::DumpPeers,
        _ => Command::GetPeer(nest(dco_v2::GET_PEER, &ID_ONLY)?.need_integer(ID)?),
    };
    Ok((interface, command))
}

/// Interface and command of `ovpn`.
fn of_ovpn(generic: &Generic<'_>) -> Result<(u32, Command), Refusal> {
    use ovpn::{KEYCONF, PEER, command as c, keyconf};
    let policy = match generic.command {
        c::PEER_GET if generic.dump => &ovpn::ABOUT_ALL,
        c::PEER_NEW | c::PEER_SET | c::PEER_GET | c::PEER_DEL => &ovpn::ABOUT_PEER,
        _ => &ovpn::ABOUT_KEY,
    };
    let top = Attributes::read(generic.attributes, policy)?;
    let interface = top.need_integer(ovpn::IFINDEX)?;
    let peer = |policy: &'static Policy| top.need_nest(PEER, policy);
    let keyconf = |policy: &'static Policy| top.need_nest(KEYCONF, policy);
    let command = match generic.command {
        c::PEER_NEW => Command::NewPeer(peer::new_ovpn(&peer(&ovpn::NEW)?)?),
        c::PEER_SET => Command::SetPeer(peer::set_ovpn(&peer(&ovpn::SET)?)?),
        c::PEER_DEL => Command::DelPeer(peer(&ovpn::ID_ONLY)?.need_integer(ovpn::peer::ID)?),
        c::PEER_GET if generic.dump => Command::DumpPeers,
        c::PEER_GET => Command::GetPeer(peer(&ovpn::ID_ONLY)?.need_integer(ovpn::peer::ID)?),
        c::KEY_NEW => Command::NewKey(key::new(&keyconf(&ovpn::KEY_NEW)?, &ovpn::KEY_DIR)?),
        c::KEY_SWAP => Command::SwapKeys(keyconf(&ovpn::KEY_SWAP)?.need_integer(keyconf::PEER_ID)?),
        c::KEY_GET => {
            let (peer, slot) = key::slot(&keyconf(&ovpn::KEY_SLOT)?)?;
            Command::GetKey { peer, slot }
        }
        _ => {
            let (peer, slot) = key::slot(&keyconf(&ovpn::KEY_SLOT)?)?;
            Command::DelKey { peer, slot }
        }
    };
    Ok((interface, command))
}

//! What may stand where in the requests of each family.

use super::attributes::{Kind, Rule};

pub(super) mod dco_v2;
pub(super) mod ovpn;

/// The highest value of a peer id's 24 bits.
const PEER_ID: Kind = Kind::U32(0xff_ffff);

/// OVPN_NONCE_TAIL_SIZE.
const NONCE_TAIL: Kind = Kind::Bytes(8, 8);

const fn rule(id: u16, name: &'static str, kind: Kind) -> Rule {
    Rule { id, name, kind }
}

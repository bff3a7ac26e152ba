//! The netlink interface of data channel offload, as messages: both families, the rtnetlink messages about an interface, and
//! what the control socket adds (`ovpn_dco_protocol`). Bytes in, meaning out, and the other way; nothing here keeps state.

mod attributes;
mod check;
mod decode;
mod encode;
mod families;
mod notification;
mod policy;
pub mod reply;
mod types;

pub use decode::decode;
pub use families::{family_of_group, group};
pub use notification::notification;
pub use types::*;

//! The netlink interface of data channel offload, as messages: both families, the rtnetlink messages about an interface, and
//! what the control socket adds (`ovpn_dco_protocol`). Bytes in, meaning out, and the other way; nothing here keeps state.

mod types;

pub use types::*;

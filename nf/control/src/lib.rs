//! Configuration and keys files: what the operator writes, checked before anything starts.
//!
//! [`Config::load`] reads the configuration (TOML), lays defaults, file and environment over each other and
//! validates every value. [`KeysFile::load`] reads static peers and keys (JSON) for tests, replay and benches.
//! Every error is one line that names the file, the key and what is allowed; none shows key material.
#![forbid(unsafe_code)]

mod check;
mod config;
pub mod cpulist;
pub mod dco;
mod error;
pub mod id_store;
mod keys;
mod layers;
mod names;
mod raw;
pub mod rekey;
mod statics;
mod summary;
pub mod timers;
mod tunnel;

pub use config::{
    AutoOr, Config, Control, Host, Isolate, Lcores, Log, LogFormat, LogLevel, Lookahead, LookaheadScope,
    Metrics, Nic, OutboundL2, PortKind,
};
pub use error::{ConfigError, KeysError};
pub use keys::{KeyMaterial, KeysFile, StaticKey};
pub use summary::Summary;
pub use tunnel::{Mode, Mss, PeerConfig, Tunnel};

/// The highest peer id that a record can name: 0xffffff means "undefined" (look the peer up by its address).
pub const PEER_ID_MAX: u32 = 0xff_fffe;

//! What the gateway asks of the Linux kernel and tells it: links, addresses, neighbours and routes by rtnetlink, the
//! ingress classifier, sysctls, and what has to be undone.
//!
//! [`Netlink`] asks and sets, [`Monitor`] tells what changes by itself, [`sysctl`] reads and writes settings, and
//! [`Undo`] sees that nothing of it outlasts the gateway. All calls block, with a time-out; none belongs into the packet
//! path. `CAP_NET_ADMIN` is needed for whatever changes something. Interfaces are named by their index, as the kernel does.
//!
//! The messages are encoded and decoded by netlink-packet-route, and the sockets are netlink-sys's: both belong to the
//! rust-netlink project, which follows the kernel's rtnetlink, and have a safe interface. Its crate for
//! whole requests, rtnetlink, needs an asynchronous runtime, and offers neither neighbours in batches nor bpf classifiers,
//! so the exchange of requests and answers is here.
#![forbid(unsafe_code)]

mod address;
mod error;
mod ingress;
mod link;
mod monitor;
mod neighbour;
mod netlink;
mod route;
mod socket;
pub mod sysctl;
mod undo;

pub use address::Address;
pub use error::Error;
pub use link::Link;
pub use monitor::{Change, Monitor, ROOM};
pub use neighbour::{Neighbour, NeighbourState};
pub use netlink::{Netlink, TIMEOUT};
pub use route::{Route, RouteTo};
pub use undo::{Action, FOLDER, Undo};

/// An Ethernet address.
pub type Mac = [u8; 6];

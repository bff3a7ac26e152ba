//! Where it happens: the only safe wrapper over DPDK and IPsec-MB.
//!
//! # What keeps it sound
//! * Everything in EAL memory holds an [`Eal`] handle; the EAL is cleaned up with the last one.
//! * A [`Port`] and its queues hold the port open, and the port holds the [`Mempool`]s that its driver was given. Each queue
//!   is handed out once, and used through `&mut`.
//! * A [`Mempool`] is freed only when all its buffers are back. A buffer that outlives the handles keeps pool and EAL
//!   in place.
//! * A buffer has one owner ([`Mbuf`]); sending moves it away.
//! * An IPsec-MB manager ([`imb::Imb`]) and a worker's token ([`launch::Lcore`]) stay on their thread.

pub mod affinity;
pub mod buffers;
mod burst;
pub mod eal;
mod error;
pub mod imb;
pub mod interface;
pub mod launch;
pub mod logging;
pub mod mailbox;
mod mbuf;
mod mempool;
pub mod port;
mod queue;
pub mod reassembly;
mod ring;
pub mod runtime_dir;
pub mod secrets;
pub mod socket;
pub mod steering;
pub mod telemetry;
pub mod tunnel;
pub mod worker;

pub use burst::Burst;
pub use eal::{Eal, cycles};
pub use error::Error;
pub use imb::Imb;
pub use mbuf::{Mbuf, prefetch_write};
pub use mempool::Mempool;
pub use port::{Port, PortConfig};
pub use queue::{RxQueue, TxQueue};
pub use ring::RingPort;
pub use runtime_dir::RuntimeDir;

//! The outbound path over heap buffers: what it seals is opened by the inbound path.

#[allow(dead_code, unused_imports, reason = "the bed there is for the inbound tests")]
#[path = "../support/mod.rs"]
mod support;

mod allocation;
mod bed;
mod cases;
mod counters;
mod drops;
mod far;
mod ids;
mod kernel;
mod lookahead;
mod mss;
#[allow(dead_code, reason = "the rest is for the tests of the parts")]
#[path = "../outbound_parts/packets.rs"]
mod packets;
mod peers;
mod records;
mod sizes;
mod steering;
mod unfinished;

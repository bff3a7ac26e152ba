//! Bytes to headers and back: Ethernet, VLAN, IP, UDP, and OpenVPN's DATA_V2 record.
//!
//! Everything here works on slices, allocates nothing and never reads past the slice it is given.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod encap;
pub mod ether;
pub mod frame;
pub mod inner;
pub mod ip_fragment;
pub mod ipv4;
pub mod ipv6;
pub mod keepalive;
pub mod mss;
pub mod neighbour;
pub mod partial;
pub mod record;
pub mod segment;
pub mod template;

#[cfg(test)]
mod tests;

//! What happens to a packet, in stages, over any buffer ([`buf::Buf`]) and any AEAD ([`aead::Aead`]).
//!
//! [`inbound`] lists its stages in order; each stage's output type is the next one's input. Every packet that goes
//! in comes out in [`burst::Outputs`], waits in reassembly, or is counted under a [`verdict::Drop`].
#![forbid(unsafe_code)]

pub mod aead;
pub mod buf;
pub mod buffers;
pub mod burst;
pub mod context;
pub mod counters;
pub mod fragments;
pub mod inbound;
pub mod lookahead;
pub mod outbound;
pub mod translate;
pub mod tunnel;
#[cfg(feature = "twin")]
pub mod twin;
pub mod verdict;

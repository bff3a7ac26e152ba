//! The inbound path over heap buffers, with real records.

#[path = "../support/mod.rs"]
mod support;

mod batch_build;
mod batch_consume;
mod batch_order;
mod builder_oracle;
mod cases;
mod checksums;
mod ciphers;
mod drops;
mod fragments;
mod lookahead;
mod lookahead_results;
mod malformed;
mod protocol;
mod protocol_inner;
mod replay;
mod source;

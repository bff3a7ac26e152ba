//! The inbound path over heap buffers, with real records.

#[path = "../support/mod.rs"]
mod support;

mod batch_build;
mod batch_consume;
mod builder_oracle;
mod cases;
mod checksums;
mod drops;
mod fragments;
mod lookahead;
mod protocol;
mod replay;
mod source;

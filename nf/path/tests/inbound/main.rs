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
mod float;
mod float_model;
mod float_way;
mod fragments;
mod host_checksums;
mod host_cut;
mod leaks;
mod lookahead;
mod lookahead_results;
mod malformed;
mod mss;
mod protocol;
mod protocol_inner;
mod replay;
mod source;
mod source_routes;
mod timers;
mod translate;
mod translate_out;
mod translate_props;
mod usage;

//! Tests of the parser as a whole, on frames built field by field.

mod build;
mod encap;
mod ethernet;
mod inner_ip;
mod ip_fragment;
mod ipv4;
mod ipv6_fragments;
mod ipv6_headers;
mod ipv6_lengths;
mod mss;
mod neighbour;
mod oracle;
mod outer;
mod partial;
mod props;
mod record;
mod segment;
mod tcp;
mod udp;

use crate::frame::{Datagram, Fragment, Lie, Outer, Parsed, parse};

fn datagram(frame: &[u8]) -> Datagram {
    match parse(frame, frame.len()) {
        Parsed::Udp(d) => d,
        other => panic!("no datagram but {other:?}"),
    }
}

fn fragment(frame: &[u8]) -> Fragment {
    match parse(frame, frame.len()) {
        Parsed::Fragment(f) => f,
        other => panic!("no fragment but {other:?}"),
    }
}

fn broken(frame: &[u8]) -> (Lie, Outer) {
    match parse(frame, frame.len()) {
        Parsed::Broken(lie, outer) => (lie, outer),
        other => panic!("not broken but {other:?}"),
    }
}

fn is_other(frame: &[u8]) -> bool {
    matches!(parse(frame, frame.len()), Parsed::Other)
}

/// Layer 3, layer 4, payload and its length.
fn places(d: &Datagram) -> (u16, u16, u16, u16) {
    (d.l3, d.l4, d.payload, d.payload_len)
}

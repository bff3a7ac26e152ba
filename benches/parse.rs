//! Parsing one frame: the plain case, and the general one.
//!
//! Baseline, one core of an Intel Xeon (Emerald Rapids) at 2.1 GHz: see the figures that `cargo bench --bench parse`
//! prints; plain IPv4 takes a few nanoseconds, a chain of IPv6 extension headers some more.

#![allow(missing_docs)] // criterion_group! makes a public function

use criterion::{Criterion, criterion_group, criterion_main};
use nf_path::twin::craft::{Extension, Frame};
use nf_wire::frame;
use std::hint::black_box;

fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let v4 = || {
        Frame::udp(
            "198.51.100.7:40000".parse().unwrap(),
            "192.0.2.1:1194".parse().unwrap(),
        )
    };
    let v6 = || {
        Frame::udp(
            "[2001:db8::7]:40000".parse().unwrap(),
            "[2001:db8::1]:1194".parse().unwrap(),
        )
    };
    let payload = [0x48; 100];
    vec![
        ("ipv4", v4().payload(&payload).build()),
        ("ipv4 vlan", v4().vlan(100).payload(&payload).build()),
        (
            "ipv4 options",
            v4().options(&[1, 1, 1, 0]).payload(&payload).build(),
        ),
        ("ipv6", v6().payload(&payload).build()),
        (
            "ipv6 hop-by-hop",
            v6().extension(Extension::HopByHop(vec![0; 6]))
                .payload(&payload)
                .build(),
        ),
    ]
}

fn parse(c: &mut Criterion) {
    let mut group = c.benchmark_group("parse");
    for (name, bytes) in frames() {
        group.bench_function(name, |b| b.iter(|| frame::parse(black_box(&bytes), bytes.len())));
    }
    group.finish();
}

criterion_group!(benches, parse);
criterion_main!(benches);

//! The replay window, per packet id: check and commit in order, and late by half a window.

#![allow(missing_docs)] // criterion_group! makes a public function

use criterion::{Criterion, criterion_group, criterion_main};
use nf_state::{Authentic, Millis, ReplayWindow};
use std::hint::black_box;

fn take(window: &mut ReplayWindow, id: u32) {
    let tag = [0; 16];
    if window.check(black_box(id), Millis(1)).is_ok() {
        let proof = Authentic::verify(&tag, &tag, id).expect("equal tags");
        let _ = black_box(window.commit(proof, Millis(1)));
    }
}

fn replay(c: &mut Criterion) {
    let mut group = c.benchmark_group("replay");
    group.bench_function("in order", |b| {
        let (mut window, mut id) = (ReplayWindow::new(), 0u32);
        b.iter(|| {
            id = id.wrapping_add(1);
            take(&mut window, id);
        });
    });
    group.bench_function("pairs swapped", |b| {
        let (mut window, mut id) = (ReplayWindow::new(), 0u32);
        b.iter(|| {
            id = id.wrapping_add(1);
            take(&mut window, ((id - 1) ^ 1) + 1);
        });
    });
    group.bench_function("duplicate", |b| {
        let mut window = ReplayWindow::new();
        take(&mut window, 5000);
        b.iter(|| black_box(window.check(black_box(5000), Millis(1))));
    });
    group.finish();
}

criterion_group!(benches, replay);
criterion_main!(benches);

//! `rte_ip_frag` under the inbound path: records in pieces, whole, late, twice, overlapping, too many, and what becomes
//! of every buffer. The clock is the test's.

mod common;
mod rig;

use std::sync::Arc;

use lcore::reassembly::{IpFrag, MAX_DATAGRAMS, MAX_FRAGMENTS, TIMEOUT_MS};
use lcore::{Eal, Imb, Mbuf, Mempool};
use nf_path::burst::{Frames, Now, Outputs};
use nf_path::counters::{Counters, Totals};
use nf_path::inbound::Inbound;
use nf_path::twin::craft::{Extension, Frame, fragment_v4, fragment_v6};
use nf_path::verdict::DropReason;
use nf_state::Millis;
use rig::{HOST_MTU, LARGE_ROOM, buffer, bytes, delivered, inner, outer, outer_v6, record_of};

/// The path with its books: every frame has one end, and every buffer comes back.
struct Bed {
    path: Inbound<Mbuf, Imb, IpFrag>,
    counters: Arc<Counters>,
    small: Arc<Mempool>,
    large: Arc<Mempool>,
    cycles_per_ms: u64,
    millis: u64,
}

/// What one burst gave.
#[derive(Debug, Default)]
struct Out {
    tunnel: Vec<Vec<u8>>,
    host: Vec<Vec<u8>>,
}

impl Bed {
    fn new(eal: &Eal, name: &str, large: u32) -> Bed {
        let pool = |what: &str, count, room| Mempool::new(eal, &format!("{name}_{what}"), count, 0, room, -1);
        let small = pool("small", 16_383, 2176).expect("a pool");
        let large = pool("large", large, LARGE_ROOM).expect("a pool");
        let fragments = IpFrag::new(eal, large.clone(), small.clone(), HOST_MTU).expect("a table");
        let counters = Arc::new(Counters::default());
        let path = rig::path(fragments, counters.clone());
        // The table takes an entry whose time is 0 for a free one, so the clock does not begin there.
        Bed { path, counters, small, large, cycles_per_ms: eal.tsc_hz() / 1000, millis: 10_000 }
    }

    fn now(&self) -> Now {
        Now { millis: Millis(self.millis), cycles: self.millis * self.cycles_per_ms }
    }

    fn push<F: AsRef<[u8]>>(&mut self, frames: impl IntoIterator<Item = F>) -> Out {
        let mut rx: Frames<Mbuf> = frames.into_iter().map(|f| buffer(&self.small, f.as_ref())).collect();
        let mut out = Outputs::new(1);
        self.path.process(&mut rx, self.now(), &mut out);
        assert!(rx.is_empty());
        let tunnel = out.tunnels[0].iter().map(bytes).collect();
        Out { tunnel, host: out.host.iter().map(bytes).collect() }
    }

    fn expire(&mut self) {
        self.path.expire_fragments(self.now());
    }

    fn totals(&self) -> Totals {
        self.counters.totals()
    }

    fn drops(&self) -> Vec<(DropReason, u64)> {
        self.totals().nonzero_drops().collect()
    }

    /// Buffers that wait in reassembly.
    fn waiting(&self) -> u32 {
        self.small.capacity() - self.small.available()
    }

    fn finish(self) {
        let Bed { path, small, large, .. } = self;
        drop(path);
        for pool in [small, large] {
            assert_eq!(pool.available(), pool.capacity(), "{}: as full as at the start", pool.name());
        }
    }
}

#[test]
fn records_in_pieces() {
    let eal = common::eal("fragments");
    whole_in_any_order(&eal);
    tags_and_padding(&eal);
    first_only(&eal);
    given_up_when_the_worker_goes(&eal);
    too_many_pieces(&eal);
    twice_and_overlapping(&eal);
    not_plain(&eal);
    for_the_host(&eal);
    more_than_the_table_holds(&eal);
    larger_than_a_large_buffer(&eal);
    no_large_buffer(&eal);
}

/// The datagram of `peer` with the record `id`, in pieces of at most `mtu` bytes.
fn pieces(v6: bool, id: u32, len: usize, mtu: usize) -> Vec<Vec<u8>> {
    let record = record_of(1, id, &inner(len, id));
    if v6 {
        fragment_v6(&outer_v6(1).payload(&record).build(), mtu, id)
    } else {
        fragment_v4(&outer(1, id).payload(&record).build(), mtu)
    }
}

fn whole_in_any_order(eal: &Eal) {
    let mut bed = Bed::new(eal, "order", 31);
    let mut id = 0;
    let orders: [(usize, &[usize]); 8] = [
        (2, &[0, 1]),
        (2, &[1, 0]),
        (3, &[0, 1, 2]),
        (3, &[0, 2, 1]),
        (3, &[1, 0, 2]),
        (3, &[1, 2, 0]),
        (3, &[2, 0, 1]),
        (3, &[2, 1, 0]),
    ];
    let mut fragments = 0;
    for v6 in [false, true] {
        for (count, order) in orders {
            id += 1;
            let (len, mtu) = if count == 2 { (1400, 800) } else { (1500, 640) };
            let parts = pieces(v6, id, len, mtu);
            assert_eq!(parts.len(), count);
            // One burst each, then all in one burst.
            for &at in &order[..count - 1] {
                let out = bed.push([&parts[at]]);
                assert!(out.tunnel.is_empty() && out.host.is_empty(), "waits for the others");
            }
            let out = bed.push([&parts[order[count - 1]]]);
            assert_eq!(out.tunnel, [delivered(1, &inner(len, id))], "{v6} {order:?}");
            id += 1;
            let parts = pieces(v6, id, len, mtu);
            let out = bed.push(order.iter().map(|&at| &parts[at]));
            assert_eq!(out.tunnel, [delivered(1, &inner(len, id))], "{v6} {order:?}");
            fragments += 2 * count as u64;
        }
    }
    // Pieces of many datagrams, interleaved with each other and with whole records.
    let first = id + 1;
    let many: Vec<_> = (first..first + 20).map(|id| pieces(id % 2 == 0, id, 1500, 640)).collect();
    let mut burst: Vec<Vec<u8>> = (0..3).flat_map(|at| many.iter().map(move |parts| parts[at].clone())).collect();
    burst.insert(30, rig::frame(1, first + 20, 100));
    let out = bed.push(&burst);
    let mut got = out.tunnel;
    let mut expected: Vec<_> = (first..first + 20).map(|id| delivered(1, &inner(1500, id))).collect();
    expected.push(delivered(1, &inner(100, first + 20)));
    got.sort();
    expected.sort();
    assert!(got == expected);
    let t = bed.totals();
    assert_eq!((t.fragments, t.reassembled), (fragments + 60, 32 + 20));
    assert_eq!((bed.drops(), bed.waiting()), (vec![], 0));
    bed.finish();
}

fn tags_and_padding(eal: &Eal) {
    let mut bed = Bed::new(eal, "tags", 31);
    // 1456 bytes of UDP header and payload in the first piece, 16 in the last: shorter than Ethernet's least.
    let cases: [(Frame, bool); 6] = [
        (outer(1, 1), false),
        (outer(1, 2).vlan(7), false),
        (outer(1, 3).qinq(7, 8), false),
        (outer_v6(1), true),
        (outer_v6(1).vlan(7), true),
        (outer_v6(1).qinq(7, 8), true),
    ];
    for (n, (frame, v6)) in (1u32..).zip(cases) {
        for reversed in [false, true] {
            let id = 2 * n + u32::from(reversed);
            let whole = frame.clone().id(id as u16).payload(&record_of(1, id, &inner(1440, id))).build();
            let mut parts = if v6 { fragment_v6(&whole, 48 + 1456, id) } else { fragment_v4(&whole, 20 + 1456) };
            assert_eq!(parts.len(), 2);
            let last = &mut parts[1];
            last.resize(last.len().max(60) + 18, 0xee);
            if reversed {
                parts.reverse();
            }
            assert_eq!(bed.push(&parts).tunnel, [delivered(1, &inner(1440, id))], "case {n}, {reversed}");
        }
    }
    assert_eq!((bed.drops(), bed.waiting()), (vec![], 0));
    bed.finish();
}

fn first_only(eal: &Eal) {
    let mut bed = Bed::new(eal, "first", 31);
    let start = bed.millis;
    for v6 in [false, true] {
        let id = 1 + u32::from(v6);
        assert!(bed.push([&pieces(v6, id, 1400, 800)[0]]).tunnel.is_empty());
    }
    bed.millis = start + TIMEOUT_MS - 1;
    bed.expire();
    assert_eq!((bed.drops(), bed.waiting()), (vec![], 2), "not yet");
    bed.millis = start + TIMEOUT_MS + 1;
    bed.expire();
    assert_eq!((bed.drops(), bed.waiting()), (vec![(DropReason::FragmentTimeout, 2)], 0));
    // The second piece is too late: it waits for a first piece, and is given up in its turn.
    assert!(bed.push([&pieces(false, 1, 1400, 800)[1]]).tunnel.is_empty());
    bed.millis += TIMEOUT_MS + 1;
    bed.expire();
    assert_eq!((bed.drops(), bed.waiting()), (vec![(DropReason::FragmentTimeout, 3)], 0));
    // Nobody asked for what is too old: the same datagram again finds the stale piece, which is counted all the same.
    assert!(bed.push([&pieces(false, 7, 1400, 800)[0]]).tunnel.is_empty());
    bed.millis += TIMEOUT_MS + 1;
    let out = bed.push(pieces(false, 7, 1400, 800));
    assert_eq!(out.tunnel, [delivered(1, &inner(1400, 7))]);
    let t = bed.totals();
    let lost = t.dropped(DropReason::FragmentTimeout) + t.dropped(DropReason::FragmentRefused);
    assert_eq!((lost, bed.waiting()), (4, 0));
    // Many of them, over many expiries: memory is bounded by the table.
    for round in 0..40u32 {
        for burst in 0..8u32 {
            bed.push((0..250u32).map(|n| pieces(false, round * 2000 + burst * 250 + n + 10, 1400, 800).remove(0)));
        }
        assert!(bed.waiting() <= MAX_DATAGRAMS);
        bed.millis += TIMEOUT_MS + 1;
        bed.expire();
        assert_eq!(bed.waiting(), 0);
    }
    let t = bed.totals();
    let lost = t.dropped(DropReason::FragmentTimeout) + t.dropped(DropReason::FragmentRefused);
    assert_eq!(lost, 4 + 80_000);
    bed.finish();
}

/// What waits in the table when it is dropped goes back to its pool.
fn given_up_when_the_worker_goes(eal: &Eal) {
    let mut bed = Bed::new(eal, "goes", 31);
    bed.push((1..=100).map(|id| pieces(id % 2 == 0, id, 1400, 800).remove(0)));
    assert_eq!(bed.waiting(), 100);
    bed.finish();
}

fn too_many_pieces(eal: &Eal) {
    let mut bed = Bed::new(eal, "many", 31);
    for v6 in [false, true] {
        let before = bed.totals().dropped(DropReason::FragmentRefused);
        // As many as are taken.
        let parts = pieces(v6, 1 + u32::from(v6), 1400, if v6 { 48 + 184 } else { 20 + 184 });
        assert_eq!(parts.len() as u32, MAX_FRAGMENTS);
        assert_eq!(bed.push(&parts).tunnel.len(), 1, "{v6}");
        // One more.
        let parts = pieces(v6, 5 + u32::from(v6), 1550, if v6 { 48 + 184 } else { 20 + 184 });
        assert_eq!(parts.len() as u32, MAX_FRAGMENTS + 1);
        assert!(bed.push(&parts).tunnel.is_empty());
        bed.millis += TIMEOUT_MS + 1;
        bed.expire();
        let t = bed.totals();
        assert!(t.dropped(DropReason::FragmentRefused) - before >= u64::from(MAX_FRAGMENTS), "{:?}", bed.drops());
        assert_eq!(bed.waiting(), 0);
    }
    let t = bed.totals();
    let lost = t.dropped(DropReason::FragmentTimeout) + t.dropped(DropReason::FragmentRefused);
    assert_eq!(lost, 2 * u64::from(MAX_FRAGMENTS + 1), "each piece once: {:?}", bed.drops());
    bed.finish();
}

/// Each piece ends once, whichever is sent twice, and what is delivered is right.
fn twice_and_overlapping(eal: &Eal) {
    let mut bed = Bed::new(eal, "twice", 31);
    let mut sent = 0;
    let mut whole = 0;
    let mut id = 0;
    for v6 in [false, true] {
        for twice in 0..3 {
            for at in 0..=3 {
                id += 1;
                let mut parts = pieces(v6, id, 1500, 640);
                parts.insert(at, parts[twice].clone());
                sent += parts.len() as u64;
                let out = bed.push(&parts);
                whole += out.tunnel.len() as u64;
                assert!(out.tunnel.iter().all(|f| *f == delivered(1, &inner(1500, id))), "{v6} {twice} {at}");
            }
        }
        // The second piece begins 8 bytes early, with other bytes there: never delivered.
        id += 1;
        let mut parts = pieces(v6, id, 1500, 640);
        overlap(&mut parts[1], v6);
        sent += parts.len() as u64;
        assert!(bed.push(&parts).tunnel.is_empty());
    }
    bed.millis += TIMEOUT_MS + 1;
    bed.expire();
    let t = bed.totals();
    let lost = t.dropped(DropReason::FragmentTimeout) + t.dropped(DropReason::FragmentRefused);
    assert_eq!(t.fragments, sent);
    assert_eq!(t.reassembled, whole, "{:?}", bed.drops());
    assert_eq!(lost + 3 * whole, sent, "{:?}", bed.drops());
    assert_eq!(bed.waiting(), 0);
    bed.finish();
}

/// Moves a fragment 8 bytes to the front of its datagram.
fn overlap(frame: &mut [u8], v6: bool) {
    let at = if v6 { 14 + 42 } else { 14 + 6 };
    let field = u16::from_be_bytes([frame[at], frame[at + 1]]) - if v6 { 8 } else { 1 };
    frame[at..at + 2].copy_from_slice(&field.to_be_bytes());
}

/// Headers in front of the fragment header are more than DPDK can take out: refused, counted, nothing overrun.
fn not_plain(eal: &Eal) {
    let mut bed = Bed::new(eal, "plain", 31);
    let frame = outer_v6(1).extension(Extension::HopByHop(vec![1, 4, 0, 0, 0, 0]));
    let parts = fragment_v6(&frame.payload(&record_of(1, 1, &inner(1400, 1))).build(), 800, 1);
    assert_eq!(parts.len(), 2);
    let out = bed.push(&parts);
    assert!(out.tunnel.is_empty() && out.host.is_empty(), "{out:?}");
    assert_eq!((bed.drops(), bed.waiting()), (vec![(DropReason::FragmentRefused, 2)], 0));
    // With other headers behind it a later fragment does not tell that it is UDP: the host's, unchanged.
    let frame = outer_v6(1).extension(Extension::Destination(vec![1, 4, 0, 0, 0, 0]));
    let parts = fragment_v6(&frame.payload(&record_of(1, 2, &inner(1400, 2))).build(), 800, 2);
    assert_eq!(bed.push(&parts).host, parts);
    // IPv4 options are copied into every piece.
    let frame = outer(1, 3).options(&[0x94, 4, 0, 0]);
    let parts = fragment_v4(&frame.payload(&record_of(1, 3, &inner(1400, 3))).build(), 800);
    assert_eq!(bed.push(&parts).tunnel, [delivered(1, &inner(1400, 3))]);
    bed.finish();
}

/// What is not a record leaves for the host in pieces that make the same datagram.
fn for_the_host(eal: &Eal) {
    let mut bed = Bed::new(eal, "host", 31);
    let payload: Vec<u8> = (0..4000u32).map(|i| 0x20 | (i * 7) as u8 & 7).collect();
    let control: [(Vec<u8>, bool, u64); 5] = [
        (outer(1, 77).payload(&payload).build(), false, 1),
        (outer(1, 78).vlan(9).options(&[0x94, 4, 0, 0]).dont_fragment().payload(&payload).build(), false, 1),
        (outer_v6(1).payload(&payload).build(), true, 1),
        (outer_v6(1).qinq(9, 10).payload(&payload).build(), true, 1),
        (outer(1, 79).ports(40000, 53).payload(&payload).build(), false, 0),
    ];
    for (n, (whole, v6, daemon)) in control.into_iter().enumerate() {
        let before = bed.totals();
        let parts = if v6 { fragment_v6(&whole, 1280, 0xcafe) } else { fragment_v4(&whole, 1280) };
        let mut shuffled = parts.clone();
        shuffled.reverse();
        let out = bed.push(&shuffled);
        assert!(out.tunnel.is_empty());
        assert!(out.host.iter().all(|f| f.len() <= usize::from(HOST_MTU) + 18), "case {n}");
        let t = bed.totals().since(&before);
        assert_eq!((t.to_daemon, t.to_host), (daemon, out.host.len() as u64), "case {n}");
        assert_eq!((t.fragments, t.reassembled), (parts.len() as u64, 1), "case {n}");
        assert!(out.host.len() > 1);
        assert_eq!(joined(&out.host, v6), joined(&parts, v6), "case {n}");
        assert!(joined(&parts, v6).1.ends_with(&payload));
    }
    assert_eq!((bed.drops(), bed.waiting()), (vec![], 0));
    bed.finish();
}

/// Joins the fragments of one datagram, in order, without the code under test: the header without what differs between
/// fragments, and the data. Panics at a gap, a wrong length or a wrong checksum.
fn joined(frames: &[Vec<u8>], v6: bool) -> (Vec<u8>, Vec<u8>) {
    let (_, l3, _) = nf_wire::ether::layer3(&frames[0]).expect("whole headers");
    let (mut header, mut data) = (Vec::new(), Vec::new());
    for (n, frame) in frames.iter().enumerate() {
        let ip = &frame[l3..];
        let word = |at: usize| usize::from(u16::from_be_bytes([ip[at], ip[at + 1]]));
        let (at, offset, more, id) = if v6 {
            assert_eq!((word(4) + 40, ip[6]), (ip.len(), 44));
            (48, word(42) & !7, word(42) & 1 != 0, &ip[44..48])
        } else {
            let at = usize::from(ip[0] & 15) * 4;
            assert_eq!(word(2), ip.len());
            assert_eq!(nf_wire::checksum::fold(nf_wire::checksum::sum(&ip[..at])), 0xffff, "header checksum");
            (at, (word(6) & 0x1fff) * 8, word(6) & 0x2000 != 0, &ip[4..6])
        };
        assert_eq!((offset, more), (data.len(), n + 1 < frames.len()));
        data.extend(&ip[at..]);
        // Addresses, protocol, identification, tags: what must be the same in all.
        let same = if v6 { [&ip[8..41], id].concat() } else { [&ip[8..10], &ip[12..at], id].concat() };
        let same = [&frame[..l3], &same].concat();
        assert!(n == 0 || same == header);
        header = same;
    }
    (header, data)
}

fn more_than_the_table_holds(eal: &Eal) {
    let mut bed = Bed::new(eal, "table", 31);
    let sent = 3 * MAX_DATAGRAMS;
    for burst in 0..sent / 256 {
        bed.push((0..256).map(|n| pieces(false, 1 + burst * 256 + n, 1400, 800).remove(0)));
    }
    assert!(bed.waiting() <= MAX_DATAGRAMS && bed.waiting() > MAX_DATAGRAMS / 2, "{}", bed.waiting());
    let refused = bed.totals().dropped(DropReason::FragmentRefused);
    assert_eq!(refused + u64::from(bed.waiting()), u64::from(sent), "{:?}", bed.drops());
    // Whole records pass all the same, and the table is of use again when the old pieces are too old.
    assert_eq!(bed.push([rig::frame(1, 900_000, 100)]).tunnel.len(), 1);
    bed.millis += TIMEOUT_MS + 1;
    bed.expire();
    assert_eq!(bed.waiting(), 0);
    assert_eq!(bed.push(pieces(false, 900_001, 1400, 800)).tunnel.len(), 1);
    bed.finish();
}

fn larger_than_a_large_buffer(eal: &Eal) {
    let mut bed = Bed::new(eal, "larger", 31);
    let room = usize::from(LARGE_ROOM) - 128;
    for v6 in [false, true] {
        // The frame that just fits, and one byte more.
        let headers = 14 + if v6 { 40 } else { 20 } + 8 + 24;
        let id = 1 + 2 * u32::from(v6);
        assert_eq!(bed.push(pieces(v6, id, room - headers, 1500)).tunnel.len(), 1, "{v6}");
        let parts = pieces(v6, id + 1, room - headers + 1, 1500);
        let before = bed.totals().dropped(DropReason::Scattered);
        assert!(bed.push(&parts).tunnel.is_empty());
        assert_eq!(bed.totals().dropped(DropReason::Scattered) - before, parts.len() as u64);
    }
    assert_eq!(bed.waiting(), 0);
    bed.finish();
}

fn no_large_buffer(eal: &Eal) {
    let mut bed = Bed::new(eal, "none", 1);
    let large = bed.large.clone();
    let held = large.alloc().expect("the only one");
    assert!(bed.push(pieces(false, 1, 1400, 800)).tunnel.is_empty());
    assert_eq!((bed.drops(), bed.waiting()), (vec![(DropReason::Scattered, 2)], 0));
    drop(held);
    assert_eq!(bed.push(pieces(false, 2, 1400, 800)).tunnel, [delivered(1, &inner(1400, 2))]);
    drop(large);
    bed.finish();
}

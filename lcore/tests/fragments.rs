//! `rte_ip_frag` under the inbound path: records in pieces come out whole, and what is not a record goes to the host.

mod common;
mod rig;

use lcore::Eal;
use nf_path::twin::craft::{Extension, Frame, fragment_v4, fragment_v6};
use nf_path::verdict::DropReason;
use rig::pieces::{Bed, pieces};
use rig::{HOST_MTU, delivered, inner, outer, outer_v6, record_of};

#[test]
fn records_in_pieces() {
    let eal = common::eal("fragments");
    whole_in_any_order(&eal);
    tags_and_padding(&eal);
    not_plain(&eal);
    for_the_host(&eal);
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
                assert!(
                    out.tunnel.is_empty() && out.host.is_empty(),
                    "waits for the others"
                );
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
    let many: Vec<_> = (first..first + 20)
        .map(|id| pieces(id % 2 == 0, id, 1500, 640))
        .collect();
    let mut burst: Vec<Vec<u8>> = (0..3)
        .flat_map(|at| many.iter().map(move |parts| parts[at].clone()))
        .collect();
    burst.insert(30, rig::frame(1, first + 20, 100));
    let out = bed.push(&burst);
    let mut got = out.tunnel;
    let mut expected: Vec<_> = (first..first + 20)
        .map(|id| delivered(1, &inner(1500, id)))
        .collect();
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
            let whole = frame
                .clone()
                .id(id as u16)
                .payload(&record_of(1, id, &inner(1440, id)))
                .build();
            let mut parts = if v6 {
                fragment_v6(&whole, 48 + 1456, id)
            } else {
                fragment_v4(&whole, 20 + 1456)
            };
            assert_eq!(parts.len(), 2);
            let last = &mut parts[1];
            last.resize(last.len().max(60) + 18, 0xee);
            if reversed {
                parts.reverse();
            }
            assert_eq!(
                bed.push(&parts).tunnel,
                [delivered(1, &inner(1440, id))],
                "case {n}, {reversed}"
            );
        }
    }
    assert_eq!((bed.drops(), bed.waiting()), (vec![], 0));
    bed.finish();
}

/// Headers in front of the fragment header are more than DPDK can take out: refused, counted, nothing overrun.
fn not_plain(eal: &Eal) {
    let mut bed = Bed::new(eal, "plain", 31);
    let frame = outer_v6(1).extension(Extension::HopByHop(vec![1, 4, 0, 0, 0, 0]));
    let parts = fragment_v6(&frame.payload(&record_of(1, 1, &inner(1400, 1))).build(), 800, 1);
    assert_eq!(parts.len(), 2);
    let out = bed.push(&parts);
    assert!(out.tunnel.is_empty() && out.host.is_empty(), "{out:?}");
    assert_eq!(
        (bed.drops(), bed.waiting()),
        (vec![(DropReason::FragmentRefused, 2)], 0)
    );
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
        (
            outer(1, 78)
                .vlan(9)
                .options(&[0x94, 4, 0, 0])
                .dont_fragment()
                .payload(&payload)
                .build(),
            false,
            1,
        ),
        (outer_v6(1).payload(&payload).build(), true, 1),
        (outer_v6(1).qinq(9, 10).payload(&payload).build(), true, 1),
        (outer(1, 79).ports(40000, 53).payload(&payload).build(), false, 0),
    ];
    for (n, (whole, v6, daemon)) in control.into_iter().enumerate() {
        let before = bed.totals();
        let parts = if v6 {
            fragment_v6(&whole, 1280, 0xcafe)
        } else {
            fragment_v4(&whole, 1280)
        };
        let mut shuffled = parts.clone();
        shuffled.reverse();
        let out = bed.push(&shuffled);
        assert!(out.tunnel.is_empty());
        assert!(
            out.host.iter().all(|f| f.len() <= usize::from(HOST_MTU) + 18),
            "case {n}"
        );
        let t = bed.totals().since(&before);
        assert_eq!(
            (t.to_daemon, t.to_host),
            (daemon, out.host.len() as u64),
            "case {n}"
        );
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
            assert_eq!(
                nf_wire::checksum::fold(nf_wire::checksum::sum(&ip[..at])),
                0xffff,
                "header checksum"
            );
            (at, (word(6) & 0x1fff) * 8, word(6) & 0x2000 != 0, &ip[4..6])
        };
        assert_eq!((offset, more), (data.len(), n + 1 < frames.len()));
        data.extend(&ip[at..]);
        // Addresses, protocol, identification, tags: what must be the same in all.
        let same = if v6 {
            [&ip[8..41], id].concat()
        } else {
            [&ip[8..10], &ip[12..at], id].concat()
        };
        let same = [&frame[..l3], &same].concat();
        assert!(n == 0 || same == header);
        header = same;
    }
    (header, data)
}

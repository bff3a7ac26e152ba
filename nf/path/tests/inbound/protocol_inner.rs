//! The receive path from the authentic record on: rows 10 to 15.

use crate::protocol::{datagram, dropped, heard};
use crate::support::*;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::inner_v6;
use nf_path::verdict::DropReason;
use nf_wire::keepalive::PING;

#[test]
fn row_10_last_heard_moves_with_every_authentic_record_and_no_other() {
    let ping = record_of(1, 0, 1, &PING);
    let mut bed = Bed::default();
    bed.at(777).push([datagram(&ping)]);
    assert_eq!(bed.peer_counters(1), [1, 40, 0, 0, 1, 777]);
    for (plaintext, reason) in [(&b""[..], DropReason::Empty), (b"\x28exit", DropReason::NotIp)] {
        let payload = record_of(1, 0, 1, plaintext);
        assert_eq!(dropped(&payload, reason), heard(&payload));
    }
}

#[test]
fn row_12_the_version_nibble_and_the_header_length_decide() {
    for (first, len, passes) in [
        (0x45, 20, true),
        (0x45, 19, false),
        (0x40, 20, true),
        (0x4f, 20, true),
        (0x60, 40, true),
        (0x60, 39, false),
        (0x6f, 41, true),
        (0x45, 1, false),
        (0x60, 1, false),
        (0x55, 60, false),
        (0x00, 60, false),
        (0xff, 60, false),
    ] {
        // No header length, total length or checksum is looked at.
        let mut plaintext = vec![0xff; len];
        plaintext[0] = first;
        let payload = record_of(1, 0, 1, &plaintext);
        if !passes {
            assert_eq!(dropped(&payload, DropReason::NotIp), heard(&payload));
            continue;
        }
        let mut bed = Bed::default();
        assert_eq!(
            bed.push([datagram(&payload)]).inner(),
            [&plaintext[..]],
            "{first:#x} {len}"
        );
    }
}

#[test]
fn row_12a_empty_is_dropped_and_the_exact_ping_consumed() {
    let empty = record_of(1, 0, 1, b"");
    assert_eq!(dropped(&empty, DropReason::Empty), heard(&empty));
    let mut bed = Bed::default();
    let out = bed.push([datagram(&record_of(1, 0, 1, &PING))]);
    assert_eq!(
        (
            out.delivered(),
            out.host.len(),
            bed.drops().len(),
            bed.totals().keepalives
        ),
        (0, 0, 0, 1)
    );
}

/// A5.
#[test]
fn row_12a_what_is_nearly_a_ping_is_none() {
    let longer = [&PING[..], &[0]].concat();
    let mut near = vec![longer, PING[..15].to_vec()];
    near.extend((1..16).map(|i| {
        let mut ping = PING.to_vec();
        ping[i] ^= 1;
        ping
    }));
    for plaintext in near {
        let payload = record_of(1, 0, 1, &plaintext);
        assert_eq!(dropped(&payload, DropReason::NotIp), heard(&payload));
    }
}

#[test]
fn row_15_vpn_counters_move_for_delivered_packets_only() {
    let mut bed = Bed::default();
    let v6 = inner_v6("fd00::2".parse().unwrap(), "fd00::1".parse().unwrap(), 52, 4);
    bed.at(5).push([
        buf(1, 1, 100),
        datagram(&record_of(1, 0, 2, &PING)),
        datagram(&record_of(1, 0, 3, b"none")),
        datagram(&record_of(1, 0, 4, &v6)),
        buf(1, 1, 100),
    ]);
    let link = 2 * 124 + 40 + 28 + 76;
    assert_eq!(bed.peer_counters(1), [5, link, 2, 152, 1, 5]);
}

#[test]
fn row_15_what_the_tunnel_does_not_take_is_in_no_vpn_counter() {
    use nf_path::burst::{MAX_BURST, Outputs};
    let mut bed = Bed::default();
    let mut out = Outputs::new(2);
    out.tunnels[0].extend((1..MAX_BURST).map(|_| HeapBuf::new(b"earlier")));
    bed.push_into([buf(1, 1, 100), buf(1, 2, 100)], &mut out);
    assert_eq!(bed.drops(), [(DropReason::TunnelFull, 1)]);
    assert_eq!(bed.peer_counters(1)[2..4], [1, 100]);
}

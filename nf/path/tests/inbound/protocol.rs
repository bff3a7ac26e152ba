//! The receive path row by row: what is checked in which order, and which counters move. Rows are those of the Linux
//! `ovpn` driver's receive path.

use crate::support::*;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::Frame;
use nf_path::verdict::DropReason;
use nf_state::Slot;
use nf_wire::record::HeaderWord;

/// A datagram from peer 1's address to the listening one.
pub fn datagram(payload: &[u8]) -> HeapBuf {
    HeapBuf::new(&outer(1).payload(payload).build())
}

/// One datagram of peer 1 is dropped for `reason`; gives the peer's counters.
#[track_caller]
pub fn dropped(payload: &[u8], reason: DropReason) -> [u64; 6] {
    let mut bed = Bed::default();
    let out = bed.at(777).push([datagram(payload)]);
    assert_eq!(
        (out.delivered(), out.host.len(), bed.drops()),
        (0, 0, vec![(reason, 1)])
    );
    bed.peer_counters(1)
}

/// Counters that never moved.
pub const NOTHING: [u64; 6] = [0; 6];

/// Link counters only.
pub fn link(payload: &[u8]) -> [u64; 6] {
    [1, payload.len() as u64, 0, 0, 0, 0]
}

/// Link counters and the time of the last authentic record.
pub fn heard(payload: &[u8]) -> [u64; 6] {
    [1, payload.len() as u64, 0, 0, 0, 777]
}

#[test]
fn row_02_at_least_four_bytes_even_of_a_control_packet() {
    for first_byte in [0x48, 0x20, 0x38, 0x30, 0x00] {
        for len in 0..4 {
            assert_eq!(dropped(&[first_byte; 4][..len], DropReason::TooShort), NOTHING);
        }
    }
    let mut bed = Bed::default();
    assert_eq!(
        bed.push([datagram(&[0x20; 4])]).host.len(),
        1,
        "four are enough for the daemon"
    );
}

#[test]
fn row_03_data_v1_drops_and_every_other_opcode_is_the_daemons_unchanged() {
    for opcode in (0..32u8).filter(|opcode| *opcode != 9) {
        for key_id in [0, 7] {
            let mut payload = record_of(1, 0, 1, &inner(1, 60, 1));
            payload[0] = opcode << 3 | key_id;
            if opcode == 6 {
                assert_eq!(dropped(&payload, DropReason::DataV1), NOTHING);
                continue;
            }
            let mut bed = Bed::default();
            // From an address that is no peer's, too.
            let sent = [outer(1), outer(1).ports(9, 1194), outer_v6(3)].map(|f| f.payload(&payload).build());
            let out = bed.push(sent.iter().map(|frame| HeapBuf::new(frame).offload(5)));
            let host: Vec<_> = out
                .host
                .iter()
                .map(|got| (got.frame.clone(), got.flags))
                .collect();
            assert_eq!(host, sent.map(|frame| (frame, 5)), "opcode {opcode}");
            assert_eq!(
                (bed.totals().to_daemon, bed.totals().to_host, bed.drops().len()),
                (3, 3, 0)
            );
            assert_eq!(bed.peer_counters(1), NOTHING);
        }
    }
}

#[test]
fn row_03_other_ports_and_addresses_are_the_hosts() {
    let mut bed = Bed::default();
    let record = record_of(1, 0, 1, &inner(1, 60, 1));
    let to = |to: &str| {
        HeapBuf::new(
            &Frame::udp("198.51.100.1:40001".parse().unwrap(), to.parse().unwrap())
                .payload(&record)
                .build(),
        )
    };
    let out = bed.push([to("192.0.2.1:1196"), to("192.0.2.3:1194"), to("192.0.2.2:1195")]);
    assert_eq!(
        (out.host.len(), bed.totals().to_daemon),
        (3, 0),
        "DATA_V2 to any other host is not ours"
    );
}

#[test]
fn row_04_the_peer_id_finds_the_peer_whatever_the_source() {
    let mut bed = Bed::default();
    let sources = [outer(1), outer(2), outer(1).ports(7, 1194), outer_v6(4)];
    for (id, from) in (1..).zip(sources) {
        let out = bed.push([HeapBuf::new(
            &from.payload(&record_of(1, 0, id, &inner(1, 60, id))).build(),
        )]);
        assert_eq!((out.numbers(), out.tunnels[0][0].inner().0), (vec![id], 1));
    }
    assert_eq!(bed.peer_counters(1)[0], 4);
}

#[test]
fn row_04_unknown_peers_never_reach_the_daemon() {
    for peer in [0, 9, 0x1001, 0xff_fffe] {
        // Before the key, the length, and the tag.
        assert_eq!(
            dropped(&record_of(peer, 5, 1, b"")[..4], DropReason::UnknownPeer),
            NOTHING
        );
        assert_eq!(
            dropped(&record_of(peer, 0, 1, &inner(1, 60, 1)), DropReason::UnknownPeer),
            NOTHING
        );
    }
    assert_eq!(dropped(&[0x48, 0, 0, 9], DropReason::UnknownPeer), NOTHING);
}

#[test]
fn row_05_link_counters_move_before_any_authentication() {
    for payload in [
        record_of(1, 3, 1, &inner(1, 60, 1)),
        record_of(1, 0, 1, b"")[..23].to_vec(),
        record_of(1, 0, 0, &inner(1, 60, 1)),
        record_of(2, 0, 1, &inner(1, 60, 1))
            .iter()
            .enumerate()
            .map(|(i, b)| if i == 3 { 1 } else { *b })
            .collect(),
    ] {
        let mut bed = Bed::default();
        bed.at(777).push([datagram(&payload)]);
        assert_eq!(bed.peer_counters(1), link(&payload), "{:?}", bed.drops());
    }
}

#[test]
fn row_06_the_key_is_the_primarys_else_the_secondarys() {
    for key_id in 2..8 {
        let payload = record_of(1, key_id, 1, &inner(1, 60, 1));
        assert_eq!(dropped(&payload, DropReason::NoKey), link(&payload));
    }
    let mut bed = Bed::default();
    let with = |key_id, id| datagram(&record_of(1, key_id, id, &inner(1, 60, id)));
    assert_eq!(bed.push([with(0, 1), with(1, 2)]).numbers(), [1, 2]);
    // Both slots with id 1: the primary wins.
    let (k, tail) = key(2, 1);
    drop(
        bed.peer(1)
            .keys
            .install(Slot::Primary, key_slot(CIPHER, 1, &k, tail)),
    );
    assert_eq!(bed.push([with(1, 3)]).delivered(), 0);
    assert_eq!(bed.drops(), [(DropReason::BadTag, 1)]);
    bed.peer(1).keys.swap();
    assert_eq!(bed.push([with(1, 4)]).numbers(), [4]);
}

#[test]
fn row_06_the_key_comes_before_the_length() {
    let payload = [0x4d, 0, 0, 1];
    assert_eq!(dropped(&payload, DropReason::NoKey), link(&payload));
}

#[test]
fn row_07_at_least_24_bytes() {
    let whole = record_of(1, 0, 1, b"");
    for len in 4..24 {
        assert_eq!(
            dropped(&whole[..len], DropReason::ShortRecord),
            link(&whole[..len])
        );
    }
}

#[test]
fn row_08_any_changed_bit_of_tag_id_or_ciphertext_fails_and_moves_nothing() {
    let good = record_of(1, 0, 5, &inner(1, 60, 5));
    for byte in 4..good.len() {
        let mut bad = good.clone();
        bad[byte] ^= 0x80;
        let mut bed = Bed::default();
        bed.at(777).push([datagram(&bad)]);
        assert_eq!(
            (bed.drops(), bed.peer_counters(1)),
            (vec![(DropReason::BadTag, 1)], link(&bad)),
            "byte {byte}"
        );
        assert_eq!(
            bed.push([datagram(&good)]).numbers(),
            [5],
            "the window did not move"
        );
    }
}

#[test]
fn row_08_peer_id_and_key_id_are_authenticated() {
    // The same key material under another name must not open it.
    let mut bed = Bed::default();
    let (k, tail) = key(1, 0);
    for (peer, key_id) in [(2, 0), (1, 2)] {
        drop(
            bed.peer(peer)
                .keys
                .install(Slot::Secondary, key_slot(CIPHER, key_id, &k, tail)),
        );
        let mut payload = record_of(1, 0, 5, &inner(1, 60, 5));
        payload[..4].copy_from_slice(&HeaderWord::data_v2(key_id, peer).0.to_be_bytes());
        assert_eq!(bed.push([datagram(&payload)]).delivered(), 0);
    }
    assert_eq!(bed.drops(), [(DropReason::BadTag, 2)]);
}

#[test]
fn row_09_replays_move_link_counters_only() {
    let mut bed = Bed::default();
    bed.at(100).push([buf(1, 3000, 60)]);
    let before = bed.peer_counters(1);
    bed.at(900).push([buf(1, 3000, 60), buf(1, 1, 60), buf(1, 0, 60)]);
    let replay = [
        (DropReason::ReplayZero, 1),
        (DropReason::ReplayOld, 1),
        (DropReason::ReplayDuplicate, 1),
    ];
    assert_eq!(bed.drops(), replay);
    assert_eq!(bed.peer_counters(1), [4, 4 * 84, 1, 60, 0, before[5]]);
}

#[test]
fn row_09_two_equal_ids_in_one_batch_the_second_is_a_duplicate() {
    let mut bed = Bed::default();
    let out = bed.push([buf(1, 1, 60), buf(1, 1, 60), buf(1, 2, 60), buf(1, 2, 60)]);
    assert_eq!((out.numbers(), bed.batches(4)), (vec![1, 2], 1));
    assert_eq!(bed.drops(), [(DropReason::ReplayDuplicate, 2)]);
}

//! The judge of the tests with two gateways sees each fault that it is there for.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/judge.rs"]
mod judge;
#[path = "support/pair.rs"]
mod pair;

use etherparse::PacketBuilder;
use judge::inner::{Crossing, Tap, compare};
use judge::outer::{Gateway, Outer, Rules, check};
use judge::packet::Ip;

const OWN: [u8; 6] = [6, 0, 0, 0, 0, 1];
const PEER: [u8; 6] = [2, 0x6f, 0x76, 0, 0, 1];
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// Puts the right IPv4 header checksum into a frame.
fn finish_header(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum = etherparse::checksum::Sum16BitWords::new().add_slice(&frame[14..34]);
    // As it lies in memory, like the words that were added.
    frame[24..26].copy_from_slice(&sum.ones_complement().to_ne_bytes());
}

/// A UDP packet in a frame.
fn udp(src: [u8; 6], dst: [u8; 6], port: u16, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(src, dst)
        .ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
        .udp(port, 1194);
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).expect("room");
    // The builder sets DF.
    frame[20] &= !0x40;
    finish_header(&mut frame);
    frame
}

fn sent(numbers: &[u8]) -> Vec<Vec<u8>> {
    numbers.iter().map(|n| udp(OWN, PEER, 7, &[*n; 9])).collect()
}

fn received(numbers: &[u8]) -> Vec<Vec<u8>> {
    numbers.iter().map(|n| udp(PEER, OWN, 7, &[*n; 9])).collect()
}

fn crossed(sent: &[Vec<u8>], received: &[Vec<u8>]) -> Crossing {
    compare(&Tap::sort(sent, OWN).sent, Tap::sort(received, OWN))
}

#[track_caller]
fn crossing_is(crossing: &Crossing, missing: usize, faults: &[&str]) {
    assert_eq!(crossing.missing.len(), missing, "{crossing}");
    assert_eq!(crossing.faults.len(), faults.len(), "{crossing}");
    for (fault, expected) in crossing.faults.iter().zip(faults) {
        assert!(fault.contains(expected), "{expected}: {crossing}");
    }
}

#[test]
fn what_crosses_whole_and_in_order_is_right() {
    crossing_is(&crossed(&sent(&[1, 2, 3]), &received(&[1, 2, 3])), 0, &[]);
    // Equal packets stand for each other.
    crossing_is(&crossed(&sent(&[1, 1, 2]), &received(&[1, 1, 2])), 0, &[]);
}

#[test]
fn lost_late_doubled_and_foreign_packets_are_told_apart() {
    crossing_is(&crossed(&sent(&[1, 2, 3]), &received(&[1, 3])), 1, &[]);
    crossing_is(&crossed(&sent(&[1, 1, 2]), &received(&[1, 2])), 1, &[]);
    crossing_is(&crossed(&sent(&[1, 2, 3]), &received(&[1, 3, 2])), 0, &["late"]);
    crossing_is(&crossed(&sent(&[1, 2]), &received(&[1, 2, 2])), 0, &["before"]);
    crossing_is(
        &crossed(&sent(&[1, 2]), &received(&[1, 4])),
        1,
        &["did not go in"],
    );
}

#[test]
fn another_flow_may_overtake() {
    let mut frames = [udp(OWN, PEER, 7, b"a"), udp(OWN, PEER, 8, b"b")];
    let arrived = [udp(PEER, OWN, 8, b"b"), udp(PEER, OWN, 7, b"a")];
    crossing_is(&crossed(&frames, &arrived), 0, &[]);
    // Packets without a checksum have to stay so.
    frames[0][40..42].fill(0);
    crossing_is(&crossed(&frames, &arrived), 1, &["did not go in"]);
}

#[test]
fn an_unfinished_checksum_may_go_in_but_not_come_out() {
    let (mut going, mut coming) = (sent(&[1]), received(&[1]));
    going[0][40..42].copy_from_slice(&[1, 2]);
    crossing_is(&crossed(&going, &coming), 0, &[]);
    coming[0][40..42].copy_from_slice(&[1, 2]);
    crossing_is(&crossed(&going, &coming), 0, &["wrong checksum"]);
}

#[test]
fn a_changed_byte_shows() {
    // TTL with a checksum that agrees, and a byte of the payload with a wrong one.
    let mut frames = received(&[1]);
    frames[0][22] -= 1;
    frames[0][24] += 1;
    assert!(Ip::parse(&frames[0][14..]).is_ok_and(|ip| ip.header_right));
    crossing_is(&crossed(&sent(&[1]), &frames), 1, &["did not go in"]);
    let mut frames = received(&[1]);
    frames[0][45] ^= 1;
    crossing_is(
        &crossed(&sent(&[1]), &frames),
        1,
        &["wrong checksum", "did not go in"],
    );
}

#[test]
fn a_delivered_frame_has_a_peers_address_and_true_lengths() {
    let mut frames = received(&[1]);
    frames[0][6] = 8;
    crossing_is(&crossed(&sent(&[1]), &frames), 0, &["from"]);
    let mut frames = received(&[1]);
    frames[0].pop();
    assert_eq!(crossed(&sent(&[1]), &frames).faults.len(), 1);
}

#[test]
fn the_mss_may_shrink_but_not_grow() {
    let syn = |src, dst, mss: u16| {
        let options = [etherparse::TcpOptionElement::MaximumSegmentSize(mss)];
        let builder = PacketBuilder::ethernet2(src, dst)
            .ipv6([1; 16], [2; 16], 64)
            .tcp(1, 2, 3, 4)
            .syn()
            .options(&options)
            .expect("room");
        let mut frame = Vec::new();
        builder.write(&mut frame, &[]).expect("room");
        vec![frame]
    };
    let going = syn(OWN, PEER, 1440);
    crossing_is(&crossed(&going, &syn(PEER, OWN, 1300)), 0, &[]);
    crossing_is(&crossed(&going, &syn(PEER, OWN, 1441)), 0, &["MSS"]);
}

fn rules() -> Rules {
    let gateway = |n: u8| Gateway {
        address: [192, 0, 2, n + 1].into(),
        mac: MACS[usize::from(n)],
        ports: vec![1194, 1195],
    };
    Rules {
        gateways: [gateway(0), gateway(1)],
        mtu: 1500,
        peers: 2,
        ids_in_order: true,
    }
}

/// A record of the left gateway.
fn record(id: u32, text: usize) -> Vec<u8> {
    let mut record = vec![0x48, 0, 0, 1];
    record.extend(id.to_be_bytes());
    record.resize(24 + text, 0x5a);
    udp(MACS[0], MACS[1], 1195, &record)
}

/// A frame in pieces, cut behind so many bytes of the IP payload.
fn cut(frame: &[u8], at: usize) -> [Vec<u8>; 2] {
    let piece = |offset: usize, payload: &[u8], more: bool| {
        let mut piece = frame[..34].to_vec();
        piece.extend(payload);
        let word = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
        piece[16..18].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
        piece[20..22].copy_from_slice(&word.to_be_bytes());
        finish_header(&mut piece);
        piece
    };
    let payload = &frame[34..];
    [piece(0, &payload[..at], true), piece(at, &payload[at..], false)]
}

#[track_caller]
fn outer_is(frames: &[Vec<u8>], faults: &[&str]) -> Outer {
    let outer = check(frames, &rules());
    assert_eq!(outer.faults.len(), faults.len(), "{outer}");
    for (fault, expected) in outer.faults.iter().zip(faults) {
        assert!(fault.contains(expected), "{expected}: {outer}");
    }
    outer
}

#[test]
fn records_that_are_right_pass() {
    let outer = outer_is(&[record(1, 20), record(2, 1400), record(9, 16)], &[]);
    assert_eq!(outer.records, [3, 0]);
    assert_eq!(outer.keepalive_sized, [1, 0]);
    assert_eq!(outer.ids[&(0, 1, 0)], (1, 9, 3));
    // A stranger's frame is not ours to judge.
    let stranger = udp([8; 6], MACS[1], 1194, b"");
    assert_eq!(outer_is(&[stranger], &[]).others, 1);
}

#[test]
fn ids_that_repeat_or_go_back_show() {
    outer_is(&[record(2, 1), record(2, 2)], &["again", "after"]);
    outer_is(&[record(2, 1), record(1, 1)], &["after"]);
    outer_is(&[record(0, 1)], &["packet id 0", "after"]);
}

#[test]
fn each_field_of_an_outer_packet_is_judged() {
    let changed = |at: usize, value: u8| {
        let mut frame = record(1, 20);
        frame[at] = value;
        // The header checksum fits again where the header was changed.
        if (14..34).contains(&at) {
            finish_header(&mut frame);
        }
        vec![frame]
    };
    outer_is(&changed(15, 4), &["TOS 4"]);
    outer_is(&changed(20, 0x40), &["DF"]);
    outer_is(&changed(22, 63), &["TTL 63"]);
    outer_is(&changed(29, 7), &["from 192.0.2.7", "UDP checksum"]);
    outer_is(&changed(33, 7), &["to 192.0.2.7", "UDP checksum"]);
    outer_is(&changed(0, 4), &["to [04"]);
    outer_is(&changed(35, 1), &["UDP port", "UDP checksum"]);
    outer_is(&changed(39, 9), &["UDP length", "UDP checksum"]);
    outer_is(&changed(42, 0x38), &["UDP checksum", "opcode 7"]);
    outer_is(&changed(45, 2), &["UDP checksum", "peer 2"]);
    let mut frames = vec![record(1, 20)];
    frames[0][24] ^= 1;
    outer_is(&frames, &["IPv4 header checksum"]);
    let mut frames = vec![record(1, 20)];
    frames[0][40..42].fill(0);
    outer_is(&frames, &["UDP checksum"]);
}

#[test]
fn lengths_that_lie_show() {
    let mut long = record(1, 20);
    long.push(0);
    outer_is(&[long], &["1 bytes more"]);
    let mut short = record(1, 20);
    short.pop();
    assert_eq!(check(&[short], &rules()).faults.len(), 1);
    outer_is(&[record(1, 1500)], &["1552 bytes"]);
    outer_is(&[record(1, 0)], &["a datagram of 32 bytes"]);
}

#[test]
fn fragments_have_to_fit_together() {
    let whole = record(1, 1500);
    let [one, two] = cut(&whole, 800);
    let outer = outer_is(&[one.clone(), two.clone()], &[]);
    assert_eq!((outer.records, outer.fragmented), ([1, 0], [1, 0]));
    outer_is(&[two.clone(), one.clone()], &[]);
    outer_is(std::slice::from_ref(&one), &["never got whole"]);
    let [_, overlapping] = cut(&whole, 792);
    outer_is(&[one, overlapping], &["overlap", "never got whole"]);
    let [odd, rest] = cut(&whole, 801);
    let outer = check(&[odd, rest], &rules());
    assert!(outer.faults[0].contains("multiple of 8"), "{outer}");
}

#[test]
fn the_data_of_a_fragment_is_not_taken_for_discovery() {
    let fragment = |src: [u8; 6], dst: [u8; 6]| {
        let mut frame = [dst, src].concat();
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, 44, 64]);
        frame.extend([[1; 16], [2; 16]].concat());
        // The second fragment of ICMPv6, whose data begins like a neighbour solicitation.
        frame.extend([58, 0, 0x05, 0x00, 0, 0, 0, 7, 135, 0, 0, 0, 0, 0, 0, 0]);
        vec![frame]
    };
    crossing_is(&crossed(&fragment(OWN, PEER), &[]), 1, &[]);
    crossing_is(&crossed(&fragment(OWN, PEER), &fragment(PEER, OWN)), 0, &[]);
}

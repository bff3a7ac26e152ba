//! Frames made by hand: good ones of many kinds, and malformed ones of every kind.

#![allow(dead_code, reason = "no test uses all of it")]

use etherparse::PacketBuilder;
use std::net::{IpAddr, SocketAddr};

/// A frame and what it is.
pub type Named = (String, Vec<u8>);

/// An Ethernet frame.
pub fn frame(dst: [u8; 6], src: [u8; 6], ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&dst[..], &src, &ether_type.to_be_bytes(), payload].concat()
}

/// An Ethernet frame with an IP packet and a UDP datagram, all lengths and checksums right.
pub fn udp([dst, src]: [[u8; 6]; 2], from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2(src, dst);
    let ip = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ethernet.ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => ethernet.ipv6(from.octets(), to.octets(), 64),
        _ => unreachable!("one header has both"),
    };
    let mut frame = Vec::new();
    ip.udp(from.port(), to.port())
        .write(&mut frame, payload)
        .expect("it fits");
    frame
}

/// An ICMP or ICMPv6 echo request.
pub fn echo([dst, src]: [[u8; 6]; 2], from: IpAddr, to: IpAddr, sequence: u16, payload: &[u8]) -> Vec<u8> {
    let (ethernet, mut frame) = (PacketBuilder::ethernet2(src, dst), Vec::new());
    let written = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ethernet
            .ipv4(from.octets(), to.octets(), 64)
            .icmpv4_echo_request(7, sequence)
            .write(&mut frame, payload),
        (IpAddr::V6(from), IpAddr::V6(to)) => ethernet
            .ipv6(from.octets(), to.octets(), 64)
            .icmpv6_echo_request(7, sequence)
            .write(&mut frame, payload),
        _ => unreachable!("one header has both"),
    };
    written.expect("it fits");
    frame
}

/// With an 802.1Q tag.
pub fn tagged(mut frame: Vec<u8>, id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    frame.splice(12..12, [0x81, 0x00, high, low]);
    frame
}

/// This many bytes, by a seed.
fn bytes(n: usize, seed: u8) -> Vec<u8> {
    (0..n).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect()
}

/// Frames that are none of a gateway's: to `dst` or to groups, each another one, the longest of 1514 bytes, or 1518 with
/// a tag.
pub fn foreign(dst: [u8; 6], src: [u8; 6], from: [IpAddr; 2], to: [IpAddr; 2]) -> Vec<Named> {
    let mut frames = Vec::new();
    let mut add = |name: &str, frame: Vec<u8>| frames.push((name.to_owned(), frame));
    for (i, version) in ["IPv4", "IPv6"].into_iter().enumerate() {
        let (from, to) = (SocketAddr::new(from[i], 40_000), SocketAddr::new(to[i], 40_001));
        let headers = [28, 48][i];
        for size in [0, 1, 2, 17, 18, 576, 1500 - headers] {
            add(
                &format!("{version}, UDP, {size}"),
                udp([dst, src], from, to, &bytes(size, 1)),
            );
        }
        // What looks like a record, but to another port and to another host.
        add(
            &format!("{version}, record to another port"),
            udp([dst, src], from, to, &[0x48; 64]),
        );
        let other_host = match to.ip() {
            IpAddr::V4(_) => "192.0.2.77:1194",
            IpAddr::V6(_) => "[2001:db8::77]:1194",
        };
        let other_host = other_host.parse().expect("an address");
        add(
            &format!("{version}, record to another host"),
            udp([dst, src], from, other_host, &[0x48; 64]),
        );
        add(
            &format!("{version}, echo"),
            echo([dst, src], from.ip(), to.ip(), 1, &bytes(56, 2)),
        );
        add(
            &format!("{version}, tagged"),
            tagged(udp([dst, src], from, to, &bytes(1500 - headers, 3)), 0x2000 | 42),
        );
    }
    frames.extend(no_ip(dst, src));
    frames
}

/// Frames that hold no IP, and short ones.
fn no_ip(dst: [u8; 6], src: [u8; 6]) -> Vec<Named> {
    let mut frames = Vec::new();
    let mut add = |name: &str, frame: Vec<u8>| frames.push((name.to_owned(), frame));
    let others = [
        ("ARP", 0x0806, 28),
        ("padded ARP", 0x0806, 46),
        ("LLDP", 0x88cc, 46),
        ("unknown", 0x88b5, 100),
        ("unknown, longest", 0x88b5, 1500),
        ("MPLS", 0x8847, 64),
        ("802.3 length", 0x0026, 46),
        ("flow control", 0x8808, 46),
        ("PPPoE", 0x8864, 200),
    ];
    for (name, ether_type, len) in others {
        add(name, frame(dst, src, ether_type, &bytes(len, 4)));
        add(
            &format!("{name}, tagged"),
            tagged(frame(dst, src, ether_type, &bytes(len, 4)), 7),
        );
    }
    let groups = [
        [0xff; 6],
        [0x01, 0x80, 0xc2, 0, 0, 0x0e],
        [0x01, 0, 0x5e, 0, 0, 5],
        [0x33, 0x33, 0, 0, 0, 1],
    ];
    for group in groups {
        add(
            &format!("to {group:02x?}"),
            frame(group, src, 0x88b5, &bytes(64, group[5])),
        );
    }
    // Header only, and short ones that nobody padded.
    for len in [0, 1, 2, 10, 45, 46, 47] {
        add(&format!("{len} bytes"), frame(dst, src, 0x88b5, &bytes(len, 5)));
    }
    frames
}

/// Frames that break a rule, to this listening address and from some other address and port.
pub fn malformed(macs: [[u8; 6]; 2], from: SocketAddr, listen: SocketAddr) -> Vec<Named> {
    let mut record = vec![0x48, 0, 0, 0, 0, 0, 0, 1];
    record.extend([0xa5; 56]);
    let good = udp(macs, from, listen, &record);
    let mut frames = Vec::new();
    // Lengths that say more than there is.
    for len in 14..good.len() {
        frames.push((format!("cut at {len}"), good[..len].to_vec()));
    }
    let layer4 = if listen.is_ipv4() { 34 } else { 54 };
    frames.extend(if listen.is_ipv4() {
        broken_v4(&good)
    } else {
        broken_v6(&good)
    });
    for len in [0u16, 1, 7, 8, 9, 11, 71, 73, 1400, 0xffff] {
        let mut frame = good.clone();
        frame[layer4 + 4..layer4 + 6].copy_from_slice(&len.to_be_bytes());
        frames.push((format!("UDP length {len}"), frame));
    }
    frames.extend(no_records(macs, from, listen, &record));
    // The kernel at either end drops a frame that has less than two bytes behind its tag.
    let tags: Vec<Named> = frames
        .iter()
        .filter(|(_, f)| f.len() >= 16)
        .map(|(name, f)| (format!("{name}, tagged"), tagged(f.clone(), 5)))
        .collect();
    frames.extend(tags);
    for tags in 2..12 {
        let frame = (0..tags).fold(good.clone(), |f, _| tagged(f, 9));
        frames.push((format!("{tags} tags"), frame.clone()));
        frames.push((
            format!("{tags} tags and no more"),
            frame[..12 + 4 * tags].to_vec(),
        ));
    }
    for ether_type in [0x0806u16, 0x86dd, 0x0800, 0x8100, 0x88a8, 0x0000, 0xffff] {
        let mut frame = good.clone();
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        frames.push((format!("EtherType {ether_type:#06x}"), frame));
    }
    frames
}

/// Datagrams to the listening address that are no good record of a peer that is there, which `record` would be but for
/// its tag.
fn no_records(macs: [[u8; 6]; 2], from: SocketAddr, listen: SocketAddr, record: &[u8]) -> Vec<Named> {
    let mut frames = Vec::new();
    for len in 0..28 {
        frames.push((
            format!("datagram of {len} bytes"),
            udp(macs, from, listen, &record[..len]),
        ));
    }
    for first in 0..=255u8 {
        // All opcodes and key ids; record 0 of a peer that is there, with a wrong tag.
        let mut record = record.to_vec();
        record[0] = first;
        frames.push((
            format!("header byte {first:#x}"),
            udp(macs, from, listen, &record),
        ));
    }
    for (name, at, bytes) in [
        ("unknown peer", 1, &[0x12, 0x34, 0x56][..]),
        ("undefined peer", 1, &[0xff; 3]),
        ("id 0", 4, &[0; 4]),
        ("last id", 4, &[0xff; 4]),
    ] {
        let mut record = record.to_vec();
        record[at..at + bytes.len()].copy_from_slice(bytes);
        frames.push((name.to_owned(), udp(macs, from, listen, &record)));
    }
    frames
}

/// A changed copy, with the IPv4 header checksum right if there is one and `fix`.
fn changed(good: &[u8], at: usize, bytes: &[u8], fix: bool) -> Vec<u8> {
    let mut frame = good.to_vec();
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    if fix && frame[12..14] == [8, 0] {
        frame[24..26].fill(0);
        let sum: u32 = frame[14..34]
            .chunks(2)
            .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
            .sum();
        let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

fn broken_v4(good: &[u8]) -> Vec<Named> {
    let mut frames = Vec::new();
    for first in 0..=255u8 {
        frames.push((
            format!("version and header length {first:#x}"),
            changed(good, 14, &[first], first & 15 == 5),
        ));
    }
    for len in [0u16, 1, 19, 20, 27, 28, 29, 40, 91, 93, 1500, 0xffff] {
        frames.push((
            format!("total length {len}"),
            changed(good, 16, &len.to_be_bytes(), true),
        ));
    }
    frames.push((
        "header checksum".to_owned(),
        changed(good, 24, &[good[24] ^ 1, good[25]], false),
    ));
    // Flags and offset: more, more behind the end of any packet, a last one alone, a reserved bit, overlaps.
    for (n, flags) in [
        0x2000u16, 0x3fff, 0x1fff, 0x0001, 0x2001, 0x8000, 0xe000, 0x2004, 0x2003,
    ]
    .iter()
    .enumerate()
    {
        let frame = changed(good, 18, &(n as u16 / 3).to_be_bytes(), false);
        frames.push((
            format!("flags and offset {flags:#06x}"),
            changed(&frame, 20, &flags.to_be_bytes(), true),
        ));
    }
    frames
}

fn broken_v6(good: &[u8]) -> Vec<Named> {
    let mut frames = Vec::new();
    for first in 0..16u8 {
        frames.push((
            format!("version {first}"),
            changed(good, 14, &[first << 4], false),
        ));
    }
    for len in [0u16, 1, 7, 8, 9, 71, 73, 1460, 0xffff] {
        frames.push((
            format!("payload length {len}"),
            changed(good, 18, &len.to_be_bytes(), false),
        ));
    }
    for next in 0..=255u8 {
        frames.push((format!("next header {next}"), changed(good, 20, &[next], false)));
    }
    // Extension headers whose own length leads behind the end, and fragment headers in front of less than 8 bytes.
    for next in [0u8, 43, 44, 50, 51, 60, 135] {
        for len in [0u8, 1, 7, 8, 255] {
            let frame = changed(good, 20, &[next], false);
            frames.push((
                format!("next header {next}, length {len}"),
                changed(&frame, 54, &[next, len], false),
            ));
        }
    }
    for flags in [1u16, 0xfff9, 0xfff8, 8, 9] {
        let frame = changed(&changed(good, 20, &[44], false), 54, &[17, 0], false);
        frames.push((
            format!("fragment {flags:#06x}"),
            changed(&frame, 56, &flags.to_be_bytes(), false),
        ));
    }
    frames
}

/// Copies of good frames with a few bytes changed, the same ones in each run. None is a fragment.
pub fn mutated(good: &[Vec<u8>], n: usize) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(0x6f76_706e);
    let mut frames = Vec::new();
    while frames.len() < n {
        let mut frame = good[random.usize(..good.len())].clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(12..frame.len().min(80));
            frame[at] = random.u8(..);
        }
        if random.u8(..) < 64 {
            frame.truncate(random.usize(14..frame.len()));
        }
        // Without fragments, each frame ends in one counter.
        let is_v4_fragment =
            frame[12..14] == [8, 0] && frame.len() > 22 && (frame[20] & 0x3f != 0 || frame[21] != 0);
        let may_be_v6_fragment = frame[12..14] == [0x86, 0xdd] && frame.get(20) != Some(&17);
        let is_tagged = matches!(frame[12..14], [0x81, 0] | [0x88, 0xa8] | [0x91, 0]);
        if !is_v4_fragment && !may_be_v6_fragment && !is_tagged {
            frames.push(frame);
        }
    }
    frames
}

/// Whether a frame holds a fragment of IPv4 whose lengths are true, behind one tag at most. The kernel keeps it back from
/// net_af_packet until the datagram is complete.
pub fn is_v4_fragment(frame: &[u8]) -> bool {
    let l3 = if frame[12..14] == [0x81, 0] { 18 } else { 14 };
    let Some(header) = frame.get(l3..l3 + 20).filter(|_| frame[l3 - 2..l3] == [8, 0]) else {
        return false;
    };
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (header_len, total) = (usize::from(header[0] & 15) * 4, usize::from(word(2)));
    let lengths_true = header[0] >> 4 == 4 && header_len >= 20 && total >= header_len;
    lengths_true && l3 + total <= frame.len() && word(6) & 0x3fff != 0
}

//! Frames of every malformed kind at every port: each is counted, none does harm, and no buffer is lost.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/life.rs"]
mod life;

use gateway::{Gateway, Wire, in_namespace, ip, mac, wait_for};
use life::{Bed, LISTEN, OWN, Settings, vpn};
use nf_path::twin::craft::{self, Checksum, Frame};
use serde_json::Value;
use std::net::{Ipv6Addr, SocketAddr};

/// What a frame from the tunnel port can end as, besides being sealed.
const ENDS: [&str; 15] = [
    "tunnel_length",
    "not_ip_frame",
    "broadcast",
    "multicast",
    "unknown_mac",
    "own_outer",
    "oversize",
    "no_buffer",
    "no_primary",
    "no_packet_id",
    "no_remote",
    "no_neighbour",
    "unfragmentable",
    "scattered",
    "steer_full",
];

/// Every truncation, every byte of the first ones inverted or with its lowest bit changed, and random tails.
fn variations(frame: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = (14..frame.len().min(100))
        .map(|len| frame[..len].to_vec())
        .collect();
    for at in 0..frame.len().min(90) {
        for mask in [0xff, 1, 0x80] {
            let mut changed = frame.to_vec();
            changed[at] ^= mask;
            all.push(changed);
        }
    }
    for at in [14, 20, 30, 40] {
        let mut changed = frame.to_vec();
        changed[at..].fill_with(|| fastrand::u8(..));
        all.push(changed);
    }
    all
}

fn garbage(n: usize, head: &[u8]) -> Vec<Vec<u8>> {
    let tail = |_| {
        let len = fastrand::usize(0..1400);
        let tail = std::iter::repeat_with(|| fastrand::u8(..)).take(len);
        head.iter().copied().chain(tail).collect()
    };
    (0..n).map(tail).collect()
}

fn counters(gateway: &Gateway) -> impl Fn(&str) -> u64 + use<> {
    let (lcores, drops) = (
        gateway.telemetry("/ovpn/lcores"),
        gateway.telemetry("/ovpn/drops"),
    );
    move |name| {
        let value = if drops[name].is_null() {
            &lcores[name][0]
        } else {
            &drops[name]
        };
        value.as_u64().unwrap_or_else(|| panic!("no counter {name}"))
    }
}

/// How often a port found no buffer.
fn starved(gateway: &Gateway) -> u64 {
    let ports = gateway.telemetry("/ethdev/list");
    let of_port = |port: &Value| {
        let stats = gateway.telemetry(&format!("/ethdev/stats,{port}"));
        stats["rx_nombuf"].as_u64().unwrap_or_else(|| panic!("{stats}"))
    };
    ports.as_array().expect("an array").iter().map(of_port).sum()
}

/// As few buffers as are allowed: what is sent is more, so that each that is lost is missed.
const MBUFS: usize = 3 * 2 * 1024 + 2 * 384 + 2 * 256;

fn settings() -> Settings {
    Settings {
        general: format!("mbufs = {MBUFS}"),
        ..Settings::with_peers(1)
    }
}

/// Sends all, again and again until the pool would be used up, in portions that no queue is too short for.
fn send_all(interface: &str, gateway: &Gateway, counter: &str, frames: &[Vec<u8>]) {
    // A TAP drops what does not fit.
    ip(&["link", "set", interface, "txqueuelen", "20000"]);
    let mut wire = Wire::of(interface);
    let times = MBUFS.div_ceil(frames.len());
    let mut all = gateway.counter(counter);
    for portion in std::iter::repeat_n(frames, times).flat_map(|all| all.chunks(1000)) {
        portion.iter().for_each(|frame| wire.send(frame));
        all += portion.len() as u64;
        wait_for("the frames to be taken", || gateway.counter(counter) >= all);
    }
}

/// Traffic of a peer passes both ways.
fn passes(bed: &mut Bed) {
    let peer = bed.settings.peers[0].clone();
    let socket = bed.socket();
    bed.far
        .all(&bed.settings.peers, std::time::Duration::from_millis(50));
    bed.connected(0);
    bed.far.send(&peer, &craft::inner_v4(vpn(0), OWN, 100, 1));
    wait_for("a packet", || socket.recv(&mut [0; 2000]).is_ok());
}

#[test]
fn frames_from_the_tunnel() {
    in_namespace("frames_from_the_tunnel", || {
        let mut settings = settings();
        settings.peers[0].addresses.push("fd08::a".into());
        let mut bed = Bed::start(settings);
        passes(&mut bed);
        let (me, to): (_, [u8; 6]) = (mac("ovpn0"), [2, 0x6f, 0x76, 0, 0, 0]);
        let frame = |to: [u8; 6], kind: [u8; 2], rest: &[u8]| [&to[..], &me, &kind, rest].concat();
        let v6 = |text: &str| text.parse::<Ipv6Addr>().expect("an address");
        let arp = [
            &[0, 1, 8, 0, 6, 4, 0, 1][..],
            &me,
            &OWN.octets(),
            &[0; 6],
            &vpn(0).octets(),
        ]
        .concat();
        let mut solicitation = [&[0x60, 0, 0, 0, 0, 32, 58, 255][..], &v6("fd08::1").octets()].concat();
        solicitation.extend(v6("ff02::1:ff00:a").octets());
        solicitation.extend([135, 0, 0, 0, 0, 0, 0, 0]);
        solicitation.extend(v6("fd08::a").octets());
        solicitation.extend([&[1, 1][..], &me].concat());
        let good = [
            frame(to, [8, 0], &craft::inner_v4(OWN, vpn(0), 200, 1)),
            frame(
                to,
                [0x86, 0xdd],
                &craft::inner_v6(v6("fd08::1"), v6("fd08::a"), 200, 1),
            ),
            frame([0xff; 6], [8, 6], &arp),
            frame([0x33, 0x33, 0xff, 0, 0, 10], [0x86, 0xdd], &solicitation),
        ];
        let mut frames: Vec<_> = good.iter().flat_map(|frame| variations(frame)).collect();
        for kind in [[8, 0], [0x86, 0xdd], [8, 6], [0x81, 0], [0x88, 0xcc], [0, 46]] {
            frames.extend(garbage(200, &frame(to, kind, &[])));
        }
        // A second tag, and super-frames that nobody offered.
        frames.push(frame(to, [0x81, 0], &[0, 7, 8, 0, 0x45]));
        let before = counters(&bed.gateway);
        send_all("ovpn0", &bed.gateway, "tunnel_rx", &frames);
        let after = counters(&bed.gateway);
        let grown = |name: &str| after(name) - before(name);
        let ended: u64 = ENDS.iter().map(|end| grown(end)).sum();
        let other = grown("sealed") + grown("kernel_noise") + grown("neighbour_replies");
        assert_eq!(ended + other, grown("tunnel_rx"), "each is counted once");
        for reason in [
            "tunnel_length",
            "not_ip_frame",
            "broadcast",
            "multicast",
            "unknown_mac",
        ] {
            assert!(grown(reason) > 0, "{reason}");
        }
        passes(&mut bed);
        assert_eq!(starved(&bed.gateway), 0);
        bed.end();
    });
}

/// Outer frames: a record, and what else comes to the port.
fn outer(bed: &mut Bed) -> Vec<Vec<u8>> {
    let peer = bed.settings.peers[0].clone();
    let listen: SocketAddr = LISTEN.parse().expect("an address");
    let (from, to) = (mac("far0"), mac("nic0"));
    let record = bed.far.seal(&peer, 0, &craft::inner_v4(vpn(0), OWN, 100, 1));
    let udp = |payload: &[u8]| Frame::udp(peer.remote, listen).macs(from, to).payload(payload);
    let mut bad = record.clone();
    // Two bits: a variation may put one of them right.
    (bad[30], bad[31]) = (bad[30] ^ 1, bad[31] ^ 1);
    let mut frames = variations(&udp(&bad).build());
    frames.extend(variations(&udp(&bad).vlan(7).build()));
    frames.extend((0..record.len()).map(|len| udp(&record[..len]).build()));
    frames.extend((0..=255).map(|first| udp(&[first, 0, 0, 0, 1, 2, 3, 4, 5]).build()));
    for len in [0, 7, 8, 9, 27, 28, 60, 1500, 65535] {
        frames.push(udp(&bad).ip_len(len).build());
        frames.push(udp(&bad).udp_len(len).build());
    }
    frames.push(udp(&bad).ip_checksum(Checksum::Wrong).build());
    frames.push(udp(&bad).udp_checksum(Checksum::Wrong).build());
    let head = [&to[..], &from].concat();
    for kind in [
        &[8, 0][..],
        &[0x86, 0xdd],
        &[8, 6],
        &[0x81, 0, 0, 1, 8, 0],
        &[0x88, 0xa8],
        &[],
    ] {
        frames.extend(garbage(100, &[&head, kind].concat()));
    }
    // What is in a packet socket's way: net_af_packet lets the kernel collect fragments (PACKET_FANOUT_FLAG_DEFRAG), and
    // the kernel takes the tag out of a frame first and drops one that is too short for it.
    for frame in &mut frames {
        let ip = if frame.get(12..14) == Some(&[0x81, 0]) {
            18
        } else {
            14
        };
        if frame.get(ip - 2..ip) == Some(&[8, 0])
            && let Some(fragment) = frame.get_mut(ip + 6..ip + 8)
        {
            fragment.fill(0);
        }
    }
    let tagged = |frame: &[u8]| frame[12..14] == [0x81, 0] || frame[12..14] == [0x88, 0xa8];
    frames.retain(|frame| (14..=1514).contains(&frame.len()) && (!tagged(frame) || frame.len() >= 20));
    frames
}

#[test]
fn frames_from_the_nic() {
    in_namespace("frames_from_the_nic", || {
        let mut bed = Bed::start(settings());
        passes(&mut bed);
        let frames = outer(&mut bed);
        let authentic = bed.gateway.counter("authentic");
        send_all("far0", &bed.gateway, "nic_rx", &frames);
        assert_eq!(bed.gateway.counter("authentic"), authentic);
        for reason in [
            "bad_tag",
            "too_short",
            "data_v1",
            "short_record",
            "ip_length",
            "udp_length",
        ] {
            assert!(bed.gateway.dropped(reason) > 0, "{reason}");
        }
        passes(&mut bed);
        assert_eq!(starved(&bed.gateway), 0);
        bed.end();
    });
}

#[test]
fn frames_from_the_host() {
    in_namespace("frames_from_the_host", || {
        let mut bed = Bed::start(settings());
        passes(&mut bed);
        // The same, the other way: the gateway has no opinion on what the kernel sends.
        let frames = outer(&mut bed);
        let (from, to) = (bed.gateway.counter("host_rx"), bed.gateway.counter("nic_tx"));
        send_all("wan0", &bed.gateway, "host_rx", &frames);
        let taken = bed.gateway.counter("host_rx") - from;
        wait_for("all of them to leave", || {
            let lost = bed.gateway.dropped("nic_mtu") + bed.gateway.dropped("nic_full");
            bed.gateway.counter("nic_tx") - to + lost == taken
        });
        passes(&mut bed);
        assert_eq!(starved(&bed.gateway), 0);
        bed.end();
    });
}

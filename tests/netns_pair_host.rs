//! The host port of a gateway: the kernel behind it has the outer addresses, and speaks through the NIC as if the
//! gateway were not there.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/host_frames.rs"]
mod host_frames;
#[path = "support/host_load.rs"]
mod host_load;
#[path = "support/host_streams.rs"]
mod host_streams;
#[path = "support/judge.rs"]
mod judge;
#[path = "support/pair.rs"]
mod pair;

use gateway::{Namespace, Wire, mac, run, wait_for};
use host_load::Load;
use host_streams::{datagrams_arrive, exchange, no_checksum_errors, wrong_checksums};
use judge::Judge;
use judge::packet::{Frame, ICMP, ICMPV6, Ip};
use judge::recorder::Recorder;
use pair::{End, FIRST_PORT, HOST, NIC, Pair, Plan, Side};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where frames towards the NIC come from, and frames from the host port.
const OUTSIDE: [u8; 6] = [2, 0, 0, 0, 0, 0xaa];
const INSIDE: [u8; 6] = [2, 0, 0, 0, 0, 0xbb];

/// Bytes of the whole IP packet.
const SIZES: [usize; 11] = [28, 60, 576, 1400, 1500, 1501, 1520, 1900, 3000, 6000, 9000];
/// The longest IPv4 packet in fragments that net_af_packet does not cut, with its `framesz` of 2048.
const LONGEST_V4: usize = 1968;

/// A left side with nobody at the other end of its cable but the test.
fn alone() -> Plan<'static> {
    Plan {
        peers: 1,
        relay: Some(Arc::new(|_, _| Vec::new())),
        ..Plan::default()
    }
}

/// How many echo replies and answers to address resolution each request got: asked and answered, by kind.
fn questions(frames: &[Vec<u8>]) -> HashMap<String, [usize; 2]> {
    let mut questions: HashMap<String, [usize; 2]> = HashMap::new();
    for bytes in frames {
        let frame = Frame::parse(bytes).expect("a header");
        let mut count = |what: String, answer: bool| {
            questions.entry(what).or_default()[usize::from(answer)] += 1;
        };
        if frame.ether_type == 0x0806 {
            let (sender, target) = (&frame.payload[14..18], &frame.payload[24..28]);
            let answer = frame.payload[7] == 2;
            let (asks, asked) = if answer {
                (target, sender)
            } else {
                (sender, target)
            };
            count(format!("ARP {asks:?} for {asked:?}"), answer);
            continue;
        }
        let Some(ip) = Some(frame.payload)
            .filter(|_| frame.is_ip())
            .and_then(|p| Ip::parse(p).ok())
        else {
            continue;
        };
        // Of what is cut the first fragment counts.
        if ip.fragment.is_some_and(|f| f.offset > 0) {
            continue;
        }
        let numbers = ip.payload.get(4..8);
        match (ip.protocol, ip.payload.first()) {
            (ICMP, Some(8)) | (ICMPV6, Some(128)) => count(format!("echo {} {numbers:?}", ip.src), false),
            (ICMP, Some(0)) | (ICMPV6, Some(129)) => count(format!("echo {} {numbers:?}", ip.dst), true),
            _ => {}
        }
    }
    questions
}

/// Three echo requests of every size, of which some have to be answered when this returns. How many there were.
fn ping_all_sizes(pair: &Pair, from: &Side, to: IpAddr) -> usize {
    // net_af_packet has the kernel reassemble IPv4, and cuts what is longer than its frames.
    let sizes = SIZES.iter().filter(|size| to.is_ipv6() || **size <= LONGEST_V4);
    let mut asked = 0;
    for size in sizes {
        let payload = size.saturating_sub(if to.is_ipv6() { 48 } else { 28 });
        let mut ping = from.command(&["ping", "-n", "-c3", "-i0.01", "-W5", "-s", &payload.to_string()]);
        let out = ping.arg(to.to_string()).output().expect("ip was there before");
        let said = String::from_utf8_lossy(&out.stdout);
        // It does not wait for the last replies, once it had one.
        assert!(
            out.status.success() && !said.contains("DUP"),
            "{size} bytes to {to}: {said}{:?} {:?}",
            pair.left.losses(),
            pair.right.losses()
        );
        asked += 3;
    }
    asked
}

#[test]
fn outer_addresses_answer_through_the_nic() {
    let plan = Plan {
        peers: 1,
        ..Plan::default()
    };
    Pair::test("outer_addresses_answer_through_the_nic", &plan, |pair| {
        pair.connected();
        let wires = [End::Left, End::Right].map(|end| {
            let (namespace, interface) = pair.far_end(end);
            Recorder::start(namespace, interface)
        });
        let mut asked = 0;
        for (from, to) in [(&pair.left, &pair.right), (&pair.right, &pair.left)] {
            for v6 in [false, true] {
                from.run(&["ip", "neigh", "flush", "dev", HOST]);
                let address = to.end.outer(v6).to_string();
                asked += ping_all_sizes(pair, from, to.end.outer(v6));
                let neighbour = from.run(&["ip", "neigh", "show", &address, "dev", HOST]);
                let own = to
                    .namespace
                    .enter(|| mac(NIC))
                    .map(|b| format!("{b:02x}"))
                    .join(":");
                assert!(neighbour.contains(&own), "not {own}: {neighbour}");
            }
        }
        let seen = || wires.iter().map(Recorder::seen).sum::<usize>();
        let mut last = usize::MAX;
        wait_for("the last replies", || {
            std::thread::sleep(Duration::from_millis(300));
            std::mem::replace(&mut last, seen()) == last
        });
        // What one side sends arrives at the other one's end: both together have every frame twice or more, so each is
        // taken from its sender's far end only.
        let [left, right] = [End::Left, End::Right].map(|end| pair.side(end).namespace.enter(|| mac(NIC)));
        let [of_left, of_right] = wires.map(Recorder::stop);
        let from = |frames: Vec<Vec<u8>>, mac: [u8; 6]| frames.into_iter().filter(move |f| f[6..12] == mac);
        let frames: Vec<_> = from(of_left, left).chain(from(of_right, right)).collect();
        let questions = questions(&frames);
        let echoes = questions.iter().filter(|(what, _)| what.starts_with("echo"));
        assert_eq!(echoes.count(), asked);
        assert!(questions.keys().any(|what| what.starts_with("ARP")));
        for (what, [asked, answered]) in &questions {
            assert!(
                answered == asked,
                "{what}: asked {asked} times, answered {answered} times"
            );
        }
    });
}

#[test]
fn tcp_between_outer_addresses_works_beside_the_tunnel() {
    let plan = Plan {
        peers: 1,
        ..Plan::default()
    };
    Pair::test(
        "tcp_between_outer_addresses_works_beside_the_tunnel",
        &plan,
        |pair| {
            pair.connected();
            let judge = Judge::start(pair);
            let hosts = [&pair.left, &pair.right].map(|side| Recorder::start(&side.namespace, HOST));
            let load = Load::start(pair, 1000, false);
            let sides = [&pair.left.namespace, &pair.right.namespace];
            for v6 in [false, true] {
                exchange(sides, End::Right.outer(v6), 4 << 20);
            }
            let sent = load.finish();
            let verdict = judge.finish(pair);
            println!("{sent} datagrams beside it; {verdict}");
            assert!(sent > 100 && verdict.crossings.iter().map(|c| c.sent).sum::<usize>() >= sent);
            verdict.assert_nothing_missing();
            for (recorder, side) in hosts.into_iter().zip([&pair.left, &pair.right]) {
                let (judged, wrong) = wrong_checksums(&recorder.stop(), side.namespace.enter(|| mac(HOST)));
                assert!(judged > 2000 && wrong.is_empty(), "{judged} judged: {wrong:?}");
                no_checksum_errors(&side.namespace);
            }
        },
    );
}

#[test]
fn partial_checksums_of_a_veth_sender_are_completed() {
    let plan = Plan {
        peers: 1,
        relay: Some(Arc::new(|from, frame| vec![(from.other(), frame)])),
        ..Plan::default()
    };
    Pair::test(
        "partial_checksums_of_a_veth_sender_are_completed",
        &plan,
        |pair| {
            pair.connected();
            // A third machine, whose kernel leaves checksums to its interface.
            let (third, interface) = pair.far_end(End::Left);
            let no_v6 = format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6");
            third.enter(|| std::fs::write(no_v6, "0").expect("root may"));
            for address in ["192.0.2.9/24", "2001:db8::9/64"] {
                let mut ip = third.command("ip");
                ip.args(["address", "add", address, "dev", interface]);
                run(ip.args(address.contains(':').then_some("nodad")));
            }
            let offload = run(third.command("ethtool").args(["-k", interface]));
            assert!(
                offload.contains("tx-checksumming: on"),
                "at its default: {offload}"
            );
            let host = Recorder::start(&pair.left.namespace, HOST);
            let (before, load) = (completed(pair), Load::start(pair, 1000, true));
            for v6 in [false, true] {
                exchange([third, &pair.left.namespace], End::Left.outer(v6), 2 << 20);
                let after_tcp = completed(pair);
                datagrams_arrive(third, &pair.left.namespace, End::Left.outer(v6));
                let after_udp = completed(pair);
                assert!(after_udp >= after_tcp + 50, "of UDP: {}", after_udp - after_tcp);
            }
            load.finish();
            let all = completed(pair) - before;
            let frames = host.stop();
            let (judged, wrong) = wrong_checksums(&frames, pair.left.namespace.enter(|| mac(HOST)));
            assert!(wrong.is_empty(), "{judged} judged: {wrong:?}");
            assert!(all > 1000 && judged as u64 >= all, "{all} completed of {judged}");
            no_checksum_errors(&pair.left.namespace);
        },
    );
}

fn completed(pair: &Pair) -> u64 {
    pair.left.gateway.counter("checksums_completed")
}

#[test]
fn frames_pass_unchanged_both_ways() {
    Pair::test("frames_pass_unchanged_both_ways", &alone(), |pair| {
        let (middle, interface) = pair.far_end(End::Left);
        let mut wires = [middle.enter(|| Wire::of(interface)), pair.left.wire(HOST)];
        let own = pair.left.namespace.enter(|| mac(NIC));
        let outer = [End::Left.outer(false), End::Left.outer(true)];
        let other = [End::Right.outer(false), End::Right.outer(true)];
        let gateway = &pair.left.gateway;
        let count = || (gateway.counter("to_host"), gateway.counter("host_tx"));
        let before = count();
        let inwards = host_frames::foreign(own, OUTSIDE, other, outer);
        let [nic, host] = &mut wires;
        pass(nic, host, OUTSIDE, &inwards);
        let after = count();
        let grown = (after.0 - before.0, after.1 - before.1);
        assert!(grown.0 >= inwards.len() as u64 && grown.0 == grown.1, "{grown:?}");
        pass(
            host,
            nic,
            INSIDE,
            &host_frames::foreign(OUTSIDE, INSIDE, outer, other),
        );
        all_left(pair);
    });
}

/// What the host port gave is what the NIC port took.
fn all_left(pair: &Pair) {
    let counters = pair.left.gateway.telemetry("/ovpn/lcores");
    assert_eq!(counters["host_rx"], counters["nic_tx"]);
}

/// Sends frames that have this source address, and sees the very same, each once and in order.
fn pass(from: &mut Wire, to: &mut Wire, source: [u8; 6], frames: &[host_frames::Named]) {
    for (_, frame) in frames {
        from.send(frame);
    }
    let got = received(to, frames.len(), |f| f[6..12] == source);
    for ((name, sent), got) in frames.iter().zip(&got) {
        assert!(got == sent, "{name}:\nsent {sent:02x?}\ngot  {got:02x?}");
    }
    assert_eq!(got.len(), frames.len());
}

/// Frames of a kind, until there are `n` and no more come, or none came for long.
fn received(wire: &mut Wire, n: usize, wanted: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let (mut frames, mut last) = (Vec::new(), Instant::now());
    loop {
        match wire.next() {
            Some(frame) if wanted(&frame) => {
                frames.push(frame);
                last = Instant::now();
            }
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
        let patience = if frames.len() < n { 5000 } else { 300 };
        if last.elapsed() > Duration::from_millis(patience) {
            return frames;
        }
    }
}

#[test]
fn control_packets_reach_the_host_port() {
    let plan = Plan {
        peers: 1,
        ..Plan::default()
    };
    Pair::test("control_packets_reach_the_host_port", &plan, |pair| {
        pair.connected();
        let before = pair.left.gateway.counter("to_daemon");
        let mut expected = 0;
        for v6 in [false, true] {
            let sockets = [&pair.left, &pair.right].map(|side| {
                let address = (side.end.outer(v6), FIRST_PORT);
                let socket = side.namespace.enter(|| UdpSocket::bind(address));
                let socket = socket.expect("the gateway has no socket there");
                socket
                    .set_read_timeout(Some(gateway::PATIENCE))
                    .expect("a socket");
                socket
            });
            // All opcodes but DATA_V1 and DATA_V2, which are never the daemon's.
            for opcode in (0..32u8).filter(|o| ![6, 9].contains(o)) {
                for size in [4, 5, 54, 1200, 1472, 1600usize] {
                    let mut packet: Vec<u8> = (0..size).map(|i| (i as u8).wrapping_mul(opcode)).collect();
                    packet[0] = opcode << 3 | (size as u8 & 7);
                    for (from, to) in [(1, 0), (0, 1)] {
                        let address = sockets[to].local_addr().expect("bound");
                        sockets[from].send_to(&packet, address).expect("there is a route");
                        let mut got = [0; 4096];
                        let (len, source) = sockets[to].recv_from(&mut got).expect("the packet");
                        assert!(got[..len] == packet, "opcode {opcode}, {size} bytes: {len}");
                        assert_eq!(source, sockets[from].local_addr().expect("bound"));
                    }
                    // Over IPv6 nothing is listened on: it is no packet of the daemon's.
                    expected += u64::from(!v6);
                }
            }
        }
        assert_eq!(pair.left.gateway.counter("to_daemon") - before, expected);
        pair.connected();
    });
}

/// What became of the frames that the NIC port gave.
fn fates(pair: &Pair) -> [u64; 3] {
    let gateway = &pair.left.gateway;
    let drops = gateway.telemetry("/ovpn/drops");
    let dropped = drops
        .as_object()
        .expect("an object")
        .values()
        .map(|n| n.as_u64().expect("a number"));
    let counters = ["nic_rx", "to_host"].map(|name| gateway.counter(name));
    [counters[0], counters[1], dropped.sum()]
}

#[test]
fn malformed_frames_are_counted_or_passed() {
    Pair::test("malformed_frames_are_counted_or_passed", &alone(), |pair| {
        let (middle, interface) = pair.far_end(End::Left);
        let mut nic = middle.enter(|| Wire::of(interface));
        let own = pair.left.namespace.enter(|| mac(NIC));
        let mut good = Vec::new();
        for v6 in [false, true] {
            let from = SocketAddr::new(End::Right.outer(v6), 1234);
            let listen = SocketAddr::new(End::Left.outer(v6), FIRST_PORT);
            send_counted(pair, &mut nic, &{
                let named = host_frames::malformed([own, OUTSIDE], from, listen);
                named.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>()
            });
            good.extend([
                host_frames::udp([own, OUTSIDE], from, listen, &[0x48; 80]),
                host_frames::echo([own, OUTSIDE], from.ip(), listen.ip(), 1, &[1; 40]),
                host_frames::frame([0xff; 6], OUTSIDE, 0x0806, &[1; 46]),
            ]);
        }
        send_counted(pair, &mut nic, &host_frames::mutated(&good, 6000));
        let stderr = pair.left.gateway.stderr();
        assert!(!stderr.contains("panicked"), "{stderr}");
    });
}

/// Sends them to the NIC; each that comes so far stands under one counter afterwards.
fn send_counted(pair: &Pair, nic: &mut Wire, frames: &[Vec<u8>]) {
    let before = fates(pair);
    let mut sent = 0;
    for some in frames.chunks(1000) {
        some.iter().for_each(|frame| nic.send(frame));
        let kept_back = some.iter().filter(|frame| host_frames::is_v4_fragment(frame));
        sent += (some.len() - kept_back.count()) as u64;
        let mut seen = 0;
        let until = Instant::now() + gateway::PATIENCE;
        while seen < sent {
            assert!(Instant::now() < until, "{sent} frames, {seen} seen");
            seen = fates(pair)[0] - before[0];
        }
        assert_eq!(seen, sent);
    }
    // Fragments wait for others until they time out.
    wait_for("a counter for each", || {
        let now = fates(pair);
        let grown = [0, 1, 2].map(|i| now[i] - before[i]);
        grown[0] == grown[1] + grown[2]
    });
}

#[test]
fn malformed_frames_of_the_host_pass() {
    Pair::test("malformed_frames_of_the_host_pass", &alone(), |pair| {
        let (middle, interface) = pair.far_end(End::Left);
        let mut nic = middle.enter(|| Wire::of(interface));
        let mut host = pair.left.wire(HOST);
        for v6 in [false, true] {
            let to = SocketAddr::new(End::Right.outer(v6), FIRST_PORT);
            let from = SocketAddr::new(End::Left.outer(v6), FIRST_PORT);
            let frames = host_frames::malformed([OUTSIDE, INSIDE], from, to);
            for some in frames.chunks(200) {
                pass(&mut host, &mut nic, INSIDE, some);
            }
        }
        all_left(pair);
    });
}

#[test]
fn the_kernel_hears_the_nic_again_after_the_end() {
    let plan = Plan {
        peers: 1,
        ..Plan::default()
    };
    let add = |namespace: &Namespace, last: u8| {
        let address = format!("198.51.100.{last}/24");
        run(namespace
            .command("ip")
            .args(["address", "add", &address, "dev", NIC]));
    };
    let ping = |namespace: &Namespace, count: &str| {
        let mut ping = namespace.command("ping");
        ping.args(["-n", count, "-i0.1", "-W1", "-I", NIC, "198.51.100.2"]);
        ping.output().expect("ip was there before")
    };
    Pair::test_and_after(
        "the_kernel_hears_the_nic_again_after_the_end",
        &plan,
        |pair| {
            pair.connected();
            add(&pair.left.namespace, 1);
            add(&pair.right.namespace, 2);
            let out = ping(&pair.left.namespace, "-c2");
            assert!(!out.status.success(), "the kernel is not shut out");
        },
        |namespaces| {
            for namespace in namespaces {
                let filters = run(namespace
                    .command("tc")
                    .args(["filter", "show", "dev", NIC, "ingress"]));
                assert_eq!(filters.trim(), "");
                run(namespace.command("ip").args(["neigh", "flush", "dev", NIC]));
            }
            let out = ping(&namespaces[0], "-c3");
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
        },
    );
}

//! Clients whose address changes: traffic follows, the daemons renegotiate, and the old address is free for others.

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/nat.rs"]
mod nat;
#[path = "support/pair.rs"]
mod pair;

use daemon::{
    Daemon, Flow, INITIALISED, Machine, Net, Options, Path, Plan, Transfer, client, port, server,
    server_address,
};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use gateway::{Wire, wait_for};
use nat::Nat;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a daemon says of a renegotiation that it begins.
const BEGINS: &str = "TLS: soft reset";
/// What a daemon says of each handshake that succeeded, the first one included.
const DONE: &str = "Control Channel: TLS";
/// The client's port, which it keeps.
const PORT: u16 = 5000;
/// Payload bytes of a datagram, and how many of them go each way in a second.
const DATAGRAM: (u64, u64) = (1200, 100);
/// Packets that are in one burst of a gateway, or on their way through a client's kernel.
const BURST: u64 = 64;
/// Records that may come under a key that is gone, in each renegotiation: see netns_daemon_reneg.rs.
const UNCOVERED: u64 = 2;

/// How a client comes to have another address.
#[derive(Clone, Copy, PartialEq)]
enum Move {
    /// It gets the new one before it loses the old one.
    Over,
    /// It loses the old one, and then gets the new one.
    Gap,
    /// A router between gives it another port.
    Port,
}

/// A float under load, with renegotiations after it.
struct Scenario {
    name: &'static str,
    v6: bool,
    client: Path,
    by: Move,
    /// The server's `reneg-sec`; the client's is 0.
    reneg: u64,
    rounds: u64,
    /// Whether the daemon reads all statistics every second.
    polled: bool,
}

/// Seconds between renegotiations, where nothing else is said, and how many there are.
const SHORT: Scenario = Scenario {
    name: "",
    v6: false,
    client: Path::Own,
    by: Move::Over,
    reneg: 5,
    rounds: 1,
    polled: true,
};

/// Client 0's outer address at first, and its next one, with their prefix lengths.
fn addresses(v6: bool) -> [&'static str; 2] {
    if v6 {
        ["2001:db8::a/64", "2001:db8::50/64"]
    } else {
        ["192.0.2.10/24", "192.0.2.50/24"]
    }
}

/// With the client's port.
fn endpoint(address: &str) -> SocketAddr {
    let (address, _) = address.split_once('/').expect("a prefix length");
    SocketAddr::new(address.parse().expect("an address"), PORT)
}

/// A client at that port.
fn at_port(machine: &Machine, v6: bool, port: u16) -> Options<'_> {
    let options = client(machine, 0)
        .without("nobind")
        .set("lport", &port.to_string())
        .set("reneg-sec", "0");
    if v6 { options.over_ipv6(0) } else { options }
}

fn serve(machine: &Machine, v6: bool, reneg: u64) -> Options<'_> {
    let proto = if v6 { "udp6" } else { "udp4" };
    server(machine, 0)
        .proto(proto)
        .set("reneg-sec", &format!("{reneg} {reneg}"))
}

/// Where the gateway has the peer with that VPN address, and where it takes the daemon to have it, if elsewhere.
fn whereabouts(machine: &Machine, vpn: IpAddr) -> [Option<SocketAddr>; 2] {
    let status = machine.status();
    let peer = status.peer("ovpn0", &vpn.to_string());
    ["remote", "known_remote"].map(|field| {
        peer[field]
            .as_str()
            .map(|text| text.parse().expect("an endpoint"))
    })
}

/// Waits until the gateway has found the peer there, while the daemon knows it where it was.
fn wait_floated(machine: &Machine, vpn: IpAddr, known: SocketAddr, current: SocketAddr) {
    if machine.path == Path::Own {
        return;
    }
    let mut last = [None; 2];
    wait_for(&format!("{vpn} at {current}, known at {known}"), || {
        last = whereabouts(machine, vpn);
        last == [Some(current), Some(known)]
    });
}

/// Records between the server and one of two addresses and ports, in the order of the wire.
#[derive(Debug, Default)]
struct Seen {
    /// To the old one, since the client began to move.
    switch: u64,
    /// From the new one.
    moved: u64,
    /// To the old one after the first from the new one.
    late: u64,
    /// To the new one.
    followed: u64,
}

/// Source and destination of a frame with a record.
fn record(frame: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (source, destination): (IpAddr, IpAddr) = match packet.net? {
        NetSlice::Ipv4(ip) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ),
        NetSlice::Ipv6(ip) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ),
        _ => return None,
    };
    let Some(TransportSlice::Udp(udp)) = packet.transport else {
        return None;
    };
    (*udp.payload().first()? >> 3 == 9).then_some((
        SocketAddr::new(source, udp.source_port()),
        SocketAddr::new(destination, udp.destination_port()),
    ))
}

/// Counts records until it is told to end.
fn watch(mut wire: Wire, [old, new]: [SocketAddr; 2], moving: &AtomicBool, ended: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    while !ended.load(Ordering::Relaxed) {
        while let Some(frame) = wire.next() {
            let Some((source, destination)) = record(&frame) else {
                continue;
            };
            seen.moved += u64::from(source == new);
            seen.followed += u64::from(destination == new);
            if destination == old {
                seen.switch += u64::from(moving.load(Ordering::Relaxed));
                seen.late += u64::from(seen.moved > 0);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    seen
}

/// What nothing of ours lost: see [`Net::lossless_but`].
fn excused(net: &Net) -> u64 {
    let machines = net.clients.iter().chain([&net.server]);
    let slow: u64 = machines.map(Machine::queue_drops).sum();
    let losses = net.losses();
    let uncovered = losses.values().filter_map(|of| of.get("no_key")).sum::<u64>();
    slow + uncovered
}

/// UDP both ways for so long, in the midst of which the client moves: what was carried there and back, and seen.
fn carry(net: &Net, seconds: u64, [old, new]: [SocketAddr; 2], go: impl FnOnce()) -> ([Transfer; 2], Seen) {
    let (rate, length) = ((DATAGRAM.0 * DATAGRAM.1 * 8).to_string(), DATAGRAM.0.to_string());
    let time = seconds.to_string();
    let there = ["-u", "-b", &rate, "-l", &length, "-t", &time];
    let back = [&there[..], &["-R"]].concat();
    let flow = |arguments| Flow {
        from: &net.clients[0],
        to: &net.server,
        address: server_address(0, false),
        arguments,
    };
    let (namespace, port) = net.server_port();
    let wire = namespace.enter(|| Wire::of(port));
    let (moving, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(wire, [old, new], &moving, &ended));
        // Also when it fails: the scope waits for the watcher.
        let transfers = catch_unwind(AssertUnwindSafe(|| {
            let before = net.server.statistic("ovpn0", "rx", "packets");
            let flows = [flow(&there), flow(&back)].map(|flow| daemon::Iperf::start(&flow));
            wait_for("a second of traffic", || {
                net.server.statistic("ovpn0", "rx", "packets") - before > DATAGRAM.1
            });
            moving.store(true, Ordering::Relaxed);
            go();
            flows.map(daemon::Iperf::finish)
        }));
        ended.store(true, Ordering::Relaxed);
        let transfers = transfers.unwrap_or_else(|panic| resume_unwind(panic));
        (transfers, watcher.join().expect("it only reads"))
    })
}

/// Moves client 0.
fn go(net: &Net, nat: &Nat, by: Move, v6: bool) {
    let [old, new] = addresses(v6);
    let server = SocketAddr::new(endpoint(old).ip(), port(0));
    match by {
        Move::Over => net.clients[0].move_to(new),
        Move::Gap => {
            net.clients[0].remove_address(old);
            net.clients[0].add_address(new);
        }
        Move::Port => {
            let dst = SocketAddr::new(net.server.address_of(daemon::HOST, v6), server.port());
            // What the router changes has a whole checksum.
            net.clients[0].run(&["ethtool", "-K", daemon::HOST, "tx", "off"]);
            let [inside, outside] = moved(by, v6).map(|src| nat::Flow { src, dst });
            nat.translate(inside, outside);
        }
    }
}

/// Where client 0 is at first, and then.
fn moved(by: Move, v6: bool) -> [SocketAddr; 2] {
    let [old, new] = addresses(v6).map(endpoint);
    match by {
        Move::Over | Move::Gap => [old, new],
        Move::Port => [old, SocketAddr::new(old.ip(), PORT + 1)],
    }
}

impl Scenario {
    fn run(&self) {
        let nat = Nat::new();
        let router = nat.clone();
        let clients = [self.client];
        let plan = Plan {
            clients: &clients,
            relay: (self.by == Move::Port).then(|| -> Arc<pair::relay::Change> {
                Arc::new(move |from, frame| router.pass(from, frame))
            }),
            ..Plan::default()
        };
        Net::test(self.name, &plan, |net| self.with(net, &nat));
    }

    fn with(&self, net: &Net, nat: &Nat) {
        let Scenario {
            v6, reneg, rounds, ..
        } = *self;
        let both = moved(self.by, v6);
        let mut here = serve(&net.server, v6, reneg);
        if !self.polled {
            here = here.without("status");
        }
        // Without own path a daemon follows a float by itself.
        let mut here = here.set("float", "").start();
        here.connected();
        let mut there = at_port(&net.clients[0], v6, PORT).start();
        there.connected();
        net.clients[0].wait_ping(server_address(0, false));
        let vpn = there.vpn(false);
        let before = excused(net);
        let mut earlier = 0;
        let (transfers, seen) = carry(net, reneg * rounds + 4, both, || {
            go(net, nat, self.by, v6);
            wait_floated(&net.server, vpn, both[0], both[1]);
            earlier = here.said(BEGINS).len();
        });
        let lost = excused(net) - before;
        println!("{}: {seen:?}, {lost} excused", self.name);
        // One that had begun when the client moved may count among those before or after.
        let begun = here.wait_said(BEGINS, earlier + rounds as usize).len();
        there.wait_said(DONE, 1 + begun);
        self.assert_carried(&transfers, &seen, lost, begun as u64);
        self.assert_session_lives(net, &here, &there);
    }

    fn assert_carried(&self, [up, down]: &[Transfer; 2], seen: &Seen, excused: u64, begun: u64) {
        assert!(
            excused < 100 + UNCOVERED * begun,
            "{excused} packets lost by queues and for want of a key"
        );
        assert!(
            seen.moved > 0 && seen.followed > 0 && seen.late <= BURST,
            "{seen:?}"
        );
        if self.by == Move::Gap {
            return;
        }
        let ends = [up, down].map(|transfer| &transfer.report["end"]["sum"]);
        assert!(up.lost <= excused, "{excused} excused: {ends:?}");
        assert!(
            down.lost <= excused + seen.switch + BURST / 8,
            "{seen:?}, {excused} excused: {ends:?}"
        );
    }

    /// Over the same session as before the float.
    fn assert_session_lives(&self, net: &Net, here: &Daemon, there: &Daemon) {
        wait_pings(net, there);
        assert_eq!(there.said(INITIALISED).len(), 1, "the client connected anew");
        for daemon in [here, there] {
            daemon.assert_silent_about("TLS Error");
            daemon.assert_silent_about("client-instance exiting");
        }
        if net.server.path == Path::Own {
            return;
        }
        let [old, new] = moved(self.by, self.v6);
        wait_floated(&net.server, there.vpn(false), old, new);
        let gateway = net.server.gateway();
        for counter in ["translated_rx", "translated_tx"] {
            assert!(gateway.counter(counter) > 0, "{counter}: {:?}", net.losses());
        }
        assert_eq!(net.server.status().code, Some(0));
        if self.polled {
            let status = here.status();
            let row = status
                .client("client0")
                .unwrap_or_else(|| panic!("{}", status.text));
            assert!(row.received > DATAGRAM.0 * DATAGRAM.1, "{row:?}");
        }
    }
}

#[test]
fn a_client_floats_under_load() {
    Scenario {
        name: "a_client_floats_under_load",
        ..SHORT
    }
    .run();
}

#[test]
fn a_client_floats_under_load_over_ipv6() {
    Scenario {
        name: "a_client_floats_under_load_over_ipv6",
        v6: true,
        ..SHORT
    }
    .run();
}

#[test]
fn a_client_with_a_gateway_floats_under_load() {
    Scenario {
        name: "a_client_with_a_gateway_floats_under_load",
        client: Path::Offload,
        ..SHORT
    }
    .run();
}

#[test]
fn a_router_gives_a_client_another_port() {
    Scenario {
        name: "a_router_gives_a_client_another_port",
        by: Move::Port,
        ..SHORT
    }
    .run();
}

/// Waits until pings between the server and a client are all answered. Where there is much to do, `ping` does not wait for
/// the last ones.
fn wait_pings(net: &Net, daemon: &Daemon) {
    for v6 in [false, true] {
        for (machine, to) in [
            (daemon.machine, server_address(0, v6)),
            (&net.server, daemon.vpn(v6)),
        ] {
            wait_for(
                &format!("{} pings {to}, and all is answered", machine.name()),
                || {
                    let pings = machine.ping(to, &["-q", "-c20", "-i0.01", "-W2"]);
                    pings.sent > 0 && pings.received == pings.sent
                },
            );
        }
    }
}

/// Client 0, floated: its daemon, and where it was.
fn floated<'n>(net: &'n Net, v6: bool) -> (Daemon<'n>, SocketAddr) {
    let mover = &net.clients[0];
    let mut there = at_port(mover, v6, PORT).start();
    there.connected();
    mover.wait_ping(server_address(0, false));
    mover.move_to(addresses(v6)[1]);
    let [old, new] = addresses(v6).map(endpoint);
    mover.wait_ping(server_address(0, false));
    wait_floated(&net.server, there.vpn(false), old, new);
    (there, old)
}

/// Another machine gets the address that the first one had, and connects from that port.
fn newcomer<'n>(net: &'n Net, v6: bool, port: u16) -> Daemon<'n> {
    net.clients[1].move_to(addresses(v6)[0]);
    let second = at_port(&net.clients[1], v6, port).set("auth-retry", "nointeract");
    let mut second = second.start();
    second.connected();
    net.clients[1].wait_ping(server_address(0, false));
    second
}

fn two_clients(name: &str, v6: bool, body: impl FnOnce(&Net, &Daemon)) {
    let plan = Plan {
        clients: &[Path::Own, Path::Own],
        ..Plan::default()
    };
    Net::test(name, &plan, |net| {
        let mut here = serve(&net.server, v6, SHORT.reneg).set("float", "").start();
        here.connected();
        body(net, &here);
    });
}

/// The address has another user with another port: both clients live on, the floated one's renegotiations included.
fn other_port(name: &str, v6: bool) {
    two_clients(name, v6, |net, here| {
        let (first, _) = floated(net, v6);
        let second = newcomer(net, v6, PORT + 1);
        assert_ne!(first.vpn(false), second.vpn(false));
        let handshakes = [&first, &second].map(|daemon| daemon.said(DONE).len());
        // Of both, and begun after the newcomer was there.
        for (daemon, so_far) in [&first, &second].iter().zip(handshakes) {
            daemon.wait_said(DONE, so_far + 2);
            wait_pings(net, daemon);
            assert_eq!(daemon.said(INITIALISED).len(), 1);
        }
        here.assert_silent_about("client-instance exiting");
    });
}

#[test]
fn a_newcomer_has_the_old_address_and_another_port() {
    other_port("a_newcomer_has_the_old_address_and_another_port", false);
}

#[test]
fn a_newcomer_has_the_old_address_and_another_port_over_ipv6() {
    other_port("a_newcomer_has_the_old_address_and_another_port_over_ipv6", true);
}

/// A daemon that is not told of floats takes what comes from that address and port for the client that it knows there: it
/// refuses another certificate, and ends the session with that client. Both can connect then.
#[test]
fn a_newcomer_has_the_old_address_and_port() {
    let name = "a_newcomer_has_the_old_address_and_port";
    two_clients(name, false, |net, here| {
        let (mut first, _) = floated(net, false);
        let second = newcomer(net, false, PORT);
        net.clients[1].wait_ping(server_address(0, false));
        if net.server.path == Path::Offload {
            here.wait_said("CN attempted to change from 'client0' to 'client1'", 1);
            second.wait_said("AUTH_FAILED", 1);
            assert!(
                net.server
                    .gateway()
                    .stderr()
                    .contains("somebody else is heard from its former address")
            );
            first.connected_times(2);
        }
        net.clients[0].wait_ping(server_address(0, false));
        let vpns = [&first, &second].map(|daemon| daemon.vpn(false));
        assert_ne!(vpns[0], vpns[1]);
        for daemon in [&first, &second] {
            wait_pings(net, daemon);
        }
        if net.server.path == Path::Offload {
            // Nothing is translated any more.
            let [old, new] = addresses(false).map(endpoint);
            let found = vpns.map(|vpn| whereabouts(&net.server, vpn));
            assert_eq!(found, [[Some(new), None], [Some(old), None]]);
        }
    });
}

#[test]
fn a_floated_client_starts_anew() {
    two_clients("a_floated_client_starts_anew", false, |net, here| {
        let (first, _) = floated(net, false);
        first.kill();
        let mark = here.mark();
        let mut again = at_port(&net.clients[0], false, PORT).start();
        again.connected();
        net.clients[0].wait_ping(server_address(0, false));
        wait_pings(net, &again);
        let [_, new] = addresses(false).map(endpoint);
        let lines = here.since(mark);
        assert!(
            lines.iter().any(|line| line.contains(&format!(
                "[client0] Peer Connection Initiated with [AF_INET]{new}"
            ))),
            "{lines:?}"
        );
        if net.server.path == Path::Offload {
            assert_eq!(whereabouts(&net.server, again.vpn(false)), [Some(new), None]);
            let status = net.server.status();
            let peers = status.tunnel("ovpn0")["peers"].as_array();
            assert_eq!(peers.map(Vec::len), Some(1), "{status:?}");
        }
        // Whose renegotiations go without translation.
        again.wait_said(DONE, 2);
        wait_pings(net, &again);
    });
}

#[test]
#[ignore = "three renegotiations, one a minute: over four minutes"]
fn three_renegotiations_after_a_float() {
    Scenario {
        name: "three_renegotiations_after_a_float",
        by: Move::Gap,
        reneg: 60,
        rounds: 3,
        polled: false,
        ..SHORT
    }
    .run();
}

#[test]
#[ignore = "three renegotiations, one a minute: over four minutes"]
fn three_renegotiations_after_a_float_with_statistics_read_every_second() {
    Scenario {
        name: "three_renegotiations_after_a_float_with_statistics_read_every_second",
        by: Move::Gap,
        reneg: 60,
        rounds: 3,
        polled: true,
        ..SHORT
    }
    .run();
}

//! Clients whose address changes: traffic follows, and the daemons renegotiate.

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/daemon_float.rs"]
mod daemon_float;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/nat.rs"]
mod nat;
#[path = "support/pair.rs"]
mod pair;

use daemon::{Daemon, Flow, INITIALISED, Machine, Net, Path, Plan, Transfer, port, server_address};
use daemon_float::{DONE, PORT, Seen, addresses, at_port, endpoint, serve, wait_floated, wait_pings, watch};
use gateway::{Wire, wait_for};
use nat::Nat;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a daemon says of a renegotiation that it begins.
const BEGINS: &str = "TLS: soft reset";
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

/// What nothing of ours lost, see [`Net::lossless_but`]: in queues of sockets and daemons, and for want of a key.
fn excused(net: &Net) -> [u64; 2] {
    let machines = net.clients.iter().chain([&net.server]);
    let slow = machines.map(Machine::queue_drops).sum();
    let losses = net.losses();
    [slow, losses.values().filter_map(|of| of.get("no_key")).sum()]
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
        let after = excused(net);
        let [slow, uncovered] = [0, 1].map(|i| after[i] - before[i]);
        println!(
            "{}: {seen:?}, {slow} in queues, {uncovered} without a key",
            self.name
        );
        // One that had begun when the client moved may count among those before or after.
        let begun = here.wait_said(BEGINS, earlier + rounds as usize).len();
        there.wait_said(DONE, 1 + begun);
        assert!(uncovered <= UNCOVERED * begun as u64, "{uncovered} without a key");
        self.assert_carried(&transfers, &seen, slow + uncovered);
        self.assert_session_lives(net, &here, &there);
    }

    fn assert_carried(&self, [up, down]: &[Transfer; 2], seen: &Seen, excused: u64) {
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

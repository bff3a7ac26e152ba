//! Peers that are heard no more: who says so, what becomes of their addresses and of the networks behind them, and the
//! timers that a daemon asks for, each alone and both.

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/pair.rs"]
mod pair;

use daemon::{Daemon, INITIALISED, Machine, Net, Options, Path, Plan, client, server, server_address};
use gateway::wait_for;
use serde_json::Value;
use std::net::{IpAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a server says of a client that it has given up.
const EXITS: &str = "client-instance exiting";
/// What a gateway says of a peer that was silent for too long.
const SILENT: &str = "nothing heard for";
/// The client's port, where it matters.
const PORT: u16 = 5000;
/// Arguments of pings that are answered soon.
const PINGS: [&str; 4] = ["-q", "-c20", "-i0.01", "-W2"];

/// Waits until such pings are all answered. Where there is much to do, `ping` does not wait for the last ones.
fn wait_pings(machine: &Machine, to: IpAddr) {
    wait_for(
        &format!("{} pings {to}, and all is answered", machine.name()),
        || {
            let pings = machine.ping(to, &PINGS);
            pings.sent > 0 && pings.received == pings.sent
        },
    );
}

/// Lines of a gateway's log with this text; of a machine without one: none.
fn gateway_said(machine: &Machine, text: &str) -> usize {
    let text_of = |log: String| log.lines().filter(|line| line.contains(text)).count();
    (machine.path == Path::Offload)
        .then(|| text_of(machine.gateway().stderr()))
        .unwrap_or_default()
}

/// Peers of a tunnel, as the gateway tells.
fn peers(machine: &Machine, interface: &str) -> Vec<Value> {
    let status = machine.status();
    let peers = status.tunnel(interface)["peers"].as_array();
    peers.unwrap_or_else(|| panic!("{status:?}")).clone()
}

/// One number of the one peer of a tunnel.
fn of_peer(machine: &Machine, interface: &str, field: &str) -> u64 {
    let peers = peers(machine, interface);
    let number = (peers.len() == 1).then(|| peers[0][field].as_u64()).flatten();
    number.unwrap_or_else(|| panic!("{interface}: {peers:?}"))
}

/// Records that nobody sealed, from where the client was: they must not keep its peer.
fn forge(machine: &Machine, ended: &AtomicBool) {
    let socket = machine
        .namespace
        .enter(|| UdpSocket::bind(("0.0.0.0", PORT)).expect("the client is gone"));
    let server = (daemon::SERVER.0, daemon::port(0));
    let mut n = 1_000_000u32;
    while !ended.load(Ordering::Relaxed) {
        n += 1;
        let record = [&[9 << 3, 0, 0, 0][..], &n.to_be_bytes(), &[0x5a; 60]].concat();
        let _ = socket.send_to(&record, server);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until the server has given the client up, while somebody forges records of it.
fn wait_given_up(here: &Daemon, client: &Machine) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| forge(client, &ended));
        // Also when it fails: the scope waits for the forger.
        let given_up = catch_unwind(AssertUnwindSafe(|| here.wait_said(EXITS, 1)));
        ended.store(true, Ordering::Relaxed);
        given_up.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

/// A server with two addresses for clients, and both have one; one client is killed, and the next one gets its address.
#[test]
fn a_killed_client_is_expired() {
    let plan = Plan {
        clients: &[Path::Own; 3],
        ..Plan::default()
    };
    Net::test("a_killed_client_is_expired", &plan, |net| {
        let here = server(&net.server, 0)
            .set("server", "10.8.0.0 255.255.255.0 nopool")
            .set("ifconfig-pool", "10.8.0.2 10.8.0.3 255.255.255.0")
            .without("server-ipv6");
        let mut here = here.start();
        here.connected();
        let options = [0, 1, 2].map(|i| client(&net.clients[i], 0));
        let [first, second, third] =
            options.map(|options| options.without("nobind").set("lport", &PORT.to_string()));
        let [mut first, mut second] = [first.start(), second.start()];
        first.connected();
        second.connected();
        let vpn = first.vpn(false);
        net.clients[0].wait_ping(server_address(0, false));
        wait_pings(&net.server, vpn);
        first.kill();
        wait_given_up(&here, &net.clients[0]);
        assert!(here.status().client("client0").is_none());
        if net.server.path == Path::Offload {
            assert_eq!(gateway_said(&net.server, SILENT), 1);
            let left = peers(&net.server, "ovpn0");
            assert!(
                left.len() == 1 && left[0]["addresses"][0] == second.vpn(false).to_string(),
                "{left:?}"
            );
            assert!(net.server.gateway().dropped("bad_tag") > 0, "{:?}", net.losses());
            let neighbours = net.server.run(&["ip", "neighbour"]);
            assert!(!neighbours.contains(&format!("{vpn} ")), "{neighbours}");
        }
        let mut third = third.start();
        third.connected();
        assert_eq!(third.vpn(false), vpn);
        net.clients[2].wait_ping(server_address(0, false));
        for daemon in [&second, &third] {
            wait_pings(&net.server, daemon.vpn(false));
        }
        assert_eq!(second.said(INITIALISED).len(), 1);
    });
}

/// Changes of the kernel's routes, as they come; printed when the test fails.
struct Routes {
    child: Child,
    file: tempfile::NamedTempFile,
}

impl Routes {
    fn watch(machine: &Machine) -> Routes {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let mut command = machine.command(&["ip", "-t", "monitor", "route"]);
        let output = file.reopen().expect("a new file");
        let child = command.stdin(Stdio::null()).stdout(output).spawn();
        Routes {
            child: child.expect("ip was there before"),
            file,
        }
    }
}

impl Drop for Routes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let text = std::fs::read_to_string(self.file.path()).unwrap_or_default();
            eprintln!("changes of routes:\n{text}");
        }
    }
}

/// An address of a network behind a client.
fn behind(v6: bool) -> IpAddr {
    let address = if v6 { "fd77::1" } else { "10.77.0.1" };
    address.parse().expect("an address")
}

const NETWORKS: &str = "iroute 10.77.0.0 255.255.255.0\niroute-ipv6 fd77::/64";

/// One more address of a machine.
fn add(machine: &Machine, address: IpAddr) {
    let address = format!("{address}/{}", if address.is_ipv6() { 128 } else { 32 });
    machine.run(&["ip", "address", "add", &address, "dev", "lo", "nodad"]);
}

/// The kernel's route to the network behind a client, by way of a VPN address.
fn route(machine: &Machine, v6: bool) -> Option<String> {
    let (version, network) = if v6 {
        ("-6", "fd77::/64")
    } else {
        ("-4", "10.77.0.0/24")
    };
    let route = machine.run(&["ip", version, "route", "show", network, "dev", "ovpn0"]);
    (!route.trim().is_empty()).then(|| route.trim().to_owned())
}

fn wait_route(machine: &Machine, via: IpAddr) {
    wait_for(&format!("a route via {via}"), || {
        route(machine, via.is_ipv6()).is_some_and(|route| route.contains(&format!("via {via} ")))
    });
}

/// A client with a network behind it is killed, and connects from another machine with the same certificate before the
/// former session has expired; whether the server lets several such sessions be at once, and what it has for them.
fn comes_back(name: &str, (duplicates, settings): (bool, &str), after: impl FnOnce(&Net, &Daemon, &Daemon)) {
    let plan = Plan {
        clients: &[Path::Own, Path::Own],
        ..Plan::default()
    };
    Net::test(name, &plan, |net| {
        if net.server.path == Path::Own {
            return;
        }
        let _routes = Routes::watch(&net.server);
        let mut here = server(&net.server, 0).for_client("client0", settings);
        if duplicates {
            here = here.set("duplicate-cn", "");
        }
        let mut here = here.start();
        here.connected();
        for machine in &net.clients {
            add(machine, behind(false));
            add(machine, behind(true));
        }
        let mut there = client(&net.clients[0], 0).start();
        there.connected();
        for v6 in [false, true] {
            net.server.wait_ping(behind(v6));
        }
        there.kill();
        let mut again = client(&net.clients[1], 0).identity("client0").start();
        again.connected();
        assert_eq!(
            gateway_said(&net.server, SILENT),
            0,
            "it came too late for this test"
        );
        for v6 in [false, true] {
            wait_route(&net.server, again.vpn(v6));
            net.server.wait_ping(behind(v6));
            wait_pings(&net.server, behind(v6));
        }
        after(net, &here, &again);
    });
}

#[test]
fn a_network_follows_its_client() {
    comes_back(
        "a_network_follows_its_client",
        (false, NETWORKS),
        |net, here, again| {
            // The daemon itself ends the former session as soon as the new one begins.
            here.wait_said("previous active sessions by this client to be dropped", 1);
            if net.server.path == Path::Offload {
                assert_eq!(peers(&net.server, "ovpn0").len(), 1);
            }
            for v6 in [false, true] {
                wait_pings(&net.server, behind(v6));
            }
            assert_eq!(again.said(INITIALISED).len(), 1);
        },
    );
}

#[test]
fn a_network_stays_when_the_former_session_expires() {
    let name = "a_network_stays_when_the_former_session_expires";
    comes_back(name, (true, NETWORKS), |net, here, again| {
        wait_one_session(here);
        for v6 in [false, true] {
            wait_route(&net.server, again.vpn(v6));
            net.server.wait_ping(behind(v6));
            wait_pings(&net.server, behind(v6));
        }
        assert_eq!(again.said(INITIALISED).len(), 1);
    });
}

/// A route via one address is one for both sessions: with that of the former the daemon removes that of the latter. All
/// else goes on.
#[test]
fn the_daemon_removes_the_route_of_an_address_that_two_sessions_share() {
    let name = "the_daemon_removes_the_route_of_an_address_that_two_sessions_share";
    let settings =
        format!("{NETWORKS}\nifconfig-push 10.8.0.77 255.255.255.0\nifconfig-ipv6-push fd08::77/64 fd08::1");
    comes_back(name, (true, &settings), |net, here, again| {
        wait_one_session(here);
        for v6 in [false, true] {
            assert_eq!(route(&net.server, v6), None);
            wait_pings(&net.server, again.vpn(v6));
        }
        assert_eq!(again.said(INITIALISED).len(), 1);
    });
}

/// Waits until the former session is gone, with all that the daemon does then.
fn wait_one_session(here: &Daemon) {
    here.wait_said(EXITS, 1);
    wait_for("one session in the status file", || {
        here.status().clients.len() == 1
    });
}

/// Packets that came to each client by its tunnel while the server pinged an address, which is there at both.
fn who_answers(net: &Net, address: IpAddr) -> [bool; 2] {
    let received = || {
        [0, 1].map(|i: usize| {
            let machine = &net.clients[i];
            let runs = !machine.addresses_of("ovpn0").is_empty();
            runs.then(|| machine.statistic("ovpn0", "rx", "packets"))
                .unwrap_or_default()
        })
    };
    let before = received();
    net.server.wait_ping(address);
    wait_pings(&net.server, address);
    let after = received();
    [0, 1].map(|i| after[i] - before[i] >= 20)
}

#[test]
fn of_nested_networks_the_longest_prefix_wins() {
    let plan = Plan {
        clients: &[Path::Own, Path::Own],
        ..Plan::default()
    };
    Net::test("of_nested_networks_the_longest_prefix_wins", &plan, |net| {
        if net.server.path == Path::Own {
            return;
        }
        let _routes = Routes::watch(&net.server);
        let mut here = server(&net.server, 0)
            .for_client("client0", "iroute 10.64.0.0 255.240.0.0\niroute-ipv6 fd70::/12")
            .for_client("client1", NETWORKS)
            .start();
        here.connected();
        let mut daemons: Vec<_> = net
            .clients
            .iter()
            .map(|machine| client(machine, 0).start())
            .collect();
        daemons.iter_mut().for_each(Daemon::connected);
        let wide: [IpAddr; 2] = ["10.70.0.1", "fd70::1"].map(|text| text.parse().expect("an address"));
        for v6 in [false, true] {
            for machine in &net.clients {
                add(machine, behind(v6));
                add(machine, wide[usize::from(v6)]);
            }
            assert_eq!(who_answers(net, behind(v6)), [false, true]);
            assert_eq!(who_answers(net, wide[usize::from(v6)]), [true, false]);
            assert_sources(net, v6, behind(v6), [false, true]);
            assert_sources(net, v6, wide[usize::from(v6)], [true, false]);
        }
        // Without the one with the longer prefix, all is the other's.
        daemons.remove(1).kill();
        here.wait_said(EXITS, 1);
        for v6 in [false, true] {
            assert_eq!(who_answers(net, behind(v6)), [true, false]);
            assert_sources(net, v6, behind(v6), [true, true]);
        }
    });
}

/// Which of the clients that run may send from that source; what others send is dropped.
fn assert_sources(net: &Net, v6: bool, source: IpAddr, may: [bool; 2]) {
    let to = server_address(0, v6);
    let from = source.to_string();
    for (machine, may) in net.clients.iter().zip(may) {
        if machine.addresses_of("ovpn0").is_empty() {
            continue;
        }
        if may {
            wait_for(&format!("{} sends from {source}", machine.name()), || {
                machine.ping(to, &["-c1", "-W1", "-I", &from]).received > 0
            });
            continue;
        }
        let dropped = || net.server.gateway().dropped("bad_source");
        let before = dropped();
        let pings = machine.ping(to, &["-q", "-c5", "-i0.01", "-W1", "-I", &from]);
        assert_eq!(
            pings.received,
            0,
            "{source} of {}: {}",
            machine.name(),
            pings.text
        );
        // Kernels send by themselves from link-local sources, too.
        wait_for(&format!("drops of {source}"), || dropped() - before >= 5);
    }
}

/// `ping` and `ping-restart` in seconds; 0: there is no such timer.
const TIMERS: [(u64, u64); 4] = [(1, 0), (0, 5), (1, 5), (0, 0)];
/// Which of them has both.
const BOTH: usize = 2;
/// Pings that take longer than the longest of them.
const LONGER: [&str; 4] = ["-q", "-c16", "-i0.4", "-W2"];

/// With these timers only.
fn timed(options: Options<'_>, (ping, restart): (u64, u64)) -> Options<'_> {
    let options = options.without("keepalive");
    let pairs = [("ping", ping), ("ping-restart", restart)];
    let pairs = pairs.into_iter().filter(|(_, seconds)| *seconds > 0);
    pairs.fold(options, |options, (name, seconds)| {
        options.set(name, &seconds.to_string())
    })
}

/// What the gateway was told of the one peer's timers.
fn assert_timers(machine: &Machine, interface: &str, (ping, restart): (u64, u64)) {
    let told = ["keepalive_s", "timeout_s"].map(|field| of_peer(machine, interface, field));
    assert_eq!(told, [ping, restart], "{interface} of {}", machine.name());
}

/// A server for each pair of timers, with a client each. A 2.6 daemon hands over no timer of a server without `ping`.
#[test]
fn each_timer_of_a_server_alone_and_both() {
    let plan = Plan {
        clients: &[Path::Own; TIMERS.len()],
        tunnels: TIMERS.len() as u8,
        ..Plan::default()
    };
    Net::test("each_timer_of_a_server_alone_and_both", &plan, |net| {
        if net.server.path == Path::Own {
            return;
        }
        let servers = (0..)
            .zip(TIMERS)
            .map(|(n, timers)| timed(server(&net.server, n), timers).start());
        let mut here: Vec<_> = servers.collect();
        here.iter_mut().for_each(Daemon::connected);
        let connect = |n: usize| {
            let mut daemon = timed(client(&net.clients[n], n as u8), (0, 0)).start();
            daemon.connected();
            daemon
        };
        let others = [0, 1, 3].map(connect);
        let heard = connect(BOTH);
        let data = net.clients[BOTH].ping(server_address(BOTH as u8, false), &LONGER);
        assert!(data.received > 0, "{}", data.text);
        here[BOTH].assert_silent_about(EXITS);
        let number = |n: usize, field| of_peer(&net.server, here[n].interface(), field);
        assert_eq!(number(BOTH, "keepalives_rx"), 0, "data alone kept it");
        for (i, timers) in TIMERS.into_iter().enumerate() {
            let told = if timers.0 > 0 { timers } else { (0, 0) };
            assert_timers(&net.server, here[i].interface(), told);
        }
        let sent = |n| number(n, "keepalives_tx");
        others.into_iter().chain([heard]).for_each(Daemon::kill);
        let so_far = sent(0);
        here[BOTH].wait_said(EXITS, 1);
        assert!(peers(&net.server, here[BOTH].interface()).is_empty());
        // Longer than it took that one, it goes on.
        wait_for("more keepalives", || sent(0) > so_far + 7);
        for n in [0, 1, 3] {
            here[n].assert_silent_about(EXITS);
            assert_eq!(peers(&net.server, here[n].interface()).len(), 1);
        }
        assert_eq!([sent(1), sent(3)], [0, 0]);
    });
}

/// Clients with each pair of timers, of a server that is silent by itself.
#[test]
fn each_timer_of_a_client_alone_and_both() {
    let plan = Plan {
        server: Path::Own,
        clients: &[Path::Offload; TIMERS.len()],
        ..Plan::default()
    };
    Net::test("each_timer_of_a_client_alone_and_both", &plan, |net| {
        if net.clients[0].path == Path::Own {
            return;
        }
        // A client that is told nothing of it takes 120 seconds.
        let none = "push \"ping-restart 0\"";
        let mut here = timed(server(&net.server, 0), (0, 0))
            .for_client("client0", none)
            .for_client("client3", none)
            .start();
        here.connected();
        let connect = |n: usize| {
            let mut daemon = timed(client(&net.clients[n], 0), TIMERS[n]).start();
            daemon.connected();
            daemon
        };
        let there = [0, BOTH, 3].map(|n| (n, connect(n)));
        let heard = connect(1);
        assert!(net.server.ping(heard.vpn(false), &LONGER).received > 0);
        assert_eq!(heard.said(INITIALISED).len(), 1, "data alone keeps it");
        assert_timers(heard.machine, "ovpn0", TIMERS[1]);
        assert_eq!(of_peer(heard.machine, "ovpn0", "keepalives_tx"), 0);
        heard.wait_said("SIGUSR1[soft,", 1);
        heard.wait_said(INITIALISED, 2);
        for (n, daemon) in &there {
            if *n == BOTH {
                daemon.wait_said(INITIALISED, 2);
                continue;
            }
            assert_eq!(daemon.said(INITIALISED).len(), 1, "client {n}");
            assert_timers(daemon.machine, "ovpn0", TIMERS[*n]);
        }
        let sent = |n: usize| of_peer(&net.clients[n], "ovpn0", "keepalives_tx");
        assert!(sent(0) > 0 && sent(3) == 0);
    });
}

/// Nothing passes for longer than both sides wait: the server removes its peers, the clients start anew, and connect once
/// that is possible.
#[test]
fn an_outage_ends_sessions_and_new_ones_follow() {
    let plan = Plan {
        clients: &[Path::Own, Path::Offload],
        ..Plan::default()
    };
    Net::test("an_outage_ends_sessions_and_new_ones_follow", &plan, |net| {
        let mut here = server(&net.server, 0).start();
        here.connected();
        let mut there: Vec<_> = net
            .clients
            .iter()
            .map(|machine| client(machine, 0).start())
            .collect();
        for daemon in &mut there {
            daemon.connected();
            daemon.machine.wait_ping(server_address(0, false));
        }
        let link = |state: &str| {
            for port in ["p-client0", "p-client1"] {
                gateway::run(net.middle.command("ip").args(["link", "set", port, state]));
            }
        };
        link("down");
        here.wait_said(EXITS, 2);
        for daemon in &there {
            daemon.wait_said("SIGUSR1[soft,", 1);
        }
        if net.server.path == Path::Offload {
            assert!(peers(&net.server, "ovpn0").is_empty());
        }
        link("up");
        for daemon in &mut there {
            daemon.connected_times(2);
            daemon.assert_path();
            daemon.machine.wait_ping(server_address(0, false));
            wait_pings(&net.server, daemon.vpn(false));
        }
        assert_eq!(here.status().clients.len(), 2);
    });
}

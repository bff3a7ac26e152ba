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

/// A server with one address to give to clients, and a client of it that is killed.
fn killed(name: &str, path: Path) {
    let plan = Plan {
        clients: &[path, Path::Own],
        ..Plan::default()
    };
    Net::test(name, &plan, |net| {
        let here = server(&net.server, 0)
            .set("server", "10.8.0.0 255.255.255.0 nopool")
            .set("ifconfig-pool", "10.8.0.2 10.8.0.2 255.255.255.0")
            .without("server-ipv6");
        let mut here = here.start();
        here.connected();
        let there = client(&net.clients[0], 0)
            .without("nobind")
            .set("lport", &PORT.to_string());
        let mut there = there.start();
        there.connected();
        let vpn = there.vpn(false);
        net.clients[0].wait_ping(server_address(0, false));
        net.server.ping(vpn, &PINGS).assert_all();
        there.kill();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| forge(&net.clients[0], &ended));
            let gone = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| here.wait_said(EXITS, 1)));
            ended.store(true, Ordering::Relaxed);
            gone.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        assert!(here.status().client("client0").is_none());
        if net.server.path == Path::Offload {
            assert_eq!(gateway_said(&net.server, SILENT), 1);
            assert_eq!(peers(&net.server, "ovpn0"), [Value::Null; 0]);
            let (gateway, left) = (net.server.gateway(), net.server.run(&["ip", "neighbour"]));
            assert!(gateway.dropped("bad_tag") > 0, "{:?}", net.losses());
            assert!(!left.contains(&format!("{vpn} ")), "{left}");
        }
        let mut next = client(&net.clients[1], 0).start();
        next.connected();
        assert_eq!(next.vpn(false), vpn);
        net.clients[1].wait_ping(server_address(0, false));
        net.server.ping(vpn, &PINGS).assert_all();
    });
}

#[test]
fn a_killed_client_is_expired() {
    killed("a_killed_client_is_expired", Path::Own);
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
/// former session has expired.
fn comes_back(
    name: &str,
    options: impl for<'a> FnOnce(Options<'a>) -> Options<'a>,
    after: impl FnOnce(&Net, &Daemon, &Daemon),
) {
    let plan = Plan {
        clients: &[Path::Own, Path::Own],
        ..Plan::default()
    };
    Net::test(name, &plan, |net| {
        if net.server.path == Path::Own {
            return;
        }
        let _routes = Routes::watch(&net.server);
        let here = server(&net.server, 0).for_client("client0", NETWORKS);
        let mut here = options(here).start();
        here.connected();
        net.clients.iter().for_each(|machine| {
            [false, true]
                .map(|v6| add(machine, behind(v6)))
                .into_iter()
                .collect()
        });
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
            net.server.ping(behind(v6), &PINGS).assert_all();
        }
        after(net, &here, &again);
    });
}

#[test]
fn a_network_follows_its_client() {
    comes_back(
        "a_network_follows_its_client",
        |here| here,
        |net, here, again| {
            // The daemon itself ends the former session as soon as the new one begins.
            here.wait_said("previous active sessions by this client to be dropped", 1);
            if net.server.path == Path::Offload {
                assert_eq!(peers(&net.server, "ovpn0").len(), 1);
            }
            for v6 in [false, true] {
                net.server.ping(behind(v6), &PINGS).assert_all();
            }
            assert_eq!(again.said(INITIALISED).len(), 1);
        },
    );
}

#[test]
fn a_network_stays_when_the_former_session_expires() {
    let name = "a_network_stays_when_the_former_session_expires";
    comes_back(
        name,
        |here| here.set("duplicate-cn", ""),
        |net, here, again| {
            here.wait_said(EXITS, 1);
            wait_for("one session in the status file", || {
                here.status().clients.len() == 1
            });
            for v6 in [false, true] {
                println!("after the former session: {:?}", route(&net.server, v6));
                net.server.wait_ping(behind(v6));
                net.server.ping(behind(v6), &PINGS).assert_all();
            }
            assert_eq!(again.said(INITIALISED).len(), 1);
        },
    );
}

#[test]
fn the_daemon_removes_the_route_of_an_address_that_two_sessions_share() {
    let name = "the_daemon_removes_the_route_of_an_address_that_two_sessions_share";
    let settings =
        format!("{NETWORKS}\nifconfig-push 10.8.0.77 255.255.255.0\nifconfig-ipv6-push fd08::77/64 fd08::1");
    comes_back(
        name,
        |here| here.set("duplicate-cn", "").for_client("client0", &settings),
        |net, here, again| {
            here.wait_said(EXITS, 1);
            wait_for("one session in the status file", || {
                here.status().clients.len() == 1
            });
            for v6 in [false, true] {
                println!("after the former session: {:?}", route(&net.server, v6));
                net.server.ping(again.vpn(v6), &PINGS).assert_all();
            }
            println!("{}", net.server.run(&["ip", "neigh"]));
            assert_eq!(again.said(INITIALISED).len(), 1);
        },
    );
}

/// Packets that came to each client by its tunnel while the server pinged an address, which is there at both.
fn who_answers(net: &Net, address: IpAddr) -> [bool; 2] {
    let received = || [0, 1].map(|i: usize| net.clients[i].statistic("ovpn0", "rx", "packets"));
    let before = received();
    net.server.wait_ping(address);
    net.server.ping(address, &PINGS).assert_all();
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

/// Which of the clients that run may send from that source.
fn assert_sources(net: &Net, v6: bool, source: IpAddr, may: [bool; 2]) {
    for (machine, may) in net.clients.iter().zip(may) {
        if machine.addresses_of("ovpn0").is_empty() {
            continue;
        }
        let before = net.server.gateway().dropped("bad_source");
        let source = source.to_string();
        let pings = machine.ping(
            server_address(0, v6),
            &["-q", "-c5", "-i0.01", "-W1", "-I", &source],
        );
        // The echo replies go to whose source it is.
        let dropped = net.server.gateway().dropped("bad_source") - before;
        assert_eq!(
            (pings.received, dropped),
            if may { (5, 0) } else { (0, 5) },
            "{source} of {}",
            machine.name()
        );
    }
}

/// `ping` and `ping-restart` in seconds; 0: not in the configuration.
const TIMERS: [(u64, u64); 4] = [(1, 0), (0, 5), (1, 5), (0, 0)];
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

/// A server for each pair of timers, with a client each.
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
        // The third pings; of the second only data is heard.
        let start = |(n, machine)| timed(client(machine, n), if n == 2 { (1, 0) } else { (0, 0) }).start();
        let mut there: Vec<_> = (0..).zip(&net.clients).map(start).collect();
        there.iter_mut().for_each(Daemon::connected);
        net.clients[1]
            .ping(server_address(1, false), &LONGER)
            .assert_all();
        for (i, timers) in TIMERS.into_iter().enumerate() {
            here[i].assert_silent_about(EXITS);
            assert_timers(&net.server, here[i].interface(), timers);
        }
        assert!(of_peer(&net.server, "ovpn2", "keepalives_rx") > 0);
        let sent = |n: usize| of_peer(&net.server, here[n].interface(), "keepalives_tx");
        wait_for("keepalives", || sent(0) > 0 && sent(2) > 0);
        assert_eq!([sent(1), sent(3)], [0, 0]);
        there.into_iter().for_each(Daemon::kill);
        let so_far = sent(0);
        for n in [1, 2] {
            here[n].wait_said(EXITS, 1);
            assert!(peers(&net.server, here[n].interface()).is_empty());
        }
        // Longer than it took the others, it goes on.
        wait_for("more keepalives", || sent(0) > so_far + 7);
        for n in [0, 3] {
            here[n].assert_silent_about(EXITS);
            assert_eq!(peers(&net.server, here[n].interface()).len(), 1);
        }
        assert_eq!(sent(3), 0);
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
        let mut here = timed(server(&net.server, 0), (0, 0)).start();
        here.connected();
        let connect = |n: usize| {
            let mut daemon = timed(client(&net.clients[n], 0), TIMERS[n]).start();
            daemon.connected();
            daemon
        };
        let there = [0, 2, 3].map(|n| (n, connect(n)));
        let heard = connect(1);
        net.server.ping(heard.vpn(false), &LONGER).assert_all();
        assert_eq!(heard.said(INITIALISED).len(), 1, "data alone keeps it");
        assert_timers(heard.machine, "ovpn0", TIMERS[1]);
        assert_eq!(of_peer(heard.machine, "ovpn0", "keepalives_tx"), 0);
        heard.wait_said("SIGUSR1[soft,", 1);
        heard.wait_said(INITIALISED, 2);
        for (n, daemon) in &there {
            if *n == 2 {
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
            net.server.ping(daemon.vpn(false), &PINGS).assert_all();
        }
        assert_eq!(here.status().clients.len(), 2);
    });
}

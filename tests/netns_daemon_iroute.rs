//! Networks behind clients that come back, or that lie in one another.

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/daemon_peers.rs"]
mod daemon_peers;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/pair.rs"]
mod pair;

use daemon::{Daemon, INITIALISED, Machine, Net, Path, Plan, client, server, server_address};
use daemon_peers::{EXITS, SILENT, gateway_said, peers, wait_pings};
use gateway::wait_for;
use std::net::IpAddr;
use std::process::{Child, Stdio};

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
            if runs {
                machine.statistic("ovpn0", "rx", "packets")
            } else {
                0
            }
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

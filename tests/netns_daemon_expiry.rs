//! Clients that are killed, and outages: who says so, what becomes of addresses, and how it goes on.

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
use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The client's port, where it matters.
const PORT: u16 = 5000;
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

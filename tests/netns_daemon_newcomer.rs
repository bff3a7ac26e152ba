//! Clients that come to where a client was that has moved without its daemon's knowing, or that start anew where it is.

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/daemon_float.rs"]
mod daemon_float;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/pair.rs"]
mod pair;

use daemon::{Daemon, INITIALISED, Net, Path, Plan, server_address};
use daemon_float::{DONE, PORT, addresses, at_port, endpoint, serve, wait_floated, wait_pings, whereabouts};
use std::net::SocketAddr;

/// The server's `reneg-sec`; a client's is 0.
const RENEG: u64 = 5;

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
        let mut here = serve(&net.server, v6, RENEG).set("float", "").start();
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

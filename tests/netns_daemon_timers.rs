//! The timers that daemons ask for, each alone and both.

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/daemon_peers.rs"]
mod daemon_peers;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/pair.rs"]
mod pair;

use daemon::{Daemon, INITIALISED, Machine, Net, Options, Path, Plan, client, server, server_address};
use daemon_peers::{EXITS, of_peer, peers};
use gateway::wait_for;

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

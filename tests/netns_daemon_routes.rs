//! Networks behind clients (`iroute`), what a client may send from, and clients that reach each other, with stock OpenVPN
//! daemons whose server has its data path in the gateway.

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/pair.rs"]
mod pair;

use daemon::{Daemon, Machine, Net, Options, Path, Plan, client, server, server_address};
use gateway::wait_for;
use std::fs;
use std::net::IpAddr;

/// Arguments of pings, all at once: while answers come, `ping` waits for the last one no longer than for the interval.
const PINGS: [&str; 5] = ["-q", "-c20", "-l20", "-i5", "-s1000"];
/// Clients at once.
const MANY: usize = 10;

/// An address of the network behind a client.
fn behind(v6: bool) -> IpAddr {
    let address = if v6 { "fd77::1" } else { "10.77.0.1" };
    address.parse().expect("an address")
}

/// A server for a client with that network behind it. Without the client the network is routed into the tunnel as well,
/// which must make no difference while the client is there.
fn server_with_network<'n>(machine: &'n Machine, name: &str) -> Options<'n> {
    server(machine, 0)
        .for_client(name, "iroute 10.77.0.0 255.255.255.0\niroute-ipv6 fd77::/64")
        .set("route", "10.77.0.0 255.255.255.0")
        .set("route-ipv6", "fd77::/64")
}

/// One more address of a machine, on the loopback interface: of a network behind it, or of somebody else.
fn add(machine: &Machine, address: IpAddr) {
    let length = if address.is_ipv6() { 128 } else { 32 };
    machine.run(&[
        "ip",
        "address",
        "add",
        &format!("{address}/{length}"),
        "dev",
        "lo",
        "nodad",
    ]);
}

/// Pings from a certain source.
fn pings_from(machine: &Machine, source: IpAddr, to: IpAddr) -> daemon::Pings {
    machine.ping(to, &[&PINGS[..], &["-I", &source.to_string()]].concat())
}

/// Waits until an address answers to another.
fn wait_ping_from(machine: &Machine, source: IpAddr, to: IpAddr) {
    wait_for(&format!("{source} reaches {to}"), || {
        let source = source.to_string();
        machine.ping(to, &["-c1", "-W1", "-I", &source]).received > 0
    });
}

/// What is sent from a source that is not the client's never comes out of the tunnel, and is counted. So are packets of the
/// client's kernel from its link-local address.
fn assert_refused(net: &Net, source: IpAddr) {
    let from = &net.clients[0];
    add(from, source);
    let to = server_address(0, source.is_ipv6());
    let mut wire = net.server.wire("ovpn0");
    let before = net.server.gateway().dropped("bad_source");
    let text = source.to_string();
    let pings = from.ping(to, &["-q", "-c5", "-i0.01", "-W1", "-I", &text]);
    assert_eq!((pings.sent, pings.received), (5, 0), "{}", pings.text);
    wait_for(&format!("5 drops of {source}"), || {
        net.server.gateway().dropped("bad_source") - before >= 5
    });
    // The way is open: what the client sends from its own address afterwards comes out.
    from.ping(to, &PINGS).assert_all();
    let is_from = |frame: &[u8]| match source {
        IpAddr::V4(source) => frame[12..14] == [0x08, 0x00] && frame[26..30] == source.octets(),
        IpAddr::V6(source) => frame[12..14] == [0x86, 0xdd] && frame[22..38] == source.octets(),
    };
    let is_echo_request = |frame: &[u8]| match source {
        IpAddr::V4(_) => frame[23] == 1 && frame.get(34) == Some(&8),
        IpAddr::V6(_) => frame[20] == 58 && frame.get(54) == Some(&128),
    };
    let (mut own, mut forged) = (0, 0);
    while let Some(frame) = wire.next() {
        let request = is_echo_request(&frame);
        own += u32::from(request && !is_from(&frame));
        forged += u32::from(request && is_from(&frame));
    }
    assert!(own >= 20 && forged == 0, "{own} own, {forged} from {source}");
}

/// The server forwards.
fn forward(machine: &Machine) {
    machine.namespace.enter(|| {
        for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            fs::write(format!("/proc/sys/net/{setting}"), "1").expect("root may");
        }
    });
}

/// ICMP and ICMPv6 redirects that a machine sent, and those that it received.
fn redirects(machine: &Machine) -> [u64; 4] {
    let [snmp, snmp6] = machine.namespace.enter(|| {
        ["snmp", "snmp6"]
            .map(|file| fs::read_to_string(format!("/proc/thread-self/net/{file}")).expect("mounted"))
    });
    let mut icmp = snmp.lines().filter_map(|line| line.strip_prefix("Icmp: "));
    let (names, values) = (icmp.next().expect("of ICMP"), icmp.next().expect("of ICMP"));
    let four = |name: &str| {
        let mut pairs = names.split(' ').zip(values.split(' '));
        let value = pairs.find(|(n, _)| *n == name).map(|(_, value)| value);
        value.and_then(|value| value.parse().ok()).expect("a number")
    };
    let six = |name: &str| {
        let line = snmp6.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok())
            .expect("a number")
    };
    [
        four("OutRedirects"),
        four("InRedirects"),
        six("Icmp6OutRedirects"),
        six("Icmp6InRedirects"),
    ]
}

/// Clients on all machines of that net, connected.
fn clients<'n>(net: &'n Net) -> Vec<Daemon<'n>> {
    let mut all: Vec<_> = net.clients.iter().map(|m| client(m, 0).start()).collect();
    all.iter_mut().for_each(Daemon::connected);
    all
}

fn network_behind(name: &str, client_path: Path) {
    let plan = Plan {
        clients: &[Path::Own, client_path],
        ..Plan::default()
    };
    Net::test(name, &plan, |net| {
        let mut here = server_with_network(&net.server, "client1").start();
        here.connected();
        // The other one comes first: a route by way of the first VPN address must not count.
        let mut other = client(&net.clients[0], 0).start();
        other.connected();
        let mut there = client(&net.clients[1], 0).start();
        there.connected();
        for v6 in [false, true] {
            let (network, to) = (behind(v6), server_address(0, v6));
            add(&net.clients[1], network);
            wait_ping_from(&net.clients[1], network, to);
            pings_from(&net.clients[1], network, to).assert_all();
            net.server.wait_ping(network);
            net.server.ping(network, &PINGS).assert_all();
        }
        if net.server.path == Path::Offload {
            let status = net.server.status();
            let address = there.vpn(false).to_string();
            let networks = &status.peer("ovpn0", &address)["networks"];
            for network in ["10.77.0.0/24", "fd77::/64"] {
                let networks = networks.as_array().into_iter().flatten();
                assert!(networks.clone().any(|n| n == network), "{networks:?}");
            }
        }
        // Over a new session as well; its route comes when the old one is gone.
        there.end();
        let mut again = client(&net.clients[1], 0).start();
        again.connected();
        for v6 in [false, true] {
            wait_ping_from(&net.clients[1], behind(v6), server_address(0, v6));
            net.server.wait_ping(behind(v6));
        }
    });
}

#[test]
fn a_network_behind_a_client_is_reached() {
    network_behind("a_network_behind_a_client_is_reached", Path::Own);
}

#[test]
fn a_network_behind_a_client_with_a_gateway_is_reached() {
    network_behind(
        "a_network_behind_a_client_with_a_gateway_is_reached",
        Path::Offload,
    );
}

#[test]
fn only_a_clients_own_sources_pass() {
    let plan = Plan {
        clients: &[Path::Own, Path::Own],
        ..Plan::default()
    };
    Net::test("only_a_clients_own_sources_pass", &plan, |net| {
        if net.server.path == Path::Own {
            return;
        }
        let mut here = server_with_network(&net.server, "client1").start();
        here.connected();
        let daemons = clients(net);
        for v6 in [false, true] {
            net.clients[0].wait_ping(server_address(0, v6));
            add(&net.clients[1], behind(v6));
            wait_ping_from(&net.clients[1], behind(v6), server_address(0, v6));
            // Of the other's network, of the other itself, and of the server.
            assert_refused(net, behind(v6));
            assert_refused(net, daemons[1].vpn(v6));
        }
        // Who has it goes on.
        for v6 in [false, true] {
            pings_from(&net.clients[1], behind(v6), server_address(0, v6)).assert_all();
            net.clients[0].ping(server_address(0, v6), &PINGS).assert_all();
        }
    });
}

#[test]
fn clients_reach_each_other_through_the_kernel() {
    let plan = Plan {
        clients: &[Path::Own, Path::Own],
        ..Plan::default()
    };
    Net::test("clients_reach_each_other_through_the_kernel", &plan, |net| {
        forward(&net.server);
        let mut here = server_with_network(&net.server, "client1").start();
        here.connected();
        let daemons = clients(net);
        let machines: Vec<_> = net.clients.iter().chain([&net.server]).collect();
        let before: Vec<_> = machines.iter().map(|m| redirects(m)).collect();
        for v6 in [false, true] {
            for (from, to) in [(0, 1), (1, 0)] {
                net.clients[from].wait_ping(daemons[to].vpn(v6));
                net.clients[from].ping(daemons[to].vpn(v6), &PINGS).assert_all();
            }
            // To the network behind the other, too.
            add(&net.clients[1], behind(v6));
            let network = if v6 { "fd77::/64" } else { "10.77.0.0/24" };
            net.clients[0].run(&["ip", "route", "add", network, "dev", "ovpn0"]);
            net.clients[0].wait_ping(behind(v6));
            net.clients[0].ping(behind(v6), &PINGS).assert_all();
        }
        let after: Vec<_> = machines.iter().map(|m| redirects(m)).collect();
        assert_eq!(after, before, "redirects sent and received");
    });
}

#[test]
fn ten_clients_at_once() {
    let plan = Plan {
        clients: &[Path::Own; MANY],
        ..Plan::default()
    };
    Net::test("ten_clients_at_once", &plan, |net| {
        // Ten handshakes at once on a machine with much to do may take long.
        let mut here = server(&net.server, 0).set("keepalive", "2 20").start();
        here.connected();
        let daemons = clients(net);
        let mut addresses: Vec<_> = daemons.iter().map(|d| d.vpn(false)).collect();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), MANY, "{addresses:?}");
        for v6 in [false, true] {
            for (machine, daemon) in net.clients.iter().zip(&daemons) {
                machine.wait_ping(server_address(0, v6));
                net.server.wait_ping(daemon.vpn(v6));
            }
            let to = server_address(0, v6);
            std::thread::scope(|scope| {
                for machine in &net.clients {
                    scope.spawn(move || machine.ping(to, &PINGS).assert_all());
                }
                for daemon in &daemons {
                    let (server, to) = (&net.server, daemon.vpn(v6));
                    scope.spawn(move || server.ping(to, &PINGS).assert_all());
                }
            });
        }
        assert_eq!(here.status().clients.len(), MANY);
        if net.server.path == Path::Offload {
            let status = net.server.status();
            assert_eq!(status.code, Some(0), "{status:?}");
            let peers = status.tunnel("ovpn0")["peers"].as_array();
            assert_eq!(peers.map(Vec::len), Some(MANY), "{status:?}");
        }
    });
}

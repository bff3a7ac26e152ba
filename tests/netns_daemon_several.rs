//! Several stock OpenVPN servers with one gateway, several addresses of one server, and who may have an interface.

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/pair.rs"]
mod pair;

use daemon::{Daemon, INITIALISED, Machine, Net, Path, Plan, client, port, server, server_address};
use gateway::{PATIENCE, Wire, wait_for};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Arguments of pings, all at once: while answers come, `ping` waits for the last one no longer than for the interval.
const PINGS: [&str; 5] = ["-q", "-c20", "-l20", "-i5", "-s1000"];

/// Pings both ways, in both IP versions, between a client and its server.
fn carries(net: &Net, there: &Daemon, n: u8) {
    for v6 in [false, true] {
        let to = server_address(n, v6);
        there.machine.wait_ping(to);
        there.machine.ping(to, &PINGS).assert_all();
        net.server.ping(there.vpn(v6), &PINGS).assert_all();
    }
}

/// Records and control packets that a server sent by UDP, by their outer source address and opcode.
fn sources(wire: &mut Wire) -> BTreeMap<(IpAddr, u8), u32> {
    let mut counts = BTreeMap::new();
    while let Some(frame) = wire.next() {
        let (source, udp): (IpAddr, _) = match frame[12..14] {
            [0x08, 0x00] if frame[23] == 17 => {
                (<[u8; 4]>::try_from(&frame[26..30]).expect("four").into(), 34)
            }
            [0x86, 0xdd] if frame[20] == 17 => (<[u8; 16]>::try_from(&frame[22..38]).expect("16").into(), 54),
            _ => continue,
        };
        if frame[udp..udp + 2] == port(0).to_be_bytes() {
            *counts.entry((source, frame[udp + 8] >> 3)).or_default() += 1;
        }
    }
    counts
}

#[test]
fn two_servers_on_two_ports() {
    let plan = Plan {
        clients: &[Path::Own, Path::Own],
        tunnels: 2,
        ..Plan::default()
    };
    Net::test("two_servers_on_two_ports", &plan, |net| {
        let mut servers: Vec<_> = [0, 1].map(|n| server(&net.server, n).start()).into();
        servers.iter_mut().for_each(Daemon::connected);
        let mut daemons: Vec<_> = [0, 1]
            .map(|n| client(&net.clients[usize::from(n)], n).start())
            .into();
        daemons.iter_mut().for_each(Daemon::connected);
        for (there, n) in daemons.iter().zip(0..) {
            carries(net, there, n);
        }
        if net.server.path == Path::Offload {
            let status = net.server.status();
            assert_eq!(status.code, Some(0), "{status:?}");
            for (here, n) in servers.iter().zip(0_u8..) {
                let interface = format!("ovpn{n}");
                status.assert_drives(here.pid(), &interface);
                // Peer ids are each server's own, and both begin with the same.
                let peers = status.tunnel(&interface)["peers"].as_array().map(Vec::len);
                assert_eq!(peers, Some(1), "{status:?}");
                status.peer(&interface, &format!("10.{}.0.2", 8 + n));
            }
        }
        // One ends: what is the other's stays.
        servers.remove(0).kill();
        let to = server_address(1, false);
        net.clients[1].ping(to, &PINGS).assert_all();
        if net.server.path == Path::Offload {
            wait_for("a tunnel without a daemon", || {
                net.server.status().code == Some(3)
            });
            let status = net.server.status();
            assert!(status.tunnel("ovpn0")["daemon"].is_null(), "{status:?}");
            status.assert_drives(servers[0].pid(), "ovpn1");
        }
        // Another one takes its place, and its client comes back.
        let mut again = server(&net.server, 0).start();
        again.connected();
        daemons[0].connected_times(2);
        for (there, n) in daemons.iter().zip(0..) {
            carries(net, there, n);
        }
    });
}

/// A server with `--multihome` on a machine with two addresses: whoever it answers, by whatever, it does so from the address
/// that it was asked at.
fn multihome(name: &str, v6: bool) {
    let plan = Plan {
        clients: &[Path::Own, Path::Own],
        ..Plan::default()
    };
    Net::test(name, &plan, |net| {
        let (second, length) = if v6 {
            ("2001:db8::2", 64)
        } else {
            ("192.0.2.2", 24)
        };
        net.server.add_address(&format!("{second}/{length}"));
        let first = if v6 { "2001:db8::1" } else { "192.0.2.1" };
        let proto = if v6 { "udp6" } else { "udp4" };
        let options = server(&net.server, 0).proto(proto).set("multihome", "");
        let mut here = options.start();
        here.connected();
        let wires = [0, 1].map(|i| {
            let port = format!("p-client{i}");
            net.middle.enter(|| Wire::of(&port))
        });
        let daemons = [0, 1].map(|i: usize| {
            let options = client(&net.clients[i], 0).proto(proto);
            let remote = format!("{} {}", [first, second][i], port(0));
            options.set("remote", &remote).set("reneg-sec", "5").start()
        });
        let mut daemons = Vec::from(daemons);
        daemons.iter_mut().for_each(Daemon::connected);
        for there in &daemons {
            carries(net, there, 0);
        }
        // What the server sends by itself, too: keepalives, and answers within a renegotiation.
        for there in &daemons {
            there.wait_said("Control Channel: TLS", 2);
            carries(net, there, 0);
        }
        for (mut wire, address) in wires.into_iter().zip([first, second]) {
            let address: IpAddr = address.parse().expect("an address");
            let counts = sources(&mut wire);
            let data: u32 = counts.get(&(address, 9)).copied().unwrap_or_default();
            let all_from_there = counts.keys().all(|(source, _)| *source == address);
            assert!(all_from_there && data > 100 && counts.len() > 2, "{counts:?}");
        }
    });
}

#[test]
fn multihome_with_two_addresses() {
    multihome("multihome_with_two_addresses", false);
}

#[test]
fn multihome_with_two_ipv6_addresses() {
    multihome("multihome_with_two_ipv6_addresses", true);
}

/// More tunnels, whose names are those that `--dev tun` tries.
const NUMBERED: &str =
    "[[tunnel]]\nkind = \"tap\"\ninterface = \"tun0\"\n[[tunnel]]\nkind = \"tap\"\ninterface = \"tun1\"\n";

#[test]
fn a_device_without_a_number_is_the_next_one_that_is_free() {
    let plan = Plan {
        clients: &[Path::Own, Path::Own],
        tunnel: NUMBERED,
        ..Plan::default()
    };
    let name = "a_device_without_a_number_is_the_next_one_that_is_free";
    Net::test(name, &plan, |net| {
        if net.server.path == Path::Own {
            return;
        }
        let mut daemons = Vec::new();
        for n in [0, 1] {
            let here = server(&net.server, n).set("dev", "tun").without("dev-type");
            let here = here.start();
            here.wait_said(INITIALISED, 1);
            let interface = format!("tun{n}");
            here.wait_said(&format!("DCO device {interface} opened"), 1);
            net.server.status().assert_drives(here.pid(), &interface);
            let mut there = client(&net.clients[usize::from(n)], n).start();
            there.connected();
            carries(net, &there, n);
            daemons.extend([here, there]);
        }
        // None is left: no daemon gets one that another has.
        let mut third = server(&net.server, 2)
            .set("dev", "tun")
            .without("dev-type")
            .start();
        assert_eq!(third.wait(PATIENCE).code(), Some(1), "{}", third.text());
        third.wait_said("Cannot allocate DCO dev dynamically", 1);
        for (there, n) in daemons.iter().skip(1).step_by(2).zip(0..) {
            carries(net, there, n);
        }
    });
}

#[test]
fn a_third_daemon_for_an_interface_is_refused() {
    Net::test(
        "a_third_daemon_for_an_interface_is_refused",
        &Plan::default(),
        |net| {
            if net.server.path == Path::Own {
                return;
            }
            let mut here = server(&net.server, 0).start();
            here.connected();
            let mut there = client(&net.clients[0], 0).start();
            there.connected();
            carries(net, &there, 0);
            refuses(&net.server, &here);
            // He who has it noticed nothing.
            assert!(here.runs());
            net.server.status().assert_drives(here.pid(), "ovpn0");
            carries(net, &there, 0);
            assert_eq!(there.said(INITIALISED).len(), 1, "it was never interrupted");
        },
    );
}

/// Another daemon for the interface of one that runs: it ends, and both logs say why.
fn refuses(machine: &Machine, holder: &Daemon) {
    let mut other = server(machine, 0).set("port", "1200").start();
    let status = other.wait(PATIENCE);
    assert_eq!(status.code(), Some(1), "{}", other.text());
    other.wait_said("Cannot open DCO device ovpn0: Device or resource busy", 1);
    let log = machine.gateway().stderr();
    let line = format!(
        "process {} (openvpn): refused: ovpn0 is driven by process {} (openvpn) already",
        other.pid(),
        holder.pid()
    );
    assert!(log.contains(&line), "{line:?} is not in {log}");
}

//! What does not get its data channel here, by OpenVPN's own decision or by the gateway's: somebody says why, nothing that
//! runs is disturbed, and `ovpn-dpdk status` tells it from what does.

#[path = "support/attack.rs"]
mod attack;
#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/fake.rs"]
mod fake;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/pair.rs"]
mod pair;

use attack::{datagram, known};
use daemon::{Daemon, INITIALISED, Machine, Net, Path, Plan, client, port, server, server_address};
use fake::Fake;
use gateway::{PATIENCE, Wire, wait_for};
use std::process::Command;

/// Arguments of pings, all at once: while answers come, `ping` waits for the last one no longer than for the interval.
const PINGS: [&str; 5] = ["-q", "-c20", "-l20", "-i5", "-s1000"];
/// Directives with which OpenVPN has no data channel offload, and what it says of each.
const WITHOUT_OFFLOAD: [(&str, &str, &str); 5] = [
    ("fragment", "1300", "--fragment disables data channel offload"),
    ("comp-lzo", "", "disabling data channel offload"),
    ("allow-compression", "yes", "disabling data channel offload"),
    ("topology", "net30", "disables data channel offload"),
    (
        "data-ciphers",
        "AES-256-CBC",
        "cipher 'AES-256-CBC' in --data-ciphers is not supported by ovpn-dco, disabling data channel offload",
    ),
];

/// What `ovpn-dpdk status` says to people, and its exit status.
fn told(machine: &Machine) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ovpn-dpdk"));
    let out = command
        .args(["status", "--socket"])
        .arg(machine.socket())
        .output();
    let out = out.expect("the program starts");
    let said = [out.stdout, out.stderr].concat();
    (out.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// `status` says, to people and to programs, that nobody drives the tunnel.
fn nobody_drives(machine: &Machine) {
    let (code, said) = told(machine);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("\nnot healthy: no daemon drives ovpn0\n"), "{said}");
    let status = machine.status();
    assert_eq!(status.code, Some(3), "{status:?}");
    assert_eq!(status.report["healthy"], false, "{status:?}");
    assert!(status.tunnel("ovpn0")["daemon"].is_null(), "{status:?}");
}

/// A client connects, and all its pings are answered.
fn connects(net: &Net) -> Daemon<'_> {
    let mut there = client(&net.clients[0], 0).start();
    there.connected();
    for v6 in [false, true] {
        let to = server_address(0, v6);
        net.clients[0].wait_ping(to);
        net.clients[0].ping(to, &PINGS).assert_all();
    }
    there
}

#[test]
fn options_that_openvpn_has_no_offload_with() {
    let name = "options_that_openvpn_has_no_offload_with";
    Net::test(name, &Plan::default(), |net| {
        if net.server.path == Path::Own {
            return;
        }
        nobody_drives(&net.server);
        for (directive, arguments, why) in WITHOUT_OFFLOAD {
            let start = |interface: &str| {
                let options = server(&net.server, 0).refused().set("dev", interface);
                options.set(directive, arguments).start()
            };
            // The gateway's interface is no place for the daemon's own data path: it ends.
            let mut here = start("ovpn0");
            assert_eq!(
                here.wait(PATIENCE).code(),
                Some(1),
                "{directive}: {}",
                here.text()
            );
            here.wait_said(why, 1);
            here.wait_said("Cannot ioctl TUNSETIFF ovpn0: Invalid argument", 1);
            nobody_drives(&net.server);
            // With another one it serves by itself.
            let mut here = start("other0");
            here.connected();
            here.wait_said(why, 1);
            nobody_drives(&net.server);
        }
        // None of them has left anything behind.
        let mut here = server(&net.server, 0).start();
        here.connected();
        let there = connects(net);
        let (code, said) = told(&net.server);
        assert!(
            code == Some(0) && said.ends_with("\nhealthy\n"),
            "{code:?}: {said}"
        );
        there.end();
        here.end();
    });
}

/// A daemon that serves by itself, under a gateway for which it has the library: its clients are served, and `status` does
/// not take it for its own.
#[test]
fn a_daemon_that_serves_by_itself_is_told_from_one_that_does_not() {
    let name = "a_daemon_that_serves_by_itself_is_told_from_one_that_does_not";
    let plan = Plan {
        clients: &[Path::Own],
        ..Plan::default()
    };
    Net::test(name, &plan, |net| {
        if net.server.path == Path::Own {
            return;
        }
        let options = server(&net.server, 0).refused().set("dev", "other0");
        let cbc = ["data-ciphers", "AES-256-CBC"];
        let mut here = options.set(cbc[0], cbc[1]).start();
        here.connected();
        let mut there = client(&net.clients[0], 0).set(cbc[0], cbc[1]).start();
        there.connected();
        net.clients[0].wait_ping(server_address(0, false));
        net.clients[0].ping(server_address(0, false), &PINGS).assert_all();
        nobody_drives(&net.server);
        assert_eq!(net.server.gateway().counter("records"), 0, "records here");
    });
}

/// An interface that is no tunnel of the gateway: the kernel has no such kind of interface, and OpenVPN ends, since it does
/// not go back to its own data path that late.
#[test]
fn an_interface_that_is_no_tunnel() {
    Net::test("an_interface_that_is_no_tunnel", &Plan::default(), |net| {
        if net.server.path == Path::Own {
            return;
        }
        let cases = [
            ("other0", "other0", "Cannot open DCO device other0"),
            ("tun", "tun0", "Cannot allocate DCO dev dynamically"),
        ];
        for (interface, asked, said) in cases {
            let mut here = server(&net.server, 0).set("dev", interface).start();
            assert_eq!(here.wait(PATIENCE).code(), Some(1), "{}", here.text());
            here.wait_said(said, 1);
            let line = format!(
                "process {} (openvpn): asks for the interface {asked} (kind ovpn-dco), which is no [[tunnel]] here: \
                 left to the kernel",
                here.pid()
            );
            wait_for(&line, || net.server.gateway().stderr().contains(&line));
            // Once, however many names it tries.
            let asks = format!("process {} (openvpn): asks for the interface", here.pid());
            assert_eq!(net.server.gateway().stderr().matches(&asks).count(), 1);
            nobody_drives(&net.server);
        }
        let mut here = server(&net.server, 0).start();
        here.connected();
        connects(net);
    });
}

#[test]
fn tcp_is_refused() {
    Net::test("tcp_is_refused", &Plan::default(), |net| {
        if net.server.path == Path::Own {
            return;
        }
        let mut here = server(&net.server, 0).proto("tcp4-server").start();
        here.connected();
        for times in 1..=2 {
            let mut there = client(&net.clients[0], 0).proto("tcp4-client").start();
            assert_eq!(there.wait(PATIENCE).code(), Some(0), "{}", there.text());
            there.wait_said("AUTH: Received control message: AUTH_FAILED", 1);
            let line = format!(
                "process {} (openvpn): refused: peer 0: it comes by TCP, which stays with the daemon",
                here.pid()
            );
            wait_for(&line, || {
                net.server.gateway().stderr().matches(&line).count() == times
            });
            // In the daemon's own log, too.
            here.wait_said("it comes by TCP, which stays with the daemon", times);
            here.wait_said("client-instance restarting", times);
        }
        assert!(here.runs());
        let status = net.server.status();
        status.assert_drives(here.pid(), "ovpn0");
        assert_eq!(
            status.tunnel("ovpn0")["peers"].as_array().map(Vec::len),
            Some(0),
            "{status:?}"
        );
        here.end();
        // What is to be done about it: the same by TCP without the offload, beside the gateway.
        let options = server(&net.server, 0).path(Path::Own).set("dev", "other0");
        let mut here = options.proto("tcp4-server").start();
        here.connected();
        let mut there = client(&net.clients[0], 0).proto("tcp4-client").start();
        there.connected();
        net.clients[0].wait_ping(server_address(0, false));
        net.clients[0].ping(server_address(0, false), &PINGS).assert_all();
    });
}

/// On a machine where no gateway runs, with the library: the daemon's data path is its own.
fn serves_by_itself(net: &Net) {
    let mut here = server(&net.server, 0).refused().start();
    here.connected();
    here.wait_said(
        "Kernel support for ovpn-dco missing, disabling data channel offload",
        1,
    );
    let there = connects(net);
    here.assert_path();
    there.end();
    here.end();
}

/// Machines without gateways.
const OWN: Plan<'static> = Plan {
    server: Path::Own,
    clients: &[Path::Own],
    tunnels: 1,
    mtu: 1500,
    general: "",
    nic: "",
    control: "",
    tunnel: "",
    relay: None,
};

#[test]
fn without_a_gateway() {
    Net::test("without_a_gateway", &OWN, |net| {
        serves_by_itself(net);
        let (code, said) = told(&net.server);
        let line = format!("ovpn-dpdk: {}: ", net.server.socket().display());
        assert!(code == Some(1) && said.starts_with(&line), "{code:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    });
}

/// A gateway of another version refuses the greeting, or knows none: for the daemon it is not there, and `status` is no better
/// off.
#[test]
fn a_gateway_of_another_version() {
    Net::test("a_gateway_of_another_version", &OWN, |net| {
        const EPROTONOSUPPORT: i32 = 93;
        for (answer, why) in [(Some(-EPROTONOSUPPORT), "the gateway refuses"), (None, "")] {
            let fake = Fake::start(&net.server, answer);
            serves_by_itself(net);
            assert!(fake.greeted() > 0, "the library did not ask");
            let (code, said) = told(&net.server);
            assert!(code == Some(1) && said.contains(why), "{code:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    });
}

/// The UDP payloads between a client and the server that are records, with whether the server sent it.
fn records(wire: &mut Wire) -> Vec<(bool, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(frame) = wire.next() {
        if frame[12..14] != [0x08, 0x00] || frame[23] != 17 || frame[42] >> 3 != 9 {
            continue;
        }
        let len = usize::from(u16::from_be_bytes([frame[38], frame[39]]));
        all.push((
            frame[34..36] == port(0).to_be_bytes(),
            frame[42..34 + len].to_vec(),
        ));
    }
    all
}

/// Records of the epoch format are those that the format's description has as examples: AES-256-GCM, epochs 1 and 2. In the classic
/// format their tag is somewhere else.
const EPOCH: [&str; 2] = [
    "480000010001000000000001c2fe07b4542687fb92a265089da510f784bbc1ed89703ba4019bbf1d3d62a8ad",
    "480000010002000000000001b2b1afbd0d32ea732be948cf8ca9d09a299a0425b0c4451eb0cea316557a6a8b",
];

#[test]
fn the_format_is_the_classic_one() {
    Net::test("the_format_is_the_classic_one", &Plan::default(), |net| {
        let (namespace, interface) = net.server_port();
        let mut wire = namespace.enter(|| Wire::of(interface));
        let mut here = server(&net.server, 0).set("verb", "4").start();
        here.connected();
        let there = connects(net);
        // What the client can (IV_PROTO; bit 10 is the epoch format), and what the server chose.
        let line = here.wait_said("peer info: IV_PROTO=", 1).remove(0);
        let flags = line.rsplit('=').next().and_then(|n| n.trim().parse::<u32>().ok());
        assert_eq!(flags.map(|flags| flags & 1 << 10), Some(0), "{line}");
        for log in [&here, &there] {
            log.wait_said("Data Channel: cipher 'AES-256-GCM'", 1);
            log.assert_silent_about("epoch");
        }
        // Seen: a keepalive is 16 bytes and what the format adds to it, 24 bytes; the epoch format adds 28.
        let mut seen = Vec::new();
        wait_for("keepalives both ways", || {
            seen.extend(records(&mut wire));
            [false, true]
                .iter()
                .all(|way| seen.iter().any(|(server, r)| server == way && r.len() == 40))
        });
        assert!(
            seen.iter().all(|(_, record)| record.len() != 44),
            "a keepalive with 28 bytes more"
        );
        if net.server.path == Path::Own {
            return;
        }
        let word = &seen[0].1[..4];
        let (source, _) = known(&net.server, &there);
        let datagram = datagram(&net.clients[0], source, &net.server);
        for text in EPOCH {
            let bytes = (0..text.len()).step_by(2);
            let mut record: Vec<u8> = bytes
                .map(|i| u8::from_str_radix(&text[i..i + 2], 16).expect("hexadecimal"))
                .collect();
            record[..4].copy_from_slice(word);
            let before = net.server.gateway().dropped("bad_tag");
            wire.send(&datagram.clone().payload(&record).build());
            wait_for("a bad tag", || {
                net.server.gateway().dropped("bad_tag") == before + 1
            });
        }
        net.clients[0].ping(server_address(0, false), &PINGS).assert_all();
        assert_eq!(there.said(INITIALISED).len(), 1, "it was interrupted");
    });
}

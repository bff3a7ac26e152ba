//! The life of a stock OpenVPN daemon and of its gateway: without privileges, in a root directory of its own, as a background
//! process, with SIGUSR1 and SIGHUP, killed, and with a gateway that goes and comes. Each has one outcome.

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/pair.rs"]
mod pair;

use daemon::{Daemon, INITIALISED, Log, Machine, Net, Options, Path, Plan, client, server, server_address};
use gateway::{Gateway, PATIENCE, wait_for};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Arguments of pings, all at once: while answers come, `ping` waits for the last one no longer than for the interval.
const PINGS: [&str; 5] = ["-q", "-c20", "-l20", "-i5", "-s1000"];
/// What a daemon says once its connection to the gateway has ended.
const NO_GATEWAY: &str = "No such device";

/// Two clients, with their own data path.
const TWO: Plan = Plan {
    server: Path::Offload,
    clients: &[Path::Own, Path::Own],
    tunnels: 1,
    mtu: 1500,
    general: "",
    nic: "",
    control: "",
    tunnel: "",
    relay: None,
};

/// Pings both ways, in both IP versions.
fn carries(net: &Net, there: &Daemon) {
    for v6 in [false, true] {
        let to = server_address(0, v6);
        there.machine.wait_ping(to);
        there.machine.ping(to, &PINGS).assert_all();
        net.server.wait_ping(there.vpn(v6));
        net.server.ping(there.vpn(v6), &PINGS).assert_all();
    }
}

/// Nobody drives the tunnel, and it is as it was before anybody did.
fn assert_free(machine: &Machine) {
    wait_for("a tunnel without a daemon", || {
        let status = machine.status();
        status.tunnel("ovpn0")["daemon"].is_null()
    });
    let status = machine.status();
    assert_eq!(status.code, Some(3), "{status:?}");
    assert_eq!(
        status.tunnel("ovpn0")["peers"].as_array().map(Vec::len),
        Some(0),
        "{status:?}"
    );
    assert!(
        status.said.is_empty() && reasons(&status) == ["no daemon drives ovpn0"],
        "{status:?}"
    );
    assert_eq!(machine.addresses_of("ovpn0"), [] as [std::net::IpAddr; 0]);
}

/// Nobody drives the tunnel any more.
fn assert_released(machine: &Machine) {
    assert_free(machine);
    let link = machine.run(&["ip", "-o", "link", "show", "dev", "ovpn0"]);
    assert!(!link.contains(",UP"), "{link}");
}

/// Why a gateway is not healthy.
fn reasons(status: &daemon::Status) -> Vec<&str> {
    let reasons = status.report["reasons"].as_array().into_iter().flatten();
    reasons.filter_map(|reason| reason.as_str()).collect()
}

/// A value of /proc/PID/status, the first one.
fn of_process(pid: u32, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|rest| rest.trim_start_matches(':').split_whitespace().next());
    word.expect("a value").to_owned()
}

/// A client of a server without privileges: renegotiates, and another one connects.
fn unprivileged(name: &str, change: impl FnOnce(Options) -> Options) {
    Net::test(name, &TWO, |net| {
        let mut here = change(server(&net.server, 0).nobody().set("reneg-sec", "6 6")).start();
        here.connected();
        let mut there = client(&net.clients[0], 0).set("reneg-sec", "0").start();
        there.connected();
        let nobody = Command::new("id")
            .args(["-u", "nobody"])
            .output()
            .expect("id is there");
        let nobody = String::from_utf8_lossy(&nobody.stdout).trim().to_owned();
        assert_eq!(of_process(here.pid(), "Uid"), nobody);
        carries(net, &there);
        // Each renegotiation installs keys over a connection from before the drop.
        there.wait_said("Control Channel: TLS", 2);
        carries(net, &there);
        let mut another = client(&net.clients[1], 0).set("reneg-sec", "0").start();
        another.connected();
        carries(net, &another);
        carries(net, &there);
        here.assert_path();
        assert_eq!(there.said(INITIALISED).len(), 1, "it was never interrupted");
        another.kill();
        here.wait_said("client-instance exiting", 1);
    });
}

#[test]
fn as_nobody() {
    unprivileged("as_nobody", |options| options);
}

#[test]
fn in_a_root_directory_of_its_own() {
    unprivileged("in_a_root_directory_of_its_own", |options| options.chroot());
}

/// A server that is sent SIGUSR1, then SIGHUP: its clients come back each time, over the offload.
fn comes_back(name: &str, signals: &[&str], change: impl FnOnce(Options) -> Options) {
    Net::test(name, &Plan::default(), |net| {
        let mut here = change(server(&net.server, 0)).start();
        here.connected();
        let mut there = client(&net.clients[0], 0).start();
        there.connected();
        carries(net, &there);
        for (signal, times) in signals.iter().zip(2..) {
            here.signal(signal);
            here.connected_times(times);
            there.connected_times(times);
            carries(net, &there);
            here.assert_path();
        }
        if net.server.path == Path::Offload {
            let status = net.server.status();
            assert_eq!(status.code, Some(0), "{status:?}");
        }
        there.end();
        here.end();
        if net.server.path == Path::Offload {
            assert_released(&net.server);
        }
    });
}

#[test]
fn signals() {
    comes_back("signals", &["USR1", "HUP"], |options| options);
}

#[test]
fn signals_with_persist_tun() {
    comes_back("signals_with_persist_tun", &["USR1", "HUP"], |options| {
        options.set("persist-tun", "").set("persist-key", "")
    });
}

#[test]
fn sigusr1_as_nobody() {
    comes_back("sigusr1_as_nobody", &["USR1"], |options| options.nobody());
}

#[test]
fn sigusr1_as_nobody_with_persist_tun() {
    comes_back("sigusr1_as_nobody_with_persist_tun", &["USR1"], |options| {
        options.nobody().set("persist-tun", "")
    });
}

#[test]
fn sigusr1_in_a_root_directory_of_its_own() {
    comes_back("sigusr1_in_a_root_directory_of_its_own", &["USR1"], |options| {
        options.nobody().chroot()
    });
}

/// What a daemon says that cannot keep the offload once it has dropped its privileges and reads its configuration again.
const LACKING: &str = "lacking CAP_SETPCAP. Cannot retain CAP_NET_ADMIN. Disabling data channel offload";

/// Lets everybody read what a daemon reads at its start.
fn readable(daemon: &Daemon) {
    let folder = Log::path(daemon).parent().expect("a folder");
    let text = fs::read_to_string(folder.join("daemon.conf")).expect("it was started with it");
    for line in text.lines() {
        if let Some(("ca" | "cert" | "key", file)) = line.split_once(' ') {
            let folder = std::path::Path::new(file).parent().expect("a folder");
            for (path, mode) in [(folder, 0o755), (std::path::Path::new(file), 0o644)] {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its owner may");
            }
        }
    }
}

/// SIGHUP to a daemon that has dropped its privileges: it gives the offload up by itself, and cannot have the gateway's
/// interface as its own, or not even read its keys any more. Either way it ends, and says why. A new one works.
fn ends_at_sighup(name: &str, why: &str, change: impl FnOnce(Options) -> Options) {
    Net::test(name, &Plan::default(), |net| {
        if net.server.path == Path::Own {
            return;
        }
        let mut here = change(server(&net.server, 0).nobody()).start();
        here.connected();
        if why != UNREADABLE {
            readable(&here);
        }
        let mut there = client(&net.clients[0], 0).start();
        there.connected();
        let mark = here.mark();
        here.signal("HUP");
        let status = here.wait(PATIENCE);
        assert_eq!(status.code(), Some(1), "{}", here.text());
        let said = here.since(mark);
        for text in [LACKING, why] {
            assert!(said.iter().any(|line| line.contains(text)), "{said:?}");
        }
        assert_released(&net.server);
        let mut again = server(&net.server, 0).nobody().start();
        again.connected();
        there.connected_times(2);
        carries(net, &there);
    });
}

/// What a daemon says whose keys are root's.
const UNREADABLE: &str = "Options error: --key fails with";
/// What it says of an interface that is a gateway's.
const NOT_ITS_OWN: &str = "ERROR: Cannot ioctl TUNSETIFF ovpn0";

#[test]
fn sighup_as_nobody_with_roots_keys() {
    ends_at_sighup("sighup_as_nobody_with_roots_keys", UNREADABLE, |options| options);
}

#[test]
fn sighup_as_nobody() {
    ends_at_sighup("sighup_as_nobody", NOT_ITS_OWN, |options| {
        options.without("status").without("management")
    });
}

#[test]
fn sighup_as_nobody_with_persist_tun() {
    ends_at_sighup("sighup_as_nobody_with_persist_tun", NOT_ITS_OWN, |options| {
        options
            .without("status")
            .without("management")
            .set("persist-tun", "")
    });
}

/// A daemon that is in the background; ended when dropped.
struct Forked(String);

impl Drop for Forked {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-s", "KILL", &self.0]).status();
    }
}

#[test]
fn in_the_background() {
    Net::test("in_the_background", &Plan::default(), |net| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pid = folder.path().join("pid").display().to_string();
        let options = server(&net.server, 0).set("daemon", "").set("writepid", &pid);
        // Without a log of its own it would write to the system's.
        let options = options.set("log-append", "/dev/stdout").set("reneg-sec", "6 6");
        let mut parent = options.start();
        assert_eq!(parent.wait(PATIENCE).code(), Some(0));
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        wait_for("a process id", || read(&pid).trim().parse::<u32>().is_ok());
        let forked = Forked(read(&pid).trim().to_owned());
        parent.wait_said(INITIALISED, 1);
        let mut there = client(&net.clients[0], 0).set("reneg-sec", "0").start();
        there.connected();
        carries(net, &there);
        there.wait_said("Control Channel: TLS", 2);
        carries(net, &there);
        if net.server.path == Path::Offload {
            let status = net.server.status();
            assert_eq!(status.code, Some(0), "{status:?}");
            status.assert_drives(forked.0.parse().expect("a process id"), "ovpn0");
        }
        drop(forked);
        if net.server.path == Path::Offload {
            assert_released(&net.server);
        }
    });
}

#[test]
fn killed_without_a_word() {
    Net::test("killed_without_a_word", &TWO, |net| {
        if net.server.path == Path::Own {
            return;
        }
        let mut here = server(&net.server, 0).start();
        here.connected();
        let mut there: Vec<_> = net.clients.iter().map(|m| client(m, 0).start()).collect();
        there.iter_mut().for_each(Daemon::connected);
        carries(net, &there[0]);
        here.kill();
        assert_released(&net.server);
        // Another one has it at once, and the clients come by themselves.
        let mut again = server(&net.server, 0).start();
        again.connected();
        for there in &mut there {
            there.connected_times(2);
            carries(net, there);
        }
        // Also before the gateway can have noticed that the former one is gone.
        again.kill();
        let mut third = server(&net.server, 0).start();
        third.connected();
        there[0].connected_times(3);
        carries(net, &there[0]);
        assert_eq!(net.server.status().code, Some(0));
    });
}

/// The gateway ends under a daemon that runs, which then ends too; what is started anew works.
fn gateway_ends(name: &str, end: impl FnOnce(&Machine)) {
    Net::test(name, &Plan::default(), |net| {
        if net.server.path == Path::Own {
            return;
        }
        let mut here = server(&net.server, 0).start();
        here.connected();
        let mut there = client(&net.clients[0], 0).start();
        there.connected();
        carries(net, &there);
        let mark = here.mark();
        end(&net.server);
        let status = here.wait(PATIENCE);
        // What Restart=on-failure of its unit takes for a failure.
        assert_eq!(status.code(), Some(1), "{}", here.text());
        let last = here.since(mark);
        println!("without a gateway: {last:?}");
        assert!(last.iter().any(|line| line.contains(NO_GATEWAY)), "{last:?}");
        assert_eq!(net.server.status().code, Some(1));
        net.server.start_gateway();
        assert_free(&net.server);
        let mut again = server(&net.server, 0).start();
        again.connected();
        there.connected_times(2);
        carries(net, &there);
    });
}

#[test]
fn a_gateway_stops_under_a_daemon() {
    gateway_ends("a_gateway_stops_under_a_daemon", Machine::stop_gateway);
}

#[test]
fn a_gateway_is_killed_under_a_daemon() {
    gateway_ends("a_gateway_is_killed_under_a_daemon", Machine::kill_gateway);
}

#[test]
fn a_daemon_starts_before_its_gateway() {
    Net::test("a_daemon_starts_before_its_gateway", &Plan::default(), |net| {
        if net.server.path == Path::Own {
            return;
        }
        net.server.stop_gateway();
        // Without the gateway's interface there is no way out: the daemon needs none to say that it is ready.
        let mut here = server(&net.server, 0).refused().start();
        here.connected();
        let said = here.said("data channel offload");
        println!("without a gateway: {said:?}");
        assert!(!said.is_empty(), "{}", here.text());
        assert_eq!(net.server.status().code, Some(1));
        assert!(here.runs());
        println!("gateway: {:?}", late(&net.server));
        // Once the daemon has ended, both start in order.
        here.end();
        net.server.start_gateway();
        let mut again = server(&net.server, 0).start();
        again.connected();
        let mut there = client(&net.clients[0], 0).start();
        there.connected();
        carries(net, &there);
    });
}

/// Starts a gateway while a daemon has an interface of the tunnel's name: it ends, and says why.
fn late(machine: &Machine) -> String {
    let mut gateway: Gateway = machine.spawn_gateway().expect("the server's machine has one");
    let status = gateway.wait(PATIENCE);
    let said = gateway.stderr();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("ovpn0"), "{said}");
    said
}

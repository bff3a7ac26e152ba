//! How the gateway ends, and what a start finds that a kill left behind.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/life.rs"]
mod life;

use gateway::{in_namespace, interface_exists, run, wait_for};
use life::{Bed, NIC, Process, Settings, set_addresses, veth, vpn};
use nf_path::twin::craft::inner_v4;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NO_IPV6: &str = "/proc/sys/net/ipv6/conf/nic0/disable_ipv6";

fn undo_file(name: &str) -> PathBuf {
    Path::new("/run/ovpn-dpdk").join(format!("{name}.undo"))
}

fn no_ipv6() -> String {
    fs::read_to_string(NO_IPV6).expect("nic0 is there").trim().into()
}

/// What stands at the ingress of the NIC: queueing disciplines and filters.
fn ingress() -> String {
    let qdisc = run(Command::new("tc").args(["qdisc", "show", "dev", NIC]));
    let filter = run(Command::new("tc").args(["filter", "show", "dev", NIC, "ingress"]));
    assert_eq!(
        qdisc.contains("clsact"),
        filter.contains("bpf"),
        "{qdisc}{filter}"
    );
    filter
}

/// As it is while a gateway of this name runs, or after it was killed.
fn assert_shut(name: &str) {
    assert!(ingress().contains("bpf"));
    assert_eq!(no_ipv6(), "1");
    let undo = fs::read_to_string(undo_file(name)).expect("an undo file");
    assert!(
        undo.contains("disable_ipv6") && undo.contains("ingress"),
        "{undo}"
    );
}

/// As it was before any gateway.
fn assert_undone(name: &str) {
    assert!(!ingress().contains("bpf"), "{}", ingress());
    assert_eq!(no_ipv6(), "0");
    assert!(!undo_file(name).exists());
    for interface in ["wan0", "ovpn0"] {
        assert!(!interface_exists(interface), "{interface} is left");
    }
    gateway::no_files_left(name);
}

/// The NIC's interface as the kernel uses it otherwise.
fn nic() {
    veth();
    fs::write(NO_IPV6, "0").expect("root may");
}

/// As much as it takes both ways, until the namespace of the test goes.
fn flood(bed: &mut Bed, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let peer = bed.settings.peers[0].clone();
    let records: Vec<_> = (0..256)
        .map(|n| bed.far.seal(&peer, 0, &inner_v4(vpn(0), life::OWN, 1000, n)))
        .collect();
    let socket = UdpSocket::bind((life::OWN, 0)).expect("ovpn0 has the address");
    std::thread::spawn(move || {
        let mut far = life::Far::new();
        let listen = life::LISTEN.parse().expect("an address");
        while !stop.load(Ordering::Relaxed) {
            for record in &records {
                far.send_from(peer.remote, listen, record);
                // Once the interface is gone, there is no route.
                let _ = socket.send_to(&[0; 900], (vpn(0), 9));
            }
        }
    })
}

fn ends_under_load(signal: &str) {
    nic();
    let mut bed = Bed::start_on(Settings::with_peers(1));
    bed.connected(0);
    let name = bed.gateway.name.clone();
    assert_shut(&name);
    let stop = Arc::new(AtomicBool::new(false));
    let load = flood(&mut bed, stop.clone());
    wait_for("load", || bed.gateway.counter("nic_rx") > 5000);
    bed.gateway.signal(signal);
    let status = bed.gateway.wait(Duration::from_secs(2));
    stop.store(true, Ordering::Relaxed);
    load.join().expect("no panic there");
    assert_eq!(status.code(), Some(0), "{}", bed.gateway.stderr());
    assert!(bed.said("not undone").is_empty(), "{}", bed.gateway.stderr());
    assert_undone(&name);
}

#[test]
fn sigterm_under_load_leaves_nothing() {
    in_namespace("sigterm_under_load_leaves_nothing", || ends_under_load("TERM"));
}

#[test]
fn sigint_under_load_leaves_nothing() {
    in_namespace("sigint_under_load_leaves_nothing", || ends_under_load("INT"));
}

#[test]
fn after_a_kill_the_next_start_undoes_first() {
    in_namespace("after_a_kill_the_next_start_undoes_first", || {
        nic();
        let settings = Settings::with_peers(1);
        let name = format!("life-end-{}", std::process::id());
        assert_eq!(Process::start(&name, &settings).ready().end("KILL"), None);
        assert_shut(&name);
        // One that fails later has undone it all the same.
        let elsewhere = settings.config().replace("iface=nic0", "iface=far0");
        let elsewhere = elsewhere.replace("port = \"net_af_packet0\"", "port = \"net_af_packet9\"");
        let text = format!("name = \"{name}\"\n{elsewhere}");
        let (code, line) = Process::start_with(&text, &settings.keys()).failed();
        assert!(code == 1 && line.contains("net_af_packet9"), "{line}");
        assert_undone(&name);

        assert_eq!(Process::start(&name, &settings).ready().end("KILL"), None);
        assert_shut(&name);
        // Undone before anything else: it would remember the values of the one before it otherwise.
        let process = Process::start(&name, &settings).ready();
        assert_shut(&name);
        let log = process.stderr();
        assert!(
            !log.contains("left by a gateway that was killed"),
            "nothing failed: {log}"
        );
        set_addresses();
        let mut far = life::Far::new();
        far.connected(&settings.peers, 0);
        assert_eq!(process.end("TERM"), Some(0));
        assert_undone(&name);
    });
}

#[test]
fn a_second_one_of_the_same_name_is_refused_and_the_first_goes_on() {
    in_namespace(
        "a_second_one_of_the_same_name_is_refused_and_the_first_goes_on",
        || {
            nic();
            let mut bed = Bed::start_on(Settings::with_peers(1));
            bed.connected(0);
            let name = bed.gateway.name.clone();
            let (code, line) = Process::start(&name, &bed.settings).failed();
            assert_eq!(code, 1, "{line}");
            assert!(line.contains(&format!("the name {name} is taken")), "{line}");
            assert_shut(&name);
            // Nor with EAL's files elsewhere: the undo file is one.
            let text = bed
                .settings
                .config()
                .replace("eal = [", "eal = [\"--file-prefix=other\", ");
            let text = format!("name = \"{name}\"\n{text}");
            let (code, line) = Process::start_with(&text, &bed.settings.keys()).failed();
            assert_eq!(code, 1, "{line}");
            assert!(
                line.contains(&format!("{name}.undo")) && line.contains("is running"),
                "{line}"
            );
            assert_shut(&name);
            bed.connected(0);
            bed.end();
            assert_undone(&name);
        },
    );
}

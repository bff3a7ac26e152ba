//! `run` plays a capture into a TAP: byte for byte what a correct server delivers; then it ends in order.

#[path = "support/gateway.rs"]
mod gateway;

use gateway::{Gateway, Setup, Wire, captured, in_namespace, nothing_left};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// Beside the configuration, and gone with it.
const STATE: &str = "state_file = \"ids\"\nidle_sleep_us = 50";
/// Peer, packets, SHA-256.
type Known = (u32, usize, &'static str);
/// As tests/captures/README.md states it.
const KNOWN: &[(&str, &[Known])] = &[
    (
        "aes128-udp4",
        &[(
            0,
            3314,
            "341f0a08f9960b39501513b7b7b93a3aa036b31c1528fea3e57a8e4fc5d86f4d",
        )],
    ),
    (
        "three-clients",
        &[
            (
                0,
                25,
                "da9803c60cd9501cdf69505fddef5d32d36bc629d86f12ce85c566f913df6157",
            ),
            (
                1,
                181,
                "e714345e0ce93b21e576067147ec941481e300f792099ae8ef7532db2ec160fd",
            ),
            (
                2,
                367,
                "00bfda544b2128be8097cb7c13ace8e2d6115c10454b84b3e06a0a8fc5843b94",
            ),
        ],
    ),
];

#[test]
fn captures_come_out_of_the_tap_byte_for_byte() {
    in_namespace("captures_come_out_of_the_tap_byte_for_byte", || {
        for (capture, peers) in KNOWN {
            play(capture, peers);
        }
    });
}

fn play(capture: &str, peers: &[Known]) {
    // Before the interface exists: net_pcap waits for nobody.
    let mut listener = Wire::of("any");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = captured(&format!("{capture}.outer.pcap"));
    let nic = format!(
        "net_pcap0,rx_pcap={},tx_pcap={}",
        input.display(),
        folder.path().join("sent.pcap").display()
    );
    let setup = Setup {
        nic: (&nic, "net_pcap0"),
        host: "tap",
        general: STATE,
        keys: capture,
        tunnel: "",
    };
    let gateway = Gateway::start(&setup, &["--stats-period", "1"]);
    let packets = listener.peers_packets(peers.iter().map(|(_, n, _)| n).sum());
    for &(peer, count, sha256) in peers {
        let mut digest = Sha256::new();
        let of_peer: Vec<_> = packets.iter().filter(|(id, _)| *id == peer).collect();
        for (_, inner) in &of_peer {
            digest.update((inner.len() as u32).to_be_bytes());
            digest.update(inner);
        }
        let digest: String = digest.finalize().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(
            (of_peer.len(), digest.as_str()),
            (count, sha256),
            "{capture}, peer {peer}"
        );
    }
    assert_eq!(packets.len(), peers.iter().map(|(_, n, _)| n).sum::<usize>());
    gateway::wait_for("a table", || gateway.stdout().contains("rates over the last"));
    assert!(
        gateway.stdout().contains("tunnel  net_tap_tun0 (net_tap)"),
        "{}",
        gateway.stdout()
    );
    gateway.end();
}

#[test]
fn a_second_signal_does_no_harm_and_hangup_none_at_all() {
    in_namespace("a_second_signal_does_no_harm_and_hangup_none_at_all", || {
        let setup = Setup {
            nic: ("net_null0,no-rx=1", "net_null0"),
            host: "tap",
            general: STATE,
            keys: "aes128-udp4",
            tunnel: "",
        };
        let mut gateway = Gateway::start(&setup, &["--stats-period", "3600"]);
        gateway.signal("HUP");
        gateway::wait_for("a word on SIGHUP", || gateway.stderr().contains("SIGHUP"));
        gateway.signal("INT");
        gateway.signal("TERM");
        assert_eq!(
            gateway.wait(Duration::from_secs(2)).code(),
            Some(0),
            "{}",
            gateway.stderr()
        );
        assert!(
            gateway.stdout().contains("rates over the whole run"),
            "the last table: {}",
            gateway.stdout()
        );
        nothing_left(&gateway.name);
    });
}

#[test]
fn it_ends_by_itself_when_nothing_comes() {
    in_namespace("it_ends_by_itself_when_nothing_comes", || {
        let setup = Setup {
            nic: ("net_null0,no-rx=1", "net_null0"),
            host: "tap",
            general: STATE,
            keys: "aes128-udp4",
            tunnel: "",
        };
        let mut gateway = Gateway::start(&setup, &["--exit-after-idle", "1"]);
        assert_eq!(
            gateway.wait(Duration::from_secs(5)).code(),
            Some(0),
            "{}",
            gateway.stderr()
        );
        nothing_left(&gateway.name);
    });
}

#[test]
fn it_ends_in_order_under_load() {
    in_namespace("it_ends_in_order_under_load", || {
        let input = captured("aes128-udp4.outer.pcap");
        let nic = format!("net_pcap0,rx_pcap={},infinite_rx=1", input.display());
        let setup = Setup {
            nic: (&nic, "net_pcap0"),
            host: "tap",
            general: STATE,
            keys: "aes128-udp4",
            tunnel: "",
        };
        let gateway = Gateway::start(&setup, &["--exit-after-idle", "1"]);
        gateway::wait_for("traffic for longer than the idle time", || {
            gateway.counter("nic_rx") > 100_000
        });
        std::thread::sleep(Duration::from_millis(1500));
        gateway.end();
    });
}

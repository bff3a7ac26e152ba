//! Host port, tunnel port and the telemetry commands of a running gateway whose NIC is a TAP.

#[path = "support/gateway.rs"]
mod gateway;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "support/pcap.rs"]
mod pcap_file;

use gateway::{Gateway, Setup, Wire, captured, in_namespace, mac, wait_for};
use serde_json::json;

/// Beside the configuration, and gone with it.
const STATE: &str = "state_file = \"ids\"\nidle_sleep_us = 50";
const NIC: (&str, &str) = ("net_tap_nic,iface=nic0", "net_tap_nic");

/// An ARP request of a sender that nobody here is, padded to the shortest frame.
fn arp(last: u8) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, last, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend([
        2, 0, 0, 0, 0, last, 192, 0, 2, last, 0, 0, 0, 0, 0, 0, 192, 0, 2, 254,
    ]);
    frame.resize(60, 0x5a);
    frame
}

#[test]
fn frames_go_between_nic_and_host_unchanged() {
    in_namespace("frames_go_between_nic_and_host_unchanged", || {
        let setup = Setup {
            nic: NIC,
            host: "tap",
            general: STATE,
            keys: "aes128-udp4",
            tunnel: "",
        };
        let gateway = Gateway::start(&setup, &[]);
        assert_eq!(mac("host0"), mac("nic0"), "the host port has the NIC's address");
        let (mut nic, mut host) = (Wire::of_nic(), Wire::of("host0"));
        for i in 1..=3 {
            nic.send(&arp(i));
            assert_eq!(
                host.expect("a frame on the host port", |f| f[6..12] == arp(i)[6..12]),
                arp(i)
            );
            host.send(&arp(100 + i));
            assert_eq!(
                nic.expect("a frame out of the NIC", |f| f[6..12] == arp(100 + i)[6..12]),
                arp(100 + i)
            );
        }
        // DATA_V2 to another port is not ours; a datagram to the daemon is the host's, and counted.
        let daemon = daemon_packet();
        nic.send(&daemon);
        assert_eq!(host.expect("the daemon's packet", |f| f == daemon), daemon);
        assert_eq!((gateway.counter("to_host"), gateway.counter("to_daemon")), (4, 1));
        assert_eq!((gateway.counter("host_rx"), gateway.counter("nic_tx")), (3, 3));
        gateway.end();
    });
}

/// The first datagram of the capture that is the daemon's: UDP to port 1194 that is not DATA_V2.
fn daemon_packet() -> Vec<u8> {
    let frames = pcap_file::read(&captured("aes128-udp4.outer.pcap"));
    let to_daemon =
        |f: &Vec<u8>| f[12..14] == [8, 0] && f[23] == 17 && f[36..38] == [4, 170] && f[42] >> 3 != 9;
    frames.into_iter().find(to_daemon).expect("the capture has some")
}

#[test]
fn what_the_kernel_asks_in_the_tunnel_is_no_packet_for_a_peer() {
    in_namespace(
        "what_the_kernel_asks_in_the_tunnel_is_no_packet_for_a_peer",
        || {
            let setup = Setup {
                nic: NIC,
                host: "tap",
                general: STATE,
                keys: "aes128-udp4",
                tunnel: "",
            };
            let gateway = Gateway::start(&setup, &[]);
            let mut tunnel = Wire::of("tun0");
            (0..100).for_each(|i| tunnel.send(&arp(i)));
            wait_for("100 frames from the tunnel port", || {
                gateway.counter("kernel_noise") == 100
            });
            assert_eq!(gateway.counter("tunnel_rx"), 100);
            assert_eq!(gateway.counter("sealed"), 0);
            let drops = gateway.telemetry("/ovpn/drops");
            assert!(
                drops.as_object().is_some_and(|d| d.values().all(|n| n == 0)),
                "{drops}"
            );
            gateway.end();
        },
    );
}

#[test]
fn batching_and_lookahead_are_switched_while_running() {
    in_namespace("batching_and_lookahead_are_switched_while_running", || {
        let setup = Setup {
            nic: NIC,
            host: "tap",
            general: STATE,
            keys: "aes128-udp4",
            tunnel: "",
        };
        let gateway = Gateway::start(&setup, &[]);
        let set = |parameters: &str| gateway.telemetry(&format!("/ovpn/set{parameters}"));
        assert_eq!(set(""), json!({"batch": "on", "lookahead": 2, "scope": "burst"}));
        assert_eq!(set(",batch=maybe"), json!({"error": "batch: on or off"}));
        assert_eq!(set(",lookahead=17"), json!({"error": "lookahead: 0 to 16"}));
        assert_eq!(
            set(",batch=off"),
            json!({"batch": "off", "lookahead": 2, "scope": "burst"})
        );

        let frames = pcap_file::read(&captured("aes128-udp4.outer.pcap"));
        let (first, second) = frames.split_at(frames.len() / 2);
        let mut nic = Wire::of_nic();
        first.iter().for_each(|f| nic.send(f));
        wait_for("the first half", || {
            gateway.counter("nic_rx") == first.len() as u64
        });
        let larger_than_one = |gateway: &Gateway| -> u64 {
            let batches = gateway.telemetry("/ovpn/batches")["batches"]
                .as_array()
                .expect("an array")
                .clone();
            batches[2..].iter().map(|n| n.as_u64().expect("a number")).sum()
        };
        assert_eq!(larger_than_one(&gateway), 0, "batching is off");

        assert_eq!(
            set(",batch=on,lookahead=8"),
            json!({"batch": "on", "lookahead": 8, "scope": "burst"})
        );
        second.iter().for_each(|f| nic.send(f));
        wait_for("the second half", || {
            gateway.counter("nic_rx") == frames.len() as u64
        });
        assert!(larger_than_one(&gateway) > 0, "batching is on");
        assert_eq!(gateway.counter("tunnel_tx"), 3314);

        // The same once more: each record is a replay.
        frames.iter().for_each(|f| nic.send(f));
        wait_for("all of it again", || {
            gateway.counter("nic_rx") == 2 * frames.len() as u64
        });
        assert_eq!(gateway.counter("tunnel_tx"), 3314);
        let drops = gateway.telemetry("/ovpn/drops");
        let replayed = drops["replay_old"]
            .as_u64()
            .zip(drops["replay_duplicate"].as_u64());
        assert_eq!(replayed.map(|(old, twice)| old + twice), Some(3320), "{drops}");
        gateway.end();
    });
}

#[test]
fn frames_over_the_tunnels_mtu_are_counted_and_stop_no_other() {
    in_namespace(
        "frames_over_the_tunnels_mtu_are_counted_and_stop_no_other",
        || {
            const MTU: usize = 1000;
            let mut listener = Wire::of("any");
            let setup = Setup {
                nic: NIC,
                host: "tap",
                general: STATE,
                keys: "aes128-udp4",
                tunnel: "mtu = 1000",
            };
            let gateway = Gateway::start(&setup, &[]);
            let mut nic = Wire::of_nic();
            let frames = pcap_file::read(&captured("aes128-udp4.outer.pcap"));
            frames.iter().for_each(|f| nic.send(f));
            wait_for("the capture", || gateway.counter("nic_rx") == frames.len() as u64);
            let too_long = gateway.dropped("tunnel_mtu");
            let packets = listener.peers_packets(3314 - too_long as usize);
            assert!(packets.iter().all(|(_, inner)| inner.len() <= MTU));
            assert!(
                too_long > 500 && packets.len() > 500,
                "{too_long} too long, {} delivered",
                packets.len()
            );
            assert_eq!(
                packets.len() as u64 + too_long,
                3314,
                "{}",
                gateway.telemetry("/ovpn/drops")
            );
            assert_eq!(gateway.dropped("tunnel_full"), 0);
            gateway.end();
        },
    );
}

#[test]
fn virtio_user_is_chosen_where_vhost_net_opens() {
    const NAME: &str = "virtio_user_is_chosen_where_vhost_net_opens";
    if let Err(e) = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/vhost-net")
    {
        return gateway::skip(NAME, &format!("/dev/vhost-net: {e}"));
    }
    in_namespace(NAME, || {
        let setup = Setup {
            nic: NIC,
            host: "auto",
            general: STATE,
            keys: "aes128-udp4",
            tunnel: "",
        };
        let gateway = Gateway::start(&setup, &[]);
        assert!(
            gateway.stderr().contains("host0 is virtio-user"),
            "{}",
            gateway.stderr()
        );
        let (mut nic, mut host) = (Wire::of_nic(), Wire::of("host0"));
        nic.send(&arp(1));
        assert_eq!(
            host.expect("a frame on the host port", |f| f[6..12] == arp(1)[6..12]),
            arp(1)
        );
        host.send(&arp(2));
        assert_eq!(
            nic.expect("a frame out of the NIC", |f| f[6..12] == arp(2)[6..12]),
            arp(2)
        );
        gateway.end();
    });
}

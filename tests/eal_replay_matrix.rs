//! Captured sessions of stock OpenVPN clients through the program: the same packets, whatever burst, batch and lookahead.

#[path = "support/replay.rs"]
mod support;

use support::{CAPTURES, Known, in_pairs, pcap, replay};

/// One way to run the path.
struct Case {
    known: &'static Known,
    batch: &'static str,
    prefetch: &'static str,
    burst: &'static str,
}

#[test]
fn every_capture_gives_its_packets_in_order_however_it_is_run() {
    let mut cases = Vec::new();
    for known in &CAPTURES {
        for batch in ["on", "off"] {
            for prefetch in ["0", "1", "2", "8"] {
                for burst in ["1", "32", "64", "256"] {
                    cases.push(Case {
                        known,
                        batch,
                        prefetch,
                        burst,
                    });
                }
            }
        }
    }
    assert_eq!(cases.len(), 128);
    let folder = tempfile::tempdir().expect("a temporary folder");
    in_pairs(
        &cases,
        |cpu,
         Case {
             known,
             batch,
             prefetch,
             burst,
         }| {
            let of = format!("{}-{batch}-{prefetch}-{burst}", known.name);
            let output = folder.path().join(format!("{of}.pcap"));
            let more = ["--batch", batch, "--prefetch", prefetch, "--burst", burst];
            let out = replay(cpu, &known.keys(), &known.outer(), &output, &more).json();
            known.check(&out, true, &of);
            assert_eq!(pcap::read(&output).len() as u64, known.delivered(), "{of}");
            std::fs::remove_file(output).expect("it was written");
        },
    );
}

#[test]
fn what_is_not_a_record_reaches_the_host_port_unchanged() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    in_pairs(&CAPTURES, |cpu, known| {
        let (output, host) = (
            folder.path().join(known.name),
            folder.path().join(format!("{}-host", known.name)),
        );
        let more = ["--host-out", host.to_str().expect("a name in UTF-8")];
        let out = replay(cpu, &known.keys(), &known.outer(), &output, &more).json();
        known.check(&out, true, "with --host-out");
        let keys = std::fs::read_to_string(known.keys()).expect("a keys file");
        let keys: serde_json::Value = serde_json::from_str(&keys).expect("JSON");
        let listen: std::net::SocketAddr = keys["listen"]
            .as_str()
            .expect("an address")
            .parse()
            .expect("an address");
        let mut expected = pcap::read(&known.outer());
        expected.retain(|frame| !is_record(frame, listen));
        let frames = pcap::read(&host);
        assert_eq!(
            out["to_host"].as_u64(),
            Some(expected.len() as u64),
            "{}",
            known.name
        );
        assert!(
            expected.len() > 100 && frames == expected,
            "{}: {} frames",
            known.name,
            frames.len()
        );
    });
}

/// Whether an untagged frame is a DATA_V2 record to `listen`, or a fragment of UDP to that address: told apart from the
/// code under test, with IPv4 without options and IPv6 with a fragment header at most, which is what the captures hold.
fn is_record(frame: &[u8], listen: std::net::SocketAddr) -> bool {
    let to_us = |port: &[u8], payload: &[u8]| port == listen.port().to_be_bytes() && payload[0] >> 3 == 9;
    match listen.ip() {
        std::net::IpAddr::V4(ip) if frame[12..14] == [0x08, 0x00] => {
            assert!(frame[14] == 0x45, "IPv4 options are not expected here");
            let fragment = u16::from_be_bytes([frame[20], frame[21]]) & 0x3fff != 0;
            frame[23] == 17
                && frame[30..34] == ip.octets()
                && (fragment || to_us(&frame[36..38], &frame[42..]))
        }
        std::net::IpAddr::V6(ip) if frame[12..14] == [0x86, 0xdd] => {
            let (next, fragment) = (frame[20], frame[20] == 44);
            let udp = next == 17 && frame[38..54] == ip.octets();
            let fragment = fragment && frame[54] == 17 && frame[38..54] == ip.octets();
            fragment || udp && to_us(&frame[56..58], &frame[62..])
        }
        _ => false,
    }
}

#[test]
fn without_eal_arguments_the_program_chooses_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let known = &CAPTURES[3];
    let path = |p: &std::path::Path| p.to_str().expect("a name in UTF-8").to_owned();
    let output = folder.path().join("inner.pcap");
    let (keys, input, output) = (path(&known.keys()), path(&known.outer()), path(&output));
    let ran = support::program(&["replay", "--keys", &keys, "--in", &input, "--out", &output]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for (id, packets, sha256) in known.peers {
        let line = format!("delivered {packets}  sha256 {sha256}");
        let found = ran
            .stdout
            .lines()
            .find(|l| l.starts_with(&format!("peer {id} ")))
            .expect("a line a peer");
        assert!(found.ends_with(&line), "{found}");
    }
    assert!(
        ran.stdout.lines().any(|l| l == "drops        0"),
        "{}",
        ran.stdout
    );
    let runtime = format!("/var/run/dpdk/ovpn-dpdk-{}", ran.pid);
    assert!(!std::path::Path::new(&runtime).exists(), "{runtime} is left");
}

//! Static keys: packet ids are reserved before they are used, and no run repeats what one before it sent.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/life.rs"]
mod life;

use gateway::{PATIENCE, in_namespace, wait_for};
use life::{Bed, Far, Opened, Process, Settings, StaticKey, send_numbered, set_addresses, veth};
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SILENCE: Duration = Duration::from_millis(200);

/// One peer, and a state file in this folder.
fn settings(folder: &Path) -> Settings {
    Settings {
        state_file: folder.join("ids").display().to_string(),
        ..Settings::with_peers(1)
    }
}

fn ids(records: &[Opened]) -> Vec<u32> {
    records.iter().map(|r| r.id).collect()
}

/// The one mark in the state file: the first id that was not reserved.
fn mark(folder: &Path) -> u64 {
    let state = marks(folder);
    let marks: Vec<_> = state["keys"].as_object().expect("keys").values().collect();
    assert_eq!(marks.len(), 1, "{state}");
    marks[0].as_u64().expect("a number")
}

fn marks(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("ids")).expect("a state file");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_run_goes_on_exactly_where_the_last_ended() {
    in_namespace("a_run_goes_on_exactly_where_the_last_ended", || {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path());
        let mut all = Vec::new();
        veth();
        for run in 0..3 {
            let mut bed = Bed::start_on(settings.clone());
            all.extend(ids(&bed.connected(0)));
            bed.send(&bed.socket(), 0, 50);
            all.extend(ids(&bed.far.all(&settings.peers, SILENCE)));
            assert!(all.len() >= 51 * (run + 1), "{} records", all.len());
            assert!(
                mark(folder.path()) > all.len() as u64,
                "reserved before it was used"
            );
            bed.end();
            assert_eq!(
                mark(folder.path()),
                all.len() as u64 + 1,
                "the rest is given back"
            );
        }
        assert!(all.iter().copied().eq(1..=all.len() as u32), "{all:?}");
    });
}

#[test]
fn after_a_kill_no_id_is_used_twice() {
    in_namespace("after_a_kill_no_id_is_used_twice", || {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path());
        let name = format!("life-{}", std::process::id());
        let mut all = Vec::new();
        veth();
        // Killed twice; the last one cleans up.
        for signal in ["KILL", "KILL", "TERM"] {
            let reserved = fs::exists(folder.path().join("ids")).expect("our own folder");
            let from = if reserved { mark(folder.path()) } else { 1 };
            let process = Process::start(&name, &settings).ready();
            set_addresses();
            let mut far = Far::new();
            let mut seen = ids(&far.connected(&settings.peers, 0));
            let socket = UdpSocket::bind((life::OWN, 0)).expect("ovpn0 has the address");
            send_numbered(&socket, 0, 0..50);
            seen.extend(ids(&far.all(&settings.peers, SILENCE)));
            assert!(
                seen.iter().all(|id| u64::from(*id) < mark(folder.path())),
                "reserved before it was used"
            );
            assert_eq!(
                u64::from(seen[0]),
                from,
                "a run begins past all that was reserved before it"
            );
            assert!(seen.len() > 50 && seen.is_sorted_by(|a, b| a < b), "{seen:?}");
            all.extend(seen);
            let code = process.end(signal);
            assert_eq!(code.is_some(), signal == "TERM");
        }
        let sent = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), sent, "no id twice");
    });
}

#[test]
fn the_last_id_is_the_last_and_a_new_key_makes_traffic_flow_again() {
    in_namespace(
        "the_last_id_is_the_last_and_a_new_key_makes_traffic_flow_again",
        || {
            const FROM: u64 = 0xffff_fff0;
            let folder = tempfile::tempdir().expect("a folder");
            let settings = settings(folder.path());
            veth();
            // A run that sends nothing, for the name of the key.
            Bed::start_on(settings.clone()).end();
            let mut state = marks(folder.path());
            for mark in state["keys"].as_object_mut().expect("keys").values_mut() {
                *mark = FROM.into();
            }
            fs::write(folder.path().join("ids"), state.to_string()).expect("our own folder");

            let mut bed = Bed::start_on(settings);
            let mut seen = bed.connected(0);
            let socket = bed.socket();
            bed.send(&socket, 0, 40);
            seen.extend(bed.far.all(&bed.settings.peers, SILENCE));
            let expected: Vec<u32> = (FROM as u32..=u32::MAX).collect();
            assert_eq!(ids(&seen), expected);
            assert!(bed.gateway.dropped("no_packet_id") >= 40 - 15);
            wait_for("both warnings", || {
                !bed.said("packet ids run low").is_empty() && !bed.said("all packet ids are used").is_empty()
            });
            let lost = bed.gateway.dropped("no_packet_id");
            std::thread::sleep(Duration::from_millis(1500));
            for text in ["packet ids run low", "all packet ids are used"] {
                let said = bed.said(text);
                assert_eq!(said.len(), 1, "once: {said:?}");
                assert!(
                    said[0].contains("rekey needed") && said[0].contains("peer 0 of ovpn0, key 0"),
                    "{said:?}"
                );
            }

            bed.settings.peers[0].keys = vec![StaticKey::random(1)];
            assert!(bed.reload().contains("0 peers added, 1 changed, 0 removed"));
            bed.send(&socket, 0, 40);
            let seen = bed.far.all(&bed.settings.peers, SILENCE);
            assert!(ids(&seen).into_iter().eq(1..=40), "{:?}", ids(&seen));
            assert_eq!(bed.gateway.dropped("no_packet_id"), lost);
            bed.end();
        },
    );
}

#[test]
fn a_state_file_that_is_no_good_is_refused_by_name() {
    in_namespace("a_state_file_that_is_no_good_is_refused_by_name", || {
        veth();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ids");
        for garbage in [
            "",
            "garbage",
            "{\"version\":2,\"keys\":{}}",
            "{\"version\":1,\"keys\":{\"x\":1}}",
        ] {
            fs::write(&path, garbage).expect("our own folder");
            let (code, line) = Process::start("life-bad", &settings(folder.path())).failed();
            assert_eq!(code, 1, "{line}");
            let named = line.contains(&path.display().to_string());
            assert!(named && line.contains("is no usable state file"), "{line}");
            assert_eq!(
                fs::read_to_string(&path).expect("still there"),
                garbage,
                "left as it is"
            );
        }
        fs::remove_file(&path).expect("our own file");
        fs::create_dir(&path).expect("our own folder");
        let refused = |settings: &Settings, says: [&str; 2]| {
            let (code, line) = Process::start("life-bad", settings).failed();
            assert_eq!(code, 1, "{line}");
            assert!(says.iter().all(|part| line.contains(part)), "{line}");
        };
        let named = path.display().to_string();
        refused(&settings(folder.path()), [&named, "not a regular file"]);
        // Where no folder can be made, whatever the rights.
        let mut nowhere = settings(folder.path());
        nowhere.state_file = "/proc/nowhere/ids".into();
        refused(&nowhere, ["/proc/nowhere", "cannot be made"]);

        fs::remove_dir(&path).expect("our own folder");
        let lock = folder.path().join("ids.lock");
        let mut other = Command::new("flock")
            .arg("--no-fork")
            .arg(&lock)
            .args(["sh", "-c", "echo locked; exec sleep 60"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("util-linux is installed");
        let mut said = [0; 7];
        let out = other.stdout.as_mut().expect("piped");
        std::io::Read::read_exact(out, &mut said).expect("it says that it has the lock");
        refused(
            &settings(folder.path()),
            [&named, "another process uses this state file"],
        );
        other.kill().expect("a child");
        other.wait().expect("a child");
    });
}

#[test]
fn keys_that_would_send_with_the_same_nonces_are_refused_by_name() {
    in_namespace(
        "keys_that_would_send_with_the_same_nonces_are_refused_by_name",
        || {
            veth();
            let folder = tempfile::tempdir().expect("a folder");
            let mut settings = Settings {
                state_file: settings(folder.path()).state_file,
                ..Settings::with_peers(2)
            };
            settings.peers[1].keys[0].encrypt = settings.peers[0].keys[0].encrypt.clone();
            let (code, line) = Process::start("life-twice", &settings).failed();
            assert_eq!(code, 1, "{line}");
            for part in [
                "peer 0 of ovpn0, key 0",
                "peer 1 of ovpn0, key 0",
                "same key and nonce tail",
            ] {
                assert!(line.contains(part), "{part:?} in {line}");
            }
            assert!(!path_has(folder.path(), "ids"), "nothing was reserved");
        },
    );
}

fn path_has(folder: &Path, name: &str) -> bool {
    fs::exists(folder.join(name)).expect("our own folder")
}

#[test]
fn static_keys_need_a_word_of_consent() {
    in_namespace("static_keys_need_a_word_of_consent", || {
        let settings = Settings::with_peers(1);
        let config = settings.config().replace("insecure_static_keys = true", "");
        let start = Instant::now();
        let text = format!("name = \"life-plain\"\n{config}");
        let (code, line) = Process::start_with(&text, &settings.keys()).failed();
        assert_eq!(code, 2, "{line}");
        assert!(line.contains("insecure_static_keys"), "{line}");
        assert!(start.elapsed() < PATIENCE);
    });
}

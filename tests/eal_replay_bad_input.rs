//! What `replay` says of captures, keys files and outputs that are no good: one line, the right exit code, nothing left.

#[path = "support/replay.rs"]
mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{CAPTURES, Ran, captures, pcap, replay};

/// A folder with a good capture of a few frames and its keys file.
struct Bed {
    folder: tempfile::TempDir,
    frames: Vec<Vec<u8>>,
}

impl Bed {
    fn new() -> Bed {
        let bed = Bed {
            folder: tempfile::tempdir().expect("a temporary folder"),
            frames: pcap::read(&CAPTURES[3].outer()),
        };
        pcap::write(&bed.at("good.pcap"), &bed.frames);
        bed.file(
            "keys.json",
            &std::fs::read(CAPTURES[3].keys()).expect("a keys file"),
        );
        bed
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        std::fs::write(self.at(name), bytes).expect("a folder that can be written to");
        // Nothing is said of a keys file that is closed to others.
        std::fs::set_permissions(self.at(name), std::fs::Permissions::from_mode(0o600)).expect("it is ours");
        self.at(name)
    }

    fn play(&self, input: &Path) -> Ran {
        replay(0, &self.at("keys.json"), input, &self.at("out.pcap"), &[])
    }

    /// Refused before anything began: exit code 2 and one line that has all of `words` in it; no output.
    fn refused(&self, ran: &Ran, words: &[&str]) {
        one_line(ran, 2, words);
        assert!(!self.at("out.pcap").exists(), "{ran:?}");
    }
}

/// One line on stderr, nothing on stdout.
fn one_line(ran: &Ran, code: i32, words: &[&str]) {
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{ran:?}");
    assert!(
        ran.stderr.starts_with("ovpn-dpdk: ") && ran.stderr.ends_with('\n'),
        "{ran:?}"
    );
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    words
        .iter()
        .for_each(|word| assert!(ran.stderr.contains(word), "{word:?} in {ran:?}"));
}

#[test]
fn captures_that_are_cut_off_are_refused() {
    let bed = Bed::new();
    let whole = std::fs::read(bed.at("good.pcap")).expect("it was written");
    let first = 24 + 16 + bed.frames[0].len();
    for (len, after) in [
        (first + 7, 1),
        (first + 16, 1),
        (first + 20, 1),
        (whole.len() - 1, bed.frames.len()),
    ] {
        let after = if len == whole.len() - 1 { after - 1 } else { after };
        let cut = bed.file("cut.pcap", &whole[..len]);
        let after = format!("cut off after frame {after}");
        bed.refused(&bed.play(&cut), &["cut.pcap", &after]);
    }
    for short in [0, 1, 4, 23] {
        let cut = bed.file("cut.pcap", &whole[..short]);
        bed.refused(&bed.play(&cut), &["cut.pcap", "no capture"]);
    }
    let (first, second) = (&bed.frames[0], &bed.frames[1]);
    let mut snapped = pcap::header(pcap::ETHERNET);
    snapped.extend(pcap::record(first, first.len()));
    snapped.extend(pcap::record(&second[..second.len() - 1], second.len()));
    let snapped = bed.file("snapped.pcap", &snapped);
    bed.refused(&bed.play(&snapped), &["snapped.pcap", "frame 2 is cut off"]);
}

#[test]
fn other_link_types_and_other_files_are_refused_by_name() {
    let bed = Bed::new();
    let raw = captures().join("aes128-udp4.inner-client1.pcap");
    bed.refused(
        &bed.play(&raw),
        &["aes128-udp4.inner-client1.pcap", "link type RAW", "Ethernet"],
    );
    let mut cooked = pcap::header(pcap::LINUX_SLL);
    cooked.extend(pcap::record(&[0; 64], 64));
    let cooked = bed.file("cooked.pcap", &cooked);
    bed.refused(
        &bed.play(&cooked),
        &["cooked.pcap", "link type LINUX_SLL", "Ethernet"],
    );
    let unheard_of = bed.file("unheard-of.pcap", &pcap::header(0xffff));
    bed.refused(&bed.play(&unheard_of), &["unheard-of.pcap", "link type"]);
    let text = bed.file("text.pcap", b"this is no capture, it is a text of some length\n");
    bed.refused(&bed.play(&text), &["text.pcap", "no capture"]);
    bed.refused(
        &bed.play(&bed.at("absent.pcap")),
        &["absent.pcap", "No such file"],
    );
    bed.refused(
        &bed.play(bed.folder.path()),
        &[bed.folder.path().to_str().expect("UTF-8")],
    );
}

#[test]
fn an_empty_capture_is_played_and_gives_nothing() {
    let bed = Bed::new();
    let empty = bed.file("empty.pcap", &pcap::header(pcap::ETHERNET));
    let out = bed.play(&empty).json();
    let zero = [
        "captured",
        "keepalives",
        "to_host",
        "to_daemon",
        "fragments",
        "reassembled",
    ];
    zero.iter()
        .for_each(|name| assert_eq!(out[name].as_u64(), Some(0), "{name} of {out}"));
    assert_eq!(out["peers"].as_array().expect("peers").len(), 3);
    assert!(
        out["peers"]
            .as_array()
            .expect("peers")
            .iter()
            .all(|p| p["delivered"].as_u64() == Some(0))
    );
    assert!(pcap::read(&bed.at("out.pcap")).is_empty());
}

#[test]
fn pcapng_is_played_like_pcap() {
    let bed = Bed::new();
    pcap::write_ng(&bed.at("good.pcapng"), &bed.frames);
    let out = bed.play(&bed.at("good.pcapng")).json();
    CAPTURES[3].check(&out, true, "pcapng");
}

#[test]
fn frames_of_any_length_are_played() {
    let bed = Bed::new();
    let mut frames: Vec<Vec<u8>> = vec![vec![], vec![0x5a; 1], vec![0x5a; 13], vec![0x5a; 14]];
    frames.extend(bed.frames.iter().cloned());
    // net_pcap writes no more than 9728 bytes of a frame in several segments.
    frames.extend([vec![0x5a; 2048], vec![0x5a; 2049], vec![0x5a; 9728]]);
    pcap::write(&bed.at("odd.pcap"), &frames);
    let host = bed.at("host.pcap");
    let more = ["--host-out", host.to_str().expect("UTF-8")];
    let out = replay(
        0,
        &bed.at("keys.json"),
        &bed.at("odd.pcap"),
        &bed.at("out.pcap"),
        &more,
    )
    .json();
    CAPTURES[3].check(&out, true, "with odd frames");
    let odd: Vec<Vec<u8>> = pcap::read(&host)
        .into_iter()
        .filter(|f| f.iter().all(|b| *b == 0x5a))
        .collect();
    assert_eq!(
        odd.iter().map(Vec::len).collect::<Vec<_>>(),
        [0, 1, 13, 14, 2048, 2049, 9728]
    );
}

#[test]
fn keys_files_that_are_no_good_are_refused() {
    let bed = Bed::new();
    let good = std::fs::read_to_string(bed.at("keys.json")).expect("a keys file");
    let key = "65475d320af5d8a1572801c9e717601d6aeeaa8c1e03f92d3020bc9eef2144a4";
    assert!(good.contains(key));
    let play = |keys: &Path| replay(0, keys, &bed.at("good.pcap"), &bed.at("out.pcap"), &[]);
    bed.refused(&play(&bed.at("absent.json")), &["absent.json", "No such file"]);
    let listen = "\"listen\": \"192.168.90.1:1194\",";
    assert!(good.contains(listen));
    for (text, word) in [
        (String::new(), ""),
        ("{".into(), ""),
        (good[..good.len() / 2].into(), ""),
        ("[]".into(), ""),
        (good.replace(key, &key[2..]), "64 are needed"),
        (good.replace(key, &format!("{key}aa")), "64 are needed"),
        (good.replace(key, &key.replace('6', "x")), ""),
        (good.replace("AES-256-GCM", "AES-256-CBC"), ""),
        (good.replace(listen, ""), "listen"),
        (good.replace("192.168.90.1:1194", "192.168.90.1"), "listen"),
        (good.replace("\"peer_id\": 0", "\"peer_id\": 16777216"), "peer_id"),
        (good.replace("\"key_id\": 0", "\"key_id\": 8"), "key_id"),
    ] {
        let ran = play(&bed.file("bad.json", text.as_bytes()));
        bed.refused(&ran, &["bad.json", word]);
        assert!(!ran.stderr.contains(&key[4..20]), "a key is shown: {ran:?}");
    }
}

#[test]
fn outputs_that_cannot_be_written_are_said() {
    let bed = Bed::new();
    let keys = bed.at("keys.json");
    let nowhere = bed.at("absent/out.pcap");
    one_line(
        &replay(0, &keys, &bed.at("good.pcap"), &nowhere, &[]),
        2,
        &["absent/out.pcap"],
    );
    let host = ["--host-out", nowhere.to_str().expect("UTF-8")];
    one_line(
        &replay(0, &keys, &bed.at("good.pcap"), &bed.at("out.pcap"), &host),
        2,
        &["absent/out.pcap"],
    );
    one_line(
        &replay(0, &keys, &bed.at("good.pcap"), bed.folder.path(), &[]),
        2,
        &["directory"],
    );
    // The input must not be lost to an output of the same name.
    let before = std::fs::read(bed.at("good.pcap")).expect("it was written");
    one_line(
        &replay(0, &keys, &bed.at("good.pcap"), &bed.at("good.pcap"), &[]),
        2,
        &["good.pcap", "--in"],
    );
    let twice = bed.at("twice.pcap");
    let host = ["--host-out", twice.to_str().expect("UTF-8")];
    one_line(
        &replay(0, &keys, &bed.at("good.pcap"), &twice, &host),
        2,
        &["twice.pcap", "--out"],
    );
    assert!(std::fs::read(bed.at("good.pcap")).expect("still there") == before);
}

#[test]
fn names_that_a_device_argument_cannot_carry_are_refused() {
    let bed = Bed::new();
    let keys = bed.at("keys.json");
    for name in ["a,b.pcap", "a=b.pcap", "a[0].pcap"] {
        pcap::write(&bed.at(name), &bed.frames);
        bed.refused(&bed.play(&bed.at(name)), &[name, "rename"]);
        std::fs::remove_file(bed.at(name)).expect("it was written");
        one_line(
            &replay(0, &keys, &bed.at("good.pcap"), &bed.at(name), &[]),
            2,
            &[name, "rename"],
        );
        assert!(!bed.at(name).exists());
    }
    pcap::write(&bed.at("with a space.pcap"), &bed.frames);
    CAPTURES[3].check(&bed.play(&bed.at("with a space.pcap")).json(), true, "a space");
}

#[test]
fn results_that_nobody_takes_are_one_line_and_no_panic() {
    let bed = Bed::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let prefix = support::unique();
    let done = Command::new(env!("CARGO_BIN_EXE_ovpn-dpdk"))
        .args(support::eal(0, &prefix))
        .args(["--", "replay", "--keys"])
        .arg(bed.at("keys.json"))
        .arg("--in")
        .arg(bed.at("good.pcap"))
        .arg("--out")
        .arg(bed.at("out.pcap"))
        .stdin(Stdio::null())
        .stdout(full.expect("a device that is always full"))
        .output()
        .expect("the program starts");
    support::nothing_left(&prefix);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.starts_with("ovpn-dpdk: stdout: No space left"), "{said}");
}

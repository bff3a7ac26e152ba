//! The state file of packet ids on a real file system: modes, lock, damage, kill -9.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use nf_control::KeysFile;
use nf_control::id_store::{CHUNK, Fingerprint, IdRange, IdStore, IdStoreError};
use nf_state::Cipher;
use serde_json::{Value, json};

use common::keys::{digits, file, key, secret};

const END: u64 = 1 << 32;

/// The fingerprint of a key with this first byte and tail.
fn fingerprint(cipher: Cipher, first: u8, tail: u8) -> Fingerprint {
    let half = |tag: u8| {
        let key = hex::encode([tag]) + &digits(cipher.key_len() - 1);
        json!({ "key": key, "nonce_tail": hex::encode([tail; 8]) })
    };
    let entry = json!({ "peer_id": 0, "key_id": 0, "cipher": cipher.name(), "encrypt": half(first), "decrypt": half(0) });
    let keys = KeysFile::parse(&file(vec![entry]).to_string(), "k.json").unwrap();
    Fingerprint::of(cipher, &keys.keys[0].encrypt)
}

fn some() -> Fingerprint {
    fingerprint(Cipher::Aes128Gcm, 1, 2)
}

fn refused(path: &Path) -> String {
    let line = IdStore::open(path).err().expect("must be refused").to_string();
    assert!(
        !line.contains('\n') && line.contains(&path.display().to_string()),
        "{line}"
    );
    line
}

#[test]
fn what_a_fingerprint_depends_on() {
    let entry = |peer: u32, id: u32, decrypt: &str| {
        let mut entry = key(peer, id);
        entry["decrypt"]["nonce_tail"] = json!(decrypt);
        let keys = KeysFile::parse(&file(vec![entry]).to_string(), "k.json").unwrap();
        Fingerprint::of(keys.keys[0].cipher, &keys.keys[0].encrypt)
    };
    // Not on peer, key id and the other direction.
    assert_eq!(entry(0, 0, "0000000000000000"), entry(7, 3, "1111111111111111"));
    let different: BTreeSet<Fingerprint> = [
        fingerprint(Cipher::Aes128Gcm, 1, 2),
        fingerprint(Cipher::Aes128Gcm, 2, 2),
        fingerprint(Cipher::Aes128Gcm, 1, 3),
        fingerprint(Cipher::Aes256Gcm, 1, 2),
        fingerprint(Cipher::ChaCha20Poly1305, 1, 2),
    ]
    .into();
    assert_eq!(different.len(), 5);
    let text = some().to_string();
    assert!(
        text.len() == 64 && text.parse() == Ok(some()) && text.to_uppercase().parse::<Fingerprint>().is_err()
    );
    assert!(!secret(&format!("{:?}", entry(0, 0, "0000000000000000"))));
}

/// The digest is on disk: a change of it would begin every key at 1 again. Made by Python's `hashlib` from the same
/// parts, each led by its length in 8 bytes, big-endian.
#[test]
fn the_fingerprint_of_this_key_for_ever() {
    let python = "3f4e727a8248c487dd7c44fcf8a35ab8490ebfc21964114e866b027e98e4931b";
    assert_eq!(some().to_string(), python);
}

#[test]
fn a_run_goes_on_where_the_one_before_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/gw0.ids");
    let mut store = IdStore::open(&path).unwrap();
    assert_eq!(
        store.claim(some(), "peer 0").unwrap(),
        IdRange {
            next: 1,
            end: 1 + CHUNK
        }
    );
    for (name, mode) in [("gw0.ids", 0o600), ("gw0.ids.lock", 0o600)] {
        let meta = fs::metadata(path.with_file_name(name)).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, mode, "{name}");
    }
    // Killed: what was reserved is lost.
    drop(store);
    let mut store = IdStore::open(&path).unwrap();
    let range = store.claim(some(), "peer 0").unwrap();
    assert_eq!(range.next, 1 + CHUNK);
    assert_eq!(store.top_up(some(), range.next).unwrap(), None);
    assert_eq!(
        store.top_up(some(), range.end - 5).unwrap(),
        Some(range.end + CHUNK)
    );
    // Stopped: nothing is.
    store.settle([(some(), range.end + 3)]).unwrap();
    assert!(matches!(store.top_up(some(), 1), Err(IdStoreError::NotClaimed)));
    drop(store);
    let mut store = IdStore::open(&path).unwrap();
    assert_eq!(store.claim(some(), "peer 0").unwrap().next, range.end + 3);
    let names: BTreeSet<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, ["gw0.ids", "gw0.ids.lock"].map(String::from).into());
}

#[test]
fn keys_of_other_runs_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw0.ids");
    let other = fingerprint(Cipher::ChaCha20Poly1305, 9, 9);
    let text = json!({ "version": 1, "keys": { other.to_string(): 4711, some().to_string(): END } });
    fs::write(&path, text.to_string()).unwrap();
    let mut store = IdStore::open(&path).unwrap();
    let third = fingerprint(Cipher::Aes192Gcm, 1, 1);
    store.claim(third, "peer 3").unwrap();
    // All of its ids are used up, for good.
    assert_eq!(
        store.claim(some(), "peer 0").unwrap(),
        IdRange { next: END, end: END }
    );
    store.settle([(third, 77), (some(), END)]).unwrap();
    let read: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let keys = json!({ other.to_string(): 4711, some().to_string(): END, third.to_string(): 77 });
    assert_eq!(read, json!({ "version": 1, "keys": keys }));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn two_keys_with_one_nonce() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw0.ids");
    let mut store = IdStore::open(&path).unwrap();
    let line = store
        .claim_all([(some(), "peer 0, key 0".into()), (some(), "peer 8, key 1".into())])
        .unwrap_err();
    let expected = "peer 0, key 0 and peer 8, key 1 have the same key and nonce tail for encryption: their nonces would \
                    repeat";
    assert_eq!(line.to_string(), expected);
    assert!(!path.exists());
    store.claim(some(), "peer 0, key 0").unwrap();
    assert_eq!(
        store.claim(some(), "peer 8, key 1").unwrap_err().to_string(),
        expected
    );
    // A key that was removed may come back.
    store.settle([(some(), 5)]).unwrap();
    assert_eq!(store.claim(some(), "peer 8, key 1").unwrap().next, 5);
}

#[test]
fn one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw0.ids");
    let store = IdStore::open(&path).unwrap();
    let line = refused(&path);
    assert!(
        line.contains("another process uses this state file") && line.contains("gw0.ids.lock"),
        "{line}"
    );
    // By another name of the folder too.
    let link = folder.path().join("link");
    symlink(folder.path(), &link).unwrap();
    assert!(refused(&link.join("gw0.ids")).contains("another process"));
    drop(store);
    IdStore::open(&path).unwrap();
}

#[test]
fn damaged_files_are_refused_and_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw0.ids");
    let key = some().to_string();
    let shouted = key.to_uppercase();
    let good = json!({ "version": 1, "keys": { &key: 5 } }).to_string();
    for (text, why) in [
        (String::new(), "EOF"),
        ("\0\0\0\0".into(), "expected value"),
        (good[..good.len() - 1].into(), "EOF"),
        (format!("{good}{good}"), "trailing"),
        (
            good.replacen(r#""version":1"#, r#""version":2"#, 1),
            "version 2, but only version 1",
        ),
        (
            r#"{"version":7,"names":[]}"#.into(),
            "version 7, but only version 1",
        ),
        (r#"{"keys":{}}"#.into(), "version"),
        (r#"{"version":1}"#.into(), "keys"),
        (r#"{"version":1,"keys":[]}"#.into(), "packet id per key"),
        (r#"{"version":1,"keys":{},"more":1}"#.into(), "unknown field"),
        (
            format!(r#"{{"version":1,"keys":{{"{key}":5,"{key}":3}}}}"#),
            "twice",
        ),
        (format!(r#"{{"version":1,"keys":{{"{key}":0}}}}"#), "packet id 0"),
        (
            format!(r#"{{"version":1,"keys":{{"{key}":4294967297}}}}"#),
            "packet id 4294967297",
        ),
        (
            format!(r#"{{"version":1,"keys":{{"{key}":-1}}}}"#),
            "invalid value",
        ),
        (
            format!(r#"{{"version":1,"keys":{{"{key}":1.5}}}}"#),
            "invalid type",
        ),
        (
            format!(r#"{{"version":1,"keys":{{"{shouted}":5}}}}"#),
            "64 lower-case",
        ),
        (
            format!(r#"{{"version":1,"keys":{{"{}":5}}}}"#, &key[2..]),
            "64 lower-case",
        ),
    ] {
        fs::write(&path, &text).unwrap();
        let line = refused(&path);
        assert!(
            line.contains("is no usable state file") && line.contains(why),
            "{text}: {line}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn what_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw0.ids");
    fs::create_dir(&path).unwrap();
    assert!(refused(&path).contains("not a regular file"));
    fs::remove_dir(&path).unwrap();
    // Also a link that leads nowhere: a new file would be made in its place.
    symlink(folder.path().join("elsewhere"), &path).unwrap();
    assert!(refused(&path).contains("cannot be read"));
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert!(refused(&path).contains("not a regular file"));
    fs::remove_file(&path).unwrap();
    let file = fs::File::create(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    assert!(refused(&path).contains("more than 67108864 bytes"));
    assert!(
        IdStore::open("/")
            .err()
            .unwrap()
            .to_string()
            .contains("it names no file")
    );
    let below = path.join("file/gw0.ids");
    assert!(
        IdStore::open(&below)
            .err()
            .unwrap()
            .to_string()
            .contains("cannot be made")
    );
}

#[test]
fn what_a_kill_leaves_beside_the_file_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw0.ids");
    let temporary = folder.path().join("gw0.ids.tmp");
    let precious = folder.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    let mut next = 1;
    for leave in 0..3 {
        match leave {
            0 => fs::write(&temporary, r#"{"version":1,"keys":{"#).unwrap(),
            1 => symlink(&precious, &temporary).unwrap(),
            _ => {}
        }
        let mut store = IdStore::open(&path).unwrap();
        assert_eq!(store.claim(some(), "peer 0").unwrap().next, next);
        next += CHUNK;
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

#[test]
fn a_folder_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw0.ids");
    let temporary = folder.path().join("gw0.ids.tmp");
    let mut store = IdStore::open(&path).unwrap();
    let range = store.claim(some(), "peer 0").unwrap();
    fs::create_dir(&temporary).unwrap();
    let line = store.top_up(some(), range.end).unwrap_err().to_string();
    assert!(line.contains("gw0.ids: cannot be written: "), "{line}");
    assert!(
        store
            .claim(fingerprint(Cipher::Aes128Gcm, 5, 5), "peer 5")
            .is_err()
    );
    fs::remove_dir(&temporary).unwrap();
    assert_eq!(store.top_up(some(), range.end).unwrap(), Some(range.end + CHUNK));
}

/// Not a test by itself: the process that [`killed_at_any_moment`] starts and kills. Says each end of a range that it
/// was given, as if it used every id up to there, and asks for more.
#[test]
fn child_of_killed_at_any_moment() {
    let Some(path) = std::env::var_os("ID_STORE_TEST_FILE") else {
        return;
    };
    let mut store = IdStore::open(path).unwrap();
    let range = store.claim(some(), "peer 0").unwrap();
    println!("\nrange {} {}", range.next, range.end);
    let mut end = range.end;
    while let Some(more) = store.top_up(some(), end).unwrap() {
        println!("\nrange {end} {more}");
        end = more;
    }
    println!("\nused up");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn killed_at_any_moment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gw0.ids");
    let (mut used_below, mut last_run) = (1, 0);
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "child_of_killed_at_any_moment",
                "--nocapture",
                "--test-threads=1",
            ])
            .env("ID_STORE_TEST_FILE", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut ranges = 0;
        let mut killed = false;
        while let Some(Ok(line)) = lines.next() {
            if let Some(range) = line.strip_prefix("range ") {
                let (next, end) = range.split_once(' ').unwrap();
                let (next, end): (u64, u64) = (next.parse().unwrap(), end.parse().unwrap());
                assert!(
                    next >= used_below && end > next,
                    "round {round}: {next} was used: {used_below}"
                );
                used_below = end;
                ranges += 1;
            }
            if ranges == 1 + 2 * round && !killed {
                child.kill().unwrap();
                killed = true;
            }
        }
        child.wait().unwrap();
        assert!(killed, "round {round}: all ids were used, or none was given");
        last_run = ranges;
    }
    assert!(last_run > 20, "{last_run}");
}

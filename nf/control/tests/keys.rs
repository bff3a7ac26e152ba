//! Keys files: the captured ones, every error, and that no message shows key material.

mod common;

use std::path::{Path, PathBuf};

use nf_control::KeysFile;
use nf_state::Cipher;
use proptest::prelude::*;
use serde_json::{Value, json};

use common::keys::{digits, file, key, secret};

fn capture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/captures")).join(format!("{name}.keys.json"))
}

fn parse(file: &Value) -> Result<KeysFile, String> {
    KeysFile::parse(&file.to_string(), "k.json").map_err(|e| e.to_string())
}

/// The error's line; checks that it is one line and shows no run of the key's digits.
#[track_caller]
fn error(text: &str) -> String {
    let error = KeysFile::parse(text, "k.json").expect_err("must be refused");
    let line = error.to_string();
    let debug = format!("{error:?}");
    assert!(line.starts_with("k.json: ") && !line.contains('\n'), "{line}");
    assert!(!secret(&line) && !secret(&debug), "{line}");
    line
}

/// Changes one member of a good file's first key.
#[track_caller]
fn refused(pointer: &str, value: Value, says: &str) {
    let mut file = file(vec![key(0, 0)]);
    *file.pointer_mut(pointer).expect(pointer) = value;
    let line = error(&file.to_string());
    assert!(line.contains(says), "{pointer}: {line}");
}

#[test]
fn captured_files() {
    for (name, cipher, listen, peers) in [
        (
            "aes128-udp4",
            Cipher::Aes128Gcm,
            "192.168.90.1:1194",
            vec![(0, 2)],
        ),
        ("aes256-udp6", Cipher::Aes256Gcm, "[fd90::1]:1194", vec![(0, 2)]),
        (
            "chacha20-udp4",
            Cipher::ChaCha20Poly1305,
            "192.168.90.1:1194",
            vec![(0, 1)],
        ),
        (
            "three-clients",
            Cipher::Aes256Gcm,
            "192.168.90.1:1194",
            vec![(0, 1), (1, 1), (2, 1)],
        ),
    ] {
        let file = KeysFile::load(&capture(name)).unwrap();
        assert_eq!(file.listen, [listen.parse().unwrap()], "{name}");
        assert_eq!(file.keys_per_peer(), peers, "{name}");
        let text = std::fs::read_to_string(capture(name)).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        let debug = format!("{file:?}").to_lowercase();
        for (i, key) in file.keys.iter().enumerate() {
            assert_eq!((key.cipher, key.remote), (cipher, None), "{name}");
            for (material, way) in [(&key.encrypt, "encrypt"), (&key.decrypt, "decrypt")] {
                let written = &json["keys"][i][way];
                assert_eq!(written["key"], hex::encode(&*material.key), "{name}");
                assert_eq!(written["nonce_tail"], hex::encode(*material.nonce_tail), "{name}");
                assert!(!debug.contains(written["key"].as_str().unwrap()), "{name}");
                assert!(!debug.contains(written["nonce_tail"].as_str().unwrap()), "{name}");
                let bytes = format!("{:?}", &material.key[..4]);
                assert!(!debug.contains(bytes.trim_matches(['[', ']'])), "{name}");
            }
        }
    }
}

#[test]
fn forms() {
    let mut value = file(vec![key(3, 7), key(1, 0), key(3, 0)]);
    value["listen"] = json!(["192.0.2.1:1194", "[2001:db8::1]:1195"]);
    value["keys"][1]["remote"] = json!("198.51.100.7:1194");
    value["keys"][1]["cipher"] = json!("aes-128-gcm");
    value["keys"][1]["encrypt"]["key"] = json!(digits(16).to_uppercase());
    let file = parse(&value).unwrap();
    assert_eq!(file.listen.len(), 2);
    assert_eq!(
        file.keys
            .iter()
            .map(|k| (k.peer_id, k.key_id))
            .collect::<Vec<_>>(),
        [(3, 7), (1, 0), (3, 0)]
    );
    assert_eq!(file.keys[1].remote, Some("198.51.100.7:1194".parse().unwrap()));
    assert_eq!(
        *file.keys[1].encrypt.key, *file.keys[0].encrypt.key,
        "either case"
    );
    assert_eq!(file.keys_per_peer(), [(3, 2), (1, 1)]);
    value.as_object_mut().unwrap().remove("listen");
    assert!(parse(&value).unwrap().listen.is_empty());
}

#[test]
fn values() {
    refused(
        "/keys/0/peer_id",
        json!(0xff_ffff),
        "keys[0] (peer 16777215): peer_id: out of range: 0 to 16777214",
    );
    refused(
        "/keys/0/peer_id",
        json!(-1),
        "keys[0].peer_id: wrong type or value, expected u32",
    );
    refused(
        "/keys/0/key_id",
        json!(8),
        "keys[0] (peer 0): key_id: 8 is out of range: 0 to 7",
    );
    refused(
        "/keys/0/cipher",
        json!("BF-CBC"),
        "keys[0] (peer 0): cipher: unknown; allowed: AES-128-GCM, AES-192-GCM,",
    );
    refused(
        "/keys/0/cipher",
        json!("AES-192-GCM"),
        "encrypt.key: 32 hexadecimal digits; 48 are needed (AES-192-GCM)",
    );
    refused(
        "/keys/0/decrypt/key",
        json!(digits(32)),
        "decrypt.key: 64 hexadecimal digits; 32 are needed (AES-128-GCM)",
    );
    refused(
        "/keys/0/encrypt/nonce_tail",
        json!(digits(7)),
        "encrypt.nonce_tail: 14 hexadecimal digits; 16 are needed",
    );
    refused(
        "/keys/0/encrypt/key",
        json!(format!("{}x5", digits(15))),
        "encrypt.key: character 31 is no hexadecimal",
    );
    refused(
        "/keys/0/encrypt/key",
        json!(format!("{}é", digits(15))),
        "encrypt.key: character 31 is no hexadecimal",
    );
    refused(
        "/listen",
        json!("192.0.2.1"),
        "listen[0]: an address with a port is needed",
    );
    refused(
        "/listen",
        json!(["192.0.2.1:1", "192.0.2.1:1"]),
        "listen[1]: 192.0.2.1:1 is listed twice",
    );
}

#[test]
fn keys_of_one_peer() {
    let line = error(&file(vec![key(0, 0), key(5, 0), key(0, 0)]).to_string());
    assert!(
        line.contains("keys[2] (peer 0): key id 0 of peer 0 is there already"),
        "{line}"
    );
    let line = error(&file(vec![key(0, 0), key(0, 1), key(5, 0), key(0, 2)]).to_string());
    assert!(line.contains("keys[3] (peer 0): a third key of peer 0"), "{line}");
    let mut remote = file(vec![key(0, 0)]);
    remote["keys"][0]["remote"] = json!(digits(16));
    assert!(
        error(&remote.to_string()).contains("keys[0] (peer 0): remote: an address with a port is needed")
    );
}

/// Whatever stands in the wrong place, it is not repeated.
#[test]
fn misplaced_key_material() {
    for pointer in [
        "/listen",
        "/keys",
        "/keys/0",
        "/keys/0/peer_id",
        "/keys/0/key_id",
        "/keys/0/cipher",
        "/keys/0/encrypt",
    ] {
        refused(pointer, json!(digits(16)), "");
        refused(pointer, json!({ digits(16): digits(16) }), "");
    }
    refused(
        "/keys/0/encrypt",
        json!({ digits(16): "key" }),
        "keys[0].encrypt: unknown field; allowed: `key`",
    );
    refused(
        "/keys/0/encrypt/key",
        json!(12648430),
        "keys[0].encrypt.key: wrong type or value, expected",
    );
    refused(
        "/keys/0/encrypt",
        json!({ "key": digits(16) }),
        "keys[0].encrypt: missing field `nonce_tail`",
    );
    let good = file(vec![key(0, 0)]).to_string();
    for at in 0..good.len() {
        error(&good[..at]);
    }
    error(&format!("{good} {}", digits(16)));
    error(&good.replace("\"c0ff", "c0ff"));
    error(&good.replace("\"c0ff", "\"\\u0063\\u0030ff"));
    error(&good.replace("\"key\":", &format!("\"key\":\"{}\",\"key\":", digits(16))));
    let line = error(&format!("{{\n \"keys\": [],\n \"other\": \"{}\" }}", digits(16)));
    assert!(
        line.contains("line 3 column 8: unknown field; allowed: `listen` or `keys`"),
        "{line}"
    );
}

#[test]
#[cfg(unix)]
fn permissions() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.json");
    std::fs::write(&path, file(vec![key(0, 0)]).to_string()).unwrap();
    for (mode, warnings) in [(0o600, 0), (0o400, 0), (0o640, 1), (0o604, 1)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let file = KeysFile::load(&path).unwrap();
        assert_eq!(file.warnings.len(), warnings, "{mode:o}: {:?}", file.warnings);
    }
    std::fs::write(&path, b"\xff\xfe").unwrap();
    assert!(
        KeysFile::load(&path)
            .unwrap_err()
            .to_string()
            .contains("cannot be read")
    );
    assert!(KeysFile::load(folder.path()).is_err());
}

proptest! {
    #[test]
    fn any_text_is_answered(text in ".{0,200}", at in 0usize..600, cut in ".{0,3}") {
        let _ = KeysFile::parse(&text, "k.json");
        let good = file(vec![key(0, 0), key(1, 1)]).to_string();
        let at = at.min(good.len());
        if let Err(e) = KeysFile::parse(&format!("{}{cut}{}", &good[..at], good.get(at + 1..).unwrap_or("")), "k.json") {
            prop_assert!(!secret(&e.to_string()), "{}", e);
        }
    }
}

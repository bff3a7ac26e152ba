//! A keys file beside the configuration that names it.

mod common;

use nf_control::Config;
use serde_json::{Value, json};

use common::keys::{file, key, secret};

/// A configuration with this in `[[tunnel]]`, beside a keys file.
fn configured(tunnel: &str, keys: &Value) -> (tempfile::TempDir, Config) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("k.json"), keys.to_string()).unwrap();
    let text = format!("[nic]\nport = 'p'\n[[tunnel]]\ninterface = 'ovpn0'\nkeys_file = 'k.json'\n{tunnel}");
    let config = Config::parse(&text, "gw.toml", folder.path(), []).unwrap();
    (folder, config)
}

#[test]
fn configuration_wins() {
    let mut keys = file(vec![key(0, 0), key(1, 0)]);
    keys["keys"][0]["remote"] = json!("198.51.100.1:1");
    keys["keys"][1]["remote"] = json!("198.51.100.2:2");
    let (_folder, config) = configured("", &keys);
    let loaded = config.load_keys().unwrap();
    let file = loaded[0].as_ref().unwrap();
    assert_eq!(file.listen, ["192.0.2.1:1194".parse().unwrap()]);
    assert_eq!(file.keys[1].remote, Some("198.51.100.2:2".parse().unwrap()));

    let tunnel = "listen = ['192.0.2.9:9']\n[[tunnel.peer]]\nid = 1\nremote = '198.51.100.9:9'\n";
    let (_folder, config) = configured(tunnel, &keys);
    let loaded = config.load_keys().unwrap();
    let file = loaded[0].as_ref().unwrap();
    assert_eq!(file.listen, ["192.0.2.9:9".parse().unwrap()]);
    assert_eq!(file.keys[0].remote, Some("198.51.100.1:1".parse().unwrap()));
    assert_eq!(file.keys[1].remote, Some("198.51.100.9:9".parse().unwrap()));
    let summary = config.summary(&loaded).to_string();
    assert!(
        summary.contains("# keys file: peers 2, keys 2\n") && summary.contains("#   peer 1: keys 1\n"),
        "{summary}"
    );
    assert!(
        !secret(&summary) && !secret(&format!("{config:?} {loaded:?}")),
        "{summary}"
    );
}

#[test]
fn what_must_agree() {
    let keys = file(vec![key(0, 0), key(1, 0)]);
    let refusal =
        |tunnel: &str, keys: &Value| configured(tunnel, keys).1.load_keys().unwrap_err().to_string();
    let line = refusal("mode = 'p2p'", &keys);
    assert!(
        line.contains("k.json: peers 0 and 1, but the tunnel has mode = \"p2p\": one peer"),
        "{line}"
    );
    let line = refusal("mode = 'p2p'\n[[tunnel.peer]]\nid = 1\n", &file(vec![key(0, 0)]));
    assert!(line.contains("k.json: peers 1 and 0, but"), "{line}");
    let line = refusal(
        "[[tunnel]]\ninterface = 'ovpn1'\nlisten = ['192.0.2.1:1194']\n",
        &keys,
    );
    assert!(
        line.contains("tunnel[1].listen[0]: 192.0.2.1:1194 overlaps"),
        "{line}"
    );
    let mut silent = keys.clone();
    silent["listen"] = json!([]);
    let line = refusal("", &silent);
    assert!(
        line.contains("gw.toml: tunnel[0].listen: needed, since neither"),
        "{line}"
    );
    let (folder, config) = configured("", &keys);
    std::fs::remove_file(folder.path().join("k.json")).unwrap();
    assert!(
        config
            .load_keys()
            .unwrap_err()
            .to_string()
            .contains("k.json: cannot be read: No such file")
    );
}

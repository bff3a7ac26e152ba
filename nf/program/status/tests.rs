use super::report::{KeyReport, KeySlotName, LcoreReport, PeerReport, TunnelKind, TunnelReport};
use super::*;
use serde_json::{Value, json};

fn report() -> Report {
    Report {
        name: "gw0".into(),
        tunnels: vec![TunnelReport {
            interface: "ovpn0".into(),
            kind: TunnelKind::Static,
            listen: vec!["[2001:db8::1]:1194".parse().unwrap()],
            peers: vec![PeerReport {
                id: 7,
                addresses: vec![[10, 8, 0, 2].into()],
                keys: vec![KeyReport {
                    slot: KeySlotName::Secondary,
                    key_id: 5,
                    next_packet_id: 1 << 32,
                    ..KeyReport::default()
                }],
                vpn_rx_bytes: u64::MAX,
                heard_ms_ago: Some(0),
                ..PeerReport::default()
            }],
            ..TunnelReport::default()
        }],
        lcores: vec![LcoreReport::default()],
        drops: [("bad_tag".into(), 3)].into(),
        ..Report::default()
    }
}

#[test]
fn a_report_comes_back_as_it_was() {
    let text = serde_json::to_vec(&report()).unwrap();
    assert_eq!(serde_json::from_slice::<Report>(&text).unwrap(), report());
}

#[test]
fn a_report_of_another_version_is_understood() {
    let mut document = serde_json::to_value(report()).unwrap();
    document["weather"] = json!("fine");
    document["tunnels"][0]["peers"][0]["mood"] = json!([1, 2]);
    let understood: Report = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(understood, report());
    document["tunnels"][0]["peers"][0] = json!({ "id": 7 });
    document.as_object_mut().unwrap().remove("drops");
    let understood: Report = serde_json::from_value(document).unwrap();
    assert_eq!(
        understood.tunnels[0].peers[0],
        PeerReport {
            id: 7,
            ..PeerReport::default()
        }
    );
    assert!(understood.drops.is_empty());
}

#[test]
fn json_has_the_verdict_and_all_of_the_report() {
    let reasons = health(&report());
    let text = printed(&report(), &reasons, true).unwrap();
    let mut answer: Value = serde_json::from_str(&text).unwrap();
    let members = answer.as_object_mut().unwrap();
    assert_eq!(members.remove("healthy"), Some(json!(false)));
    assert_eq!(
        members.remove("reasons"),
        Some(json!([
            "peer 7 of ovpn0 has no primary key: nothing can be sent to it"
        ]))
    );
    assert_eq!(answer, serde_json::to_value(report()).unwrap());
    assert_eq!(answer["tunnels"][0]["kind"], "static");
    assert_eq!(answer["tunnels"][0]["peers"][0]["keys"][0]["slot"], "secondary");
    let well = printed(&Report::default(), &[], true).unwrap();
    let answer: Value = serde_json::from_str(&well).unwrap();
    assert_eq!(
        (&answer["healthy"], &answer["reasons"]),
        (&json!(true), &json!([]))
    );
}

#[test]
fn the_socket_is_that_of_the_option() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gw.toml");
    let tunnel = "[nic]\nport = \"net_null0\"\n[[tunnel]]\ninterface = \"ovpn0\"\n";
    std::fs::write(
        &file,
        format!("name = \"gw7\"\n{tunnel}[control]\nsocket = \"here.sock\"\n"),
    )
    .unwrap();
    let command = |config: Option<&Path>, socket: Option<&str>| Status {
        json: false,
        config: config.map(Path::to_owned),
        socket: socket.map(PathBuf::from),
    };
    assert_eq!(
        socket(&command(None, Some("/run/x.sock"))),
        Ok("/run/x.sock".into())
    );
    assert_eq!(
        socket(&command(Some(&file), None)),
        Ok(folder.path().join("here.sock"))
    );
    std::fs::write(&file, format!("name = \"gw7\"\n{tunnel}")).unwrap();
    let default = socket(&command(Some(&file), None)).unwrap();
    assert_eq!(default, Path::new(query::FOLDER).join("gw7.sock"));
    let missing = socket(&command(Some(&folder.path().join("no.toml")), None));
    assert!(matches!(missing, Err(Failure::Usage(_))), "{missing:?}");
}

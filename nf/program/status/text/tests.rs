use super::*;
use crate::program::status::report::{ClientReport, DaemonReport, KeyReport};

fn key(slot: KeySlotName, key_id: u8, age_s: u64) -> KeyReport {
    KeyReport {
        slot,
        key_id,
        cipher: "AES-256-GCM".into(),
        age_s,
        ..KeyReport::default()
    }
}

fn peers_of_a_server() -> Vec<PeerReport> {
    vec![
        PeerReport {
            id: 0,
            remote: Some(([192, 0, 2, 10], 40_000).into()),
            addresses: vec![[10, 8, 0, 2].into(), "fd08::2".parse().unwrap()],
            networks: vec!["10.77.0.0/24".into()],
            keys: vec![
                key(KeySlotName::Primary, 0, 3661),
                key(KeySlotName::Secondary, 7, 7300),
            ],
            vpn_rx_bytes: 1_234_567_890,
            vpn_tx_bytes: 999,
            heard_ms_ago: Some(420),
            ..PeerReport::default()
        },
        PeerReport {
            id: 16_777_214,
            remote: Some("[2001:db8::a]:1194".parse().unwrap()),
            known_remote: Some("[2001:db8::b]:1194".parse().unwrap()),
            ..PeerReport::default()
        },
    ]
}

fn report() -> Report {
    Report {
        name: "gw0".into(),
        version: "0.1.0".into(),
        pid: 1234,
        uptime_s: 11_525,
        tunnels: vec![
            TunnelReport {
                interface: "ovpn0".into(),
                mode: "mp".into(),
                mtu: 1500,
                family: Some("ovpn-dco-v2".into()),
                daemon: Some(DaemonReport {
                    pid: 77,
                    command: "openvpn".into(),
                    since_s: 62,
                    ..DaemonReport::default()
                }),
                listen: vec![
                    ([192, 0, 2, 1], 1194).into(),
                    "[2001:db8::1]:1194".parse().unwrap(),
                ],
                peers: peers_of_a_server(),
                ..TunnelReport::default()
            },
            TunnelReport {
                interface: "ovpn1".into(),
                mode: "p2p".into(),
                mtu: 1400,
                ..TunnelReport::default()
            },
        ],
        clients: vec![ClientReport {
            pid: 77,
            command: "open\u{1b}[2Jvpn\n".into(),
            since_s: 63,
            tunnels: vec!["ovpn0".into()],
            ..ClientReport::default()
        }],
        lcores: vec![LcoreReport {
            cpu: 1,
            busy: 0.4213,
            stuck: true,
            counters: [("nic_rx".into(), 987_654_321), ("records".into(), 999_999)].into(),
        }],
        drops: [("bad_tag".into(), 3), ("replay_old".into(), 12)].into(),
    }
}

#[test]
fn the_tables_are_these() {
    let reasons = [
        "no daemon drives ovpn1".to_owned(),
        "the worker on CPU 1 is stuck".into(),
    ];
    let expected = "\
gw0: up 3 h 12 min, version 0.1.0, process 1234

TUNNEL  MODE   MTU  PEERS  DRIVEN BY                        FAMILY       LISTENS ON
ovpn0   mp    1500      2  openvpn (process 77), 1 min 2 s  ovpn-dco-v2  192.0.2.1:1194
                                                                         [2001:db8::1]:1194
ovpn1   p2p   1400      0  nobody                           -            -

TUNNEL      PEER  ENDPOINT                      VPN ADDRESS   CIPHER       KEYS                           FROM PEER  TO PEER      HEARD
ovpn0          0  192.0.2.10:40000              10.8.0.2      AES-256-GCM  0* (1 h 1 min), 7 (2 h 1 min)    1.23 GB    999 B  0.4 s ago
                                                fd08::2
                                                10.77.0.0/24
ovpn0   16777214  [2001:db8::a]:1194            -             -            none                                 0 B      0 B      never
                  (daemon: [2001:db8::b]:1194)

PROCESS  COMMAND       USER  CONNECTED  DRIVES
     77  open?[2Jvpn?     0  1 min 3 s  ovpn0

CPU    BUSY  FROM NIC  RECORDS  AUTHENTIC  DELIVERED  FROM TUNNEL  SEALED  SENT  TO HOST  STATE
  1  42.1 %     988 M   999999          -          -            -       -     -        -  stuck

DROPPED     PACKETS
bad_tag           3
replay_old       12

not healthy: no daemon drives ovpn1
not healthy: the worker on CPU 1 is stuck
";
    let text = text(&report(), &reasons);
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn a_gateway_without_anything_is_healthy() {
    let report = Report {
        name: "gw0".into(),
        version: "0.1.0".into(),
        pid: 1,
        ..Report::default()
    };
    let text = text(&report, &[]);
    assert!(
        text.starts_with("gw0: up 0 s, version 0.1.0, process 1\n"),
        "{text}"
    );
    assert!(text.ends_with("\nno packet was dropped\n\nhealthy\n"), "{text}");
}

#[test]
fn numbers_have_three_digits_that_count() {
    let all: Vec<String> = [0, 999, 1000, 9994, 9999, 99_940, 999_499, 999_500, u64::MAX]
        .map(bytes)
        .into();
    let expected = [
        "0 B", "999 B", "1.00 kB", "9.99 kB", "10.0 kB", "99.9 kB", "999 kB", "1.00 MB", "18.4 EB",
    ];
    assert_eq!(all, expected);
    assert_eq!([999_999, 1_000_000].map(count), ["999999", "1.00 M"]);
}

#[test]
fn ages_have_two_units() {
    let all: Vec<String> = [59, 60, 3599, 3600, 86_399, 86_400, 90_000].map(duration).into();
    let expected = [
        "59 s",
        "1 min 0 s",
        "59 min 59 s",
        "1 h 0 min",
        "23 h 59 min",
        "1 d 0 h",
        "1 d 1 h",
    ];
    assert_eq!(all, expected);
    assert_eq!(
        [Some(49), Some(59_999), Some(60_000), None].map(ago),
        ["0.0 s ago", "60.0 s ago", "1 min 0 s ago", "never"]
    );
}

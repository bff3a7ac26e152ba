//! `/ovpn/peers`: what each peer has sent and received, exactly.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/life.rs"]
mod life;

use gateway::{in_namespace, wait_for};
use life::{Bed, LISTEN, Settings, StaticKey, vpn};
use nf_path::twin::craft::inner_v4;
use nf_wire::keepalive::PING;
use serde_json::Value;
use std::time::Duration;

/// The counters of a peer.
fn row(bed: &Bed, peer: u32) -> impl Fn(&str) -> u64 {
    let peers = bed.gateway.telemetry(&format!("/ovpn/peers,0,{peer}"));
    assert_eq!(peers["id"][0], peer, "{peers}");
    move |column| {
        peers[column][0]
            .as_u64()
            .unwrap_or_else(|| panic!("{column} in {peers}"))
    }
}

/// Link and VPN, packets and bytes.
fn received(bed: &Bed, peer: u32) -> [u64; 4] {
    let row = row(bed, peer);
    [
        "link_rx_packets",
        "link_rx_bytes",
        "vpn_rx_packets",
        "vpn_rx_bytes",
    ]
    .map(row)
}

fn sent(bed: &Bed, peer: u32) -> [u64; 4] {
    let row = row(bed, peer);
    [
        "link_tx_packets",
        "link_tx_bytes",
        "vpn_tx_packets",
        "vpn_tx_bytes",
    ]
    .map(row)
}

#[test]
fn counters_of_a_peer_are_exact() {
    in_namespace("counters_of_a_peer_are_exact", || {
        let mut bed = Bed::start(Settings::with_peers(3));
        bed.connected(1);
        let peers = bed.settings.peers.clone();
        let socket = bed.socket();
        let listen = LISTEN.parse().expect("an address");
        let before = sent(&bed, 1);
        // 100 packets of 1000 bytes each way; a record has 24 bytes more.
        for n in 0..100 {
            bed.far.send(&peers[1], &inner_v4(vpn(1), life::OWN, 1000, n));
            bed.send(&socket, 1, 1);
        }
        let all = [100, 102_400, 100, 100_000];
        wait_for("all of it", || received(&bed, 1) == all);
        let grown = |before: [u64; 4], now: [u64; 4]| std::array::from_fn(|i| now[i] - before[i]);
        wait_for("all of it", || grown(before, sent(&bed, 1)) == all);
        // Neither forged nor replayed records are in the VPN's counters, and none is in another peer's.
        let replayed = bed.far.seal(&peers[1], 0, &inner_v4(vpn(1), life::OWN, 1000, 0));
        bed.far.send_from(peers[1].remote, listen, &replayed);
        wait_for("one more", || received(&bed, 1)[2] == 101);
        let once = received(&bed, 1);
        let mut forged = bed.far.seal(&peers[1], 0, &inner_v4(vpn(1), life::OWN, 1000, 0));
        forged[9] ^= 1;
        for _ in 0..10 {
            bed.far.send_from(peers[1].remote, listen, &replayed);
            bed.far.send_from(peers[1].remote, listen, &forged);
        }
        wait_for("all of them", || {
            bed.gateway.dropped("bad_tag") == 10 && bed.gateway.dropped("replay_duplicate") == 10
        });
        assert_eq!(received(&bed, 1)[2..], once[2..]);
        for peer in [0, 2] {
            assert_eq!((received(&bed, peer), sent(&bed, peer)), ([0; 4], [0; 4]));
        }
        survive_rekey_and_float(&mut bed);
        bed.end();
    });
}

/// Counters are the peer's, not those of its key or address.
fn survive_rekey_and_float(bed: &mut Bed) {
    let before = (received(bed, 1), sent(bed, 1));
    bed.settings.peers[1].keys = vec![StaticKey::random(1)];
    bed.reload();
    assert_eq!((received(bed, 1), sent(bed, 1)), before);
    let peer = bed.settings.peers[1].clone();
    let record = bed.far.seal(&peer, 0, &PING);
    let elsewhere = ([192, 0, 2, 2], 7777).into();
    bed.far
        .send_from(elsewhere, LISTEN.parse().expect("an address"), &record);
    wait_for("a float", || bed.gateway.counter("floats") == 1);
    let remote = || bed.gateway.telemetry("/ovpn/peers,0,1")["remote"][0].clone();
    assert_eq!(remote(), Value::from("192.0.2.2:7777"));
    let (link, now) = (before.0, received(bed, 1));
    assert_eq!(
        now,
        [link[0] + 1, link[1] + 40, link[2], link[3]],
        "a keepalive is on the link only"
    );
    assert_eq!(row(bed, 1)("keepalives_rx"), 1);
    assert_eq!(sent(bed, 1), before.1);
}

#[test]
fn pages_lead_through_many_peers() {
    in_namespace("pages_lead_through_many_peers", || {
        const PEERS: u32 = 130;
        let mut bed = Bed::start(Settings::with_peers(PEERS));
        bed.connected(PEERS - 1);
        bed.far.all(&bed.settings.peers, Duration::from_millis(50));
        for peer in bed.settings.peers.clone() {
            for n in 0..=peer.id % 7 {
                bed.far.send(&peer, &inner_v4(vpn(peer.id), life::OWN, 100, n));
            }
        }
        let expected = |id: u32| u64::from(id % 7 + 1);
        let total: u64 = (0..PEERS).map(expected).sum();
        wait_for("all of it", || bed.gateway.counter("authentic") == total);
        let (mut command, mut seen, mut pages) = (String::from("/ovpn/peers"), Vec::new(), 0);
        loop {
            let page = bed.gateway.telemetry(&command);
            assert_eq!(page["peers"], PEERS);
            let column = |name: &str| {
                let numbers = page[name].as_array().expect("a column").iter();
                numbers.map(|n| n.as_u64().expect("a number")).collect::<Vec<_>>()
            };
            let ids = column("id");
            assert!(ids.len() <= 40);
            seen.extend(ids.iter().copied().zip(column("vpn_rx_packets")));
            pages += 1;
            match page["next"].as_str().expect("a text") {
                "" => break,
                next => command = format!("/ovpn/peers,{next}"),
            }
        }
        assert!(pages >= 4);
        assert!(
            seen.into_iter()
                .eq((0..PEERS).map(|id| (id.into(), expected(id))))
        );
        let wrong = bed.gateway.telemetry("/ovpn/peers,x");
        assert!(
            wrong["error"].as_str().is_some_and(|e| e.contains("TUNNEL,FROM")),
            "{wrong}"
        );
        bed.end();
    });
}

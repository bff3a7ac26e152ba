//! What a client of the control socket is told of a peer's packets and bytes, and the timers that it sets, in both families.

#[path = "support/control.rs"]
mod control;
#[path = "support/gateway.rs"]
mod gateway;

use control::message::u32_attr;
use control::{Bed, Client, Family, Key, OWN, PORTS, Told, arrived, each_family, listen, remote, vpn};
use gateway::wait_for;
use nf_path::twin::craft::inner_v4;
use nf_wire::keepalive::PING;

const EINVAL: i32 = 22;
/// Bytes of an inner packet, and of its record.
const LEN: u64 = 100;
const RECORD: u64 = LEN + 24;

#[test]
fn counts_are_exact() {
    each_family("counts_are_exact", |bed, client| {
        let mut keys = client.peers(bed, 2);
        let (socket, mut key) = (bed.inside(), keys.remove(0));
        let empty = client.peer(1);
        assert_eq!(
            [empty.link_rx, empty.link_tx, empty.vpn_rx, empty.vpn_tx],
            [[0; 2]; 4]
        );
        let packet = |n| inner_v4(vpn(1), OWN, 100, n);
        // 50 good ones, then 4 of them again, 5 forged, 2 under no key, 6 with another's source, a short one, 3 keepalives.
        let good: Vec<_> = (0..50).map(|n| key.seal(1, &packet(n))).collect();
        let mut forged = key.seal(1, &packet(50));
        forged[30] ^= 1;
        let foreign = Key { id: 5, ..key.clone() }.seal(1, &packet(51));
        let mut all = good.clone();
        all.extend(good[3..7].to_vec());
        all.extend(vec![forged; 5]);
        all.extend(vec![foreign; 2]);
        all.extend((0..6).map(|n| key.seal(1, &inner_v4(vpn(2), OWN, 100, n))));
        all.push(key.seal(1, &packet(52))[..20].to_vec());
        all.extend((0..3).map(|_| key.seal(1, &PING)));
        let before = bed.gateway.counter("keepalives");
        for record in &all {
            bed.far.send(remote(1), listen(), record);
        }
        for n in 0..50 {
            assert_eq!(arrived(&socket), n);
        }
        wait_for("the keepalives", || {
            bed.gateway.counter("keepalives") == before + 3
        });
        let link = 50 + 4 + 5 + 2 + 6;
        let (all, bytes) = (link + 1 + 3, link * RECORD + 20 + 3 * 40);
        wait_for("the last one to be counted", || client.peer(1).link_rx[0] == all);
        let peer = client.peer(1);
        assert_eq!(peer.link_rx, [all, bytes]);
        assert_eq!(peer.vpn_rx, [50, 50 * LEN]);
        assert_eq!([peer.link_tx, peer.vpn_tx], [[0; 2]; 2]);
        drop(socket);
        sent(bed, client);
        let other = client.peer(2);
        assert_eq!(
            [other.link_rx, other.link_tx, other.vpn_rx, other.vpn_tx],
            [[0; 2]; 4]
        );
    });
}

/// What peer 1 is sent.
fn sent(bed: &mut Bed, client: &mut Client) {
    let socket = bed.inside();
    // 30 of 100 bytes the other way, and 7 for which there is no key: they are counted before it is looked for.
    for n in 0..37u32 {
        if n == 30 {
            wait_for("30 sent", || client.peer(1).link_tx[0] == 30);
            client.del_key(1, 0).done();
        }
        let mut payload = [0; 72];
        payload[..4].copy_from_slice(&n.to_be_bytes());
        socket.send_to(&payload, (vpn(1), PORTS.0)).expect("a route");
    }
    wait_for("37 counted", || client.peer(1).vpn_tx[0] == 37);
    let peer = client.peer(1);
    assert_eq!(peer.vpn_tx, [37, 37 * LEN]);
    assert_eq!(peer.link_tx, [30, 30 * RECORD]);
    // Keepalives are in the link's count alone.
    let key = Key::random(1);
    client.key(1, 0, &key).done();
    client.timers(1, 1, 0).done();
    wait_for("a keepalive", || client.peer(1).link_tx[0] > 31);
    client.timers(1, 0, 0).done();
    let peer = client.peer(1);
    let pings = bed
        .far
        .all()
        .iter()
        .filter(|r| key.open(r).is_some_and(|inner| inner == PING))
        .count() as u64;
    assert_eq!(peer.link_tx, [30 + pings, 30 * RECORD + pings * 40]);
    assert_eq!(peer.vpn_tx, [37, 37 * LEN]);
}

#[test]
fn timers() {
    each_family("timers", |bed, client| {
        let keys = client.peers(bed, 4);
        for (peer, interval, timeout) in [(1, 7, 0), (2, 0, 33), (3, 1, 0), (4, 0, 0)] {
            client.timers(peer, interval, timeout).done();
            assert_eq!(client.peer(peer).timers, (interval, timeout));
        }
        // The third one's alone run now: two keepalives of it come, and none of another.
        let mut pings = Vec::new();
        wait_for("two keepalives", || {
            pings.extend(bed.far.all().iter().map(|r| r.peer()));
            pings.len() > 1
        });
        assert!(pings.iter().all(|peer| *peer == 3), "{pings:?}");
        // Off again; then expiry alone.
        client.timers(3, 0, 0).done();
        bed.far.all();
        client.timers(4, 0, 1).done();
        let told = client.notification();
        assert_eq!(Told::of(client.family, client.index, &told), Told::Deleted(4, 2));
        let late = bed.far.all();
        assert!(late.is_empty(), "{late:?}");
        assert_eq!(client.peer(3).timers, (0, 0));
        // Beyond the end of the first one's time, had it not been set anew just before.
        client.timers(1, 0, 2).done();
        client.timers(2, 0, 1).done();
        client.timers(1, 0, 33).done();
        let told = client.notification();
        assert_eq!(Told::of(client.family, client.index, &told), Told::Deleted(2, 2));
        assert_eq!(client.peer(1).timers, (0, 33));
        match client.family {
            // Both or neither.
            Family::Ovpn => {
                let members = [u32_attr(1, 1), u32_attr(14, 5)];
                let request = Family::Ovpn.command(client.index, 2, 2, &members);
                client.ask(&request, &[]).refused(EINVAL);
            }
            // They act if both are there.
            Family::DcoV2 => {
                let members = [u32_attr(1, 1), u32_attr(3, 5)];
                let request = Family::DcoV2.command(client.index, 2, 3, &members);
                client.ask(&request, &[]).done();
            }
        }
        assert_eq!(client.peer(1).timers, (0, 33));
        drop(keys);
    });
}

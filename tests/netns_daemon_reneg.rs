//! Renegotiations under load, begun by the server and by the client: not a packet is lost that a key covers, and the counts go
//! on.

#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/pair.rs"]
mod pair;

use daemon::{Daemon, Flow, Net, Path, Plan, Transfer, client, port, server, server_address};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use gateway::Wire;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a daemon says of a renegotiation that it begins.
const BEGINS: &str = "TLS: soft reset";
/// What a daemon says of each handshake that succeeded, the first one included.
const DONE: &str = "Control Channel: TLS";
/// The `reneg-sec` of the server, and of client 1, which is sooner and so begins its renegotiations itself.
const RENEG: (u64, u64) = (10, 7);
/// Payload bytes of a datagram, and how many of them go each way in a second.
const DATAGRAM: (u64, u64) = (1200, 100);

/// A peer that has got the last packet of a handshake may seal with the new key at once; the daemon gives that key to the
/// gateway when it has read the acknowledgement of this packet, a moment later, and the oldest key goes then. A server with an
/// offload changes from that oldest key only a moment before. What comes in between is covered by no key and dropped, as the
/// kernel's driver does: at this rate not more than a record each time.
const UNCOVERED: &str = "no_key";

/// Client 0 has its own data path, client 1 has a gateway as the server does; UDP both ways through each of them.
fn renegotiates(name: &str, seconds: u64) {
    let plan = Plan {
        clients: &[Path::Own, Path::Offload],
        ..Plan::default()
    };
    Net::test(name, &plan, |net| {
        let reneg = format!("{0} {0}", RENEG.0);
        let mut here = server(&net.server, 0).set("reneg-sec", &reneg).start();
        here.connected();
        let reneg = ["0".to_owned(), RENEG.1.to_string()];
        let mut there = [0, 1].map(|i| client(&net.clients[i], 0).set("reneg-sec", &reneg[i]).start());
        for (daemon, machine) in there.iter_mut().zip(&net.clients) {
            daemon.connected();
            machine.wait_ping(server_address(0, false));
        }
        let (transfers, uncovered, seen) = carry_and_watch(net, seconds);
        let handshakes: usize = there.iter().map(|daemon| daemon.said(DONE).len() - 1).sum();
        println!("{handshakes} handshakes, {uncovered} records that no key covered");
        // A control packet that is lost, as on a loaded machine, is sent again after two seconds: the two ends change keys so far
        // apart then. More than one such case here would be no accident.
        let once = 2 * DATAGRAM.1 + DATAGRAM.1 / 2;
        assert!(
            uncovered <= 2 * handshakes as u64 + once,
            "{uncovered} records without a key, {handshakes} handshakes"
        );
        let begun = [&here.said(BEGINS), &there[0].said(BEGINS), &there[1].said(BEGINS)].map(Vec::len);
        // The last one may be under way.
        let [by_server, by_client] = [RENEG.0, RENEG.1].map(|period| (seconds / (period + 1)) as usize);
        assert!(
            begun[0] >= by_server && begun[1] == 0 && begun[2] >= by_client,
            "{begun:?}"
        );
        for (i, rounds) in [by_server, by_client].into_iter().enumerate() {
            assert!(
                there[i].said(DONE).len() > rounds,
                "client {i}: {:?}",
                there[i].said(DONE)
            );
            // The first key is 0; after 7 comes 1. A server with an offload seals with a new key when the next one comes.
            for (way, seen, ids) in [("to", &seen[i][0], rounds), ("from", &seen[i][1], rounds + 1)] {
                let ids: BTreeSet<u8> = (0..8).take(ids).collect();
                assert!(
                    ids.is_subset(seen),
                    "keys {way} client {i}: {seen:?}, not {ids:?}"
                );
            }
        }
        counts_went_on(&here, &transfers);
    });
}

/// Carries UDP both ways between the server and each of the clients. The key ids of records to and from each client.
fn carry_and_watch(net: &Net, seconds: u64) -> (Vec<Transfer>, u64, [[BTreeSet<u8>; 2]; 2]) {
    let (rate, length) = ((DATAGRAM.0 * DATAGRAM.1 * 8).to_string(), DATAGRAM.0.to_string());
    let time = seconds.to_string();
    let there = ["-u", "-b", &rate, "-l", &length, "-t", &time];
    let back = [&there[..], &["-R"]].concat();
    let flow = |from, arguments| Flow {
        from,
        to: &net.server,
        address: server_address(0, false),
        arguments,
    };
    let (namespace, port) = net.server_port();
    let mut wire = namespace.enter(|| Wire::of(port));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen: [[BTreeSet<u8>; 2]; 2] = Default::default();
            while !ended.load(Ordering::Relaxed) {
                while let Some((from_server, client, key_id)) = wire.next().as_deref().and_then(record) {
                    seen[client][usize::from(!from_server)].insert(key_id);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            seen
        });
        let flows: Vec<_> = net
            .clients
            .iter()
            .flat_map(|from| [flow(from, &there), flow(from, &back)])
            .collect();
        let least = seconds * DATAGRAM.0 * DATAGRAM.1 * 9 / 10;
        // Also when it fails: the scope waits for the watcher.
        let transfers = catch_unwind(AssertUnwindSafe(|| net.lossless_but(&flows, least, &[UNCOVERED])));
        ended.store(true, Ordering::Relaxed);
        let (transfers, uncovered) = transfers.unwrap_or_else(|panic| resume_unwind(panic));
        (transfers, uncovered, watcher.join().expect("it only reads"))
    })
}

/// Whether a frame is a record: if it is from the server, of which client, and its key id.
fn record(frame: &[u8]) -> Option<(bool, usize, u8)> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Udp(udp))) = (packet.net, packet.transport) else {
        return None;
    };
    let first = *udp.payload().first()?;
    let (source, destination) = (ip.header().source(), ip.header().destination());
    let from_server = udp.source_port() == port(0);
    let client = if from_server { destination } else { source }[3].checked_sub(10)?;
    (first >> 3 == 9 && client < 2).then_some((from_server, client.into(), first & 7))
}

/// The server's counts of both clients are at least what was carried.
fn counts_went_on(here: &Daemon, transfers: &[Transfer]) {
    let status = here.status();
    for (i, both_ways) in transfers.chunks(2).enumerate() {
        let name = format!("client{i}");
        let row = status.client(&name).unwrap_or_else(|| panic!("{}", status.text));
        assert!(
            row.received > both_ways[0].received && row.sent > both_ways[1].received,
            "{row:?}: {both_ways:?}"
        );
    }
}

#[test]
fn renegotiations_lose_nothing() {
    renegotiates("renegotiations_lose_nothing", 27);
}

#[test]
#[ignore = "two minutes"]
fn all_key_ids_come_by() {
    renegotiates("all_key_ids_come_by", 120);
}

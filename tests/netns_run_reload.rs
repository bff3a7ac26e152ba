//! SIGHUP: what changes is in force, and who is not concerned notices nothing.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/life.rs"]
mod life;

use gateway::{in_namespace, wait_for};
use life::{Bed, Far, Opened, PORTS, Peer, Settings, StaticKey, vpn};
use nf_path::twin::craft::{inner_v4, number};
use nf_wire::keepalive::PING;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Numbered packets of a peer both ways, until told to stop.
struct Flow {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u32, Vec<u32>)>,
}

impl Flow {
    fn start(socket: UdpSocket, peer: Peer) -> Flow {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut far, mut n, mut received) = (Far::new(), 0, Vec::new());
            let mut take = || {
                let mut payload = [0; 2000];
                while let Ok(len) = socket.recv(&mut payload) {
                    assert_eq!(len, 600 - 28);
                    received.push(u32::from_be_bytes(payload[..4].try_into().expect("four bytes")));
                }
            };
            while !told.load(Ordering::Relaxed) {
                life::send_numbered(&socket, peer.id, n..n + 1);
                far.send(&peer, &inner_v4(vpn(peer.id), life::OWN, 600, n));
                n += 1;
                take();
                std::thread::sleep(Duration::from_micros(500));
            }
            std::thread::sleep(Duration::from_millis(300));
            take();
            (n, received)
        });
        Flow { stop, thread }
    }

    /// How many were sent each way, and which came in.
    fn stop(self) -> (u32, Vec<u32>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic there")
    }
}

/// A bed whose records are collected while something else goes on.
struct Watched {
    bed: Bed,
    /// Every peer with every key that it ever had.
    known: Vec<Peer>,
    seen: Vec<Opened>,
    socket: UdpSocket,
}

impl Watched {
    fn collect(&mut self) {
        while let Some(record) = self.bed.far.next(&self.known) {
            self.seen.push(record);
        }
    }

    fn reload(&mut self) {
        self.known.extend(self.bed.settings.peers.iter().cloned());
        let said = self.bed.reload();
        assert!(said.contains("peers added"), "{said}");
    }

    /// Sends to a VPN address until a record that `wanted` takes leaves.
    fn expect(&mut self, to: Ipv4Addr, what: &str, wanted: impl Fn(&Opened) -> bool) -> Opened {
        let (from, until) = (self.seen.len(), Instant::now() + gateway::PATIENCE);
        loop {
            self.socket.send_to(b"hello", (to, 9)).expect("a route");
            std::thread::sleep(Duration::from_millis(10));
            self.collect();
            if let Some(found) = self.seen[from..].iter().find(|r| wanted(r)) {
                return found.clone();
            }
            assert!(Instant::now() < until, "{what}: {}", self.bed.gateway.stderr());
        }
    }

    fn drops(&self) -> BTreeMap<String, u64> {
        let drops = self.bed.gateway.telemetry("/ovpn/drops");
        serde_json::from_value(drops).expect("numbers")
    }

    /// Sends an inner packet of peer 1 and waits until this counter of drops has moved; None: until it is delivered.
    fn send_in(&mut self, peer: &Peer, source: Ipv4Addr, lost_as: Option<&str>) {
        let before = self.drops();
        let to = self.socket.local_addr().expect("bound").port();
        let mut inner = inner_v4(source, life::OWN, 100, 7);
        // Another port than the flow's, so that its checksum is left out.
        inner[22..24].copy_from_slice(&to.to_be_bytes());
        inner[26..28].fill(0);
        self.bed.far.send(peer, &inner);
        match lost_as {
            Some(reason) => wait_for(reason, || self.drops()[reason] > before[reason]),
            None => wait_for("a packet to be delivered", || {
                self.socket.recv(&mut [0; 2000]).is_ok()
            }),
        }
    }
}

fn neighbours() -> String {
    gateway::run(std::process::Command::new("ip").args(["neighbour", "show", "dev", "ovpn0"]))
}

#[test]
fn peers_come_change_and_go_while_another_loses_nothing() {
    in_namespace("peers_come_change_and_go_while_another_loses_nothing", || {
        let mut bed = Bed::start(Settings::with_peers(1));
        let seen = bed.connected(0);
        let flow = Flow::start(bed.socket(), bed.settings.peers[0].clone());
        let socket = UdpSocket::bind((life::OWN, 0)).expect("ovpn0 has the address");
        socket.set_nonblocking(true).expect("a socket");
        let known = bed.settings.peers.clone();
        let mut watched = Watched {
            bed,
            known,
            seen,
            socket,
        };
        all_changes(&mut watched);
        let (sent, received) = flow.stop();
        watched.collect();
        let Watched { bed, seen, .. } = watched;
        let of_flow: Vec<&Opened> = seen.iter().filter(|r| r.peer == 0).collect();
        assert!(
            of_flow.iter().map(|r| r.id).eq(1..=of_flow.len() as u32),
            "packet ids go on, and none is left out"
        );
        let numbered = of_flow.iter().filter(|r| r.inner.len() == 1000);
        let numbers: Vec<u32> = numbered.map(|r| number(&r.inner).expect("long enough")).collect();
        assert!(sent > 500, "{sent} packets are no load");
        assert!(
            numbers.iter().copied().eq(0..sent),
            "out: {} of {sent}",
            numbers.len()
        );
        assert!(
            received.iter().copied().eq(0..sent),
            "in: {} of {sent}",
            received.len()
        );
        bed.end();
    });
}

fn all_changes(w: &mut Watched) {
    // Comes.
    w.bed.settings.peers.push(Peer::new(1));
    w.reload();
    w.expect(vpn(1), "a record to the new peer", |r| r.peer == 1 && r.id == 1);
    let peer = w.bed.settings.peers[1].clone();
    w.send_in(&peer, vpn(1), None);
    w.send_in(&peer, Ipv4Addr::new(10, 77, 0, 9), Some("bad_source"));
    assert!(neighbours().contains(&format!("{} ", vpn(1))));
    // A network, another address, a keepalive.
    w.bed.settings.peers[1].more = "networks = [\"10.77.0.0/24\"]".into();
    w.reload();
    w.send_in(&peer, Ipv4Addr::new(10, 77, 0, 9), None);
    w.bed.settings.peers[1].addresses = vec![vpn(5).to_string()];
    w.reload();
    w.expect(vpn(5), "a record for the new address", |r| r.peer == 1);
    w.send_in(&peer, vpn(5), None);
    w.send_in(&peer, vpn(1), Some("bad_source"));
    assert!(
        !neighbours().contains(&format!("{} ", vpn(1))),
        "{}",
        neighbours()
    );
    w.bed.settings.peers[1].more = "keepalive = [1, 0]".into();
    w.reload();
    w.expect(vpn(0), "a keepalive", |r| r.peer == 1 && r.inner == PING);
    w.send_in(&peer, Ipv4Addr::new(10, 77, 0, 9), Some("bad_source"));
    // Another outer address, other keys.
    w.bed.settings.peers[1].remote.set_port(9999);
    w.reload();
    let moved = w.bed.settings.peers[1].remote;
    w.expect(vpn(5), "a record to the new remote", |r| {
        r.peer == 1 && r.to == moved
    });
    w.bed.settings.peers[1].keys = vec![StaticKey::random(3)];
    w.reload();
    w.expect(vpn(5), "a record under the new key", |r| {
        r.peer == 1 && r.key == 3
    });
    let first = w.seen.iter().find(|r| r.key == 3).expect("just seen");
    assert_eq!(first.id, 1);
    w.send_in(&peer, vpn(5), Some("no_key"));
    // A secondary key for the peer that stays: its primary goes on.
    w.bed.settings.peers[0].keys.push(StaticKey::random(1));
    w.reload();
    // A listening address more, and one less.
    w.bed.settings.listen.push("192.0.2.1:1195".into());
    w.reload();
    w.bed.settings.listen.pop();
    w.reload();
    // Goes.
    let peer = w.bed.settings.peers.pop().expect("two peers");
    w.reload();
    w.send_in(&peer, vpn(5), Some("unknown_peer"));
    assert!(
        !neighbours().contains(&format!("{} ", vpn(5))),
        "{}",
        neighbours()
    );
    // Nothing.
    w.reload();
    let last = w.bed.said("SIGHUP:").pop().expect("some");
    assert!(last.contains("0 peers added, 0 changed, 0 removed"), "{last}");
}

#[test]
fn a_listening_port_changes() {
    in_namespace("a_listening_port_changes", || {
        let mut bed = Bed::start(Settings::with_peers(1));
        bed.connected(0);
        let peer = bed.settings.peers[0].clone();
        let socket = bed.socket();
        let mut numbers = 0..;
        let mut arrives = |bed: &mut Bed, port: u16| {
            let record = bed.far.seal(
                &peer,
                0,
                &inner_v4(vpn(0), life::OWN, 100, numbers.next().expect("endless")),
            );
            bed.far
                .send_from(peer.remote, ([192, 0, 2, 1], port).into(), &record);
            std::thread::sleep(Duration::from_millis(100));
            socket.recv(&mut [0; 2000]).is_ok()
        };
        assert!(arrives(&mut bed, 1194) && !arrives(&mut bed, 1195));
        bed.settings.listen = vec!["192.0.2.1:1195".into()];
        bed.reload();
        let to_host = bed.gateway.counter("to_host");
        assert!(!arrives(&mut bed, 1194), "nobody listens there any more");
        assert!(bed.gateway.counter("to_host") > to_host);
        assert!(arrives(&mut bed, 1195));
        // The peer is answered from where it was heard.
        socket.send_to(b"hello", (vpn(0), PORTS.0)).expect("a route");
        let answer = &bed.far.take(std::slice::from_ref(&peer), 1)[0];
        assert_eq!(answer.from, ([192, 0, 2, 1], 1195).into());
        bed.end();
    });
}

#[test]
fn a_file_that_is_wrong_changes_nothing() {
    in_namespace("a_file_that_is_wrong_changes_nothing", || {
        let mut bed = Bed::start(Settings::with_peers(2));
        bed.connected(0);
        let name = format!("name = \"{}\"\n", bed.gateway.name);
        let (config, keys) = (bed.settings.config(), bed.settings.keys());
        let good = format!("{name}{config}");
        let more = "[[tunnel.peer]]\nid = 9\naddresses = [\"10.8.9.9\"]\n";
        let another = "[[tunnel]]\ninterface = \"t1\"\nlisten = [\"192.0.2.1:1\"]\n";
        let wrong: &[(String, &str, &str)] = &[
            (format!("{good}[nic"), &keys, "gw.toml:"),
            (format!("{good}{more}nosuchkey = 1"), &keys, "nosuchkey"),
            (
                format!("{good}{more}").replace("10.8.9.9", "10.8.0.10"),
                &keys,
                "10.8.0.10",
            ),
            (
                format!("{good}{more}").replace("id = 9", "id = 1"),
                &keys,
                "tunnel[0].peer",
            ),
            (format!("{good}{more}"), "garbage", "keys.json"),
            (format!("{good}{another}"), &keys, "number of tunnels"),
            (
                good.replace("insecure_static_keys = true", ""),
                &keys,
                "insecure_static_keys",
            ),
        ];
        for (config, keys, says) in wrong {
            let errors = bed.said("ERROR").len();
            let line = bed.reload_with(config, keys);
            assert!(
                line.contains("nothing was changed") && line.contains(says),
                "{says}: {line}"
            );
            assert_eq!(bed.said("ERROR").len(), errors + 1, "one line");
        }
        let peers = bed.gateway.telemetry("/ovpn/peers");
        assert_eq!(peers["peers"], 2);
        // A key that another peer has, which would be two counters of packet ids for one key.
        let mut moved = bed.settings.clone();
        moved.peers[0].keys.clone_from(&bed.settings.peers[1].keys);
        moved.peers.pop();
        let line = bed.reload_with(&format!("{name}{}", moved.config()), &moved.keys());
        assert!(
            line.contains("peer 1 of ovpn0") && line.contains("nothing was changed"),
            "{line}"
        );
        bed.connected(1);
        let said = bed.reload();
        assert!(said.contains("0 peers added, 0 changed, 0 removed"), "{said}");
        bed.end();
    });
}

#[test]
fn what_needs_a_restart_is_said() {
    in_namespace("what_needs_a_restart_is_said", || {
        let mut bed = Bed::start(Settings::with_peers(1));
        for (nic, general, tunnel, key) in [
            ("mtu = 1400", "", "", "nic"),
            ("", "burst = 32", "", "burst"),
            ("", "", "mtu = 1300", "tunnel[0]"),
        ] {
            (bed.settings.nic, bed.settings.general) = (nic.into(), general.into());
            bed.settings.tunnel = tunnel.into();
            let before = bed.said("needs a restart").len();
            bed.reload();
            let said = bed.said("needs a restart").split_off(before);
            let names = |line: &String| line.contains("WARN") && line.contains(&format!(" {key}"));
            assert!(said.iter().any(names), "{key}: {said:?}");
        }
        bed.connected(0);
        bed.end();
    });
}

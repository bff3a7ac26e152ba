//! Datagrams that no peer sent, at the address of a server with clients and load: the daemon gets none of their data packets,
//! its sessions go on, and each that is dropped is counted for its reason.

#[path = "support/attack.rs"]
mod attack;
#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/pair.rs"]
mod pair;
#[path = "support/past.rs"]
mod past;

use attack::{
    Attacker, Counts, KINDS, counts, datagram, exit_message, fold, grown, is_record_of, known, taken,
};
use daemon::{Daemon, Flow, INITIALISED, Net, Path, Plan, client, port, server, server_address};
use gateway::{Gateway, Wire, run, wait_for};
use nf_wire::record::HeaderWord;
use past::{NO_SESSION, past_the_gateway, socket_drops};
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Arguments of pings, all at once: while answers come, `ping` waits for the last one no longer than for the interval.
const PINGS: [&str; 5] = ["-q", "-c20", "-l20", "-i5", "-s1000"];
/// What a server says when a client is gone, for whatever reason.
const GONE: &str = "client-instance";

#[test]
fn a_spoofed_exit_ends_no_session() {
    let plan = Plan {
        clients: &[Path::Offload],
        ..Plan::default()
    };
    Net::test("a_spoofed_exit_ends_no_session", &plan, |net| {
        if net.server.path == Path::Own {
            return;
        }
        let mut here = server(&net.server, 0).start();
        here.connected();
        let mut there = client(&net.clients[0], 0).start();
        there.connected();
        net.clients[0].wait_ping(server_address(0, false));
        let (client, word) = known(&net.server, &there);
        let own = SocketAddr::new([192, 0, 2, 1].into(), port(0));
        // By the NIC: the gateway's.
        let (namespace, interface) = net.server_port();
        let mut wire = namespace.enter(|| Wire::of(interface));
        let before = counts(&net.server.gateway());
        let frame = datagram(&net.clients[0], client, &net.server);
        wire.send(&frame.clone().payload(&exit_message(word)).build());
        // A few that are ours as well, and a control packet behind them, which is the daemon's.
        for key_id in 1..8 {
            let other = HeaderWord::data_v2(key_id, word.peer_id());
            wire.send(&frame.clone().payload(&exit_message(other)).build());
        }
        let said = here.said(NO_SESSION).len();
        wire.send(&frame.payload(&[&[4 << 3][..], &[0x5a; 60]].concat()).build());
        here.wait_said(NO_SESSION, said + 1);
        wait_for("eight drops", || {
            let grown = grown(&before, &counts(&net.server.gateway()));
            grown.get("bad_tag") == Some(&1) && grown.get("no_key") == Some(&7)
        });
        assert_eq!(socket_drops(&net.server, port(0)), 0, "some came to the socket");
        past_the_gateway(&here, word, client, own);
        // The client's own socket, too.
        past_the_gateway(&there, word, own, client);
        stays_up(net, &here, &[&there]);
        // A new socket has the filter as well.
        here.signal("USR1");
        there.connected_times(2);
        net.clients[0].wait_ping(server_address(0, false));
        let (client, word) = known(&net.server, &there);
        let gone = here.said(GONE).len();
        past_the_gateway(&here, word, client, own);
        net.clients[0].ping(server_address(0, false), &PINGS).assert_all();
        assert_eq!(here.said(GONE).len(), gone);
        assert_eq!(there.said(INITIALISED).len(), 2);
    });
}

/// Each session is still the first one, and its pings are answered.
fn stays_up(net: &Net, here: &Daemon, there: &[&Daemon]) {
    here.assert_silent_about(GONE);
    for client in there {
        assert_eq!(client.said(INITIALISED).len(), 1, "it was interrupted");
        for v6 in [false, true] {
            client.machine.ping(server_address(0, v6), &PINGS).assert_all();
            net.server.ping(client.vpn(v6), &PINGS).assert_all();
        }
    }
    here.assert_path();
}

/// Frames of one kind after the other.
const PORTION: usize = 800;
/// More kB than this would be a leak: it is what buffers take that are used for the first time meanwhile.
const SLACK: u64 = 8192;

/// What of a process is in memory, in kB.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let number = line.and_then(|l| l.split_whitespace().next());
    number.expect("it has memory").parse().expect("a number")
}

/// Buffers that are free, by pool.
fn free(gateway: &Gateway) -> String {
    let pools = gateway.telemetry("/ovpn/pools");
    format!("{}: {}", pools["name"], pools["free"])
}

/// What was sent, by where it is to be counted.
type Sent = BTreeMap<&'static str, u64>;

/// Sends so many frames, and goes on only when the NIC had time for them.
fn attack(net: &Net, attacker: &Attacker, wire: &mut Wire, frames: usize, before: &Counts) -> Sent {
    let (mut sent, mut all) = (Sent::new(), 0);
    let (mut lost, start) = (0, Instant::now());
    for n in 0.. {
        if all >= frames as u64 {
            break;
        }
        let (kind, place) = KINDS[n % KINDS.len()];
        for frame in attacker.frames(kind, n / KINDS.len()) {
            wire.send(&frame);
            all += 1;
            *sent.entry(place).or_default() += 1;
        }
        if n % PORTION == PORTION - 1 {
            // Those that the NIC's ring had no room for never come.
            let mut last = (Instant::now(), 0);
            wait_for("the frames to be taken", || {
                let now = taken(&grown(before, &counts(&net.server.gateway())));
                if now > last.1 {
                    last = (Instant::now(), now);
                }
                let quiet = last.0.elapsed() > Duration::from_secs(2);
                let done = now + lost >= all;
                if quiet && !done {
                    lost = all - now;
                }
                done || quiet
            });
        }
    }
    println!("{all} frames in {:.1?}", start.elapsed());
    sent
}

/// Traffic of both clients, both ways, until the attack is over.
fn carry_until(net: &Net, over: &AtomicBool) -> u32 {
    const UDP: [&str; 7] = ["-u", "-b", "2M", "-l", "1200", "-t", "2"];
    let back = [&UDP[..], &["-R"]].concat();
    let mut rounds = 0;
    while rounds == 0 || !over.load(Ordering::Relaxed) {
        let flow = |from, arguments| Flow {
            from,
            to: &net.server,
            address: server_address(0, false),
            arguments,
        };
        let [first, second] = [0, 1].map(|i| &net.clients[i]);
        let flows = [flow(first, &UDP[..]), flow(second, &back)];
        net.lossless_but(&flows, 200_000, &["nic0 ring full"]);
        rounds += 1;
    }
    rounds
}

/// Records of the first client: pings of all sizes.
fn overheard(net: &Net, client: &Daemon, wire: &mut Wire) -> Vec<Vec<u8>> {
    let (source, _) = known(&net.server, client);
    let mut seen = Vec::new();
    for size in ["0", "56", "300", "1000", "1372"] {
        let arguments = ["-q", "-c20", "-l20", "-i5", "-s", size];
        net.clients[0]
            .ping(server_address(0, false), &arguments)
            .assert_all();
        while let Some(frame) = wire.next() {
            if is_record_of(&frame, source) {
                seen.push(frame);
            }
        }
    }
    assert!(seen.len() >= 100, "{} records", seen.len());
    seen
}

/// Under this many frames the sessions stay up, and each is counted.
fn withstands(name: &str, frames: usize) {
    let plan = Plan {
        clients: &[Path::Own, Path::Own],
        ..Plan::default()
    };
    Net::test(name, &plan, |net| {
        if net.server.path == Path::Own {
            return;
        }
        // Without it OpenVPN lets anybody who sends from a client's address begin a session there, whoever has the data channel.
        let folder = tempfile::tempdir().expect("a temporary folder");
        let secret = folder.path().join("secret").display().to_string();
        run(Command::new("openvpn").args(["--genkey", "tls-crypt", &secret]));
        let options = server(&net.server, 0).proto("udp6").set("tls-crypt", &secret);
        let mut here = options.start();
        here.connected();
        let options = [
            client(&net.clients[0], 0),
            client(&net.clients[1], 0).over_ipv6(0),
        ];
        let mut there = options.map(|options| options.set("tls-crypt", &secret).start());
        there.iter_mut().for_each(Daemon::connected);
        for machine in &net.clients {
            machine.wait_ping(server_address(0, false));
        }
        let (namespace, interface) = net.server_port();
        let mut wire = namespace.enter(|| Wire::of(interface));
        run(namespace
            .command("ip")
            .args(["link", "set", interface, "txqueuelen", "20000"]));
        let seen = overheard(net, &there[0], &mut wire);
        let attacker = Attacker::new(&net.server, [&there[0], &there[1]], seen);
        // A first one, so that all memory is in use that ever will be.
        let warm = counts(&net.server.gateway());
        attack(net, &attacker, &mut wire, frames.min(4 * PORTION), &warm);
        let empty = settled(net);
        let memory = [net.server.gateway().pid(), here.pid()].map(resident);
        let (before, ring) = (counts(&net.server.gateway()), ring_full(net));
        let over = AtomicBool::new(false);
        let sent = std::thread::scope(|scope| {
            let load = scope.spawn(|| carry_until(net, &over));
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                attack(net, &attacker, &mut wire, frames, &before)
            }));
            over.store(true, Ordering::Relaxed);
            let rounds = load
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            println!("{rounds} rounds of traffic meanwhile");
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        wait_for("all buffers to be free", || free(&net.server.gateway()) == empty);
        assert_counted(net, &before, &sent, ring_full(net) - ring);
        stays_up(net, &here, &[&there[0], &there[1]]);
        let now = [net.server.gateway().pid(), here.pid()].map(resident);
        let more = [0, 1].map(|i| now[i].saturating_sub(memory[i]));
        println!("{more:?} kB more than {memory:?} kB, in the gateway and in the daemon");
        assert!(more.iter().all(|kb| *kb <= SLACK), "{more:?} kB more");
    });
}

/// Free buffers once no fragment waits for others, and nothing else is under way.
fn settled(net: &Net) -> String {
    let mut last = String::new();
    wait_for("all buffers to be free", || {
        let now = free(&net.server.gateway());
        let counts = counts(&net.server.gateway());
        let dropped = counts["fragment_timeout"] + counts["fragment_refused"];
        let waiting = counts["fragments"] - 2 * counts["reassembled"] - dropped;
        waiting == 0 && std::mem::replace(&mut last, now.clone()) == now
    });
    last
}

fn ring_full(net: &Net) -> u64 {
    net.server
        .losses()
        .get("nic0 ring full")
        .copied()
        .unwrap_or_default()
}

/// Every frame that the NIC port gave is under its reason. What the port's ring had no room for is of unknown kind.
fn assert_counted(net: &Net, before: &Counts, sent: &Sent, lost: u64) {
    let mut now = Counts::new();
    let total = |counts: &Sent| -> u64 {
        counts
            .iter()
            .filter(|(p, _)| **p != "to_daemon")
            .map(|(_, n)| n)
            .sum()
    };
    let whole = |now: &Counts| {
        // Two fragments that were put together were one drop, as what they are a record of. A table without room refuses both.
        let mut folded = fold(now);
        let reassembled = now.get("reassembled").copied().unwrap_or_default();
        *folded.entry("fragment_").or_default() += 2 * reassembled;
        *folded.entry("bad_tag").or_default() -= reassembled;
        folded
    };
    wait_for("all of them to be counted", || {
        now = grown(before, &counts(&net.server.gateway()));
        total(&whole(&now)) + lost >= total(sent)
    });
    let counted = whole(&now);
    println!(
        "{} frames, {lost} lost in the ring: sent {sent:?}, counted {now:?}",
        sent.values().sum::<u64>()
    );
    for (place, n) in sent {
        let counted = counted.get(place).copied().unwrap_or_default();
        assert!(counted + lost >= *n, "{place}: {counted} of {n}");
        // What is the daemon's may be more: it had its own to say.
        assert!(
            counted <= *n || *place == "to_daemon",
            "{place}: {counted} of {n}"
        );
    }
    if lost == 0 {
        assert_eq!(total(&counted), total(sent), "{now:?}");
    }
    assert!(now.contains_key("reassembled"), "{now:?}");
    // The sessions' own: router solicitations of the clients' kernels come from link-local addresses.
    let not_ours = ["bad_source", "multicast", "fragments", "reassembled"];
    let known =
        |name: &str| not_ours.contains(&name) || KINDS.iter().any(|(_, place)| name.starts_with(place));
    let others: Vec<_> = now.keys().filter(|name| !known(name)).collect();
    assert!(others.is_empty(), "{others:?} as well: {now:?}");
}

#[test]
fn attacks_end_no_session() {
    withstands("attacks_end_no_session", 20_000);
}

#[test]
#[ignore = "10^6 datagrams: minutes"]
fn a_million_of_them_end_no_session() {
    withstands("a_million_of_them_end_no_session", 1_000_000);
}

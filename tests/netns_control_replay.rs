//! Exchanges of two stock daemons, OpenVPN 2.6.14 and 2.7.6, sent again message by message as they were recorded: every answer is
//! what those daemons took, and the data path does what they asked for.

#[path = "support/control.rs"]
mod control;
#[path = "support/gateway.rs"]
mod gateway;

use control::Family;
use control::golden;
use control::replay::{Plan, Replay, family};
use gateway::in_namespace;
use std::collections::BTreeSet;

const DAEMONS: [&str; 2] = ["2.6.14", "2.7.6"];
/// One socket for IPv4, and for both versions.
const V4: &[&str] = &["0.0.0.0:1199"];
const BOTH: &[&str] = &["[::]:1199"];

/// NEW_PEER, SET_PEER and NEW_KEY as the daemon orders them, and packets both ways. A 2.6 client has its key before its timers.
fn connect(replay: &mut Replay, plan: (&str, bool), new: &str, set: &str, key: &str, peer: Option<u32>) {
    replay.say(new, peer);
    if plan == ("2.6.14", true) {
        replay.say(key, peer);
        replay.say(set, peer);
    } else {
        replay.say(set, peer);
        replay.say(key, peer);
    }
    replay.carry(peer.unwrap_or(0));
}

const NEW: &str = "NEW_PEER udp4, vpn4+vpn6";
const SET: &str = "SET_PEER keepalive set/set";
const KEY: &str = "NEW_KEY AES-256-GCM, slot primary, key id 0";

fn start(daemon: &'static str, case: &'static str, listen: &'static [&'static str]) -> Replay {
    Replay::start(Plan {
        daemon,
        case,
        listen,
        client: false,
    })
}

/// Two clients: a renegotiation, a float, an expiry.
fn s1(daemon: &'static str) -> BTreeSet<String> {
    let mut replay = start(daemon, "s1", V4);
    let server = (daemon, false);
    connect(&mut replay, server, NEW, SET, KEY, Some(0));
    connect(&mut replay, server, NEW, SET, KEY, Some(1));
    replay.compare();
    replay.say("NEW_KEY AES-256-GCM, slot secondary", Some(1));
    replay.carry(1);
    replay.say("SWAP_KEYS", Some(1));
    replay.carry(1);
    replay.say("DEL_KEY slot secondary", Some(1));
    replay.carry(1);
    if family(daemon) == Family::Ovpn {
        replay.float(1, "notification FLOAT udp4");
    }
    replay.carry(0);
    replay.compare();
    replay.expire(1, "notification DEL_PEER reason EXPIRED");
    replay.bury(1);
    replay.carry(0);
    replay.compare();
    replay.end()
}

/// One socket for both versions: clients over IPv6, IPv4, and a link-local address.
fn s2(daemon: &'static str) -> BTreeSet<String> {
    let mut replay = start(daemon, "s2", BOTH);
    let server = (daemon, false);
    let key = "NEW_KEY AES-128-GCM";
    connect(&mut replay, server, "NEW_PEER udp6, vpn4+vpn6", SET, key, Some(0));
    connect(&mut replay, server, NEW, SET, key, Some(1));
    // As recorded this one has an id and addresses of its own.
    replay.say("NEW_PEER udp6 link-local", None);
    replay.say(SET, Some(2));
    replay.say(key, Some(2));
    replay.carry(2);
    replay.compare();
    if family(daemon) == Family::Ovpn {
        replay.float(0, "notification FLOAT udp6");
    }
    replay.say("DEL_PEER", Some(2));
    replay.carry(0);
    replay.carry(1);
    replay.compare();
    replay.end()
}

/// `--multihome`: clients are answered from the address that they use.
fn s3_s4(daemon: &'static str) -> BTreeSet<String> {
    let mut replay = start(daemon, "s3", V4);
    connect(
        &mut replay,
        (daemon, false),
        "NEW_PEER udp4, vpn4, local4",
        SET,
        "NEW_KEY ChaCha20",
        None,
    );
    replay.compare();
    let mut sent = replay.end();
    gateway::ip(&["link", "del", control::NIC]);
    let mut replay = start(daemon, "s4", BOTH);
    connect(
        &mut replay,
        (daemon, false),
        "NEW_PEER udp6, vpn6, local6",
        SET,
        "NEW_KEY AES-192-GCM",
        None,
    );
    replay.compare();
    sent.extend(replay.end());
    sent
}

/// All keys wiped, and a new one; statistics of one peer; refusal of a client over TCP.
fn s6_s7_s8(daemon: &'static str) -> BTreeSet<String> {
    let mut replay = start(daemon, "s6", V4);
    replay.refused("NEW_PEER tcp", None, ("s7t", "error -95, reply to NEW_PEER"));
    connect(
        &mut replay,
        (daemon, false),
        "NEW_PEER udp4, vpn4",
        SET,
        KEY,
        None,
    );
    replay.say("DEL_KEY slot primary", None);
    replay.say("DEL_KEY slot secondary", Some(0));
    replay.mute(0);
    replay.say("NEW_KEY AES-256-GCM, slot primary, key id 1-7", None);
    replay.carry(0);
    replay.compare();
    replay.link("s5enodev", "RTM_GETLINK");
    replay.end()
}

/// Timers of which one or both are off; over two sockets in 2.7.
fn s9_s10(daemon: &'static str) -> BTreeSet<String> {
    let two = &["192.168.99.1:1199", "[fd99::1]:1198"];
    let mut replay = start(daemon, "s10", two);
    let server = (daemon, false);
    let mut steps = vec!["SET_PEER keepalive set/0"];
    if family(daemon) == Family::Ovpn {
        steps.extend(["SET_PEER keepalive 0/0", "SET_PEER keepalive 0/set"]);
    }
    connect(&mut replay, server, "NEW_PEER udp4, vpn4", steps[0], KEY, Some(0));
    for step in steps {
        replay.say(step, Some(0));
        replay.compare();
    }
    let (new, peer) = match family(daemon) {
        Family::Ovpn => ("NEW_PEER udp6, vpn4", None),
        Family::DcoV2 => ("NEW_PEER udp6, vpn4+vpn6", Some(1)),
    };
    replay.say(new, peer);
    replay.say(SET, Some(1));
    replay.say(KEY, Some(1));
    replay.carry(1);
    replay.carry(0);
    replay.compare();
    replay.end()
}

/// A client: over IPv4, IPv6 and a link-local address, one after the other, as it would reconnect.
fn c1_c2_c3(daemon: &'static str) -> BTreeSet<String> {
    let listen = &["0.0.0.0:40000", "[::]:40001"];
    let plan = Plan {
        daemon,
        case: "c1",
        listen,
        client: true,
    };
    let mut replay = Replay::start(plan);
    let client = (daemon, true);
    let timers = if daemon == "2.6.14" {
        "SET_PEER keepalive 0/set"
    } else {
        SET
    };
    let peers = [
        ("NEW_PEER udp4, no vpn", KEY),
        ("NEW_PEER udp6, no vpn", "NEW_KEY ChaCha20"),
        ("NEW_PEER udp6 link-local, scope id, no vpn", KEY),
    ];
    for (new, key) in peers {
        connect(&mut replay, client, new, timers, key, Some(0));
        replay.compare();
        replay.say("NEW_KEY AES-256-GCM, slot secondary", Some(0));
        replay.say("SWAP_KEYS", Some(0));
        replay.carry(0);
        replay.say("DEL_KEY slot secondary", Some(0));
        replay.carry(0);
        replay.compare();
    }
    replay.say("DEL_PEER", Some(0));
    replay.refused("GET_PEER do", Some(0), ("c2", "error -2, reply to GET_PEER do"));
    let case = if daemon == "2.6.14" { "c1" } else { "c2" };
    replay.refused("DEL_PEER", Some(0), (case, "error -2, reply to DEL_PEER"));
    replay.end()
}

type Exchange = fn(&'static str) -> BTreeSet<String>;

/// Each of them for both daemons.
const EXCHANGES: [Exchange; 6] = [s1, s2, s3_s4, s6_s7_s8, s9_s10, c1_c2_c3];

/// What of a daemon's recording was not sent by any.
fn left(daemon: &'static str) {
    let mut sent = BTreeSet::new();
    for exchange in EXCHANGES {
        sent.extend(exchange(daemon));
        gateway::ip(&["link", "del", control::NIC]);
    }
    let lines = golden::lines();
    let left: Vec<_> = lines
        .iter()
        .filter(|l| l.daemon == daemon && l.dir != "to_daemon" && !sent.contains(&l.from))
        .map(|l| format!("{} {}", l.from, l.what))
        .collect();
    assert!(left.is_empty(), "not sent: {left:#?}");
    assert_eq!(DAEMONS.iter().filter(|d| **d == daemon).count(), 1);
}

#[test]
fn exchanges_of_2_6_14() {
    in_namespace("exchanges_of_2_6_14", || left(DAEMONS[0]));
}

#[test]
fn exchanges_of_2_7_6() {
    in_namespace("exchanges_of_2_7_6", || left(DAEMONS[1]));
}

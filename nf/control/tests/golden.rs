//! Every recorded message of two stock daemons: theirs are understood as they were meant, ours are what they take.

mod dco;

use std::collections::BTreeMap;

use dco::golden::{Line, lines};
use nf_control::Mode;
use nf_control::dco::{self as codec, Command, Family, LinkRequest, Message, NewPeer, Request, SetPeer};
use nf_state::{Cipher, Slot};
use ovpn_dco_protocol::{GENERIC, ROUTE};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};

#[path = "golden/answers.rs"]
mod answers;

/// Which lines there are, so that none is passed over.
#[test]
fn every_line_is_checked() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines() {
        match line.dir.as_str() {
            "to_plane" => understood(&line),
            "to_daemon" => answers::taken(&line),
            "to_kernel" => passed_on(&line),
            other => panic!("{}: direction {other}", line.name),
        }
        *seen.entry(line.dir).or_default() += 1;
    }
    let seen: Vec<(&str, usize)> = seen.iter().map(|(dir, n)| (dir.as_str(), *n)).collect();
    assert_eq!(seen, [("to_daemon", 67), ("to_kernel", 4), ("to_plane", 66)]);
}

fn passed_on(line: &Line) {
    let incoming = codec::decode(&line.hex, Some(ROUTE)).expect(&line.name);
    assert!(matches!(incoming.message, Message::Pass), "{}", line.name);
}

/// That a daemon's message is understood as `decoded` says, in every field.
fn understood(line: &Line) {
    let incoming = codec::decode(&line.hex, Some(line.protocol())).expect(&line.name);
    let header = incoming.header;
    assert_eq!(header.len as usize, line.hex.len(), "{}", line.name);
    assert_eq!(
        i64::from(header.kind),
        line.number("/nlmsg_type"),
        "{}",
        line.name
    );
    assert_eq!(
        i64::from(header.flags),
        line.number("/nlmsg_flags"),
        "{}",
        line.name
    );
    assert_eq!(i64::from(header.seq), line.number("/nlmsg_seq"), "{}", line.name);
    assert_eq!(i64::from(header.pid), line.number("/nlmsg_pid"), "{}", line.name);
    let mut expected = json!({"attrs": line.decoded["attrs"]});
    match line.protocol() {
        GENERIC => expected["cmd"] = line.decoded["genl"]["cmd"].clone(),
        _ => expected["index"] = line.decoded["ifinfomsg"]["ifi_index"].clone(),
    }
    assert_eq!(told(&incoming.message), expected, "{}", line.name);
    let interface = line.decoded["attrs"]["IFINDEX"].as_u64().unwrap_or(0);
    assert_eq!(u64::from(header.interface), interface, "{}", line.name);
}

/// What was understood, in the words of the recording.
fn told(message: &Message) -> Value {
    match message {
        Message::GetController => json!({"cmd": 3, "attrs": {"FAMILY_NAME": "nlctrl"}}),
        Message::GetFamily(family) => json!({"cmd": 3, "attrs": {"FAMILY_NAME": family.name()}}),
        Message::Link(LinkRequest::New { name, kind, mode }) => {
            let mode = match mode {
                Some(Mode::P2p) => 0,
                Some(Mode::Mp) => 1,
                None => 255,
            };
            let info = json!({"INFO_KIND": kind, "INFO_DATA": {"OVPN_MODE": mode}});
            json!({"index": 0, "attrs": {"IFNAME": name, "LINKINFO": info}})
        }
        Message::Link(LinkRequest::Delete { index, name: None }) => json!({"index": index, "attrs": {}}),
        Message::Link(LinkRequest::GetIndex(index)) => json!({"index": index, "attrs": {}}),
        Message::Peer(request) => command(request),
        other => panic!("{other:?}"),
    }
}

fn command(request: &Request) -> Value {
    let interface = request.interface;
    let ovpn = request.family == Family::Ovpn;
    let (of_dco_v2, of_ovpn, nest) = match &request.command {
        Command::NewPeer(new) if ovpn => ("", (1, "PEER"), new_ovpn(new)),
        Command::NewPeer(new) => ("NEW_PEER", (1, ""), new_dco_v2(new)),
        Command::SetPeer(set) => ("SET_PEER", (2, "PEER"), set_peer(set)),
        Command::GetPeer(id) => ("GET_PEER", (3, "PEER"), json!({ "ID": id })),
        Command::DumpPeers => ("", (3, ""), Value::Null),
        Command::DelPeer(id) => ("DEL_PEER", (4, "PEER"), json!({ "ID": id })),
        Command::NewKey(_) => ("NEW_KEY", (6, "KEYCONF"), new_key(request)),
        Command::SwapKeys(peer) => ("SWAP_KEYS", (8, "KEYCONF"), json!({ "PEER_ID": peer })),
        Command::DelKey { peer, slot } => {
            let name = if ovpn { "SLOT" } else { "KEY_SLOT" };
            (
                "DEL_KEY",
                (10, "KEYCONF"),
                json!({"PEER_ID": peer, name: number(*slot)}),
            )
        }
        Command::GetKey { .. } => panic!("not in the recording"),
    };
    let mut attrs = json!({ "IFINDEX": interface });
    if ovpn {
        let (command, name) = of_ovpn;
        if !nest.is_null() {
            attrs[name] = nest;
        }
        return json!({"cmd": command, "attrs": attrs});
    }
    let commands = [
        "NEW_PEER",
        "SET_PEER",
        "DEL_PEER",
        "NEW_KEY",
        "SWAP_KEYS",
        "DEL_KEY",
        "GET_PEER",
    ];
    let command = commands.iter().position(|c| *c == of_dco_v2).map_or(7, |i| i + 1);
    if !nest.is_null() {
        attrs[of_dco_v2] = nest;
        if let Some(id) = attrs[of_dco_v2]
            .as_object_mut()
            .and_then(|nest| nest.remove("ID"))
        {
            attrs[of_dco_v2]["PEER_ID"] = id;
        }
    }
    json!({"cmd": command, "attrs": attrs})
}

fn number(slot: Slot) -> u32 {
    match slot {
        Slot::Primary => 0,
        Slot::Secondary => 1,
    }
}

fn new_dco_v2(new: &NewPeer) -> Value {
    assert_eq!((new.tx_id, new.interval, new.timeout), (None, None, None));
    let mut nest = json!({"ID": new.id, "SOCKET": new.socket});
    match new.remote {
        Some(SocketAddr::V4(v4)) => {
            let sockaddr = json!({"family": "AF_INET", "addr": v4.ip(), "port": v4.port(), "len": 16});
            nest["SOCKADDR_REMOTE"] = sockaddr;
        }
        Some(SocketAddr::V6(v6)) => {
            nest["SOCKADDR_REMOTE"] = json!({"family": "AF_INET6", "addr": v6.ip(), "port": v6.port(),
                "scope_id": v6.scope_id(), "flowinfo": v6.flowinfo(), "len": 28});
        }
        None => {}
    }
    put(&mut nest, "LOCAL_IP", new.local);
    put(&mut nest, "IPV4", new.vpn_v4.map(IpAddr::from));
    put(&mut nest, "IPV6", new.vpn_v6.map(IpAddr::from));
    nest
}

fn new_ovpn(new: &NewPeer) -> Value {
    assert_eq!((new.tx_id, new.interval, new.timeout), (None, None, None));
    let mut nest = json!({"ID": new.id, "SOCKET": new.socket});
    if let Some(remote) = new.remote {
        nest["REMOTE_PORT"] = remote.port().into();
        nest[if remote.is_ipv4() {
            "REMOTE_IPV4"
        } else {
            "REMOTE_IPV6"
        }] = json!(remote.ip());
        if let SocketAddr::V6(v6) = remote {
            nest["REMOTE_IPV6_SCOPE_ID"] = v6.scope_id().into();
        }
    }
    let local = if new.local.is_some_and(|l| l.is_ipv4()) {
        "LOCAL_IPV4"
    } else {
        "LOCAL_IPV6"
    };
    put(&mut nest, local, new.local);
    put(&mut nest, "VPN_IPV4", new.vpn_v4.map(IpAddr::from));
    put(&mut nest, "VPN_IPV6", new.vpn_v6.map(IpAddr::from));
    nest
}

fn put(nest: &mut Value, name: &str, ip: Option<IpAddr>) {
    if let Some(ip) = ip {
        nest[name] = json!(ip);
    }
}

fn set_peer(set: &SetPeer) -> Value {
    let expected = SetPeer {
        id: set.id,
        tx_id: None,
        remote: None,
        local: None,
        vpn_v4: None,
        vpn_v6: None,
        interval: set.interval,
        timeout: set.timeout,
    };
    assert_eq!(*set, expected);
    json!({"ID": set.id, "KEEPALIVE_INTERVAL": set.interval, "KEEPALIVE_TIMEOUT": set.timeout})
}

fn new_key(request: &Request) -> Value {
    let Command::NewKey(new) = &request.command else {
        panic!("{:?}", request.command);
    };
    let algorithm = match new.cipher {
        Cipher::ChaCha20Poly1305 => 2,
        _ => 1,
    };
    assert_eq!(new.cipher.key_len(), new.encrypt.key.len());
    let direction = |m: &nf_control::KeyMaterial| json!({"CIPHER_KEY": hex::encode(&*m.key), "NONCE_TAIL": hex::encode(*m.nonce_tail)});
    let (encrypt, decrypt, slot) = match request.family {
        Family::Ovpn => ("ENCRYPT_DIR", "DECRYPT_DIR", "SLOT"),
        Family::DcoV2 => ("ENCRYPT_KEY", "DECRYPT_KEY", "KEY_SLOT"),
    };
    json!({"PEER_ID": new.peer, slot: number(new.slot), "KEY_ID": new.key_id, "CIPHER_ALG": algorithm,
        encrypt: direction(&new.encrypt), decrypt: direction(&new.decrypt)})
}

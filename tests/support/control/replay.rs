//! Recorded exchanges of the stock daemons, sent again in order.

use super::golden::{self, Line};
use super::message::{ERROR, GENERIC, HEADER, attributes, find, kind, put, seq, set_seq, u16_at, u32_at};
use super::reply::Told;
use super::{
    Answer, Bed, Client, Family, HOST, Key, Material, Peer, TUNNELS, arrived, index_of, inside, shape,
};
use crate::gateway::{ip, wait_for};
use nf_path::twin::craft::{inner_v4, inner_v6, number};
use nf_state::Cipher;
use ovpn_dco_protocol::GENERIC as GENERIC_SOCKET;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;

/// A peer as the daemon has made it.
struct Made {
    remote: SocketAddr,
    local: IpAddr,
    port: u16,
    vpn: Vec<IpAddr>,
    timers: (u32, u32),
    slots: [Option<Key>; 2],
    /// Packets and their bytes, inside: received, sent.
    counts: [[u64; 2]; 2],
}

/// What a test is about.
pub struct Plan {
    /// `2.6.14` or `2.7.6`.
    pub daemon: &'static str,
    /// Case of the recording.
    pub case: &'static str,
    /// Where the daemon's sockets are bound: for IPv4, and for IPv6 if that is another one.
    pub listen: &'static [&'static str],
    /// Whether there is one peer.
    pub client: bool,
}

/// A daemon's exchange with the gateway.
pub struct Replay {
    bed: Bed,
    client: Client,
    plan: Plan,
    lines: Vec<Line>,
    peers: BTreeMap<u32, Made>,
    sockets: Vec<UdpSocket>,
    inside: Vec<UdpSocket>,
    scope: u32,
    seq: u32,
    next: u32,
    sent: RefCell<BTreeSet<String>>,
}

const OWN: [&str; 2] = ["10.99.0.1", "fd77::1"];
const OWN_CLIENT: [&str; 1] = ["10.99.0.2"];

/// The family that a daemon speaks.
pub fn family(daemon: &str) -> Family {
    if daemon == "2.6.14" {
        Family::DcoV2
    } else {
        Family::Ovpn
    }
}

impl Replay {
    /// A gateway, with the daemon's addresses outside and inside, and all that a daemon says until its interface is up.
    pub fn start(plan: Plan) -> Replay {
        let bed = Bed::bare("", "");
        fs::write(format!("/proc/sys/net/ipv6/conf/{HOST}/disable_ipv6"), "0").expect("the namespace's own");
        let outer: &[&str] = match plan.client {
            false => &["192.168.99.1/24", "192.168.99.11/24", "fd99::1/64", "fe80::1/64"],
            true => &["192.168.99.3/24", "fd99::2/64", "fe80::1/64"],
        };
        for address in outer {
            ip(&["address", "add", address, "dev", HOST, "nodad"]);
        }
        let sockets = plan
            .listen
            .iter()
            .map(|at| UdpSocket::bind(at).expect("a free port"));
        let family = family(plan.daemon);
        let mut replay = Replay {
            client: bed.client(family),
            sockets: sockets.collect(),
            scope: index_of(HOST),
            bed,
            plan,
            lines: golden::lines(),
            peers: BTreeMap::new(),
            inside: Vec::new(),
            seq: 5000,
            next: 1,
            sent: RefCell::default(),
        };
        replay.begin();
        replay
    }

    /// As README of the recording says it.
    fn begin(&mut self) {
        let (name, kind) = match self.client.family {
            Family::DcoV2 => ("ovpn-dco-v2", "ovpn-dco"),
            Family::Ovpn => ("ovpn", "ovpn"),
        };
        let temporary = self.client.open(GENERIC_SOCKET);
        let first = std::mem::replace(&mut self.client.generic, temporary);
        self.look_up(&format!("CTRL_GETFAMILY {name}, genl version 1"));
        self.client.generic = first;
        let mode = if self.plan.client { "P2P" } else { "MP" };
        let link = format!("RTM_NEWLINK create named kind {kind} mode {mode}");
        let case = if self.plan.client { "c1" } else { "s1" };
        if self.client.family == Family::DcoV2 {
            self.link(case, &link);
        }
        self.look_up("CTRL_GETFAMILY nlctrl, genl version 1");
        self.look_up(&format!("CTRL_GETFAMILY {name}, genl version 0"));
        self.client.subscribe();
        if self.client.family == Family::Ovpn {
            self.link(case, &link);
        }
        for what in ["RTM_NEWLINK set MTU", "RTM_NEWLINK set flags"] {
            self.link("s1", what);
        }
        let tunnel = TUNNELS[0];
        // What the kernel multicasts by itself would be counted where all is for the one peer: no IPv6 there.
        let own: &[&str] = if self.plan.client { &OWN_CLIENT } else { &OWN };
        let no_ipv6 = format!("/proc/sys/net/ipv6/conf/{tunnel}/disable_ipv6");
        fs::write(no_ipv6, u8::from(self.plan.client).to_string()).expect("the namespace's own");
        ip(&["link", "set", tunnel, "up"]);
        for (address, len) in own.iter().zip([24, 64]) {
            ip(&[
                "address",
                "add",
                &format!("{address}/{len}"),
                "dev",
                tunnel,
                "nodad",
            ]);
            self.inside.push(inside(address.parse().expect("an address")));
        }
        if !self.plan.client {
            assert!(self.ask("s1", "GET_PEER dump", None).done().is_empty());
        }
    }

    /// A line of this daemon: that of the case, or the one that says the same in another case.
    fn line(&self, case: &str, what: &str) -> Line {
        let found = |case: Option<&str>, whole: bool| {
            self.lines.iter().find(|l| {
                l.daemon == self.plan.daemon
                    && l.what.starts_with(what)
                    && (!whole || l.what == what)
                    && case.is_none_or(|case| l.from.split('#').next() == Some(case))
            })
        };
        let here = found(Some(case), true).or_else(|| found(Some(case), false));
        let line = here.or_else(|| found(None, true)).or_else(|| found(None, false));
        line.unwrap_or_else(|| panic!("{case}: no {what}")).clone()
    }

    fn note(&self, line: &Line) {
        self.sent.borrow_mut().insert(line.from.clone());
    }

    /// A message about an interface, and its answer as recorded.
    pub fn link(&mut self, case: &str, what: &str) {
        let line = self.line(case, what);
        self.note(&line);
        let mut bytes = line.bytes.clone();
        if u32_at(&bytes, 20) != 0 {
            bytes[20..24].copy_from_slice(&self.bed.index[0].to_ne_bytes());
        }
        let answer = self.client.link(&bytes);
        if line.dir == "to_kernel" {
            assert_eq!(kind(&answer.last), 1, "NLMSG_NOOP");
            return;
        }
        let asked = seq(&answer.last);
        self.same_end(&line, &answer, asked);
    }

    fn look_up(&mut self, what: &str) {
        let line = self.line("s1", what);
        self.note(&line);
        let answer = self.send(&line.bytes.clone(), &[]);
        self.same_end(&line, &answer, self.seq);
        let (name, _) = what.split_once(',').expect("and the version");
        let recorded = self.line("s1", &format!("reply to {name}"));
        let reply = &answer.replies[0];
        assert_eq!(answer.replies.len(), 1);
        assert_eq!(
            shape(reply, GENERIC, &[]),
            shape(&recorded.bytes, GENERIC, &[]),
            "{what}"
        );
        for id in [1, 2, 3, 4] {
            assert_eq!(
                find(reply, GENERIC, &[id]),
                find(&recorded.bytes, GENERIC, &[id]),
                "{what}: {id}"
            );
        }
    }

    fn send(&mut self, bytes: &[u8], fds: &[std::os::fd::BorrowedFd]) -> Answer {
        let mut bytes = bytes.to_vec();
        self.seq += 1;
        set_seq(&mut bytes, self.seq);
        assert!(self.client.generic.send(&bytes, fds));
        self.client.answer(&bytes)
    }

    /// The recorded answer to a recorded request, if it is in the file.
    fn answer_to(&self, line: &Line, what: &str) -> Option<Line> {
        let case = line.from.split('#').next();
        let mut all = self.lines.iter();
        let found = all.find(|l| {
            l.daemon == line.daemon
                && l.dir == "to_daemon"
                && l.what.starts_with(what)
                && l.from.split('#').next() == case
                && (seq(&l.bytes), u32_at(&l.bytes, 12)) == (seq(&line.bytes), u32_at(&line.bytes, 12))
        });
        found.cloned()
    }

    /// The end of an answer is byte for byte as recorded but for the sequence number; of an error, the number.
    fn same_end(&self, line: &Line, answer: &Answer, asked: u32) {
        if let Some(mut recorded) = self.answer_to(line, "ACK") {
            set_seq(&mut recorded.bytes, asked);
            set_seq(&mut recorded.bytes[HEADER + 4..], asked);
            assert_eq!(answer.last, recorded.bytes, "{}", line.from);
        } else if let Some(recorded) = self.answer_to(line, "error") {
            assert_eq!(
                u32_at(&answer.last, HEADER),
                u32_at(&recorded.bytes, HEADER),
                "{}",
                line.from
            );
        } else if kind(&answer.last) == ERROR {
            assert_eq!(
                (answer.code(), answer.last.len(), u16_at(&answer.last, 6)),
                (0, 36, 0x100),
                "{}",
                line.from
            );
        }
    }

    /// Sends a line, about another peer if one is given, and keeps what it says.
    #[track_caller]
    pub fn ask(&mut self, case: &str, what: &str, peer: Option<u32>) -> Answer {
        self.ask_with(case, what, |replay, bytes| replay.patch(bytes, peer))
    }

    /// The same, with another change.
    #[track_caller]
    fn ask_with(&mut self, case: &str, what: &str, change: impl FnOnce(&Replay, &mut [u8])) -> Answer {
        let line = self.line(case, what);
        self.note(&line);
        let mut bytes = line.bytes.clone();
        assert!(put(&mut bytes, GENERIC, &[1], &self.bed.index[0].to_ne_bytes()));
        change(self, &mut bytes);
        let answer = if what.starts_with("NEW_PEER") {
            let tcp = TcpListener::bind(("127.0.0.1", 0)).expect("a socket");
            let fd = match self.remote(&bytes) {
                None => tcp.as_fd(),
                Some(SocketAddr::V4(_)) => self.sockets[0].as_fd(),
                Some(SocketAddr::V6(_)) => self.sockets[self.sockets.len() - 1].as_fd(),
            };
            let fd = fd.try_clone_to_owned().expect("a descriptor");
            self.send(&bytes, &[fd.as_fd()])
        } else {
            self.send(&bytes, &[])
        };
        if answer.code() == 0 {
            self.same_end(&line, &answer, self.seq);
            self.keep(what, &bytes);
        }
        answer
    }

    /// It is done.
    #[track_caller]
    pub fn say(&mut self, what: &str, peer: Option<u32>) {
        let case = self.plan.case;
        let replies = self.ask(case, what, peer).done();
        assert!(replies.is_empty(), "{what}");
    }

    /// It is refused with the number that was recorded for `error`.
    #[track_caller]
    pub fn refused(&mut self, what: &str, peer: Option<u32>, (case, error): (&str, &str)) {
        let recorded = self.line(case, error);
        let code = (u32_at(&recorded.bytes, HEADER) as i32).wrapping_neg();
        self.ask(self.plan.case, what, peer).refused(code);
    }

    /// Type of the nest, and of the peer id in it.
    fn id_path(&self, bytes: &[u8]) -> [u16; 2] {
        let nest = attributes(bytes, GENERIC)[1].0;
        let id = if (self.client.family, nest) == (Family::DcoV2, 4) {
            2
        } else {
            1
        };
        [nest, id]
    }

    /// The scope id is that of the test's interface. With a peer: its id, and as NEW_PEER an address and port of its own.
    fn patch(&self, bytes: &mut [u8], peer: Option<u32>) {
        let (dco, scope) = (self.client.family == Family::DcoV2, self.scope.to_ne_bytes());
        let nested = attributes(bytes, GENERIC).len() > 1;
        let is_new = bytes[16] == 1;
        let value = |bytes: &[u8], path: &[u16]| find(bytes, GENERIC, path).map(<[u8]>::to_vec);
        if is_new {
            if let Some(mut remote) = value(bytes, &[2, 2]).filter(|r| r.len() == 28 && r[24..] != [0; 4]) {
                remote[24..].copy_from_slice(&scope);
                put(bytes, GENERIC, &[2, 2], &remote);
            }
            if !dco && value(bytes, &[2, 4]).is_some_and(|s| s != [0; 4]) {
                put(bytes, GENERIC, &[2, 4], &scope);
            }
        }
        let Some(peer) = peer.filter(|_| nested) else {
            return;
        };
        let path = self.id_path(bytes);
        assert!(put(bytes, GENERIC, &path, &peer.to_ne_bytes()));
        if is_new {
            for id in if dco { [4, 5] } else { [8, 9] } {
                if let Some(mut vpn) = value(bytes, &[2, id]) {
                    *vpn.last_mut().expect("an address") += peer as u8;
                    put(bytes, GENERIC, &[2, id], &vpn);
                }
            }
            let port = if dco { 2 } else { 5 };
            let mut with_port = value(bytes, &[2, port]).expect("a port");
            with_port[if dco { 3 } else { 1 }] ^= peer as u8;
            put(bytes, GENERIC, &[2, port], &with_port);
        }
    }

    /// Where a NEW_PEER says that the peer is.
    fn remote(&self, bytes: &[u8]) -> Option<SocketAddr> {
        remote_of(bytes, self.client.family)
    }

    /// What an accepted message means.
    fn keep(&mut self, what: &str, bytes: &[u8]) {
        let family = self.client.family;
        let dco = family == Family::DcoV2;
        let command = what.split([' ', ',']).next().expect("a word");
        if command == "GET_PEER" {
            return;
        }
        let path = self.id_path(bytes);
        let nest = path[0];
        let value = |path: &[u16]| find(bytes, GENERIC, path);
        let peer = u32_at(value(&path).expect("its id"), 0);
        if command == "NEW_PEER" {
            return self.keep_peer(peer, bytes);
        }
        if command == "DEL_PEER" {
            self.peers.remove(&peer);
            return;
        }
        let made = self.peers.get_mut(&peer).expect("made before");
        let slot = usize::from(value(&[nest, 2]).map_or(0, |s| s[0]));
        match command {
            "SET_PEER" => {
                let [interval, timeout] = if dco { [2, 3] } else { [13, 14] };
                let number = |id| u32_at(value(&[nest, id]).expect("both"), 0);
                made.timers = (number(interval), number(timeout));
            }
            "NEW_KEY" => {
                let material = |id| Material {
                    key: value(&[nest, id, 1]).expect("a key").to_vec(),
                    tail: value(&[nest, id, 2])
                        .expect("a tail")
                        .try_into()
                        .expect("eight bytes"),
                };
                let (encrypt, decrypt) = (material(5), material(6));
                let cipher = match (value(&[nest, 4]).expect("an algorithm")[0], encrypt.key.len()) {
                    (2, 32) => Cipher::ChaCha20Poly1305,
                    (1, 16) => Cipher::Aes128Gcm,
                    (1, 24) => Cipher::Aes192Gcm,
                    (1, 32) => Cipher::Aes256Gcm,
                    other => panic!("{other:?}"),
                };
                let id = value(&[nest, 3]).expect("its id")[0];
                made.slots[slot] = Some(Key {
                    id,
                    cipher,
                    encrypt,
                    decrypt,
                    last: 0,
                });
            }
            "SWAP_KEYS" => made.slots.swap(0, 1),
            "DEL_KEY" => made.slots[slot] = None,
            other => panic!("{other}"),
        }
    }

    fn keep_peer(&mut self, peer: u32, bytes: &[u8]) {
        let ip = |value: &[u8]| match value.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(value).expect("four bytes")),
            _ => IpAddr::from(<[u8; 16]>::try_from(value).expect("sixteen bytes")),
        };
        let dco = self.client.family == Family::DcoV2;
        let value = |id| find(bytes, GENERIC, &[2, id]).map(ip);
        let remote = self.remote(bytes).expect("UDP");
        let given = if dco { value(6) } else { value(10).or(value(11)) };
        let own = match (remote, self.plan.client) {
            (SocketAddr::V6(v6), _) if v6.ip().is_unicast_link_local() => "fe80::1",
            (SocketAddr::V6(_), false) => "fd99::1",
            (SocketAddr::V6(_), true) => "fd99::2",
            (SocketAddr::V4(_), false) => "192.168.99.1",
            (SocketAddr::V4(_), true) => "192.168.99.3",
        };
        let socket = if remote.is_ipv4() {
            self.sockets.first()
        } else {
            self.sockets.last()
        };
        let vpn = if dco {
            [value(4), value(5)]
        } else {
            [value(8), value(9)]
        };
        self.bed.neighbour(&remote.ip().to_string());
        let made = Made {
            remote,
            local: given.unwrap_or_else(|| own.parse().expect("an address")),
            port: socket.and_then(|s| s.local_addr().ok()).expect("bound").port(),
            vpn: vpn.into_iter().flatten().collect(),
            timers: (0, 0),
            slots: [None, None],
            counts: [[0; 2]; 2],
        };
        if self.plan.client {
            self.peers.clear();
        }
        self.peers.insert(peer, made);
    }

    /// Packets go both ways: what is sealed under each of its keys comes out of the interface, what is sent leaves under the
    /// primary one, from the right address and to it.
    #[track_caller]
    pub fn carry(&mut self, peer: u32) {
        let own: &[&str] = if self.plan.client { &OWN_CLIENT } else { &OWN };
        let made = self.peers.get_mut(&peer).expect("made before");
        let [local, remote] = [SocketAddr::new(made.local, made.port), made.remote];
        let mut inner_addresses = made.vpn.clone();
        if self.plan.client {
            inner_addresses.push(OWN[0].parse().expect("an address"));
        }
        for vpn in inner_addresses {
            let (packet, inside): (Box<dyn Fn(u32) -> Vec<u8>>, _) = match vpn {
                IpAddr::V4(vpn) => {
                    let own = own[0].parse().expect("an address");
                    (Box::new(move |n| inner_v4(vpn, own, 100, n)), &self.inside[0])
                }
                IpAddr::V6(vpn) => {
                    let own = own[1].parse().expect("an address");
                    (Box::new(move |n| inner_v6(vpn, own, 100, n)), &self.inside[1])
                }
            };
            for key in made.slots.iter_mut().flatten() {
                self.next += 1;
                let record = key.seal(peer, &packet(self.next));
                self.bed.far.send(remote, local, &record);
                assert_eq!(arrived(inside), self.next, "peer {peer}, key {}", key.id);
                made.counts[0][0] += 1;
                made.counts[0][1] += 100;
            }
            self.next += 1;
            let n = self.next;
            let mut payload = [0; 72];
            payload[..4].copy_from_slice(&n.to_be_bytes());
            inside.send_to(&payload, (vpn, super::PORTS.0)).expect("a route");
            let key = made.slots[0].as_ref().expect("a primary key");
            let record = self.bed.far.expect(key, |_, inner| number(inner) == Some(n));
            let plain = |mut a: SocketAddr| {
                if let SocketAddr::V6(v6) = &mut a {
                    v6.set_scope_id(0);
                }
                a
            };
            assert_eq!(
                (record.from, record.to, record.peer()),
                (local, plain(remote), peer)
            );
            made.counts[1][0] += 1;
            made.counts[1][1] += if vpn.is_ipv4() { 100 } else { 120 };
        }
    }

    /// Nothing is sent to it for want of a key.
    pub fn mute(&mut self, peer: u32) {
        let before = self.bed.gateway.dropped("no_primary");
        let to = (self.peers[&peer].vpn[0], super::PORTS.0);
        self.inside[0].send_to(&[0; 72], to).expect("a route");
        self.bed.wait_dropped("no_primary", before + 1);
        let made = self.peers.get_mut(&peer).expect("made before");
        // The count is taken before the key is looked for.
        made.counts[1][0] += 1;
        made.counts[1][1] += 100;
    }

    /// All peers as the gateway has them, in answer to a dump and one by one: what was said, what went through; and
    /// everything in the width and with all that was recorded.
    #[track_caller]
    pub fn compare(&mut self) {
        let dump = self.ask(self.plan.case, "GET_PEER dump", None).done();
        let recorded = self.line(self.plan.case, "reply to GET_PEER dump");
        assert_eq!(dump.len(), self.peers.len());
        let ids: Vec<u32> = self.peers.keys().copied().collect();
        for (id, of_all) in ids.into_iter().zip(&dump) {
            self.note(&self.line("s8", "GET_PEER do"));
            let one = self.ask("s8", "GET_PEER do", Some(id)).done();
            assert_eq!(one.len(), 1);
            for reply in [of_all, &one[0]] {
                self.compare_one(id, reply, &recorded);
            }
        }
    }

    fn compare_one(&self, id: u32, reply: &[u8], recorded: &Line) {
        let made = &self.peers[&id];
        let peer = Peer::of(self.client.family, reply);
        assert_eq!((peer.id, peer.remote), (id, Some(made.remote)));
        assert_eq!(peer.local, Some(SocketAddr::new(made.local, made.port)));
        assert_eq!((&peer.vpn, peer.timers), (&made.vpn, made.timers));
        let [rx, tx] = made.counts;
        assert_eq!((peer.vpn_rx, peer.vpn_tx), (rx, tx));
        assert_eq!(peer.link_rx, [rx[0], rx[1] + 24 * rx[0]]);
        // Where the key was missing, nothing left.
        assert!(peer.link_tx[0] <= tx[0]);
        let nests = [2, 8];
        let ours: BTreeMap<_, _> = shape(reply, GENERIC, &nests).into_iter().collect();
        for (path, len) in shape(&recorded.bytes, GENERIC, &nests) {
            // Not every peer has an address of each version.
            let address = self.client.family == Family::Ovpn && (2..=9).contains(&path[1]);
            if ours.get(&path) != Some(&len) {
                assert!(
                    address && !ours.contains_key(&path),
                    "{path:?} of {len}: {ours:?}"
                );
            }
        }
    }

    /// The next notification is byte for byte what was recorded, about this peer and interface.
    #[track_caller]
    pub fn told(&mut self, what: &str, peer: u32) -> Told {
        let mut recorded = self.line(self.plan.case, what).bytes;
        let index = self.bed.index[0];
        assert!(put(&mut recorded, GENERIC, &[1], &index.to_ne_bytes()));
        let path = self.id_path(&recorded);
        assert!(put(&mut recorded, GENERIC, &path, &peer.to_ne_bytes()));
        // The version in `struct genlmsghdr` was the recording data channel's choice; Linux has the family's.
        recorded[17] = 1;
        let told = self.client.notification();
        assert_eq!(told, recorded, "{what}");
        Told::of(self.client.family, index, &told)
    }

    /// The peer goes to where the recorded one went, which is told as it was then.
    #[track_caller]
    pub fn float(&mut self, peer: u32, what: &str) {
        let line = self.line(self.plan.case, what);
        let index = u32_at(find(&line.bytes, GENERIC, &[1]).expect("IFINDEX"), 0);
        let Told::Floated(_, to) = Told::of(self.client.family, index, &line.bytes) else {
            panic!("{what}")
        };
        self.bed.neighbour(&to.ip().to_string());
        self.peers.get_mut(&peer).expect("made before").remote = to;
        self.carry(peer);
        self.told(what, peer);
        self.carry(peer);
    }

    /// The peer says nothing any more, and is gone as the recorded one was.
    #[track_caller]
    pub fn expire(&mut self, peer: u32, what: &str) {
        let timeout = if self.client.family == Family::DcoV2 {
            [3, 3]
        } else {
            [2, 14]
        };
        let interval = [timeout[0], timeout[1] - 1];
        let case = self.plan.case;
        let answer = self.ask_with(case, "SET_PEER keepalive set/set", |replay, bytes| {
            replay.patch(bytes, Some(peer));
            put(bytes, GENERIC, &interval, &0u32.to_ne_bytes());
            put(bytes, GENERIC, &timeout, &1u32.to_ne_bytes());
        });
        answer.done();
        self.told(what, peer);
    }

    /// The peer is gone: what the daemon says of it until it has heard so is done, and it removes it.
    #[track_caller]
    pub fn bury(&mut self, peer: u32) {
        self.say("DEL_PEER", Some(peer));
        self.peers.remove(&peer);
    }

    /// The interface goes, with all peers; the gateway ends. Which lines were sent.
    pub fn end(mut self) -> BTreeSet<String> {
        self.link("s1", "RTM_DELLINK");
        let left: Vec<u32> = self.peers.keys().copied().collect();
        for peer in left {
            let what = "notification DEL_PEER reason TEARDOWN";
            assert_eq!(self.told(what, peer), Told::Deleted(peer, 0));
        }
        wait_for("nobody to be left", || {
            self.client
                .ask(&self.client.family.dump(self.client.index), &[])
                .done()
                .is_empty()
        });
        let sent = self.sent.take();
        self.bed.end();
        sent
    }
}

/// Where a NEW_PEER says that the peer is.
fn remote_of(bytes: &[u8], family: Family) -> Option<SocketAddr> {
    super::reply::remote(family, find(bytes, GENERIC, &[2])?)
}

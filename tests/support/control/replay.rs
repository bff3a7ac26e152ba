//! Recorded exchanges of the stock daemons, sent again in order.

#[path = "replay/answers.rs"]
mod answers;
#[path = "replay/meaning.rs"]
mod meaning;
#[path = "replay/traffic.rs"]
mod traffic;

use super::golden::{self, Line};
use super::message::{ERROR, GENERIC, HEADER, find, kind, put, seq, set_seq, u16_at, u32_at};
use super::reply::Told;
use super::{Answer, Bed, Client, Family, HOST, Key, TUNNELS, index_of, inside, shape};
use crate::gateway::{ip, run, wait_for};
use ovpn_dco_protocol::GENERIC as GENERIC_SOCKET;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;

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
            let there = ["-6", "-o", "route", "show", "table", "local", "dev", tunnel];
            // The kernel takes its time until packets to an IPv6 address are its own.
            wait_for("the address", || {
                address.contains('.')
                    || run(Command::new("ip").args(there)).contains(&format!("local {address} "))
            });
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

    /// Where a NEW_PEER says that the peer is.
    fn remote(&self, bytes: &[u8]) -> Option<SocketAddr> {
        remote_of(bytes, self.client.family)
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

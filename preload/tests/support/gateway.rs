//! The gateway's side of the socket, with canned answers.

use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ovpn_dco_protocol::{AGAIN, GENERIC, HELLO, MAX_PACKET, OPEN, ROUTE, SUBSCRIBE};
use rustix::net::{self, AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SocketFlags, SocketType};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, Shutdown};

use super::packets::{self, Family};

/// A packet that a client sent.
pub struct Packet {
    /// Number of the connection, in the order of their making.
    pub connection: usize,
    /// Netlink protocol of the connection; none before HELLO.
    pub protocol: Option<u32>,
    /// The packet.
    pub bytes: Vec<u8>,
    /// What came with it.
    pub fds: Vec<OwnedFd>,
}

impl Packet {
    /// Message type.
    pub fn kind(&self) -> u16 {
        u16::from_ne_bytes(self.bytes[4..6].try_into().unwrap())
    }

    /// Command of generic netlink.
    pub fn command(&self) -> u8 {
        self.bytes[16]
    }

    /// NLM_F_*.
    pub fn flags(&self) -> u16 {
        u16::from_ne_bytes(self.bytes[6..8].try_into().unwrap())
    }
}

/// What is done with a packet instead of the usual. None: the usual.
pub type Rule = dyn Fn(&Packet) -> Option<Vec<Vec<u8>>> + Send + Sync;

#[derive(Default)]
struct State {
    packets: Vec<Arc<Packet>>,
    connections: HashMap<usize, Arc<OwnedFd>>,
    accepted: usize,
    made: usize,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    rule: Box<Rule>,
}

impl Shared {
    /// Also of a test that has failed meanwhile.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A gateway that runs until it is dropped.
pub struct Gateway {
    path: PathBuf,
    listener: Arc<OwnedFd>,
    shared: Arc<Shared>,
}

impl Gateway {
    /// Listens.
    pub fn start(path: &Path) -> Gateway {
        Gateway::with_rule(path, |_| None)
    }

    /// Listens, with answers of its own.
    pub fn with_rule(
        path: &Path,
        rule: impl Fn(&Packet) -> Option<Vec<Vec<u8>>> + Send + Sync + 'static,
    ) -> Gateway {
        let listener = net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        net::bind(&listener, &net::SocketAddrUnix::new(path).unwrap()).unwrap();
        net::listen(&listener, 64).unwrap();
        let listener = Arc::new(listener);
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            rule: Box::new(rule),
        });
        let (accepting, state) = (listener.clone(), shared.clone());
        thread::spawn(move || {
            while let Ok(connection) = net::accept_with(&*accepting, SocketFlags::CLOEXEC) {
                state.state().accepted += 1;
                serve(&state, connection, None);
            }
        });
        Gateway {
            path: path.to_owned(),
            listener,
            shared,
        }
    }

    /// How many connections were made by path.
    pub fn accepted(&self) -> usize {
        self.shared.state().accepted
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.shared.state().connections.len()
    }

    /// All packets so far.
    pub fn packets(&self) -> Vec<Arc<Packet>> {
        self.shared.state().packets.clone()
    }

    /// Waits for a packet that is as wanted.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&Packet) -> bool) -> Arc<Packet> {
        let until = Instant::now() + Duration::from_secs(30);
        let mut state = self.shared.state();
        loop {
            if let Some(found) = state.packets.iter().find(|packet| wanted(packet)) {
                return found.clone();
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {what} came");
            state = self.shared.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Waits until so many connections are open.
    pub fn wait_open(&self, count: usize) {
        let until = Instant::now() + Duration::from_secs(10);
        while self.open() != count {
            assert!(Instant::now() < until, "{} connections, not {count}", self.open());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a packet on a connection.
    pub fn send(&self, connection: usize, bytes: &[u8]) {
        let fd = self.shared.state().connections.get(&connection).cloned();
        let fd = fd.expect("the connection has ended");
        send(&fd, bytes, None);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = net::shutdown(&*self.listener, Shutdown::Both);
        for connection in self.shared.state().connections.values() {
            let _ = net::shutdown(&**connection, Shutdown::Both);
        }
    }
}

fn send(fd: &OwnedFd, bytes: &[u8], with: Option<&OwnedFd>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = with.map(AsFd::as_fd);
    control.push(SendAncillaryMessage::ScmRights(fds.as_slice()));
    let _ = net::sendmsg(fd, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
}

fn serve(shared: &Arc<Shared>, fd: OwnedFd, mut protocol: Option<u32>) {
    let fd = Arc::new(fd);
    let number = {
        let mut state = shared.state();
        state.made += 1;
        let number = state.made;
        state.connections.insert(number, fd.clone());
        number
    };
    let shared = shared.clone();
    thread::spawn(move || {
        while let Some((bytes, fds)) = receive(&fd) {
            let packet = Arc::new(Packet {
                connection: number,
                protocol,
                bytes,
                fds,
            });
            if packet.kind() == HELLO {
                protocol = Some(u32::from_ne_bytes(packet.bytes[20..24].try_into().unwrap()));
            }
            answer(&shared, &fd, &packet);
            shared.state().packets.push(packet);
            shared.changed.notify_all();
        }
        shared.state().connections.remove(&number);
    });
}

fn answer(shared: &Arc<Shared>, fd: &Arc<OwnedFd>, packet: &Packet) {
    let request = &packet.bytes;
    if let Some(answers) = (shared.rule)(packet) {
        answers.iter().for_each(|answer| send(fd, answer, None));
        return;
    }
    match (packet.protocol, packet.kind()) {
        (_, HELLO) => send(fd, &packets::error(request, 0), None),
        (_, OPEN) => {
            let (ours, theirs) = net::socketpair(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC,
                None,
            )
            .unwrap();
            let protocol = u32::from_ne_bytes(request[16..20].try_into().unwrap());
            serve(shared, ours, Some(protocol));
            send(fd, &packets::error(request, 0), Some(&theirs));
        }
        (_, SUBSCRIBE) => {}
        (_, AGAIN) => send(fd, &request[16..], None),
        (Some(ROUTE), _) => send(fd, &packets::noop(request), None),
        (Some(GENERIC), 16) => {
            for family in [Family::DcoV2, Family::Ovpn] {
                if packets::asks_for(request, family) {
                    send(fd, &packets::family(request, family), None);
                    send(fd, &packets::error(request, 0), None);
                    return;
                }
            }
            if packets::asks_for_controller(request) {
                send(fd, &packets::controller(request), None);
            }
            send(fd, &packets::error(request, 0), None);
        }
        (Some(GENERIC), _) if packet.flags() & 0x300 == 0x300 => send(fd, &packets::done(request), None),
        _ => send(fd, &packets::error(request, 0), None),
    }
}

fn receive(fd: &OwnedFd) -> Option<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = vec![0; MAX_PACKET];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let count = net::recvmsg(fd, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
        .ok()?
        .bytes;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    bytes.truncate(count);
    (count >= 16).then_some((bytes, fds))
}

//! A control socket of a test's own, its clients, and what is logged.

#![allow(dead_code, reason = "no test uses all of it")]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use lcore::socket::{ClientId, Incoming, Server};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg,
    socket_with, sockopt,
};
use tempfile::TempDir;

/// How long anything may take that is expected to happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// This process's user and group.
pub fn me() -> (u32, u32) {
    let me = std::fs::metadata("/proc/self").expect("procfs");
    (me.uid(), me.gid())
}

/// Whether this is root; says that the test is skipped if not.
pub fn is_root(test: &str) -> bool {
    let root = me().0 == 0;
    if !root {
        println!("SKIP: {test}: not root");
    }
    root
}

/// A server for the calling thread, in a folder that goes away with it.
pub struct Rig {
    pub server: Server,
    pub path: PathBuf,
    _folder: TempDir,
}

impl Rig {
    pub fn new() -> Rig {
        Rig::with_group(me().1)
    }

    pub fn with_group(group: u32) -> Rig {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("gw0.sock");
        let server = Server::listen(&path, group, std::thread::current()).expect("a server");
        Rig {
            server,
            path,
            _folder: folder,
        }
    }

    /// A client, and the id that it got.
    pub fn connect(&self) -> (Client, ClientId) {
        let client = Client::connect(&self.path);
        match self.next() {
            Incoming::Connected { client: id, .. } => (client, id),
            other => panic!("{other:?}"),
        }
    }

    /// What happens next; waits to be woken for it.
    pub fn next(&self) -> Incoming {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(incoming) = self.server.next() {
                return incoming;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "nothing within {PATIENCE:?}, or nobody was woken"
            );
            std::thread::park_timeout(left);
        }
    }

    /// The next packet, which has to be of that client.
    pub fn packet(&self, of: ClientId) -> (Vec<u8>, Vec<OwnedFd>) {
        match self.next() {
            Incoming::Packet { client, bytes, fds } if client == of => {
                (bytes.to_vec(), fds.into_iter().collect())
            }
            other => panic!("{other:?}"),
        }
    }

    /// The next thing has to be that this client is gone.
    pub fn gone(&self, of: ClientId) {
        let next = self.next();
        assert!(
            matches!(next, Incoming::Gone { client } if client == of),
            "{next:?}"
        );
    }
}

/// The other side.
pub struct Client(pub OwnedFd);

impl Client {
    pub fn connect(path: &Path) -> Client {
        let client = Client::open();
        client.connect_to(path);
        client
    }

    /// One that is not connected yet.
    pub fn open() -> Client {
        let flags = SocketFlags::CLOEXEC;
        Client::of(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket"))
    }

    pub fn connect_to(&self, path: &Path) {
        connect(&self.0, &SocketAddrUnix::new(path).expect("a path")).expect("somebody listens");
    }

    pub fn of(socket: OwnedFd) -> Client {
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE)).expect("a timeout");
        Client(socket)
    }

    pub fn send(&self, bytes: &[u8]) {
        self.send_with(bytes, &[]);
    }

    pub fn send_with(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let flags = SendFlags::NOSIGNAL;
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, flags).expect("sent");
    }

    /// The next packet; empty at the end of the connection.
    pub fn receive(&self) -> (Vec<u8>, Vec<OwnedFd>) {
        let mut bytes = vec![0; 100_000];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = recvmsg(
            &self.0,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        let length = match got {
            Ok(got) => got.bytes,
            // The other side closed before it had read all.
            Err(rustix::io::Errno::CONNRESET) => 0,
            Err(e) => panic!("nothing came: {e}"),
        };
        bytes.truncate(length);
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        (bytes, fds)
    }

    /// The connection has to end.
    pub fn ends(&self) {
        let (bytes, _) = self.receive();
        assert!(bytes.is_empty(), "{} bytes", bytes.len());
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Open file descriptors of this process.
pub fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs").count()
}

/// Waits until `what` holds.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The control socket's thread as procfs has it, for a process with one server.
pub fn thread() -> PathBuf {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    let is = |path: &PathBuf| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "control-socket")
    };
    let found: Vec<_> = tasks.map(|t| t.expect("a task").path()).filter(is).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

/// CPU time of a thread in clock ticks (`utime` and `stime` of proc_pid_stat(5)).
pub fn ticks(thread: &Path) -> u64 {
    let stat = std::fs::read_to_string(thread.join("stat")).expect("procfs");
    let fields: Vec<_> = stat
        .rsplit_once(')')
        .expect("a name")
        .1
        .split_whitespace()
        .collect();
    fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime")
}

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps what is logged from now on; once per process.
pub fn keep_log() {
    tracing::subscriber::set_global_default(Keep).expect("the only subscriber");
}

/// The warnings and errors that hold `word`.
pub fn logged(word: &str) -> Vec<String> {
    let lines = LINES.lock().expect("lines");
    lines.iter().filter(|l| l.contains(word)).cloned().collect()
}

struct Keep;

struct Text(String);

impl tracing::field::Visit for Text {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl tracing::Subscriber for Keep {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        LINES.lock().expect("lines").push(text.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

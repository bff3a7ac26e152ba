//! The control socket: a Unix socket (`SOCK_SEQPACKET`, unix(7)) on which other processes talk to the control thread, with
//! file descriptors beside the packets (`SCM_RIGHTS`).
//!
//! A thread of its own accepts, looks at who it is, reads into a queue, and sends what a client was too slow for. The
//! control thread takes from the queue and sends without ever waiting. A client that sends faster than the control thread
//! takes is not read from until it does; one that does not read what it is sent is disconnected at a bound.
//!
//! Packets may hold keys: all buffers of them are zeroised, those of the kernel aside.

mod bind;
mod client;
mod describe;
mod error;
mod options;
mod packet;
mod serve;
mod shared;

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use arrayvec::ArrayVec;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use zeroize::Zeroizing;

pub use describe::{Protocol, Transport, describe};
pub use error::Error;

use self::bind::Bound;
use self::packet::Packet;
use self::serve::Serve;
use self::shared::{Entry, Shared};

/// Most connections at a time. One that has ended counts until [`Incoming::Gone`] was taken.
pub const CONNECTIONS: usize = 256;
/// Longest packet, in bytes, in both directions.
pub const LONGEST: usize = 64 << 10;
/// File descriptors that are taken of one packet; further ones are closed.
pub const FDS: usize = 4;
/// What may wait of one client to be taken by the control thread, in bytes; a packet counts for 1 KiB more than it is
/// long, and each file descriptor for 16 KiB.
pub const WAITING: usize = 256 << 10;
/// Most bytes that may wait for one client to read, beyond the kernel's buffer.
pub const QUEUE_BYTES: usize = 8 << 20;
/// Most packets that may wait for one client to read, beyond the kernel's buffer.
pub const QUEUE_PACKETS: usize = 65_536;
/// How long a client that is being closed has to read what waits for it.
pub const LINGER: Duration = Duration::from_secs(5);

/// The file descriptors of a packet, in order. Those that nobody takes are closed.
pub type Fds = ArrayVec<OwnedFd, FDS>;

/// A connection. No number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u64);

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}", self.0)
    }
}

/// Who connected, as the kernel saw it then (`SO_PEERCRED`, unix(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process id; 0 for a process of a PID namespace that is not ours.
    pub pid: u32,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

/// What happened on the socket.
pub enum Incoming {
    /// A client has connected by the socket's path. Those of [`Server::pair`] are not told of.
    Connected {
        /// Which.
        client: ClientId,
        /// Who it is.
        credentials: Credentials,
    },
    /// A client has sent a packet.
    Packet {
        /// Which.
        client: ClientId,
        /// The packet, 1 byte to [`LONGEST`].
        bytes: Zeroizing<Vec<u8>>,
        /// What came with it. All are closed on exec.
        fds: Fds,
    },
    /// A connection has ended, whoever ended it. Told once of each, after all packets of it.
    Gone {
        /// Which.
        client: ClientId,
    },
}

impl fmt::Debug for Incoming {
    /// Without the bytes, which may be keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Incoming::Connected { client, credentials } => write!(f, "{client} connected: {credentials:?}"),
            Incoming::Packet { client, bytes, fds } => {
                write!(f, "{client}: {} bytes, {} descriptors", bytes.len(), fds.len())
            }
            Incoming::Gone { client } => write!(f, "{client} is gone"),
        }
    }
}

/// The control socket and its thread. Dropping it ends all connections, whatever waits for them, and unlinks the socket file
/// if that is still the one it made.
pub struct Server {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    bound: Option<Bound>,
}

impl Server {
    /// Listens at `path`, for root and for processes whose group or one of whose further groups is `group`; others are
    /// disconnected at once. `wake` is unparked after each thing that [`Server::next`] has.
    ///
    /// The folder is made (mode 0755) if it is missing. A socket file at which nobody answers is replaced. The file has mode
    /// 0660 and that group before anybody can connect to it.
    ///
    /// # Errors
    /// [`Error::Busy`] if another process answers there, [`Error::Occupied`] if what is there is no socket, [`Error::Listen`]
    /// for what the kernel refuses, [`Error::Thread`].
    pub fn listen(path: &Path, group: u32, wake: Thread) -> Result<Server, Error> {
        let no_thread = |e: String| Error::Thread(e);
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| no_thread(format!("eventfd: {e}")))?;
        let (listener, bound) = bind::listen_at(path, group)?;
        let shared = Arc::new(Shared::new(wake, event));
        let serve = Serve::new(shared.clone(), listener, group);
        let (ready, is_ready) = mpsc::sync_channel(1);
        let body = move || {
            let blocked = crate::launch::block_signals();
            let go = blocked.is_ok();
            let _ = ready.send(blocked);
            if go {
                serve.run();
            }
        };
        let thread = std::thread::Builder::new()
            .name("control-socket".into())
            .spawn(body)
            .map_err(|e| no_thread(e.to_string()))?;
        let server = Server {
            shared,
            thread: Some(thread),
            bound: Some(bound),
        };
        match is_ready.recv() {
            Ok(Ok(())) => Ok(server),
            Ok(Err(e)) => Err(no_thread(e)),
            Err(_) => Err(no_thread("it ended".into())),
        }
    }

    /// What happened next, in order; None if nothing has. Never waits.
    pub fn next(&self) -> Option<Incoming> {
        loop {
            match self.shared.take()? {
                Entry::Connected(client) => {
                    return Some(Incoming::Connected {
                        client: client.id,
                        credentials: client.credentials,
                    });
                }
                Entry::Gone(client) => return Some(Incoming::Gone { client }),
                Entry::Packet(client, bytes, fds) => {
                    if client.taken(bytes.len(), fds.len()) {
                        self.shared.rouse();
                    }
                    if !client.is_silent() {
                        let client = client.id;
                        return Some(Incoming::Packet { client, bytes, fds });
                    }
                }
            }
        }
    }

    /// Sends a packet, 1 byte to [`LONGEST`], with a file descriptor if one is given. Never waits: what the kernel does not
    /// take now is sent in order later. A client for which more than [`QUEUE_BYTES`] or [`QUEUE_PACKETS`] would wait is
    /// disconnected, as is one that a longer packet is for. What is for a client that is gone, and an empty packet, which
    /// would read as the end of the connection, is dropped.
    pub fn send(&self, client: ClientId, packet: Vec<u8>, fd: Option<OwnedFd>) {
        let bytes = Zeroizing::new(packet);
        if let Some(client) = self.shared.get(client)
            && client.send(Packet { bytes, fd })
        {
            self.shared.rouse();
        }
    }

    /// A further connection with the credentials of a client, and its other end, to be sent to the client (socketpair(2); it
    /// blocks unless the client sets it otherwise). It does not end with that client.
    ///
    /// # Errors
    /// [`Error::NoClient`] if that one is gone, [`Error::Full`], [`Error::Pair`] for what the kernel refuses.
    pub fn pair(&self, of: ClientId) -> Result<(ClientId, OwnedFd), Error> {
        let of = self.shared.get(of).ok_or(Error::NoClient)?;
        let (unix, packets) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (ours, theirs) =
            socketpair(unix, packets, SocketFlags::CLOEXEC, None).map_err(|e| Error::Pair(e.into()))?;
        let client = self.shared.add(of.credentials, ours).ok_or(Error::Full)?;
        self.shared.rouse();
        Ok((client.id, theirs))
    }

    /// Ends a connection once what waits for the client has been sent, after [`LINGER`] at the latest. No packet of it is told
    /// of any more, only [`Incoming::Gone`].
    pub fn close(&self, client: ClientId) {
        if let Some(client) = self.shared.get(client) {
            client.close();
            self.shared.rouse();
        }
    }

    /// How many have been disconnected for who they are.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // First, so that nobody connects to what is about to end.
        self.bound = None;
        self.shared.stop.store(true, Ordering::Release);
        self.shared.rouse();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bound, refused) = (&self.bound, self.refused());
        f.debug_struct("Server")
            .field("bound", bound)
            .field("refused", &refused)
            .finish_non_exhaustive()
    }
}

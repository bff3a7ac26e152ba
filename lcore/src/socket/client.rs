//! One connection: what is to be sent, and how much of what it sent waits.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown, sockopt};
use zeroize::Zeroizing;

use super::packet::{self, Packet, Received, transmit};
use super::{ClientId, Credentials, Fds, LINGER, LONGEST, QUEUE_BYTES, QUEUE_PACKETS, WAITING};

/// The send buffer asked for, in bytes: a dump of thousands of peers fits.
const SEND_BUFFER: usize = 4 << 20;
/// What a waiting packet counts for besides its bytes.
const PACKET: usize = 1 << 10;
/// What a waiting file descriptor counts for.
const FD: usize = 16 << 10;
/// Packets sent of one client before others have their turn.
const BURST: usize = 64;

/// A connection.
pub(super) struct Client {
    pub(super) id: ClientId,
    pub(super) credentials: Credentials,
    socket: OwnedFd,
    out: Mutex<Outbound>,
    /// What of its packets the control thread has not taken: bytes, and more for each packet and descriptor.
    waiting: AtomicUsize,
    /// It is not read from until the control thread has taken some of that.
    paused: AtomicBool,
    /// Nothing more of it is of interest.
    silent: AtomicBool,
}

#[derive(Default)]
struct Outbound {
    queue: VecDeque<Packet>,
    bytes: usize,
    state: State,
}

#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    Open,
    /// To be closed when the queue is empty, at that time at the latest.
    Closing(Instant),
    /// Nothing can be sent any more; what it had sent is still there to be read.
    Broken,
    /// To be closed at once.
    Over,
}

/// What to do about a client next.
pub(super) enum Next {
    /// Wait for this, until that time at the latest.
    Wait(PollFlags, Option<Instant>),
    /// Read without waiting.
    Read,
    /// Take it away.
    Remove,
}

/// What reading from a client gave.
pub(super) enum Read {
    /// A packet.
    Packet(Zeroizing<Vec<u8>>, Fds),
    /// Nothing now.
    Nothing,
    /// Nothing ever again.
    End,
}

impl Client {
    pub(super) fn new(id: ClientId, credentials: Credentials, socket: OwnedFd) -> Client {
        if sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER).is_err() {
            // Without CAP_NET_ADMIN: as much as net.core.wmem_max allows. With less, more waits in the queue.
            let _ = sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER);
        }
        Client {
            id,
            credentials,
            socket,
            out: Mutex::default(),
            waiting: AtomicUsize::new(0),
            paused: AtomicBool::new(false),
            silent: AtomicBool::new(false),
        }
    }

    fn out(&self) -> MutexGuard<'_, Outbound> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends, or leaves the packet for [`Client::flush`]. Whether there is something for the thread to do.
    pub(super) fn send(&self, packet: Packet) -> bool {
        let mut out = self.out();
        if !matches!(out.state, State::Open) {
            return false;
        }
        let length = packet.bytes.len();
        if length == 0 {
            // It would read as the end of the connection.
            return false;
        }
        if length > LONGEST {
            tracing::error!(
                "control socket: {self} is closed: a packet of {length} bytes for it is too long"
            );
            self.end(&mut out);
            return true;
        }
        let first = out.queue.is_empty();
        if first {
            match transmit(self.as_fd(), &packet) {
                Ok(()) => return false,
                Err(Errno::AGAIN) => {}
                Err(e) => {
                    self.fail(&mut out, e);
                    return true;
                }
            }
        }
        if out.queue.len() >= QUEUE_PACKETS || out.bytes + length > QUEUE_BYTES {
            let (packets, bytes) = (out.queue.len(), out.bytes);
            tracing::warn!(
                "control socket: {self} is closed: it reads too slowly, {packets} packets of {bytes} bytes wait for it"
            );
            self.end(&mut out);
            return true;
        }
        out.bytes += length;
        out.queue.push_back(packet);
        first
    }

    /// Sends what waits, as much as fits. The lock is held for one packet at a time.
    pub(super) fn flush(&self) {
        for _ in 0..BURST {
            let mut out = self.out();
            let Some(packet) = out.queue.front() else {
                return;
            };
            match transmit(self.as_fd(), packet) {
                Ok(()) => {
                    out.bytes -= packet.bytes.len();
                    out.queue.pop_front();
                }
                Err(Errno::AGAIN) => return,
                Err(e) => return self.fail(&mut out, e),
            }
        }
    }

    fn fail(&self, out: &mut Outbound, e: Errno) {
        match e {
            Errno::PIPE | Errno::CONNRESET | Errno::CONNREFUSED => {}
            e => tracing::warn!("control socket: {self} is closed: nothing can be sent to it: {e}"),
        }
        out.drain();
        out.state = match out.state {
            State::Open => State::Broken,
            _ => State::Over,
        };
    }

    fn end(&self, out: &mut Outbound) {
        self.silent.store(true, Ordering::Release);
        out.drain();
        out.state = State::Over;
    }

    /// Ends the connection when what waits has been sent, or when that takes too long.
    pub(super) fn close(&self) {
        self.silent.store(true, Ordering::Release);
        let mut out = self.out();
        out.state = match out.state {
            State::Open => State::Closing(Instant::now() + LINGER),
            State::Broken => State::Over,
            state => state,
        };
    }

    /// Whether what it sent is of no interest any more.
    pub(super) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Acquire)
    }

    /// Ends the connection for the other side too, whoever else holds this.
    pub(super) fn hang_up(&self) {
        self.out().drain();
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    pub(super) fn next(&self, now: Instant) -> Next {
        let out = self.out();
        let paused = self.is_paused();
        match out.state {
            State::Over => Next::Remove,
            State::Closing(_) if out.queue.is_empty() => Next::Remove,
            State::Closing(until) if until <= now => {
                tracing::debug!("control socket: {self} is closed before it has read all");
                Next::Remove
            }
            State::Closing(until) => Next::Wait(PollFlags::OUT, Some(until)),
            State::Broken if paused => Next::Wait(PollFlags::empty(), None),
            State::Broken => Next::Read,
            State::Open => {
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::IN, !paused);
                flags.set(PollFlags::OUT, !out.queue.is_empty());
                Next::Wait(flags, None)
            }
        }
    }

    /// Whether so much of it waits that no more is read. The control thread says when that has changed.
    fn is_paused(&self) -> bool {
        if self.waiting.load(Ordering::SeqCst) >= WAITING {
            self.paused.store(true, Ordering::SeqCst);
            // Taken meanwhile by one who did not see the flag.
            if self.waiting.load(Ordering::SeqCst) < WAITING / 2 {
                self.paused.store(false, Ordering::SeqCst);
            }
        }
        self.paused.load(Ordering::SeqCst)
    }

    /// The control thread has taken a packet. Whether reading goes on, which the thread is to be told.
    pub(super) fn taken(&self, bytes: usize, fds: usize) -> bool {
        let weight = weight(bytes, fds);
        let left = self.waiting.fetch_sub(weight, Ordering::SeqCst) - weight;
        left < WAITING / 2 && self.paused.swap(false, Ordering::SeqCst)
    }

    /// Reads one packet, by way of a buffer of [`LONGEST`] bytes that is wiped again.
    pub(super) fn read(&self, buffer: &mut Zeroizing<Vec<u8>>) -> Read {
        if self.is_silent() || self.is_paused() {
            return Read::Nothing;
        }
        // The first error may be a reset, said once, that comes before what there is to read.
        for _ in 0..3 {
            match self.receive(buffer) {
                Ok(read) => return read,
                Err(Errno::CONNRESET | Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let broken = matches!(self.out().state, State::Broken);
                    return if broken { Read::End } else { Read::Nothing };
                }
                Err(e) => {
                    tracing::warn!("control socket: {self} is closed: nothing can be read from it: {e}");
                    return Read::End;
                }
            }
        }
        Read::End
    }

    fn receive(&self, buffer: &mut Zeroizing<Vec<u8>>) -> Result<Read, Errno> {
        let received = packet::receive(self.as_fd(), buffer)?;
        if received.cut {
            tracing::warn!("control socket: {self} is closed: it sent a packet of more than {LONGEST} bytes");
            return Ok(Read::End);
        }
        let Received { bytes, fds, .. } = received;
        if bytes.is_empty() {
            return Ok(Read::End);
        }
        if received.fds_cut {
            tracing::debug!("control socket: {self}: only some file descriptors of a packet were taken");
        }
        self.waiting
            .fetch_add(weight(bytes.len(), fds.len()), Ordering::SeqCst);
        Ok(Read::Packet(bytes, fds))
    }
}

impl Outbound {
    fn drain(&mut self) {
        self.queue.clear();
        self.bytes = 0;
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Credentials { pid, uid, .. } = self.credentials;
        write!(f, "client {} (process {pid}, uid {uid})", self.id.0)
    }
}

fn weight(bytes: usize, fds: usize) -> usize {
    PACKET + bytes + fds * FD
}

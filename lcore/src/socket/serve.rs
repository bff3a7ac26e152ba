//! The socket's thread: who comes, what they send, and what waits for them.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use zeroize::Zeroizing;

use super::client::{Client, Next, Read};
use super::shared::{Entry, Shared};
use super::{CONNECTIONS, LONGEST, options};

/// Packets read of one client before others have their turn.
const BURST: usize = 16;
/// How long to wait when the kernel has no more descriptors or memory to give.
const PAUSE: Duration = Duration::from_millis(100);
/// Uids that are remembered as told of.
const UIDS: usize = 1024;

/// What the thread has for itself.
pub(super) struct Serve {
    shared: Arc<Shared>,
    listener: OwnedFd,
    /// Who may connect besides root.
    group: u32,
    /// No more are accepted until then.
    pause: Option<Instant>,
    /// It was said that no more can be accepted.
    told: bool,
    /// Who was refused, and that was said.
    uids: BTreeSet<u32>,
    buffer: Zeroizing<Vec<u8>>,
}

impl Serve {
    pub(super) fn new(shared: Arc<Shared>, listener: OwnedFd, group: u32) -> Serve {
        Serve {
            shared,
            listener,
            group,
            pause: None,
            told: false,
            uids: BTreeSet::new(),
            buffer: Zeroizing::new(vec![0; LONGEST]),
        }
    }

    /// Serves until the server is dropped, and ends all connections then.
    pub(super) fn run(mut self) {
        while !self.shared.stop.load(Ordering::Acquire) {
            self.round();
        }
        for client in self.shared.all() {
            client.hang_up();
        }
    }

    /// Waits for something to do, and does it.
    fn round(&mut self) {
        let now = Instant::now();
        if self.pause.is_some_and(|until| until <= now) {
            self.pause = None;
        }
        let mut until = self.pause;
        let (mut waiting, mut reading) = (Vec::new(), Vec::new());
        for client in self.shared.all() {
            match client.next(now) {
                Next::Remove => self.remove(&client),
                Next::Read => reading.push(client),
                Next::Wait(flags, at_most) => {
                    until = [until, at_most].into_iter().flatten().min();
                    // A hang-up is told whether asked for or not, so one of which nothing is wanted is left out.
                    if !flags.is_empty() {
                        waiting.push((client, flags));
                    }
                }
            }
        }
        if !reading.is_empty() {
            until = Some(now);
        }
        let ready = self.wait(&waiting, until);
        self.shared.calm();
        self.accept();
        for client in reading {
            self.read(&client);
        }
        for ((client, _), ready) in waiting.iter().zip(ready) {
            if ready.is_empty() {
                continue;
            }
            client.flush();
            self.read(client);
        }
    }

    /// What each client is ready for, once anything is.
    fn wait(&self, clients: &[(Arc<Client>, PollFlags)], until: Option<Instant>) -> Vec<PollFlags> {
        let accepting = match self.pause {
            None => PollFlags::IN,
            Some(_) => PollFlags::empty(),
        };
        let mut fds = vec![
            PollFd::new(&self.shared.event, PollFlags::IN),
            PollFd::new(&self.listener, accepting),
        ];
        fds.extend(
            clients
                .iter()
                .map(|(client, flags)| PollFd::new(&**client, *flags)),
        );
        let left = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => {
                tracing::warn!("control socket: poll: {e}");
                std::thread::sleep(PAUSE);
            }
        }
        fds[2..].iter().map(PollFd::revents).collect()
    }

    /// Takes in who has connected.
    fn accept(&mut self) {
        while self.pause.is_none() {
            match accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(socket) => self.admit(socket),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(e) => {
                    self.tell(&format!("nobody can be accepted now: {e}"));
                    self.pause = Some(Instant::now() + PAUSE);
                }
            }
        }
    }

    /// Looks at who it is.
    fn admit(&mut self, socket: OwnedFd) {
        let credentials = match options::credentials(socket.as_fd()) {
            Ok(credentials) => credentials,
            Err(e) => return self.tell(&format!("one who connected cannot be told: {e}")),
        };
        let (uid, gid) = (credentials.uid, credentials.gid);
        let may = uid == 0 || gid == self.group || options::is_in_group(socket.as_fd(), self.group);
        if !may {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            if self.uids.len() < UIDS && self.uids.insert(uid) {
                let (pid, group) = (credentials.pid, self.group);
                tracing::warn!(
                    "control socket: uid {uid} (process {pid}, group {gid}) is refused: neither root nor of group {group}"
                );
            }
            return;
        }
        match self.shared.add(credentials, socket) {
            Some(client) => {
                self.told = false;
                self.shared.leave(Entry::Connected(client));
            }
            None => self.tell(&format!(
                "one who connected is turned away: there are {CONNECTIONS} connections"
            )),
        }
    }

    /// Says it unless it was said since one could be accepted last.
    fn tell(&mut self, what: &str) {
        if !self.told {
            tracing::warn!("control socket: {what}");
        }
        self.told = true;
    }

    fn read(&mut self, client: &Arc<Client>) {
        for _ in 0..BURST {
            match client.read(&mut self.buffer) {
                Read::Packet(bytes, fds) => self.shared.leave(Entry::Packet(client.clone(), bytes, fds)),
                Read::Nothing => return,
                Read::End => return self.remove(client),
            }
        }
    }

    fn remove(&self, client: &Client) {
        client.hang_up();
        self.shared.remove(client.id);
        self.shared.leave(Entry::Gone(client.id));
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

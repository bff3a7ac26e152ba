//! What the socket's thread and the control thread have in common. Every lock is held for a few instructions.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

use zeroize::Zeroizing;

use super::client::Client;
use super::{CONNECTIONS, ClientId, Credentials, Fds};

/// Something for the control thread.
pub(super) enum Entry {
    Connected(Arc<Client>),
    Packet(Arc<Client>, Zeroizing<Vec<u8>>, Fds),
    Gone(ClientId),
}

pub(super) struct Shared {
    clients: Mutex<BTreeMap<ClientId, Arc<Client>>>,
    /// Bounded by the connections and by what may wait of each.
    entries: Mutex<VecDeque<Entry>>,
    /// Connections, and those that have ended but of which the control thread does not know yet.
    connections: AtomicUsize,
    last: AtomicU64,
    /// The control thread.
    wake: Thread,
    /// Wakes the socket's thread.
    pub(super) event: OwnedFd,
    pub(super) stop: AtomicBool,
    pub(super) refused: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(wake: Thread, event: OwnedFd) -> Shared {
        Shared {
            clients: Mutex::default(),
            entries: Mutex::default(),
            connections: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            wake,
            event,
            stop: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        }
    }

    /// Another connection; None if there are as many as there may be, and the socket is closed.
    pub(super) fn add(&self, credentials: Credentials, socket: OwnedFd) -> Option<Arc<Client>> {
        let more = |n| (n < CONNECTIONS).then_some(n + 1);
        self.connections
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
            .ok()?;
        let id = ClientId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let client = Arc::new(Client::new(id, credentials, socket));
        lock(&self.clients).insert(id, client.clone());
        Some(client)
    }

    pub(super) fn get(&self, id: ClientId) -> Option<Arc<Client>> {
        lock(&self.clients).get(&id).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Client>> {
        lock(&self.clients).values().cloned().collect()
    }

    pub(super) fn remove(&self, id: ClientId) {
        lock(&self.clients).remove(&id);
    }

    /// Leaves something for the control thread, and wakes it.
    pub(super) fn leave(&self, entry: Entry) {
        lock(&self.entries).push_back(entry);
        self.wake.unpark();
    }

    /// What the control thread is to know next.
    pub(super) fn take(&self) -> Option<Entry> {
        let entry = lock(&self.entries).pop_front();
        if matches!(entry, Some(Entry::Gone(_))) {
            self.connections.fetch_sub(1, Ordering::AcqRel);
        }
        entry
    }

    /// Has the socket's thread look at its clients.
    pub(super) fn rouse(&self) {
        // At worst the counter is full of earlier calls, of which the thread will hear.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// The socket's thread looks now.
    pub(super) fn calm(&self) {
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }
}

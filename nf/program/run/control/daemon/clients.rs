//! Who is connected to the control socket.
//!
//! A client is a process: its first connection, and those that came of it by OPEN.

use crate::program::exit::Failure;
use lcore::socket::{ClientId, Credentials, Incoming, Server};
use nf_control::Mode;
use nf_control::dco::{self, Errno, Family, Header, Notification, Refusal, reply};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

/// Most connections of one client. A daemon has two or three.
const EACH: usize = 16;

/// That a daemon drives a tunnel.
pub struct Claim {
    /// The client.
    pub client: ClientId,
    /// For log lines.
    pub who: String,
    /// Since when.
    pub since: Instant,
    /// What it speaks; None until it said something about a peer.
    pub family: Option<Family>,
}

/// One connection.
struct Connection {
    /// The connection that it came of, or itself.
    client: ClientId,
    credentials: Credentials,
    /// What the process is called.
    command: String,
    protocol: Option<u32>,
    /// Netlink protocol of the client's first connection: that of a daemon is rtnetlink, that of a reader of reports is not.
    first: Option<u32>,
    /// Whose notifications it wants.
    groups: BTreeSet<Family>,
    /// Whether it has asked for an interface that is none of the gateway's.
    foreign: bool,
    since: Instant,
}

/// A client, for reports.
pub struct Client {
    /// Its first connection.
    pub client: ClientId,
    /// Process and user.
    pub credentials: Credentials,
    /// What the process is called.
    pub command: String,
    /// Since when.
    pub since: Instant,
}

/// The control socket and who is connected to it.
pub struct Clients {
    server: Server,
    connections: BTreeMap<ClientId, Connection>,
}

impl Clients {
    /// Listens. The calling thread is woken for whatever comes.
    ///
    /// # Errors
    /// The group is not there, or the path is taken.
    pub fn listen(path: &Path, group: &str) -> Result<Clients, Failure> {
        let found = nix::unistd::Group::from_name(group);
        let gid = found
            .map_err(|e| Failure::machine(format!("control.group: {group:?}: {e}")))?
            .ok_or_else(|| Failure::usage(format!("control.group: there is no group {group:?}")))?
            .gid
            .as_raw();
        let server = Server::listen(path, gid, std::thread::current()).map_err(Failure::machine)?;
        Ok(Clients {
            server,
            connections: BTreeMap::new(),
        })
    }

    /// What has come in.
    pub fn next(&self) -> Option<Incoming> {
        self.server.next()
    }

    /// A new connection by path.
    pub fn connected(&mut self, id: ClientId, credentials: Credentials) {
        let connection = Connection {
            client: id,
            command: command(credentials.pid),
            credentials,
            protocol: None,
            first: None,
            groups: BTreeSet::new(),
            foreign: false,
            since: Instant::now(),
        };
        self.connections.insert(id, connection);
    }

    /// The netlink protocol of a connection, None inside before its HELLO; None: it is not there.
    pub fn protocol(&self, id: ClientId) -> Option<Option<u32>> {
        self.connections.get(&id).map(|c| c.protocol)
    }

    /// The client that a connection belongs to.
    pub fn client(&self, id: ClientId) -> Option<ClientId> {
        self.connections.get(&id).map(|c| c.client)
    }

    /// For log lines: "process 77 (openvpn)".
    pub fn name(&self, id: ClientId) -> String {
        self.connections.get(&id).map_or_else(
            || "a process that is gone".into(),
            |c| format!("process {} ({})", c.credentials.pid, c.command),
        )
    }

    /// The first packet of a connection.
    pub fn hello(&mut self, id: ClientId, header: &Header, version: u32, protocol: u32) {
        let known = [ovpn_dco_protocol::ROUTE, ovpn_dco_protocol::GENERIC];
        let wrong = if version != ovpn_dco_protocol::VERSION {
            let ours = ovpn_dco_protocol::VERSION;
            format!("it speaks version {version} of the control socket's protocol, this gateway {ours}")
        } else if !known.contains(&protocol) {
            format!("netlink protocol {protocol}")
        } else {
            if let Some(connection) = self.connections.get_mut(&id) {
                (connection.protocol, connection.first) = (Some(protocol), Some(protocol));
            }
            return self.send(id, reply::ack(header));
        };
        tracing::warn!("{}: refused: {wrong}", self.name(id));
        let refusal = Refusal {
            errno: Errno::EPROTONOSUPPORT,
            text: wrong,
        };
        self.send(id, reply::error(header, &refusal));
        self.close(id);
    }

    /// Another connection of a client, which may be another process by now: one that it has forked.
    pub fn open(&mut self, from: ClientId, header: &Header, protocol: u32) {
        self.is_now(from, header.pid);
        let Some(parent) = self.connections.get(&from) else {
            return;
        };
        let has = self
            .connections
            .values()
            .filter(|c| c.client == parent.client)
            .count();
        if has >= EACH {
            let text = format!("{} has {EACH} connections already", self.name(from));
            tracing::warn!("{text}");
            let errno = Errno::EBUSY;
            return self.send(from, reply::error(header, &Refusal { errno, text }));
        }
        let connection = Connection {
            client: parent.client,
            credentials: parent.credentials,
            command: parent.command.clone(),
            protocol: Some(protocol),
            first: parent.first,
            groups: BTreeSet::new(),
            foreign: false,
            since: Instant::now(),
        };
        match self.server.pair(from) {
            Ok((id, theirs)) => {
                self.connections.insert(id, connection);
                self.server.send(from, reply::ack(header), Some(theirs));
            }
            Err(e) => {
                tracing::warn!("{}: no further connection: {e}", self.name(from));
                let refusal = Refusal {
                    errno: Errno::EIO,
                    text: e.to_string(),
                };
                self.send(from, reply::error(header, &refusal));
            }
        }
    }

    /// A client is this process now, by its own word; 0: as before. Only for reports and the log.
    fn is_now(&mut self, from: ClientId, pid: u32) {
        let Some(client) = self.client(from).filter(|_| pid != 0) else {
            return;
        };
        let command = command(pid);
        for connection in self.connections.values_mut().filter(|c| c.client == client) {
            if connection.credentials.pid != pid {
                connection.credentials.pid = pid;
                connection.command.clone_from(&command);
            }
        }
    }

    /// A connection wants the notifications of a group. A number that is no group of ours is as with netlink: nothing
    /// ever comes.
    pub fn subscribe(&mut self, id: ClientId, group: u32) {
        if let (Some(connection), Some(family)) = (self.connections.get_mut(&id), dco::family_of_group(group))
        {
            connection.groups.insert(family);
        }
    }

    /// Notes that a connection asks for an interface that is none of the gateway's. Whether it is the first.
    pub fn asks_for_foreign(&mut self, id: ClientId) -> bool {
        let connection = self.connections.get_mut(&id);
        connection.is_some_and(|c| !std::mem::replace(&mut c.foreign, true))
    }

    /// Sends a packet.
    pub fn send(&self, to: ClientId, packet: Vec<u8>) {
        self.server.send(to, packet, None);
    }

    /// Tells those that subscribed: the connections of the client that drives the tunnel, and those of clients that drive
    /// none and only look on.
    pub fn notify(
        &self,
        driver: ClientId,
        drivers: &BTreeSet<ClientId>,
        interface: u32,
        what: &Notification,
    ) {
        for (id, connection) in &self.connections {
            if connection.client != driver && drivers.contains(&connection.client) {
                continue;
            }
            // A 2.6 daemon that drives nothing yet does not look at whose interface it is.
            let own = |family: &&Family| connection.client == driver || **family == Family::Ovpn;
            for family in connection.groups.iter().filter(own) {
                if let Some(packet) = dco::notification(*family, interface, what) {
                    self.send(*id, packet);
                }
            }
        }
    }

    /// Ends a connection.
    pub fn close(&mut self, id: ClientId) {
        self.server.close(id);
    }

    /// A connection has ended; the client, if it was its last one.
    pub fn gone(&mut self, id: ClientId) -> Option<ClientId> {
        let gone = self.connections.remove(&id)?;
        let more = self.connections.values().any(|c| c.client == gone.client);
        (!more).then_some(gone.client)
    }

    /// All clients that are daemons: those that ask for interfaces.
    pub fn daemons(&self) -> Vec<Client> {
        let mut all: Vec<Client> = Vec::new();
        let daemons = |c: &&Connection| c.first == Some(ovpn_dco_protocol::ROUTE);
        for connection in self.connections.values().filter(daemons) {
            if all.iter().all(|c| c.client != connection.client) {
                all.push(Client {
                    client: connection.client,
                    credentials: connection.credentials,
                    command: connection.command.clone(),
                    since: connection.since,
                });
            }
        }
        all
    }
}

/// What a process is called.
fn command(pid: u32) -> String {
    let command = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    command.map_or_else(|_| "?".into(), |c| c.trim_end().into())
}

/// A tunnel's mode as the configuration has it.
pub(super) fn mode(mode: Mode) -> nf_path::tunnel::Mode {
    crate::program::run::plan::mode(mode)
}

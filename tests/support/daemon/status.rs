//! A daemon's status file (`status-version 2`).

use crate::gateway::wait_for;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// How long after its last line a version is taken for whole.
const SETTLED: Duration = Duration::from_millis(200);

/// What it says.
pub struct StatusFile {
    /// A server's clients.
    pub clients: Vec<ClientRow>,
    /// Lines of a name and a number, such as `TUN/TAP read bytes` of a client and `dco_enabled` of a server.
    pub numbers: BTreeMap<String, u64>,
    /// All of it.
    pub text: String,
}

/// A client of a server.
#[derive(Clone, Debug)]
pub struct ClientRow {
    /// Common name.
    pub name: String,
    /// Outer address and port.
    pub real: String,
    /// VPN addresses: IPv4 and IPv6.
    pub addresses: [String; 2],
    /// Bytes received by the server, and sent, in the UDP payload.
    pub received: u64,
    /// Bytes sent by the server, in the UDP payload.
    pub sent: u64,
    /// The server's number of the client, as its management interface has it.
    pub client: u64,
    /// Peer id.
    pub peer: u64,
    /// The cipher of its data channel.
    pub cipher: String,
}

impl StatusFile {
    /// The next version that the daemon writes. It writes over the one before, line by line, so a version is whole when its
    /// end is there and nothing has been written for a while.
    pub fn next(path: &Path) -> StatusFile {
        let written = || fs::metadata(path).and_then(|file| file.modified()).ok();
        let before = written();
        let mut text = String::new();
        wait_for("the status file", || {
            let version = written().filter(|_| written() != before);
            let Some(age) = version.and_then(|time| time.elapsed().ok()) else {
                return false;
            };
            text = fs::read_to_string(path).unwrap_or_default();
            age >= SETTLED && written() == version && text.trim_end().ends_with("END")
        });
        StatusFile::parse(text)
    }

    /// The client with that common name.
    pub fn client(&self, name: &str) -> Option<&ClientRow> {
        self.clients.iter().find(|client| client.name == name)
    }

    /// From the text of a status file, or of the management interface's answer to `status 2`.
    pub fn parse(text: String) -> StatusFile {
        let mut columns: Vec<&str> = Vec::new();
        let (mut clients, mut numbers) = (Vec::new(), BTreeMap::new());
        for line in text.lines() {
            let fields: Vec<&str> = line.split(',').collect();
            match &fields[..] {
                ["HEADER", "CLIENT_LIST", names @ ..] => columns = names.to_vec(),
                ["CLIENT_LIST", values @ ..] => {
                    let row: BTreeMap<_, _> = columns.iter().copied().zip(values.iter().copied()).collect();
                    clients.push(ClientRow::of(&row));
                }
                ["GLOBAL_STATS", name, value] | [name, value] => {
                    if let Ok(value) = value.parse() {
                        numbers.insert((*name).to_owned(), value);
                    }
                }
                _ => {}
            }
        }
        StatusFile {
            clients,
            numbers,
            text,
        }
    }
}

impl ClientRow {
    fn of(row: &BTreeMap<&str, &str>) -> ClientRow {
        let text = |column: &str| {
            (*row
                .get(column)
                .unwrap_or_else(|| panic!("no {column} in {row:?}")))
            .to_owned()
        };
        let number = |column: &str| text(column).parse().unwrap_or_else(|e| panic!("{column}: {e}"));
        ClientRow {
            name: text("Common Name"),
            real: text("Real Address"),
            addresses: [text("Virtual Address"), text("Virtual IPv6 Address")],
            received: number("Bytes Received"),
            sent: number("Bytes Sent"),
            client: number("Client ID"),
            peer: number("Peer ID"),
            cipher: text("Data Channel Cipher"),
        }
    }
}

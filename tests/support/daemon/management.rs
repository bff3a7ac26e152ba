//! A daemon's management interface, over a unix socket.

use crate::gateway::PATIENCE;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

/// A connection to it. A daemon serves one at a time.
pub struct Management {
    input: BufReader<UnixStream>,
    output: UnixStream,
    /// Notifications (lines that begin with `>`) read while an answer was waited for.
    notifications: Vec<String>,
}

/// Bytes of one client by `bytecount`, in the UDP payload: what the server received from it, and sent to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteCount {
    /// The server's number of the client; 0 where the daemon is the client.
    pub client: u64,
    /// Received by the daemon.
    pub received: u64,
    /// Sent by the daemon.
    pub sent: u64,
}

impl Management {
    /// Connects.
    pub fn open(path: &Path) -> Management {
        let output = UnixStream::connect(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        output.set_read_timeout(Some(PATIENCE)).expect("not zero");
        let input = output.try_clone().expect("a descriptor is free");
        Management {
            input: BufReader::new(input),
            output,
            notifications: Vec::new(),
        }
    }

    /// A command and the lines of its answer: those before END, or the one that begins with SUCCESS.
    pub fn command(&mut self, command: &str) -> Vec<String> {
        self.output
            .write_all(format!("{command}\n").as_bytes())
            .expect("the daemon runs");
        let mut lines = Vec::new();
        loop {
            let line = self.line();
            assert!(!line.starts_with("ERROR:"), "{command}: {line}");
            match line {
                end if end == "END" => return lines,
                notification if notification.starts_with('>') => self.notifications.push(notification),
                success if success.starts_with("SUCCESS:") => return vec![success],
                other => lines.push(other),
            }
        }
    }

    /// The next notification that begins with this text, after the `>`; others before it are passed over.
    pub fn notification(&mut self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            while !self.notifications.is_empty() {
                let next = self.notifications.remove(0);
                if next[1..].starts_with(text) {
                    return next;
                }
            }
            assert!(Instant::now() < until, "no notification {text}");
            let line = self.line();
            self.notifications.push(line);
        }
    }

    /// Waits for the byte counts of a client, or of the daemon's own connection (client 0), that satisfy; they come
    /// once a second after the command `bytecount 1`, when they have changed.
    pub fn byte_count(&mut self, client: u64, mut satisfies: impl FnMut(ByteCount) -> bool) -> ByteCount {
        let until = Instant::now() + PATIENCE;
        loop {
            let line = self.notification("BYTECOUNT");
            let count = ByteCount::parse(&line).unwrap_or_else(|| panic!("{line}"));
            if count.client == client && satisfies(count) {
                return count;
            }
            assert!(Instant::now() < until, "last byte count: {count:?}");
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.input.read_line(&mut line);
        assert!(
            read.expect("the daemon answers") > 0,
            "the daemon closed its management interface"
        );
        line.trim_end().to_owned()
    }
}

impl ByteCount {
    /// Of `>BYTECOUNT_CLI:CLIENT,RECEIVED,SENT` or `>BYTECOUNT:RECEIVED,SENT`.
    fn parse(line: &str) -> Option<ByteCount> {
        let (word, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> = numbers
            .split(',')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .ok()?;
        match (word, &numbers[..]) {
            (">BYTECOUNT_CLI", [client, received, sent]) => Some(ByteCount {
                client: *client,
                received: *received,
                sent: *sent,
            }),
            (">BYTECOUNT", [received, sent]) => Some(ByteCount {
                client: 0,
                received: *received,
                sent: *sent,
            }),
            _ => None,
        }
    }
}

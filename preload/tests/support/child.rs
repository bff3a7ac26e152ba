//! Processes with the library loaded.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ovpn_dco_protocol::SOCKET_VARIABLE;

/// The library: beside this test.
pub fn library() -> PathBuf {
    let path = std::env::current_exe()
        .unwrap()
        .with_file_name("libovpn_dco_preload.so");
    assert!(
        path.exists(),
        "{} is missing: cargo build -p ovpn-dco-preload",
        path.display()
    );
    path
}

/// A command with the library and, if given, the path of the socket.
pub fn preloaded(program: &str, socket: Option<&Path>) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library()).env_remove(SOCKET_VARIABLE);
    if let Some(socket) = socket {
        command.env(SOCKET_VARIABLE, socket);
    }
    command
}

/// A running Python script that takes and gives lines.
pub struct Script {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Script {
    /// Starts a script.
    pub fn start(socket: Option<&Path>, text: &str) -> Script {
        Script::from_command(preloaded("python3", socket), text)
    }

    /// Starts a script of a prepared command.
    pub fn from_command(mut command: Command, text: &str) -> Script {
        let text = format!("{}\n{text}", include_str!("netlink.py"));
        let mut child = command
            .args(["-c", &text])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        Script { child, to, from }
    }

    /// The next line that it prints; nothing when it has ended.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Waits for a line.
    pub fn expect(&mut self, wanted: &str) {
        let line = self.line();
        assert_eq!(line, wanted, "the script said something else");
    }

    /// Gives it a line.
    pub fn say(&mut self, line: &str) {
        writeln!(self.to, "{line}").unwrap();
    }

    /// Waits for its end, which must be a good one.
    pub fn end(mut self) -> String {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.from, &mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "the script failed: {status}, {rest}");
        rest.trim_end().to_owned()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! `run` as a bare process.

#![allow(dead_code, reason = "no test uses all of it")]

use super::Settings;
use crate::gateway::wait_for;
use std::fs;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// `run` as a bare process, for what `Gateway` does not do: a name that was used before, an end that is a failure.
pub struct Process {
    child: Child,
    folder: TempDir,
}

impl Process {
    /// Starts it with this name.
    pub fn start(name: &str, settings: &Settings) -> Process {
        Process::start_with(
            &format!("name = \"{name}\"\n{}", settings.config()),
            &settings.keys(),
        )
    }

    /// Starts it with these files.
    pub fn start_with(config: &str, keys: &str) -> Process {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("gw.toml"), config).expect("a new folder");
        fs::write(path("keys.json"), keys).expect("a new folder");
        let file = |name: &str| fs::File::create(path(name)).expect("a new folder");
        let child = Command::new(env!("CARGO_BIN_EXE_ovpn-dpdk"))
            .args(["run", "--config"])
            .arg(path("gw.toml"))
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .expect("the program starts");
        Process { child, folder }
    }

    /// What it logged.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.folder.path().join("err")).expect("its log")
    }

    /// Waits until packets flow.
    pub fn ready(mut self) -> Process {
        let out = self.folder.path().join("out");
        wait_for("ready", || {
            let ended = self.child.try_wait().expect("a child");
            assert!(ended.is_none(), "{}", self.stderr());
            fs::read_to_string(&out).is_ok_and(|out| out.contains("ready"))
        });
        self
    }

    /// Waits for its end: exit code, and the one line on stderr that is no log line.
    pub fn failed(mut self) -> (i32, String) {
        let mut status = None;
        wait_for("its end", || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        let text = self.stderr();
        let is_log = |l: &&str| l.starts_with("20") && l.as_bytes().get(10) == Some(&b'T');
        let lines: Vec<_> = text.lines().filter(|l| !is_log(l)).collect();
        assert_eq!(lines.len(), 1, "one line: {text}");
        let code = status.and_then(|s| s.code()).expect("no signal ended it");
        (code, lines[0].to_owned())
    }

    /// A signal, and its exit code after it.
    pub fn end(mut self, signal: &str) -> Option<i32> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.expect("kill is there").success());
        self.child.wait().expect("a child").code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! What a daemon logs: its standard output and standard error, in one file.

use crate::gateway::PATIENCE;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The last line of a connection, or of a server's start.
pub const INITIALISED: &str = "Initialization Sequence Completed";
/// What is in any line that says that a daemon uses its own data path after all ("disabling", "disables").
const GIVEN_UP: [&str; 2] = ["isabl", "data channel offload"];

/// A daemon's log.
pub struct Log(PathBuf);

impl Log {
    /// The log in that file.
    pub fn new(path: PathBuf) -> Log {
        Log(path)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// All of it, so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.0).expect("the log was opened before")).into_owned()
    }

    /// Its lines with this text.
    pub fn said(&self, text: &str) -> Vec<String> {
        let lines = self.text();
        lines
            .lines()
            .filter(|line| line.contains(text))
            .map(str::to_owned)
            .collect()
    }

    /// Lines so far, for [`Log::since`].
    pub fn mark(&self) -> usize {
        self.text().lines().count()
    }

    /// Its lines after a mark.
    pub fn since(&self, mark: usize) -> Vec<String> {
        self.text().lines().skip(mark).map(str::to_owned).collect()
    }

    /// Waits until so many lines have this text; these lines.
    pub fn wait_said(&self, text: &str, times: usize) -> Vec<String> {
        self.wait_said_within(text, times, PATIENCE)
    }

    /// Like [`Log::wait_said`], with another patience.
    pub fn wait_said_within(&self, text: &str, times: usize, patience: Duration) -> Vec<String> {
        let until = Instant::now() + patience;
        loop {
            let lines = self.said(text);
            if lines.len() >= times {
                return lines;
            }
            assert!(
                Instant::now() < until,
                "{:?} was said {} times, not {times}, within {patience:?}",
                text,
                lines.len()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asserts that no line has this text.
    pub fn assert_silent_about(&self, text: &str) {
        let lines = self.said(text);
        assert!(lines.is_empty(), "{lines:?}");
    }

    /// Whether the daemon says that the data channel of its interface is another's: why not.
    pub fn offloaded(&self, interface: &str) -> Result<(), String> {
        let mut given_up = self.said(GIVEN_UP[1]);
        given_up.retain(|line| line.contains(GIVEN_UP[0]));
        if !given_up.is_empty() {
            return Err(format!("{given_up:?}"));
        }
        // The second is said of an interface that was there before.
        let said = [
            format!("DCO device {interface} opened"),
            format!("DCO device {interface} already exists, won't be destroyed"),
        ];
        if said.iter().any(|text| !self.said(text).is_empty()) {
            Ok(())
        } else {
            Err(format!("it did not say {said:?}"))
        }
    }
}

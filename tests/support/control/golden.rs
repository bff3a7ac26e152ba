//! The recorded messages of the stock daemons.

use serde_json::Value;
use std::path::Path;

/// One line of tests/golden/golden.jsonl.
#[derive(Clone)]
pub struct Line {
    /// `2.6.14` or `2.7.6`.
    pub daemon: String,
    /// `to_plane`, `to_daemon` or `to_kernel`.
    pub dir: String,
    /// The command.
    pub what: String,
    /// Case and line of the recording.
    pub from: String,
    /// The message.
    pub bytes: Vec<u8>,
}

/// All of them, in the order of the file.
pub fn lines() -> Vec<Line> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/golden.jsonl");
    let text = std::fs::read_to_string(path).expect("tests/golden/golden.jsonl");
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("JSON");
        let text = |key: &str| value[key].as_str().expect(key).to_owned();
        let hex = text("hex");
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
        Line {
            daemon: text("daemon"),
            dir: text("dir"),
            what: text("what"),
            from: text("from"),
            bytes: (0..hex.len()).step_by(2).map(byte).collect(),
        }
    };
    text.lines().map(line).collect()
}

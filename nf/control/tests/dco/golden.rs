//! The recorded messages.

use nf_control::dco::Family;
use serde_json::Value;
use std::path::Path;

/// One line.
pub struct Line {
    pub dir: String,
    pub what: String,
    pub hex: Vec<u8>,
    pub decoded: Value,
    /// Place and command, for failures.
    pub name: String,
}

impl Line {
    /// A number of `decoded`.
    #[track_caller]
    pub fn number(&self, pointer: &str) -> i64 {
        let found = self.decoded.pointer(pointer).and_then(Value::as_i64);
        found.unwrap_or_else(|| panic!("{}: no {pointer}", self.name))
    }

    /// Netlink protocol of the message.
    pub fn protocol(&self) -> u32 {
        match self.decoded.get("genl") {
            Some(_) => ovpn_dco_protocol::GENERIC,
            None => ovpn_dco_protocol::ROUTE,
        }
    }

    /// The family whose message it is.
    pub fn family(&self) -> Option<Family> {
        match self.decoded.get("family")?.as_str()? {
            "ovpn" => Some(Family::Ovpn),
            "ovpn-dco-v2" => Some(Family::DcoV2),
            _ => None,
        }
    }
}

/// All of them.
pub fn lines() -> Vec<Line> {
    let path = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/golden/golden.jsonl"
    ));
    let text = std::fs::read_to_string(path).expect("tests/golden/golden.jsonl");
    let line = |(number, line): (usize, &str)| {
        let value: Value = serde_json::from_str(line).expect("JSON");
        let text = |key: &str| value[key].as_str().expect(key).to_owned();
        Line {
            dir: text("dir"),
            what: text("what"),
            hex: hex::decode(text("hex")).expect("hex"),
            decoded: value["decoded"].clone(),
            name: format!("line {}, {} {}", number + 1, text("daemon"), text("what")),
        }
    };
    text.lines().enumerate().map(line).collect()
}

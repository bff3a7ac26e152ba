//! The text of the state file: `{"version":1,"keys":{"<fingerprint>":<first id not reserved>}}`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{END, Fingerprint};
use crate::error::one_line;

/// Of the format, not of the program.
const VERSION: u64 = 1;

/// Per key the first packet id that was never reserved, 1 to [`END`].
pub(super) type Marks = BTreeMap<Fingerprint, u64>;

#[derive(Deserialize)]
struct Head {
    version: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    #[serde(rename = "version")]
    _version: u64,
    #[serde(deserialize_with = "marks")]
    keys: Marks,
}

#[derive(Serialize)]
struct Written {
    version: u64,
    keys: BTreeMap<String, u64>,
}

/// Reads the file's bytes; the error says what is wrong with them, in one line.
pub(super) fn parse(bytes: &[u8]) -> Result<Marks, String> {
    let said = |e: serde_json::Error| one_line(&e.to_string());
    // The version first: a later format may have other fields, and that is the more useful thing to say.
    let head: Head = serde_json::from_slice(bytes).map_err(said)?;
    if head.version != VERSION {
        return Err(format!(
            "version {}, but only version {VERSION} is known",
            head.version
        ));
    }
    serde_json::from_slice::<Image>(bytes)
        .map(|image| image.keys)
        .map_err(said)
}

/// The file's bytes, one key a line.
pub(super) fn format(marks: &Marks) -> Vec<u8> {
    let keys = marks.iter().map(|(key, mark)| (key.to_string(), *mark)).collect();
    let written = Written {
        version: VERSION,
        keys,
    };
    let mut bytes = serde_json::to_vec_pretty(&written).expect("strings and numbers always serialise");
    bytes.push(b'\n');
    bytes
}

fn marks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Marks, D::Error> {
    struct Each;

    impl<'de> Visitor<'de> for Each {
        type Value = Marks;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object with a packet id per key")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Marks, A::Error> {
            let mut marks = Marks::new();
            while let Some((key, mark)) = map.next_entry::<String, u64>()? {
                let key = key.parse().map_err(A::Error::custom)?;
                if !(1..=END).contains(&mark) {
                    return Err(A::Error::custom(format_args!(
                        "packet id {mark}; 1 to {END} is allowed"
                    )));
                }
                if marks.insert(key, mark).is_some() {
                    return Err(A::Error::custom("a key stands there twice"));
                }
            }
            Ok(marks)
        }
    }

    deserializer.deserialize_map(Each)
}

//! The configuration as written: types only, no ranges. `deny_unknown_fields` everywhere.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A number or a word, such as `"auto"`. A quoted number is a number: the environment has only text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar {
    Number(i64),
    Word(String),
}

impl Default for Scalar {
    fn default() -> Self {
        Scalar::Word("auto".into())
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number or a word in quotes")
            }
            fn visit_i64<E: Error>(self, v: i64) -> Result<Scalar, E> {
                Ok(Scalar::Number(v))
            }
            fn visit_u64<E: Error>(self, v: u64) -> Result<Scalar, E> {
                Ok(Scalar::Number(i64::try_from(v).unwrap_or(i64::MAX)))
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<Scalar, E> {
                Ok(v.parse()
                    .map_or_else(|_| Scalar::Word(v.to_owned()), Scalar::Number))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}

/// Strings, or one string of words with blanks between (the form that an environment variable has).
#[derive(Debug, Clone, Default)]
pub(crate) struct Words(pub(crate) Vec<String>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordsVisitor;
        impl<'de> Visitor<'de> for WordsVisitor {
            type Value = Words;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of strings")
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<Words, E> {
                Ok(Words(v.split_whitespace().map(str::to_owned).collect()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Words, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = seq.next_element()? {
                    words.push(word);
                }
                Ok(Words(words))
            }
        }
        deserializer.deserialize_any(WordsVisitor)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Raw {
    pub name: String,
    pub eal: Words,
    pub lcores: String,
    pub burst: i64,
    pub batch: bool,
    pub lookahead: RawLookahead,
    pub mbufs: Scalar,
    pub idle_sleep_us: i64,
    pub insecure_static_keys: bool,
    pub state_file: String,
    pub nic: RawNic,
    pub host: RawHost,
    pub tunnel: Vec<RawTunnel>,
    pub control: RawControl,
    pub metrics: RawMetrics,
    pub log: RawLog,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawLookahead {
    pub distance: Scalar,
    pub scope: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawNic {
    pub port: String,
    pub queues: Scalar,
    pub mtu: i64,
    pub isolate: String,
    pub outbound_l2: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawHost {
    pub kind: String,
    pub interface: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawControl {
    pub socket: String,
    pub group: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawMetrics {
    pub listen: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawLog {
    pub format: String,
    pub level: String,
}

/// One `[[tunnel]]`. Its defaults are here: an array of tables has no place in the layers.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawTunnel {
    pub interface: String,
    pub kind: String,
    pub mode: String,
    pub listen: Vec<String>,
    pub mtu: i64,
    pub mss: Scalar,
    pub source_check: bool,
    pub spread_peers: bool,
    pub merge_tcp: bool,
    pub next_hop: String,
    pub keys_file: String,
    pub peer: Vec<RawPeer>,
}

impl Default for RawTunnel {
    fn default() -> Self {
        RawTunnel {
            interface: String::new(),
            kind: "auto".into(),
            mode: "mp".into(),
            listen: Vec::new(),
            mtu: 1500,
            mss: Scalar::default(),
            source_check: true,
            spread_peers: false,
            merge_tcp: true,
            next_hop: String::new(),
            keys_file: String::new(),
            peer: Vec::new(),
        }
    }
}

/// One `[[tunnel.peer]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawPeer {
    pub id: Option<i64>,
    pub remote: String,
    pub local: String,
    pub addresses: Vec<String>,
    pub networks: Vec<String>,
    pub keepalive: Option<Vec<i64>>,
}

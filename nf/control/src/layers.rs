//! Defaults, file and environment laid over each other, and where each effective value came from.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use config::{Environment, File, FileFormat};

use crate::error::{ConfigError, one_line};
use crate::raw::Raw;

/// The defaults, as TOML. Their keys are also the keys that an environment variable may name.
const DEFAULTS: &str = include_str!("defaults.toml");
/// How the name of an environment variable begins. The rest is the dotted key, upper case, `__` for the dot.
const PREFIX: &str = "OVPN_DPDK__";

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File,
    Environment,
}

/// Where the effective values came from.
#[derive(Debug, Clone)]
pub(crate) struct Origins {
    file: String,
    in_file: BTreeSet<String>,
    /// Dotted key to the variable's whole name.
    variables: BTreeMap<String, String>,
}

impl Origins {
    /// The origin of the value of a dotted key.
    pub(crate) fn of(&self, key: &str) -> Origin {
        if self.variables.contains_key(key) {
            Origin::Environment
        } else if self.in_file.contains(key) {
            Origin::File
        } else {
            Origin::Default
        }
    }

    /// The configuration file as the caller named it.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// An error about a key's value, placed where that value came from.
    pub(crate) fn error(&self, key: &str, message: impl Into<String>) -> ConfigError {
        let place = match self.variables.get(key) {
            Some(name) => format!("environment variable {name}"),
            None => self.file.clone(),
        };
        ConfigError::Key {
            place,
            key: key.to_owned(),
            message: one_line(&message.into()),
        }
    }
}

/// Lays the three layers over each other.
pub(crate) fn layered(
    text: &str,
    file: &str,
    environment: BTreeMap<OsString, OsString>,
) -> Result<(Raw, Origins), ConfigError> {
    let table = strict(text, file)?;
    let mut in_file = BTreeSet::new();
    leaves(&toml::Value::Table(table), String::new(), &mut |key, _| {
        in_file.insert(key);
    });
    let (values, variables) = variables(environment)?;
    let origins = Origins {
        file: file.to_owned(),
        in_file,
        variables,
    };

    let whole = |e: config::ConfigError| origins.error("(whole file)", e.to_string());
    let built = config::Config::builder()
        .add_source(File::from_str(DEFAULTS, FileFormat::Toml))
        .add_source(File::from_str(text, FileFormat::Toml))
        .add_source(
            Environment::default()
                .separator("__")
                .source(Some(values.into_iter().collect())),
        )
        .build()
        .map_err(whole)?;
    let raw = serde_path_to_error::deserialize(built)
        .map_err(|e| origins.error(&e.path().to_string(), e.inner().to_string()))?;
    Ok((raw, origins))
}

/// Checks the file alone: syntax, unknown keys, types. The layers convert between types (the environment has only
/// text); a file has no need for that, so `burst = 3.5` or `batch = 1` is an error here.
fn strict(text: &str, file: &str) -> Result<toml::Table, ConfigError> {
    let line = |span: Option<std::ops::Range<usize>>| {
        let end = span.map_or(0, |s| s.start.min(text.len()));
        text.as_bytes()[..end].iter().filter(|&&b| b == b'\n').count() + 1
    };
    let syntax = |e: toml::de::Error| ConfigError::Syntax {
        file: file.to_owned(),
        line: line(e.span()),
        message: one_line(e.message()),
    };
    let table: toml::Table = toml::from_str(text).map_err(syntax)?;
    let parsed = toml::Deserializer::parse(text).map_err(syntax)?;
    let _typed: Raw = serde_path_to_error::deserialize(parsed).map_err(|e| {
        let inner = e.inner();
        let place = format!("{file}:{}", line(inner.span()));
        let (key, message) = key_and_message(&e.path().to_string(), inner.message());
        ConfigError::Key { place, key, message }
    })?;
    Ok(table)
}

/// Moves the name out of serde's "unknown field `x`, expected one of ..." into the dotted key, and puts its type
/// names into plain words.
fn key_and_message(path: &str, message: &str) -> (String, String) {
    let message = one_line(message).replace("expected i64", "expected a whole number");
    let unknown = message
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.split_once('`'));
    let Some((name, rest)) = unknown else {
        return (path.to_owned(), message);
    };
    let parent = path.strip_suffix(name).unwrap_or(path).trim_end_matches('.');
    let key = if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}.{name}")
    };
    (key, format!("unknown key{rest}"))
}

/// Calls `seen` with dotted key and value of everything that is not a table. Elements of an array of tables have
/// their index in brackets.
fn leaves(value: &toml::Value, key: String, seen: &mut impl FnMut(String, &toml::Value)) {
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                let key = if key.is_empty() {
                    name.clone()
                } else {
                    format!("{key}.{name}")
                };
                leaves(value, key, seen);
            }
        }
        toml::Value::Array(array) if array.first().is_some_and(toml::Value::is_table) => {
            for (i, value) in array.iter().enumerate() {
                leaves(value, format!("{key}[{i}]"), seen);
            }
        }
        _ => seen(key, value),
    }
}

type Variables = (BTreeMap<String, String>, BTreeMap<String, String>);

/// Takes the variables that are ours: lower-case key with `__` to value, and dotted key to the variable's name.
fn variables(environment: BTreeMap<OsString, OsString>) -> Result<Variables, ConfigError> {
    let defaults: toml::Table = toml::from_str(DEFAULTS).unwrap_or_default();
    let mut known = BTreeMap::new();
    leaves(&toml::Value::Table(defaults), String::new(), &mut |key, value| {
        known.insert(key, value.clone());
    });
    let (mut values, mut names) = (BTreeMap::new(), BTreeMap::new());
    for (name, value) in environment {
        let name = name.to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let refuse = |message: &str| ConfigError::Variable {
            name: name.clone(),
            message: message.to_owned(),
        };
        let key = rest.to_lowercase().replace("__", ".");
        if key == "tunnel" || key.starts_with("tunnel.") {
            return Err(refuse("tunnels can be set in the file only"));
        }
        let default = known.get(&key).filter(|_| rest == rest.to_uppercase());
        let default = default.ok_or_else(|| refuse("names no key of the configuration"))?;
        let value = value
            .into_string()
            .map_err(|_| refuse("the value is not UTF-8"))?;
        match default {
            // The one number that may also be a word.
            toml::Value::Integer(_) if key == "lookahead.distance" => {}
            toml::Value::Integer(_) if value.parse::<i64>().is_err() => {
                return Err(refuse("the value is not a whole number"));
            }
            toml::Value::Boolean(_) if value.parse::<bool>().is_err() => {
                return Err(refuse("the value is neither true nor false"));
            }
            _ => {}
        }
        values.insert(rest.to_lowercase(), value);
        names.insert(key, name);
    }
    Ok((values, names))
}

//! What can be wrong with a configuration or a keys file. Each error displays as one line.

use std::fmt;

/// Why a configuration was refused. Displays as one line: where, which key, what is allowed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read, or is not UTF-8.
    #[error("{file}: cannot be read: {reason}")]
    Read {
        /// The file as the caller named it.
        file: String,
        /// The operating system's words.
        reason: String,
    },
    /// The text is not TOML.
    #[error("{file}:{line}: syntax error: {message}")]
    Syntax {
        /// The file as the caller named it.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The parser's words.
        message: String,
    },
    /// A key is unknown, or its value is not allowed.
    #[error("{place}: {key}: {message}")]
    Key {
        /// `FILE`, `FILE:LINE` where the line is known, or `environment variable NAME`.
        place: String,
        /// Dotted key, for example `nic.mtu` or `tunnel[0].peer[1].id`.
        key: String,
        /// What is wrong and what is allowed.
        message: String,
    },
    /// An environment variable with the prefix `OVPN_DPDK__` names no key, or holds no usable value.
    #[error("environment variable {name}: {message}")]
    Variable {
        /// The variable's whole name.
        name: String,
        /// What is wrong and what is allowed.
        message: String,
    },
    /// A tunnel's keys file was refused.
    #[error(transparent)]
    Keys(#[from] KeysError),
}

/// Why a keys file was refused. Never shows key material: a bad digit is named by its position.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {}{message}", At(.at))]
pub struct KeysError {
    /// The file as the caller named it.
    pub file: String,
    /// The place inside the file, for example `keys[2] (peer 0)` or `line 3 column 9`; empty for the whole file.
    pub at: String,
    /// What is wrong and what is allowed.
    pub message: String,
}

struct At<'a>(&'a str);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, "{}: ", self.0)
        }
    }
}

/// Folds a message of a library into one line.
pub(crate) fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

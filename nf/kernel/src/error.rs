//! What can go wrong between the gateway and the kernel. Each error displays as one line.

use std::io;
use std::time::Duration;

/// Why something was not done. Displays as one line: what was asked, then the reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel answered with an error number.
    #[error("{what}: {}{}", io::Error::from_raw_os_error(*.errno), Detail(.detail))]
    Refused {
        /// What was asked, for example `interface 7: set MTU 1500`.
        what: String,
        /// The error number, positive, as in errno(3).
        errno: i32,
        /// The kernel's own words (extended acknowledgement, `NLMSGERR_ATTR_MSG`); often empty.
        detail: String,
    },
    /// Some of many requests were refused; the others took effect.
    #[error("{failed} of {of} requests refused, the first: {first}")]
    Partly {
        /// How many were refused.
        failed: usize,
        /// How many there were.
        of: usize,
        /// The first refusal.
        first: Box<Error>,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The kernel did not answer in time. Whether it did what was asked is unknown.
    #[error("{what}: no answer from the kernel within {after:?}")]
    TimedOut {
        /// What was asked.
        what: String,
        /// How long was waited.
        after: Duration,
    },
    /// The kernel's answer has not the form that is documented for it.
    #[error("{what}: the kernel's answer is not understood: {reason}")]
    Odd {
        /// What was asked.
        what: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The caller asked for what cannot be: nothing was done.
    #[error("{what}: {reason}")]
    Invalid {
        /// What was asked.
        what: String,
        /// Why it cannot be.
        reason: String,
    },
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error::Io {
            what: what.into(),
            source: source.into(),
        }
    }

    /// The error number behind it, if there is one: the kernel's answer, or the system call's.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Refused { errno, .. } => Some(*errno),
            Error::Partly { first, .. } => first.errno(),
            Error::Io { source, .. } => source.raw_os_error(),
            Error::TimedOut { .. } | Error::Odd { .. } | Error::Invalid { .. } => None,
        }
    }
}

/// The kernel's words in brackets, or nothing.
struct Detail<'a>(&'a str);

impl std::fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(detail: &str) -> Error {
        Error::Refused {
            what: "interface 7: set MTU 1".to_owned(),
            errno: libc::EINVAL,
            detail: detail.to_owned(),
        }
    }

    #[test]
    fn one_line_each() {
        let bare = "interface 7: set MTU 1: Invalid argument (os error 22)";
        assert_eq!(refused("").to_string(), bare);
        assert_eq!(
            refused("mtu less than device minimum").to_string(),
            format!("{bare} (mtu less than device minimum)")
        );
        let partly = Error::Partly {
            failed: 2,
            of: 3,
            first: Box::new(refused("")),
        };
        assert_eq!(
            partly.to_string(),
            format!("2 of 3 requests refused, the first: {bare}")
        );
        assert_eq!(partly.errno(), Some(libc::EINVAL));
    }
}

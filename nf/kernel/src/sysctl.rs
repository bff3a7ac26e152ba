//! Settings of the kernel's network stack: files below `/proc/sys/net` (proc(5), and ip-sysctl of the kernel's
//! documentation).

use crate::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where settings are.
const ROOT: &str = "/proc/sys";

/// The IP version of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `net/ipv4/conf`.
    V4,
    /// `net/ipv6/conf`.
    V6,
}

/// The path of the setting `key` of an interface, or of `all` or `default`, for example
/// `net/ipv4/conf/tun0/send_redirects`.
#[must_use]
pub fn path(version: Version, interface: &str, key: &str) -> String {
    let version = if version == Version::V4 { "ipv4" } else { "ipv6" };
    format!("net/{version}/conf/{interface}/{key}")
}

/// The value of a setting, by its path below `/proc/sys`, without white space around it.
///
/// # Errors
/// [`Error::Invalid`] for a path that is not below `net`; [`Error::Io`] if it cannot be read: `ENOENT` if there is no such
/// setting.
pub fn get(path: &str) -> Result<String, Error> {
    let what = format!("read {ROOT}/{path}");
    let text = fs::read_to_string(file(path, &what)?).map_err(|e| Error::io(what, e))?;
    Ok(text.trim().to_owned())
}

/// Sets a setting, by its path below `/proc/sys`, and returns the value that it had.
///
/// # Errors
/// As [`get`]; [`Error::Io`] with `EINVAL` if the kernel does not take the value.
pub fn set(path: &str, value: &str) -> Result<String, Error> {
    let previous = get(path)?;
    if previous != value {
        let what = format!("set {ROOT}/{path} to {value}");
        fs::write(file(path, &what)?, value).map_err(|e| Error::io(what, e))?;
    }
    Ok(previous)
}

/// The file of a setting. Paths also come from files, so they must not lead elsewhere.
fn file(path: &str, what: &str) -> Result<PathBuf, Error> {
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    if path.starts_with("net/") && path.split('/').all(plain) {
        return Ok(Path::new(ROOT).join(path));
    }
    let reason =
        "a setting is named by a path below net, such as net/ipv4/conf/all/send_redirects".to_owned();
    Err(Error::Invalid {
        what: what.to_owned(),
        reason,
    })
}

/// Whether it failed because there is no such setting: its interface is gone.
pub(crate) fn is_gone(e: &Error) -> bool {
    matches!(e, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_net() {
        assert_eq!(
            path(Version::V6, "a.b", "accept_dad"),
            "net/ipv6/conf/a.b/accept_dad"
        );
        for odd in [
            "",
            "net",
            "net/",
            "net/..",
            "net/../kernel/hostname",
            "/net/core",
            "net//core",
            "kernel/x",
            "net/\0",
        ] {
            assert!(matches!(get(odd), Err(Error::Invalid { .. })), "{odd:?}");
            assert!(matches!(set(odd, "0"), Err(Error::Invalid { .. })), "{odd:?}");
        }
    }

    #[test]
    fn what_is_not_there_is_gone() {
        assert!(is_gone(
            &get("net/ipv4/conf/no-such-if/forwarding").expect_err("no interface")
        ));
    }
}

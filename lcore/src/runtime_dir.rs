//! What EAL keeps in the file system for one `--file-prefix`: a folder with locks, memory maps and the telemetry
//! socket, and the files of its hugepages.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// The files of one prefix. Removed when this is dropped, unless another process uses the prefix by then.
///
/// `rte_eal_cleanup` leaves them, and a failed `rte_eal_init` does, too. To be dropped after the [`crate::Eal`].
#[derive(Debug)]
pub struct RuntimeDir {
    folder: PathBuf,
    prefix: String,
}

impl RuntimeDir {
    /// The files of `prefix`. Nothing is made: EAL does that.
    pub fn of(prefix: &str) -> RuntimeDir {
        RuntimeDir {
            folder: base().join("dpdk").join(prefix),
            prefix: prefix.into(),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Whether another process is the primary one of this prefix: it has the lock that EAL takes on `config`.
    pub fn in_use(&self) -> bool {
        let Ok(config) = self.config() else { return false };
        let mut lock = whole_file();
        // SAFETY: F_GETLK reads and writes one flock.
        let code = unsafe { libc::fcntl(config.as_raw_fd(), libc::F_GETLK, &mut lock) };
        code == 0 && lock.l_type != libc::F_UNLCK as libc::c_short
    }

    fn config(&self) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.folder.join("config"))
    }

    fn remove(&self) -> io::Result<()> {
        if !is_plain(&self.prefix) {
            return Ok(());
        }
        // With the lock in hand nobody else can become the primary process meanwhile. The lock is the process's, so
        // taking it again is allowed; it goes when `config` is closed.
        let config = match self.config() {
            Ok(config) => config,
            // EAL keeps no shared files (--in-memory, --no-shconf): what is in there is not known to be ours.
            Err(_) => return fs::remove_dir(&self.folder).or(Ok(())),
        };
        // SAFETY: F_SETLK reads one flock.
        if unsafe { libc::fcntl(config.as_raw_fd(), libc::F_SETLK, &whole_file()) } != 0 {
            return Ok(());
        }
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        for folder in mounts.lines().filter_map(hugetlbfs) {
            remove_all(Path::new(folder), |name| is_hugepage_of(&self.prefix, name))?;
        }
        remove_all(&self.folder, |_| true)?;
        fs::remove_dir(&self.folder)
    }
}

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        match self.remove() {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("files of {} stay behind: {e}", self.folder.display());
            }
            _ => {}
        }
    }
}

/// Whether the prefix names a folder of its own in EAL's, which "", "..", and "a/b" do not.
fn is_plain(prefix: &str) -> bool {
    !matches!(prefix, "" | "." | "..") && !prefix.contains('/')
}

/// Removes the files of a folder whose name is `wanted`.
fn remove_all(folder: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(&wanted) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The mount point in a line of `/proc/mounts`, if it is a hugetlbfs.
fn hugetlbfs(line: &str) -> Option<&str> {
    let mut fields = line.split(' ').skip(1);
    let folder = fields.next()?;
    (fields.next()? == "hugetlbfs").then_some(folder)
}

/// Whether EAL names a page of this prefix so: "PREFIXmap_NUMBER".
fn is_hugepage_of(prefix: &str, name: &str) -> bool {
    let number = name
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix("map_"));
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// A write lock on a whole file, as EAL takes it.
fn whole_file() -> libc::flock {
    // SAFETY: a flock is integers, for which zero is valid.
    let mut lock: libc::flock = unsafe { mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// As `eal_create_runtime_dir` chooses it.
fn base() -> PathBuf {
    // SAFETY: no precondition.
    let root = unsafe { libc::getuid() } == 0;
    let given = |name| std::env::var_os(name).map(PathBuf::from);
    given("RUNTIME_DIRECTORY").unwrap_or_else(|| match root {
        true => "/var/run".into(),
        false => given("XDG_RUNTIME_DIR").unwrap_or_else(|| "/tmp".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hugepages_are_told_by_prefix_and_number() {
        assert!(is_hugepage_of("gw0", "gw0map_0") && is_hugepage_of("gw0", "gw0map_123"));
        for other in ["gw0map_", "gw01map_0", "gw0map_1x", "xgw0map_0", "gw0", "gw0map"] {
            assert!(!is_hugepage_of("gw0", other), "{other}");
        }
        assert_eq!(
            hugetlbfs("nodev /dev/hugepages hugetlbfs rw 0 0"),
            Some("/dev/hugepages")
        );
        assert_eq!(hugetlbfs("tmpfs /run tmpfs rw 0 0"), None);
    }

    #[test]
    fn nothing_outside_of_a_folder_of_its_own_is_removed() {
        let folder = std::env::temp_dir().join(format!("runtime-dir-plain-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        for prefix in ["", ".", "..", "../x", "a/b"] {
            fs::write(folder.join("config"), "").expect("a file");
            drop(RuntimeDir {
                folder: folder.clone(),
                prefix: prefix.into(),
            });
            assert!(folder.join("config").exists(), "{prefix:?}");
        }
        fs::remove_dir_all(&folder).expect("a folder of this test");
    }

    #[test]
    fn files_go_with_the_lock_free_and_stay_without_a_lock_file() {
        let folder = std::env::temp_dir().join(format!("runtime-dir-{}", std::process::id()));
        let dir = || RuntimeDir {
            folder: folder.clone(),
            prefix: "no-such-prefix".into(),
        };
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("socket"), "").expect("a file");
        drop(dir());
        assert!(folder.join("socket").exists(), "not known to be ours");
        fs::write(folder.join("config"), "").expect("a file");
        let free = dir();
        assert!(!free.in_use());
        drop(free);
        assert!(!folder.exists());
    }
}

//! The socket's place in the file system.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use super::Error;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;
/// How often what is in the way is looked at, while others replace it.
const TRIES: u32 = 4;
/// Makes temporary names unlike each other in one process.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A socket file of ours. Unlinked when dropped, unless another has taken its place.
#[derive(Debug)]
pub(super) struct Bound {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Bound {
    fn is(&self, file: &Metadata) -> bool {
        (file.dev(), file.ino()) == (self.device, self.inode)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        match fs::symlink_metadata(&self.path) {
            Ok(file) if self.is(&file) => {
                if let Err(e) = fs::remove_file(&self.path) {
                    tracing::warn!("control socket {} stays behind: {e}", self.path.display());
                }
            }
            _ => {}
        }
    }
}

/// A listening socket (`SOCK_SEQPACKET`) at `path`, of mode 0660 and `group`.
///
/// It gets those under a temporary name and before it listens, so nobody can connect meanwhile, and then takes its place
/// at once.
pub(super) fn listen_at(path: &Path, group: u32) -> Result<(OwnedFd, Bound), Error> {
    let fail = |what| {
        move |e: io::Error| Error::Listen {
            path: path.into(),
            what,
            source: e,
        }
    };
    // The longest path is shorter than a temporary one may be, so this is said of the one that was asked for.
    SocketAddrUnix::new(path).map_err(|e| fail("its path")(e.into()))?;
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    make_folder(folder).map_err(fail("making its folder"))?;
    clear(path)?;
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".{:x}-{number:x}", std::process::id()));
    let address =
        SocketAddrUnix::new(&temporary).map_err(|e| fail("a temporary name beside it")(e.into()))?;
    let socket = seqpacket().map_err(fail("socket"))?;
    // Left by a process of the same id that was killed at this very point.
    let _ = fs::remove_file(&temporary);
    bind(&socket, &address).map_err(|e| fail("bind")(e.into()))?;
    let file = fs::symlink_metadata(&temporary).map_err(fail("bind"))?;
    let mut bound = Bound {
        path: temporary,
        device: file.dev(),
        inode: file.ino(),
    };
    chown(&bound.path, None, Some(group)).map_err(fail("giving it to its group"))?;
    fs::set_permissions(&bound.path, Permissions::from_mode(0o660)).map_err(fail("setting its mode"))?;
    listen(&socket, BACKLOG).map_err(|e| fail("listen")(e.into()))?;
    place(&bound.path, path)?;
    bound.path = path.into();
    Ok((socket, bound))
}

/// A socket that blocks neither accept(2) nor connect(2).
fn seqpacket() -> io::Result<OwnedFd> {
    let (unix, packets) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(unix, packets, flags, None)?)
}

/// Makes a folder and those above it, where missing, open to all for reading whatever the umask is.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent().filter(|above| *above != Path::new("")) {
        make_folder(above)?;
    }
    match DirBuilder::new().mode(0o755).create(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(e) => Err(e),
        Ok(()) => fs::set_permissions(folder, Permissions::from_mode(0o755)),
    }
}

/// Renames a socket file, replacing nothing but stale ones.
fn place(temporary: &Path, path: &Path) -> Result<(), Error> {
    for _ in 0..TRIES {
        match renameat_with(CWD, temporary, CWD, path, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => clear(path)?,
            Err(e) => {
                return Err(Error::Listen {
                    path: path.into(),
                    what: "rename",
                    source: e.into(),
                });
            }
        }
    }
    Err(Error::Busy(path.into()))
}

/// Removes a socket file that nobody answers at.
fn clear(path: &Path) -> Result<(), Error> {
    let fail = |what| {
        move |e: io::Error| Error::Listen {
            path: path.into(),
            what,
            source: e,
        }
    };
    let file = match fs::symlink_metadata(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(fail("looking at what is there")(e)),
    };
    if !file.file_type().is_socket() {
        return Err(Error::Occupied(path.into()));
    }
    let address = SocketAddrUnix::new(path).map_err(|e| fail("its path")(e.into()))?;
    let probe = seqpacket().map_err(fail("socket"))?;
    match connect(&probe, &address) {
        // A full backlog, or another type of socket: somebody is there.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => return Err(Error::Busy(path.into())),
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::CONNREFUSED) => {}
        Err(e) => return Err(fail("asking whether somebody answers there")(e.into())),
    }
    let stale = Bound {
        path: path.into(),
        device: file.dev(),
        inode: file.ino(),
    };
    drop(stale);
    Ok(())
}

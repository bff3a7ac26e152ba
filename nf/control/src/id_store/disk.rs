//! The steps by which the state file is replaced, so that at every moment the old or the new one is there in full.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::IdStoreError;

/// No state file is larger: some 800,000 keys. What cannot be read back is not written either.
const MAX_BYTES: u64 = 64 << 20;

/// Where the state file lies. A trait, so that tests can stop between any two steps.
pub(super) trait Disk: Send {
    /// The file's bytes; `None`: there is no file.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>>;
    /// Writes a new temporary file beside the file.
    fn write_temporary(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Returns once the temporary file's bytes would survive a loss of power.
    fn sync_temporary(&mut self) -> io::Result<()>;
    /// Puts the temporary file in the file's place, in one step.
    fn rename(&mut self) -> io::Result<()>;
    /// Returns once the rename would survive a loss of power.
    fn sync_folder(&mut self) -> io::Result<()>;
}

/// Replaces the file. On an error the old or the new bytes are there, never a mixture.
pub(super) fn replace(disk: &mut dyn Disk, bytes: &[u8]) -> io::Result<()> {
    disk.write_temporary(bytes)?;
    disk.sync_temporary()?;
    disk.rename()?;
    disk.sync_folder()
}

/// The file system's file, held by this process alone.
pub(super) struct Locked {
    file: PathBuf,
    temporary: PathBuf,
    folder: File,
    written: Option<File>,
    /// The kernel gives the lock back when this is closed, however the process ends.
    _lock: File,
}

impl Locked {
    /// Makes the folder where it is missing and takes the lock, which is a file of its own: the state file is replaced,
    /// and a lock on it would go with the old one. The lock file stays, since removing it would let in two.
    pub(super) fn open(file: &Path) -> Result<Locked, IdStoreError> {
        let failed = |action, path: &Path, error: io::Error| IdStoreError::Io {
            file: path.display().to_string(),
            action,
            reason: error.to_string(),
        };
        let Some(name) = file.file_name() else {
            let unnamed = io::Error::new(ErrorKind::InvalidInput, "it names no file");
            return Err(failed("cannot be opened", file, unnamed));
        };
        let beside = |suffix: &str| {
            let mut with_suffix = OsString::from(name);
            with_suffix.push(suffix);
            file.with_file_name(with_suffix)
        };
        let folder = parent(file);
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(folder)
            .map_err(|e| failed("cannot be made", folder, e))?;
        if !file.exists() {
            sync_above(folder).map_err(|e| failed("cannot be synchronised", folder, e))?;
        }
        let open_folder = File::open(folder).map_err(|e| failed("cannot be opened", folder, e))?;

        let lock_file = beside(".lock");
        let lock = options()
            .create(true)
            .truncate(false)
            .open(&lock_file)
            .map_err(|e| failed("cannot be opened", &lock_file, e))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Locked {
                file: file.to_owned(),
                temporary: beside(".tmp"),
                folder: open_folder,
                written: None,
                _lock: lock,
            }),
            Err(Errno::WOULDBLOCK) => Err(IdStoreError::InUse {
                file: file.display().to_string(),
                lock: lock_file.display().to_string(),
            }),
            Err(error) => Err(failed("cannot be locked", &lock_file, error.into())),
        }
    }
}

impl Disk for Locked {
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        // A link could lead two locks to one file, and the first rename would cut it: refused (NOFOLLOW). NONBLOCK, for
        // opening a pipe would wait for its other end.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(&self.file);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "it is not a regular file",
            ));
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        fits(bytes.len())?;
        Ok(Some(bytes))
    }

    fn write_temporary(&mut self, bytes: &[u8]) -> io::Result<()> {
        fits(bytes.len())?;
        // A killed run may have left one, with any content.
        match std::fs::remove_file(&self.temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = options().create_new(true).open(&self.temporary)?;
        file.write_all(bytes)?;
        self.written = Some(file);
        Ok(())
    }

    fn sync_temporary(&mut self) -> io::Result<()> {
        match self.written.take() {
            Some(file) => file.sync_all(),
            None => Err(io::Error::other("no temporary file was written")),
        }
    }

    fn rename(&mut self) -> io::Result<()> {
        std::fs::rename(&self.temporary, &self.file)
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.folder.sync_all()
    }
}

/// For writing, open to the owner alone, through no link.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .write(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

fn fits(bytes: usize) -> io::Result<()> {
    if bytes as u64 > MAX_BYTES {
        return Err(io::Error::new(
            ErrorKind::FileTooLarge,
            format!("more than {MAX_BYTES} bytes"),
        ));
    }
    Ok(())
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Synchronises the folders above this one. They may have been made just now, or by a run that was killed before it came
/// to this: a folder that is lost takes its file along, and ids would begin at 1 again.
fn sync_above(folder: &Path) -> io::Result<()> {
    for above in std::iter::successors(Some(folder), |f| f.parent()).map(parent) {
        match File::open(above).and_then(|f| f.sync_all()) {
            Ok(()) => {}
            // Where this process cannot write, it made no folder.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                ) => {}
            // Some file systems that live in memory know no fsync(2) of a folder.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

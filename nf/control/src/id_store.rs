//! Durable reservation of packet ids for static keys.
//!
//! The packet id is the only part of an AEAD nonce that changes, so under one key an id must never be used twice
//! (NIST SP 800-38D, 8; RFC 8439, 2.8). A key from a file outlives the process, hence ids are reserved in a state file
//! *before* they are used, and a start resumes past everything that any run before it may have used. What a run
//! reserved and did not use is lost, unless it ends by [`IdStore::settle`].
//!
//! The file is replaced whole: temporary file, fsync, rename, fsync of the folder. A process killed or a machine
//! without power at any moment leaves the old or the new file, and ids are given out only once the new one is safe.
//! A file that is lost or put back from a backup cannot be told from one that is right: neither may be done while
//! its keys are in use.

mod disk;
mod fingerprint;
mod image;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

pub use fingerprint::Fingerprint;

use disk::{Disk, Locked};
use image::Marks;

/// Packet ids reserved at a time. At 10 million packets a second under one key, half of it lasts 0.2 s.
pub const CHUNK: u64 = 1 << 22;

/// One past the last packet id, 0xffffffff: no more ids are there for a key.
const END: u64 = 1 << 32;

/// Packet ids that may be used: from `next` up to and without `end`. Empty, with both at 2^32, when all are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// The first id, 1 for a new key.
    pub next: u64,
    /// One past the last id, at most 2^32.
    pub end: u64,
}

/// Why ids were not reserved. Displays as one line; no new ids were given out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdStoreError {
    /// The system refused.
    #[error("{file}: {action}: {reason}")]
    Io {
        /// The file or folder.
        file: String,
        /// What could not be done with it.
        action: &'static str,
        /// The operating system's words.
        reason: String,
    },
    /// Another process has the state file.
    #[error("{file}: another process uses this state file (it holds {lock}); each instance needs its own")]
    InUse {
        /// The state file.
        file: String,
        /// The file with the lock on it.
        lock: String,
    },
    /// The file is there and cannot be understood. It is left as it is.
    #[error(
        "{file}: is no usable state file ({message}); packet ids would repeat without it: restore it, or remove it and \
         replace every static key"
    )]
    Damaged {
        /// The state file.
        file: String,
        /// What is wrong in it.
        message: String,
    },
    /// Two keys of this run would seal with the same nonces.
    #[error(
        "{first} and {second} have the same key and nonce tail for encryption: their nonces would repeat"
    )]
    Duplicate {
        /// Who had it first, in the caller's words.
        first: String,
        /// Who came later.
        second: String,
    },
    /// A key that this run did not claim, or has settled.
    #[error("packet ids of a key that is not claimed")]
    NotClaimed,
}

/// A key of this run.
struct Claimed {
    owner: String,
    /// No id below is unused, as far as was heard: the mark never goes below.
    floor: u64,
}

/// The state file, held by this process alone until the store is dropped.
pub struct IdStore {
    file: String,
    disk: Box<dyn Disk>,
    /// At least what was last written in full: per key the first id that was never reserved.
    marks: Marks,
    claimed: HashMap<Fingerprint, Claimed>,
}

impl IdStore {
    /// Opens the state file; without one, every key is new. Makes its folder (mode 0755) and `PATH.lock`, and holds an
    /// exclusive flock(2) on the latter. The state file is written with mode 0600.
    ///
    /// # Errors
    /// [`IdStoreError::InUse`] when another process has it, [`IdStoreError::Damaged`] when it is not what was written,
    /// [`IdStoreError::Io`] when it cannot be opened, locked or read, or is no regular file (a link included).
    pub fn open(path: impl AsRef<Path>) -> Result<IdStore, IdStoreError> {
        let path = path.as_ref();
        IdStore::on(path.display().to_string(), Box::new(Locked::open(path)?))
    }

    fn on(file: String, mut disk: Box<dyn Disk>) -> Result<IdStore, IdStoreError> {
        let marks = match disk.read() {
            Ok(None) => Marks::new(),
            Ok(Some(bytes)) => image::parse(&bytes).map_err(|message| IdStoreError::Damaged {
                file: file.clone(),
                message,
            })?,
            Err(error) => {
                return Err(IdStoreError::Io {
                    file,
                    action: "cannot be read",
                    reason: error.to_string(),
                });
            }
        };
        Ok(IdStore {
            file,
            disk,
            marks,
            claimed: HashMap::new(),
        })
    }

    /// Reserves the first ids of one key; see [`IdStore::claim_all`].
    ///
    /// # Errors
    /// As [`IdStore::claim_all`].
    pub fn claim(&mut self, key: Fingerprint, owner: impl Into<String>) -> Result<IdRange, IdStoreError> {
        let ranges = self.claim_all([(key, owner.into())])?;
        Ok(ranges[0])
    }

    /// Reserves up to [`CHUNK`] ids for each of these keys in one write, and says where to begin: at 1 for a key that
    /// the file does not know, else at its mark. `owner` names the key in errors ("peer 3, key 0"). The ranges stand in
    /// the order of the keys.
    ///
    /// # Errors
    /// [`IdStoreError::Duplicate`] when this run has claimed such a key already, [`IdStoreError::Io`] when the file
    /// cannot be written. Then none of these keys is claimed.
    pub fn claim_all(
        &mut self,
        keys: impl IntoIterator<Item = (Fingerprint, String)>,
    ) -> Result<Vec<IdRange>, IdStoreError> {
        let mut marks = self.marks.clone();
        let mut claimed: HashMap<Fingerprint, Claimed> = HashMap::new();
        let mut ranges = Vec::new();
        for (key, owner) in keys {
            if let Some(first) = self.claimed.get(&key).or_else(|| claimed.get(&key)) {
                return Err(IdStoreError::Duplicate {
                    first: first.owner.clone(),
                    second: owner,
                });
            }
            let mark = marks.entry(key).or_insert(1);
            let next = *mark;
            *mark = END.min(next + CHUNK);
            ranges.push(IdRange { next, end: *mark });
            claimed.insert(key, Claimed { owner, floor: next });
        }
        self.commit(marks)?;
        self.claimed.extend(claimed);
        Ok(ranges)
    }

    /// Reserves more ids for one key where needed; see [`IdStore::top_up_all`]. `None`: nothing changed.
    ///
    /// # Errors
    /// As [`IdStore::top_up_all`].
    pub fn top_up(&mut self, key: Fingerprint, next: u64) -> Result<Option<u64>, IdStoreError> {
        Ok(self.top_up_all([(key, next)])?.first().map(|&(_, end)| end))
    }

    /// Reserves [`CHUNK`] more ids, up to 2^32, for each key with less than half of that left; one write for all,
    /// none when no key needs it. Takes (key, the first id that is not used yet); gives (key, the new end of its range)
    /// for keys with a new one. To be called more often than half a chunk of ids is used up.
    ///
    /// # Errors
    /// [`IdStoreError::NotClaimed`] for a key that is not claimed, [`IdStoreError::Io`] when the file cannot be
    /// written (no space, read-only): nothing was reserved, what was reserved before may be used up, and the next call
    /// tries again.
    pub fn top_up_all(
        &mut self,
        keys: impl IntoIterator<Item = (Fingerprint, u64)>,
    ) -> Result<Vec<(Fingerprint, u64)>, IdStoreError> {
        let mut grown = Vec::new();
        for (key, next) in keys {
            let (Some(claimed), Some(&end)) = (self.claimed.get_mut(&key), self.marks.get(&key)) else {
                return Err(IdStoreError::NotClaimed);
            };
            claimed.floor = claimed.floor.max(next.min(END));
            if end < END && end.saturating_sub(next) < CHUNK / 2 {
                grown.push((key, END.min(end.max(claimed.floor) + CHUNK)));
            }
        }
        if !grown.is_empty() {
            let mut marks = self.marks.clone();
            marks.extend(grown.iter().copied());
            self.commit(marks)?;
        }
        Ok(grown)
    }

    /// Gives back what these keys did not use, in one write: at a clean stop, or when a key is removed. Takes (key, the
    /// first id that is not used). From this call on none of the keys' ids may be used, whether it succeeds or not: each
    /// must be claimed anew.
    ///
    /// # Errors
    /// [`IdStoreError::NotClaimed`] for a key that is not claimed (then none was settled), [`IdStoreError::Io`] when
    /// the file cannot be written: the ids that were not used are lost, none repeats.
    pub fn settle(&mut self, keys: impl IntoIterator<Item = (Fingerprint, u64)>) -> Result<(), IdStoreError> {
        let mut marks = self.marks.clone();
        let mut settled = Vec::new();
        for (key, next) in keys {
            let claimed = self.claimed.get(&key).ok_or(IdStoreError::NotClaimed)?;
            marks.insert(key, next.clamp(claimed.floor, END));
            settled.push(key);
        }
        for key in settled {
            self.claimed.remove(&key);
        }
        // If this fails, the file may have the lower marks already; the higher ones in memory are safe all the same.
        self.commit(marks)
    }

    /// Writes the marks and, once they are safe, makes them those of this store.
    fn commit(&mut self, marks: Marks) -> Result<(), IdStoreError> {
        if marks != self.marks {
            disk::replace(&mut *self.disk, &image::format(&marks)).map_err(|error| IdStoreError::Io {
                file: self.file.clone(),
                action: "cannot be written",
                reason: error.to_string(),
            })?;
            self.marks = marks;
        }
        Ok(())
    }
}

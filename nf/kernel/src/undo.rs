//! What has to be undone when the gateway stops, kept in a file so that it is also undone after it was killed.
//!
//! The file `NAME.undo` has one JSON object a line, each written and synchronised before the change that it undoes:
//! `{"sysctl":"net/ipv4/conf/tun0/send_redirects","value":"1"}` or `{"ingress":"wan0","qdisc":true}`. The running gateway
//! holds an flock(2) on it.

use crate::{Error, Netlink, sysctl};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where the files are, unless said otherwise.
pub const FOLDER: &str = "/run/ovpn-dpdk";
/// How often a file is opened anew that its owner removed in between.
const TRIES: u32 = 10;
/// How much of a line that is not understood is shown, in characters.
const SHOWN: usize = 60;

/// How to undo a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Action {
    /// Give a setting the value that it had.
    Sysctl {
        /// Its path below `/proc/sys`.
        #[serde(rename = "sysctl")]
        path: String,
        /// The value.
        value: String,
    },
    /// Let the kernel have again what an interface receives.
    Ingress {
        /// The interface's name.
        #[serde(rename = "ingress")]
        interface: String,
        /// The queueing discipline is removed too: it was not there before.
        qdisc: bool,
    },
}

impl Action {
    /// Does it. What is no longer there is nothing to undo.
    fn perform(&self) -> Result<(), Error> {
        match self {
            Action::Sysctl { path, value } => match sysctl::set(path, value) {
                Err(e) if sysctl::is_gone(&e) => Ok(()),
                other => other.map(|_| ()),
            },
            Action::Ingress { interface, qdisc } => {
                let mut netlink = Netlink::open()?;
                match netlink.link(interface)? {
                    Some(link) => netlink.open_ingress(link.index, *qdisc),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The changes of a running gateway, and their undoing. Dropped without [`perform`](Undo::perform), it leaves its file,
/// and the next of that name undoes the changes.
pub struct Undo {
    file: File,
    path: PathBuf,
    actions: Vec<Action>,
}

impl Undo {
    /// Opens the undo file of the gateway `name` in [`FOLDER`], after undoing what a killed gateway of that name left.
    /// Also returns one line for each thing that could not be undone or understood.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name is no file name, or a gateway of that name is running; [`Error::Io`] if the file
    /// cannot be used.
    pub fn open(name: &str) -> Result<(Undo, Vec<String>), Error> {
        Undo::open_in(Path::new(FOLDER), name)
    }

    /// Like [`open`](Undo::open), in another folder. The folder is made if it is not there.
    ///
    /// # Errors
    /// As there.
    pub fn open_in(folder: &Path, name: &str) -> Result<(Undo, Vec<String>), Error> {
        let file_name = format!("{name}.undo");
        let path = folder.join(&file_name);
        let what = format!("open {}", path.display());
        if name.is_empty() || name.contains(['/', '\0']) {
            return Err(Error::Invalid {
                what,
                reason: "not a file name".to_owned(),
            });
        }
        let fail = |e: io::Error| Error::io(what.clone(), e);
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(folder)
            .map_err(fail)?;
        let mut file = lock(&path, &what)?;
        let mut left = Vec::new();
        file.read_to_end(&mut left).map_err(fail)?;
        let (actions, mut warnings) = parse(&left, &path);
        let failed = perform(actions);
        warnings.extend(failed.iter().map(|(_, warning)| warning.clone()));
        file.set_len(0).and_then(|()| file.rewind()).map_err(fail)?;
        // The file's name has to last as well as what is in it.
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(fail)?;
        let mut undo = Undo {
            file,
            path,
            actions: Vec::new(),
        };
        // What could not be undone is tried again at the end, and by the next start. The last was tried first.
        for (action, _) in failed.into_iter().rev() {
            undo.record(action)?;
        }
        undo.file.sync_all().map_err(fail)?;
        Ok((undo, warnings))
    }

    /// Notes how to undo a change that the caller is about to make, and synchronises the file.
    ///
    /// # Errors
    /// [`Error::Io`] if that failed: then the change must not be made.
    pub fn record(&mut self, action: Action) -> Result<(), Error> {
        let fail = |e: io::Error| Error::io(format!("write {}", self.path.display()), e);
        let mut line = serde_json::to_vec(&action).map_err(|e| fail(e.into()))?;
        line.push(b'\n');
        self.file
            .write_all(&line)
            .and_then(|()| self.file.sync_data())
            .map_err(fail)?;
        self.actions.push(action);
        Ok(())
    }

    /// Sets a setting, by its path below `/proc/sys`, until [`perform`](Undo::perform). Returns the value that it had.
    ///
    /// # Errors
    /// As [`record`](Undo::record) and [`sysctl::set`].
    pub fn set_sysctl(&mut self, path: &str, value: &str) -> Result<String, Error> {
        let previous = sysctl::get(path)?;
        if previous != value {
            self.record(Action::Sysctl {
                path: path.to_owned(),
                value: previous.clone(),
            })?;
            sysctl::set(path, value)?;
        }
        Ok(previous)
    }

    /// Shuts the kernel out of what the interface receives, until [`perform`](Undo::perform).
    ///
    /// # Errors
    /// As [`record`](Undo::record) and [`Netlink::shut_ingress`]; [`Error::Refused`] with `ENODEV` if there is no such
    /// interface.
    pub fn shut_ingress(&mut self, netlink: &mut Netlink, interface: &str) -> Result<(), Error> {
        let Some(link) = netlink.link(interface)? else {
            let what = format!("interface {interface}: shut ingress");
            return Err(Error::Refused {
                what,
                errno: libc::ENODEV,
                detail: String::new(),
            });
        };
        let qdisc = !netlink.has_ingress_qdisc(link.index)?;
        self.record(Action::Ingress {
            interface: interface.to_owned(),
            qdisc,
        })?;
        netlink.shut_ingress(link.index)
    }

    /// Undoes all changes, the last first, and removes the file. Returns one line for each that could not be undone.
    #[must_use = "what could not be undone has to be told"]
    pub fn perform(self) -> Vec<String> {
        let failed = perform(self.actions);
        let mut warnings: Vec<String> = failed.into_iter().map(|(_, warning)| warning).collect();
        if let Err(e) = fs::remove_file(&self.path) {
            warnings.push(Error::io(format!("remove {}", self.path.display()), e).to_string());
        }
        warnings
    }
}

/// Undoes the actions, the last first; those that failed, each with a line that says why.
fn perform(actions: Vec<Action>) -> Vec<(Action, String)> {
    let failed = actions.into_iter().rev().filter_map(|action| {
        let error = action.perform().err()?;
        Some((action, format!("not undone: {error}")))
    });
    failed.collect()
}

/// Opens the file and locks it for as long as it is open.
fn lock(path: &Path, what: &str) -> Result<File, Error> {
    let fail = |e: io::Error| Error::io(what, e);
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    for _ in 0..TRIES {
        let file = options.open(path).map_err(fail)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let reason = "a gateway of this name is running".to_owned();
                return Err(Error::Invalid {
                    what: what.to_owned(),
                    reason,
                });
            }
            Err(e) => return Err(Error::io(what, e)),
        }
        let ours = file.metadata().map_err(fail)?;
        // The one who had it locked before may have removed it since it was opened here.
        match fs::metadata(path) {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => return Ok(file),
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(fail(e)),
            _ => {}
        }
    }
    Err(Error::Invalid {
        what: what.to_owned(),
        reason: "the file is removed again and again".to_owned(),
    })
}

/// The actions of a file in order, and one line for each of its lines that is none.
fn parse(text: &[u8], path: &Path) -> (Vec<Action>, Vec<String>) {
    let (mut actions, mut warnings) = (Vec::new(), Vec::new());
    for (number, line) in text
        .split(|byte| *byte == b'\n')
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
    {
        match serde_json::from_slice(line) {
            Ok(action) => actions.push(action),
            Err(_) => {
                let shown: String = String::from_utf8_lossy(line).chars().take(SHOWN).collect();
                warnings.push(format!(
                    "{}:{}: not understood, skipped: {shown:?}",
                    path.display(),
                    number + 1
                ));
            }
        }
    }
    (actions, warnings)
}

#[cfg(test)]
mod tests;

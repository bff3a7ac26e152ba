//! A made-up disk under the state file, which fails at a chosen step and loses what was not synchronised.

use std::io;
use std::sync::{Arc, Mutex};

use super::super::disk::Disk;
use super::super::{IdStore, IdStoreError};

/// A disk that remembers what a loss of power may leave.
#[derive(Default)]
pub struct State {
    /// What a process sees.
    file: Option<Vec<u8>>,
    /// What may be there after a loss of power; the first is what surely was there at the last fsync of the folder.
    after_power_loss: Vec<Option<Vec<u8>>>,
    /// The temporary file, and whether it is synchronised.
    temporary: Option<(Vec<u8>, bool)>,
    /// Steps until one fails, and whether it does its work before.
    fails_in: Option<(u32, bool)>,
    /// Steps made.
    pub steps: u32,
}

#[derive(Clone, Default)]
pub struct Fake(Arc<Mutex<State>>);

impl Fake {
    pub fn new() -> Fake {
        let fake = Fake::default();
        fake.state(|s| s.after_power_loss = vec![None]);
        fake
    }

    pub fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap())
    }

    pub fn store(&self) -> Result<IdStore, IdStoreError> {
        IdStore::on("gw0.ids".into(), Box::new(self.clone()))
    }

    /// From now on the step after `steps` more fails, before or after it did its work.
    pub fn fail_in(&self, steps: u32, works: bool) {
        self.state(|s| s.fails_in = Some((steps, works)));
    }

    /// The process is gone, and so may be what was not synchronised.
    pub fn restart(&self, power_loss: Option<usize>) {
        self.state(|s| {
            s.fails_in = None;
            if let Some(choice) = power_loss {
                s.file = s.after_power_loss[choice % s.after_power_loss.len()].clone();
                s.after_power_loss = vec![s.file.clone()];
                s.temporary = s.temporary.take().map(|_| (b"{\"vers".to_vec(), true));
            }
        });
    }

    fn step(&self, work: impl FnOnce(&mut State)) -> io::Result<()> {
        self.state(|s| {
            s.steps += 1;
            let fails = match &mut s.fails_in {
                Some((0, works)) => Some(*works),
                Some((left, _)) => {
                    *left -= 1;
                    None
                }
                None => None,
            };
            if fails != Some(false) {
                work(s);
            }
            fails.map_or(Ok(()), |_| Err(io::Error::other("No space left on device")))
        })
    }
}

impl Disk for Fake {
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.state(|s| Ok(s.file.clone()))
    }

    fn write_temporary(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.step(|s| s.temporary = Some((bytes.to_vec(), false)))
    }

    fn sync_temporary(&mut self) -> io::Result<()> {
        self.step(|s| s.temporary.as_mut().unwrap().1 = true)
    }

    fn rename(&mut self) -> io::Result<()> {
        self.step(|s| {
            let (bytes, synchronised) = s.temporary.take().unwrap();
            if !synchronised {
                s.after_power_loss.push(Some(bytes[..bytes.len() / 2].to_vec()));
            }
            s.after_power_loss.push(Some(bytes.clone()));
            s.file = Some(bytes);
        })
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.step(|s| s.after_power_loss = vec![s.file.clone()])
    }
}

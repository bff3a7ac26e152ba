//! The keys of a running gateway. Those of a daemon live as long as its session; of static ones packet ids are reserved in
//! the state file before a key is used.

use crate::program::exit::Failure;
use crate::program::statics;
use lcore::Imb;
use lcore::imb::Key;
use nf_control::StaticKey;
use nf_control::dco::NewKey;
use nf_control::id_store::{Fingerprint, IdRange, IdStore};
use nf_control::rekey::{KeyUse, Notice, RekeyWatch};
use nf_state::{KeySlot, Millis, PacketIds};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// A key in use.
pub struct HeldKey {
    /// Of a static key: names both halves, in the state file that under which we send.
    names: Option<Names>,
    /// The expanded key, shared with the workers.
    pub slot: Arc<KeySlot<Key>>,
    /// When it was installed.
    pub since: Instant,
    watch: RekeyWatch,
    told: bool,
}

/// The halves of a static key.
struct Names {
    encrypt: Fingerprint,
    decrypt: Fingerprint,
}

impl HeldKey {
    fn new(slot: Arc<KeySlot<Key>>, names: Option<Names>) -> HeldKey {
        HeldKey {
            watch: RekeyWatch::new(slot.cipher()),
            since: Instant::now(),
            names,
            slot,
            told: false,
        }
    }

    /// Whether its daemon has not been told yet that it nears its end; it is, from now on.
    pub fn tell(&mut self) -> bool {
        !std::mem::replace(&mut self.told, true)
    }

    /// Whether it is this key, with the same key id.
    pub fn is(&self, key: &StaticKey) -> bool {
        self.slot.key_id() == key.key_id
            && self.names.as_ref().is_some_and(|names| {
                names.encrypt == Fingerprint::of(key.cipher, &key.encrypt)
                    && names.decrypt == Fingerprint::of(key.cipher, &key.decrypt)
            })
    }

    /// What names it in the state file; None: it has no place there.
    pub fn stored(&self) -> Option<Fingerprint> {
        self.names.as_ref().map(|names| names.encrypt)
    }

    /// What should be said of its use since the last call.
    pub fn notices(&mut self, now: Millis) -> Vec<Notice> {
        let used = KeyUse {
            next_id: self.slot.ids().next(),
            sealed: self.slot.ids().used(),
            opened: self.slot.opened().get(),
        };
        self.watch.observe(used, now).collect()
    }
}

/// Makes and retires keys.
pub struct Keys {
    imb: Imb,
    store: Option<IdStore>,
    /// Keys that may send.
    live: HashMap<Fingerprint, Arc<KeySlot<Key>>>,
    /// Keys that send nothing more, each with the first id that was not used.
    stopped: Vec<(Fingerprint, u64)>,
    /// Whether the last reservation failed, which is said once.
    failing: bool,
}

impl Keys {
    /// Keys whose ids are reserved in this state file; None when there are no static keys.
    pub fn new(imb: Imb, state_file: Option<&Path>) -> Result<Keys, Failure> {
        let store = state_file
            .map(IdStore::open)
            .transpose()
            .map_err(Failure::machine)?;
        Ok(Keys {
            imb,
            store,
            live: HashMap::new(),
            stopped: Vec::new(),
            failing: false,
        })
    }

    /// Expands keys, each with the name that errors call it by, after their first packet ids were reserved: one write
    /// for all. In their order.
    ///
    /// # Errors
    /// The state file could not be written, or two keys would send with the same nonces. No key is in use then.
    pub fn make(&mut self, wanted: &[(String, &StaticKey)]) -> Result<Vec<HeldKey>, Failure> {
        let Some(store) = &mut self.store else {
            return match wanted {
                [] => Ok(Vec::new()),
                _ => Err(Failure::usage(
                    "keys_file: static keys need insecure_static_keys = true and a state_file",
                )),
            };
        };
        for (name, key) in wanted {
            if Fingerprint::of(key.cipher, &key.encrypt) == Fingerprint::of(key.cipher, &key.decrypt) {
                return Err(Failure::usage(format!(
                    "{name}: encrypt and decrypt are the same: both ends would send with the same nonces"
                )));
            }
        }
        let names = wanted
            .iter()
            .map(|(name, key)| (Fingerprint::of(key.cipher, &key.encrypt), name.clone()));
        let ranges = store.claim_all(names).map_err(Failure::machine)?;
        let made = self.expand(wanted, &ranges);
        if made.is_err() {
            // None of them is in use: those that were expanded stop, the others never began.
            for ((_, key), range) in wanted.iter().zip(&ranges) {
                let key = Fingerprint::of(key.cipher, &key.encrypt);
                match self.live.contains_key(&key) {
                    true => self.stop_one(key),
                    false => self.stopped.push((key, range.next)),
                }
            }
            self.settle();
        }
        made
    }

    /// Expands a key of a daemon.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn of_daemon(&self, key: &NewKey) -> Result<HeldKey, Failure> {
        let ids = PacketIds::new();
        let slot = statics::expand(
            &self.imb,
            (key.cipher, key.key_id),
            [&key.decrypt, &key.encrypt],
            ids,
        )?;
        Ok(HeldKey::new(slot, None))
    }

    /// Keys with the ids that were reserved for them.
    fn expand(
        &mut self,
        wanted: &[(String, &StaticKey)],
        ranges: &[IdRange],
    ) -> Result<Vec<HeldKey>, Failure> {
        let mut keys = Vec::with_capacity(wanted.len());
        for ((name, key), range) in wanted.iter().zip(ranges) {
            if range.next >= PacketIds::END {
                tracing::error!(
                    "{name}: all its packet ids were used before: nothing can be sent under this key"
                );
            }
            let ids = PacketIds::resume(range.next, range.end);
            let encrypt = Fingerprint::of(key.cipher, &key.encrypt);
            let slot = statics::slot(&self.imb, key, ids)?;
            self.live.insert(encrypt, slot.clone());
            let decrypt = Fingerprint::of(key.cipher, &key.decrypt);
            keys.push(HeldKey::new(slot, Some(Names { encrypt, decrypt })));
        }
        Ok(keys)
    }

    /// Reserves more packet ids where they run low. What cannot be reserved is said once; the keys send what they have.
    pub fn top_up<'k>(&mut self, keys: impl Iterator<Item = &'k HeldKey> + Clone) {
        let Some(store) = &mut self.store else { return };
        // Few keys, and rarely one that is low: that is found without the store.
        let low = keys.clone().any(|k| {
            k.slot.ids().end() < PacketIds::END
                && k.slot.ids().end().saturating_sub(k.slot.ids().next()) < LOW
        });
        if !low {
            return;
        }
        match store.top_up_all(
            keys.clone()
                .filter_map(|k| Some((k.stored()?, k.slot.ids().next()))),
        ) {
            Ok(ends) => {
                self.failing = false;
                for (key, end) in ends {
                    if let Some(held) = keys.clone().find(|k| k.stored() == Some(key)) {
                        held.slot.ids().extend_to(end);
                    }
                }
            }
            Err(e) if !self.failing => {
                self.failing = true;
                tracing::error!("packet ids cannot be reserved, sending will stop: {e}");
            }
            Err(_) => {}
        }
    }

    /// Sends nothing more under these keys, at once. Their ids are given back by [`Keys::settle`].
    pub fn stop<'k>(&mut self, keys: impl IntoIterator<Item = &'k HeldKey>) {
        for key in keys {
            match key.stored() {
                Some(stored) => self.stop_one(stored),
                None => {
                    key.slot.ids().retire();
                }
            }
        }
    }

    fn stop_one(&mut self, key: Fingerprint) {
        if let Some(slot) = self.live.remove(&key) {
            self.stopped.push((key, slot.ids().retire()));
        }
    }

    /// Gives back what stopped keys did not use: one write for all.
    pub fn settle(&mut self) {
        let unused = std::mem::take(&mut self.stopped);
        let Some(store) = self.store.as_mut().filter(|_| !unused.is_empty()) else {
            return;
        };
        if let Err(e) = store.settle(unused) {
            tracing::warn!("packet ids that were reserved and not used are lost: {e}");
        }
    }
}

impl Drop for Keys {
    /// Also when a start fails: ids that were reserved for it are not lost.
    fn drop(&mut self) {
        for key in self.live.keys().copied().collect::<Vec<_>>() {
            self.stop_one(key);
        }
        self.settle();
    }
}

/// As the store has it: half of what is reserved at a time.
const LOW: u64 = nf_control::id_store::CHUNK / 2;

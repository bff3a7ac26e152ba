//! Static keys of a running gateway: packet ids are reserved in the state file before a key is used.

use crate::program::exit::Failure;
use crate::program::statics;
use lcore::Imb;
use lcore::imb::Key;
use nf_control::StaticKey;
use nf_control::id_store::{Fingerprint, IdRange, IdStore};
use nf_control::rekey::{KeyUse, RekeyWatch};
use nf_state::{KeySlot, PacketIds};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// A key in use.
pub struct HeldKey {
    /// Names the half that we send under, in the state file.
    pub encrypt: Fingerprint,
    /// Names the half that we receive under.
    decrypt: Fingerprint,
    /// The expanded key, shared with the workers.
    pub slot: Arc<KeySlot<Key>>,
    watch: RekeyWatch,
}

impl HeldKey {
    /// Whether it is this key, with the same key id.
    pub fn is(&self, key: &StaticKey) -> bool {
        self.slot.key_id() == key.key_id
            && self.encrypt == Fingerprint::of(key.cipher, &key.encrypt)
            && self.decrypt == Fingerprint::of(key.cipher, &key.decrypt)
    }

    /// What should be said of its use since the last call.
    pub fn notices(&mut self) -> Vec<String> {
        let used = KeyUse {
            next_id: self.slot.ids().next(),
            sealed: self.slot.ids().used(),
            opened: self.slot.opened().get(),
        };
        self.watch
            .observe(used)
            .map(|notice| notice.to_string())
            .collect()
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
            keys.push(HeldKey {
                encrypt,
                decrypt: Fingerprint::of(key.cipher, &key.decrypt),
                slot,
                watch: RekeyWatch::new(key.cipher),
            });
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
        match store.top_up_all(keys.clone().map(|k| (k.encrypt, k.slot.ids().next()))) {
            Ok(ends) => {
                self.failing = false;
                for (key, end) in ends {
                    if let Some(held) = keys.clone().find(|k| k.encrypt == key) {
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
            self.stop_one(key.encrypt);
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

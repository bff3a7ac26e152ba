//! Keys as daemons install, exchange and remove them. Packets under a key that is replaced go on until every worker has the
//! new one; the old one sends nothing after that.

use super::failed;
use super::peers::no_such;
use crate::program::run::control::{Control, lock};
use crate::program::run::keys::HeldKey;
use crate::program::run::registry::{Entry, PeerRef};
use nf_control::dco::{NewKey, Refusal};
use nf_state::{Slot, Update};

impl Control<'_> {
    pub(super) fn new_key(&mut self, tunnel: u8, new: &NewKey) -> Result<(), Refusal> {
        let installed = self.of_peer((tunnel, new.peer), |entry, name| {
            let key = self.keys.of_daemon(new).map_err(failed)?;
            let shared = key.slot.clone();
            let before = entry.keys.install(new.slot, key);
            tracing::info!(
                "{name}: key {} ({}) is its {} one",
                new.key_id,
                new.cipher,
                word(new.slot)
            );
            Ok((shared, before))
        })?;
        let Some((shared, before)) = installed.transpose()? else {
            return Ok(());
        };
        self.update(tunnel, |_| Update::InstallKey {
            peer: new.peer,
            slot: new.slot,
            key: shared.clone(),
        });
        self.retire(before)
    }

    pub(super) fn swap_keys(&mut self, peer: PeerRef) -> Result<(), Refusal> {
        let swapped = self.of_peer(peer, |entry, name| {
            entry.keys.swap();
            match entry.keys.get(Slot::Primary) {
                Some(key) => tracing::info!("{name}: sends under key {} from now on", key.slot.key_id()),
                None => tracing::warn!("{name}: has no key to send under any more"),
            }
        })?;
        if swapped.is_some() {
            self.update(peer.0, |_| Update::SwapKeys(peer.1));
        }
        Ok(())
    }

    pub(super) fn del_key(&mut self, peer: PeerRef, slot: Slot) -> Result<(), Refusal> {
        let removed = self.of_peer(peer, |entry, _| entry.keys.remove(slot))?;
        let Some(before) = removed else {
            return Ok(());
        };
        self.update(peer.0, |_| Update::RemoveKey { peer: peer.1, slot });
        self.retire(before)
    }

    /// Does something to a peer, which is given with its name. None: the peer is gone by itself, and what is asked of it counts
    /// as done.
    fn of_peer<T>(
        &self,
        peer: PeerRef,
        what: impl FnOnce(&mut Entry, &str) -> T,
    ) -> Result<Option<T>, Refusal> {
        if self.is_gone(peer) {
            return Ok(None);
        }
        let mut registry = lock(&self.registry);
        let name = registry.name(peer);
        let entry = registry.get_mut(peer).ok_or_else(|| no_such(&name))?;
        Ok(Some(what(entry, &name)))
    }

    /// Sends nothing more under a key, once no worker has it; also when a worker cannot be waited for.
    fn retire(&mut self, before: Option<HeldKey>) -> Result<(), Refusal> {
        if before.is_none() {
            return Ok(());
        }
        let applied = self.applied();
        self.keys.stop(&before);
        applied
    }
}

pub(super) fn word(slot: Slot) -> &'static str {
    match slot {
        Slot::Primary => "primary",
        Slot::Secondary => "secondary",
    }
}

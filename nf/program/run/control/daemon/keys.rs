//! Keys as daemons install, exchange and remove them. Packets under a key that is replaced go on until every worker has the
//! new one; the old one sends nothing after that.

use super::failed;
use super::peers::no_such;
use crate::program::run::control::{Control, lock};
use crate::program::run::keys::HeldKey;
use crate::program::run::registry::PeerRef;
use nf_control::dco::{NewKey, Refusal};
use nf_state::{Slot, Update};

impl Control<'_> {
    pub(super) fn new_key(&mut self, tunnel: u8, new: &NewKey) -> Result<(), Refusal> {
        let peer = (tunnel, new.peer);
        if self.is_gone(peer) {
            return Ok(());
        }
        let registry = self.registry.clone();
        let mut registry = lock(&registry);
        let name = registry.name(peer);
        let Some(entry) = registry.get_mut(peer) else {
            return Err(no_such(&name));
        };
        let key = self.keys.of_daemon(new).map_err(failed)?;
        let shared = key.slot.clone();
        let before = entry.keys.install(new.slot, key);
        tracing::info!(
            "{name}: key {} ({}) is its {} one",
            new.key_id,
            new.cipher,
            word(new.slot)
        );
        drop(registry);
        self.update(tunnel, |_| Update::InstallKey {
            peer: new.peer,
            slot: new.slot,
            key: shared.clone(),
        });
        self.retire(before)
    }

    pub(super) fn swap_keys(&mut self, peer: PeerRef) -> Result<(), Refusal> {
        if self.is_gone(peer) {
            return Ok(());
        }
        let registry = self.registry.clone();
        let mut registry = lock(&registry);
        let name = registry.name(peer);
        let Some(entry) = registry.get_mut(peer) else {
            return Err(no_such(&name));
        };
        entry.keys.swap();
        match entry.keys.get(Slot::Primary) {
            Some(key) => tracing::info!("{name}: sends under key {} from now on", key.slot.key_id()),
            None => tracing::warn!("{name}: has no key to send under any more"),
        }
        drop(registry);
        self.update(peer.0, |_| Update::SwapKeys(peer.1));
        Ok(())
    }

    pub(super) fn del_key(&mut self, peer: PeerRef, slot: Slot) -> Result<(), Refusal> {
        if self.is_gone(peer) {
            return Ok(());
        }
        let registry = self.registry.clone();
        let mut registry = lock(&registry);
        let name = registry.name(peer);
        let Some(entry) = registry.get_mut(peer) else {
            return Err(no_such(&name));
        };
        let before = entry.keys.remove(slot);
        drop(registry);
        self.update(peer.0, |_| Update::RemoveKey { peer: peer.1, slot });
        self.retire(before)
    }

    /// Sends nothing more under a key, once no worker has it.
    fn retire(&mut self, before: Option<HeldKey>) -> Result<(), Refusal> {
        if before.is_some() {
            self.applied()?;
            self.keys.stop(&before);
        }
        Ok(())
    }
}

pub(super) fn word(slot: Slot) -> &'static str {
    match slot {
        Slot::Primary => "primary",
        Slot::Secondary => "secondary",
    }
}

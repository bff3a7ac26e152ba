//! What daemons are told unasked.

use super::Control;
use lcore::socket::ClientId;
use nf_control::dco::Notification;
use std::collections::BTreeSet;

impl Control<'_> {
    /// Tells whoever drives a tunnel, and those who only look on.
    pub(in crate::program::run::control) fn notify(&self, tunnel: u8, what: &Notification) {
        let side = &self.tunnels[usize::from(tunnel)];
        let (Some(claim), Some(index)) = (&side.claim, side.index) else {
            return;
        };
        let drivers: BTreeSet<ClientId> = self
            .tunnels
            .iter()
            .filter_map(|t| t.claim.as_ref().map(|c| c.client))
            .collect();
        self.clients.notify(claim.client, &drivers, index, what);
    }
}

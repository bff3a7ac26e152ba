//! What the control side asks of a worker, between two bursts.

use nf_state::{Rejected, TableError, Update};

use super::Worker;
use super::send::Outgoing;
use crate::cycles;
use crate::imb::Key;
use crate::mailbox::{Message, Reply};

/// Messages between two polls.
pub const MESSAGES: usize = 64;

impl Worker {
    /// Applies what the control side sent, so much of it at a time that the ports' rings do not fill meanwhile. Between
    /// bursts, so no packet is in mid-batch.
    pub fn apply(&mut self) {
        for _ in 0..MESSAGES {
            let Some(message) = self.mailbox.next() else {
                return;
            };
            self.apply_one(message);
            self.mailbox.done();
        }
    }

    fn apply_one(&mut self, message: Message) {
        match message {
            Message::Tune(tuning) => {
                self.inbound.tune(tuning);
                self.outbound.tune(tuning);
            }
            Message::Table(tunnel, update) => self.update(usize::from(tunnel), update),
            Message::Ping { tunnel, peer } => self.ping(tunnel, peer),
            Message::Listen(listeners) => {
                let before = self.inbound.listen(listeners);
                self.mailbox.reply(Reply::Listened(before));
            }
            Message::Translate(table) => {
                let before = self.inbound.translate(table);
                self.mailbox.reply(Reply::Translated(before));
            }
            Message::Longest { tunnel, longest } => {
                if let Some(queues) = self.tunnels.get_mut(usize::from(tunnel)) {
                    queues.longest = longest;
                }
            }
            Message::Mode { tunnel, mode } => {
                if let Some(tunnel) = self.context.tunnels.get_mut(usize::from(tunnel)) {
                    tunnel.mode = mode;
                }
            }
            Message::Mss { tunnel, clamp } => {
                if let Some(tunnel) = self.context.tunnels.get_mut(usize::from(tunnel)) {
                    tunnel.mss = clamp;
                }
            }
        }
    }

    fn update(&mut self, tunnel: usize, update: Update<Key>) {
        let Some(tunnel) = self.context.tunnels.get_mut(tunnel) else {
            let reason = TableError::NotForTable;
            return self.mailbox.reply(Reply::Rejected(Rejected { reason, update }));
        };
        match tunnel.apply(update) {
            Ok(Some(retired)) => self.mailbox.reply(Reply::Retired(retired)),
            Ok(None) => {}
            Err(rejected) => self.mailbox.reply(Reply::Rejected(rejected)),
        }
    }

    /// A keepalive for a peer, through the outbound path.
    fn ping(&mut self, tunnel: u8, peer: u32) {
        let now = self.now(cycles());
        let Some(back) = self.tunnels.get_mut(usize::from(tunnel)) else {
            return;
        };
        let mut outgoing = Outgoing {
            nic: &mut self.nic,
            records: &mut self.records,
            tunnel,
            back,
            answers: &mut self.out.tunnels[usize::from(tunnel)],
            at_most: 1,
            steering: &self.steering,
            counters: &self.counters,
        };
        self.outbound
            .ping(&mut self.context, tunnel, peer, now, &mut outgoing);
        outgoing.flush();
    }

    /// Passes on what the path wants the control side to know. Events that it is too slow for are counted: it finds
    /// the same in the endpoints.
    #[cold]
    pub(super) fn report_events(&mut self) {
        for (tunnel, event) in self.context.events.drain(..) {
            if self.mailbox.report(tunnel, event).is_err() {
                self.counters.events_lost.add(1);
            }
        }
    }
}

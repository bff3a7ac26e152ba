//! How the control side reaches a worker: a bounded queue of changes one way; what they retired, and events, the other
//! way.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use nf_path::inbound::Tuning;
use nf_path::inbound::classify::Listeners;
use nf_state::{Event, Rejected, Retired, Update};

use crate::imb::Key;

/// A change that a worker applies between two bursts.
#[derive(Debug)]
pub enum Message {
    /// To the tables of one tunnel, by index.
    Table(u8, Update<Key>),
    /// Another batching and lookahead.
    Tune(Tuning),
    /// A keepalive is due.
    Ping {
        /// The tunnel, by index.
        tunnel: u8,
        /// Peer id.
        peer: u32,
    },
    /// Other listening addresses, from the next burst on.
    Listen(Box<Listeners>),
    /// Another longest frame of a tunnel port, in bytes.
    Longest {
        /// The tunnel, by index.
        tunnel: u8,
        /// Bytes from the Ethernet header on.
        longest: usize,
    },
}

/// What comes back of a change, for the control side to drop.
#[derive(Debug)]
pub enum Reply {
    /// What the change removed or replaced.
    Retired(Retired<Key>),
    /// The change, which could not be made.
    Rejected(Rejected<Key>),
    /// The listening addresses that were in force before.
    Listened(Box<Listeners>),
}

/// How many changes may wait for one worker.
pub const CAPACITY: usize = 1024;
/// How many events may wait for the control side.
pub const EVENTS: usize = 1024;

struct Shared {
    messages: ArrayQueue<Message>,
    replies: ArrayQueue<Reply>,
    events: ArrayQueue<(u8, Event)>,
}

/// The control side's end. Cloned by whoever has something to say to the worker.
#[derive(Clone)]
pub struct Sender(Arc<Shared>);

/// The worker's end.
pub struct Mailbox(Arc<Shared>);

/// A mailbox for one worker.
pub fn mailbox() -> (Sender, Mailbox) {
    let shared = Arc::new(Shared {
        messages: ArrayQueue::new(CAPACITY),
        replies: ArrayQueue::new(CAPACITY),
        events: ArrayQueue::new(EVENTS),
    });
    (Sender(shared.clone()), Mailbox(shared))
}

impl Sender {
    /// Leaves a message. Gives it back when the worker has [`CAPACITY`] of them to read.
    pub fn send(&self, message: Message) -> Result<(), Message> {
        self.0.messages.push(message)
    }

    /// What came back since the last call. Dropping it frees peers and zeroises keys on the calling thread, off the
    /// fast path.
    pub fn replies(&self) -> impl Iterator<Item = Reply> + '_ {
        std::iter::from_fn(|| self.0.replies.pop())
    }

    /// What the worker reported since the last call, with the index of the tunnel.
    pub fn events(&self) -> impl Iterator<Item = (u8, Event)> + '_ {
        std::iter::from_fn(|| self.0.events.pop())
    }

    /// Whether the worker has taken everything.
    pub fn is_read(&self) -> bool {
        self.0.messages.is_empty()
    }
}

impl Mailbox {
    /// The next message, unless there is none or no room for the reply.
    #[inline]
    pub(crate) fn next(&self) -> Option<Message> {
        if self.0.messages.is_empty() || self.0.replies.is_full() {
            return None;
        }
        self.0.messages.pop()
    }

    /// Reports an event; gives it back when the control side has [`EVENTS`] of them to read.
    pub(crate) fn report(&self, tunnel: u8, event: Event) -> Result<(), Event> {
        self.0.events.push((tunnel, event)).map_err(|(_, event)| event)
    }

    /// Hands back what a change left over.
    pub(crate) fn reply(&self, reply: Reply) {
        // `next` saw room, and this worker is the only one that fills it.
        let _ = self.0.replies.push(reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ping(peer: u32) -> Message {
        Message::Ping { tunnel: 0, peer }
    }

    fn float(peer: u32) -> Event {
        let at = ([192, 0, 2, 1], 1194).into();
        Event::Float {
            peer,
            remote: at,
            local: at,
        }
    }

    #[test]
    fn messages_arrive_in_order_and_too_many_come_back() {
        let (sender, mailbox) = mailbox();
        let other = sender.clone();
        for peer in 0..CAPACITY as u32 {
            let from = if peer % 2 == 0 { &sender } else { &other };
            assert!(from.send(ping(peer)).is_ok());
        }
        let refused = sender.send(ping(7777));
        assert!(matches!(refused, Err(Message::Ping { peer: 7777, .. })));
        for expected in 0..CAPACITY as u32 {
            assert!(!sender.is_read());
            assert!(matches!(mailbox.next(), Some(Message::Ping { peer, .. }) if peer == expected));
        }
        assert!(sender.is_read() && mailbox.next().is_none());
        assert!(sender.send(ping(1)).is_ok(), "there is room again");
    }

    #[test]
    fn messages_wait_while_there_is_no_room_for_a_reply() {
        let (sender, mailbox) = mailbox();
        for _ in 0..CAPACITY {
            mailbox.reply(Reply::Listened(Box::default()));
        }
        assert!(sender.send(ping(1)).is_ok());
        assert!(mailbox.next().is_none() && !sender.is_read());
        assert!(sender.replies().next().is_some());
        assert!(matches!(mailbox.next(), Some(Message::Ping { peer: 1, .. })));
        assert_eq!(sender.replies().count(), CAPACITY - 1);
    }

    #[test]
    fn events_arrive_in_order_and_too_many_come_back() {
        let (sender, mailbox) = mailbox();
        for peer in 0..EVENTS as u32 {
            assert_eq!(mailbox.report(3, float(peer)), Ok(()));
        }
        assert_eq!(mailbox.report(3, float(9999)), Err(float(9999)));
        let expected = (0..EVENTS as u32).map(|peer| (3, float(peer)));
        assert!(sender.events().eq(expected));
        assert_eq!(mailbox.report(0, float(1)), Ok(()), "there is room again");
    }
}

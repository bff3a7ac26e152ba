//! How the control side reaches a worker: a bounded queue of changes one way; what they retired, and events, the other
//! way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_queue::ArrayQueue;
use nf_path::inbound::Tuning;
use nf_path::inbound::classify::Listeners;
use nf_path::translate::Translations;
use nf_path::tunnel::{Mode, MssClamp};
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
    /// Another table of what is translated between the host port and the NIC.
    Translate(Box<Translations>),
    /// Another longest frame of a tunnel port, in bytes.
    Longest {
        /// The tunnel, by index.
        tunnel: u8,
        /// Bytes from the Ethernet header on.
        longest: usize,
    },
    /// Another number of peers that a tunnel may have.
    Mode {
        /// The tunnel, by index.
        tunnel: u8,
        /// One or many.
        mode: Mode,
    },
    /// Another MSS clamp of a tunnel.
    Mss {
        /// The tunnel, by index.
        tunnel: u8,
        /// None: no clamp.
        clamp: Option<MssClamp>,
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
    /// The table that was in force before.
    Translated(Box<Translations>),
}

/// How many changes may wait for one worker.
pub const CAPACITY: usize = 1024;
/// How many events may wait for the control side.
pub const EVENTS: usize = 1024;

/// A counter that shares its cache line with nothing.
#[derive(Default)]
#[repr(align(128))]
struct Alone(AtomicU64);

struct Shared {
    messages: ArrayQueue<Message>,
    /// Messages left so far. A lock among senders, so that the count is in the order of the queue; the worker does not
    /// take it.
    sent: Mutex<u64>,
    /// Messages applied so far. Written by the worker alone.
    applied: Alone,
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
        sent: Mutex::default(),
        applied: Alone::default(),
        replies: ArrayQueue::new(CAPACITY),
        events: ArrayQueue::new(EVENTS),
    });
    (Sender(shared.clone()), Mailbox(shared))
}

impl Sender {
    /// Leaves a message. Gives it back when the worker has [`CAPACITY`] of them to read.
    pub fn send(&self, message: Message) -> Result<(), Message> {
        let mut sent = self.0.sent.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.messages.push(message)?;
        *sent += 1;
        Ok(())
    }

    /// How many messages all senders have left so far. All of them are applied once [`Sender::applied`] has reached this
    /// number.
    pub fn sent(&self) -> u64 {
        *self.0.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many messages the worker has applied so far: packets that it takes from its ports after this see what those
    /// changed. It stands still when the worker has ended.
    pub fn applied(&self) -> u64 {
        self.0.applied.0.load(Ordering::Acquire)
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

    /// One more message is applied.
    #[inline]
    pub(crate) fn done(&self) {
        // Nobody else writes it, so this needs no locked instruction.
        let applied = self.0.applied.0.load(Ordering::Relaxed);
        self.0.applied.0.store(applied + 1, Ordering::Release);
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
    fn what_was_taken_is_applied_only_when_done() {
        let (sender, mailbox) = mailbox();
        let other = sender.clone();
        assert_eq!((sender.sent(), sender.applied()), (0, 0));
        assert!(sender.send(ping(1)).is_ok() && other.send(ping(2)).is_ok());
        assert_eq!((sender.sent(), other.sent(), sender.applied()), (2, 2, 0));
        assert!(mailbox.next().is_some());
        assert_eq!(sender.applied(), 0, "taken, not applied");
        mailbox.done();
        assert_eq!((sender.sent(), sender.applied()), (2, 1));
        for peer in 0..CAPACITY as u32 - 1 {
            assert!(sender.send(ping(peer)).is_ok());
        }
        assert!(sender.send(ping(0)).is_err(), "full");
        assert_eq!(
            sender.sent(),
            CAPACITY as u64 + 1,
            "what came back does not count"
        );
    }

    #[test]
    fn what_several_threads_send_is_counted_in_the_order_of_the_queue() {
        const EACH: u32 = 20_000;
        let (sender, mailbox) = mailbox();
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    for n in 0..EACH {
                        while sender.send(ping(n)).is_err() {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut taken = 0;
            while taken < u64::from(2 * EACH) {
                if mailbox.next().is_some() {
                    mailbox.done();
                    taken += 1;
                    // It waits for one that has left a message and not counted it yet.
                    assert!(sender.sent() >= taken, "applied is never ahead of sent");
                }
            }
        });
        assert_eq!((sender.sent(), sender.applied()), (40_000, 40_000));
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

//! Requests to rtnetlink, and their answers.

use crate::Error;
use crate::socket::{Channel, Message, emit, messages, words};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use std::time::{Duration, Instant};

/// How long the kernel may take to answer, unless [`Netlink::set_timeout`] says otherwise. Requests wait for the
/// kernel's one RTNL lock, which other processes may hold for seconds.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// How often a dump is asked for again because the tables changed while it was made.
const DUMPS: u32 = 8;
/// Requests in one datagram. The kernel answers each refusal before the next request is carried out, and all answers
/// have to fit the receive buffer (212992 bytes by default, some 800 of them for each).
const BATCH: usize = 128;

/// A connection to rtnetlink(7): one request at a time, each waits for its answer.
///
/// It speaks to the network namespace that the thread was in when it was opened. What changes by itself is told by
/// [`Monitor`](crate::Monitor).
pub struct Netlink {
    channel: Channel,
    sequence: u32,
    timeout: Duration,
}

/// What came back for a datagram of requests.
#[derive(Default)]
struct Replies {
    messages: Vec<RouteNetlinkMessage>,
    /// Which request was refused, the error number, the kernel's words.
    refusals: Vec<(usize, i32, String)>,
    /// The tables changed while the dump was made.
    interrupted: bool,
    /// Why an answer could not be decoded.
    odd: Option<String>,
}

impl Netlink {
    /// Opens a socket of `NETLINK_ROUTE`.
    ///
    /// # Errors
    /// [`Error::Io`] if the kernel gives none.
    pub fn open() -> Result<Netlink, Error> {
        Ok(Netlink {
            channel: Channel::open("open rtnetlink", None)?,
            sequence: 0,
            timeout: TIMEOUT,
        })
    }

    /// Sets how long each request may take.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// One request that is answered by an acknowledgement, after messages if it asks for some. `flags` besides
    /// `NLM_F_REQUEST | NLM_F_ACK`.
    pub(crate) fn request(
        &mut self,
        what: &str,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Vec<RouteNetlinkMessage>, Error> {
        let replies = self.exchange(what, vec![message], NLM_F_REQUEST | flags, NLM_F_ACK)?;
        finish(replies, &|_| what.to_owned(), 1)
    }

    /// Many requests that only have to be acknowledged, a datagram for each [`BATCH`]. All are tried. `what` names a
    /// request by its place; a refusal with one of `fine` counts as done.
    pub(crate) fn request_all(
        &mut self,
        what: &dyn Fn(usize) -> String,
        requests: Vec<RouteNetlinkMessage>,
        flags: u16,
        fine: &[i32],
    ) -> Result<(), Error> {
        let (mut of, mut all) = (0, Replies::default());
        let mut requests = requests.into_iter().peekable();
        while requests.peek().is_some() {
            let batch: Vec<_> = requests.by_ref().take(BATCH).collect();
            let count = batch.len();
            // Errors are always told. Of the rest one acknowledgement is enough: the kernel answers in order.
            let replies = self.exchange(&what(of), batch, NLM_F_REQUEST | flags, NLM_F_ACK)?;
            let refusals = replies
                .refusals
                .into_iter()
                .filter(|(_, errno, _)| !fine.contains(errno));
            all.refusals
                .extend(refusals.map(|(n, errno, text)| (of + n, errno, text)));
            all.odd = all.odd.or(replies.odd);
            of += count;
        }
        finish(all, what, of).map(|_| ())
    }

    /// All that the kernel has of a kind, as one consistent view of its tables.
    pub(crate) fn dump(
        &mut self,
        what: &str,
        message: &RouteNetlinkMessage,
    ) -> Result<Vec<RouteNetlinkMessage>, Error> {
        for _ in 0..DUMPS {
            let replies = self.exchange(what, vec![message.clone()], NLM_F_REQUEST | NLM_F_DUMP, 0)?;
            if !replies.interrupted {
                return finish(replies, &|_| what.to_owned(), 1);
            }
        }
        let reason = format!("the tables changed during each of {DUMPS} dumps");
        Err(Error::Odd {
            what: what.to_owned(),
            reason,
        })
    }

    /// Sends the requests as one datagram and reads until the last is answered. `last` are flags of the last request.
    fn exchange(
        &mut self,
        what: &str,
        requests: Vec<RouteNetlinkMessage>,
        flags: u16,
        last: u16,
    ) -> Result<Replies, Error> {
        let (first, count) = (self.sequence.wrapping_add(1), requests.len());
        self.sequence = self
            .sequence
            .wrapping_add(u32::try_from(count).unwrap_or(u32::MAX));
        let mut bytes = Vec::new();
        for (n, inner) in requests.into_iter().enumerate() {
            let mut header = NetlinkHeader::default();
            header.flags = if n + 1 == count { flags | last } else { flags };
            header.sequence_number = first.wrapping_add(n as u32);
            emit(
                &mut bytes,
                Message::new(header, NetlinkPayload::InnerMessage(inner)),
            );
        }
        self.channel.send(&bytes).map_err(|e| Error::io(what, e))?;
        let until = Instant::now() + self.timeout;
        let mut replies = Replies::default();
        loop {
            match self.channel.receive().map_err(|e| Error::io(what, e))? {
                Some(datagram) if take(datagram, first, count, &mut replies) => return Ok(replies),
                Some(_) => continue,
                None => {}
            }
            if !self.channel.wait(until).map_err(|e| Error::io(what, e))? {
                return Err(Error::TimedOut {
                    what: what.to_owned(),
                    after: self.timeout,
                });
            }
        }
    }
}

/// Adds what one datagram says about the requests `first` and following. True if it ends the answer of the last.
fn take(datagram: &[u8], first: u32, count: usize, replies: &mut Replies) -> bool {
    let mut ended = false;
    for (sequence, message) in messages(datagram) {
        let n = sequence.wrapping_sub(first) as usize;
        // Late answers to a request that was given up are of no interest.
        if n >= count {
            continue;
        }
        let is_last = n + 1 == count;
        let Message { header, payload, .. } = match message {
            Ok(message) => message,
            Err(reason) => {
                replies.odd.get_or_insert(reason);
                continue;
            }
        };
        replies.interrupted |= header.flags & NLM_F_DUMP_INTR != 0;
        match payload {
            NetlinkPayload::InnerMessage(inner) => replies.messages.push(inner),
            NetlinkPayload::Error(e) => {
                ended |= is_last;
                if let Some(code) = e.code {
                    let errno = code.get().saturating_neg();
                    replies.refusals.push((n, errno, words(header.flags, &e.header)));
                }
            }
            NetlinkPayload::Done(done) => {
                ended |= is_last;
                if done.code < 0 {
                    replies
                        .refusals
                        .push((n, done.code.saturating_neg(), String::new()));
                }
            }
            _ => {}
        }
    }
    ended
}

/// The messages, or the error that the replies amount to.
fn finish(
    replies: Replies,
    what: &dyn Fn(usize) -> String,
    of: usize,
) -> Result<Vec<RouteNetlinkMessage>, Error> {
    let failed = replies.refusals.len();
    if let Some((n, errno, detail)) = replies.refusals.into_iter().next() {
        let first = Error::Refused {
            what: what(n),
            errno,
            detail,
        };
        return Err(if of == 1 {
            first
        } else {
            Error::Partly {
                failed,
                of,
                first: Box::new(first),
            }
        });
    }
    match replies.odd {
        Some(reason) => Err(Error::Odd {
            what: what(0),
            reason,
        }),
        None => Ok(replies.messages),
    }
}

/// What a dump or a look-up found, with `absent` where the kernel says with one of `errnos` that there is nothing.
pub(crate) fn unless<T>(result: Result<T, Error>, errnos: &[i32], absent: T) -> Result<T, Error> {
    match result {
        Err(Error::Refused { errno, .. }) if errnos.contains(&errno) => Ok(absent),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::{DoneMessage, ErrorMessage};
    use std::num::NonZeroI32;

    fn datagram(parts: &[(u32, NetlinkPayload<RouteNetlinkMessage>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (sequence, payload) in parts {
            let mut header = NetlinkHeader::default();
            header.sequence_number = *sequence;
            emit(&mut bytes, Message::new(header, payload.clone()));
        }
        bytes
    }

    fn answer(errno: i32) -> NetlinkPayload<RouteNetlinkMessage> {
        let mut e = ErrorMessage::default();
        e.code = NonZeroI32::new(-errno);
        e.header = vec![0; 16];
        NetlinkPayload::Error(e)
    }

    #[test]
    fn only_the_last_acknowledgement_ends() {
        let mut replies = Replies::default();
        assert!(!take(
            &datagram(&[(10, answer(libc::EINVAL)), (9, answer(0)), (13, answer(0))]),
            10,
            3,
            &mut replies
        ));
        assert!(take(&datagram(&[(12, answer(0))]), 10, 3, &mut replies));
        assert_eq!(replies.refusals, [(0, libc::EINVAL, String::new())]);
        let error = finish(replies, &|n| format!("request {n}"), 3).expect_err("a refusal");
        assert_eq!(
            error.to_string(),
            "1 of 3 requests refused, the first: request 0: Invalid argument (os error 22)"
        );
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut replies = Replies::default();
        assert!(!take(
            &datagram(&[(u32::MAX, answer(libc::EPERM))]),
            u32::MAX,
            2,
            &mut replies
        ));
        assert!(take(&datagram(&[(0, answer(0))]), u32::MAX, 2, &mut replies));
        assert_eq!(replies.refusals.len(), 1);
    }

    #[test]
    fn a_dump_ends_with_its_own_error() {
        let mut done = DoneMessage::default();
        done.code = -libc::ENODEV;
        let mut replies = Replies::default();
        assert!(take(
            &datagram(&[(1, NetlinkPayload::Done(done))]),
            1,
            1,
            &mut replies
        ));
        let ended = finish(replies, &|_| "dump".to_owned(), 1).map(|m| m.len());
        assert_eq!(unless(ended, &[libc::ENODEV], 77).expect("nothing there"), 77);
    }
}

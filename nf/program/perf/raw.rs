//! IPsec-MB alone: the same calls on the same kind of buffers, order, keys and lookahead as the path makes.
//!
//! It is given each payload's address beforehand, so it reads no buffer descriptor, and it writes no header.

use crate::program::cli::Direction;
use crate::program::exit::Failure;
use crate::program::perf::cases::Case;
use crate::program::perf::frames::PAYLOAD;
use crate::program::perf::traffic::{Frame, Sender, record_header};
use lcore::imb::Key;
use lcore::{Imb, Mbuf, cycles, prefetch_write};
use nf_path::aead::Aead;
use nf_path::buf::Buf;
use nf_state::{KeySlot, Scope};
use nf_wire::ether;
use nf_wire::record::{AAD_LEN, OVERHEAD, nonce};
use std::hint::black_box;

/// One record to be opened, from its header on, or one packet to be sealed.
struct Record<'b> {
    bytes: &'b mut [u8],
    peer: u32,
    /// The packet id to seal it under.
    id: u32,
}

/// Opens or seals the frames of a round. Returns the cycles spent and the number of records.
pub fn round(
    imb: &mut Imb,
    case: &Case,
    senders: &[Sender],
    plan: &[Frame],
    buffers: &mut [Mbuf],
    walk: impl FnOnce(),
) -> Result<(u64, usize), Failure> {
    let mut records = Vec::with_capacity(plan.len());
    for (buf, frame) in buffers.iter_mut().zip(plan) {
        let Frame::Record(peer, _) = *frame else { continue };
        let (from, id) = match case.direction {
            Direction::In => (PAYLOAD, 0),
            Direction::Out => (ether::HEADER_LEN, reserve(&senders[peer as usize])?),
        };
        let bytes = &mut buf.data_mut()[from..];
        records.push(Record { bytes, peer, id });
    }
    let mut raw = Raw { imb, case, senders };
    walk();
    let start = cycles();
    match case.direction {
        Direction::In => raw.all::<Open>(&mut records),
        Direction::Out => raw.all::<Seal>(&mut records),
    }
    Ok((cycles() - start, records.len()))
}

/// A packet id that nobody else seals under.
fn reserve(sender: &Sender) -> Result<u32, Failure> {
    let id = sender.key().ids().reserve(1).and_then(|mut ids| ids.next());
    id.ok_or_else(|| Failure::machine("a key has no packet id left"))
}

/// What is done with a record.
trait Operation {
    /// Where its text begins.
    const TEXT: usize;
    /// The key that is used.
    fn key(keys: &KeySlot<Key>) -> &Key;
    /// Does it.
    fn run(imb: &mut Imb, keys: &KeySlot<Key>, record: &mut Record);
}

struct Open;

impl Operation for Open {
    const TEXT: usize = OVERHEAD;

    #[inline(always)]
    fn key(keys: &KeySlot<Key>) -> &Key {
        keys.open_key()
    }

    #[inline(always)]
    fn run(imb: &mut Imb, keys: &KeySlot<Key>, record: &mut Record) {
        let (header, text) = record.bytes.split_at_mut(OVERHEAD);
        let aad = header.first_chunk::<AAD_LEN>().expect("a header's length");
        let id = [aad[4], aad[5], aad[6], aad[7]];
        let nonce = nonce(id, keys.open_tail());
        black_box(imb.open(keys.open_key(), &nonce, aad, text));
    }
}

struct Seal;

impl Operation for Seal {
    const TEXT: usize = 0;

    #[inline(always)]
    fn key(keys: &KeySlot<Key>) -> &Key {
        keys.seal_key()
    }

    #[inline(always)]
    fn run(imb: &mut Imb, keys: &KeySlot<Key>, record: &mut Record) {
        let aad = record_header(record.peer, record.id);
        let nonce = nonce(record.id.to_be_bytes(), keys.seal_tail());
        black_box(imb.seal(keys.seal_key(), &nonce, &aad, record.bytes));
    }
}

struct Raw<'r> {
    imb: &'r mut Imb,
    case: &'r Case,
    senders: &'r [Sender],
}

impl Raw<'_> {
    fn all<O: Operation>(&mut self, records: &mut [Record]) {
        let distance = usize::from(self.case.lookahead.distance);
        for burst in records.chunks_mut(usize::from(self.case.burst)) {
            let mut end = 0;
            for i in 0..burst.len() {
                if i == end {
                    end = match self.case.lookahead.scope {
                        Scope::Burst => burst.len(),
                        Scope::Batch => i + run_length(&burst[i..]),
                    };
                    if end - i > 1 {
                        (i..end.min(i + distance)).for_each(|j| self.ask::<O>(burst, j));
                    }
                }
                if distance > 0 && i + distance < end {
                    self.ask::<O>(burst, i + distance);
                }
                let keys = self.senders[burst[i].peer as usize].key();
                O::run(self.imb, keys, &mut burst[i]);
            }
        }
    }

    #[inline]
    fn ask<O: Operation>(&self, burst: &[Record], i: usize) {
        let record = &burst[i];
        prefetch_write(&record.bytes[O::TEXT..]);
        if i == 0 || burst[i - 1].peer != record.peer {
            let keys = self.senders[record.peer as usize].key();
            self.imb.prefetch(keys);
            self.imb.prefetch_key(O::key(keys));
        }
    }
}

/// How many records at the front are of one peer.
fn run_length(records: &[Record]) -> usize {
    records.iter().take_while(|r| r.peer == records[0].peer).count()
}

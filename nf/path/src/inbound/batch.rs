//! Stage 3: records of one flow that agree in all that matters become one batch.
//!
//! The rules are those of frag-list GRO for OpenVPN's data channel: only DATA_V2 joins; addresses, ports, header word, the
//! remaining outer fields, VLAN and the port's checksum verdicts are equal; the first record sets the size, a
//! shorter one closes the batch, a larger one starts the next; at most 64; nothing overtakes within a flow.

pub use super::facts::Facts;

use crate::buf::Buf;
use crate::burst::MAX_BURST;
use arrayvec::ArrayVec;
use nf_wire::frame::Outer;

/// The most records in one batch.
pub const MAX_BATCH: u16 = 64;

/// Records that agree, in order of arrival. Only [`Builder`] makes one, which proves that they do.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    head: u16,
    tail: u16,
    count: u16,
    /// UDP payload bytes of the first record.
    nominal: u16,
    /// Entry of the flow in the builder's table.
    entry: u16,
    open: bool,
}

impl Batch {
    /// Slot of the first record.
    pub fn head(&self) -> u16 {
        self.head
    }

    /// Number of records, 1 to [`MAX_BATCH`].
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }
}

impl Batch {
    /// Whether the rules let `new` join, given the facts of the first record; IPv6 extension headers are looked at
    /// apart.
    #[inline(always)]
    fn takes(&self, new: &Facts, first: &Facts) -> bool {
        self.open && new.joins && new.payload_len <= self.nominal && new.agrees(first)
    }

    /// A shorter record than the first is the last; so is the 64th.
    #[inline(always)]
    fn append(&mut self, slot: u16, payload_len: u16) {
        self.tail = slot;
        self.count += 1;
        self.open = payload_len == self.nominal && self.count < MAX_BATCH;
    }
}

/// A flow's entry: its latest batch in this burst. Entries of earlier bursts are void.
#[derive(Clone, Copy, Default)]
struct Entry {
    burst: u32,
    batch: u16,
}

/// What is known of each record, by slot.
#[derive(Clone, Copy, Default)]
struct Member {
    /// Slot of the next record of its batch.
    next: u16,
    payload_len: u16,
}

/// Hangs a record behind the last one of a batch.
#[inline(always)]
fn link(members: &mut [Member; MAX_BURST], batch: &mut Batch, slot: u16, payload_len: u16) {
    members[usize::from(batch.tail)].next = slot;
    members[usize::from(slot)].payload_len = payload_len;
    batch.append(slot, payload_len);
}

/// Twice the most flows of a burst, so that probing ends soon.
const TABLE: usize = 2 * MAX_BURST;

/// Builds the batches of one burst at a time. Nothing is kept from one burst to the next.
pub struct Builder {
    batches: ArrayVec<Batch, MAX_BURST>,
    members: [Member; MAX_BURST],
    flows: [Entry; TABLE],
    burst: u32,
    enabled: bool,
}

impl Builder {
    /// A builder without batches. When not `enabled`, every record is a batch of one.
    pub fn new(enabled: bool) -> Self {
        Builder {
            batches: ArrayVec::new(),
            members: [Member::default(); MAX_BURST],
            flows: [Entry::default(); TABLE],
            burst: 1,
            enabled,
        }
    }

    /// Switches batching. Only between bursts, so that no packet is in mid-batch.
    pub fn enable(&mut self, enabled: bool) {
        debug_assert!(self.batches.is_empty());
        self.enabled = enabled;
    }

    /// Adds the record in `slot`, the latest to arrive. `facts` holds at least those of
    /// the new record and of the first one of each batch.
    #[inline(always)]
    pub fn add<B: Buf>(&mut self, slot: u16, facts: &[Facts], slots: &[Option<B>]) {
        let new = &facts[usize::from(slot)];
        // Records of a flow come in runs: most go on with the batch that was begun last.
        if let Some(last) = self.batches.last_mut()
            && last.takes(new, &facts[usize::from(last.head)])
            && new.outer.options_len() == 0
        {
            link(&mut self.members, last, slot, new.payload_len);
            return;
        }
        self.place(slot, facts, slots);
    }

    /// Whether the batch that was begun last is the `number`th and takes one more record of `payload_len` bytes that
    /// agrees with its first one in all that matters.
    #[inline(always)]
    pub(crate) fn continues(&self, number: usize, payload_len: u16) -> bool {
        let last = self.batches.last();
        self.batches.len() == number && last.is_some_and(|b| b.open && payload_len <= b.nominal)
    }

    /// Appends such a record. Its facts are those of the head but for the length, and are not written.
    #[inline(always)]
    pub(crate) fn append(&mut self, slot: u16, payload_len: u16) {
        if let Some(last) = self.batches.last_mut() {
            link(&mut self.members, last, slot, payload_len);
        }
    }

    /// Adds a record wherever its flow stands.
    #[inline(never)]
    fn place<B: Buf>(&mut self, slot: u16, facts: &[Facts], slots: &[Option<B>]) {
        let new = &facts[usize::from(slot)];
        if !self.enabled {
            self.start(slot, new, 0);
            return;
        }
        let entry = match self.find(&new.outer, facts) {
            Ok(batch) => {
                if self.join(batch, slot, facts, slots) {
                    return;
                }
                self.batches[usize::from(batch)].open = false;
                self.batches[usize::from(batch)].entry
            }
            Err(free) => free,
        };
        self.flows[usize::from(entry)] = Entry {
            burst: self.burst,
            batch: self.batches.len() as u16,
        };
        self.start(slot, new, entry);
    }

    /// Something of this flow arrived that is no record: what follows must not join what came before.
    pub fn interrupt(&mut self, outer: &Outer, facts: &[Facts]) {
        if let Ok(batch) = self.find(outer, facts) {
            self.batches[usize::from(batch)].open = false;
        }
    }

    /// A fragment arrived, which tells no ports: it may be of any flow between these addresses.
    pub fn interrupt_addresses(&mut self, outer: &Outer, facts: &[Facts]) {
        for batch in self.batches.iter_mut().filter(|b| b.open) {
            batch.open &= !facts[usize::from(batch.head)].outer.same_addresses(outer);
        }
    }

    /// The batches in the order of their first records.
    pub fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// Slot and bytes of UDP payload of a batch's records, in order of arrival.
    #[inline(always)]
    pub fn records(&self, batch: &Batch) -> impl Iterator<Item = (u16, u16)> + '_ {
        let mut at = batch.head;
        (0..batch.count).map(move |_| {
            let member = self.members[usize::from(at)];
            (core::mem::replace(&mut at, member.next), member.payload_len)
        })
    }

    /// The slots of a batch's records, in order of arrival.
    pub fn slots(&self, batch: &Batch) -> impl Iterator<Item = u16> + '_ {
        self.records(batch).map(|(slot, _)| slot)
    }

    /// Bytes of UDP payload in all records of a batch: all but the last have the first one's.
    #[inline(always)]
    pub fn bytes(&self, batch: &Batch) -> u64 {
        let last = self.members[usize::from(batch.tail)].payload_len;
        u64::from(batch.count - 1) * u64::from(batch.nominal) + u64::from(last)
    }

    /// Forgets the burst.
    pub fn clear(&mut self) {
        self.batches.clear();
        self.burst = self.burst.wrapping_add(1);
        if self.burst == 0 {
            self.flows = [Entry::default(); TABLE];
            self.burst = 1;
        }
    }

    /// The latest batch of the flow, or the free table entry for it.
    #[inline]
    fn find(&self, outer: &Outer, facts: &[Facts]) -> Result<u16, u16> {
        let is = |batch: u16| {
            facts[usize::from(self.batches[usize::from(batch)].head)]
                .outer
                .same_flow(outer)
        };
        let mut at = (outer.flow_hash() >> (64 - TABLE.trailing_zeros())) as usize;
        loop {
            let entry = self.flows[at];
            if entry.burst != self.burst {
                return Err(at as u16);
            }
            if is(entry.batch) {
                return Ok(entry.batch);
            }
            at = (at + 1) % TABLE;
        }
    }

    /// Appends the record to the batch if the rules allow it.
    #[inline]
    fn join<B: Buf>(&mut self, batch: u16, slot: u16, facts: &[Facts], slots: &[Option<B>]) -> bool {
        let batch = &mut self.batches[usize::from(batch)];
        let new = &facts[usize::from(slot)];
        if !batch.takes(new, &facts[usize::from(batch.head)]) {
            return false;
        }
        if new.outer.options_len() > 0 {
            let headers = |slot: u16| {
                let slot = usize::from(slot);
                facts[slot].extension_headers(slots[slot].as_ref())
            };
            if headers(slot) != headers(batch.head) {
                return false;
            }
        }
        link(&mut self.members, batch, slot, new.payload_len);
        true
    }

    #[inline]
    fn start(&mut self, slot: u16, new: &Facts, entry: u16) {
        self.members[usize::from(slot)].payload_len = new.payload_len;
        self.batches.push(Batch {
            head: slot,
            tail: slot,
            count: 1,
            nominal: new.payload_len,
            entry,
            open: new.joins && self.enabled,
        });
    }
}

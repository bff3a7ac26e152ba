//! Reassembly on the heap: 1024 datagrams, 8 fragments each, 2 s; overlaps are refused.

use nf_path::buf::Buf;
use nf_path::buffers::Buffers;
use nf_path::burst::Now;
use nf_path::fragments::{Fragments, Reassembly};
use nf_path::outbound::fragment;
use nf_path::twin::{HEADROOM, HeapBuf};
use nf_wire::frame::Fragment;
use nf_wire::{checksum, ether, ipv6};
use std::cell::Cell;
use std::rc::Rc;

/// The clock of the bed runs at 1 GHz.
pub const CYCLES_PER_MILLI: u64 = 1_000_000;
/// The longest frame that a large buffer takes.
pub const LARGE_LEN: usize = 9216;
const TIMEOUT: u64 = 2000 * CYCLES_PER_MILLI;
const DATAGRAMS: usize = 1024;
const PARTS: usize = 8;
const MTU: usize = 1500;

/// What reassembly did with buffers, for the books of the bed; and how many large buffers there are.
pub struct Ledger {
    made: Cell<u64>,
    absorbed: Cell<u64>,
    pending: Cell<u64>,
    large: Cell<usize>,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger {
            made: Cell::new(0),
            absorbed: Cell::new(0),
            pending: Cell::new(0),
            large: Cell::new(usize::MAX),
        }
    }
}

impl Ledger {
    /// Frames made from others.
    pub fn made(&self) -> u64 {
        self.made.get()
    }

    /// Frames that others were made from.
    pub fn absorbed(&self) -> u64 {
        self.absorbed.get()
    }

    /// Fragments that wait.
    pub fn pending(&self) -> u64 {
        self.pending.get()
    }

    /// From now on there are so many large buffers.
    pub fn limit_large(&self, count: usize) {
        self.large.set(count);
    }

    fn turned(&self, from: u64, into: u64) {
        self.absorbed.set(self.absorbed.get() + from);
        self.made.set(self.made.get() + into);
    }

    fn large(&self, frame: &[u8]) -> Option<HeapBuf> {
        let left = self
            .large
            .get()
            .checked_sub(1)
            .filter(|_| frame.len() <= LARGE_LEN)?;
        self.large.set(left);
        Some(HeapBuf::sized(frame, HEADROOM, HEADROOM + LARGE_LEN))
    }
}

struct Part {
    from: usize,
    to: usize,
    at: Fragment,
    buf: HeapBuf,
}

struct Waiting {
    key: Vec<u8>,
    since: u64,
    /// Where the last fragment ends.
    end: Option<usize>,
    parts: Vec<Part>,
}

impl Waiting {
    /// Takes a part; false when it contradicts the others.
    fn take(&mut self, part: Part, more: bool) -> bool {
        let (from, to) = (part.from, part.to);
        let fits = from < to
            && (!more || (to - from).is_multiple_of(8))
            && self.parts.len() < PARTS
            && self.parts.iter().all(|p| to <= p.from || from >= p.to)
            && match self.end {
                Some(end) => more && to <= end,
                None => more || self.parts.iter().all(|p| p.to <= from),
            };
        self.parts.push(part);
        if !more {
            self.end = Some(to);
        }
        fits
    }

    fn is_whole(&self) -> bool {
        self.end == Some(self.parts.iter().map(|p| p.to - p.from).sum())
    }

    /// The frame that the fragments were made from.
    fn join(&mut self) -> Vec<u8> {
        self.parts.sort_by_key(|p| p.from);
        let first = &self.parts[0];
        let (l3, data) = (usize::from(first.at.l3), usize::from(first.at.data));
        let v6 = first.at.outer.is_v6();
        let header = if v6 { data - ipv6::FRAGMENT_LEN } else { data };
        let mut frame = first.buf.data()[..header].to_vec();
        let next = first.buf.data()[header];
        for part in &self.parts {
            let from = usize::from(part.at.data);
            frame.extend(&part.buf.data()[from..from + part.to - part.from]);
        }
        let ip = &mut frame[l3..];
        if v6 {
            ip[6] = next;
            let len = (ip.len() - ipv6::HEADER_LEN) as u16;
            ip[4..6].copy_from_slice(&len.to_be_bytes());
        } else {
            let len = ip.len() as u16;
            ip[2..4].copy_from_slice(&len.to_be_bytes());
            ip[6] &= 0x40;
            ip[7] = 0;
            ip[10..12].fill(0);
            let sum = !checksum::fold(checksum::sum(&ip[..header - l3]));
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        frame
    }
}

/// Reassembly, refragmentation and linearisation over [`HeapBuf`].
pub struct TwinFragments {
    waiting: Vec<Waiting>,
    ledger: Rc<Ledger>,
    next_id: u32,
}

impl TwinFragments {
    /// Nothing waits yet.
    pub fn new(ledger: Rc<Ledger>) -> Self {
        TwinFragments {
            waiting: Vec::new(),
            ledger,
            next_id: 1,
        }
    }

    fn count_pending(&self) {
        self.ledger
            .pending
            .set(self.waiting.iter().map(|w| w.parts.len() as u64).sum());
    }
}

/// Small buffers, as many as are asked for.
struct Small;

impl Buffers<HeapBuf> for Small {
    fn small(&mut self) -> Option<HeapBuf> {
        Some(HeapBuf::new(&[]))
    }

    fn linearise(&mut self, scattered: HeapBuf) -> Result<HeapBuf, HeapBuf> {
        Err(scattered)
    }
}

/// What names the datagram, the offset of the data in it, and whether more follows.
fn place(frame: &[u8], at: &Fragment) -> (Vec<u8>, usize, bool) {
    let (l3, data) = (usize::from(at.l3), usize::from(at.data));
    let be16 = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    if at.outer.is_v6() {
        let field = be16(data - 6);
        let key = [&frame[l3 + 8..l3 + 40], &frame[data - 4..data]].concat();
        (key, field & !7, field & 1 != 0)
    } else {
        let field = be16(l3 + 6);
        let key = [&frame[l3 + 12..l3 + 20], &frame[l3 + 4..l3 + 6]].concat();
        (key, (field & 0x1fff) * 8, field & 0x2000 != 0)
    }
}

impl Fragments<HeapBuf> for TwinFragments {
    fn reassemble(&mut self, fragment: HeapBuf, at: &Fragment, now: Now) -> Reassembly<HeapBuf> {
        let (key, from, more) = place(fragment.data(), at);
        let to = from + usize::from(at.l3) + usize::from(at.ip_len) - usize::from(at.data);
        let index = match self.waiting.iter().position(|w| w.key == key) {
            Some(index) => index,
            None if self.waiting.len() == DATAGRAMS => return Reassembly::Refused(1),
            None => {
                self.waiting.push(Waiting {
                    key,
                    since: now.cycles,
                    end: None,
                    parts: Vec::new(),
                });
                self.waiting.len() - 1
            }
        };
        let waiting = &mut self.waiting[index];
        let plain = at.plain;
        let result = if !waiting.take(
            Part {
                from,
                to,
                at: *at,
                buf: fragment,
            },
            more,
        ) || !plain
        {
            Reassembly::Refused(self.waiting.swap_remove(index).parts.len() as u32)
        } else if waiting.is_whole() {
            let mut waiting = self.waiting.swap_remove(index);
            let parts = waiting.parts.len();
            match self.ledger.large(&waiting.join()) {
                Some(whole) => {
                    self.ledger.turned(parts as u64, 1);
                    Reassembly::Whole(whole)
                }
                None => Reassembly::TooLarge(parts as u32),
            }
        } else {
            Reassembly::Pending
        };
        self.count_pending();
        result
    }

    fn expire(&mut self, now: Now) -> u32 {
        let before: usize = self.waiting.iter().map(|w| w.parts.len()).sum();
        self.waiting.retain(|w| now.cycles - w.since < TIMEOUT);
        self.count_pending();
        before as u32 - self.ledger.pending() as u32
    }

    fn refragment(&mut self, whole: HeapBuf, sink: &mut dyn FnMut(HeapBuf)) -> bool {
        let layer3 = ether::layer3(whole.data()).filter(|_| self.ledger.large.get() > 0);
        let Some((_, l2_len, _)) = layer3 else {
            return false;
        };
        self.next_id += 1;
        let made = fragment::copies(whole, l2_len, MTU, self.next_id, &mut Small, sink);
        if let Ok(count) = made {
            self.ledger.turned(1, count.into());
        }
        made.is_ok()
    }

    fn linearise(&mut self, scattered: HeapBuf) -> Result<HeapBuf, HeapBuf> {
        let sums = scattered.rx_checksums();
        match self.ledger.large(&scattered.to_vec()) {
            Some(whole) => {
                self.ledger.turned(1, 1);
                Ok(whole.checksums(sums.ip, sums.l4))
            }
            None => Err(scattered),
        }
    }
}

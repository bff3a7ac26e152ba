//! What may happen to outer fragments on their way, for a relay to do to those from the left side to the right one.

#![allow(dead_code, reason = "no test uses all of it")]

use crate::pair::End;
use crate::pair::relay::Change;
use etherparse::checksum::Sum16BitWords;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes of the Ethernet header.
const L2: usize = 14;
/// How many first fragments [`Fault::Flood`] makes of one.
pub const FLOOD: u32 = 1000;

/// What is done to datagrams of two fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// The last comes first.
    Reversed,
    /// The first is cut in two, so that there are three, and they come in the order 3, 1, 2.
    Recut,
    /// Both come again, after both.
    DoubledAfterwards,
    /// Each comes twice in a row.
    DoubledInPlace,
    /// Between both comes one that overlaps each by eight bytes, with other content.
    Overlapping,
    /// The last is lost.
    FirstOnly,
    /// The first is lost.
    LastOnly,
    /// Before the first come many like it, each with an identification of its own.
    Flood,
}

/// The fault that a relay makes now.
#[derive(Default)]
pub struct Faults {
    now: Mutex<Fault>,
    /// First fragments whose last has not come yet, by identification.
    held: Mutex<HashMap<u32, Vec<u8>>>,
    /// The last identification of a flood.
    id: AtomicU32,
    /// How many fragments went on to the right side.
    passed: AtomicUsize,
}

impl Faults {
    /// From now on this one.
    pub fn set(&self, fault: Fault) {
        *self.now.lock().expect("no panic with it") = fault;
    }

    /// How many fragments went on to the right side so far.
    pub fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }

    /// The relay's function.
    pub fn change(self: &Arc<Self>) -> Arc<Change> {
        let faults = self.clone();
        Arc::new(move |from, frame| {
            let frames = match (from, Fragment::of(&frame)) {
                (End::Left, Some(fragment)) => {
                    let frames = faults.apply(&frame, &fragment);
                    faults.passed.fetch_add(frames.len(), Ordering::Relaxed);
                    frames
                }
                _ => vec![frame],
            };
            frames.into_iter().map(|frame| (from.other(), frame)).collect()
        })
    }

    /// What becomes of a fragment.
    fn apply(&self, frame: &[u8], fragment: &Fragment) -> Vec<Vec<u8>> {
        let fault = *self.now.lock().expect("no panic with it");
        let mut held = self.held.lock().expect("no panic with it");
        let own = frame.to_vec();
        match (fault, fragment.offset == 0) {
            (Fault::None, _) | (Fault::FirstOnly, true) | (Fault::LastOnly, false) => vec![own],
            (Fault::FirstOnly, false) | (Fault::LastOnly, true) => vec![],
            (Fault::DoubledInPlace, _) => vec![own.clone(), own],
            (Fault::Flood, true) => {
                let first = self.id.fetch_add(FLOOD, Ordering::Relaxed);
                let copies = (0..FLOOD).map(|n| fragment.with_id(frame, 0x4000_0000 | (first + n)));
                copies.chain([own.clone()]).collect()
            }
            (Fault::Flood, false) => vec![own],
            (_, true) => {
                held.insert(fragment.id, own);
                vec![]
            }
            (_, false) => {
                let Some(first) = held.remove(&fragment.id) else {
                    // It began before the fault did.
                    return vec![own];
                };
                together(fault, first, own, fragment)
            }
        }
    }
}

/// What becomes of both fragments, once both are there.
fn together(fault: Fault, first: Vec<u8>, last: Vec<u8>, fragment: &Fragment) -> Vec<Vec<u8>> {
    let header = fragment.header;
    let cut = |from: usize, to: usize| fragment.made(&first, from, true, &first[header + from..header + to]);
    match fault {
        Fault::Reversed => vec![last, first],
        Fault::Recut => {
            let (end, middle) = (first.len() - header, 640);
            vec![last, cut(0, middle), cut(middle, end)]
        }
        Fault::DoubledAfterwards => vec![first.clone(), last.clone(), first, last],
        Fault::Overlapping => {
            let other = fragment.made(&first, fragment.offset - 8, true, &[0xee; 16]);
            vec![first, other, last]
        }
        _ => unreachable!("the others hold nothing back"),
    }
}

/// Where a frame without tags is a fragment.
struct Fragment {
    v6: bool,
    id: u32,
    offset: usize,
    /// Bytes before the fragment's data.
    header: usize,
}

impl Fragment {
    fn of(frame: &[u8]) -> Option<Fragment> {
        let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
        match word(12)? {
            0x0800 if word(L2 + 6)? & 0x3fff != 0 => Some(Fragment {
                v6: false,
                id: word(L2 + 4)?.into(),
                offset: usize::from(word(L2 + 6)? & 0x1fff) * 8,
                header: L2 + 20,
            }),
            0x86dd if frame.get(L2 + 6) == Some(&44) => Some(Fragment {
                v6: true,
                id: (u32::from(word(L2 + 44)?) << 16) | u32::from(word(L2 + 46)?),
                offset: usize::from(word(L2 + 42)? & 0xfff8),
                header: L2 + 48,
            }),
            _ => None,
        }
    }

    /// One of the same datagram, with the headers of `like`.
    fn made(&self, like: &[u8], offset: usize, more: bool, data: &[u8]) -> Vec<u8> {
        let mut frame = [&like[..self.header], data].concat();
        if self.v6 {
            frame[L2 + 4..L2 + 6].copy_from_slice(&(8 + data.len() as u16).to_be_bytes());
            let field = offset as u16 | u16::from(more);
            frame[L2 + 42..L2 + 44].copy_from_slice(&field.to_be_bytes());
        } else {
            frame[L2 + 2..L2 + 4].copy_from_slice(&(20 + data.len() as u16).to_be_bytes());
            let field = (offset as u16 / 8) | (u16::from(more) << 13);
            frame[L2 + 6..L2 + 8].copy_from_slice(&field.to_be_bytes());
        }
        self.summed(frame)
    }

    /// The same with another identification.
    fn with_id(&self, frame: &[u8], id: u32) -> Vec<u8> {
        let mut frame = frame.to_vec();
        if self.v6 {
            frame[L2 + 44..L2 + 48].copy_from_slice(&id.to_be_bytes());
        } else {
            frame[L2 + 4..L2 + 6].copy_from_slice(&(id as u16).to_be_bytes());
        }
        self.summed(frame)
    }

    /// With the checksum of the IPv4 header.
    fn summed(&self, mut frame: Vec<u8>) -> Vec<u8> {
        if !self.v6 {
            frame[L2 + 10..L2 + 12].fill(0);
            let sum = Sum16BitWords::new()
                .add_slice(&frame[L2..L2 + 20])
                .ones_complement();
            frame[L2 + 10..L2 + 12].copy_from_slice(&sum.to_ne_bytes());
        }
        frame
    }
}

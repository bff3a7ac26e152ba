//! Two workers on two lcores seal for the same peers. Steered, no receiver refuses anything; spread, no packet id repeats,
//! and what receivers refuse is printed.

mod common;
mod rig;

use std::sync::OnceLock;

use lcore::Eal;
use nf_path::outbound::owner;
use nf_state::{Authentic, Millis, ReplayWindow};
use rig::pair::{Done, Load, Sent, merged, run};

/// The EAL starts once per process, for the long test and the short one.
fn eal() -> &'static Eal {
    static EAL: OnceLock<Eal> = OnceLock::new();
    EAL.get_or_init(|| common::eal("pair"))
}

/// A window of 64 packets, as `--replay-window` of OpenVPN has it by default.
#[derive(Default)]
struct Window64 {
    highest: u32,
    /// Bit `n`: the id `n` below the highest was seen.
    seen: u64,
}

impl Window64 {
    fn accepts(&mut self, id: u32) -> bool {
        if id > self.highest {
            let up = id - self.highest;
            self.seen = self.seen.checked_shl(up).unwrap_or(0) | 1;
            self.highest = id;
            return true;
        }
        let back = self.highest - id;
        let fresh = id > 0 && back < 64 && self.seen & 1 << back == 0;
        if fresh {
            self.seen |= 1 << back;
        }
        fresh
    }
}

/// One peer's two receivers, and every id that it was sent.
struct Receiver {
    small: Window64,
    large: ReplayWindow,
    seen: Vec<u64>,
    packets: u32,
    last: u32,
    /// Ids that came after higher ones.
    late: u32,
}

/// Bursts in a row that are looked at together.
const BLOCK: usize = 32;

/// What the windows of 64 and 2048 refused, of how many packets.
#[derive(Clone, Copy, Default)]
struct Shares {
    packets: u32,
    refused: [u32; 2],
}

impl Shares {
    fn add(&mut self, other: Shares) {
        self.packets += other.packets;
        (0..2).for_each(|i| self.refused[i] += other.refused[i]);
    }

    /// In percent, of each window.
    fn percent(self) -> [f64; 2] {
        self.refused
            .map(|n| 100.0 * f64::from(n) / f64::from(self.packets.max(1)))
    }
}

/// Everything, and what was sent while both lcores were at work.
#[derive(Default)]
struct Measured {
    all: Shares,
    both: Shares,
    block: Shares,
    bursts: usize,
    changes: usize,
    last: Option<u8>,
}

impl Measured {
    /// A packet, from which lcore, whether it is the first of a burst, and who refused it.
    fn take(&mut self, from: u8, first: bool, refused: [bool; 2]) {
        if first {
            self.bursts += 1;
            self.changes += usize::from(self.last.replace(from) != Some(from));
            if self.bursts > BLOCK {
                self.end();
            }
        }
        let refused = refused.map(u32::from);
        self.block.add(Shares { packets: 1, refused });
    }

    /// Of a block whose bursts come from the two in random order, every second one follows one of the other's.
    fn end(&mut self) {
        let block = std::mem::take(&mut self.block);
        self.all.add(block);
        if self.changes * 2 >= BLOCK {
            self.both.add(block);
        }
        (self.bursts, self.changes) = (1, 0);
    }
}

impl Receiver {
    fn new() -> Receiver {
        Receiver {
            small: Window64::default(),
            large: ReplayWindow::new(),
            seen: Vec::new(),
            packets: 0,
            last: 0,
            late: 0,
        }
    }

    /// Whether the window of 64 and that of 2048 refuse the id.
    fn take(&mut self, id: u32) -> [bool; 2] {
        let (word, bit) = (id as usize / 64, 1 << (id % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        assert!(id != 0 && self.seen[word] & bit == 0, "id {id} repeats");
        self.seen[word] |= bit;
        self.packets += 1;
        let proof = Authentic::verify(&[0; 16], &[0; 16], id).expect("equal tags");
        let large = self.large.commit(proof, Millis(1));
        self.late += u32::from(id < self.last);
        self.last = self.last.max(id);
        [!self.small.accepts(id), large.is_err()]
    }
}

/// All receivers, fed in the order of sending. Every id from 1 on was used once.
fn receivers(load: Load, done: &[Done; 2]) -> (Vec<Receiver>, Measured) {
    let mut receivers: Vec<_> = (0..load.peers).map(|_| Receiver::new()).collect();
    let mut measured = Measured::default();
    for (from, sent) in merged(done) {
        let refused = receivers[usize::from(sent.peer) - 1].take(sent.id);
        measured.take(from, sent.first, refused);
    }
    measured.end();
    let packets: u32 = receivers.iter().map(|r| r.packets).sum();
    assert_eq!(packets, 2 * load.packets, "everything left");
    for r in &receivers {
        assert_eq!(r.last, r.packets, "no id was left out");
    }
    for d in done {
        assert_eq!(d.totals.nonzero_drops().collect::<Vec<_>>(), []);
        assert_eq!(
            (d.totals.tunnel_rx, d.totals.sealed),
            (load.packets.into(), d.sent.len() as u64)
        );
    }
    (receivers, measured)
}

fn steered(eal: &Eal, load: Load) {
    let done = run(
        eal,
        Load {
            spread: false,
            ..load
        },
    );
    let (receivers, measured) = receivers(load, &done);
    let late: Vec<_> = receivers.iter().map(|r| r.late).collect();
    assert!(late.iter().all(|&n| n == 0), "each peer's ids rise: {late:?}");
    assert_eq!(measured.all.refused, [0, 0], "and nobody refuses any");
    for (me, d) in (0..).zip(&done) {
        assert!(
            d.sent.iter().all(|s| owner(s.peer.into(), 2) == me),
            "sealed on one lcore"
        );
    }
    let steered: u64 = done.iter().map(|d| d.totals.steered).sum();
    assert!(steered > u64::from(load.packets) / 4, "{steered} changed lcores");
}

/// Spread: prints the shares that the windows of 64 and of 2048 refuse.
fn spread(eal: &Eal, load: Load) {
    let done = run(eal, Load { spread: true, ..load });
    let (receivers, measured) = receivers(load, &done);
    let alone = |d: &Done| d.totals.steered == 0 && d.sent.len() == load.packets as usize;
    assert!(done.iter().all(alone), "each seals what it gets");
    let Load {
        peers,
        burst,
        len,
        packets,
        ..
    } = load;
    let late: u32 = receivers.iter().map(|r| r.late).sum();
    let (all, both) = (measured.all, measured.both);
    assert_eq!(all.packets, 2 * packets);
    println!(
        "spread: {peers} peers, {} packets of {len} bytes, bursts of {burst}, in the order in which bursts were sent: late \
         {:.2} %, refused by windows of 64 and 2048 {:.3?} %; of the {:.1} % sent while both lcores were at work {:.3?} %",
        all.packets,
        100.0 * f64::from(late) / f64::from(all.packets),
        all.percent(),
        100.0 * f64::from(both.packets) / f64::from(all.packets),
        both.percent(),
    );
    if peers == 1 {
        done.iter().for_each(|d| breaks(&d.sent));
    }
}

/// Ids are taken 16 at once: within a burst they do not follow each other only where another 16 begin.
fn breaks(sent: &[Sent]) {
    let mut place = 0;
    for pair in sent.windows(2) {
        place = if pair[1].first { 0 } else { place + 1 };
        if !pair[1].first && pair[1].id != pair[0].id + 1 {
            assert_eq!(
                place % 16,
                0,
                "{} after {} at place {place}",
                pair[1].id,
                pair[0].id
            );
        }
    }
}

fn all(eal: &Eal, packets: u32) {
    let names = ["p0", "p1"];
    let load = |peers, burst, len, packets| Load {
        names,
        peers,
        packets,
        len,
        spread: false,
        burst,
    };
    for (peers, burst) in [(1, 64), (16, 64), (1, 256), (16, 256)] {
        steered(eal, load(peers, burst, 64, packets / 2));
    }
    for (peers, burst, len) in [
        (1, 16, 64),
        (1, 64, 64),
        (1, 64, 1400),
        (1, 256, 64),
        (16, 64, 64),
    ] {
        spread(eal, load(peers, burst, len, packets / 2));
    }
}

#[test]
fn a_hundred_thousand_packets_from_two_lcores() {
    all(eal(), 100_000);
}

#[test]
#[ignore = "ten million packets"]
fn ten_million_packets_from_two_lcores_to_one_peer() {
    let names = ["l0", "l1"];
    let load = Load {
        names,
        peers: 1,
        packets: 5_000_000,
        len: 64,
        spread: false,
        burst: 64,
    };
    steered(eal(), load);
    for burst in [16, 64, 256] {
        spread(eal(), Load { burst, ..load });
    }
}

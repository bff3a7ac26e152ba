//! Any mix of records from any places against the rule in one line: the last record that is authentic and above all
//! before it says where the peer is.

use crate::support::*;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::Frame;
use nf_state::Event;
use proptest::prelude::*;
use std::net::SocketAddr;

const PLACES: [&str; 3] = ["203.0.113.7:5000", "203.0.113.7:5001", "203.0.113.8:5000"];

#[derive(Clone, Debug)]
struct Step {
    packet_id: u32,
    place: usize,
    local: bool,
    forged: bool,
}

fn step() -> impl Strategy<Value = Step> {
    (1..60u32, 0..3usize, any::<bool>(), prop::bool::weighted(0.3)).prop_map(
        |(packet_id, place, local, forged)| Step {
            packet_id,
            place,
            local,
            forged,
        },
    )
}

impl Step {
    fn remote(&self) -> SocketAddr {
        PLACES[self.place].parse().unwrap()
    }

    fn local(&self) -> SocketAddr {
        let local = if self.local { LISTEN_V4 } else { LISTEN_PORT };
        local.parse().unwrap()
    }

    fn frame(&self) -> HeapBuf {
        let mut record = record_of(1, 0, self.packet_id, &inner(1, 60, self.packet_id));
        record[30] ^= u8::from(self.forged);
        HeapBuf::new(&Frame::udp(self.remote(), self.local()).payload(&record).build())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn one_at_a_time_it_is_where_the_highest_record_came_from(steps in prop::collection::vec(step(), 1..60)) {
        let mut bed = Bed::default();
        let (mut highest, mut place, mut floats) = (0, None, vec![]);
        for step in &steps {
            bed.push([step.frame()]);
            if !step.forged && step.packet_id > highest {
                highest = step.packet_id;
                if place.map(|(remote, _)| remote) != Some(step.remote()) {
                    floats.push((step.remote(), step.local()));
                }
                place = Some((step.remote(), step.local()));
            }
            let bound = bed.peer(1).endpoint.read().map(|b| (b.remote, b.local));
            prop_assert_eq!(bound, place);
        }
        let told: Vec<_> = bed.events().into_iter().map(|(_, event)| match event {
            Event::Float { remote, local, .. } => (remote, local),
            other => panic!("{other:?}"),
        }).collect();
        prop_assert_eq!(bed.totals().floats, floats.len() as u64);
        prop_assert_eq!(told, floats);
    }

    /// In bursts the records of a flow are taken together, so it is where one of the burst's rising records came from.
    #[test]
    fn in_bursts_it_never_is_where_no_rising_record_came_from(
        bursts in prop::collection::vec(prop::collection::vec(step(), 1..20), 1..8),
        batch: bool,
    ) {
        let mut bed = Bed::new(Setup { batch, ..Setup::default() });
        let (mut highest, mut place) = (0, None);
        for burst in &bursts {
            bed.push(burst.iter().map(Step::frame));
            let good = || burst.iter().filter(|s| !s.forged && s.packet_id > highest);
            let bound = bed.peer(1).endpoint.read().map(|b| (b.remote, b.local));
            match good().map(|s| s.packet_id).max() {
                // Nobody else may have sent the same id.
                Some(top) => {
                    let there = |s: &Step| bound == Some((s.remote(), s.local()));
                    let first = good().any(there);
                    prop_assert!(first, "{bound:?} {burst:?}");
                    let tops: Vec<_> = good().filter(|s| s.packet_id == top).collect();
                    if let [only] = &tops[..] {
                        prop_assert!(there(only), "the highest of all decides");
                    }
                    highest = top;
                }
                None => prop_assert_eq!(bound, place),
            }
            place = bound;
        }
    }
}

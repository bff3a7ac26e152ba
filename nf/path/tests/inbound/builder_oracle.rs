//! The builder against a slow reading of the rules, over random bursts.

use crate::support::*;
use nf_path::buf::Verdict;
use nf_path::inbound::batch::{Builder, Facts};
use nf_path::inbound::classify::{Class, Listeners, classify};
use nf_path::inbound::parse::parse;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::Extension;
use nf_wire::record::HeaderWord;
use proptest::prelude::*;

/// Hop-by-hop options with content 0; any other number is that content in destination options.
const HOP_BY_HOP: u8 = 255;

/// A record, or something else of its flow.
#[derive(Clone, Debug, PartialEq)]
struct Spec {
    flow: u16,
    v6: bool,
    /// All that must agree besides the flow: traffic class, hops, DF, flow label, tag, header word, verdicts,
    /// IPv6 extension header.
    tos: u8,
    ttl: u8,
    dont_fragment: bool,
    flow_label: u32,
    vlan: Option<u16>,
    word: HeaderWord,
    verdict: Verdict,
    extension: Option<u8>,
    /// What keeps it alone.
    options: bool,
    shared: bool,
    len: usize,
    /// Not a record, but a control packet of the flow.
    control: bool,
}

impl Spec {
    fn build(&self) -> HeapBuf {
        let mut f = if self.v6 { outer_v6(1) } else { outer(1) };
        f = f
            .ports(self.flow, 1194)
            .tos(self.tos)
            .ttl(self.ttl)
            .flow_label(self.flow_label);
        if self.dont_fragment {
            f = f.dont_fragment();
        }
        if let Some(tag) = self.vlan {
            f = f.vlan(tag);
        }
        if self.options && !self.v6 {
            f = f.options(&[1; 4]);
        }
        if let (Some(byte), true) = (self.extension, self.v6) {
            let content = |byte| vec![1, 4, byte, 0, 0, 0];
            f = f.extension(match byte {
                HOP_BY_HOP => Extension::HopByHop(content(0)),
                byte => Extension::Destination(content(byte)),
            });
        }
        let mut payload = self.word.0.to_be_bytes().to_vec();
        payload.resize(self.len, 0);
        if self.control {
            payload[0] = 0x20;
        }
        let buf = HeapBuf::new(&f.payload(&payload).build()).checksums(Verdict::Good, self.verdict);
        if self.shared { buf.shared() } else { buf }
    }

    fn same_flow(&self, other: &Spec) -> bool {
        (self.flow, self.v6) == (other.flow, other.v6)
    }

    fn can_join(&self) -> bool {
        !self.shared && (self.v6 || !self.options)
    }

    /// Equal in every field of rule 1 that this IP version has.
    fn agrees(&self, other: &Spec) -> bool {
        let common = |s: &Spec| (s.flow, s.v6, s.tos, s.ttl, s.vlan, s.word, s.verdict);
        let versioned = |s: &Spec| {
            if s.v6 {
                (false, s.flow_label, s.extension)
            } else {
                (s.dont_fragment, 0, None)
            }
        };
        common(self) == common(other) && versioned(self) == versioned(other)
    }
}

/// The batches by the rules, looking back over everything for every record.
fn oracle(specs: &[Spec], enabled: bool) -> Vec<Vec<usize>> {
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for (i, new) in specs.iter().enumerate() {
        if new.control {
            continue;
        }
        // The batch of the latest frame of the flow, if that was a record.
        let before = (0..i)
            .rev()
            .find(|j| specs[*j].same_flow(new))
            .filter(|j| !specs[*j].control);
        let batch = before.and_then(|j| batches.iter().position(|b| b.contains(&j)));
        let joined = batch.filter(|b| {
            let (head, last) = (&specs[batches[*b][0]], &specs[*batches[*b].last().unwrap()]);
            enabled
                && batches[*b].len() < 64
                && (head.can_join() && new.can_join())
                && batches[*b].iter().all(|j| new.agrees(&specs[*j]))
                && last.len == head.len
                && new.len <= head.len
        });
        match joined {
            Some(b) => batches[b].push(i),
            None => batches.push(vec![i]),
        }
    }
    batches
}

fn built(builder: &mut Builder, specs: &[Spec]) -> Vec<Vec<usize>> {
    let mut listeners = Listeners::default();
    listeners.add(LISTEN_V4.parse().unwrap(), 0);
    listeners.add(LISTEN_V6.parse().unwrap(), 0);
    let slots: Vec<_> = specs.iter().map(|spec| Some(spec.build())).collect();
    // Slots that hold no record keep the facts of another, as they do from burst to burst.
    let mut facts: Vec<Facts> = Vec::new();
    let classes: Vec<_> = slots
        .iter()
        .flatten()
        .map(|buf| classify(buf, parse(buf), &listeners))
        .collect();
    let Some(any) = classes
        .iter()
        .find_map(|c| if let Class::Record(f) = c { Some(*f) } else { None })
    else {
        return Vec::new();
    };
    facts.resize(slots.len(), any);
    for (slot, class) in classes.into_iter().enumerate() {
        match class {
            Class::Record(new) => {
                facts[slot] = new;
                builder.add(slot as u16, &facts, &slots);
            }
            Class::Daemon(outer) => builder.interrupt(&outer, &facts),
            other => panic!("{other:?}"),
        }
    }
    let batches = builder
        .batches()
        .iter()
        .map(|batch| builder.slots(batch).map(usize::from).collect())
        .collect();
    builder.clear();
    batches
}

prop_compose! {
    fn spec()(
        (flow, v6, tos, ttl) in (1..4u16, any::<bool>(), rare(0u8, 4), rare(64u8, 1)),
        (dont_fragment, flow_label, vlan) in (rare(false, true), rare(0u32, 7), rare(None, Some(5u16))),
        (key_id, peer) in (rare(0u8, 1), rare(1u32, 2)),
        verdict in rare(Verdict::Good, Verdict::Unknown),
        extension in prop_oneof![8 => Just(None), 1 => Just(Some(0)), 1 => Just(Some(9)), 1 => Just(Some(HOP_BY_HOP))],
        (options, shared, control) in (rare(false, true), rare(false, true), rare(false, true)),
        len in prop_oneof![8 => Just(100usize), 1 => Just(60), 1 => Just(101), 1 => Just(4)],
    ) -> Spec {
        let word = HeaderWord::data_v2(key_id, peer);
        Spec {
            flow, v6, tos, ttl, dont_fragment, flow_label, vlan, word, verdict, extension, options, shared, len,
            control,
        }
    }
}

/// Mostly `usual`.
fn rare<T: Clone + std::fmt::Debug + 'static>(usual: T, unusual: T) -> impl Strategy<Value = T> {
    prop_oneof![24 => Just(usual), 1 => Just(unusual)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn batches_are_the_input_partitioned_by_the_rules(
        bursts in proptest::collection::vec(proptest::collection::vec(spec(), 0..256), 1..3),
        enabled in proptest::bool::weighted(0.9),
    ) {
        let mut builder = Builder::new(enabled);
        for specs in &bursts {
            let batches = built(&mut builder, specs);
            prop_assert_eq!(&batches, &oracle(specs, enabled));
            let mut all: Vec<_> = batches.concat();
            all.sort_unstable();
            let records: Vec<_> = (0..specs.len()).filter(|i| !specs[*i].control).collect();
            prop_assert_eq!(all, records, "every record is in one batch");
            for flow in specs {
                let order: Vec<_> = batches.concat().into_iter().filter(|i| specs[*i].same_flow(flow)).collect();
                prop_assert!(order.is_sorted(), "arrival order within a flow");
            }
        }
    }

    #[test]
    fn one_flow_is_cut_by_size_and_count_alone(
        lens in proptest::collection::vec(prop_oneof![30 => Just(100usize), 1 => 30..130usize], 0..256)
    ) {
        let base = Spec {
            flow: 5, v6: false, tos: 0, ttl: 64, dont_fragment: false, flow_label: 0, vlan: None,
            word: HeaderWord::data_v2(0, 1), verdict: Verdict::Good, extension: None, options: false,
            shared: false, len: 0, control: false,
        };
        let specs: Vec<_> = lens.iter().map(|len| Spec { len: *len, ..base.clone() }).collect();
        prop_assert_eq!(built(&mut Builder::new(true), &specs), oracle(&specs, true));
    }

    #[test]
    fn flows_by_the_hundred_keep_apart(flows in proptest::collection::vec(1..300u16, 0..256)) {
        let specs: Vec<_> = flows.iter().map(|flow| Spec {
            flow: *flow, v6: flow % 2 == 0, tos: 0, ttl: 64, dont_fragment: false, flow_label: 0, vlan: None,
            word: HeaderWord::data_v2(0, 1), verdict: Verdict::Good, extension: None, options: false,
            shared: false, len: 100, control: false,
        }).collect();
        prop_assert_eq!(built(&mut Builder::new(true), &specs), oracle(&specs, true));
    }
}

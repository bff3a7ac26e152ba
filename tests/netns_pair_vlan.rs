//! Records in 802.1Q and 802.1ad tags, and tagged frames of the host. The kernel need not know any of it: the relay puts
//! tags around what the right side sends, and takes off what the left side sends.
//!
//! The outermost tag is always one of 802.1Q: the kernel hands it over beside the frame, and net_af_packet of DPDK 22.11
//! puts it back as such whatever it was.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/judge.rs"]
mod judge;
#[path = "support/pair.rs"]
mod pair;

use gateway::{Wire, mac, wait_for};
use judge::Judge;
use pair::relay::{Change, is_udp};
use pair::{End, HOST, NIC, Pair, Plan, Side};
use std::sync::{Arc, Mutex};

/// EtherTypes of tags, of 802.1Q and of 802.1ad.
const CUSTOMER: u16 = 0x8100;
const SERVICE: u16 = 0x88a8;

const ONE: [&str; 6] = ["-c2", "-i0.002", "-W2", "-s", "100", "-q"];

/// Bytes of tags: EtherType, then priority, DEI and VLAN id.
fn bytes(tags: &[(u16, u16)]) -> Vec<u8> {
    tags.iter()
        .flat_map(|(kind, tci)| [kind.to_be_bytes(), tci.to_be_bytes()].concat())
        .collect()
}

/// How many bytes of tags a frame has.
fn tags_len(frame: &[u8]) -> usize {
    let tags = frame[12..]
        .chunks(4)
        .take_while(|tag| matches!(tag[..2], [0x81, 0] | [0x88, 0xa8]));
    4 * tags.count()
}

/// The left side's UDP is in these tags.
fn tagged(tags: Arc<Mutex<Vec<u8>>>) -> Arc<Change> {
    Arc::new(move |from, mut frame| {
        let tags = tags.lock().expect("no panic");
        if from == End::Left {
            frame.drain(12..12 + tags_len(&frame));
        } else if is_udp(&frame) {
            frame.splice(12..12, tags.iter().copied());
        }
        vec![(from.other(), frame)]
    })
}

fn assert_pings(side: &Side, peers: u32) {
    for (peer, v6) in (0..peers).flat_map(|peer| [(peer, false), (peer, true)]) {
        let answered = side.ping(peer, v6, &ONE);
        answered.unwrap_or_else(|said| panic!("{:?}: {said}{:?}", side.end, side.losses()));
    }
}

/// Tags, and what the left side's records have to begin with if it is answered the way it was heard.
fn answers_in(name: &str, outer_v6: bool, tag_sets: &[&[(u16, u16)]]) {
    let tags = Arc::new(Mutex::new(bytes(tag_sets[0])));
    let plan = Plan {
        outer_v6,
        peers: 2,
        nic_of: ["outbound_l2 = \"last-heard\"", ""],
        relay: Some(tagged(tags.clone())),
        ..Plan::default()
    };
    Pair::test(name, &plan, |pair| {
        // The left side knows no way before it has heard one.
        for (peer, v6) in [(0, false), (0, true), (1, false), (1, true)] {
            wait_for("the right side's way is known", || {
                pair.right.ping(peer, v6, &["-c1", "-W1"]).is_ok()
            });
        }
        for set in tag_sets {
            let expected = bytes(set);
            *tags.lock().expect("no panic") = expected.clone();
            assert_pings(&pair.right, pair.peers);
            let judge = Judge::start(pair);
            assert_pings(&pair.left, pair.peers);
            assert_pings(&pair.right, pair.peers);
            let verdict = judge.finish(pair);
            verdict.assert_nothing_missing();
            verdict.assert_opened_by_others(pair);
            let left = pair.left.namespace.enter(|| mac(NIC));
            let ether_type = if outer_v6 { [0x86, 0xdd] } else { [8, 0] };
            let records: Vec<_> = verdict
                .wire
                .iter()
                .filter(|frame| frame[6..12] == left && frame[12..14] != [8, 6])
                .filter(|frame| is_udp(&[&frame[..12], &frame[12 + tags_len(frame)..]].concat()))
                .collect();
            assert_eq!(records.len(), verdict.outer.records[0], "{verdict}");
            assert!(records.len() >= 16, "{verdict}");
            let head = [&expected[..], &ether_type].concat();
            for frame in records {
                assert_eq!(frame[12..12 + head.len()], head, "{:02x?}", &frame[..34]);
            }
            let tagged = if set.is_empty() {
                0
            } else {
                verdict.outer.records[0]
            };
            assert_eq!(verdict.outer.tagged, tagged, "{verdict}");
        }
        assert_eq!(
            pair.left.gateway.counter("floats"),
            0,
            "another tag is no other address"
        );
    });
}

#[test]
fn records_in_a_vlan_are_answered_in_it() {
    // Without a tag too; with a priority and DEI; and again in another VLAN.
    let sets: [&[_]; 5] = [
        &[(CUSTOMER, 7)],
        &[(CUSTOMER, 0xb123)],
        &[],
        &[(CUSTOMER, 0x0fff)],
        &[(CUSTOMER, 0xe000)],
    ];
    answers_in("records_in_a_vlan_are_answered_in_it", false, &sets);
}

#[test]
fn records_in_a_vlan_are_answered_in_it_over_ipv6() {
    answers_in(
        "records_in_a_vlan_are_answered_in_it_over_ipv6",
        true,
        &[&[(CUSTOMER, 7)], &[(CUSTOMER, 8)]],
    );
}

#[test]
fn records_in_two_tags_are_answered_in_both() {
    let sets: [&[_]; 3] = [
        &[(CUSTOMER, 0x6007), (CUSTOMER, 9)],
        &[(CUSTOMER, 10), (CUSTOMER, 0xf00b)],
        &[(CUSTOMER, 10), (SERVICE, 0xf00b)],
    ];
    answers_in("records_in_two_tags_are_answered_in_both", false, &sets);
}

/// A frame that is none of ours.
fn other_frame(dst: [u8; 6], src: [u8; 6], tags: &[(u16, u16)], n: u8) -> Vec<u8> {
    let body = [&[0x88, 0xb5][..], &[n; 60]].concat();
    [&dst[..], &src, &bytes(tags), &body].concat()
}

#[test]
fn tagged_frames_of_the_host_pass_unchanged() {
    let plan = Plan {
        peers: 1,
        relay: Some(Arc::new(|from, frame| vec![(from.other(), frame)])),
        ..Plan::default()
    };
    Pair::test("tagged_frames_of_the_host_pass_unchanged", &plan, |pair| {
        let sets: [&[_]; 5] = [
            &[],
            &[(CUSTOMER, 0xb123)],
            &[(CUSTOMER, 0)],
            &[(CUSTOMER, 5), (CUSTOMER, 6)],
            &[(CUSTOMER, 0x3005), (SERVICE, 6)],
        ];
        let own = pair.left.namespace.enter(|| mac(HOST));
        let (middle, to_left) = pair.far_end(End::Left);
        let mut outside = middle.enter(|| Wire::of(to_left));
        let mut inside = pair.left.wire(HOST);
        let other = [2, 0, 0, 0, 0xaa, 1];
        for (n, set) in sets.into_iter().enumerate() {
            let n = n as u8;
            let crosses = |from: &mut Wire, to: &mut Wire, frame: Vec<u8>| {
                from.send(&frame);
                // Experimental EtherType and content of their own make them known whatever became of the tags.
                let ours = |f: &[u8]| f.ends_with(&frame[frame.len() - 62..]) && f[..12] == frame[..12];
                assert_eq!(
                    to.expect(&format!("a frame in {set:02x?}"), ours),
                    frame,
                    "{set:02x?}"
                );
            };
            crosses(&mut inside, &mut outside, other_frame(other, own, set, n));
            crosses(&mut outside, &mut inside, other_frame(own, other, set, 0x10 + n));
            crosses(
                &mut outside,
                &mut inside,
                other_frame([1, 0x80, 0xc2, 0, 0, 0x0e], other, set, 0x20 + n),
            );
        }
        assert_eq!(pair.left.losses(), [].into());
    });
}

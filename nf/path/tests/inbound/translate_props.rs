//! Whatever the datagram: translated, its checksums are right and nothing but the address has changed; translated
//! back, it is what it was.

use super::translate::{bed_with, counts, seen, translation};
use crate::support::*;
use nf_path::burst::Frames;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::{Checksum, Extension, Frame};
use proptest::prelude::*;
use std::net::SocketAddr;

/// Any address that is not ours.
fn remote(v6: bool) -> impl Strategy<Value = SocketAddr> {
    // Words that have been trouble in sums come often.
    let word = prop_oneof![Just(0u16), Just(0xffff), Just(1), Just(0xfffe), any::<u16>()];
    (prop::array::uniform8(word), 1..=u16::MAX).prop_map(move |(words, port)| {
        if v6 {
            SocketAddr::from((words, port))
        } else {
            let [[a, b], [c, d]] = [words[0], words[1]].map(u16::to_be_bytes);
            SocketAddr::from(([a, b, c, d], port))
        }
    })
}

#[derive(Clone, Debug)]
struct Case {
    known: SocketAddr,
    current: SocketAddr,
    local: SocketAddr,
    payload: Vec<u8>,
    kind: u8,
    extra: bool,
    words: [u16; 3],
}

fn case() -> impl Strategy<Value = Case> {
    any::<bool>().prop_flat_map(|v6| {
        let payload = prop::collection::vec(any::<u8>(), 1..1200);
        let shape = (0u8..5, any::<bool>(), any::<[u16; 3]>());
        (remote(v6), remote(v6), payload, shape).prop_map(move |(known, current, payload, shape)| {
            let (kind, extra, words) = shape;
            Case {
                known,
                current,
                local: if v6 { LISTEN_V6 } else { LISTEN_V4 }.parse().unwrap(),
                payload,
                kind,
                extra,
                words,
            }
        })
    })
}

impl Case {
    /// The frame between these, with this word of payload at an even place: P_CONTROL_V1.
    fn frame(&self, from: SocketAddr, to: SocketAddr, word: u16) -> Frame {
        let [tci, inner, id] = self.words;
        let v6 = from.is_ipv6();
        let payload = [&[0x20, 0], &word.to_be_bytes()[..], &self.payload].concat();
        let frame = Frame::udp(from, to).payload(&payload).id(id).tos(id as u8);
        let frame = match self.kind {
            0 | 1 => frame,
            2 => frame.vlan(tci),
            3 => frame.qinq(tci, inner),
            _ if !v6 => frame.udp_checksum(Checksum::Zero),
            _ => frame.flow_label(id.into()),
        };
        let frame = match (self.extra, v6) {
            (false, _) => frame,
            (true, true) => frame.extension(Extension::Destination(vec![1, 4])),
            (true, false) => frame.options(&[1, 1, 1, 1]),
        };
        frame.trailing(&[0xee; 3][..usize::from(self.kind % 3)])
    }

    fn inbound(&self, from: SocketAddr, word: u16) -> Vec<u8> {
        self.frame(from, self.local, word).build()
    }

    fn outbound(&self, to: SocketAddr, word: u16) -> Vec<u8> {
        self.frame(self.local, to, word).build()
    }

    /// The word with which the sum over the datagram from `from` is zero, which would say "none".
    fn edge(&self, from: SocketAddr) -> u16 {
        let frame = self.frame(from, self.local, 0);
        let (bytes, at) = (frame.build(), frame.l4_offset() + 6);
        u16::from_be_bytes([bytes[at], bytes[at + 1]])
    }
}

fn through(
    known: SocketAddr,
    current: SocketAddr,
    local: SocketAddr,
    inbound: bool,
    frame: &[u8],
) -> Vec<u8> {
    let mut bed = bed_with([translation(1, [known, current, local])]);
    let buf = HeapBuf::new(frame);
    let (got, count) = if inbound {
        let mut out = bed.push([buf]);
        (out.host.remove(0).frame, (1, 0, 0))
    } else {
        let mut frames: Frames<HeapBuf> = [buf].into_iter().collect();
        bed.inbound().translate_out(&mut frames);
        (frames[0].to_vec(), (0, 1, 0))
    };
    assert_eq!(counts(&bed), count);
    got
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn there_and_back(case in case(), word: u16) {
        let Case { known, current, local, .. } = case;
        prop_assume!(known != current);
        let at = case.frame(current, local, 0).l4_offset() + 6;
        let sum = case.inbound(current, case.edge(current))[at..at + 2].to_vec();
        prop_assert!(sum == [0xff; 2] || sum == [0; 2], "the word that makes the sum zero, or none: {:?}", sum);
        for word in [word, case.edge(known), case.edge(current)] {
            let (before, after) = (case.inbound(current, word), case.inbound(known, word));
            let got = through(known, current, local, true, &before);
            prop_assert_eq!(&got, &after);
            prop_assert_eq!(seen(&got), (known, local, true));
            prop_assert_eq!(through(current, known, local, true, &got), before);

            let (before, after) = (case.outbound(known, word), case.outbound(current, word));
            let got = through(known, current, local, false, &before);
            prop_assert_eq!(&got, &after);
            prop_assert_eq!(seen(&got), (local, current, true));
            prop_assert_eq!(through(current, known, local, false, &got), before);
        }
    }
}

//! That nothing makes the codec panic, and that all it reads can be answered.

mod dco;

use dco::golden::lines;
use dco::split;
use nf_control::dco::{Header, Refusal, decode, reply};
use ovpn_dco_protocol::{GENERIC, ROUTE};
use proptest::prelude::*;
use std::sync::LazyLock;

static GOLDEN: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| lines().into_iter().map(|l| l.hex).collect());

const PROTOCOLS: [Option<u32>; 4] = [None, Some(ROUTE), Some(GENERIC), Some(99)];

/// Reads, and answers what was read.
fn feed(packet: &[u8]) {
    for protocol in PROTOCOLS {
        let (header, refusal) = match decode(packet, protocol) {
            Ok(incoming) => {
                let _ = format!("{incoming:?}");
                (Some(incoming.header), None)
            }
            Err((header, refusal)) => (header, Some(refusal)),
        };
        assert_eq!(header.is_some(), packet.len() >= 16);
        if let Some(header) = header {
            answered(&header, refusal.as_ref());
        }
    }
}

/// The answer is one message, of the request's sequence number, with the request's header in it.
fn answered(header: &Header, refusal: Option<&Refusal>) {
    let packet = match refusal {
        Some(refusal) => reply::error(header, refusal),
        None => reply::ack(header),
    };
    assert_eq!(packet[..4], (packet.len() as u32).to_ne_bytes());
    assert_eq!(packet[8..12], header.seq.to_ne_bytes());
    assert_eq!(packet[20..24], header.len.to_ne_bytes());
    let errno = i32::from_ne_bytes([packet[16], packet[17], packet[18], packet[19]]);
    assert_eq!(-errno, refusal.map_or(0, |r| r.errno.0));
    let told = split(&packet[36..]);
    assert_eq!(told.len(), usize::from(refusal.is_some()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        feed(&bytes);
    }

    #[test]
    fn arbitrary_payloads(kind in 0_u16..48, flags: u16, bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
        feed(&dco::message(kind, flags | 1, &bytes));
    }

    #[test]
    fn mutated_golden_messages(
        of in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        more in proptest::collection::vec(any::<u8>(), 0..12),
        fix: bool,
    ) {
        let mut packet = of.get(&GOLDEN).clone();
        for (at, byte) in changes {
            let at = at.index(packet.len());
            packet[at] = byte;
        }
        if let Some(cut) = cut {
            packet.truncate(cut.index(packet.len()));
        }
        packet.extend(more);
        if fix && packet.len() >= 4 {
            let len = packet.len() as u32;
            packet[..4].copy_from_slice(&len.to_ne_bytes());
        }
        feed(&packet);
    }
}

//! Every reason to drop a packet has a producer, which moves that counter and no other.

use crate::support::*;
use nf_path::buf::Verdict;
use nf_path::burst::{MAX_BURST, Outputs};
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::{self, Checksum, Frame};
use nf_path::verdict::DropReason;
use nf_state::Routes;
use nf_wire::record::{HeaderWord, PEER_ID_UNDEFINED};
use std::path::Path;

enum Producer {
    /// Makes the inbound path drop one packet for this reason.
    Here(fn(&mut Bed)),
    /// Only the outbound path, the worker or a port can: the test that does it.
    Elsewhere(&'static str),
}

use Producer::{Elsewhere, Here};

/// No wildcard: a new reason does not compile without a producer.
fn producer(reason: DropReason) -> Producer {
    match reason {
        DropReason::Scattered => Here(scattered),
        DropReason::IpLength => Here(|bed| one(bed, outer(1).ip_len(9).payload(&good(1)))),
        DropReason::UdpLength => Here(|bed| one(bed, outer(1).udp_len(9).payload(&good(1)))),
        DropReason::IpChecksum => {
            Here(|bed| one(bed, outer(1).ip_checksum(Checksum::Wrong).payload(&good(1))))
        }
        DropReason::UdpChecksum => {
            Here(|bed| drop(bed.push([buf(1, 1, 60).checksums(Verdict::Good, Verdict::Bad)])))
        }
        DropReason::TooShort => Here(|bed| payload(bed, &[0x48; 3])),
        DropReason::DataV1 => Here(|bed| payload(bed, &[0x30; 60])),
        DropReason::FragmentTimeout => Here(fragment_timeout),
        DropReason::FragmentRefused => {
            Here(|bed| one(bed, outer(1).fragment(8, true).protocol(17).payload(&[1; 9])))
        }
        DropReason::UnknownPeer => Here(|bed| payload(bed, &record_of(99, 0, 1, &inner(1, 60, 1)))),
        DropReason::UnknownAddress => Here(unknown_address),
        DropReason::NoKey => Here(|bed| payload(bed, &record_of(1, 7, 1, &inner(1, 60, 1)))),
        DropReason::ShortRecord => Here(|bed| payload(bed, &good(1)[..23])),
        DropReason::ReplayZero => Here(|bed| payload(bed, &good(0))),
        DropReason::ReplayOld => Here(|bed| drop(bed.push([buf(1, 3000, 60), buf(1, 1, 60)]))),
        DropReason::ReplayDuplicate => Here(|bed| drop(bed.push([buf(1, 1, 60), buf(1, 1, 60)]))),
        DropReason::BadTag => Here(|bed| payload(bed, &[&good(1)[..], &[0]].concat())),
        DropReason::Empty => Here(|bed| payload(bed, &record_of(1, 0, 1, b""))),
        DropReason::NotIp => Here(|bed| payload(bed, &record_of(1, 0, 1, b"none"))),
        DropReason::BadSource => Here(|bed| payload(bed, &record_of(1, 0, 1, &inner(2, 60, 1)))),
        DropReason::TunnelFull => Here(tunnel_full),
        DropReason::HostFull => Here(host_full),
        DropReason::TunnelMtu | DropReason::HostMtu | DropReason::NicMtu | DropReason::NicFull => {
            Elsewhere("lcore/tests/worker_drops.rs")
        }
        DropReason::SteerFull => Elsewhere("lcore/tests/steering.rs"),
        DropReason::TunnelLength
        | DropReason::NotIpFrame
        | DropReason::Broadcast
        | DropReason::Multicast
        | DropReason::UnknownMac
        | DropReason::OwnOuter
        | DropReason::Oversize
        | DropReason::NoBuffer
        | DropReason::NoPrimary
        | DropReason::NoPacketId
        | DropReason::NoRemote
        | DropReason::NoNeighbour
        | DropReason::Unfragmentable => Elsewhere("nf/path/tests/outbound/drops.rs"),
    }
}

fn good(packet_id: u32) -> Vec<u8> {
    record_of(1, 0, packet_id, &inner(1, 60, packet_id))
}

fn one(bed: &mut Bed, frame: Frame) {
    bed.push([HeapBuf::new(&frame.build())]);
}

fn payload(bed: &mut Bed, bytes: &[u8]) {
    one(bed, outer(1).payload(bytes));
}

fn scattered(bed: &mut Bed) {
    bed.ledger.limit_large(0);
    let bytes = frame(1, 1, 60);
    bed.push([HeapBuf::from_segments(&[&bytes[..80], &bytes[80..]])]);
}

fn fragment_timeout(bed: &mut Bed) {
    one(bed, outer(1).fragment(0, true).protocol(17).payload(&[1; 64]));
    bed.at(10_000).expire();
}

fn unknown_address(bed: &mut Bed) {
    let (key, tail) = key(1, 0);
    let word = HeaderWord::data_v2(0, PEER_ID_UNDEFINED);
    let record = craft::record(CIPHER, &key, &tail, word, 1, &inner(1, 60, 1));
    one(bed, outer(1).ports(5, 1194).payload(&record));
}

fn full() -> Outputs<HeapBuf> {
    let mut out = Outputs::new(2);
    let earlier = || (0..MAX_BURST).map(|_| HeapBuf::new(b"earlier"));
    out.tunnels[0].extend(earlier());
    out.host.extend(earlier());
    out
}

fn tunnel_full(bed: &mut Bed) {
    bed.push_into([buf(1, 1, 60)], &mut full());
}

fn host_full(bed: &mut Bed) {
    bed.push_into([control(1)], &mut full());
}

#[test]
fn every_reason_has_a_producer_that_moves_its_counter_alone() {
    let mut missing = Vec::new();
    for &reason in DropReason::ALL {
        match producer(reason) {
            Here(produce) => {
                let mut sources = Routes::new();
                sources.insert("10.8.0.3/32".parse().unwrap(), 2).unwrap();
                let mut bed = Bed::new(Setup {
                    sources: Some(sources),
                    ..Setup::default()
                });
                produce(&mut bed);
                assert_eq!(bed.drops(), [(reason, 1)], "the producer of {reason:?}");
            }
            Elsewhere(test) => {
                let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
                let text = std::fs::read_to_string(top.join(test)).expect(test);
                let name = format!("DropReason::{reason:?}");
                let named = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
                if !text.split(&name).skip(1).any(named) {
                    missing.push(format!("{test}: {name}"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "no producer in {missing:?}");
}

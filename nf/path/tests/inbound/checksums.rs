//! The outer checksums: the port's verdicts against what the frame carries.

use crate::support::*;
use nf_path::buf::Verdict;
use nf_path::twin::HeapBuf;
use nf_path::twin::craft::{Checksum, Frame};
use nf_path::verdict::DropReason::{self, IpChecksum, UdpChecksum};

const VERDICTS: [Verdict; 4] = [Verdict::Unknown, Verdict::Bad, Verdict::Good, Verdict::None];
const SUMS: [Checksum; 3] = [Checksum::Zero, Checksum::Right, Checksum::Wrong];

fn outcome(frame: Frame, ip: Verdict, l4: Verdict) -> Option<DropReason> {
    let mut bed = Bed::default();
    let payload = record_of(1, 0, 1, &inner(1, 60, 1));
    let out = bed.push([HeapBuf::new(&frame.payload(&payload).build()).checksums(ip, l4)]);
    match (out.delivered(), &bed.drops()[..]) {
        (1, []) => None,
        (0, [(reason, 1)]) => Some(*reason),
        other => panic!("{other:?}"),
    }
}

/// B3, the UDP half: every L4 verdict with every checksum. Only "bad" matters, and over IPv4 a zero is no checksum
/// that could be bad. What the port did not verify is not verified: the tag covers the record.
#[test]
fn b3_udp_checksum_table() {
    for (sum, ip) in SUMS
        .iter()
        .flat_map(|sum| [Verdict::Unknown, Verdict::Good, Verdict::None].map(|ip| (*sum, ip)))
    {
        for l4 in VERDICTS {
            let v4 = (l4 == Verdict::Bad && sum != Checksum::Zero).then_some(UdpChecksum);
            let v6 = (l4 == Verdict::Bad).then_some(UdpChecksum);
            assert_eq!(
                outcome(outer(1).udp_checksum(sum), ip, l4),
                v4,
                "IPv4 {sum:?} {ip:?} {l4:?}"
            );
            assert_eq!(
                outcome(outer_v6(1).udp_checksum(sum), ip, l4),
                v6,
                "IPv6 {sum:?} {ip:?} {l4:?}"
            );
        }
    }
}

/// B3, the IPv4 header half: the port's word counts where it has one, else the header is summed. Zero is a checksum
/// like any other there, and wrong.
#[test]
fn b3_ipv4_header_checksum_table() {
    for (sum, ip, l4) in SUMS
        .iter()
        .flat_map(|sum| VERDICTS.iter().flat_map(|ip| VERDICTS.map(|l4| (*sum, *ip, l4))))
    {
        let header = match (ip, sum) {
            (Verdict::Good, _) | (Verdict::Unknown | Verdict::None, Checksum::Right) => None,
            (Verdict::Bad, _) | (Verdict::Unknown | Verdict::None, _) => Some(IpChecksum),
        };
        let expected = header.or((l4 == Verdict::Bad).then_some(UdpChecksum));
        assert_eq!(
            outcome(outer(1).ip_checksum(sum), ip, l4),
            expected,
            "{sum:?} {ip:?} {l4:?}"
        );
        let options = outer(1).options(&[1, 1, 1, 0]).ip_checksum(sum);
        assert_eq!(
            outcome(options, ip, l4),
            expected,
            "with options: {sum:?} {ip:?} {l4:?}"
        );
    }
}

/// IPv6 has no header checksum: whatever a port says of one is nothing.
#[test]
fn b3_ipv6_has_no_header_checksum() {
    for (ip, l4) in VERDICTS.iter().flat_map(|ip| VERDICTS.map(|l4| (*ip, l4))) {
        let expected = (l4 == Verdict::Bad).then_some(UdpChecksum);
        assert_eq!(outcome(outer_v6(1), ip, l4), expected, "{ip:?} {l4:?}");
    }
}

#[test]
fn what_is_not_ours_goes_to_the_host_whatever_the_checksum() {
    let mut bed = Bed::default();
    let foreign = || {
        Frame::udp(
            "203.0.113.5:53".parse().unwrap(),
            "203.0.113.6:53".parse().unwrap(),
        )
        .ip_checksum(Checksum::Wrong)
        .udp_checksum(Checksum::Wrong)
    };
    let control = || outer(1).ip_checksum(Checksum::Wrong).payload(&[0x20; 30]);
    let out = bed.push(
        [foreign(), control()]
            .map(|frame| HeapBuf::new(&frame.build()).checksums(Verdict::Bad, Verdict::Bad)),
    );
    assert_eq!(
        out.host.iter().map(|got| got.frame.clone()).collect::<Vec<_>>(),
        [foreign().build(), control().build()]
    );
    assert!(
        out.host.iter().all(|got| got.sums.ip == Verdict::Bad),
        "unchanged, with what the port said"
    );
}

/// E7: in one batch every member is judged by its own header.
#[test]
fn e7_each_member_has_its_own_checksum_verdict() {
    for size in [1usize, 2, 64] {
        for bad in 0..size {
            let mut bed = Bed::default();
            let frames = (0..size).map(|i| {
                let sum = if i == bad {
                    Checksum::Wrong
                } else {
                    Checksum::Right
                };
                let payload = record_of(1, 0, i as u32 + 1, &inner(1, 60, i as u32 + 1));
                HeapBuf::new(&outer(1).id(i as u16).ip_checksum(sum).payload(&payload).build())
            });
            let numbers = bed.push(frames.collect::<Vec<_>>()).numbers();
            let expected: Vec<_> = (1..=size as u32).filter(|n| *n != bad as u32 + 1).collect();
            assert_eq!((numbers, bed.drops()), (expected, vec![(IpChecksum, 1)]));
        }
    }
}

//! IPv4 datagrams that a driver had the kernel reassemble: too long for the host port, so they leave for it in fragments.

use crate::support::*;
use nf_path::twin::HeapBuf;
use nf_path::verdict::DropReason;

/// The longest frame that the host port takes.
const LONGEST: usize = 1518;

fn bed() -> Bed {
    let mut bed = Bed::default();
    bed.inbound().cut_for_host(LONGEST);
    bed
}

#[test]
fn what_is_too_long_for_the_host_is_cut() {
    for opcode in [0x20, 0x48] {
        // A control packet, and a record to a port that is nobody's.
        let port = if opcode == 0x20 { 1194 } else { 53 };
        let frame = outer(1)
            .ports(40001, port)
            .id(77)
            .payload(&[opcode; 2000])
            .build();
        let mut bed = bed();
        let out = bed.push([HeapBuf::new(&frame)]);
        assert_eq!(
            (out.host.len(), bed.totals().to_host, bed.drops().len()),
            (2, 2, 0)
        );
        let fragments: Vec<_> = out.host.iter().map(|got| &got.frame[..]).collect();
        assert!(fragments.iter().all(|fragment| fragment.len() <= LONGEST));
        let data: Vec<u8> = fragments.iter().flat_map(|f| f[34..].to_vec()).collect();
        assert_eq!(data, frame[34..]);
    }
}

#[test]
fn what_fits_is_as_it_was() {
    let frame = outer(1).ports(40001, 53).payload(&[0x48; LONGEST - 42]).build();
    assert_eq!(frame.len(), LONGEST);
    let out = bed().push([HeapBuf::new(&frame)]);
    assert_eq!(out.host.len(), 1);
    assert_eq!(out.host[0].frame[..], frame);
}

#[test]
fn what_cannot_be_cut_is_counted() {
    // IPv6, and lengths that say more than there is: what a driver cut short.
    let long_v6 = outer_v6(1).ports(40001, 53).payload(&[0x48; 1900]).build();
    let long_v4 = outer(1).ports(40001, 53).payload(&[0x48; 2000]).build();
    for frame in [&long_v6[..], &long_v4[..1982]] {
        let mut bed = bed();
        assert_eq!(bed.push([HeapBuf::new(frame)]).host.len(), 0);
        assert_eq!(bed.drops(), [(DropReason::HostMtu, 1)]);
    }
}

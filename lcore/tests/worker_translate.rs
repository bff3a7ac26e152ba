//! What a worker makes of control packets of a peer that has floated without the daemon's knowing: between the NIC and
//! the host port, both ways.

mod common;
mod rig;

use std::net::SocketAddr;

use lcore::Eal;
use lcore::mailbox::{Message, Reply};
use nf_path::buf::Buf;
use nf_path::translate::{Translation, Translations};
use nf_path::twin::craft::Frame;
use nf_state::{Event, Way};
use nf_wire::checksum;
use nf_wire::ether::Tags;
use rig::{LISTEN, Options, Rig, buffer, chain, raw};

const KNOWN: &str = "198.51.101.9:41000";
const CURRENT: &str = "203.0.113.7:6000";
/// The next hop towards the current address.
const HOP: [u8; 6] = [2, 0, 0, 0, 7, 7];

#[test]
fn control_packets_of_a_floated_peer() {
    let eal = common::eal("translate");
    both_ways(&eal);
    as_ports_give_them(&eal);
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn table() -> Box<Translations> {
    Box::new(Translations::new([Translation {
        tunnel: 0,
        peer: 2,
        known: address(KNOWN),
        current: address(CURRENT),
        local: address(LISTEN[0]),
        way: Some(Way {
            dst: HOP,
            tags: Tags::default(),
        }),
    }]))
}

fn frame(from: &str, to: &str, first: u8) -> Frame {
    Frame::udp(address(from), address(to)).payload(&[first; 61])
}

/// What the daemon sends to the peer, and what becomes of it.
fn daemons() -> [Vec<u8>; 2] {
    let after = frame(LISTEN[0], CURRENT, 0x28).macs([2, 0, 0, 0, 0, 1], HOP);
    [frame(LISTEN[0], KNOWN, 0x28).build(), after.build()]
}

fn translated(rig: &Rig) -> [u64; 3] {
    let t = rig.counters.totals();
    [t.translated_rx, t.translated_tx, t.untranslated]
}

fn from_host(rig: &mut Rig, frames: &[&[u8]]) -> Vec<Vec<u8>> {
    let small = rig.small.clone();
    rig::put(&mut rig.host_in, frames.iter().map(|f| buffer(&small, f)));
    rig.poll();
    rig.nic()
}

fn both_ways(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("tb"));
    let [before, after] = daemons();
    let from = |remote| frame(remote, LISTEN[0], 0x20).build();
    rig.push([from(CURRENT)]);
    assert_eq!(rig.host(), [from(CURRENT)]);
    assert_eq!(from_host(&mut rig, &[&before]), std::slice::from_ref(&before));
    rig.tell(Message::Translate(table()));
    assert!(matches!(rig.control.replies().next(), Some(Reply::Translated(old)) if old.is_empty()));
    rig.push([from(CURRENT), from("203.0.113.7:6001")]);
    assert_eq!(rig.host(), [from(KNOWN), from("203.0.113.7:6001")]);
    let other = frame(LISTEN[0], "198.51.101.9:41001", 0x28).build();
    let sent = from_host(&mut rig, &[&other, &before, &other]);
    assert_eq!(sent, [other.clone(), after, other]);
    assert_eq!((translated(&rig), rig.control.events().count()), ([1, 1, 0], 0));
    // A new client is there: it reaches the daemon as it is, and the control side is told.
    let opens = frame(CURRENT, LISTEN[0], 7 << 3).build();
    rig.push([opens.clone(), from(CURRENT)]);
    assert_eq!(rig.host(), [opens, from(CURRENT)]);
    assert_eq!(
        rig.control.events().collect::<Vec<_>>(),
        [(0, Event::NewSession { peer: 2 })]
    );
    assert_eq!(from_host(&mut rig, &[&before]), [before]);
    rig.tell(Message::Translate(Box::default()));
    assert!(matches!(rig.control.replies().next(), Some(Reply::Translated(old)) if old.len() == 1));
    let t = rig.counters.totals();
    assert_eq!(
        (translated(&rig), t.host_rx, t.nic_tx, rig.drops()),
        ([1, 1, 0], 5, 5, vec![])
    );
    rig.finish();
}

/// A checksum that the kernel left to the port, with the port's mark; a packet in segments; one that somebody else holds.
fn as_ports_give_them(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("tp"));
    rig.tell(Message::Translate(table()));
    let [before, after] = daemons();
    let small = rig.small.clone();
    let mut partial = buffer(&small, &before);
    let pseudo = checksum::fold(checksum::sum(&before[26..34]) + 17 + 69);
    partial.data_mut()[40..42].copy_from_slice(&pseudo.to_be_bytes());
    raw(&mut partial).ol_flags |= dpdk_sys::SHIM_RX_L4_CKSUM_NONE;
    assert!(partial.unfinished().checksum);
    let held = buffer(&small, &before);
    // SAFETY: the buffer is this test's own, and gets a second reference, which `holder` owns.
    let holder = unsafe {
        let raw = std::ptr::NonNull::new_unchecked(held.as_ptr());
        (*held.as_ptr())
            .refcnt
            .store(2, std::sync::atomic::Ordering::Relaxed);
        lcore::Mbuf::from_raw(raw)
    };
    let segments = chain(&small, &[&before[..50], &before[50..]]);
    rig::put(&mut rig.host_in, [partial, held, segments]);
    rig.poll();
    let sent = rig::taken(&mut rig.nic_out);
    assert!(sent.iter().all(|m| rig::bytes(m) == after));
    assert_eq!((sent.len(), translated(&rig)), (3, [0, 3, 0]));
    assert!(!sent[0].unfinished().checksum);
    assert_eq!(rig::bytes(&holder), before, "whoever else holds it sees what was");
    drop((sent, holder));
    rig.finish();
}

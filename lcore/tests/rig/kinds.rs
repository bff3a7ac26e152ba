//! Packets for every kind of drop.

use std::cell::Cell;
use std::rc::Rc;

use dpdk_sys::{SHIM_RX_L4_CKSUM_BAD, SHIM_RX_LRO};
use lcore::{Mbuf, Mempool};
use nf_path::twin::craft::{Checksum, Frame, fragment_v4, inner_v4, record};
use nf_path::verdict::DropReason;
use nf_wire::keepalive::PING;
use nf_wire::record::HeaderWord;

use super::{
    CIPHER, arp_request, buffer, chain, frame, inner, kernels, outer, raw, record_of, remote, to_peer,
};

/// Packets in one go.
pub const GO: u32 = 250;

/// All kinds that one worker makes whose rings are full, in which peers 5 to 8 have no key, no packet id, no remote and
/// no way, and peer 2 has received packet id 5000.
pub fn all() -> Vec<Kind> {
    let inbound = unopened().into_iter().chain(opened());
    let outbound = from_the_kernel().into_iter().chain(from_the_host());
    inbound.chain(outbound).chain(pieces()).collect()
}

/// A port that a packet comes from.
#[derive(Clone, Copy, PartialEq)]
pub enum At {
    /// The NIC port.
    Nic,
    /// The tunnel port.
    Tunnel,
    /// The host port.
    Host,
}

/// A pool without a free buffer.
#[derive(Clone, Copy, PartialEq)]
pub enum Dry {
    /// Neither.
    No,
    /// That of ordinary buffers.
    Small,
    /// That of large ones.
    Large,
}

/// Makes a buffer from a pool.
pub type Make = Box<dyn FnMut(u32, &Mempool) -> Mbuf>;

/// One kind of drop: what makes for it, and which pool has to be empty.
pub struct Kind {
    /// What becomes of it.
    pub reason: DropReason,
    /// The port that it comes from.
    pub at: At,
    /// The pool that has to be empty.
    pub dry: Dry,
    /// Makes the buffer with this number.
    pub make: Make,
}

/// The same frames over and over.
pub fn same(reason: DropReason, at: At, frames: impl IntoIterator<Item = Vec<u8>>) -> Kind {
    let frames: Vec<_> = frames.into_iter().collect();
    let make = move |n: u32, pool: &Mempool| buffer(pool, &frames[n as usize % frames.len()]);
    Kind {
        reason,
        at,
        dry: Dry::No,
        make: Box::new(make),
    }
}

/// Records of peer 1 under the next packet id each, around what is made of that id.
fn fresh(reason: DropReason, next: &Rc<Cell<u32>>, plaintext: fn(u32) -> Vec<u8>) -> Kind {
    let next = next.clone();
    let make = move |_, pool: &Mempool| {
        let id = next.replace(next.get() + 1);
        buffer(
            pool,
            &outer(1, id).payload(&record_of(1, id, &plaintext(id))).build(),
        )
    };
    Kind {
        reason,
        at: At::Nic,
        dry: Dry::No,
        make: Box::new(make),
    }
}

fn with(mut kind: Kind, change: fn(&Mempool, Mbuf) -> Mbuf, dry: Dry) -> Kind {
    let mut make = kind.make;
    kind.make = Box::new(move |n, pool| change(pool, make(n, pool)));
    kind.dry = dry;
    kind
}

fn in_two(pool: &Mempool, m: Mbuf) -> Mbuf {
    let bytes = super::bytes(&m);
    chain(pool, &[&bytes[..50], &bytes[50..]])
}

/// A record of peer 1 with another header word or packet id.
fn wrong(word: HeaderWord, id: u32) -> Vec<u8> {
    let (key, tail) = super::key(1);
    outer(1, 0)
        .payload(&record(CIPHER, &key, &tail, word, id, &inner(60, 1)))
        .build()
}

/// In each go one keepalive of peer 2 over and over, the first of which is good: under the same one for longer, ids would
/// be too old in the end.
fn duplicates() -> Kind {
    let (mut id, mut record) = (5000, Vec::new());
    let make = move |n: u32, pool: &Mempool| {
        if n.is_multiple_of(GO) {
            id += 1;
            record = outer(2, id).payload(&record_of(2, id, &PING)).build();
        }
        buffer(pool, &record)
    };
    Kind {
        reason: DropReason::ReplayDuplicate,
        at: At::Nic,
        dry: Dry::No,
        make: Box::new(make),
    }
}

/// What goes wrong before a record is opened.
fn unopened() -> Vec<Kind> {
    use DropReason::*;
    let same = |reason, frame| same(reason, At::Nic, [frame]);
    let whole = || outer(1, 1).payload(&record_of(1, 1, &inner(100, 1)));
    let bad_sum = |_: &Mempool, mut m: Mbuf| {
        raw(&mut m).ol_flags |= SHIM_RX_L4_CKSUM_BAD;
        m
    };
    let mut tampered = frame(2, u32::MAX, 60);
    *tampered.last_mut().expect("a byte") ^= 1;
    let short = HeaderWord::data_v2(0, 1).0.to_be_bytes();
    vec![
        with(same(Scattered, whole().build()), in_two, Dry::Large),
        same(IpLength, whole().ip_len(19).build()),
        same(UdpLength, whole().udp_len(5000).build()),
        same(IpChecksum, whole().ip_checksum(Checksum::Wrong).build()),
        with(same(UdpChecksum, whole().build()), bad_sum, Dry::No),
        same(TooShort, outer(1, 0).payload(&[0x48, 0, 0]).build()),
        same(DataV1, outer(1, 0).payload(&[0x30; 60]).build()),
        same(
            UnknownPeer,
            outer(9, 0).payload(&record_of(9, 1, &[0; 40])).build(),
        ),
        same(UnknownAddress, wrong(HeaderWord::data_v2(0, 0xff_ffff), 1)),
        same(NoKey, wrong(HeaderWord::data_v2(3, 1), 1)),
        same(
            ShortRecord,
            outer(1, 0).payload(&[&short[..], &[0; 10]].concat()).build(),
        ),
        same(ReplayZero, wrong(HeaderWord::data_v2(0, 1), 0)),
        same(ReplayOld, frame(2, 100, 60)),
        duplicates(),
        same(BadTag, tampered),
        same(HostMtu, outer(1, 0).payload(&[0x20; 600]).build()),
        same(HostFull, outer(1, 0).payload(&[0x20; 40]).build()),
    ]
}

/// What goes wrong with an authentic record.
fn opened() -> Vec<Kind> {
    use DropReason::*;
    let next = Rc::new(Cell::new(1000));
    vec![
        fresh(Empty, &next, |_| vec![]),
        fresh(NotIp, &next, |_| vec![0x99; 40]),
        fresh(BadSource, &next, |id| {
            inner_v4([10, 8, 0, 77].into(), [10, 8, 0, 1].into(), 60, id)
        }),
        fresh(TunnelMtu, &next, |id| inner(400, id)),
        fresh(TunnelFull, &next, |id| inner(60, id)),
    ]
}

fn from_the_kernel() -> Vec<Kind> {
    use DropReason::*;
    let same = |reason, frame| same(reason, At::Tunnel, [frame]);
    let to = |mac: [u8; 6]| {
        let mut frame = kernels(1, 1, 60);
        frame[..6].copy_from_slice(&mac);
        frame
    };
    let mut lldp = to([2, 0, 0, 0, 0, 7]);
    lldp[12..14].copy_from_slice(&[0x88, 0xcc]);
    let own = Frame::udp("10.8.0.1:5000".parse().expect("an address"), remote(1));
    let super_frame = |_: &Mempool, mut m: Mbuf| {
        raw(&mut m).ol_flags |= SHIM_RX_LRO;
        raw(&mut m).tx_offload = 1000 << 24;
        m
    };
    vec![
        with(same(Scattered, kernels(1, 1, 300)), in_two, Dry::Large),
        same(TunnelLength, kernels(1, 1, 60)[..20].to_vec()),
        same(NotIpFrame, lldp),
        same(Broadcast, to([0xff; 6])),
        same(Multicast, to([1, 0, 0x5e, 0, 0, 5])),
        same(UnknownMac, kernels(77, 1, 60)),
        same(OwnOuter, to_peer(1, &own.payload(&[0; 60]).build()[14..])),
        with(same(Oversize, kernels(1, 1, 1200)), super_frame, Dry::No),
        with(same(NoBuffer, arp_request(1)), |_, m| m, Dry::Small),
        same(NoPrimary, kernels(5, 1, 60)),
        same(NoPacketId, kernels(6, 1, 60)),
        same(NoRemote, kernels(7, 1, 60)),
        same(NoNeighbour, kernels(8, 1, 60)),
        same(NicMtu, kernels(1, 1, 700)),
        same(NicFull, kernels(1, 1, 60)),
    ]
}

fn from_the_host() -> Vec<Kind> {
    let of = |len| vec![0x55; len];
    let kinds = [(DropReason::NicMtu, of(800)), (DropReason::NicFull, of(60))];
    kinds
        .map(|(reason, frame)| same(reason, At::Host, [frame]))
        .into()
}

/// First pieces, and datagrams of more pieces than are taken.
fn pieces() -> [Kind; 2] {
    let datagram = |id| outer(1, id).payload(&record_of(1, 1, &inner(1550, 1))).build();
    let first = (0..GO).map(|id| fragment_v4(&datagram(id), 800).remove(0));
    let many = (0..GO / 9 + 1).flat_map(|id| fragment_v4(&datagram(1000 + id), 20 + 184));
    [
        same(DropReason::FragmentTimeout, At::Nic, first),
        same(DropReason::FragmentRefused, At::Nic, many),
    ]
}

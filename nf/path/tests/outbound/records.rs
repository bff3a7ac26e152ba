//! What leaves: records that the other side opens, in frames that are right in every byte.

use crate::bed::*;
use crate::far::Far;
use crate::peers::*;
use nf_path::buf::Layout;
use nf_path::twin::{HeapBuf, SoftKey, craft};
use nf_state::{Addresses, Cipher, Direction, Endpoint, KeySlot, Peer, Slot};
use nf_wire::ether;
use nf_wire::record::HeaderWord;
use proptest::prelude::*;

/// The record that should leave.
fn record(peer: u32, id: u32, inner: &[u8]) -> Vec<u8> {
    let (key, tail) = secret(peer, true);
    craft::record(
        Cipher::Aes128Gcm,
        &key,
        &tail,
        HeaderWord::data_v2(KEY_ID, peer),
        id,
        inner,
    )
}

/// A frame whose UDP checksum is still to be computed from the pseudo-header's sum in its field, finished.
fn finished(mut frame: Vec<u8>) -> Vec<u8> {
    let udp = record_at(&frame) - 8;
    let mut sum = 0u64;
    for pair in frame[udp..].chunks(2) {
        sum += u64::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let sum = match !(sum as u16) {
        0 => 0xffff,
        sum => sum,
    };
    frame[udp + 6..udp + 8].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn layout(peer: u32) -> Layout {
    let (l2_len, l2) = match peer {
        4 => (18, 0x6),
        5 => (22, 0x7),
        _ => (14, 0x1),
    };
    let (l3_len, l3) = if remote(peer).is_ipv4() {
        (20, 0x10)
    } else {
        (40, 0x40)
    };
    Layout {
        l2_len,
        l3_len,
        packet_type: l2 | l3 | 0x200,
    }
}

fn ip_id(frame: &[u8], peer: u32) -> u16 {
    let at = usize::from(layout(peer).l2_len) + 4;
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn every_byte_is_right_and_the_other_side_opens_them(
        packets in proptest::collection::vec((1..=PEERS, any::<bool>(), 0..1800usize, 0..60usize), 1..64),
        checksums in any::<bool>(),
    ) {
        let mut bed = Bed::new(Setup { checksums, ..Setup::default() });
        let inner = |n: usize, (peer, v6, len, _): (u32, bool, usize, usize)| {
            if v6 { packet_v6(peer, len + 40, n as u32) } else { packet(peer, len + 20, n as u32) }
        };
        let sent = bed.push(packets.iter().enumerate().map(|(n, p)| {
            // Behind the packet there may be Ethernet padding, which does not travel.
            let padded = [framed(ether::peer_mac(p.0), &inner(n, *p)), vec![0xee; p.3]].concat();
            HeapBuf::new(&padded)
        }));
        prop_assert_eq!(sent.nic.len(), packets.len());
        let mut ids = [0; PEERS as usize + 1];
        for (n, (got, p)) in sent.nic.iter().zip(&packets).enumerate() {
            let peer = p.0;
            ids[peer as usize] += 1;
            let expected = expected(peer, ip_id(&got.frame, peer), &record(peer, ids[peer as usize], &inner(n, *p)));
            let frame = if checksums { finished(got.frame.clone()) } else { got.frame.clone() };
            prop_assert_eq!(frame, expected, "packet {} to peer {}", n, peer);
            prop_assert_eq!((got.layout, got.offloaded), (Some(layout(peer)), checksums));
        }
        let mut far = Far::default();
        let sent = Sent {
            nic: sent.nic.into_iter().map(|got| Got { frame: finished_if(checksums, got.frame.clone()), ..got }).collect(),
            ..sent
        };
        let mut opened = far.open(&sent);
        let mut wanted: Vec<_> = packets.iter().enumerate().map(|(n, p)| (p.0, inner(n, *p))).collect();
        // Order is kept for each peer.
        opened.sort_by_key(|(peer, _)| *peer);
        wanted.sort_by_key(|(peer, _)| *peer);
        prop_assert_eq!(opened, wanted);
    }
}

fn finished_if(checksums: bool, frame: Vec<u8>) -> Vec<u8> {
    if checksums { finished(frame) } else { frame }
}

#[test]
fn ip_ids_of_an_lcore_follow_each_other() {
    let mut bed = Bed::default();
    let sent = bed.push((0..5).map(|n| buf(1 + n % 3, 100, n)));
    let ids: Vec<_> = sent
        .nic
        .iter()
        .zip([1, 2, 3, 1, 2])
        .map(|(got, peer)| ip_id(&got.frame, peer))
        .collect();
    assert_eq!(ids, [1, 2, 3, 4, 5]);
}

/// Peer 1, key id 0, packet id 5, keys 00, 01, 02, ..., nonce tail a0 to a7: worked out with an independent library.
#[test]
fn the_known_keepalives_are_sealed_byte_for_byte() {
    let known = [
        (
            Cipher::Aes128Gcm,
            "4800000100000005a1717296407a11b50afd59847628753051341f14f47b32bf0365041a7547fa8b",
        ),
        (
            Cipher::Aes256Gcm,
            "48000001000000051dc12c55342c36828f7a1c4c39d1d404c84633aa5eaad37902cf558f7ae07bad",
        ),
        (
            Cipher::ChaCha20Poly1305,
            "48000001000000058537386d180f752bafcc7784da3ddd610b44591c4b1b95d1382405c6e2ce5057",
        ),
    ];
    for (cipher, wanted) in known {
        let direction = || Direction {
            key: SoftKey::new(cipher, &(0..cipher.key_len() as u8).collect::<Vec<_>>()),
            nonce_tail: [0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7],
        };
        let mut peer = Peer::new(1, Addresses::default());
        let key = KeySlot::new(cipher, 0, direction(), direction());
        assert!(peer.keys.install(Slot::Primary, key).is_none());
        peer.endpoint = Endpoint::bound(&binding(1)).into();
        let mut bed = Bed::default();
        assert!(bed.tunnel().peers.insert(peer).unwrap().is_some());
        let sent: Vec<_> = (0..5).map(|_| bed.ping(1)).collect();
        let frame = &sent[4].nic[0].frame;
        let record: String = frame[record_at(frame)..]
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(record, wanted, "{cipher}");
    }
}

#[test]
fn keepalives_are_consumed_by_the_other_side() {
    let mut bed = Bed::default();
    let mut far = Far::default();
    for peer in 1..=PEERS {
        let sent = bed.ping(peer);
        assert_eq!(far.open(&sent), []);
    }
    assert_eq!(far.keepalives(), u64::from(PEERS));
    assert_eq!(bed.ping(99), Sent::default(), "no such peer");
}

#[test]
fn in_p2p_mode_the_destination_says_nothing() {
    let mut bed = Bed::p2p(Setup::default(), 3);
    let to = [
        [0xff; 6],
        [1, 0, 0x5e, 0, 0, 5],
        ether::peer_mac(1),
        [2, 9, 9, 9, 9, 9],
        INTERFACE,
    ];
    let sent = bed.push(
        to.iter()
            .map(|mac| HeapBuf::new(&framed(*mac, &packet(9, 100, 1)))),
    );
    let opened = Far::default().open(&sent);
    assert_eq!(opened, vec![(3, packet(9, 100, 1)); 5]);
}

#[test]
fn a_binding_that_changes_is_followed_by_the_next_burst() {
    let mut bed = Bed::default();
    bed.push([buf(1, 100, 1)]);
    let moved = nf_state::Binding {
        remote: remote(8),
        local: local(8),
        way: Some(way(4)),
    };
    bed.peer(1).endpoint.set(&moved);
    let sent = bed.push([buf(1, 100, 2)]);
    let frame = &sent.nic[0].frame;
    assert_eq!(record_at(frame), 14 + 4 + 40 + 8);
    assert_eq!((&frame[..6], id_of(frame)), (&way(4).dst[..], 2));
}

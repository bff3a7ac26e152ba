//! The ciphers through the whole path.

use crate::protocol::datagram;
use crate::support::*;
use nf_path::twin::craft;
use nf_state::{Cipher, Slot};
use nf_wire::record::HeaderWord;

#[test]
fn the_known_records_open() {
    for (cipher, payload) in [
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
    ] {
        let payload: Vec<u8> = (0..payload.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&payload[i..i + 2], 16).unwrap())
            .collect();
        let mut bed = Bed::default();
        let key: Vec<u8> = (0..cipher.key_len() as u8).collect();
        let tail = [0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7];
        drop(
            bed.peer(1)
                .keys
                .install(Slot::Primary, key_slot(cipher, 0, &key, tail)),
        );
        bed.push([datagram(&payload)]);
        assert_eq!((bed.totals().keepalives, bed.drops().len()), (1, 0), "{cipher}");
    }
}

#[test]
fn every_cipher_carries_packets() {
    for cipher in Cipher::ALL {
        let mut bed = Bed::default();
        let key: Vec<u8> = (7..7 + cipher.key_len() as u8).collect();
        drop(
            bed.peer(1)
                .keys
                .install(Slot::Primary, key_slot(cipher, 0, &key, [3; 8])),
        );
        for len in [20, 21, 63, 64, 65, 1400, 1900] {
            let packet = inner(1, len, len as u32);
            let payload = craft::record(
                cipher,
                &key,
                &[3; 8],
                HeaderWord::data_v2(0, 1),
                len as u32,
                &packet,
            );
            assert_eq!(
                bed.push([datagram(&payload)]).inner(),
                [&packet[..]],
                "{cipher} {len}"
            );
        }
    }
}

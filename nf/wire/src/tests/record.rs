//! DATA_V2: the header word, the nonce, the sizes.

use crate::record::*;

#[test]
fn header_words_as_on_the_wire() {
    for (key, peer, wire) in [
        (0, 1, [0x48, 0x00, 0x00, 0x01]),
        (7, 0xab_cdef, [0x4f, 0xab, 0xcd, 0xef]),
        (0, 0, [0x48, 0, 0, 0]),
        (3, PEER_ID_UNDEFINED, [0x4b, 0xff, 0xff, 0xff]),
    ] {
        let word = HeaderWord::data_v2(key, peer);
        assert_eq!(word.0.to_be_bytes(), wire);
        assert_eq!(
            (word.opcode(), word.key_id(), word.peer_id()),
            (DATA_V2, key, peer)
        );
    }
}

#[test]
fn every_opcode_and_key_id_of_the_first_byte() {
    for first in 0..=255u8 {
        let word = HeaderWord(u32::from_be_bytes([first, 0xff, 0, 0xff]));
        assert_eq!(
            (word.opcode(), word.key_id(), word.peer_id()),
            (first / 8, first % 8, 0xff_00ff)
        );
    }
    assert_eq!(HeaderWord(0x3000_0000).opcode(), DATA_V1);
}

#[test]
fn fields_that_are_too_large_are_cut() {
    assert_eq!(HeaderWord::data_v2(0xf9, 0xff00_0001), HeaderWord(0x4900_0001));
}

#[test]
fn the_nonce_is_the_packet_id_then_the_tail() {
    let tail = [0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7];
    let expected = [0, 0, 0, 5, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7];
    assert_eq!(nonce(5u32.to_be_bytes(), &tail), expected);
}

#[test]
fn sizes() {
    assert_eq!(
        (WORD_LEN, PACKET_ID_LEN, AAD_LEN, TAG_LEN, OVERHEAD),
        (4, 4, 8, 16, 24)
    );
    assert_eq!((NONCE_LEN, NONCE_TAIL_LEN), (12, 8));
}

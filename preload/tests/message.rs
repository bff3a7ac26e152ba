//! What the library reads in netlink messages.

#[path = "../src/message.rs"]
#[allow(dead_code)]
mod message;
mod support;

use message::{Family, Header, family, is_new_peer, new_peer_socket};
use support::packets::{self, attribute};

/// NEW_PEER of OpenVPN 2.6.14 (UDP over IPv4, both VPN addresses): descriptor 7.
const NEW_PEER_26: &str = "6000000025000500bdc00d6b592dc0bc0100000008000100230000004400028008000100000000000800030007000000\
    140002000200cfc4c0a863030000000000000000080004000a63000214000500fd770000000000000000000000001000";
/// PEER_NEW of OpenVPN 2.7.6 (UDP over IPv4, both VPN addresses): descriptor 7.
const NEW_PEER_27: &str = "5c0000002600050021c00d6b4323c095010000000800010014000000400002800800010000000000080006000700000008\
    000200c0a8630306000500d7140000080008000a63000214000900fd770000000000000000000000001000";
/// RTM_NEWLINK of OpenVPN 2.6.14: make, then set the MTU; RTM_DELLINK; RTM_GETLINK.
const LINKS: [(&str, bool); 4] = [
    ("4c00000010000506bac00d6b00000000", true),
    ("2800000010000500bac00d6b00000000", false),
    ("2000000011000500cec00d6b00000000", true),
    ("2000000012000100e2c00d6b00000000", true),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn header_there_and_back() {
    let header = Header {
        len: 0x0102_0304,
        kind: 0x0506,
        flags: 0x0708,
        seq: 0x090a_0b0c,
        pid: 0x0d0e_0f10,
    };
    assert_eq!(Header::parse(&header.bytes()), Some(header));
    assert_eq!(header.bytes()[..4], 0x0102_0304_u32.to_ne_bytes());
    assert_eq!(Header::parse(&header.bytes()[..15]), None);
}

#[test]
fn sockets_of_both_daemons() {
    let (old, new) = (bytes(NEW_PEER_26), bytes(NEW_PEER_27));
    assert!(is_new_peer(&old[..20]) && is_new_peer(&new[..20]));
    assert_eq!(new_peer_socket(&old, Family::DcoV2), Some(7));
    assert_eq!(new_peer_socket(&new, Family::Ovpn), Some(7));
    assert_eq!(new_peer_socket(&old, Family::Ovpn), None);
    // Attribute 3 of the newer one would be the IPv6 remote, which is not there.
    assert_eq!(new_peer_socket(&new, Family::DcoV2), None);
}

#[test]
fn cut_off_and_broken_messages_name_no_socket() {
    let whole = bytes(NEW_PEER_26);
    let nest = 28;
    for len in 0..whole.len() {
        assert_eq!(new_peer_socket(&whole[..len], Family::DcoV2), None, "{len} bytes");
    }
    for length in [0, 1, 3, 0xffff_u16] {
        let mut broken = whole.clone();
        broken[nest..nest + 2].copy_from_slice(&length.to_ne_bytes());
        assert_eq!(new_peer_socket(&broken, Family::DcoV2), None, "length {length}");
    }
    let mut negative = whole;
    negative[44..48].copy_from_slice(&(-1_i32).to_ne_bytes());
    assert_eq!(new_peer_socket(&negative, Family::DcoV2), None);
}

#[test]
fn family_ids_are_those_of_the_answer() {
    let request = packets::message(16, 5, 9, 0, &[]);
    for (made, wanted) in [
        (packets::Family::DcoV2, Family::DcoV2),
        (packets::Family::Ovpn, Family::Ovpn),
    ] {
        let answer = packets::family(&request, made);
        assert_eq!(family(&answer), Some((wanted, made.id())));
        for len in 0..answer.len() {
            if let Some((_, id)) = family(&answer[..len]) {
                assert_eq!(id, made.id(), "{len} bytes");
            }
        }
    }
    assert_eq!(family(&packets::controller(&request)), None);
    let name = [
        vec![1, 2, 0, 0],
        attribute(2, b"ovpn-dco\0"),
        attribute(1, &[1, 0]),
    ]
    .concat();
    assert_eq!(family(&packets::message(16, 0, 9, 0, &name)), None);
    let elsewhere = [vec![1, 2, 0, 0], attribute(2, b"ovpn\0"), attribute(1, &[1, 0])].concat();
    assert_eq!(family(&packets::message(17, 0, 9, 0, &elsewhere)), None);
}

#[test]
fn what_the_gateway_is_asked() {
    for (hex, wanted) in LINKS {
        let header = Header::parse(&bytes(hex)).unwrap();
        assert_eq!(header.is_for_gateway(), wanted, "{hex}");
    }
    let of = |kind, flags| Header {
        len: 32,
        kind,
        flags,
        seq: 1,
        pid: 0,
    };
    assert!(!of(18, 0x301).is_for_gateway(), "a dump of all interfaces");
    for other in [19, 20, 24, 28] {
        assert!(!of(other, 0x605).is_for_gateway());
    }
}

#[test]
fn ends_of_answers() {
    let of = |kind, flags, seq| Header {
        len: 36,
        kind,
        flags,
        seq,
        pid: 0,
    };
    assert!(of(2, 0, 5).ends(5) && of(3, 2, 5).ends(5));
    assert!(!of(2, 0, 4).ends(5) && !of(0x31, 2, 5).ends(5));
    assert!(of(1, 4, 5).wants_answer() && of(1, 0x301, 5).wants_answer());
    assert!(!of(1, 1, 5).wants_answer() && !of(1, 0x201, 5).wants_answer());
    assert!(of(0x31, 0, 0).is_notification());
    assert!(!of(0x31, 0, 5).is_notification() && !of(2, 0, 0).is_notification());
    // Without an acknowledgement one message is the whole answer, unless there are more of it.
    assert!(of(18, 1, 5).is_answered_by(&of(16, 0, 5)));
    assert!(!of(18, 1, 5).is_answered_by(&of(16, 2, 5)));
    assert!(!of(18, 5, 5).is_answered_by(&of(16, 0, 5)));
    assert!(of(18, 5, 5).is_answered_by(&of(2, 0, 5)));
}

#[test]
fn the_tests_own_messages_are_as_real_ones() {
    let request = packets::message(16, 5, 0x6b0d_c0ba, 0x7740_2d59, b"");
    let wanted = "6000000010000000bac00d6b592d407701020000100002006f76706e2d64636f2d763200060001003100000008000300\
        01000000080004000000000008000500080000001c000780180001800a00010070656572730000000800020011000000";
    let hex: String = packets::family(&request, packets::Family::DcoV2)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    assert_eq!(hex, wanted.replace(char::is_whitespace, ""));
}

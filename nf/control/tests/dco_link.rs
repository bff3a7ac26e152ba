//! Messages that are not about peers: rtnetlink, the controller, and the control socket's own.

mod dco;

use dco::{DUMP, REQUEST, attr, generic, message, u16_attr, u32_attr};
use nf_control::Mode;
use nf_control::dco::{Errno, Family, LinkRequest, Message, Refusal, decode};
use ovpn_dco_protocol::{AGAIN, GENERIC, HELLO, OPEN, ROUTE, STATUS, SUBSCRIBE};

const CREATE: u16 = 0x400;
const CONTROLLER: u16 = 16;

#[track_caller]
fn understood(packet: &[u8], protocol: u32) -> Message {
    decode(packet, Some(protocol)).expect("understood").message
}

#[track_caller]
fn refused(packet: &[u8], protocol: Option<u32>) -> Refusal {
    let (header, refusal) = decode(packet, protocol).expect_err("must be refused");
    assert!(header.is_some());
    refusal
}

fn info(index: i32, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![17, 0, 0, 0];
    bytes.extend(index.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(attributes.concat());
    bytes
}

fn new_link(kind: &[u8], mode: Option<&[u8]>) -> Vec<u8> {
    let mut link = attr(1, kind);
    if let Some(mode) = mode {
        link.extend(attr(2, &attr(1, mode)));
    }
    let attributes = [attr(3, b"ovpn0\0"), u32_attr(999, 1), attr(18, &link)];
    message(16, REQUEST | CREATE, &info(0, &attributes))
}

/// IFLA_INFO_KIND and IFLA_OVPN_MODE as sent; the kind and the mode understood.
type Kind<'a> = (&'a [u8], Option<&'a [u8]>, &'a str, Option<Mode>);

#[test]
fn interfaces_of_the_families_kinds() {
    let cases: [Kind; 6] = [
        (b"ovpn\0", Some(&[1]), "ovpn", Some(Mode::Mp)),
        (b"ovpn-dco\0", Some(&[0]), "ovpn-dco", Some(Mode::P2p)),
        (b"ovpn", None, "ovpn", Some(Mode::P2p)),
        (b"ovpn-dco", Some(&[1]), "ovpn-dco", Some(Mode::Mp)),
        (b"ovpn\0", Some(&[2]), "ovpn", None),
        (b"ovpn\0", Some(&[255]), "ovpn", None),
    ];
    for (sent, mode, kind, expected) in cases {
        match understood(&new_link(sent, mode), ROUTE) {
            Message::Link(LinkRequest::New { name, kind: k, mode }) => {
                assert_eq!((name.as_str(), k.as_str(), mode), ("ovpn0", kind, expected));
            }
            other => panic!("{other:?}"),
        }
    }
    for mode in [&[][..], &[1, 0], &[1, 0, 0, 0]] {
        let refusal = refused(&new_link(b"ovpn\0", Some(mode)), Some(ROUTE));
        assert_eq!(refusal.errno, Errno::EINVAL);
        assert!(refusal.text.contains("IFLA_OVPN_MODE"), "{refusal:?}");
    }
}

#[test]
fn the_kernels_business() {
    let link = info(35, &[u32_attr(4, 1500)]);
    let pass = [
        new_link(b"dummy\0", None),
        new_link(b"ovpn-dco-v2\0", None),
        message(16, REQUEST | CREATE, &info(0, &[attr(3, b"ovpn0\0")])),
        message(16, REQUEST, &link),
        message(18, REQUEST | DUMP, &link),
        message(18, REQUEST, &info(0, &[])),
        message(17, REQUEST, &info(-1, &[])),
        message(19, REQUEST, &link),
        message(24, REQUEST, &[]),
    ];
    for packet in pass {
        assert!(matches!(understood(&packet, ROUTE), Message::Pass), "{packet:?}");
    }
}

#[test]
fn interfaces_asked_for_and_removed() {
    let name = [attr(3, b"ovpn0\0")];
    let link = |kind: u16, index: i32, name: &[Vec<u8>]| match understood(
        &message(kind, REQUEST, &info(index, name)),
        ROUTE,
    ) {
        Message::Link(link) => link,
        other => panic!("{other:?}"),
    };
    let ovpn0 = || Some("ovpn0".to_owned());
    let delete = |index, name| LinkRequest::Delete { index, name };
    assert_eq!(link(17, 35, &[]), delete(Some(35), None));
    assert_eq!(link(17, 0, &name), delete(None, ovpn0()));
    assert_eq!(link(17, 35, &name), delete(Some(35), ovpn0()));
    assert_eq!(link(18, 35, &name), LinkRequest::GetIndex(35));
    let get = LinkRequest::Get { name: "ovpn0".into() };
    assert_eq!(link(18, 0, &name), get);
}

#[test]
fn malformed_link_messages() {
    for len in 0..16 {
        let refusal = refused(&message(17, REQUEST, &info(35, &[])[..len]), Some(ROUTE));
        assert_eq!(refusal.errno, Errno::EINVAL);
        assert!(refusal.text.contains("RTM_DELLINK"), "{refusal:?}");
    }
    let whole = new_link(b"ovpn\0", Some(&[1]));
    // The padding of the last attribute is no part of it.
    let of_whole_attributes = [32, 42, 43, 44, 52];
    for len in 16..whole.len() {
        let mut cut = whole[..len].to_vec();
        cut[..4].copy_from_slice(&(len as u32).to_ne_bytes());
        match decode(&cut, Some(ROUTE)) {
            Ok(incoming) => {
                assert!(of_whole_attributes.contains(&len), "{len}");
                assert!(matches!(incoming.message, Message::Pass));
            }
            Err((_, refusal)) => assert_eq!(refusal.errno, Errno::EINVAL, "{len}"),
        }
    }
    let names: [(&[u8], Errno); 3] = [
        (b"", Errno::ERANGE),
        (b"ovpn0", Errno::EINVAL),
        (b"sixteen-letters-\0", Errno::ERANGE),
    ];
    for (name, errno) in names {
        let refusal = refused(&message(18, REQUEST, &info(0, &[attr(3, name)])), Some(ROUTE));
        assert_eq!(refusal.errno, errno, "{refusal:?}");
    }
}

#[test]
fn the_controller() {
    let ask = |attributes: &[Vec<u8>]| generic(CONTROLLER, REQUEST, 3, attributes);
    let by_name = |name: &[u8]| ask(&[attr(2, name)]);
    assert!(matches!(
        understood(&by_name(b"nlctrl\0"), GENERIC),
        Message::GetController
    ));
    assert!(matches!(
        understood(&ask(&[u16_attr(1, 16)]), GENERIC),
        Message::GetController
    ));
    for family in Family::ALL {
        let name = format!("{}\0", family.name());
        for packet in [by_name(name.as_bytes()), ask(&[u16_attr(1, family.id())])] {
            let message = understood(&packet, GENERIC);
            assert!(
                matches!(message, Message::GetFamily(f) if f == family),
                "{message:?}"
            );
        }
    }
    let cases = [
        (by_name(b"ovpn-dco\0"), Errno::ENOENT),
        (by_name(b"\xff\xfe\0"), Errno::ENOENT),
        (by_name(b"ovpn"), Errno::EINVAL),
        (by_name(b""), Errno::ERANGE),
        (by_name(b"seventeen-letters\0"), Errno::ERANGE),
        (ask(&[u16_attr(1, 17)]), Errno::ENOENT),
        (ask(&[u32_attr(1, 0x25)]), Errno::EINVAL),
        (ask(&[]), Errno::EINVAL),
        (generic(CONTROLLER, REQUEST | DUMP, 3, &[]), Errno::EOPNOTSUPP),
        (generic(CONTROLLER, REQUEST, 10, &[]), Errno::EOPNOTSUPP),
    ];
    for (packet, errno) in cases {
        let refusal = refused(&packet, Some(GENERIC));
        assert_eq!(refusal.errno, errno, "{refusal:?}");
    }
    let unknown = refused(&by_name(b"wireguard\0"), Some(GENERIC));
    assert!(unknown.text.contains("\"wireguard\""), "{unknown:?}");
}

/// u32 after u32.
fn words(all: &[u32]) -> Vec<u8> {
    all.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

#[test]
fn what_the_control_socket_adds() {
    let hello = message(HELLO, 0, &words(&[1, ROUTE]));
    let first = decode(&hello, None).expect("HELLO").message;
    let expected = |v: &u32, p: &u32| (*v, *p) == (1, ROUTE);
    assert!(matches!(&first, Message::Hello { version, protocol } if expected(version, protocol)));
    // Other versions and protocols are the caller's to refuse: it ends the connection.
    assert!(decode(&message(HELLO, 0, &words(&[77, 4])), None).is_ok());
    let open = understood(&message(OPEN, 0, &words(&[GENERIC])), ROUTE);
    assert!(matches!(open, Message::Open { protocol: GENERIC }));
    let subscribe = understood(&message(SUBSCRIBE, 0, &words(&[0x12])), GENERIC);
    assert!(matches!(subscribe, Message::Subscribe { group: 0x12 }));
    assert!(matches!(
        understood(&message(STATUS, 0, &[]), ROUTE),
        Message::Status
    ));
    let inner = generic(0x26, 0, 5, &[u32_attr(1, 3)]);
    match understood(&message(AGAIN, 0, &inner), GENERIC) {
        Message::Again(bytes) => assert_eq!(bytes, inner),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_control_socket_refuses() {
    let cases = [
        (message(HELLO, 0, &words(&[1, ROUTE])), Some(ROUTE), Errno::EINVAL),
        (message(HELLO, 0, &words(&[1])), None, Errno::EINVAL),
        (message(HELLO, 0, &words(&[1, 0, 0])), None, Errno::EINVAL),
        (message(HELLO, 0, &[0; 7]), None, Errno::EINVAL),
        (message(OPEN, 0, &words(&[ROUTE])), None, Errno::EPROTONOSUPPORT),
        (message(STATUS, 0, &[]), None, Errno::EPROTONOSUPPORT),
        (generic(0x26, REQUEST, 3, &[]), None, Errno::EPROTONOSUPPORT),
        (
            message(OPEN, 0, &words(&[15])),
            Some(ROUTE),
            Errno::EPROTONOSUPPORT,
        ),
        (message(OPEN, 0, &[]), Some(ROUTE), Errno::EINVAL),
        (message(SUBSCRIBE, 0, &[1]), Some(GENERIC), Errno::EINVAL),
        (message(STATUS, 0, &[0]), Some(ROUTE), Errno::EINVAL),
        (message(AGAIN, 0, &[0; 15]), Some(GENERIC), Errno::EINVAL),
        (message(AGAIN, 0, &[0; 16]), Some(GENERIC), Errno::EINVAL),
    ];
    for (packet, protocol, errno) in cases {
        let refusal = refused(&packet, protocol);
        assert_eq!(refusal.errno, errno, "{refusal:?}");
    }
    for kind in (0..16).filter(|k| !(8..=12).contains(k)) {
        for protocol in [ROUTE, GENERIC] {
            let refusal = refused(&message(kind, REQUEST, &[]), Some(protocol));
            assert_eq!(refusal.errno, Errno::EINVAL, "{refusal:?}");
        }
    }
}

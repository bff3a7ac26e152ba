//! Malformed requests: each gets the error that the kernel would give, and none shows a key.

mod dco;

use dco::requests::{
    KEY, Sent, TAIL, all, direction, key_new, new_peer, peer_new, peer_set, set_peer, short, sockaddr_in,
    sockaddr_in6,
};
use dco::{DCO_V2, DUMP, OVPN, REQUEST, attr, generic, message, nest, u16_attr, u32_attr};
use nf_control::dco::{Errno, Message, Refusal, decode};
use ovpn_dco_protocol::{GENERIC, ROUTE};

/// The refusal of a message with a header.
#[track_caller]
fn refused(packet: &[u8], protocol: u32) -> Refusal {
    let (header, refusal) = decode(packet, Some(protocol)).expect_err("must be refused");
    let header = header.expect("a header");
    assert_eq!((header.seq, header.pid), (7, 99));
    assert!(
        !refusal.text.is_empty() && !refusal.text.contains('\n'),
        "{refusal:?}"
    );
    assert!(!shows_key(&format!("{refusal:?}")), "{refusal:?}");
    refusal
}

fn shows_key(text: &str) -> bool {
    let text = text.to_lowercase();
    ["a5a5", "5a5a", "165, 165", "90, 90"]
        .iter()
        .any(|bytes| text.contains(bytes))
}

#[track_caller]
fn spoilt(sent: &Sent, errno: Errno, says: &str) {
    let refusal = refused(&sent.bytes(), GENERIC);
    assert_eq!(refusal.errno, errno, "{refusal:?}");
    assert!(refusal.text.contains(says), "{} should say {says}", refusal.text);
}

#[test]
fn good_ones_are_good() {
    for sent in all() {
        let incoming = decode(&sent.bytes(), Some(GENERIC)).unwrap_or_else(|e| panic!("{e:?}"));
        assert!(
            matches!(&incoming.message, Message::Peer(r) if r.interface == 3),
            "{incoming:?}"
        );
        assert!(!shows_key(&format!("{incoming:?}")), "{incoming:?}");
        // Up to three bytes of padding, and no more.
        for padding in 1..6 {
            let padded = [sent.bytes(), vec![0; padding]].concat();
            assert_eq!(decode(&padded, Some(GENERIC)).is_ok(), padding <= 3);
        }
    }
}

#[test]
fn truncated_at_every_byte() {
    for sent in all() {
        let whole = sent.bytes();
        for len in 0..whole.len() {
            let cut = &whole[..len];
            let (header, refusal) = decode(cut, Some(GENERIC)).expect_err("cut");
            assert_eq!(header.is_some(), len >= 16, "{len}");
            assert_eq!(refusal.errno, Errno::EINVAL, "{len}: {refusal:?}");
            if len < 16 {
                continue;
            }
            // And so that the header does not show it.
            let mut cut = cut.to_vec();
            cut[..4].copy_from_slice(&(len as u32).to_ne_bytes());
            let refusal = refused(&cut, GENERIC);
            assert_eq!(refusal.errno, Errno::EINVAL, "{len}: {refusal:?}");
        }
    }
}

#[test]
fn lengths_that_lie() {
    for says in [0_u32, 1, 15, 36, u32::MAX] {
        let mut packet = short()[0].0.bytes();
        packet[..4].copy_from_slice(&says.to_ne_bytes());
        let refusal = refused(&packet, GENERIC);
        assert_eq!(refusal.errno, Errno::EINVAL, "{refusal:?}");
        assert!(
            refusal.text.contains(&format!("nlmsg_len is {says}")),
            "{refusal:?}"
        );
    }
    let two = [short()[0].0.bytes(), short()[1].0.bytes()].concat();
    assert_eq!(refused(&two, GENERIC).errno, Errno::EINVAL);
    let huge = message(OVPN, REQUEST, &vec![0; 65_536]);
    assert!(refused(&huge, GENERIC).text.contains("at most 65536"));
    // An attribute of fewer bytes than its own header.
    for len in 0..4_u16 {
        let mut short = u32_attr(1, 3);
        short[..2].copy_from_slice(&len.to_ne_bytes());
        let refusal = refused(&generic(OVPN, REQUEST, 3, &[short]), GENERIC);
        assert_eq!(refusal.errno, Errno::EINVAL, "{refusal:?}");
    }
}

/// Which attributes have to be there, and that it is said which one is not.
#[test]
fn missing_attributes() {
    let needed: [(Sent, &[(u16, &str)]); 6] = [
        (peer_new(), &[(1, "ID"), (6, "SOCKET")]),
        (peer_set(), &[(1, "ID")]),
        (new_peer(), &[(1, "PEER_ID"), (3, "SOCKET")]),
        (set_peer(), &[(1, "PEER_ID")]),
        (
            key_new(OVPN),
            &[
                (1, "PEER_ID"),
                (2, "SLOT"),
                (3, "KEY_ID"),
                (4, "CIPHER_ALG"),
                (5, "ENCRYPT_DIR"),
                (6, "DECRYPT_DIR"),
            ],
        ),
        (
            key_new(DCO_V2),
            &[
                (1, "PEER_ID"),
                (2, "KEY_SLOT"),
                (3, "KEY_ID"),
                (4, "CIPHER_ALG"),
                (5, "ENCRYPT_KEY"),
                (6, "DECRYPT_KEY"),
            ],
        ),
    ];
    for (sent, ids) in needed {
        for (id, name) in ids {
            spoilt(&sent.without(*id), Errno::EINVAL, &format!("{name} is missing"));
        }
    }
    for (sent, id, slot) in short() {
        for id in slot.into_iter().chain([id]) {
            spoilt(&sent.without(id), Errno::EINVAL, "is missing");
        }
    }
}

/// And in the directions of a key, at the top level, and the nest itself.
#[test]
fn missing_attributes_elsewhere() {
    for family in [OVPN, DCO_V2] {
        for side in [5, 6] {
            let tail_only = nest(side, &[attr(2, &TAIL)]);
            spoilt(
                &key_new(family).with(side, tail_only),
                Errno::EINVAL,
                "CIPHER_KEY is missing",
            );
            let key_only = nest(side, &[attr(1, &KEY)]);
            spoilt(
                &key_new(family).with(side, key_only),
                Errno::EINVAL,
                "NONCE_TAIL is missing",
            );
        }
    }
    for sent in all() {
        let members = nest(sent.nest, &sent.members);
        let no_interface = generic(sent.family, REQUEST, sent.command, &[members]);
        assert!(
            refused(&no_interface, GENERIC)
                .text
                .contains("IFINDEX is missing")
        );
        let no_nest = generic(sent.family, REQUEST, sent.command, &[u32_attr(1, 3)]);
        let refusal = refused(&no_nest, GENERIC);
        assert_eq!(refusal.errno, Errno::EINVAL);
        assert!(refusal.text.contains("is missing"), "{refusal:?}");
    }
}

#[test]
fn widths() {
    // An integer of another width, also the width that the other family has.
    for (id, bytes) in [(1, 2), (1, 8), (4, 4), (5, 4), (6, 8), (13, 1), (14, 8), (24, 2)] {
        let sent = match id {
            4 => peer_new().with(4, attr(4, &[0; 8])),
            _ => peer_new().with(id, attr(id, &vec![1; bytes])),
        };
        spoilt(&sent, Errno::EINVAL, "");
    }
    for (id, bytes) in [(2, 4), (3, 4), (4, 4)] {
        spoilt(
            &key_new(DCO_V2).with(id, attr(id, &vec![0; bytes])),
            Errno::EINVAL,
            "bytes instead of",
        );
    }
    for (id, bytes) in [(2, 1), (3, 1), (4, 2)] {
        spoilt(
            &key_new(OVPN).with(id, attr(id, &vec![0; bytes])),
            Errno::EINVAL,
            "bytes instead of 4",
        );
    }
    // Strings of bytes.
    for len in [0, 4, 15, 17] {
        spoilt(
            &peer_new().with(9, attr(9, &vec![1; len])),
            Errno::ERANGE,
            "VPN_IPV6",
        );
        spoilt(&new_peer().with(5, attr(5, &vec![1; len])), Errno::ERANGE, "IPV6");
    }
    for family in [OVPN, DCO_V2] {
        for len in [0, 7, 9] {
            let sent = key_new(family).with(5, direction(5, &KEY, &vec![0x5a; len]));
            spoilt(&sent, Errno::ERANGE, "NONCE_TAIL");
        }
        let sent = key_new(family).with(6, direction(6, &[0xa5; 257], &TAIL));
        spoilt(&sent, Errno::ERANGE, "CIPHER_KEY");
    }
}

#[test]
fn values_out_of_range() {
    for family in [OVPN, DCO_V2] {
        let narrow = |id: u16, value: u8| match family {
            OVPN => u32_attr(id, value.into()),
            _ => attr(id, &[value]),
        };
        spoilt(
            &key_new(family).with(2, narrow(2, 2)),
            Errno::ERANGE,
            "SLOT: 2 is more than 1",
        );
        spoilt(
            &key_new(family).with(3, narrow(3, 8)),
            Errno::ERANGE,
            "KEY_ID: 8 is more than 7",
        );
        spoilt(
            &key_new(family).with(1, u32_attr(1, 1 << 24)),
            Errno::ERANGE,
            "PEER_ID",
        );
    }
    for (sent, id, slot) in short() {
        spoilt(&sent.with(id, u32_attr(id, 1 << 24)), Errno::ERANGE, "ID");
        if let Some(slot) = slot {
            let two = if sent.family == OVPN {
                u32_attr(slot, 2)
            } else {
                attr(slot, &[2])
            };
            spoilt(&sent.with(slot, two), Errno::ERANGE, "SLOT");
        }
    }
    for id in [0xff_ffff, 1 << 24, u32::MAX] {
        spoilt(&peer_new().with(1, u32_attr(1, id)), Errno::ERANGE, "");
        spoilt(&new_peer().with(1, u32_attr(1, id)), Errno::ERANGE, "");
    }
    spoilt(
        &peer_new().with(24, u32_attr(24, 1 << 24)),
        Errno::ERANGE,
        "TX_ID",
    );
    spoilt(
        &peer_new().with(5, attr(5, &[0, 0])),
        Errno::ERANGE,
        "REMOTE_PORT",
    );
    for id in [13, 14] {
        spoilt(&peer_set().with(id, u32_attr(id, 86_401)), Errno::ERANGE, "86400");
    }
}

#[test]
fn addresses_that_do_not_fit_together() {
    for new in [peer_new(), peer_set()] {
        let v6 = attr(3, &[0xfd; 16]);
        spoilt(&new.without(5), Errno::EINVAL, "without REMOTE_PORT");
        spoilt(
            &new.without(2).without(10),
            Errno::EINVAL,
            "REMOTE_PORT without an address",
        );
        spoilt(
            &new.with(3, v6.clone()),
            Errno::EINVAL,
            "both REMOTE_IPV4 and REMOTE_IPV6",
        );
        spoilt(&new.with(4, u32_attr(4, 2)), Errno::EINVAL, "SCOPE_ID without");
        spoilt(&new.with(11, attr(11, &[0xfd; 16])), Errno::EINVAL, "both LOCAL");
        spoilt(&new.without(2).with(3, v6), Errno::EINVAL, "different families");
        spoilt(&new.without(2).without(5), Errno::EINVAL, "local address without");
        for id in [13, 14] {
            spoilt(&new.without(id), Errno::EINVAL, "KEEPALIVE");
        }
    }
    let with = |sockaddr: &[u8]| new_peer().with(2, attr(2, sockaddr));
    spoilt(
        &with(&sockaddr_in6("fd99::2", 0)),
        Errno::EINVAL,
        "different families",
    );
    spoilt(&new_peer().without(2), Errno::EINVAL, "local address without");
    spoilt(&with(&sockaddr_in()[..15]), Errno::ERANGE, "SOCKADDR_REMOTE");
    spoilt(
        &with(&[sockaddr_in(), vec![0]].concat()),
        Errno::EINVAL,
        "neither sockaddr_in nor",
    );
    spoilt(
        &with(&sockaddr_in6("fd99::2", 0)[..27]),
        Errno::EINVAL,
        "neither sockaddr_in nor",
    );
    let mut unix = sockaddr_in();
    unix[0] = 1;
    spoilt(&with(&unix), Errno::EINVAL, "address family 1");
    let mut no_port = sockaddr_in();
    no_port[2..4].fill(0);
    spoilt(&with(&no_port), Errno::EINVAL, "no port is 0");
    for len in [5, 15] {
        spoilt(
            &new_peer().with(6, attr(6, &vec![1; len])),
            Errno::EINVAL,
            "LOCAL_IP",
        );
    }
}

#[test]
fn ciphers() {
    for family in [OVPN, DCO_V2] {
        let algorithm = |n: u16| match family {
            OVPN => u32_attr(4, n.into()),
            _ => u16_attr(4, n),
        };
        let keys = |n: u16, encrypt: usize, decrypt: usize| {
            key_new(family)
                .with(4, algorithm(n))
                .with(5, direction(5, &vec![0xa5; encrypt], &TAIL))
                .with(6, direction(6, &vec![0xa5; decrypt], &TAIL))
        };
        spoilt(&keys(0, 32, 32), Errno::EINVAL, "none");
        for other in [3, u16::MAX] {
            spoilt(&keys(other, 32, 32), Errno::EOPNOTSUPP, "CIPHER_ALG");
        }
        for len in [0, 15, 17, 31, 33, 255] {
            spoilt(&keys(1, len, len), Errno::EINVAL, "CIPHER_KEY");
        }
        for len in [16, 24] {
            spoilt(&keys(2, len, len), Errno::EINVAL, "CIPHER_KEY");
        }
        spoilt(&keys(1, 16, 32), Errno::EINVAL, "16 and 32 bytes");
    }
}

#[test]
fn what_does_not_belong() {
    for sent in all() {
        // Beyond the highest and, in nests, within.
        for id in [0, 25, 31, 0x3fff] {
            spoilt(
                &sent.with(id, u32_attr(id, 1)),
                Errno::EINVAL,
                "unknown or not allowed",
            );
        }
        let without_flag = attr(sent.nest, &sent.members.concat());
        let packet = generic(
            sent.family,
            REQUEST,
            sent.command,
            &[u32_attr(1, 3), without_flag],
        );
        assert!(refused(&packet, GENERIC).text.contains("NLA_F_NESTED is missing"));
        let packet = generic(
            sent.family,
            REQUEST,
            sent.command,
            &[nest(1, &[vec![3, 0, 0, 0]]), nest(sent.nest, &sent.members)],
        );
        assert!(refused(&packet, GENERIC).text.contains("NLA_F_NESTED is set"));
        // The top level: `ovpn` refuses what it does not know there, `ovpn-dco-v2` passes it over.
        let more = [u32_attr(1, 3), nest(sent.nest, &sent.members), u32_attr(200, 1)];
        let packet = generic(sent.family, REQUEST, sent.command, &more);
        assert_eq!(decode(&packet, Some(GENERIC)).is_ok(), sent.family == DCO_V2);
    }
    // What only answers and notifications have, and a socket that cannot be changed.
    for id in [7, 12, 15, 16, 23] {
        spoilt(
            &peer_new().with(id, u32_attr(id, 1)),
            Errno::EINVAL,
            &format!("attribute {id}"),
        );
    }
    spoilt(&peer_set().with(6, u32_attr(6, 7)), Errno::EINVAL, "attribute 6");
    let mut reserved = peer_new().bytes();
    reserved[18] = 1;
    assert!(refused(&reserved, GENERIC).text.contains("reserved"));
}

#[test]
fn commands_and_families_that_are_not_there() {
    for (family, commands) in [(OVPN, [0, 5, 9, 11, 12, 255]), (DCO_V2, [0, 8, 9, 10, 11, 255])] {
        for command in commands {
            let refusal = refused(&generic(family, REQUEST, command, &[u32_attr(1, 3)]), GENERIC);
            assert_eq!(refusal.errno, Errno::EOPNOTSUPP, "{refusal:?}");
        }
    }
    for sent in all()
        .into_iter()
        .filter(|s| (s.family, s.command) != (OVPN, 3) && (s.family, s.command) != (DCO_V2, 7))
    {
        let dump = generic(sent.family, REQUEST | DUMP, sent.command, &[u32_attr(1, 3)]);
        assert_eq!(refused(&dump, GENERIC).errno, Errno::EOPNOTSUPP);
    }
    for id in [17, 0x24, 0x27, u16::MAX] {
        let refusal = refused(&generic(id, REQUEST, 1, &[u32_attr(1, 3)]), GENERIC);
        assert_eq!(refusal.errno, Errno::ENOENT, "{refusal:?}");
    }
    let unasked = generic(OVPN, 0, 3, &[u32_attr(1, 3)]);
    assert!(refused(&unasked, GENERIC).text.contains("NLM_F_REQUEST"));
    assert_eq!(refused(&unasked, ROUTE).errno, Errno::EINVAL);
    assert_eq!(
        refused(&message(OVPN, REQUEST, &[1, 0, 0]), GENERIC).errno,
        Errno::EINVAL
    );
    assert_eq!(refused(&peer_new().bytes(), 4).errno, Errno::EPROTONOSUPPORT);
}

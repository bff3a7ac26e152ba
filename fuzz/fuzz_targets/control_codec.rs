//! Packets of the control socket: whatever they hold, they are understood or refused, and either can be answered.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nf_control::Mode;
use nf_control::dco::{
    self, Command, DelReason, Family, Header, Incoming, KeyState, Message, NewPeer, Notification, PeerState,
    Request, reply,
};
use ovpn_dco_protocol::{GENERIC, HEADER_LEN, MAX_PACKET, ROUTE};

fuzz_target!(|packet: &[u8]| {
    for protocol in [None, Some(ROUTE), Some(GENERIC)] {
        match dco::decode(packet, protocol) {
            Ok(incoming) => understood(packet, &incoming),
            Err((header, refusal)) => {
                assert!(!refusal.text.is_empty());
                assert_eq!(header.is_some(), packet.len() >= HEADER_LEN);
                if let Some(header) = header {
                    whole(&reply::error(&header, &refusal), &header);
                }
            }
        }
    }
});

/// One message of netlink, in answer to that header.
fn whole(answer: &[u8], to: &Header) {
    assert!(answer.len() >= HEADER_LEN && answer.len() <= MAX_PACKET);
    assert_eq!(answer[..4], (answer.len() as u32).to_ne_bytes());
    assert_eq!(answer[8..12], to.seq.to_ne_bytes());
    assert_eq!(answer[12..16], to.pid.to_ne_bytes());
}

fn understood(packet: &[u8], incoming: &Incoming) {
    let Incoming { header, message } = incoming;
    assert!(packet.len() - header.len as usize <= 3);
    // Neither may show a key; that they do not is tested where the key is known.
    let _ = format!("{incoming:?}");
    whole(&reply::ack(header), header);
    whole(&reply::noop(header), header);
    match message {
        Message::GetFamily(family) => whole(&reply::family(header, *family), header),
        Message::GetController => whole(&reply::controller(header), header),
        Message::Status => whole(&reply::status(header, b"{}"), header),
        Message::Again(inner) => assert_eq!(inner[..4], (inner.len() as u32).to_ne_bytes()),
        Message::Peer(request) => command(header, request),
        _ => {}
    }
}

fn command(header: &Header, request: &Request) {
    assert_eq!(header.interface, request.interface);
    match &request.command {
        Command::NewPeer(new) => {
            for mode in [Mode::Mp, Mode::P2p] {
                let _ = new.check(mode);
            }
            assert!(new.id <= nf_control::PEER_ID_MAX);
            told_of(header, request.family, new);
        }
        Command::SetPeer(set) => {
            let checked = set.check(Mode::Mp, (None, None));
            assert!(checked.is_ok() || set.vpn_v4.is_some() || set.vpn_v6.is_some());
        }
        Command::NewKey(new) => {
            assert_eq!(new.encrypt.key.len(), new.cipher.key_len());
            assert_eq!(new.decrypt.key.len(), new.cipher.key_len());
            assert!(new.key_id <= 7);
            let state = KeyState {
                peer: new.peer,
                slot: new.slot,
                key_id: new.key_id,
                cipher: new.cipher,
            };
            whole(&reply::key(header, &state), header);
        }
        Command::DelPeer(peer) => {
            let reason = DelReason::Userspace;
            let what = Notification::PeerDeleted { peer: *peer, reason };
            assert!(dco::notification(request.family, request.interface, &what).is_some());
        }
        Command::DumpPeers => whole(&reply::done(header), header),
        _ => {}
    }
}

/// What was read of a peer, told again.
fn told_of(header: &Header, family: Family, new: &NewPeer) {
    let remote = new.remote;
    let state = PeerState {
        id: new.id,
        tx_id: new.tx_id.unwrap_or(new.id),
        remote,
        local: new.local.map(|ip| (ip, 1194).into()),
        vpn_v4: new.vpn_v4,
        vpn_v6: new.vpn_v6,
        vpn_rx: [u64::from(new.socket), u64::MAX],
        ..PeerState::default()
    };
    for multi in [false, true] {
        whole(&reply::peer(family, header, &state, multi), header);
    }
    if let Some(remote) = remote {
        let what = Notification::PeerFloated { peer: new.id, remote };
        let told = dco::notification(family, header.interface, &what);
        assert_eq!(told.is_some(), family == Family::Ovpn);
    }
}

//! What a recorded daemon is told: by answers, and unasked.

use super::super::golden::Line;
use super::super::message::{GENERIC, find, put, u32_at};
use super::super::{Family, Peer, Told, shape};
use super::Replay;
use std::collections::BTreeMap;
use std::net::SocketAddr;

impl Replay {
    /// All peers as the gateway has them, in answer to a dump and one by one: what was said, what went through; and
    /// everything in the width and with all that was recorded.
    #[track_caller]
    pub fn compare(&mut self) {
        let dump = self.ask(self.plan.case, "GET_PEER dump", None).done();
        let recorded = self.line(self.plan.case, "reply to GET_PEER dump");
        assert_eq!(dump.len(), self.peers.len());
        let ids: Vec<u32> = self.peers.keys().copied().collect();
        for (id, of_all) in ids.into_iter().zip(&dump) {
            self.note(&self.line("s8", "GET_PEER do"));
            let one = self.ask("s8", "GET_PEER do", Some(id)).done();
            assert_eq!(one.len(), 1);
            for reply in [of_all, &one[0]] {
                self.compare_one(id, reply, &recorded);
            }
        }
    }

    fn compare_one(&self, id: u32, reply: &[u8], recorded: &Line) {
        let made = &self.peers[&id];
        let peer = Peer::of(self.client.family, reply);
        assert_eq!((peer.id, peer.remote), (id, Some(made.remote)));
        assert_eq!(peer.local, Some(SocketAddr::new(made.local, made.port)));
        assert_eq!((&peer.vpn, peer.timers), (&made.vpn, made.timers));
        let [rx, tx] = made.counts;
        assert_eq!((peer.vpn_rx, peer.vpn_tx), (rx, tx));
        assert_eq!(peer.link_rx, [rx[0], rx[1] + 24 * rx[0]]);
        // Where the key was missing, nothing left.
        assert!(peer.link_tx[0] <= tx[0]);
        let nests = [2, 8];
        let ours: BTreeMap<_, _> = shape(reply, GENERIC, &nests).into_iter().collect();
        for (path, len) in shape(&recorded.bytes, GENERIC, &nests) {
            // Not every peer has an address of each version.
            let address = self.client.family == Family::Ovpn && (2..=9).contains(&path[1]);
            if ours.get(&path) != Some(&len) {
                assert!(
                    address && !ours.contains_key(&path),
                    "{path:?} of {len}: {ours:?}"
                );
            }
        }
    }

    /// The next notification is byte for byte what was recorded, about this peer and interface.
    #[track_caller]
    pub fn told(&mut self, what: &str, peer: u32) -> Told {
        let mut recorded = self.line(self.plan.case, what).bytes;
        let index = self.bed.index[0];
        assert!(put(&mut recorded, GENERIC, &[1], &index.to_ne_bytes()));
        let path = self.id_path(&recorded);
        assert!(put(&mut recorded, GENERIC, &path, &peer.to_ne_bytes()));
        // The version in `struct genlmsghdr` was the recording data channel's choice; Linux has the family's.
        recorded[17] = 1;
        let told = self.client.notification();
        assert_eq!(told, recorded, "{what}");
        Told::of(self.client.family, index, &told)
    }

    /// The peer goes to where the recorded one went, which is told as it was then.
    #[track_caller]
    pub fn float(&mut self, peer: u32, what: &str) {
        let line = self.line(self.plan.case, what);
        let index = u32_at(find(&line.bytes, GENERIC, &[1]).expect("IFINDEX"), 0);
        let Told::Floated(_, to) = Told::of(self.client.family, index, &line.bytes) else {
            panic!("{what}")
        };
        self.bed.neighbour(&to.ip().to_string());
        self.peers.get_mut(&peer).expect("made before").remote = to;
        self.carry(peer);
        self.told(what, peer);
        self.carry(peer);
    }

    /// The peer says nothing any more, and is gone as the recorded one was.
    #[track_caller]
    pub fn expire(&mut self, peer: u32, what: &str) {
        let timeout = if self.client.family == Family::DcoV2 {
            [3, 3]
        } else {
            [2, 14]
        };
        let interval = [timeout[0], timeout[1] - 1];
        let case = self.plan.case;
        let answer = self.ask_with(case, "SET_PEER keepalive set/set", |replay, bytes| {
            replay.patch(bytes, Some(peer));
            put(bytes, GENERIC, &interval, &0u32.to_ne_bytes());
            put(bytes, GENERIC, &timeout, &1u32.to_ne_bytes());
        });
        answer.done();
        self.told(what, peer);
    }

    /// The peer is gone: what the daemon says of it until it has heard so is done, and it removes it.
    #[track_caller]
    pub fn bury(&mut self, peer: u32) {
        self.say("DEL_PEER", Some(peer));
        self.peers.remove(&peer);
    }
}

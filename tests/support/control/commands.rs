//! Commands in few words, with the family and the interface filled in.

use super::request::{Family, New, link_delete};
use super::{Answer, Bed, Client, Key, OWN, Peer, listen, remote, vpn};
use crate::gateway::in_namespace;
use nf_path::twin::craft::inner_v4;

/// Commands with the family and the interface filled in.
impl Client {
    /// NEW_PEER, with the socket of the test's daemon.
    #[track_caller]
    pub fn make(&mut self, bed: &Bed, new: &New) -> Answer {
        self.new_peer(new, &bed.udp)
    }

    /// NEW_KEY.
    #[track_caller]
    pub fn key(&mut self, peer: u32, slot: u8, key: &Key) -> Answer {
        let request = self.family.new_key(self.index, peer, slot, key);
        self.ask(&request, &[])
    }

    /// SWAP_KEYS.
    #[track_caller]
    pub fn swap(&mut self, peer: u32) -> Answer {
        let request = self.family.swap_keys(self.index, peer);
        self.ask(&request, &[])
    }

    /// DEL_KEY.
    #[track_caller]
    pub fn del_key(&mut self, peer: u32, slot: u8) -> Answer {
        let request = self.family.del_key(self.index, peer, slot);
        self.ask(&request, &[])
    }

    /// DEL_PEER.
    #[track_caller]
    pub fn del(&mut self, peer: u32) -> Answer {
        let request = self.family.del_peer(self.index, peer);
        self.ask(&request, &[])
    }

    /// SET_PEER.
    #[track_caller]
    pub fn set(&mut self, set: &New) -> Answer {
        let request = self.family.set_peer(self.index, set);
        self.ask(&request, &[])
    }

    /// SET_PEER of the timers.
    #[track_caller]
    pub fn timers(&mut self, peer: u32, interval: u32, timeout: u32) -> Answer {
        let request = self.family.timers(self.index, peer, interval, timeout);
        self.ask(&request, &[])
    }

    /// GET_PEER.
    #[track_caller]
    pub fn get(&mut self, peer: u32) -> Answer {
        let request = self.family.get_peer(self.index, peer);
        self.ask(&request, &[])
    }

    /// GET_PEER, understood.
    #[track_caller]
    pub fn peer(&mut self, peer: u32) -> Peer {
        let replies = self.get(peer).done();
        assert_eq!(replies.len(), 1);
        Peer::of(self.family, &replies[0])
    }

    /// Peers 1 to `n`, each with a primary key with key id 0.
    #[track_caller]
    pub fn peers(&mut self, bed: &Bed, n: u32) -> Vec<Key> {
        let one = |id| {
            self.make(bed, &New::of(id)).done();
            let key = Key::random(0);
            self.key(id, 0, &key).done();
            key
        };
        (1..=n).map(one).collect()
    }
}

/// The test in a namespace of its own, once per family, with a client that drives `tun0`.
pub fn each_family(name: &str, mut body: impl FnMut(&mut Bed, &mut Client)) {
    in_namespace(name, || {
        let mut bed = Bed::start();
        for family in Family::BOTH {
            let mut client = bed.server(family);
            body(&mut bed, &mut client);
            client.link(&link_delete(client.index)).done();
        }
        bed.end();
    });
}

/// Sends a record that has to be dropped for a reason; how often that has been then.
#[track_caller]
pub fn refused_record(bed: &mut Bed, key: &mut Key, reason: &str, times: u64) {
    let record = key.seal(1, &inner_v4(vpn(1), OWN, 100, 1));
    bed.far.send(remote(1), listen(), &record);
    bed.wait_dropped(reason, times);
}

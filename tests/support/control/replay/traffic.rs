//! Packets of the peers that a recorded daemon has made.

use super::super::PORTS;
use super::{OWN, OWN_CLIENT, Replay};
use nf_path::twin::craft::{inner_v4, inner_v6, number};
use std::net::{IpAddr, SocketAddr};

impl Replay {
    /// Packets go both ways: what is sealed under each of its keys comes out of the interface, what is sent leaves under the
    /// primary one, from the right address and to it.
    #[track_caller]
    pub fn carry(&mut self, peer: u32) {
        let own: &[&str] = if self.plan.client { &OWN_CLIENT } else { &OWN };
        let made = self.peers.get_mut(&peer).expect("made before");
        let [local, remote] = [SocketAddr::new(made.local, made.port), made.remote];
        let mut inner_addresses = made.vpn.clone();
        if self.plan.client {
            inner_addresses.push(OWN[0].parse().expect("an address"));
        }
        for vpn in inner_addresses {
            let (packet, inside): (Box<dyn Fn(u32) -> Vec<u8>>, _) = match vpn {
                IpAddr::V4(vpn) => {
                    let own = own[0].parse().expect("an address");
                    (Box::new(move |n| inner_v4(vpn, own, 100, n)), &self.inside[0])
                }
                IpAddr::V6(vpn) => {
                    let own = own[1].parse().expect("an address");
                    (Box::new(move |n| inner_v6(vpn, own, 100, n)), &self.inside[1])
                }
            };
            for key in made.slots.iter_mut().flatten() {
                self.next += 1;
                let record = key.seal(peer, &packet(self.next));
                self.bed.far.send(remote, local, &record);
                self.bed.assert_arrives(inside, self.next);
                made.counts[0][0] += 1;
                made.counts[0][1] += 100;
            }
            self.next += 1;
            let n = self.next;
            let mut payload = [0; 72];
            payload[..4].copy_from_slice(&n.to_be_bytes());
            inside.send_to(&payload, (vpn, PORTS.0)).expect("a route");
            let key = made.slots[0].as_ref().expect("a primary key");
            let record = self.bed.far.expect(key, |_, inner| number(inner) == Some(n));
            let plain = |mut a: SocketAddr| {
                if let SocketAddr::V6(v6) = &mut a {
                    v6.set_scope_id(0);
                }
                a
            };
            assert_eq!(
                (record.from, record.to, record.peer()),
                (local, plain(remote), peer)
            );
            made.counts[1][0] += 1;
            made.counts[1][1] += if vpn.is_ipv4() { 100 } else { 120 };
        }
    }

    /// Nothing is sent to it for want of a key.
    pub fn mute(&mut self, peer: u32) {
        let before = self.bed.gateway.dropped("no_primary");
        let to = (self.peers[&peer].vpn[0], PORTS.0);
        self.inside[0].send_to(&[0; 72], to).expect("a route");
        self.bed.wait_dropped("no_primary", before + 1);
        let made = self.peers.get_mut(&peer).expect("made before");
        // The count is taken before the key is looked for.
        made.counts[1][0] += 1;
        made.counts[1][1] += 100;
    }
}

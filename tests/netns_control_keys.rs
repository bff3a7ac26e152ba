//! Keys as a client of the control socket installs, exchanges and removes them, in both families: which records open and what is
//! sent under, and that whatever was acknowledged holds.

#[path = "support/control.rs"]
mod control;
#[path = "support/gateway.rs"]
mod gateway;

use control::message::u32_attr;
use control::{
    Client, Family, Key, New, OWN, PORTS, Told, arrived, each_family, get_key, listen, refused_record,
    remote, vpn,
};
use nf_path::twin::craft::{inner_v4, number};
use nf_state::Cipher;

const ENOENT: i32 = 2;

#[test]
fn key_slots() {
    each_family("key_slots", |bed, client| {
        let socket = bed.inside();
        let mut keys = client.peers(bed, 1);
        let mut first = keys.remove(0);
        bed.carries_in(&socket, 1, &mut first);
        bed.carries_out(&socket, 1, &first);
        // The secondary one opens and does not seal.
        let mut second = Key::random(1);
        client.key(1, 1, &second).done();
        bed.carries_in(&socket, 1, &mut second);
        bed.carries_out(&socket, 1, &first);
        client.swap(1).done();
        bed.carries_out(&socket, 1, &second);
        bed.carries_in(&socket, 1, &mut first);
        // Until it is deleted.
        client.del_key(1, 1).done();
        let before = bed.gateway.dropped("no_key");
        refused_record(bed, &mut first, "no_key", before + 1);
        client.del_key(1, 1).done();
        bed.carries_in(&socket, 1, &mut second);
        // An empty slot becomes the primary one: nothing is sent, what comes is still taken.
        client.swap(1).done();
        let before = bed.gateway.dropped("no_primary");
        socket
            .send_to(&1u32.to_be_bytes(), (vpn(1), PORTS.0))
            .expect("a route");
        bed.wait_dropped("no_primary", before + 1);
        bed.carries_in(&socket, 1, &mut second);
        client.swap(1).done();
        bed.carries_out(&socket, 1, &second);
        // The other key ids are no key's.
        let before = bed.gateway.dropped("no_key");
        for (n, id) in (1..).zip([0, 2, 3, 4, 5, 6, 7]) {
            let mut foreign = Key { id, ..second.clone() };
            refused_record(bed, &mut foreign, "no_key", before + n);
        }
        // In place of one, of the same id: packet ids begin anew, and the former key opens nothing.
        let mut third = Key::of(1, Cipher::ChaCha20Poly1305);
        client.key(1, 0, &third).done();
        assert_eq!(third.last, 0);
        bed.carries_in(&socket, 1, &mut third);
        let record = bed.carries_out(&socket, 1, &third);
        assert_eq!(record.id(), 1);
        let before = bed.gateway.dropped("bad_tag");
        refused_record(bed, &mut second, "bad_tag", before + 1);
        // The same id in both slots: the primary one is meant.
        let mut fourth = Key::of(1, Cipher::Aes128Gcm);
        client.key(1, 1, &fourth).done();
        // No packet id twice, so that what is looked at first in vain is the tag.
        fourth.last = 1000;
        bed.carries_in(&socket, 1, &mut third);
        refused_record(bed, &mut fourth, "bad_tag", before + 2);
        client.swap(1).done();
        bed.carries_in(&socket, 1, &mut fourth);
        bed.carries_out(&socket, 1, &fourth);
        third.last = 5000;
        refused_record(bed, &mut third, "bad_tag", before + 3);
        if client.family == Family::Ovpn {
            for (slot, key) in [(0, Some((1, 1))), (1, Some((1, 2)))] {
                key_is(client, slot, key);
            }
            client.del_key(1, 0).done();
            key_is(client, 0, None);
            key_is(client, 1, Some((1, 2)));
        }
    });
}

#[test]
fn a_peer_that_has_expired() {
    each_family("a_peer_that_has_expired", |bed, client| {
        client.peers(bed, 2);
        client.timers(1, 0, 1).done();
        let told = client.notification();
        assert_eq!(Told::of(client.family, client.index, &told), Told::Deleted(1, 2));
        // As if it had not read that yet: an error would end a daemon.
        let key = Key::random(3);
        client.key(1, 1, &key).done();
        client.swap(1).done();
        client.del_key(1, 0).done();
        client.timers(1, 3, 9).done();
        assert_eq!(client.peer(1).id, 1);
        assert_eq!(client.peer(2).id, 2);
        let dump = client.family.dump(client.index);
        assert_eq!(client.ask(&dump, &[]).done().len(), 1, "it is gone all the same");
        client.del(1).done();
        client.key(1, 1, &key).refused(ENOENT);
        client.get(1).refused(ENOENT);
        client.del(1).refused(ENOENT);
        // Once more, and a new peer comes under its id.
        client.timers(2, 0, 1).done();
        let told = client.notification();
        assert_eq!(Told::of(client.family, client.index, &told), Told::Deleted(2, 2));
        client.make(bed, &New::of(2)).done();
        let mut key = Key::random(0);
        client.key(2, 0, &key).done();
        let socket = bed.inside();
        bed.carries_in(&socket, 2, &mut key);
        bed.carries_out(&socket, 2, &key);
        assert_eq!(client.peer(2).vpn_rx, [1, 100]);
        client.del(2).done();
        client.del(2).refused(ENOENT);
        assert!(client.notifications().is_empty());
    });
}

#[test]
fn a_peer_is_removed_between_its_new_key_and_the_swap() {
    let name = "a_peer_is_removed_between_its_new_key_and_the_swap";
    each_family(name, |bed, client| {
        let mut keys = client.peers(bed, 2);
        let mut second = Key::random(1);
        client.key(1, 1, &second).done();
        client.del(1).done();
        client.swap(1).refused(ENOENT);
        client.del_key(1, 1).refused(ENOENT);
        let before = bed.gateway.dropped("unknown_peer");
        refused_record(bed, &mut second, "unknown_peer", before + 1);
        refused_record(bed, &mut keys[0], "unknown_peer", before + 2);
        // Under the same id anew: nothing of the former one is left.
        client.make(bed, &New::of(1)).done();
        let before = bed.gateway.dropped("no_key");
        refused_record(bed, &mut second, "no_key", before + 1);
        refused_record(bed, &mut keys[0], "no_key", before + 2);
        let socket = bed.inside();
        bed.carries_in(&socket, 2, &mut keys[1]);
        bed.carries_out(&socket, 2, &keys[1]);
        // Removed by a client of its own accord: nobody is told.
        assert!(client.notifications().is_empty());
    });
}

/// Whatever was acknowledged holds for the very next record.
#[test]
fn a_change_holds_once_it_is_acknowledged() {
    each_family("a_change_holds_once_it_is_acknowledged", |bed, client| {
        let socket = bed.inside();
        let before = [
            "no_key",
            "unknown_peer",
            "no_primary",
            "unknown_mac",
            "no_neighbour",
            "no_remote",
        ]
        .map(|reason| (reason, bed.gateway.dropped(reason)));
        for n in 0..100u32 {
            let id = 1 + n % 4;
            client.make(bed, &New::of(id)).done();
            let mut key = Key::random(0);
            client.key(id, 0, &key).done();
            let record = key.seal(id, &inner_v4(vpn(id), OWN, 100, n));
            bed.far.send(remote(id), listen(), &record);
            assert_eq!(arrived(&socket), n);
            let mut second = Key::random(1 + (n % 7) as u8);
            client.key(id, 1, &second).done();
            let record = second.seal(id, &inner_v4(vpn(id), OWN, 100, n + 1000));
            bed.far.send(remote(id), listen(), &record);
            assert_eq!(arrived(&socket), n + 1000);
            client.swap(id).done();
            socket
                .send_to(&n.to_be_bytes(), (vpn(id), PORTS.0))
                .expect("a route");
            let record = bed.far.expect(&second, |_, inner| number(inner) == Some(n));
            assert_eq!((record.peer(), record.id()), (id, 1));
            client.del(id).done();
        }
        for (reason, n) in before {
            assert_eq!(bed.gateway.dropped(reason), n, "{reason}");
        }
    });
}

/// What KEY_GET says of a slot of peer 1: key id and algorithm.
#[track_caller]
fn key_is(client: &mut Client, slot: u8, key: Option<(u32, u32)>) {
    let request = get_key(client.index, 1, slot);
    let answer = client.ask(&request, &[]);
    let Some((id, algorithm)) = key else {
        answer.refused(ENOENT);
        return;
    };
    let replies = answer.done();
    let members = [(1, 1), (2, slot.into()), (3, id), (4, algorithm)].map(|(id, value)| u32_attr(id, value));
    let nest = control::message::nest(3, &members);
    assert_eq!(
        (replies.len(), replies[0][16], &replies[0][20..]),
        (1, 7, &nest[..])
    );
}

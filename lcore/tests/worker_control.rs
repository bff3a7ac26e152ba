//! What the control side asks of a worker, and what the worker reports: pings, other listening addresses, other longest
//! frames, one peer or many, what is applied, events.

mod common;
mod rig;

use std::net::SocketAddr;

use lcore::Eal;
use lcore::mailbox::{EVENTS, Message, Reply};
use nf_path::tunnel::Mode;
use nf_path::verdict::DropReason;
use nf_state::{Event, PacketIds, Slot, Update};
use nf_wire::keepalive::PING;
use rig::{Options, Rig, inner, kernels, opened, record_of};

#[test]
fn messages_are_done_and_events_arrive() {
    let eal = common::eal("control");
    pings(&eal);
    listening_elsewhere(&eal);
    longest(&eal);
    modes(&eal);
    applied(&eal);
    floats(&eal);
    floats_held(&eal);
    events_that_nobody_reads(&eal);
    ids_run_out(&eal);
}

fn pings(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("pi"));
    rig.push_tunnel([kernels(2, 1, 60)]);
    rig.tell(Message::Ping { tunnel: 0, peer: 2 });
    rig.tell(Message::Ping { tunnel: 0, peer: 3 });
    let sent: Vec<_> = rig.nic().iter().map(|f| opened(f)).collect();
    assert_eq!(sent[1..], [(2, 2, PING.to_vec()), (3, 1, PING.to_vec())]);
    let t = rig.counters.totals();
    assert_eq!((t.sealed, t.records_tx, t.tunnel_rx), (3, 3, 1));
    // Neither of these is there; nothing is sent and nothing counted.
    rig.tell(Message::Ping { tunnel: 0, peer: 99 });
    rig.tell(Message::Ping { tunnel: 1, peer: 1 });
    assert_eq!((rig.nic_out.len(), rig.drops()), (0, vec![]));
    // One without a key is counted.
    let slot = Slot::Primary;
    rig.tell(Message::Table(0, Update::RemoveKey { peer: 4, slot }));
    rig.tell(Message::Ping { tunnel: 0, peer: 4 });
    assert_eq!(rig.drops(), [(DropReason::NoPrimary, 1)]);
    assert!(matches!(rig.control.replies().next(), Some(Reply::Retired(_))));
    rig.finish();
}

/// A frame to any listening address.
fn to(local: &str, peer: u32, id: u32) -> Vec<u8> {
    let local: SocketAddr = local.parse().expect("an address");
    nf_path::twin::craft::Frame::udp(rig::remote(peer), local)
        .payload(&record_of(peer, id, &inner(80, id)))
        .build()
}

/// Between two bursts, whatever waits in the port: what comes for the former addresses goes to the host, and nothing is
/// lost or opened twice.
fn listening_elsewhere(eal: &Eal) {
    const OLD: &str = "192.0.2.1:1194";
    const NEW: &str = "192.0.2.1:1195";
    let mut rig = Rig::new(
        eal,
        Options {
            burst: 32,
            ..Options::new("le")
        },
    );
    let small = rig.small.clone();
    let (mut to_tunnel, mut to_host, mut id) = (0, 0, 1);
    for round in 0..50 {
        let (now, next) = if round % 2 == 0 { (OLD, NEW) } else { (NEW, OLD) };
        // Two bursts, for each address every second one; the change comes when the first was taken.
        let frames: Vec<_> = (0..64u32)
            .map(|n| to(if n % 2 == 0 { now } else { next }, 1 + n % 4, id + n))
            .collect();
        id += 64;
        rig.put(frames.iter().map(|f| rig::buffer(&small, f)));
        assert_eq!(rig.worker.poll(), 32);
        rig.tell(Message::Listen(Box::new(rig::listeners(&[next]))));
        let reply = rig.control.replies().next();
        let Some(Reply::Listened(before)) = reply else {
            panic!("no former addresses: {reply:?}");
        };
        let expected = if round == 0 {
            rig::listeners(&rig::LISTEN)
        } else {
            rig::listeners(&[now])
        };
        assert_eq!(format!("{before:?}"), format!("{expected:?}"));
        rig.poll();
        let (tunnel, host) = (rig.tunnel(), rig.host());
        to_tunnel += tunnel.len();
        to_host += host.len();
        let of_now = frames[..32].iter().step_by(2);
        let of_next = frames[32..].iter().skip(1).step_by(2);
        assert_eq!(tunnel.len(), of_now.chain(of_next).count());
        let host_now = frames[..32].iter().skip(1).step_by(2);
        let host_next = frames[32..].iter().step_by(2);
        assert!(
            host.iter().eq(host_now.chain(host_next)),
            "unchanged and in order"
        );
    }
    let t = rig.counters.totals();
    assert_eq!((to_tunnel, to_host, rig.drops()), (1600, 1600, vec![]));
    assert_eq!((t.nic_rx, t.records, t.to_host), (3200, 1600, 1600));
    rig.finish();
}

fn longest(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("lo"));
    rig.push([rig::frame(1, 1, 1000)]);
    let (tunnel, longest) = (0, 14 + 999);
    rig.tell(Message::Longest { tunnel, longest });
    rig.push([rig::frame(1, 2, 1000), rig::frame(1, 3, 999)]);
    assert_eq!(rig.drops(), [(DropReason::TunnelMtu, 1)]);
    rig.tell(Message::Longest {
        tunnel: 7,
        longest: 0,
    });
    rig.tell(Message::Longest {
        tunnel,
        longest: 1500,
    });
    rig.push([rig::frame(1, 4, 1000)]);
    let lengths: Vec<_> = rig.tunnel().iter().map(|f| f.len() - 14).collect();
    assert_eq!(
        (lengths, rig.drops()),
        (vec![1000, 999, 1000], vec![(DropReason::TunnelMtu, 1)])
    );
    rig.finish();
}

/// One peer gets everything, or each its own.
fn modes(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("mo"));
    let unknown = || [kernels(77, 1, 60)];
    let set = |tunnel, mode| Message::Mode { tunnel, mode };
    rig.push_tunnel(unknown());
    assert_eq!(rig.drops(), [(DropReason::UnknownMac, 1)]);
    rig.tell(set(0, Mode::P2p));
    rig.push_tunnel(unknown());
    assert_eq!(rig.counters.totals().sealed, 1, "for the only one");
    // No such tunnel.
    rig.tell(set(1, Mode::Mp));
    rig.push_tunnel(unknown());
    assert_eq!(rig.counters.totals().sealed, 2);
    rig.tell(set(0, Mode::Mp));
    rig.push_tunnel(unknown());
    assert_eq!(rig.drops(), [(DropReason::UnknownMac, 2)]);
    assert_eq!(rig.nic().len(), 2);
    rig.finish();
}

/// A message counts as applied when it is, so many at a time.
fn applied(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("ap"));
    let count = |rig: &Rig| (rig.control.sent(), rig.control.applied());
    assert_eq!(count(&rig), (0, 0));
    for n in 1..=100 {
        let sent = rig.control.send(Message::Ping {
            tunnel: (n % 2) as u8,
            peer: 2,
        });
        assert!(sent.is_ok());
        assert_eq!(count(&rig), (n, 0));
    }
    rig.worker.apply();
    assert_eq!(count(&rig), (100, 64));
    assert_eq!(rig.counters.totals().sealed, 32);
    rig.worker.apply();
    rig.worker.apply();
    assert_eq!(count(&rig), (100, 100));
    assert_eq!(rig.nic().len(), 50);
    rig.finish();
}

/// A record of a peer from another port.
fn from_port(peer: u32, port: u16, id: u32) -> Vec<u8> {
    let source = (rig::remote(peer).ip(), port).into();
    nf_path::twin::craft::Frame::udp(source, rig::LISTEN[0].parse().expect("an address"))
        .macs(rig::GATEWAY, rig::NIC)
        .payload(&record_of(peer, id, &inner(80, id)))
        .build()
}

fn float(peer: u32, port: u16) -> (u8, Event) {
    let remote = (rig::remote(peer).ip(), port).into();
    let local = rig::LISTEN[0].parse().expect("an address");
    (0, Event::Float { peer, remote, local })
}

fn events(rig: &Rig) -> Vec<(u8, Event)> {
    rig.control.events().collect()
}

/// Where it went: the destination port of a frame.
fn port(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[36], frame[37]])
}

fn floats(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("fl"));
    let mut forged = from_port(1, 41_001, 9);
    forged[80] ^= 1;
    rig.push([rig::frame(1, 1, 80), forged, rig::frame(2, 1, 80)]);
    assert_eq!(events(&rig), [], "neither from where they are nor forged");
    rig.push([from_port(1, 41_000, 10)]);
    assert_eq!(events(&rig), [float(1, 41_000)]);
    rig.push([rig::frame(1, 5, 80), from_port(1, 41_000, 11)]);
    assert_eq!(events(&rig), [], "a late record moves nothing");
    rig.push_tunnel([kernels(1, 1, 60), kernels(2, 1, 60)]);
    let ports: Vec<_> = rig.nic().iter().map(|f| port(f)).collect();
    assert_eq!(ports, [41_000, 40_000], "the reply follows");
    let t = rig.counters.totals();
    assert_eq!((t.floats, t.events_lost, rig.tunnel().len()), (1, 0, 5));
    assert_eq!(rig.drops(), [(DropReason::BadTag, 1)]);
    rig.finish();
}

fn floats_held(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("fh"));
    let remote: SocketAddr = (rig::remote(1).ip(), 42_000).into();
    let address = (remote.ip(), remote.port());
    rig.tell(Message::Table(0, Update::BindAddress { peer: 2, address }));
    rig.push([from_port(1, 42_000, 1), from_port(1, 42_000, 2)]);
    let (peer, holder) = (1, 2);
    assert_eq!(
        events(&rig),
        [(0, Event::FloatHeld { peer, remote, holder })],
        "told once"
    );
    assert_eq!(rig.counters.totals().floats, 0);
    rig.finish();
}

/// The control side reads nothing: events beyond its queue are counted, and no packet is lost for it.
fn events_that_nobody_reads(eal: &Eal) {
    const OVER: u32 = 300;
    let mut rig = Rig::new(eal, Options::new("el"));
    let all = EVENTS as u32 + OVER;
    for id in 1..=all {
        rig.push([from_port(1, 41_000 + id as u16, id)]);
    }
    let t = rig.counters.totals();
    assert_eq!((t.floats, t.events_lost), (u64::from(all), u64::from(OVER)));
    assert_eq!(
        (t.authentic, rig.tunnel().len(), rig.drops().len()),
        (u64::from(all), 1023, 1)
    );
    let expected: Vec<_> = (1..=EVENTS as u16).map(|n| float(1, 41_000 + n)).collect();
    assert!(events(&rig) == expected, "the first ones are all there");
    rig.push_tunnel([kernels(1, 1, 60)]);
    assert_eq!(
        port(&rig.nic()[0]),
        41_000 + all as u16,
        "the endpoint has the last one"
    );
    rig.push([from_port(1, 45_000, all + 1)]);
    assert_eq!(events(&rig), [float(1, 45_000)], "it goes on");
    // More in one burst than wait between two.
    rig.push((0..256).map(|n| from_port(1, 46_000 + n as u16, all + 2 + n)));
    let (heard, lost) = (events(&rig).len() as u64, rig.counters.totals().events_lost);
    assert_eq!(heard + lost - u64::from(OVER), 256);
    rig.finish();
}

/// The last ids of a key, up to the very last, and then a new key.
fn ids_run_out(eal: &Eal) {
    let mut rig = Rig::new(eal, Options::new("ri"));
    let imb = lcore::Imb::new().expect("this CPU has AES-NI");
    let key = |ids| rig::slot_with(&imb, 1, ids);
    let install = |key| Update::InstallKey {
        peer: 1,
        slot: Slot::Primary,
        key,
    };
    rig.tell(Message::Table(
        0,
        install(key(PacketIds::resume(0xffff_ffff - 9, PacketIds::END))),
    ));
    rig.push_tunnel((0..40).map(|n| kernels(1, n, 64)));
    rig.tell(Message::Ping { tunnel: 0, peer: 1 });
    let ids: Vec<_> = rig.nic().iter().map(|f| opened(f).1).collect();
    assert!(ids.iter().copied().eq(0xffff_fff6..=0xffff_ffff), "{ids:x?}");
    assert_eq!(rig.drops(), [(DropReason::NoPacketId, 31)]);
    rig.tell(Message::Table(0, install(key(PacketIds::new()))));
    rig.push_tunnel([kernels(1, 7, 64)]);
    let ids: Vec<_> = rig.nic().iter().map(|f| opened(f).1).collect();
    assert_eq!((ids, rig.control.replies().count()), (vec![1], 2));
    rig.finish();
}

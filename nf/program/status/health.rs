//! Whether a gateway and its daemons are as they should be.

use super::report::{KeySlotName, PeerReport, Report, TunnelKind, TunnelReport};

/// Peer ids that a line names.
const NAMED: usize = 8;

/// What is wrong, a line each; empty: healthy.
///
/// Wrong is what means that records are not carried here, or not as they should be: a daemon's tunnel that nobody drives, a
/// daemon that is connected and drives no tunnel, a peer that cannot be sent to, a worker that does not listen any more. A
/// driven server without clients is fine.
pub fn health(report: &Report) -> Vec<String> {
    let mut reasons = Vec::new();
    for tunnel in &report.tunnels {
        if tunnel.kind == TunnelKind::Daemon && tunnel.daemon.is_none() {
            reasons.push(format!("no daemon drives {}", tunnel.interface));
        }
        reasons.extend(keyless(tunnel));
        reasons.extend(used_up(tunnel));
    }
    for client in report.clients.iter().filter(|c| c.tunnels.is_empty()) {
        reasons.push(format!(
            "process {} ({}) is connected but drives no tunnel: its data channel is not ours",
            client.pid, client.command
        ));
    }
    for lcore in report.lcores.iter().filter(|l| l.stuck) {
        reasons.push(format!(
            "the worker on CPU {} is stuck: it does not take changes any more",
            lcore.cpu
        ));
    }
    reasons
}

/// The peers of a tunnel whose primary key has no packet id left.
fn used_up(tunnel: &TunnelReport) -> impl Iterator<Item = String> + '_ {
    let used_up = |peer: &&PeerReport| {
        let primary = peer.keys.iter().find(|key| key.slot == KeySlotName::Primary);
        primary.is_some_and(|key| key.next_packet_id > u64::from(u32::MAX))
    };
    tunnel.peers.iter().filter(used_up).take(NAMED).map(|peer| {
        format!(
            "all packet ids of the primary key of peer {} of {} are used: nothing can be sent to it until the daemon renegotiates",
            peer.id, tunnel.interface
        )
    })
}

/// The peers of a tunnel that have no primary key, in one line.
fn keyless(tunnel: &TunnelReport) -> Option<String> {
    let no_primary = |peer: &&PeerReport| peer.keys.iter().all(|key| key.slot != KeySlotName::Primary);
    let ids: Vec<u32> = tunnel.peers.iter().filter(no_primary).map(|p| p.id).collect();
    let interface = &tunnel.interface;
    match ids.as_slice() {
        [] => None,
        [id] => Some(format!(
            "peer {id} of {interface} has no primary key: nothing can be sent to it"
        )),
        ids => {
            let mut named: Vec<String> = ids.iter().take(NAMED).map(u32::to_string).collect();
            if ids.len() > NAMED {
                named.push("...".into());
            }
            Some(format!(
                "{} peers of {interface} have no primary key ({}): nothing can be sent to them",
                ids.len(),
                named.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::status::report::{ClientReport, DaemonReport, KeyReport, LcoreReport};

    fn peer(id: u32, slots: &[KeySlotName]) -> PeerReport {
        let key = |slot: &KeySlotName| KeyReport {
            slot: *slot,
            ..KeyReport::default()
        };
        PeerReport {
            id,
            keys: slots.iter().map(key).collect(),
            ..PeerReport::default()
        }
    }

    /// A gateway with one tunnel that process 77 drives, and with one worker.
    fn healthy() -> Report {
        Report {
            tunnels: vec![TunnelReport {
                interface: "ovpn0".into(),
                daemon: Some(DaemonReport::default()),
                peers: vec![peer(0, &[KeySlotName::Primary, KeySlotName::Secondary])],
                ..TunnelReport::default()
            }],
            clients: vec![ClientReport {
                pid: 77,
                command: "openvpn".into(),
                tunnels: vec!["ovpn0".into()],
                ..ClientReport::default()
            }],
            lcores: vec![LcoreReport::default()],
            ..Report::default()
        }
    }

    fn after(change: impl FnOnce(&mut Report)) -> Vec<String> {
        let mut report = healthy();
        change(&mut report);
        health(&report)
    }

    #[test]
    fn what_is_as_it_should_be_gives_no_reason() {
        assert_eq!(health(&healthy()), Vec::<String>::new());
        assert!(
            after(|r| r.tunnels[0].peers.clear()).is_empty(),
            "a server without clients"
        );
        let is_static = |r: &mut Report| {
            r.tunnels[0].kind = TunnelKind::Static;
            r.tunnels[0].daemon = None;
            r.clients.clear();
        };
        assert!(after(is_static).is_empty(), "static peers need no daemon");
    }

    #[test]
    fn a_tunnel_that_nobody_drives_is_named() {
        let reasons = after(|r| {
            r.tunnels[0].daemon = None;
            r.tunnels[0].peers.clear();
            r.clients.clear();
        });
        assert_eq!(reasons, ["no daemon drives ovpn0"]);
    }

    #[test]
    fn a_daemon_with_a_data_channel_of_its_own_is_named() {
        let mut other = healthy().clients.remove(0);
        (other.pid, other.tunnels) = (78, Vec::new());
        assert_eq!(
            after(|r| r.clients.push(other)),
            ["process 78 (openvpn) is connected but drives no tunnel: its data channel is not ours"]
        );
    }

    #[test]
    fn peers_that_cannot_be_sent_to_are_named() {
        let only_secondary = peer(1, &[KeySlotName::Secondary]);
        assert_eq!(
            after(|r| r.tunnels[0].peers.push(only_secondary)),
            ["peer 1 of ovpn0 has no primary key: nothing can be sent to it"]
        );
        assert_eq!(
            after(|r| r.tunnels[0].peers = vec![peer(3, &[]), peer(5, &[])]),
            ["2 peers of ovpn0 have no primary key (3, 5): nothing can be sent to them"]
        );
        let many = (0..1000).map(|id| peer(id, &[])).collect();
        assert_eq!(
            after(|r| r.tunnels[0].peers = many),
            [
                "1000 peers of ovpn0 have no primary key (0, 1, 2, 3, 4, 5, 6, 7, ...): nothing can be sent to them"
            ]
        );
    }

    #[test]
    fn a_stuck_worker_is_named() {
        let stuck = LcoreReport {
            cpu: 3,
            stuck: true,
            ..LcoreReport::default()
        };
        assert_eq!(
            after(|r| r.lcores.push(stuck)),
            ["the worker on CPU 3 is stuck: it does not take changes any more"]
        );
    }
}

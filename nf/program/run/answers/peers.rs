//! `/ovpn/peers`: every peer with its addresses and counters.

use crate::program::run::registry::{Entry, PeerRef, PeerTotals, Registry};
use lcore::telemetry::{Answer, Value};
use nf_state::Millis;

/// Peers in one answer: DPDK's telemetry has room for 16 KB.
const PAGE: usize = 40;

/// The columns of counters, in order.
type Column = (&'static str, fn(&PeerTotals) -> u64);
const COLUMNS: &[Column] = &[
    ("link_rx_packets", |t| t.link_rx[0]),
    ("link_rx_bytes", |t| t.link_rx[1]),
    ("link_tx_packets", |t| t.link_tx[0]),
    ("link_tx_bytes", |t| t.link_tx[1]),
    ("vpn_rx_packets", |t| t.vpn_rx[0]),
    ("vpn_rx_bytes", |t| t.vpn_rx[1]),
    ("vpn_tx_packets", |t| t.vpn_tx[0]),
    ("vpn_tx_bytes", |t| t.vpn_tx[1]),
    ("keepalives_rx", |t| t.keepalives_rx),
    ("keepalives_tx", |t| t.keepalives_tx),
];

/// The answer. `parameters`: empty, or `TUNNEL,FROM`: index of the tunnel and lowest peer id of the page. `now`: for ages.
pub fn answer(registry: &Registry, parameters: &str, now: Millis) -> Result<Answer, String> {
    let from = page(parameters)?;
    let page: Vec<(PeerRef, &Entry)> = registry
        .iter()
        .filter(|(p, _)| *p >= from)
        .take(PAGE + 1)
        .collect();
    let next = page.get(PAGE).map(|((tunnel, id), _)| format!("{tunnel},{id}"));
    let page = &page[..page.len().min(PAGE)];
    let totals: Vec<PeerTotals> = page.iter().map(|(_, e)| e.totals()).collect();
    let number = |f: &dyn Fn(usize) -> u64| Value::Numbers((0..page.len()).map(f).collect());
    let remote = |e: &Entry| e.endpoint.read().map_or(String::new(), |b| b.remote.to_string());
    let mut answer: Answer = vec![
        ("peers".into(), Value::Number(registry.iter().count() as u64)),
        ("next".into(), Value::Text(next.unwrap_or_default())),
        ("tunnel".into(), number(&|i| page[i].0.0.into())),
        ("id".into(), number(&|i| page[i].0.1.into())),
        (
            "remote".into(),
            Value::Texts(page.iter().map(|(_, e)| remote(e)).collect()),
        ),
    ];
    for (name, column) in COLUMNS {
        answer.push(((*name).into(), number(&|i| column(&totals[i]))));
    }
    let age = |then: Millis| {
        if then.0 == 0 {
            0
        } else {
            now.0.saturating_sub(then.0).max(1)
        }
    };
    answer.push(("heard_ms_ago".into(), number(&|i| age(totals[i].last_recv))));
    answer.push(("sent_ms_ago".into(), number(&|i| age(totals[i].last_sent))));
    Ok(answer)
}

fn page(parameters: &str) -> Result<PeerRef, String> {
    if parameters.is_empty() {
        return Ok((0, 0));
    }
    let pair = parameters.split_once(',');
    pair.and_then(|(tunnel, from)| Some((tunnel.parse().ok()?, from.parse().ok()?)))
        .ok_or_else(|| {
            "parameters are TUNNEL,FROM: index of a tunnel and lowest peer id, as in \"next\"".into()
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::run::registry::{HeldKeys, TunnelPeers};
    use crate::program::statics::StaticPeer;

    fn registry(peers: u32) -> Registry {
        let mut tunnel = TunnelPeers::new("t0");
        for id in 0..peers {
            let spec = StaticPeer {
                id,
                keys: Vec::new(),
                remote: Some(([192, 0, 2, 1], 1194).into()),
                local: None,
                addresses: Vec::new(),
                networks: Vec::new(),
                keepalive: None,
            };
            let local = Some(([192, 0, 2, 2], 1194).into());
            tunnel
                .peers
                .insert(id, Entry::new(&spec, HeldKeys::default(), local, 2));
        }
        Registry {
            tunnels: vec![tunnel],
        }
    }

    fn column(answer: &Answer, name: &str) -> Value {
        let found = answer.iter().find(|(n, _)| n == name);
        found.unwrap_or_else(|| panic!("no {name}")).1.clone()
    }

    #[test]
    fn counters_of_all_workers_are_summed() {
        let registry = registry(1);
        let entry = registry.get((0, 0)).unwrap();
        entry.counters[0].link_rx_packets.add(3);
        entry.counters[1].link_rx_packets.add(4);
        entry.counters[1].vpn_tx_bytes.add(100);
        entry.counters[0].received(Millis(40));
        let answer = answer(&registry, "", Millis(100)).unwrap();
        assert_eq!(column(&answer, "link_rx_packets"), Value::Numbers(vec![7]));
        assert_eq!(column(&answer, "vpn_tx_bytes"), Value::Numbers(vec![100]));
        assert_eq!(column(&answer, "heard_ms_ago"), Value::Numbers(vec![60]));
        assert_eq!(column(&answer, "sent_ms_ago"), Value::Numbers(vec![0]));
        assert_eq!(
            column(&answer, "remote"),
            Value::Texts(vec!["192.0.2.1:1194".into()])
        );
    }

    #[test]
    fn pages_lead_through_all_peers() {
        let registry = registry(100);
        let (mut seen, mut parameters) = (Vec::new(), String::new());
        loop {
            let answer = answer(&registry, &parameters, Millis(0)).unwrap();
            assert_eq!(column(&answer, "peers"), Value::Number(100));
            let Value::Numbers(ids) = column(&answer, "id") else {
                panic!()
            };
            seen.extend(ids);
            match column(&answer, "next") {
                Value::Text(next) if next.is_empty() => break,
                Value::Text(next) => parameters = next,
                other => panic!("{other:?}"),
            }
        }
        assert!(seen.into_iter().eq(0..100));
    }

    #[test]
    fn wrong_parameters_are_named() {
        for wrong in ["x", "0", "0,x", "300,0", ",", "0,1,2"] {
            assert!(answer(&registry(1), wrong, Millis(0)).is_err(), "{wrong}");
        }
    }
}

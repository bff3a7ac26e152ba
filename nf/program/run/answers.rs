//! The telemetry commands of a running gateway.

mod peers;

use crate::program::run::control::lock;
use crate::program::run::gateway::Handle;
use crate::program::run::registry::Registry;
use lcore::Mempool;
use lcore::mailbox::Message;
use lcore::telemetry::{Answer, Answers, Value};
use nf_path::counters::{Histogram, Totals};
use nf_path::inbound::Tuning;
use nf_path::verdict::DropReason;
use nf_state::{Lookahead, Millis, Scope};
use std::ffi::CStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The commands and their help.
pub const COMMANDS: &[(&CStr, &CStr)] = &[
    (
        c"/ovpn/lcores",
        c"Counters of each worker: arrays in the order of \"cpu\". Takes no parameters",
    ),
    (
        c"/ovpn/drops",
        c"Dropped packets by reason, all workers together. Takes no parameters",
    ),
    (
        c"/ovpn/batches",
        c"Bursts and batches by size, all workers together. Takes no parameters",
    ),
    (
        c"/ovpn/peers",
        c"Peers with their counters, 40 at a time. Parameters: TUNNEL,FROM, as \"next\" says (none: the first page)",
    ),
    (
        c"/ovpn/pools",
        c"Buffers of each pool: \"name\", \"size\" and how many are \"free\". Takes no parameters",
    ),
    (
        c"/ovpn/set",
        c"Says or sets what is in force. Parameters: batch=on|off,lookahead=0..16 (each optional)",
    ),
];

/// How long a worker may take to read its mailbox.
const PATIENCE: Duration = Duration::from_secs(1);

/// Who answers: what it needs of the gateway.
pub struct Gateway {
    workers: Vec<Handle>,
    pools: Vec<Arc<Mempool>>,
    registry: Arc<Mutex<Registry>>,
    tuning: Tuning,
    cycles_per_ms: u64,
}

impl Gateway {
    /// For these workers, which start with this tuning, their pools, and these peers. `cycles_per_ms`: of the time-stamp
    /// counter.
    pub fn new(
        workers: Vec<Handle>,
        pools: Vec<Arc<Mempool>>,
        registry: Arc<Mutex<Registry>>,
        tuning: Tuning,
        cycles_per_ms: u64,
    ) -> Gateway {
        Gateway {
            workers,
            pools,
            registry,
            tuning,
            cycles_per_ms,
        }
    }

    fn sum(&self) -> Totals {
        self.workers
            .iter()
            .fold(Totals::default(), |sum, w| sum.plus(&w.counters.totals()))
    }

    fn lcores(&self) -> Answer {
        let cpus = self.workers.iter().map(|w| w.cpu as u64).collect();
        let totals: Vec<Totals> = self.workers.iter().map(|w| w.counters.totals()).collect();
        let names: Vec<&str> = Totals::default().named().map(|(name, _)| name).collect();
        let column = |i: usize| {
            totals
                .iter()
                .filter_map(|t| t.named().nth(i))
                .map(|(_, n)| n)
                .collect()
        };
        let columns = names
            .iter()
            .enumerate()
            .map(|(i, name)| ((*name).into(), Value::Numbers(column(i))));
        std::iter::once(("cpu".into(), Value::Numbers(cpus)))
            .chain(columns)
            .collect()
    }

    fn drops(&self) -> Answer {
        let sum = self.sum();
        DropReason::ALL
            .iter()
            .map(|d| (d.name().into(), Value::Number(sum.dropped(*d))))
            .collect()
    }

    fn batches(&self) -> Answer {
        let sum = self.sum();
        let labels = (0..sum.bursts.len()).map(Histogram::label).collect();
        vec![
            ("size".into(), Value::Texts(labels)),
            ("bursts".into(), Value::Numbers(sum.bursts.to_vec())),
            ("batches".into(), Value::Numbers(sum.batches.to_vec())),
        ]
    }

    /// What a port's ring or reassembly holds is not free.
    fn pools(&self) -> Answer {
        let numbers =
            |of: fn(&Mempool) -> u32| Value::Numbers(self.pools.iter().map(|p| of(p).into()).collect());
        let names = self.pools.iter().map(|pool| pool.name().to_owned()).collect();
        vec![
            ("name".into(), Value::Texts(names)),
            ("size".into(), numbers(Mempool::capacity)),
            ("free".into(), numbers(Mempool::available)),
        ]
    }

    fn set(&mut self, parameters: &str) -> Result<Answer, String> {
        let wanted = changes(parameters, self.tuning)?;
        for worker in &self.workers {
            let full = |_| format!("worker {}: its mailbox is full, try again", worker.cpu);
            worker.mailbox.send(Message::Tune(wanted)).map_err(full)?;
        }
        self.tuning = wanted;
        let until = Instant::now() + PATIENCE;
        for worker in &self.workers {
            while !worker.mailbox.is_read() {
                if Instant::now() > until {
                    return Err(format!("worker {}: it has not taken the change yet", worker.cpu));
                }
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
        Ok(in_force(self.tuning))
    }
}

impl Answers for Gateway {
    fn answer(&mut self, command: &str, parameters: &str) -> Answer {
        let answer = match command {
            "/ovpn/set" => self.set(parameters),
            "/ovpn/peers" => {
                let now = Millis(lcore::cycles() / self.cycles_per_ms);
                peers::answer(&lock(&self.registry), parameters, now)
            }
            _ if !parameters.is_empty() => Err(format!("{command} takes no parameters")),
            "/ovpn/lcores" => Ok(self.lcores()),
            "/ovpn/drops" => Ok(self.drops()),
            "/ovpn/batches" => Ok(self.batches()),
            "/ovpn/pools" => Ok(self.pools()),
            _ => Err(format!("{command} is unknown")),
        };
        answer.unwrap_or_else(|why| vec![("error".into(), Value::Text(why))])
    }
}

/// What the parameters of `/ovpn/set` make of the tuning: all of them or, when one is wrong, none.
fn changes(parameters: &str, mut tuning: Tuning) -> Result<Tuning, String> {
    for parameter in parameters.split(',').filter(|p| !p.is_empty()) {
        match parameter.split_once('=') {
            Some(("batch", "on")) => tuning.batch = true,
            Some(("batch", "off")) => tuning.batch = false,
            Some(("batch", _)) => return Err("batch: on or off".into()),
            Some(("lookahead", n)) => {
                let distance = n.parse().ok().filter(|n| *n <= Lookahead::MAX_DISTANCE);
                tuning.lookahead.distance =
                    distance.ok_or_else(|| format!("lookahead: 0 to {}", Lookahead::MAX_DISTANCE))?;
            }
            _ => return Err("batch=on|off and lookahead=N can be set".into()),
        }
    }
    Ok(tuning)
}

fn in_force(tuning: Tuning) -> Answer {
    let text = |t: &str| Value::Text(t.into());
    vec![
        ("batch".into(), text(if tuning.batch { "on" } else { "off" })),
        (
            "lookahead".into(),
            Value::Number(tuning.lookahead.distance.into()),
        ),
        (
            "scope".into(),
            text(match tuning.lookahead.scope {
                Scope::Burst => "burst",
                Scope::Batch => "batch",
            }),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use lcore::mailbox::mailbox;
    use nf_path::counters::Counters;
    use std::sync::Arc;

    const TUNING: Tuning = Tuning {
        batch: true,
        lookahead: Lookahead {
            distance: 2,
            scope: Scope::Burst,
        },
    };

    fn gateway(cpus: &[usize]) -> Gateway {
        let handle = |&cpu| Handle::new(cpu, Arc::new(Counters::default()), mailbox().0);
        let registry = Arc::new(Mutex::new(Registry { tunnels: Vec::new() }));
        Gateway::new(cpus.iter().map(handle).collect(), Vec::new(), registry, TUNING, 1)
    }

    fn value(answer: &Answer, name: &str) -> Value {
        answer
            .iter()
            .find(|(n, _)| n == name)
            .unwrap_or_else(|| panic!("{name} in {answer:?}"))
            .1
            .clone()
    }

    #[test]
    fn settings_are_taken_whole_or_not_at_all() {
        let off = changes("batch=off,lookahead=16", TUNING).unwrap();
        assert!(!off.batch && off.lookahead.distance == 16 && off.lookahead.scope == Scope::Burst);
        assert!(changes("", TUNING).unwrap().batch);
        for bad in [
            "batch=maybe",
            "lookahead=17",
            "lookahead=-1",
            "lookahead=",
            "scope=burst",
            "batch",
            "batch=off,x=1",
        ] {
            assert!(changes(bad, TUNING).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_worker_that_does_not_read_is_named() {
        let mut gateway = gateway(&[3]);
        let answer = gateway.answer("/ovpn/set", "batch=off");
        assert_eq!(
            value(&answer, "error"),
            Value::Text("worker 3: it has not taken the change yet".into())
        );
    }

    #[test]
    fn counters_are_columns_by_cpu_and_drops_are_summed() {
        let mut gateway = gateway(&[1, 3]);
        gateway.workers[0].counters.nic_rx.add(7);
        gateway.workers[1].counters.nic_rx.add(8);
        for worker in &gateway.workers {
            worker.counters.count(DropReason::BadTag, 2);
            worker.counters.batches.add(3);
        }
        let lcores = gateway.answer("/ovpn/lcores", "");
        assert_eq!(value(&lcores, "cpu"), Value::Numbers(vec![1, 3]));
        assert_eq!(value(&lcores, "nic_rx"), Value::Numbers(vec![7, 8]));
        let drops = gateway.answer("/ovpn/drops", "");
        assert_eq!(drops.len(), DropReason::COUNT);
        assert_eq!(value(&drops, "bad_tag"), Value::Number(4));
        let batches = gateway.answer("/ovpn/batches", "");
        assert_eq!(
            value(&batches, "batches"),
            Value::Numbers(vec![0, 0, 0, 2, 0, 0, 0, 0, 0, 0])
        );
        assert!(matches!(
            value(&gateway.answer("/ovpn/drops", "x"), "error"),
            Value::Text(_)
        ));
    }

    #[test]
    fn names_are_such_that_telemetry_takes_them() {
        let mut gateway = gateway(&[0]);
        for command in ["/ovpn/lcores", "/ovpn/drops", "/ovpn/batches", "/ovpn/pools"] {
            for (name, _) in gateway.answer(command, "") {
                assert!(
                    name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'),
                    "{name}"
                );
                assert!(name.len() < 64);
            }
        }
    }
}

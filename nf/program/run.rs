//! `run`: the gateway. Configuration, EAL, ports, worker, control loop, drain, in this order.

pub mod answers;
pub mod control;
pub mod gateway;
pub mod kernel;
pub mod keys;
pub mod listen;
pub mod nic;
pub mod notify;
pub mod plan;
pub mod ports;
pub mod registry;
mod start;

use crate::program::cli::Run;
use crate::program::eal_args::{Wants, is_pci_address};
use crate::program::exit::Failure;
use crate::program::setup::{self, Machine};
use crate::program::table::{LcoreRow, PortRow, Table};
use answers::Gateway;
use control::{Clients, Control, Source};
use gateway::{Handle, Running};
use kernel::Kernel;
use nf_control::Config;
use nf_control::cpulist::CpuList;
use plan::Plan;
use ports::Ports;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the control side looks around.
const TICK: Duration = Duration::from_millis(20);

/// Runs the command.
pub fn run(eal: &[String], command: &Run) -> Result<(), Failure> {
    let signals = Signals::catch()?;
    let config = Config::load(&command.config).map_err(Failure::usage)?;
    let given: Vec<String> = eal.iter().chain(&config.eal).cloned().collect();
    let mut plan = Plan::new(&config, &given)?;
    setup::log(config.log.format, config.log.level);
    plan.warnings.iter().for_each(|w| tracing::warn!("{w}"));
    let machine = setup::start(&given, wants(&config, &plan), plan.workers.clone())?;
    let cpu = choose_cpu(&machine)?;
    let pools = setup::pools(&machine.eal, plan.mbufs, plan.large)?;
    let mut kernel = Kernel::open(&config.name)?;
    let ports = Ports::open(&machine, &config, &plan, &pools, &mut kernel)?;
    let mut stats = command
        .stats_period
        .map(|s| Stats::new(&config.name, Duration::from_secs(s)));
    let mut prepared = start::prepare(&config, &mut plan, &ports, &mut kernel)?;
    let clients = Clients::listen(&config.control.socket, &config.control.group)?;
    let tables = prepared.tables(&config, &plan, &ports, 0)?;
    let worker = gateway::launch(&machine, &config, &plan, &ports, &pools, tables, cpu)?;
    let workers = vec![worker.handle.clone()];
    let source = Source {
        path: command.config.clone(),
        config: config.clone(),
    };
    let cycles_per_ms = machine.eal.tsc_hz() / 1000;
    let mut control = Control::new(prepared.control(
        workers.clone(),
        kernel,
        &ports,
        &plan,
        (source, clients),
        cycles_per_ms,
    ));
    let answers = Gateway::new(
        workers,
        pools.all(),
        control.registry.clone(),
        plan.tuning,
        cycles_per_ms,
    );
    let serving = lcore::telemetry::serve(&machine.eal, answers::COMMANDS, Box::new(answers));
    let watched = match &serving {
        Ok(_) => {
            ready(&config);
            watch(
                &signals,
                command.exit_after_idle,
                &worker,
                &mut control,
                &ports,
                &mut stats,
            )
        }
        Err(_) => Ok(()),
    };
    let stopped = finish(worker, control, &ports, &mut stats);
    drop(serving.map_err(Failure::machine)?);
    stopped.and(watched)?;
    tracing::info!("done");
    Ok(())
}

/// Lets the worker end in order, then the control side; prints the last table.
fn finish(
    worker: Running,
    control: Control,
    ports: &Ports,
    stats: &mut Option<Stats>,
) -> Result<(), Failure> {
    notify::stopping();
    let handle = worker.handle.clone();
    let stopped = worker.stop();
    control.end();
    handle.take_replies();
    if let Some(stats) = stats {
        stats.print(ports, &handle, true);
    }
    stopped
}

/// What EAL has to get.
fn wants(config: &Config, plan: &Plan) -> Wants {
    Wants {
        prefix: config.name.clone(),
        pci: Some(config.nic.port.clone())
            .filter(|p| is_pci_address(p))
            .into_iter()
            .collect(),
        no_huge_mb: setup::megabytes(plan.mbufs, plan.large),
        ..Wants::default()
    }
}

/// The CPU of the one worker that this version runs. What is not as configured is said.
fn choose_cpu(machine: &Machine) -> Result<usize, Failure> {
    let Some((&cpu, idle)) = machine.workers.split_first() else {
        return Err(Failure::machine("no CPU is left for a worker"));
    };
    if cpu == machine.main {
        tracing::warn!(
            "CPU {cpu} is shared by the worker and the control side: give the worker one of its own"
        );
    }
    if !idle.is_empty() {
        tracing::info!(
            "one worker, on CPU {cpu}: this version leaves CPUs {} idle",
            CpuList(idle)
        );
    }
    Ok(cpu)
}

/// Tells whoever waits for it that packets flow. A reader that went away is no reason to end.
fn ready(config: &Config) {
    tracing::info!("{} is ready", config.name);
    notify::ready();
    let mut out = std::io::stdout();
    let _ = writeln!(out, "ready").and_then(|()| out.flush());
}

/// The signals that end the gateway, or would.
struct Signals {
    end: Arc<AtomicBool>,
    hangup: Arc<AtomicBool>,
}

impl Signals {
    /// From here on SIGINT and SIGTERM end the gateway in order, however often they come; SIGHUP makes it read its peers again.
    fn catch() -> Result<Signals, Failure> {
        let signals = Signals {
            end: Arc::default(),
            hangup: Arc::default(),
        };
        for (signal, flag) in [
            (SIGINT, &signals.end),
            (SIGTERM, &signals.end),
            (SIGHUP, &signals.hangup),
        ] {
            signal_hook::flag::register(signal, flag.clone())
                .map_err(|e| Failure::machine(format!("signal {signal} cannot be caught: {e}")))?;
        }
        Ok(signals)
    }
}

/// The control loop: until a signal, the end of an idle time, or the end of the worker.
fn watch(
    signals: &Signals,
    idle: Option<u64>,
    worker: &Running,
    control: &mut Control,
    ports: &Ports,
    stats: &mut Option<Stats>,
) -> Result<(), Failure> {
    let handle = &worker.handle;
    let (mut received, mut since) = (0, Instant::now());
    let mut due = Instant::now();
    loop {
        // Requests of daemons end it early. Not `sleep`, which goes on after a signal and never ends when net_tap has one
        // sent every few microseconds.
        let more = control.serve(due);
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            if !more {
                std::thread::park_timeout(left);
            }
            continue;
        }
        control.tick();
        due = Instant::now() + TICK;
        if signals.end.load(Ordering::Relaxed) {
            tracing::info!("told to end");
            return Ok(());
        }
        if worker.has_ended() {
            return Ok(());
        }
        if signals.hangup.swap(false, Ordering::Relaxed) {
            control.reload();
        }
        let now = handle.counters.nic_rx.get();
        if now != received {
            (received, since) = (now, Instant::now());
        }
        if idle.is_some_and(|s| since.elapsed() >= Duration::from_secs(s)) {
            tracing::info!("nothing received for {} s", idle.unwrap_or_default());
            return Ok(());
        }
        if let Some(stats) = stats {
            stats.print_if_due(ports, handle);
        }
    }
}

/// The table of `--stats-period`.
struct Stats {
    table: Table,
    period: Duration,
    due: Instant,
}

impl Stats {
    fn new(name: &str, period: Duration) -> Stats {
        Stats {
            table: Table::new(name, Instant::now()),
            period,
            due: Instant::now() + period,
        }
    }

    fn print_if_due(&mut self, ports: &Ports, handle: &Handle) {
        if Instant::now() >= self.due {
            self.due += self.period;
            self.print(ports, handle, false);
        }
    }

    /// `last`: rates are over the whole run.
    fn print(&mut self, ports: &Ports, handle: &Handle, last: bool) {
        let rows = ports.named().map(|(part, port)| PortRow {
            part,
            name: port.name().into(),
            driver: port.driver().unwrap_or_default(),
            stats: port.stats().unwrap_or_default(),
        });
        let lcores = vec![LcoreRow {
            cpu: handle.cpu,
            totals: handle.counters.totals(),
        }];
        let text = self.table.render(Instant::now(), rows.collect(), lcores, last);
        let mut out = std::io::stdout();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

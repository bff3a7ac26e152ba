//! What every command that starts EAL does first: log, arguments, EAL, pools.

use crate::program::eal_args::{self, Wants};
use crate::program::exit::Failure;
use lcore::affinity::CpuSet;
pub use lcore::buffers::Pools;
use lcore::worker::Queues;
use lcore::{Eal, Imb, Mempool, Port, RuntimeDir};
use nf_control::{LogFormat, LogLevel, cpulist};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Room of an ordinary buffer: DPDK's headroom and 2 KB (`RTE_MBUF_DEFAULT_BUF_SIZE`).
pub const ROOM: u16 = 2048 + 128;
/// Room of a large buffer: a reassembled datagram or a scattered packet.
pub const LARGE_ROOM: u16 = 9 * 1024 + 512 + 128;
/// Buffers in each lcore's cache of a pool.
pub const CACHE: u32 = 256;

/// Sends log lines to stderr. DPDK's own are let through from warnings on, or all of them at level "debug".
pub fn log(format: LogFormat, level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let dpdk = if level >= LevelFilter::DEBUG {
        level
    } else {
        level.min(LevelFilter::WARN)
    };
    let filter = Targets::new().with_default(level).with_target("dpdk", dpdk);
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false);
    // A second call in one process changes nothing.
    let _ = match format {
        LogFormat::Text => registry.with(lines).try_init(),
        LogFormat::Json => registry.with(lines.json()).try_init(),
    };
}

/// EAL, and the CPUs on which workers may run.
pub struct Machine {
    /// EAL, up. The caller is not pinned.
    pub eal: Eal,
    /// The main lcore's CPU.
    pub main: usize,
    /// Workers' CPUs, at least one.
    pub workers: Vec<usize>,
    /// A manager for the control side, to expand keys with.
    pub imb: Imb,
    /// Removed after EAL is gone.
    _runtime: RuntimeDir,
}

/// CPUs for main and control (the first) and for workers (the rest, or the first if there is no other).
pub fn auto_cpus(allowed: &[usize]) -> (usize, Vec<usize>) {
    match allowed {
        [] => (0, vec![0]),
        [only] => (*only, vec![*only]),
        [first, rest @ ..] => (*first, rest.to_vec()),
    }
}

/// The CPUs that this process may use.
pub fn allowed_cpus() -> Result<Vec<usize>, Failure> {
    Ok(CpuSet::current().map_err(Failure::machine)?.cpus())
}

/// The CPUs of a `-l` option among the given EAL arguments, in any of its spellings.
fn given_lcores(given: &[String]) -> Option<Vec<usize>> {
    let at = given
        .iter()
        .position(|g| g.starts_with("-l") && !g.starts_with("--"))?;
    let list = match given[at][2..].trim_start_matches('=') {
        "" => given.get(at + 1)?,
        attached => attached,
    };
    cpulist::parse(list).ok()
}

/// Starts EAL. `workers`: the CPUs that the command wants for workers; None: all allowed ones but the first.
pub fn start(given: &[String], mut wants: Wants, workers: Option<Vec<usize>>) -> Result<Machine, Failure> {
    let allowed = allowed_cpus()?;
    let (main, auto) = auto_cpus(&given_lcores(given).unwrap_or_else(|| allowed.clone()));
    let workers = workers.unwrap_or(auto);
    if let Some(cpu) = workers.iter().chain([&main]).find(|cpu| !allowed.contains(cpu)) {
        let allowed = cpulist::CpuList(&allowed);
        return Err(Failure::machine(format!(
            "CPU {cpu} is not to be had: this process may use {allowed}"
        )));
    }
    // The CPU is looked at first: DPDK's own check is not as clear.
    let mut imb = Imb::new().map_err(Failure::machine)?;
    lcore::imb::known_answer(&mut imb).map_err(Failure::machine)?;
    let prefix = eal_args::file_prefix(given).unwrap_or(&wants.prefix);
    let runtime = RuntimeDir::of(prefix);
    if runtime.in_use() {
        let folder = runtime.path().display();
        return Err(Failure::machine(format!(
            "the name {prefix} is taken: another process runs with this EAL file prefix ({folder}); choose another name"
        )));
    }
    wants.lcores = vec![main];
    let arguments = eal_args::complete(given, &wants, eal_args::hugepages_to_be_had());
    if arguments.no_huge {
        tracing::warn!(
            "no hugepages to be had: running without (--no-huge), which is fine for trying out and slow"
        );
    }
    let eal = Eal::init(&arguments.words[1..]).map_err(Failure::machine)?;
    eal.unpin_caller().map_err(Failure::machine)?;
    lcore::secrets::forbid_core_dumps().map_err(Failure::machine)?;
    Ok(Machine {
        eal,
        main,
        workers,
        imb,
        _runtime: runtime,
    })
}

/// The first queue each way of a started port. `longest`: the longest frame that it takes, in bytes.
pub fn queues(port: &Port, longest: usize) -> Result<Queues, Failure> {
    let (rx, tx) = (
        port.rx_queue(0).map_err(Failure::machine)?,
        port.tx_queue(0).map_err(Failure::machine)?,
    );
    Ok(Queues { rx, tx, longest })
}

/// The two pools of a process, with `mbufs` ordinary and `large` large buffers.
pub fn pools(eal: &Eal, mbufs: u32, large: u32) -> Result<Pools, Failure> {
    let small = Mempool::new(eal, "mbufs", mbufs, CACHE, ROOM, -1).map_err(Failure::machine)?;
    let large = Mempool::new(eal, "mbufs_large", large, 0, LARGE_ROOM, -1).map_err(Failure::machine)?;
    Ok(Pools { small, large })
}

/// Megabytes that pools with so many buffers take, rounded up well.
pub fn megabytes(mbufs: u32, large: u32) -> u32 {
    let bytes = u64::from(mbufs) * (u64::from(ROOM) + 256) + u64::from(large) * (u64::from(LARGE_ROOM) + 256);
    (bytes >> 20) as u32 + 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cpu_is_left_to_control() {
        assert_eq!(auto_cpus(&[0, 1]), (0, vec![1]));
        assert_eq!(auto_cpus(&[5]), (5, vec![5]));
        assert_eq!(auto_cpus(&[2, 4, 6]), (2, vec![4, 6]));
    }

    #[test]
    fn a_given_list_is_read_in_any_spelling() {
        let words = |t: &str| t.split(' ').map(String::from).collect::<Vec<_>>();
        assert_eq!(given_lcores(&words("-l 1,3-4")), Some(vec![1, 3, 4]));
        assert_eq!(given_lcores(&words("--no-pci -l2")), Some(vec![2]));
        assert_eq!(given_lcores(&words("--log-level=x")), None);
        assert_eq!(given_lcores(&words("-l")), None);
    }
}

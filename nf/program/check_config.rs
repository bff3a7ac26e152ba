//! `check-config`: what a configuration means, and whether `run` would take it.

use crate::program::cli::CheckConfig;
use crate::program::exit::{self, Failure};
use crate::program::run::plan::Plan;
use nf_control::Config;

/// Runs the command: everything that `run` refuses without asking the machine is refused here, in the same words.
pub fn run(command: &CheckConfig) -> Result<(), Failure> {
    let config = Config::load(&command.file).map_err(Failure::usage)?;
    let plan = Plan::new(&config, &config.eal)?;
    plan.warnings
        .iter()
        .for_each(|w| eprintln!("ovpn-dpdk: warning: {w}"));
    exit::result(&config.summary(&plan.keys).to_string())
}

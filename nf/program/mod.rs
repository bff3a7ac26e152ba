//! The commands of the program.

mod capture;
mod check_config;
mod cli;
mod eal_args;
mod exit;
#[cfg(test)]
mod manual;
mod perf;
mod replay;
mod run;
mod setup;
mod sizing;
mod statics;
mod status;
#[cfg(test)]
mod systemd;
mod table;

use clap::Parser;
use std::process::ExitCode;

/// Runs the command that the arguments name; messages go to stderr, results to stdout.
pub fn main() -> ExitCode {
    let (eal, rest) = match cli::split(std::env::args().collect()) {
        Ok(split) => split,
        Err(failure) => return failure.report(),
    };
    let arguments = match cli::Cli::try_parse_from(rest) {
        Ok(cli) => cli,
        Err(e) => {
            // clap prints help and version to stdout with status 0, mistakes to stderr with status 2.
            let _ = e.print();
            return ExitCode::from(e.exit_code() as u8);
        }
    };
    // Before a keys file is read.
    if let Err(e) = lcore::secrets::forbid_core_files() {
        return exit::Failure::machine(e).report();
    }
    let done = match arguments.command {
        cli::Command::Perf(command) => perf::run(&eal, &command),
        cli::Command::Replay(command) => replay::run(&eal, &command),
        cli::Command::Run(command) => run::run(&eal, &command),
        cli::Command::CheckConfig(command) => check_config::run(&command),
        cli::Command::Status(command) => return status::run(&command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

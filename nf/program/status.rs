//! `status`: what a running gateway says of itself, and whether that is as it should be.

mod health;
pub mod query;
pub mod report;
mod text;

use crate::program::cli::Status;
use crate::program::exit::{self, Failure};
use health::health;
use nf_control::Config;
use report::Report;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Status of a gateway that runs, when something is not as it should be.
const NOT_HEALTHY: u8 = 3;

/// Runs the command. The exit code is 0 for a healthy gateway, 3 for one that runs but is not, 1 where none answers, and 2 for
/// wrong usage.
pub fn run(command: &Status) -> ExitCode {
    match asked(command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(NOT_HEALTHY),
        Err(failure) => failure.report(),
    }
}

/// Asks, prints, and says whether the gateway is healthy.
fn asked(command: &Status) -> Result<bool, Failure> {
    let path = socket(command)?;
    let document = query::ask(&path, query::PATIENCE)?;
    let report: Report = serde_json::from_slice(&document).map_err(|e| {
        Failure::machine(format!(
            "{}: its report cannot be read, as it is of another version: {e}",
            path.display()
        ))
    })?;
    let reasons = health(&report);
    exit::result(&printed(&report, &reasons, command.json)?)?;
    Ok(reasons.is_empty())
}

/// Where to ask.
fn socket(command: &Status) -> Result<PathBuf, Failure> {
    match (&command.socket, &command.config) {
        (Some(path), _) => Ok(path.clone()),
        (None, Some(file)) => {
            let config = Config::load(file).map_err(Failure::usage)?;
            Ok(config.control.socket)
        }
        (None, None) => query::find(Path::new(query::FOLDER)),
    }
}

/// What is printed.
fn printed(report: &Report, reasons: &[String], json: bool) -> Result<String, Failure> {
    /// The report with the verdict in front.
    #[derive(Serialize)]
    struct Answer<'a> {
        healthy: bool,
        reasons: &'a [String],
        #[serde(flatten)]
        report: &'a Report,
    }
    if !json {
        return Ok(text::text(report, reasons));
    }
    let answer = Answer {
        healthy: reasons.is_empty(),
        reasons,
        report,
    };
    let text = serde_json::to_string_pretty(&answer).map_err(Failure::machine)?;
    Ok(text + "\n")
}

#[cfg(test)]
mod tests;

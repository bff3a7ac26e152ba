//! Exit codes: 0 done, 1 the machine said no, 2 wrong usage or configuration. (`status` has a code of its own, 3.)

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// Writes results to stdout. A reader that went away is a failure, not a panic as with `println!`.
pub fn result(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| Failure::machine(format!("stdout: {e}")))
}

/// Why the program ends early: one line for stderr.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The machine said no: permission, hugepages, a name that is taken, a CPU without AES.
    Machine(String),
    /// Wrong usage or configuration.
    Usage(String),
}

impl Failure {
    /// A failure of the machine.
    pub fn machine(what: impl Display) -> Self {
        Failure::Machine(what.to_string())
    }

    /// A failure of usage or configuration.
    pub fn usage(what: impl Display) -> Self {
        Failure::Usage(what.to_string())
    }

    /// Prints the line and gives the exit code.
    pub fn report(&self) -> ExitCode {
        let (Failure::Machine(what) | Failure::Usage(what)) = self;
        eprintln!("ovpn-dpdk: {what}");
        ExitCode::from(match self {
            Failure::Machine(_) => 1,
            Failure::Usage(_) => 2,
        })
    }
}

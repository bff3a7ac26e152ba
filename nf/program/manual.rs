//! Holds docs/manual.md to what the program has.

use crate::program::cli::Cli;
use crate::program::run::answers::COMMANDS;
use clap::CommandFactory;
use nf_path::counters::Totals;
use nf_path::verdict::DropReason;

const MANUAL: &str = include_str!("../../docs/manual.md");

#[test]
fn every_drop_reason_is_explained_in_its_own_words() {
    for reason in DropReason::ALL {
        let about = reason.about().split_whitespace().collect::<Vec<_>>().join(" ");
        let row = format!("| `{}` | {about} |\n", reason.name());
        assert!(MANUAL.contains(&row), "docs/manual.md lacks the row {row}");
    }
}

#[test]
fn every_counter_is_there() {
    for (name, _) in Totals::default().named() {
        assert!(
            MANUAL.contains(&format!("\n| `{name}` | ")),
            "docs/manual.md lacks {name}"
        );
    }
}

#[test]
fn every_command_and_option_is_there() {
    let cli = Cli::command();
    for command in cli.get_subcommands() {
        let name = command.get_name();
        assert!(
            MANUAL.contains(&format!("\n## {name}\n")),
            "docs/manual.md has no chapter {name}"
        );
        for option in command.get_arguments().filter_map(|a| a.get_long()) {
            assert!(
                MANUAL.contains(&format!("--{option} ")) || MANUAL.contains(&format!("[--{option}]")),
                "--{option}"
            );
        }
    }
    for (command, _) in COMMANDS {
        let command = command.to_str().expect("ASCII");
        assert!(
            MANUAL.contains(&format!("\n| `{command}` | ")),
            "docs/manual.md lacks {command}"
        );
    }
}

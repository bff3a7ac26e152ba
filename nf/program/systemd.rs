//! Holds the units in dist/systemd to what the program has, and to what systemd understands.

use crate::program::cli::{Cli, Command};
use crate::program::exit::Failure;
use crate::program::status::query::FOLDER;
use clap::Parser;
use nf_control::Config;
use ovpn_dco_protocol::SOCKET_VARIABLE;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const GATEWAY: &str = include_str!("../../dist/systemd/ovpn-dpdk@.service");
const DROP_INS: [(&str, &str); 2] = [
    (
        "openvpn-server@.service.d",
        include_str!("../../dist/systemd/openvpn-server@.service.d/ovpn-dpdk.conf"),
    ),
    (
        "openvpn-client@.service.d",
        include_str!("../../dist/systemd/openvpn-client@.service.d/ovpn-dpdk.conf"),
    ),
];
const MANUAL: &str = include_str!("../../docs/manual.md");
const PRELOAD: &str = include_str!("../../preload/Cargo.toml");

/// The program's place.
const PROGRAM: &str = "/usr/sbin/ovpn-dpdk";

/// The values of a key, in order.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let assignments = unit
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='));
    assignments
        .filter(|(name, _)| *name == key)
        .map(|(_, value)| value)
        .collect()
}

/// The value of a key that stands there once.
fn value<'a>(unit: &'a str, key: &str) -> &'a str {
    let [value] = values(unit, key)[..] else {
        panic!("{key}: {:?}", values(unit, key));
    };
    value
}

/// A configuration of the name that the units stand for, everything else by default.
fn defaults() -> Config {
    let text = "name = \"gw0\"\n[nic]\nport = \"net_null0\"\n[[tunnel]]\ninterface = \"ovpn0\"\n";
    Config::parse(text, "gw0.toml", Path::new("/etc/ovpn-dpdk"), []).unwrap()
}

/// The file name of the preload library: its crate is a cdylib.
fn library() -> String {
    let name = PRELOAD
        .lines()
        .find_map(|line| line.strip_prefix("name = \""))
        .unwrap();
    format!("lib{}.so", name.trim_end_matches('"').replace('-', "_"))
}

#[test]
fn the_gateway_is_started_by_a_command_line_that_it_takes() {
    let command = value(GATEWAY, "ExecStart").replace("%i", "gw0");
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[0], PROGRAM);
    match Cli::try_parse_from(words).unwrap().command {
        Command::Run(run) => assert_eq!(run.config, Path::new("/etc/ovpn-dpdk/gw0.toml")),
        other => panic!("{other:?}"),
    }
    assert_eq!(value(GATEWAY, "Type"), "notify");
    let usage: u8 = value(GATEWAY, "RestartPreventExitStatus").parse().unwrap();
    assert_eq!(
        format!("{:?}", Failure::usage("").report()),
        format!("{:?}", ExitCode::from(usage))
    );
}

#[test]
fn folders_are_those_of_the_program() {
    let run = Path::new("/run").join(value(GATEWAY, "RuntimeDirectory"));
    assert_eq!(run, Path::new(FOLDER));
    assert_eq!(value(GATEWAY, "RuntimeDirectoryPreserve"), "yes");
    let state = Path::new("/var/lib").join(value(GATEWAY, "StateDirectory"));
    assert_eq!(defaults().state_file.parent(), Some(&*state));
}

#[test]
fn daemons_get_the_library_and_the_socket() {
    let socket = defaults().control.socket;
    assert_eq!(socket, Path::new(FOLDER).join("gw0.sock"));
    for (_, unit) in DROP_INS {
        let environment = values(unit, "Environment");
        let variable = |name: &str| {
            let found = environment
                .iter()
                .find_map(|e| e.strip_prefix(name)?.strip_prefix('='));
            PathBuf::from(found.unwrap_or_else(|| panic!("no {name} in {environment:?}")))
        };
        assert_eq!(variable(SOCKET_VARIABLE), socket);
        assert_eq!(
            variable("LD_PRELOAD"),
            Path::new("/usr/lib/ovpn-dpdk").join(library())
        );
        assert_eq!(environment.len(), 2);
        for relation in ["Wants", "After", "PartOf"] {
            assert_eq!(value(unit, relation), "ovpn-dpdk@gw0.service");
        }
    }
}

#[test]
fn the_manual_installs_what_the_units_name() {
    for target in [
        PROGRAM.to_owned(),
        format!("/usr/lib/ovpn-dpdk/{}", library()),
        "/etc/systemd/system/ovpn-dpdk@.service".into(),
        "/etc/ovpn-dpdk/gw0.toml".into(),
    ] {
        assert!(MANUAL.contains(&format!(" {target}\n")), "{target}");
    }
    for (folder, _) in DROP_INS {
        let target = format!(" /etc/systemd/system/{folder}/ovpn-dpdk.conf\n");
        assert!(MANUAL.contains(&target), "{target}");
    }
}

/// What systemd-analyze has against units in a folder; None: it is not there.
fn verify(folder: &Path) -> Option<String> {
    let mut command = std::process::Command::new("systemd-analyze");
    // The colon: and those of the system.
    command.env("SYSTEMD_UNIT_PATH", format!("{}:", folder.display()));
    command.args(["verify", "--man=no", "--recursive-errors=no"]);
    let units = [
        "ovpn-dpdk@gw0.service",
        "openvpn-server@a.service",
        "openvpn-client@a.service",
    ];
    let out = command.args(units).output().ok()?;
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.success(), text.is_empty(), "{text}");
    Some(text)
}

#[test]
fn systemd_understands_the_units() {
    if !Path::new("/usr/lib/systemd/system/openvpn-server@.service").exists() {
        println!("SKIP: systemd_understands_the_units: no openvpn-server@.service");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    // It looks whether the program is there.
    let program = std::env::current_exe().unwrap();
    let gateway = GATEWAY.replace(PROGRAM, program.to_str().unwrap());
    write("ovpn-dpdk@.service", &gateway);
    for (name, unit) in DROP_INS {
        write(&format!("{name}/ovpn-dpdk.conf"), unit);
    }
    let Some(said) = verify(folder.path()) else {
        println!("SKIP: systemd_understands_the_units: no systemd-analyze");
        return;
    };
    assert_eq!(said, "");
    // That it looks at each of them.
    for (name, unit) in DROP_INS {
        write(
            &format!("{name}/ovpn-dpdk.conf"),
            &format!("{unit}Environmental=x\n"),
        );
        assert!(
            verify(folder.path())
                .unwrap()
                .contains("Unknown key 'Environmental'"),
            "{name}"
        );
        write(&format!("{name}/ovpn-dpdk.conf"), unit);
    }
    write(
        "ovpn-dpdk@.service",
        &gateway.replace("RuntimeDirectoryPreserve=yes", "RuntimeDirectoryPreserve=maybe"),
    );
    assert!(verify(folder.path()).unwrap().contains("maybe"));
}

//! The EAL options that the program adds: each only if neither it nor one that conflicts with it was given.

use nf_control::cpulist;
use std::path::Path;

/// What a command wants of EAL.
#[derive(Debug, Default)]
pub struct Wants {
    /// CPUs for EAL's lcores (`-l`), the main one first.
    pub lcores: Vec<usize>,
    /// `--file-prefix`.
    pub prefix: String,
    /// PCI addresses of ports in use; none means `--no-pci`.
    pub pci: Vec<String>,
    /// Leave nothing behind, and let any number run at once: `--in-memory` with hugepages.
    pub transient: bool,
    /// Megabytes of memory where there are no hugepages (`-m` with `--no-huge`).
    pub no_huge_mb: u32,
}

/// EAL's arguments, and what to tell the operator about them.
#[derive(Debug, PartialEq, Eq)]
pub struct Arguments {
    /// In order; the program's name comes first.
    pub words: Vec<String>,
    /// The program added `--no-huge`.
    pub no_huge: bool,
}

/// Completes the EAL arguments that were `given`. `hugepages`: whether the machine has free, mounted ones.
pub fn complete(given: &[String], wants: &Wants, hugepages: bool) -> Arguments {
    let has = |options: &[&str]| given.iter().any(|g| options.iter().any(|o| is(g, o)));
    let mut words = vec!["ovpn-dpdk".to_owned()];
    let mut add = |more: &[&str]| words.extend(more.iter().map(|w| (*w).to_owned()));
    if !has(&["-l", "-c", "--lcores"]) && !wants.lcores.is_empty() {
        add(&["-l", &cpulist::CpuList(&wants.lcores).to_string()]);
    }
    if !has(&["--file-prefix"]) {
        add(&["--file-prefix", &wants.prefix]);
    }
    if !has(&["-a", "--allow", "-b", "--block", "--no-pci"]) {
        if wants.pci.is_empty() {
            add(&["--no-pci"]);
        }
        wants.pci.iter().for_each(|address| add(&["-a", address]));
    }
    let about_pages = [
        "--no-huge",
        "--in-memory",
        "--huge-dir",
        "--huge-unlink",
        "--single-file-segments",
        "--legacy-mem",
    ];
    let no_huge = !hugepages && !has(&about_pages);
    if no_huge {
        add(&["--no-huge"]);
        if !has(&["-m", "--socket-mem", "--socket-limit"]) {
            add(&["-m", &wants.no_huge_mb.to_string()]);
        }
    }
    if wants.transient && hugepages && !has(&["--in-memory", "--no-huge", "--huge-unlink", "--legacy-mem"]) {
        add(&["--in-memory"]);
    }
    if wants.transient && !has(&["--no-telemetry", "--telemetry"]) {
        add(&["--no-telemetry"]);
    }
    words.extend(given.iter().cloned());
    Arguments { words, no_huge }
}

/// Whether the word `given` is the option: alone, with `=value`, or (one dash, one letter) with the value attached.
fn is(given: &str, option: &str) -> bool {
    match given.strip_prefix(option) {
        Some(rest) => rest.is_empty() || rest.starts_with('=') || option.len() == 2,
        None => false,
    }
}

/// The value of `--file-prefix` among the given EAL arguments; EAL takes the last one.
pub fn file_prefix(given: &[String]) -> Option<&str> {
    let at = given.iter().rposition(|g| is(g, "--file-prefix"))?;
    match given[at].split_once('=') {
        Some((_, value)) => Some(value),
        None => given.get(at + 1).map(String::as_str),
    }
}

/// Whether a hugetlbfs is mounted and a huge page of any size is free.
pub fn hugepages_to_be_had() -> bool {
    let mounted = std::fs::read_to_string("/proc/mounts")
        .is_ok_and(|m| m.lines().any(|l| l.split(' ').nth(2) == Some("hugetlbfs")));
    let free = |folder: &Path| {
        std::fs::read_to_string(folder.join("free_hugepages"))
            .is_ok_and(|n| n.trim().parse().is_ok_and(|n: u64| n > 0))
    };
    let sizes = std::fs::read_dir("/sys/kernel/mm/hugepages");
    mounted && sizes.is_ok_and(|mut s| s.any(|size| size.is_ok_and(|size| free(&size.path()))))
}

/// Whether a port's name is a PCI address such as `0000:3b:00.0` or `3b:00.0`.
pub fn is_pci_address(name: &str) -> bool {
    let Some((bus, function)) = name.rsplit_once('.') else {
        return false;
    };
    let parts: Vec<&str> = bus.split(':').collect();
    let hex =
        |part: &&str, digits: usize| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit());
    let tail = |parts: &[&str]| parts.iter().all(|p| hex(p, 2)) && hex(&function, 1);
    match parts.as_slice() {
        [domain, rest @ ..] if rest.len() == 2 => (4..=8).any(|n| hex(domain, n)) && tail(rest),
        rest if rest.len() == 2 => tail(rest),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants() -> Wants {
        Wants {
            lcores: vec![0, 2, 3],
            prefix: "gw0".into(),
            no_huge_mb: 512,
            ..Wants::default()
        }
    }

    fn line(given: &str, wants: &Wants, hugepages: bool) -> String {
        let given: Vec<String> = given.split_whitespace().map(String::from).collect();
        complete(&given, wants, hugepages).words[1..].join(" ")
    }

    #[test]
    fn adds_what_was_not_given() {
        assert_eq!(line("", &wants(), true), "-l 0,2-3 --file-prefix gw0 --no-pci");
        assert_eq!(
            line("", &wants(), false),
            "-l 0,2-3 --file-prefix gw0 --no-pci --no-huge -m 512"
        );
        let pci = Wants {
            pci: vec!["0000:3b:00.0".into()],
            ..wants()
        };
        assert_eq!(line("", &pci, true), "-l 0,2-3 --file-prefix gw0 -a 0000:3b:00.0");
    }

    #[test]
    fn leaves_what_was_given_and_what_conflicts() {
        for lcores in ["-l 1", "-l1", "-c 3", "-c3", "--lcores 1", "--lcores=1@0"] {
            assert_eq!(
                line(lcores, &wants(), true),
                format!("--file-prefix gw0 --no-pci {lcores}")
            );
        }
        assert_eq!(
            line("--file-prefix=x -b 1:00.0", &wants(), true),
            "-l 0,2-3 --file-prefix=x -b 1:00.0"
        );
        for pages in ["--in-memory", "--no-huge", "--huge-unlink", "--huge-unlink=never"] {
            assert_eq!(
                line(pages, &wants(), false),
                format!("-l 0,2-3 --file-prefix gw0 --no-pci {pages}")
            );
        }
        assert!(line("--socket-mem 64", &wants(), false).contains("--no-huge --socket-mem 64"));
    }

    #[test]
    fn a_given_prefix_is_found() {
        let words = |t: &str| t.split(' ').map(String::from).collect::<Vec<_>>();
        assert_eq!(file_prefix(&words("-l 1 --file-prefix x")), Some("x"));
        assert_eq!(file_prefix(&words("--file-prefix=y --no-pci")), Some("y"));
        assert_eq!(file_prefix(&words("--file-prefix a --file-prefix=b")), Some("b"));
        assert_eq!(file_prefix(&words("-l 1")), None);
    }

    #[test]
    fn transient_runs_leave_no_files() {
        let transient = Wants {
            transient: true,
            ..wants()
        };
        assert!(line("", &transient, true).contains("--in-memory"));
        let without_pages = line("", &transient, false);
        assert!(without_pages.contains("--no-huge") && !without_pages.contains("--in-memory"));
        assert!(!line("--no-huge -m 64", &transient, true).contains("--in-memory"));
    }

    #[test]
    fn pci_addresses_are_told_from_vdevs() {
        for pci in ["0000:3b:00.0", "3b:00.1", "10000:01:00.7"] {
            assert!(is_pci_address(pci), "{pci}");
        }
        for other in [
            "net_pcap0",
            "net_tap0",
            "3b:00",
            "0000:3b:00.g",
            "",
            "a.b",
            "eth0.100",
        ] {
            assert!(!is_pci_address(other), "{other}");
        }
    }
}

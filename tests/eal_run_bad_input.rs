//! Bad input to `run`: one line that names the thing, the right exit code, nothing left behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ovpn-dpdk");

/// A folder with a configuration that works and its keys file, and what it is called.
struct Folder {
    folder: TempDir,
    name: String,
    /// The tunnel's interface.
    interface: String,
}

impl Folder {
    fn new(case: usize) -> Folder {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let me = Folder {
            folder,
            name: format!("bad-{}-{case}", std::process::id()),
            interface: format!("b{}t{case}", std::process::id()),
        };
        let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures/aes128-udp4.keys.json");
        fs::copy(keys, me.path("keys.json")).expect("a copy");
        // Both the gateway and somebody without rights can read it.
        fs::set_permissions(me.folder.path(), fs::Permissions::from_mode(0o755)).expect("our own folder");
        me
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The configuration with one text replaced by another.
    fn configure(&self, from: &str, to: &str) {
        let Folder { name, interface, .. } = self;
        let text = format!(
            "name = \"{name}\"\neal = [\"--vdev=net_null0,no-rx=1\", \"--vdev=net_null1,no-rx=1\"]\n\
             insecure_static_keys = true\nstate_file = \"ids\"\nmbufs = \"auto\"\nlcores = \"auto\"\n\
             [nic]\nport = \"net_null0\"\n[host]\nkind = \"net_null1\"\n\
             [[tunnel]]\ninterface = \"{interface}\"\nkind = \"tap\"\nsource_check = false\n\
             listen = [\"192.0.2.1:1194\"]\nkeys_file = \"keys.json\"\n"
        );
        assert!(text.contains(from), "{from}");
        fs::write(self.path("gw.toml"), text.replacen(from, to, 1)).expect("a configuration");
    }

    fn run(&self, before: &[&str], arguments: &[&str]) -> Output {
        let words = [before, &[PROGRAM], arguments].concat();
        let child = Command::new("timeout")
            .args(["-s", "KILL", "20"])
            .args(words)
            .stdin(Stdio::null())
            .output();
        child.expect("coreutils are installed")
    }

    fn run_config(&self, before: &[&str]) -> Output {
        self.run(
            before,
            &[
                "run",
                "--config",
                &self.path("gw.toml").display().to_string(),
                "--exit-after-idle",
                "1",
            ],
        )
    }

    /// No folder and no hugepage of EAL, no interface.
    fn nothing_left(&self) {
        for folder in ["/var/run/dpdk", "/tmp/dpdk"] {
            let folder = Path::new(folder).join(&self.name);
            assert!(!folder.exists(), "{} is left", folder.display());
        }
        assert!(
            !Path::new("/sys/class/net").join(&self.interface).exists(),
            "{} is left",
            self.interface
        );
        let pages = fs::read_dir("/dev/hugepages").into_iter().flatten().flatten();
        assert!(
            pages.into_iter().all(|p| !p
                .file_name()
                .to_string_lossy()
                .starts_with(&format!("{}map_", self.name))),
            "hugepages are left"
        );
    }
}

/// The one line on stderr that is no log line.
fn the_line(out: &Output) -> String {
    let text = String::from_utf8_lossy(&out.stderr);
    let is_log = |l: &&str| l.starts_with("20") && l.as_bytes().get(10) == Some(&b'T');
    let lines: Vec<_> = text.lines().filter(|l| !is_log(l)).collect();
    assert_eq!(lines.len(), 1, "one line: {text}");
    assert!(lines[0].starts_with("ovpn-dpdk: "), "{text}");
    lines[0].to_owned()
}

fn root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

fn skip(name: &str, why: &str) {
    println!("SKIP: {name}: {why}");
}

/// What is replaced in the configuration, the exit code, and what the line says.
const CASES: &[(&str, &str, i32, &[&str])] = &[
    ("[nic]", "[nic", 2, &["gw.toml:7: syntax error"]),
    ("[nic]", "nosuchkey = 1\n[nic]", 2, &["nosuchkey", "unknown"]),
    (
        "keys.json",
        "nosuch.json",
        2,
        &["nosuch.json: cannot be read: No such file"],
    ),
    ("keys.json", "gw.toml", 2, &["gw.toml: line 1 column"]),
    (
        "port = \"net_null0\"",
        "port = \"nosuch0\"",
        1,
        &["nic.port: there is no port nosuch0", "--vdev"],
    ),
    ("port = \"net_null0\"", "port = \"net_null1\"", 2, &["net_null1"]),
    (
        "kind = \"net_null1\"",
        "kind = \"nosuch1\"",
        1,
        &["no port nosuch1"],
    ),
    (
        "kind = \"net_null1\"",
        "kind = \"kernel\"",
        2,
        &["host.kind", "isolation"],
    ),
    (
        "interface = \"b",
        "interface = \"much-too-long-b",
        2,
        &["tunnel[0].interface", "much-too-long-b", "15"],
    ),
    (
        "mbufs = \"auto\"",
        "mbufs = 512",
        2,
        &[
            "mbufs: 512 are too few: at least 7424",
            "rings",
            "caches",
            "bursts",
        ],
    ),
    (
        "insecure_static_keys = true",
        "",
        2,
        &["tunnel[0].keys_file", "insecure_static_keys = true"],
    ),
    (
        "lcores = \"auto\"",
        "lcores = \"1000\"",
        1,
        &["CPU 1000", "may use"],
    ),
    (
        "source_check = false",
        "mtu = 9000",
        1,
        &["net_tap", "an MTU of 9000 is too large for its driver"],
    ),
    (
        "\"keys.json\"",
        "\"keys.json\"\n[[tunnel.peer]]\nid = 7\n[[tunnel.peer]]\nid = 7",
        2,
        &["tunnel[0].peer[1].id", "7", "tunnel[0].peer[0]"],
    ),
    (
        "\"keys.json\"",
        "\"keys.json\"\n[[tunnel.peer]]\nid = 7\naddresses = [\"10.8.0.2\"]\n[[tunnel.peer]]\nid = 8\naddresses = [\"10.8.0.3\", \"10.8.0.2\"]",
        2,
        &["tunnel[0].peer[1].addresses", "10.8.0.2", "tunnel[0].peer[0]"],
    ),
];

#[test]
fn each_bad_configuration_is_one_line_and_leaves_nothing() {
    for (i, (from, to, code, says)) in CASES.iter().enumerate() {
        let folder = Folder::new(i);
        folder.configure(from, to);
        let out = folder.run_config(&[]);
        let line = the_line(&out);
        assert_eq!(out.status.code(), Some(*code), "{to}: {line}");
        says.iter()
            .for_each(|part| assert!(line.contains(part), "{part:?} in {line}"));
        folder.nothing_left();
        // What needs no machine, check-config refuses in the same words.
        let checked = folder.run(
            &[],
            &["check-config", &folder.path("gw.toml").display().to_string()],
        );
        match code {
            2 => assert_eq!((checked.status.code(), the_line(&checked)), (Some(2), line)),
            _ => assert_eq!(checked.status.code(), Some(0), "{to}"),
        }
    }
}

#[test]
fn an_mtu_that_net_af_packet_would_cut_is_refused_with_what_would_do() {
    let folder = Folder::new(107);
    for (size, mtu, says) in [
        ("", 3000, &["nic.mtu: 3000", "at most 1500"][..]),
        (
            ",framesz=1024",
            1400,
            &["nic.mtu: 1400", "framesz=2048", "958 bytes"][..],
        ),
    ] {
        folder.configure("net_null0,no-rx=1", &format!("net_af_packet0,iface=lo{size}"));
        let path = folder.path("gw.toml");
        let text = fs::read_to_string(&path).expect("just written");
        let nic = format!("port = \"net_af_packet0\"\nmtu = {mtu}");
        fs::write(&path, text.replace("port = \"net_null0\"", &nic)).expect("our own folder");
        let out = folder.run_config(&[]);
        let line = the_line(&out);
        assert_eq!(out.status.code(), Some(2), "{line}");
        says.iter()
            .for_each(|part| assert!(line.contains(part), "{part:?} in {line}"));
    }
    folder.nothing_left();
}

#[test]
fn key_material_of_the_wrong_length_is_named_and_not_shown() {
    const KEY: &str = "a056b395e9a8b9801c03c70fbed31706";
    for (i, (wrong, says)) in [
        (&KEY[..30], "30"),
        ("a056b395e9a8b9801c03c70fbed3170600", "34"),
        ("", "0"),
        ("x056b395e9a8b9801c03c70fbed31706", "hexadecimal"),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = Folder::new(110 + i);
        folder.configure("[nic]", "[nic]");
        let path = folder.path("keys.json");
        let keys = fs::read_to_string(&path).expect("a copy");
        assert!(keys.contains(KEY));
        fs::write(&path, keys.replace(KEY, wrong)).expect("our own folder");
        let out = folder.run_config(&[]);
        let line = the_line(&out);
        assert_eq!(out.status.code(), Some(2), "{line}");
        assert!(
            line.contains("keys.json") && line.contains("keys[0] (peer 0): decrypt.key"),
            "{line}"
        );
        assert!(line.contains(says) && !line.contains("b395e9a8"), "{line}");
        folder.nothing_left();
    }
}

#[test]
fn a_missing_configuration_is_named() {
    let folder = Folder::new(100);
    for command in [&["run", "--config"][..], &["check-config"]] {
        let out = folder.run(&[], &[command, &["/nonexistent/gw.toml"]].concat());
        assert_eq!(out.status.code(), Some(2));
        assert!(the_line(&out).contains("/nonexistent/gw.toml: cannot be read: No such file"));
    }
}

#[test]
fn check_config_prints_what_is_in_force() {
    let folder = Folder::new(101);
    folder.configure("[nic]", "[nic]");
    let out = folder.run(
        &[],
        &["check-config", &folder.path("gw.toml").display().to_string()],
    );
    assert_eq!(out.status.code(), Some(0));
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        text.contains("[[tunnel]]") && text.contains("net_null0"),
        "{text}"
    );
    let key = "a056b395e9a8b9801c03c70fbed31706";
    assert!(!text.contains(key) && !String::from_utf8_lossy(&out.stderr).contains(key));
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("chmod 600"),
        "the keys file is open to others"
    );
}

#[test]
fn an_interface_that_is_taken_is_named() {
    if !root() {
        return skip("an_interface_that_is_taken_is_named", "needs root");
    }
    let folder = Folder::new(102);
    let interface = format!("interface = \"{}\"", folder.interface);
    folder.configure(&interface, "interface = \"lo\"");
    let out = folder.run_config(&[]);
    assert_eq!(out.status.code(), Some(1));
    assert!(
        the_line(&out).contains("interface lo exists already"),
        "{}",
        the_line(&out)
    );
    folder.nothing_left();
}

#[test]
fn without_the_right_to_make_a_tap_it_says_so() {
    const NAME: &str = "without_the_right_to_make_a_tap_it_says_so";
    if !root() {
        return skip(NAME, "needs root, to give it up");
    }
    let folder = Folder::new(103);
    folder.configure("[nic]", "[nic]");
    // Root in all but this.
    let out = folder.run_config(&["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"]);
    assert_eq!(
        out.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let line = the_line(&out);
    assert!(
        line.contains(&folder.interface) || line.contains("/dev/net/tun"),
        "{line}"
    );
    assert!(line.contains("CAP_NET_ADMIN"), "{line}");
    folder.nothing_left();
}

#[test]
fn without_any_right_it_says_so() {
    const NAME: &str = "without_any_right_it_says_so";
    if !root() {
        return skip(NAME, "needs root, to give it up");
    }
    let folder = Folder::new(106);
    // The program itself may lie where only root can go.
    let program = folder.path("ovpn-dpdk");
    fs::copy(PROGRAM, &program).expect("a copy");
    folder.configure("eal = [", "eal = [\"--no-huge\", \"-m\", \"256\", ");
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let out = Command::new("timeout")
        .args(["-s", "KILL", "20"])
        .args(nobody)
        .arg(&program)
        .args(["run", "--config"])
        .arg(folder.path("gw.toml"))
        .env_remove("XDG_RUNTIME_DIR")
        .output()
        .expect("util-linux is installed");
    assert_eq!(
        out.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let line = the_line(&out);
    assert!(
        line.contains("/run/ovpn-dpdk") && line.contains("Permission denied"),
        "{line}"
    );
    folder.nothing_left();
}

#[test]
fn a_name_that_is_taken_is_said_and_its_owner_goes_on() {
    if !root() {
        return skip("a_name_that_is_taken_is_said_and_its_owner_goes_on", "needs root");
    }
    let folder = Folder::new(104);
    folder.configure("[nic]", "[nic]");
    let config = folder.path("gw.toml").display().to_string();
    let mut first = Command::new(PROGRAM)
        .args(["run", "--config", &config])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut ready = String::new();
    let mut out = std::io::BufReader::new(first.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut out, &mut ready).expect("it says something");
    let second = folder.run_config(&[]);
    let ended = first.try_wait().expect("a child");
    let folder_there = Path::new("/var/run/dpdk")
        .join(&folder.name)
        .join("config")
        .exists();
    Command::new("kill")
        .arg(first.id().to_string())
        .status()
        .expect("kill is there");
    let status = first.wait().expect("a child");
    assert_eq!(ready, "ready\n");
    assert_eq!(second.status.code(), Some(1));
    assert!(
        the_line(&second).contains(&format!("the name {} is taken", folder.name)),
        "{}",
        the_line(&second)
    );
    assert!(ended.is_none() && folder_there, "the owner goes on");
    assert_eq!(status.code(), Some(0));
    folder.nothing_left();
}

#[test]
fn without_hugepages_it_starts_and_says_so() {
    const NAME: &str = "without_hugepages_it_starts_and_says_so";
    if !root() {
        return skip(NAME, "needs root");
    }
    let folder = Folder::new(105);
    folder.configure("[nic]", "[nic]");
    let without = [
        "unshare",
        "-m",
        "sh",
        "-c",
        "umount -a -t hugetlbfs; exec \"$0\" \"$@\"",
    ];
    let out = folder.run_config(&without);
    let log = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{log}");
    assert!(log.contains("no hugepages to be had"), "{log}");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "ready\n");
    folder.nothing_left();
}

//! A daemon's configuration: directives, files beside it, and how the daemon is started with them.

use super::{Daemon, Machine, Path, preload_library};
use crate::gateway::wait_for;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The folder of a daemon that has a root directory of its own, relative to the daemon's folder.
const JAIL: &str = "jail";
/// Clients' own settings, relative to the daemon's folder or its root directory.
const CLIENTS: &str = "clients";

/// A daemon that has not been started: see [`super::server()`] and [`super::client()`].
pub struct Options<'n> {
    machine: &'n Machine,
    folder: TempDir,
    /// Each directive with its arguments, in the order of the file.
    directives: Vec<(String, String)>,
    path: Path,
    preload: bool,
    jailed: bool,
}

impl<'n> Options<'n> {
    /// What every daemon of that machine has, with an interface of that name.
    pub(super) fn new(machine: &'n Machine, interface: &str) -> Options<'n> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // A daemon without privileges reads clients' settings while it runs.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("a new folder");
        let file = |name: &str| folder.path().join(name).display().to_string();
        let (status, management) = (file("status"), file("management"));
        let options = Options {
            machine,
            path: machine.path,
            preload: machine.path == Path::Offload,
            folder,
            directives: Vec::new(),
            jailed: false,
        };
        options
            .set("dev", interface)
            .set("dev-type", "tun")
            .set("proto", "udp4")
            .set("data-ciphers", "AES-256-GCM")
            .set("verb", "3")
            .set("status", &format!("{status} 1"))
            .set("status-version", "2")
            .set("management", &format!("{management} unix"))
    }

    /// Where it will run.
    pub(super) fn machine(&self) -> &'n Machine {
        self.machine
    }

    /// The directive with these arguments, instead of all of that name.
    pub fn set(self, directive: &str, arguments: &str) -> Self {
        self.without(directive).add(directive, arguments)
    }

    /// One more of that directive.
    pub fn add(mut self, directive: &str, arguments: &str) -> Self {
        self.directives.push((directive.into(), arguments.into()));
        self
    }

    /// None of that directive.
    pub fn without(mut self, directive: &str) -> Self {
        self.directives.retain(|(name, _)| name != directive);
        self
    }

    /// "udp4", "udp6" (on a server both IP versions) or another transport.
    pub fn proto(self, proto: &str) -> Self {
        self.set("proto", proto)
    }

    /// The one cipher of the data channel.
    pub fn cipher(self, cipher: &str) -> Self {
        self.set("data-ciphers", cipher)
    }

    /// Another way for the data channel than the machine's: a daemon with [`Path::Own`] beside a gateway.
    pub fn path(mut self, path: Path) -> Self {
        self.path = path;
        self.preload = path == Path::Offload;
        self
    }

    /// With the preload library, though its data channel will be its own: because no gateway runs, or of an option.
    pub fn refused(mut self) -> Self {
        self.path = Path::Own;
        self.preload = true;
        self
    }

    /// As user `nobody`, once it has started.
    pub fn nobody(self) -> Self {
        self.set("user", "nobody")
            .set("group", "nogroup")
            .set("persist-key", "")
    }

    /// In a root directory of its own, once it has started.
    pub fn chroot(mut self) -> Self {
        let jail = self.folder.path().join(JAIL);
        let temporary = jail.join("tmp");
        fs::create_dir_all(&temporary).expect("a new folder");
        fs::set_permissions(&temporary, Permissions::from_mode(0o1777)).expect("a new folder");
        let clients = self.folder.path().join(CLIENTS);
        if clients.exists() {
            fs::rename(clients, jail.join(CLIENTS)).expect("one file system");
        }
        self.jailed = true;
        let jail = jail.display().to_string();
        self.set("chroot", &jail)
            .set("persist-key", "")
            .set("tmp-dir", "/tmp")
    }

    /// A server's own settings for the client with that common name, such as `iroute 10.77.0.0 255.255.255.0`, one on a
    /// line.
    pub fn for_client(self, name: &str, settings: &str) -> Self {
        let folder = self.root().join(CLIENTS);
        fs::create_dir_all(&folder).expect("a new folder");
        fs::write(folder.join(name), format!("{settings}\n")).expect("a new folder");
        self
    }

    /// Starts it.
    pub fn start(mut self) -> Daemon<'n> {
        if self.path == Path::Own && !self.preload {
            // What the kernel of this machine offers must make no difference.
            self = self.set("disable-dco", "");
        }
        let clients = self.root().join(CLIENTS);
        if clients.exists() {
            let seen = if self.jailed {
                path::Path::new("/").join(CLIENTS)
            } else {
                clients
            };
            self = self.set("client-config-dir", &seen.display().to_string());
        }
        let lines = self
            .directives
            .iter()
            .map(|(name, arguments)| format!("{name} {arguments}\n"));
        let file = self.folder.path().join("daemon.conf");
        fs::write(&file, lines.collect::<String>()).expect("a new folder");
        let log = self.folder.path().join("log");
        let output = File::create(&log).expect("a new folder");
        let child = self
            .command()
            .arg("--config")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a descriptor is free"))
            .stderr(output)
            .spawn()
            .expect("ip was there before");
        let interface = self.argument("dev");
        let daemon = Daemon::new(self.machine, child, self.folder, self.path, interface);
        wait_for("the daemon's first words", || !daemon.text().is_empty());
        daemon
    }

    /// The program with its environment, in the machine's namespace. `ip` itself has no part of that environment.
    fn command(&self) -> Command {
        let mut command = self.machine.namespace.command("env");
        if self.preload {
            let library = preload_library();
            command.arg(format!("LD_PRELOAD={}", library.display()));
            let socket = self.machine.socket();
            command.arg(format!("{}={}", super::SOCKET_VARIABLE, socket.display()));
        }
        command.arg("openvpn");
        command
    }

    /// What the daemon takes for its root directory, when it looks for a client's settings.
    fn root(&self) -> path::PathBuf {
        if self.jailed {
            self.folder.path().join(JAIL)
        } else {
            self.folder.path().into()
        }
    }

    fn argument(&self, directive: &str) -> String {
        let found = self.directives.iter().find(|(name, _)| name == directive);
        found.unwrap_or_else(|| panic!("no {directive}")).1.clone()
    }
}

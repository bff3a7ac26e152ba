//! What the service manager is told (sd_notify(3)). Without `NOTIFY_SOCKET` in the environment, nothing.

use sd_notify::NotifyState;

/// Packets flow: units that come after this one may start.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The line that `systemctl status` shows.
pub fn status(status: &str) {
    tell(&[NotifyState::Status(&one_line(status))]);
}

/// The end has begun.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// A manager that cannot be told is no reason to end; it will say itself that it waits.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(states) {
        tracing::warn!("the service manager cannot be told: {e}");
    }
}

/// A line break would begin another assignment.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::process::Command;
    use std::time::Duration;

    /// Set for a process that tells what [`tells`] has it tell.
    const CHILD: &str = "OVPN_DPDK_TEST_TELLS";

    /// What it is told; in a process of its own, as the environment belongs to a whole process.
    #[test]
    fn tells() {
        if std::env::var_os(CHILD).is_some() {
            super::ready();
            super::status("a\nREADY=1");
            super::stopping();
        }
    }

    fn child(socket: Option<&std::path::Path>) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = module_path!().split_once("::").unwrap().1;
        command
            .args(["--exact", &format!("{name}::tells")])
            .env(CHILD, "1");
        match socket {
            Some(path) => command.env("NOTIFY_SOCKET", path),
            None => command.env_remove("NOTIFY_SOCKET"),
        };
        let out = command.output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success() && text.contains("1 passed"), "{text}");
    }

    #[test]
    fn the_manager_hears_what_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        child(Some(&path));
        let mut heard = Vec::new();
        let mut buffer = [0; 512];
        while heard.len() < 3 {
            let length = manager.recv(&mut buffer).unwrap();
            heard.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
        assert_eq!(heard, ["READY=1\n", "STATUS=a READY=1\n", "STOPPING=1\n"]);
    }

    #[test]
    fn nothing_is_told_without_a_manager_or_with_a_dead_one() {
        child(None);
        let folder = tempfile::tempdir().unwrap();
        child(Some(&folder.path().join("nobody")));
    }
}

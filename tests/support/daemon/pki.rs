//! Certificates for daemons: an authority, a server, and clients, with EC keys. The `openssl` command makes them.

use crate::gateway::run;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use tempfile::TempDir;

/// What the `openssl` command needs to know about the kinds of certificates.
const SETTINGS: &str = "[req]\ndistinguished_name = name\nprompt = no\n[name]\nCN = none\n\
    [authority]\nbasicConstraints = critical, CA:TRUE\nkeyUsage = critical, keyCertSign, cRLSign\n\
    [server]\nbasicConstraints = critical, CA:FALSE\nkeyUsage = critical, digitalSignature\nextendedKeyUsage = serverAuth\n\
    [client]\nbasicConstraints = critical, CA:FALSE\nkeyUsage = critical, digitalSignature\nextendedKeyUsage = clientAuth\n";

/// An authority of its own, and what it signed so far; the files go away when dropped.
pub struct Pki {
    folder: TempDir,
    /// One certificate at a time.
    making: Mutex<()>,
}

/// Paths of a certificate and its key.
pub struct Identity {
    /// The certificate of the authority.
    pub authority: PathBuf,
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Pki {
    /// A new authority.
    pub fn new() -> Pki {
        let pki = Pki {
            folder: tempfile::tempdir().expect("a temporary folder"),
            making: Mutex::default(),
        };
        fs::write(pki.path("settings"), SETTINGS).expect("a new folder");
        pki.make("authority", "authority", &[]);
        pki
    }

    /// A server's certificate by the common name.
    pub fn server(&self, name: &str) -> Identity {
        self.identity("server", name)
    }

    /// A client's certificate by the common name.
    pub fn client(&self, name: &str) -> Identity {
        self.identity("client", name)
    }

    fn identity(&self, kind: &str, name: &str) -> Identity {
        let _alone = self.making.lock().unwrap_or_else(|e| e.into_inner());
        let [authority, certificate] = ["authority", name].map(|name| self.path(&format!("{name}.crt")));
        if !certificate.exists() {
            let [ca, key] = ["authority.crt", "authority.key"].map(|file| self.path(file));
            let signed_by = ["-CA", path(&ca), "-CAkey", path(&key)];
            self.make(kind, name, &signed_by);
        }
        Identity {
            authority,
            certificate,
            key: self.path(&format!("{name}.key")),
        }
    }

    /// Key and certificate of that name, with the extensions of that section of the settings.
    fn make(&self, section: &str, name: &str, signed_by: &[&str]) {
        let [settings, key, certificate] = ["settings".into(), format!("{name}.key"), format!("{name}.crt")]
            .map(|file: String| self.path(&file));
        run(Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
            ])
            .args(["-nodes", "-days", "30", "-subj", &format!("/CN={name}")])
            .args(["-extensions", section, "-config", path(&settings)])
            .args(signed_by)
            .args(["-keyout", path(&key), "-out", path(&certificate)]));
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("made of ASCII")
}

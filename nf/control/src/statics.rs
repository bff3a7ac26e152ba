//! The keys files that the configuration names, with what the configuration says laid over them.

use crate::check::{listens, tunnel_key};
use crate::config::Config;
use crate::error::{ConfigError, KeysError};
use crate::keys::KeysFile;
use crate::tunnel::{Mode, Tunnel};

impl Config {
    /// Loads every tunnel's keys file: one entry per tunnel, `None` where it has none. The tunnel's `listen`, if not
    /// empty, replaces the file's, and a peer's `remote` replaces the one in its key entries.
    ///
    /// # Errors
    /// A keys file is refused; a tunnel has a keys file and no listening address in either place; a "p2p" tunnel has
    /// keys of several peers; listening addresses overlap.
    pub fn load_keys(&self) -> Result<Vec<Option<KeysFile>>, ConfigError> {
        let mut all = Vec::with_capacity(self.tunnels.len());
        for (i, tunnel) in self.tunnels.iter().enumerate() {
            all.push(self.load_tunnel_keys(i, tunnel)?);
        }
        let effective = self.tunnels.iter().zip(&all).map(|(tunnel, keys)| match keys {
            Some(keys) => keys.listen.as_slice(),
            None => tunnel.listen.as_slice(),
        });
        listens(&effective.collect::<Vec<_>>(), &self.origins)?;
        Ok(all)
    }

    fn load_tunnel_keys(&self, index: usize, tunnel: &Tunnel) -> Result<Option<KeysFile>, ConfigError> {
        let Some(path) = &tunnel.keys_file else {
            return Ok(None);
        };
        let mut file = KeysFile::load(path)?;
        if !tunnel.listen.is_empty() {
            file.listen.clone_from(&tunnel.listen);
        }
        if file.listen.is_empty() {
            let message = format!(
                "needed, since neither {} nor {} says it",
                tunnel_key(index, tunnel),
                path.display()
            );
            return Err(self.origins.error(&format!("tunnel[{index}].listen"), message));
        }
        for key in &mut file.keys {
            let peer = tunnel.peers.iter().find(|peer| peer.id == key.peer_id);
            if let Some(remote) = peer.and_then(|peer| peer.remote) {
                key.remote = Some(remote);
            }
        }
        let first = tunnel
            .peers
            .first()
            .map(|peer| peer.id)
            .or(file.keys.first().map(|key| key.peer_id));
        let other = file.keys.iter().find(|key| Some(key.peer_id) != first);
        if let (Mode::P2p, Some(first), Some(other)) = (tunnel.mode, first, other) {
            let message = format!(
                "peers {first} and {}, but the tunnel has mode = \"p2p\": one peer",
                other.peer_id
            );
            return Err(KeysError {
                file: path.display().to_string(),
                at: String::new(),
                message,
            }
            .into());
        }
        Ok(Some(file))
    }
}

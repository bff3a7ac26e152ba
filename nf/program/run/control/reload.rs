//! SIGHUP: peers, keys and listening addresses are read again. What has not changed goes on as it is, packet ids
//! included.

use super::{Control, lock};
use crate::program::exit::Failure;
use crate::program::run::keys::HeldKey;
use crate::program::run::listen::Listen;
use crate::program::run::plan::check_remotes;
use crate::program::run::registry::{Entry, PeerRef, Registry};
use crate::program::statics::{StaticPeer, static_peers};
use lcore::mailbox::Message;
use nf_control::Config;
use nf_control::id_store::Fingerprint;
use nf_state::{Binding, Update};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What is read again, and what was in force so far.
pub struct Source {
    /// The configuration file.
    pub path: PathBuf,
    /// As read last.
    pub config: Config,
}

/// A peer as it should be.
struct Wanted<'k> {
    peer: PeerRef,
    spec: StaticPeer<'k>,
    local: Option<SocketAddr>,
}

impl Control<'_> {
    /// Reads everything again. When something is wrong with it, all stays as it is and the log says why.
    pub fn reload(&mut self) {
        if let Err(Failure::Usage(why) | Failure::Machine(why)) = self.try_reload() {
            tracing::error!("SIGHUP: nothing was changed: {why}");
        }
    }

    fn try_reload(&mut self) -> Result<(), Failure> {
        let config = Config::load(&self.reloading.path).map_err(Failure::usage)?;
        let keys = config.load_keys().map_err(Failure::usage)?;
        config.check_static_keys().map_err(Failure::usage)?;
        let mut warnings: Vec<String> = keys.iter().flatten().flat_map(|k| k.warnings.clone()).collect();
        let old = &self.reloading.config;
        if old.tunnels.len() != config.tunnels.len() {
            return Err(Failure::usage(
                "the number of tunnels has changed, which needs a restart",
            ));
        }
        for ((key, before), (_, now)) in fixed(old).into_iter().zip(fixed(&config)) {
            if before != now {
                warnings.push(format!("{key} has changed, which needs a restart"));
            }
        }
        let mut listen = Listen::new(&config, &keys, &mut warnings)?;
        listen.keep_sockets(&self.listen);
        let own = if listen.has_wildcard() {
            self.host_addresses()
        } else {
            Vec::new()
        };
        let listeners = listen.listeners(&own).map_err(Failure::usage)?;
        let mut wanted = Vec::new();
        for (tunnel, (settings, keys)) in (0u8..).zip(config.tunnels.iter().zip(&keys)) {
            let specs = static_peers(keys.as_ref(), Some(settings));
            check_remotes(tunnel.into(), &specs)?;
            let side = &self.tunnels[usize::from(tunnel)];
            if side.claim.is_some() && !specs.is_empty() {
                return Err(Failure::usage(format!(
                    "tunnel[{tunnel}]: a daemon drives {}, which can have no static peers meanwhile",
                    settings.interface
                )));
            }
            for spec in specs {
                let first = || {
                    let remote = spec.remote?;
                    listen.local_for(tunnel, remote, &own, self.preferred_source(remote.ip()))
                };
                let local = spec.local.or_else(first);
                let peer = (tunnel, spec.id);
                wanted.push(Wanted { peer, spec, local });
            }
        }
        let [added, changed, removed] = self.reconcile(wanted)?;
        warnings.iter().for_each(|w| tracing::warn!("{w}"));
        if !listen.is_configured_as(&self.listen) {
            self.listen = listen;
            self.send(|_| Message::Listen(Box::new(listeners.clone())));
            self.bind_locals(&own);
        }
        self.reloading.config = config;
        tracing::info!("SIGHUP: {added} peers added, {changed} changed, {removed} removed");
        Ok(())
    }

    /// Makes the peers what they should be; how many were added, changed and removed. An error leaves all as it was.
    fn reconcile(&mut self, wanted: Vec<Wanted>) -> Result<[usize; 3], Failure> {
        let registry = self.registry.clone();
        let mut registry = lock(&registry);
        let mut new = self.make_keys(&registry, &wanted)?;
        let stays = |peer: PeerRef| wanted.iter().any(|w| w.peer == peer);
        let gone: Vec<PeerRef> = registry
            .iter()
            .filter(|(peer, entry)| entry.driven.is_none() && !stays(*peer))
            .map(|(peer, _)| peer)
            .collect();
        self.remove_all(&mut registry, &gone);
        let (mut added, mut changed, mut old) = (Vec::new(), Vec::new(), Vec::new());
        for w in wanted {
            let keys = new.remove(&w.peer).unwrap_or_default();
            match registry.get(w.peer) {
                None => {
                    let entry = Entry::new(&w.spec, keys.into_iter().collect(), w.local, self.workers.len());
                    self.add(&mut registry, w.peer, entry);
                    added.push(w.peer);
                }
                Some(entry) if keys.is_empty() && is_same(entry, &w.spec) => {}
                Some(_) => {
                    old.extend(self.change(&mut registry, &w, keys));
                    changed.push(w.peer);
                }
            }
        }
        drop(registry);
        // After all of them gave up their former addresses: two may have exchanged theirs.
        added.iter().chain(&changed).for_each(|peer| self.bind(*peer));
        // Only once the workers send under the new keys: no packet finds none.
        if !old.is_empty() {
            let _ = self.wait_until_applied();
            self.keys.stop(&old);
            self.keys.settle();
        }
        for tunnel in 0..self.tunnels.len() {
            self.put_neighbours(tunnel);
            self.refresh_routes(tunnel);
        }
        Ok([added.len(), changed.len(), gone.len()])
    }

    /// Makes the keys that no peer has yet, all by one reservation.
    fn make_keys(
        &mut self,
        registry: &Registry,
        wanted: &[Wanted],
    ) -> Result<HashMap<PeerRef, Vec<HeldKey>>, Failure> {
        let (mut names, mut owners) = (Vec::new(), Vec::new());
        for w in wanted {
            let has = |key: &&&_| {
                registry
                    .get(w.peer)
                    .is_some_and(|e| e.keys.iter().any(|h| h.is(key)))
            };
            for key in w.spec.keys.iter().filter(|key| !has(key)) {
                let encrypt = Fingerprint::of(key.cipher, &key.encrypt);
                let name = format!("{}, key {}", registry.name(w.peer), key.key_id);
                if let Some((other, _)) = registry
                    .iter()
                    .find(|(_, e)| e.keys.iter().any(|h| h.stored() == Some(encrypt)))
                {
                    return Err(Failure::usage(format!(
                        "{name}: this key is in use as one of {}: remove it there first, then add it here",
                        registry.name(other)
                    )));
                }
                names.push((name, *key));
                owners.push(w.peer);
            }
        }
        let mut made: HashMap<PeerRef, Vec<HeldKey>> = HashMap::new();
        for (owner, key) in owners.into_iter().zip(self.keys.make(&names)?) {
            made.entry(owner).or_default().push(key);
        }
        Ok(made)
    }

    /// A new peer: to the workers, with its timers.
    pub(super) fn add(&mut self, registry: &mut Registry, peer: PeerRef, entry: Entry) {
        if let Some(keepalive) = entry.timers() {
            self.timers.insert(peer, keepalive, self.now());
        }
        registry.tunnels[usize::from(peer.0)].peers.insert(peer.1, entry);
        self.publish(registry, peer);
    }

    /// Gives the workers the peer as the registry has it now, bound to no address. Keys, endpoint and counters are shared,
    /// so nothing of a peer that is there already is lost.
    pub(super) fn publish(&self, registry: &mut Registry, (tunnel, id): PeerRef) {
        if let Some(entry) = registry.get_mut((tunnel, id)) {
            entry.bound = None;
            self.update(tunnel, |worker| Update::AddPeer(Box::new(entry.peer(worker))));
        }
    }

    /// A peer that is there and of which something is different. `new`: the keys that it did not have. Returns
    /// those that it has no longer.
    fn change(&mut self, registry: &mut Registry, w: &Wanted, mut new: Vec<HeldKey>) -> Vec<HeldKey> {
        let now = self.now();
        let Some(entry) = registry.get_mut(w.peer) else {
            return new;
        };
        let mut held: Vec<_> = std::mem::take(&mut entry.keys).into_iter().collect();
        let mut keys = Vec::new();
        for key in &w.spec.keys {
            let from = if held.iter().any(|h| h.is(key)) {
                &mut held
            } else {
                &mut new
            };
            if let Some(at) = from.iter().position(|h| h.is(key)) {
                keys.push(from.remove(at));
            }
        }
        entry.keys = keys.into_iter().collect();
        if let (Some(remote), Some(local)) = (w.spec.remote, w.local)
            && (entry.remote, entry.local) != (w.spec.remote, w.spec.local)
        {
            let way = None;
            entry.endpoint.set(&Binding { remote, local, way });
        }
        if entry.keepalive != w.spec.keepalive {
            entry.keepalive = w.spec.keepalive;
            match entry.timers() {
                Some(keepalive) => self.timers.insert(w.peer, keepalive, now),
                None => self.timers.remove(w.peer),
            }
        }
        let before = std::mem::replace(&mut entry.addresses, w.spec.addresses.clone());
        (entry.remote, entry.local) = (w.spec.remote, w.spec.local);
        entry.networks.clone_from(&w.spec.networks);
        let lost: Vec<_> = before
            .into_iter()
            .filter(|a| !w.spec.addresses.contains(a))
            .collect();
        self.publish(registry, w.peer);
        if let Some(index) = self.tunnels[usize::from(w.peer.0)].index
            && let Err(e) = self.kernel.netlink.remove_neighbours(index, &lost)
        {
            tracing::debug!("{e}");
        }
        held
    }
}

/// Whether a peer is as specified, its keys being all there.
fn is_same(entry: &Entry, spec: &StaticPeer) -> bool {
    entry.addresses == spec.addresses
        && entry.networks == spec.networks
        && entry.keepalive == spec.keepalive
        && (entry.remote, entry.local) == (spec.remote, spec.local)
        && entry.keys.iter().count() == spec.keys.len()
        && entry.keys.iter().zip(&spec.keys).all(|(held, key)| held.is(key))
}

/// Name and value of what is read at the start only.
fn fixed(config: &Config) -> Vec<(String, String)> {
    let Config {
        nic,
        host,
        control,
        metrics,
        ..
    } = config;
    let mut all = vec![
        ("name".into(), config.name.clone()),
        ("eal".into(), format!("{:?}", config.eal)),
        ("lcores".into(), format!("{:?}", config.lcores)),
        ("burst".into(), config.burst.to_string()),
        ("batch".into(), config.batch.to_string()),
        ("lookahead".into(), format!("{:?}", config.lookahead)),
        ("mbufs".into(), format!("{:?}", config.mbufs)),
        ("idle_sleep_us".into(), config.idle_sleep_us.to_string()),
        ("state_file".into(), config.state_file.display().to_string()),
        ("nic".into(), format!("{nic:?}")),
        ("host".into(), format!("{host:?}")),
        ("control".into(), format!("{control:?}")),
        ("metrics".into(), format!("{metrics:?}")),
    ];
    for (i, t) in config.tunnels.iter().enumerate() {
        let value = format!(
            "{:?}",
            (
                &t.interface,
                &t.kind,
                t.mode,
                t.mtu,
                t.mss,
                t.source_check,
                t.spread_peers,
                t.next_hop
            )
        );
        all.push((
            format!("tunnel[{i}], other than its peers, keys and listening addresses,"),
            value,
        ));
    }
    all
}

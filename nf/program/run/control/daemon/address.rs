//! Peers that have floated under a daemon that is not told so (family `ovpn-dco-v2`): it goes on sending their control packets to
//! where they were, and takes only what comes from there. So the host port's datagrams of such a peer are translated,
//! as long as nobody else is at either address.

use crate::program::run::control::{Control, lock};
use lcore::mailbox::Message;
use nf_control::dco::Family;
use nf_kernel::RouteTo;
use nf_path::translate::{Translation, Translations};
use nf_state::Event;
use std::collections::HashMap;
use std::time::Duration;

/// Neighbours that are looked after in one go.
const AT_A_TIME: usize = 256;

/// How long what was sent from a peer's former address may be on its way.
const LATE: Duration = Duration::from_secs(3);

/// What is translated.
#[derive(Default)]
pub struct Addresses {
    /// Whether peers have come, moved or gone since it was worked out.
    pub stale: bool,
    /// What the workers have.
    all: Vec<Translation>,
    /// Whether the workers have ended an entry that is to stay.
    outdated: bool,
    /// Where the next look at [`Addresses::all`] begins.
    next: usize,
}

impl Addresses {
    /// Whether nothing is translated.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl Control<'_> {
    /// Gives the workers what is to be translated now, if that has changed.
    pub(in crate::program::run::control) fn translate(&mut self) {
        if !std::mem::take(&mut self.translations.stale) {
            return;
        }
        let registry = self.registry.clone();
        let registry = lock(&registry);
        let mut all = Vec::new();
        for ((tunnel, peer), entry) in registry.iter() {
            let (Some(driven), Some(binding)) = (&entry.driven, entry.endpoint.read()) else {
                continue;
            };
            let moved = binding.remote != driven.known;
            if !moved || !driven.translate || driven.family != Family::DcoV2 {
                continue;
            }
            if binding.remote.is_ipv4() != driven.known.is_ipv4() {
                continue;
            }
            all.push(Translation {
                tunnel,
                peer,
                known: driven.known,
                current: binding.remote,
                local: binding.local,
                way: binding.way,
            });
        }
        drop(registry);
        let outdated = std::mem::take(&mut self.translations.outdated);
        if all == self.translations.all && !outdated {
            return;
        }
        self.send(|_| Message::Translate(Box::new(Translations::new(all.iter().copied()))));
        let before = std::mem::take(&mut self.translations.all);
        let before: HashMap<_, _> = before.iter().map(|t| ((t.tunnel, t.peer), t)).collect();
        let new = |t: &&Translation| before.get(&(t.tunnel, t.peer)) != Some(t);
        for translation in all.iter().filter(new).take(AT_A_TIME) {
            self.stand_in(translation);
        }
        self.translations.all = all;
    }

    /// Somebody else is where a floated peer was, or is: nothing of it is translated any more.
    pub(in crate::program::run::control) fn end_translation(&mut self, tunnel: u8, event: Event) {
        let (peer, why) = match event {
            Event::NewSession { peer } => (peer, "a new session begins at its address".to_owned()),
            Event::OldAddress { peer, remote } => (
                peer,
                format!("somebody else is heard from its former address, {remote}"),
            ),
            Event::Float { .. } | Event::FloatHeld { .. } => return,
        };
        let mut registry = lock(&self.registry);
        let name = registry.name((tunnel, peer));
        let Some(entry) = registry.get_mut((tunnel, peer)) else {
            return;
        };
        let now = entry.endpoint.read().map(|b| b.remote);
        if let Some(driven) = &mut entry.driven {
            let late = driven.moved.is_some_and(|moved| moved.elapsed() < LATE);
            if matches!(event, Event::OldAddress { .. }) && (late || now == Some(driven.known)) {
                // It was on its way when the peer moved, or the peer is back. The workers' tables, which have ended the
                // entry, are made anew.
                (self.translations.stale, self.translations.outdated) = (true, true);
                return;
            }
            driven.translate = false;
            tracing::warn!("{name}: {why}: the daemon reaches it no more until it connects anew");
            self.translations.stale = true;
        }
    }

    /// Looks after the neighbours of [`Control::stand_in`], so many at a time.
    pub(in crate::program::run::control) fn keep_stand_ins(&mut self) {
        let Addresses { all, next, .. } = &mut self.translations;
        let some: Vec<Translation> = all
            .iter()
            .cycle()
            .skip(*next)
            .take(AT_A_TIME.min(all.len()))
            .copied()
            .collect();
        *next = (*next + some.len()) % all.len().max(1);
        some.iter().for_each(|translation| self.stand_in(translation));
    }

    /// Has the kernel send what is for an address on the link where nobody is any more: it is translated on its way. Once
    /// somebody answers for it, that is left alone.
    fn stand_in(&mut self, translation: &Translation) {
        let (Some(host), Some(way)) = (self.host, translation.way) else {
            return;
        };
        let address = translation.known.ip();
        let netlink = &mut self.kernel.netlink;
        let on_link = |r: &RouteTo| r.oif == host && r.gateway.is_none() && !r.local;
        if !matches!(netlink.route_to(address, Some(host)), Ok(Some(route)) if on_link(&route)) {
            return;
        }
        let there = netlink.neighbour(host, address).ok().flatten();
        if there.is_none_or(|n| n.usable().is_none())
            && let Err(e) = netlink.put_reachable(host, address, way.dst)
        {
            tracing::debug!("{e}");
        }
    }
}

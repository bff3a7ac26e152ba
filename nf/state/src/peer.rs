//! A peer, as one lcore sees it.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use crate::{Counter, KeySlots, Millis};

/// Receive counters of one peer on one lcore, which is the only writer; readers sum over lcores. One cache line.
/// What is counted when is as in the Linux `ovpn` driver.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct PeerCounters {
    /// Datagrams for this peer, counted before anything about them was verified.
    pub link_rx_packets: Counter,
    /// UDP payload bytes of those.
    pub link_rx_bytes: Counter,
    /// Inner packets delivered.
    pub vpn_rx_packets: Counter,
    /// Bytes of those, from the inner IP header on.
    pub vpn_rx_bytes: Counter,
    /// Authentic keepalives (pings); in no VPN counter.
    pub keepalives_rx: Counter,
    /// When the last authentic record that is no replay arrived, in [`Millis`]; 0 when none did.
    pub last_recv_ms: Counter,
}

const _: () = assert!(size_of::<PeerCounters>() == 64 && align_of::<PeerCounters>() == 64);

impl PeerCounters {
    /// Notes that an authentic record that is no replay arrived at `now`.
    #[inline]
    pub fn received(&self, now: Millis) {
        self.last_recv_ms.set(now.0);
    }
}

/// A peer's own addresses in the VPN: the first of each family, which nearly all its packets come from. The rest is in
/// [`crate::Routes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// VPN IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// VPN IPv6 address.
    pub v6: Option<Ipv6Addr>,
}

impl Addresses {
    /// Whether an inner IPv4 source, in network order, is the peer's own address.
    #[inline]
    pub fn is_own_v4(&self, source: [u8; 4]) -> bool {
        self.v4.is_some_and(|own| own.octets() == source)
    }

    /// Whether an inner IPv6 source, in network order, is the peer's own address.
    #[inline]
    pub fn is_own_v6(&self, source: [u8; 16]) -> bool {
        self.v6.is_some_and(|own| own.octets() == source)
    }
}

/// A peer as one lcore sees it: one cache line, so that finding the peer reads all of it.
#[repr(align(64))]
pub struct Peer<K> {
    /// Peer id, 0 to 0xfffffe.
    pub id: u32,
    /// Its keys.
    pub keys: KeySlots<K>,
    /// Its own addresses in the VPN.
    pub addresses: Addresses,
    /// Its counters on this lcore.
    pub counters: Arc<PeerCounters>,
}

const _: () = assert!(size_of::<Peer<[u8; 1]>>() == 64);

impl<K> Peer<K> {
    /// A peer without keys, with counters at zero.
    pub fn new(id: u32, addresses: Addresses) -> Self {
        Peer {
            id,
            keys: KeySlots::new(),
            addresses,
            counters: Arc::default(),
        }
    }
}

impl<K> fmt::Debug for Peer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Peer {
            id, keys, addresses, ..
        } = self;
        let mut out = f.debug_struct("Peer");
        out.field("id", id)
            .field("keys", keys)
            .field("addresses", addresses)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_compared_whole_and_per_family() {
        let a = Addresses {
            v4: Some(Ipv4Addr::new(10, 8, 0, 2)),
            v6: None,
        };
        assert!(a.is_own_v4([10, 8, 0, 2]));
        assert!(!a.is_own_v4([10, 8, 0, 3]));
        assert!(
            !a.is_own_v6([0; 16]),
            "no IPv6 address is not the unspecified one"
        );
        assert!(!Addresses::default().is_own_v4([0; 4]));
        let b = Addresses {
            v4: None,
            v6: Some(Ipv6Addr::LOCALHOST),
        };
        assert!(b.is_own_v6(Ipv6Addr::LOCALHOST.octets()));
        assert!(!b.is_own_v6(Ipv6Addr::UNSPECIFIED.octets()));
    }

    #[test]
    fn time_of_the_last_record_is_kept() {
        let c = PeerCounters::default();
        c.received(Millis(5));
        c.received(Millis(9));
        assert_eq!(c.last_recv_ms.get(), 9);
    }
}

//! A peer, as one lcore sees it.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use crate::{Counter, Endpoint, KeySlots, Millis};

/// Counters of one peer on one lcore, which is the only writer; readers sum over lcores. A pair of cache lines, one for
/// each direction. What is counted when is as in the Linux `ovpn` driver.
#[derive(Debug, Default)]
#[repr(C, align(128))]
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
    spare: [Counter; 2],
    /// Records sealed and handed on to be sent, pings included; counted also when the way to the peer is not known.
    pub link_tx_packets: Counter,
    /// UDP payload bytes of those.
    pub link_tx_bytes: Counter,
    /// Inner packets for this peer, counted before they were sealed, also when there was no key for it. A super-frame
    /// counts once.
    pub vpn_tx_packets: Counter,
    /// Bytes of those, from the inner IP header on.
    pub vpn_tx_bytes: Counter,
    /// Keepalives (pings) sent; in no VPN counter.
    pub keepalives_tx: Counter,
    /// When the last record was sealed, in [`Millis`]; 0 when none was.
    pub last_sent_ms: Counter,
}

const _: () = assert!(size_of::<PeerCounters>() == 128 && align_of::<PeerCounters>() == 128);
const _: () = assert!(std::mem::offset_of!(PeerCounters, link_tx_packets) == 64);

impl PeerCounters {
    /// Notes that an authentic record that is no replay arrived at `now`.
    #[inline]
    pub fn received(&self, now: Millis) {
        self.last_recv_ms.set(now.0);
    }

    /// Notes that a record was sealed at `now`.
    #[inline]
    pub fn sent(&self, now: Millis) {
        self.last_sent_ms.set(now.0);
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
    /// The id in the records that it gets (`OVPN_A_PEER_TX_ID` of the Linux `ovpn` netlink interface): its own, as a
    /// rule.
    pub tx_id: u32,
    /// Its keys.
    pub keys: KeySlots<K>,
    /// Its own addresses in the VPN.
    pub addresses: Addresses,
    /// Its counters on this lcore.
    pub counters: Arc<PeerCounters>,
    /// Where it is; shared by all lcores.
    pub endpoint: Arc<Endpoint>,
}

const _: () = assert!(size_of::<Peer<[u8; 1]>>() == 64);

impl<K> Peer<K> {
    /// A peer without keys and without a remote, with counters at zero.
    pub fn new(id: u32, addresses: Addresses) -> Self {
        Peer {
            id,
            tx_id: id,
            keys: KeySlots::new(),
            addresses,
            counters: Arc::default(),
            endpoint: Arc::default(),
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

//! Where a peer is: the outer addresses that its records come from and ours go to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};

use nf_wire::ether::{Mac, Tags};
use nf_wire::frame::Outer;
use spin::mutex::SpinMutex;

/// How a frame gets to a remote on the NIC port's link: the next hop's MAC address and the VLAN tags. The source MAC
/// address is the NIC port's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Destination MAC address.
    pub dst: Mac,
    /// VLAN tags, none as a rule.
    pub tags: Tags,
}

/// What a peer is bound to (`struct ovpn_bind` of the Linux `ovpn` driver has the addresses).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Where records for it go. An IPv6 scope id is not kept: there is one link.
    pub remote: SocketAddr,
    /// Where they leave from: the address and port that the peer contacted.
    pub local: SocketAddr,
    /// The way to the remote; None when it is not known.
    pub way: Option<Way>,
}

/// Flow words (see [`Outer::flow_words`]), then the way in two.
type Words = [u64; 7];

const WAY_KNOWN: u64 = 1 << 63;

/// Two copies of the words: one is read, the other written next.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Copies([AtomicWords; 2]);

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct AtomicWords([AtomicU64; 7]);

/// Where a peer is, shared by all lcores and the control side.
///
/// A sequence lock with two copies (the kernel's `seqcount_latch_t` is one): a reader never waits for a writer that was
/// interrupted, and tries again only when two writes fell into one read. Writers exclude each other by a lock; a worker
/// only tries it, so it never waits either.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Endpoint {
    copies: Copies,
    /// The last write that began, and the last that ended.
    begun: AtomicU64,
    ended: AtomicU64,
    writer: SpinMutex<()>,
    /// Serial number of the key whose record moved it last.
    serial: AtomicU64,
    /// A hash of the address last reported as held by another peer.
    held: AtomicU64,
}

/// What a record from another place did to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The remote is another one now.
    Remote,
    /// The local address, port or the way is another one now; the remote is as before.
    Local,
    /// Nothing: the key is older than the one that moved it last, or somebody else is writing. The next record will do.
    No,
}

impl Endpoint {
    /// A peer whose remote is not known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A peer that is bound from the start.
    pub fn bound(binding: &Binding) -> Self {
        let endpoint = Self::new();
        endpoint.set(binding);
        endpoint
    }

    /// The binding. None while the remote is not known.
    #[inline]
    pub fn read(&self) -> Option<Binding> {
        decode(&self.words())
    }

    /// Replaces the binding; for the control side.
    pub fn set(&self, binding: &Binding) {
        let lock = self.writer.lock();
        self.write(&encode(binding));
        drop(lock);
    }

    /// Sets the way, if the peer is still bound to this remote and local address; returns whether it is. For the
    /// control side, which looked it up in the meantime.
    pub fn set_way(&self, remote: SocketAddr, local: SocketAddr, way: Option<Way>) -> bool {
        let lock = self.writer.lock();
        let wanted = encode(&Binding { remote, local, way });
        let now = self.words();
        let same = now[..5] == wanted[..5];
        if same && now != wanted {
            self.write(&wanted);
        }
        drop(lock);
        same
    }

    /// Whether a received datagram comes from this peer's remote to its local address and port, and the way back is
    /// known: nothing is to be learned from it. May rarely be false while another lcore is writing, never wrongly true.
    #[inline]
    pub fn holds(&self, received: &Outer) -> bool {
        let copy = self.current();
        let words = received.flow_words();
        let no_way = !copy[5].load(Relaxed) & WAY_KNOWN;
        let differ = copy
            .iter()
            .zip(words)
            .fold(no_way, |d, (a, b)| d | (a.load(Relaxed) ^ b));
        differ == 0
    }

    /// Whether this is the way in use.
    #[inline]
    pub fn is_way(&self, way: &Way) -> bool {
        let copy = self.current();
        encode_way(Some(*way)) == [copy[5].load(Relaxed), copy[6].load(Relaxed)]
    }

    /// Binds the peer to where a datagram came from. The caller saw that it is authentic and that its packet id is
    /// above the highest seen before; `serial` is its key's. A record under an older key than the one that moved the
    /// endpoint last does not move it: it may have been long on its way.
    pub fn move_to(&self, received: &Outer, way: Way, serial: u64) -> Moved {
        let Some(_lock) = self.writer.try_lock() else {
            return Moved::No;
        };
        if serial < self.serial.load(Relaxed) {
            return Moved::No;
        }
        let before = self.words();
        let flow = received.flow_words();
        let [first, second] = encode_way(Some(way));
        let words = [flow[0], flow[1], flow[2], flow[3], flow[4], first, second];
        if words == before {
            return Moved::No;
        }
        self.serial.store(serial, Relaxed);
        self.write(&words);
        // The lower half of the ports is the local one.
        if before[..2] == words[..2] && before[4] >> 16 == words[4] >> 16 {
            Moved::Local
        } else {
            Moved::Remote
        }
    }

    /// Notes that another peer holds where this datagram came from. Whether that is news: once per address.
    pub fn note_held(&self, received: &Outer) -> bool {
        let hash = received.flow_hash() | 1;
        self.held.swap(hash, Relaxed) != hash
    }

    #[inline]
    fn current(&self) -> &[AtomicU64; 7] {
        &self.copies.0[self.ended.load(Acquire) as usize & 1].0
    }

    #[inline]
    fn words(&self) -> Words {
        loop {
            let ended = self.ended.load(Acquire);
            let copy = &self.copies.0[ended as usize & 1].0;
            let words: Words = std::array::from_fn(|i| copy[i].load(Relaxed));
            fence(Acquire);
            // The next write goes into the other copy; only the one after it overwrites this one.
            if self.begun.load(Relaxed) <= ended + 1 {
                return words;
            }
        }
    }

    /// For whoever holds the lock.
    fn write(&self, words: &Words) {
        let number = self.ended.load(Relaxed) + 1;
        self.begun.store(number, Relaxed);
        // A reader that sees any of the words below sees that this write has begun.
        fence(Release);
        let copy = &self.copies.0[number as usize & 1].0;
        for (to, word) in copy.iter().zip(words) {
            to.store(*word, Relaxed);
        }
        self.ended.store(number, Release);
    }
}

fn address_words(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(a) => [0, u64::from(u32::from(a))],
        IpAddr::V6(a) => {
            let bits = u128::from(a);
            [(bits >> 64) as u64, bits as u64]
        }
    }
}

fn encode(binding: &Binding) -> Words {
    let Binding { remote, local, way } = binding;
    let version = if remote.is_ipv4() { 4 } else { 6 };
    let [a, b] = address_words(remote.ip());
    let [c, d] = address_words(local.ip());
    let [e, f] = encode_way(*way);
    let ports = version << 32 | u64::from(remote.port()) << 16 | u64::from(local.port());
    [a, b, c, d, ports, e, f]
}

#[inline]
fn encode_way(way: Option<Way>) -> [u64; 2] {
    let Some(Way { dst, tags }) = way else {
        return [0; 2];
    };
    let [a, b, c, d, e, f] = dst;
    let mac = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    let kinds = u64::from(tags.count & 3) | u64::from(tags.service & 3) << 2;
    [
        WAY_KNOWN | kinds << 48 | mac,
        u64::from(tags.tci[0]) << 16 | u64::from(tags.tci[1]),
    ]
}

#[inline]
fn decode(words: &Words) -> Option<Binding> {
    let [a, b, c, d, ports, e, f] = *words;
    let ip = |high: u64, low: u64| match ports >> 32 {
        4 => Some(IpAddr::V4(Ipv4Addr::from(low as u32))),
        6 => Some(IpAddr::V6(Ipv6Addr::from(
            u128::from(high) << 64 | u128::from(low),
        ))),
        _ => None,
    };
    let way = (e & WAY_KNOWN != 0).then(|| {
        let [_, _, dst @ ..] = e.to_be_bytes();
        let kinds = (e >> 48) as u8;
        let tags = Tags {
            count: kinds & 3,
            service: kinds >> 2 & 3,
            tci: [(f >> 16) as u16, f as u16],
        };
        Way { dst, tags }
    });
    Some(Binding {
        remote: SocketAddr::new(ip(a, b)?, (ports >> 16) as u16),
        local: SocketAddr::new(ip(c, d)?, ports as u16),
        way,
    })
}

#[cfg(test)]
mod tests;

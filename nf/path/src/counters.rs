//! What one lcore counts: one writer, summed by readers.

use crate::verdict::DropReason;
use nf_state::Counter;

/// Buckets of a size histogram: 0, 1, 2, 3-4, 5-8, ... 129-256.
pub const BUCKETS: usize = 10;

/// A histogram of burst or batch sizes, in powers of two.
#[derive(Debug, Default)]
pub struct Histogram([Counter; BUCKETS]);

impl Histogram {
    /// The bucket of a size of 0 to 256.
    #[inline]
    pub const fn bucket(size: usize) -> usize {
        let bucket = if size < 2 {
            size
        } else {
            (usize::BITS - (size - 1).leading_zeros()) as usize + 1
        };
        if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
    }

    /// The sizes that bucket `i` holds, as text: "3-4".
    pub fn label(i: usize) -> String {
        match i {
            0..=2 => i.to_string(),
            _ => format!("{}-{}", (1usize << (i - 2)) + 1, 1usize << (i - 1)),
        }
    }

    /// Counts one burst or batch.
    #[inline]
    pub fn add(&self, size: usize) {
        self.0[Self::bucket(size)].add(1);
    }

    /// The counts by bucket.
    pub fn get(&self) -> [u64; BUCKETS] {
        core::array::from_fn(|i| self.0[i].get())
    }
}

/// One value for each [`DropReason`], in that order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByReason<T>([T; DropReason::COUNT]);

impl<T: Default> Default for ByReason<T> {
    fn default() -> Self {
        ByReason(core::array::from_fn(|_| T::default()))
    }
}

impl<T> core::ops::Deref for ByReason<T> {
    type Target = [T; DropReason::COUNT];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $field:ident,)+) => {
        /// The counters of one lcore. The worker on that lcore is the only writer; anyone may read.
        #[derive(Debug, Default)]
        #[repr(C, align(128))]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $field: Counter,)+
            drops: ByReason<Counter>,
            /// Bursts that the NIC port gave, by size.
            pub bursts: Histogram,
            /// Batches, by records.
            pub batches: Histogram,
        }

        /// The values of [`Counters`] at one time, of one lcore or summed.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[doc = $doc])+ pub $field: u64,)+
            /// By [`DropReason`].
            pub drops: ByReason<u64>,
            /// Bursts that the NIC port gave, by [`Histogram`] bucket.
            pub bursts: [u64; BUCKETS],
            /// Batches by records, by [`Histogram`] bucket.
            pub batches: [u64; BUCKETS],
        }

        impl Counters {
            /// The values now. Fields that belong together may be one burst apart.
            pub fn totals(&self) -> Totals {
                Totals {
                    $($field: self.$field.get(),)+
                    drops: ByReason(core::array::from_fn(|i| self.drops[i].get())),
                    bursts: self.bursts.get(),
                    batches: self.batches.get(),
                }
            }
        }

        impl Totals {
            /// Name and value of every plain counter, in the order of the path.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field),)+].into_iter()
            }

            /// Combines two field by field.
            fn zip(&self, other: &Totals, f: impl Fn(u64, u64) -> u64) -> Totals {
                Totals {
                    $($field: f(self.$field, other.$field),)+
                    drops: ByReason(core::array::from_fn(|i| f(self.drops[i], other.drops[i]))),
                    bursts: core::array::from_fn(|i| f(self.bursts[i], other.bursts[i])),
                    batches: core::array::from_fn(|i| f(self.batches[i], other.batches[i])),
                }
            }
        }
    };
}

counters! {
    /// Frames that the NIC port gave.
    nic_rx,
    /// Bytes of those frames.
    nic_rx_bytes,
    /// DATA_V2 datagrams to a listening address, reassembled ones included.
    records,
    /// Records that were authentic and not replayed.
    authentic,
    /// Keepalives among them.
    keepalives,
    /// Frames that the tunnel port took.
    tunnel_tx,
    /// Bytes of those frames.
    tunnel_tx_bytes,
    /// Frames for the host port.
    to_host,
    /// Frames for the host port that are UDP to a listening address and port: the daemon's control channel.
    to_daemon,
    /// Frames that the host port took.
    host_tx,
    /// Fragments to a listening address.
    fragments,
    /// Datagrams made whole from them.
    reassembled,
    /// Frames that the host port gave.
    host_rx,
    /// Frames from the host port that the NIC port took.
    nic_tx,
    /// Frames that the tunnel port gave.
    tunnel_rx,
    /// Bytes of those frames.
    tunnel_rx_bytes,
    /// Records sealed, keepalives included.
    sealed,
    /// Frames with records, or their fragments, that the NIC port took.
    records_tx,
    /// Bytes of those frames.
    records_tx_bytes,
    /// Fragments among them.
    fragments_tx,
    /// Frames of the kernel's own neighbour discovery and the like that are for no peer.
    kernel_noise,
    /// Address resolutions of the kernel that were answered in a peer's place.
    neighbour_replies,
    /// Inner TCP connections whose MSS was lowered, each direction by itself.
    mss_clamped,
    /// Checksums that a sender had left partial and that were completed.
    checksums_completed,
    /// Super-frames that were cut into segments.
    segmented,
    /// Frames for the lcore that seals for their peer, `steer_full` ones included.
    steered,
    /// Endpoints that moved to where an authentic record came from.
    floats,
    /// Floats that were not made, since another peer holds the address.
    floats_held,
    /// Control packets for the daemon whose source is the address that it knows of a peer that has floated.
    translated_rx,
    /// Datagrams of the daemon to such a peer that go to where the peer is.
    translated_tx,
    /// Datagrams that were to be translated, or fragments that may be of such, and went on as they were: source-routed,
    /// authenticated, in fragments, or no large buffer was free for a copy.
    untranslated,
    /// Events that the control side was too slow for.
    events_lost,
    /// TSC cycles spent in bursts that were not empty.
    busy_cycles,
}

impl Counters {
    /// Counts packets dropped for one reason.
    #[inline]
    pub fn count(&self, reason: DropReason, packets: u64) {
        self.drops[reason as usize].add(packets);
    }

    /// How many packets were dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize].get()
    }
}

impl Totals {
    /// Adds another lcore's values.
    pub fn plus(&self, other: &Totals) -> Totals {
        self.zip(other, u64::wrapping_add)
    }

    /// The difference to an earlier reading.
    pub fn since(&self, earlier: &Totals) -> Totals {
        self.zip(earlier, u64::wrapping_sub)
    }

    /// How many packets were dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// The reasons whose count is not zero.
    pub fn nonzero_drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL
            .iter()
            .map(|&d| (d, self.dropped(d)))
            .filter(|&(_, n)| n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_in_the_bucket_that_its_label_names() {
        for size in 0..=256usize {
            let label = Histogram::label(Histogram::bucket(size));
            let mut ends = label.split('-').map(|n| n.parse::<usize>().unwrap());
            let low = ends.next().unwrap();
            let high = ends.next().unwrap_or(low);
            assert!((low..=high).contains(&size), "{size} in {label}");
        }
    }

    #[test]
    fn totals_add_and_subtract() {
        let c = Counters::default();
        c.nic_rx.add(3);
        c.count(DropReason::BadTag, 2);
        c.bursts.add(64);
        let t = c.totals();
        assert_eq!(t.plus(&t).nic_rx, 6);
        assert_eq!(t.plus(&t).since(&t), t);
        assert_eq!(t.nonzero_drops().collect::<Vec<_>>(), [(DropReason::BadTag, 2)]);
    }

    #[test]
    fn counters_of_two_lcores_never_share_a_line() {
        assert_eq!(align_of::<Counters>(), 128);
        assert_eq!(size_of::<Counters>() % 128, 0);
    }
}

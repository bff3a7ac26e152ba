//! How many packet buffers a gateway needs, and what makes the number up.

use crate::program::exit::Failure;
use crate::program::setup::CACHE;
use lcore::reassembly::{MAX_DATAGRAMS, MAX_FRAGMENTS};
use nf_control::AutoOr;
use nf_path::burst::MAX_BURST;

/// Descriptors of each receive and each transmit ring.
pub const RING: u16 = 1024;

/// What buffers are needed for.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Ports: the NIC's, the host's, the tunnels'; each has a receive and a transmit ring per worker.
    pub ports: u32,
    /// Workers.
    pub workers: u32,
}

impl Needs {
    /// Both rings of each port. A full ring holds that many buffers for as long as its driver likes.
    fn rings(self) -> u32 {
        self.ports * self.workers * 2 * u32::from(RING)
    }

    /// The workers' and the main lcore's caches: `rte_mempool` flushes a cache only at one and a half times its size.
    fn caches(self) -> u32 {
        (self.workers + 1) * CACHE * 3 / 2
    }

    /// What a worker has in hand: a burst, and the batches made of it.
    fn bursts(self) -> u32 {
        self.workers * 2 * MAX_BURST as u32
    }

    /// The most that incomplete datagrams hold.
    fn reassembly(self) -> u32 {
        self.workers * MAX_DATAGRAMS * MAX_FRAGMENTS
    }

    /// With fewer, the rings alone could hold all buffers, and traffic would stop for good.
    pub fn minimum(self) -> u32 {
        self.rings() + self.caches() + self.bursts()
    }

    /// As `mbufs = "auto"` says: with as many as reassembly can hold, so fragments never starve the rings.
    pub fn auto(self) -> u32 {
        self.minimum() + self.reassembly()
    }

    /// Large buffers: as many as the transmit rings of the host and tunnel ports hold, and bursts. virtio-user gives a
    /// sent buffer back only when its ring is nearly full of sent ones: with fewer, it would keep them all for good.
    pub fn large(self) -> u32 {
        (self.ports - 1) * self.workers * u32::from(RING) + self.bursts()
    }

    /// The number of buffers to make.
    ///
    /// # Errors
    /// The configured number is less than the minimum.
    pub fn mbufs(self, configured: AutoOr<u32>) -> Result<u32, Failure> {
        let minimum = self.minimum();
        match configured {
            AutoOr::Auto => Ok(self.auto()),
            AutoOr::Value(n) if n >= minimum => Ok(n),
            AutoOr::Value(n) => Err(Failure::usage(format!(
                "mbufs: {n} are too few: at least {minimum} are needed ({} for the rings of {} ports, {} for caches, {} \
                 for bursts), {} or \"auto\" with room for fragments",
                self.rings(),
                self.ports,
                self.caches(),
                self.bursts(),
                self.auto(),
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Needs = Needs { ports: 3, workers: 1 };

    #[test]
    fn the_minimum_fills_rings_caches_and_bursts() {
        assert_eq!(ONE.minimum(), 3 * 2 * 1024 + 2 * 384 + 2 * 256);
        assert_eq!(ONE.auto(), ONE.minimum() + 8192);
        assert!(Needs { workers: 2, ..ONE }.minimum() > ONE.minimum());
        assert_eq!(ONE.large(), 2 * 1024 + 512, "host and tunnel, not the NIC");
    }

    #[test]
    fn too_few_are_refused_with_the_sum() {
        assert_eq!(ONE.mbufs(AutoOr::Auto), Ok(ONE.auto()));
        assert_eq!(ONE.mbufs(AutoOr::Value(ONE.minimum())), Ok(ONE.minimum()));
        let Err(Failure::Usage(line)) = ONE.mbufs(AutoOr::Value(ONE.minimum() - 1)) else {
            panic!("accepted")
        };
        for part in [
            "mbufs: 7423 are too few",
            "at least 7424",
            "6144 for the rings of 3 ports",
            "768",
            "512",
        ] {
            assert!(line.contains(part), "{line}");
        }
        assert!(!line.contains('\n'));
    }
}
